"""Moments of a connection: its packets, and the ends of waits between them, as integers in order.

Packet n is the moment ``n << BITS``. A wait that ends between two packets of a connection (a gap is given up) gets a
moment of its own, after the first and before the second of them, whatever other connections sent between: so the order
of all moments of a connection follows from its own packets. :func:`place` is where a moment lies among the packets of
the capture.
"""

from __future__ import annotations

BITS = 16
"""At most ``2 ** BITS - 1`` waits of a connection end between two packets of the capture; more share the last."""
END = (1 << 63) - 1
"""Capture time after every other."""


def at_packet(number: int) -> int:
    """The moment of a packet."""
    return number << BITS


def place(moment: int) -> int:
    """The number of the packet at which a moment takes its place in the capture."""
    return -(-moment >> BITS)


class Moments:
    """The moments of one connection at which a wait ended."""

    __slots__ = ("_clock", "_last")

    def __init__(self) -> None:
        self._last = self._clock = 0

    def after(self, clock: int, number: int) -> int:
        """The moment of what ended at capture time ``clock``, before packet ``number``; in order of time."""
        if clock > self._clock:
            self._clock = clock
            return self.before(number)
        return self._last

    def before(self, number: int) -> int:
        """A new moment before packet ``number``."""
        latest = max(number, place(self._last))
        self._last = max(at_packet(latest - 1) + 1, min(self._last + 1, at_packet(latest) - 1))
        return self._last
