"""Logical time: integers that order the packets of a capture, and the ends of waits between them.

Packet n has the logical time ``n << BITS``. A wait that ends between two packets of a connection (a gap is given up)
gets a time between theirs. So the order of all events of a connection follows from its own packets alone.
:func:`packet_of` returns packet numbers.
"""

BITS = 16
"""At most ``2 ** BITS - 1`` waits of a connection end between two packets of the capture; more share the last."""
END = (1 << 63) - 1
"""After every logical time, and every time in ns."""


def logical_time(number: int) -> int:
    return number << BITS


def packet_of(time: int) -> int:
    """The first packet at or after a logical time."""
    return -(-time >> BITS)


class WaitEnds:
    """Makes the logical times at which waits of one connection end."""

    __slots__ = ("_last", "_number", "clock")

    def __init__(self) -> None:
        self._last = self._number = 0
        self.clock = -END
        """Clock of the connection, ns, at the last end made by :meth:`after`."""

    def after(self, clock: int, number: int) -> int:
        """The logical time of a wait that ended at ``clock``, before packet ``number``; ends it causes get the same."""
        if clock > self.clock or number > self._number:
            self.clock = max(clock, self.clock)
            return self.before(number)
        return self._last

    def before(self, number: int) -> int:
        """A new logical time before packet ``number``."""
        self._number = max(number, self._number)
        latest = max(number, packet_of(self._last))
        self._last = max(logical_time(latest - 1) + 1, min(self._last + 1, logical_time(latest) - 1))
        return self._last
