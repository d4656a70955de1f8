"""Logical time: integers that order the packets of a capture, and the ends of waits between them; clocks.

Packet n has the logical time ``n << BITS``. A wait that ends between two packets of a connection (a gap is given up)
gets a time between theirs. So the order of all events of a connection follows from its own packets alone.
:func:`packet_of` returns packet numbers.
"""

from typing import TypeVar

import numpy as np

from wiredecode.arrays import Int64s

BITS = 16
"""At most ``2 ** BITS - 1`` waits of a connection end between two packets of the capture; more share the last."""
END = (1 << 63) - 1
"""After every logical time, and every time in ns."""


Number = TypeVar("Number", int, Int64s)


def logical_time(number: Number) -> Number:
    """The logical time of a packet, or of each."""
    return number << BITS


def packet_of(time: int) -> int:
    """The first packet at or after a logical time."""
    return -(-time >> BITS)


def packets_of(times: Int64s) -> Int64s:
    """:func:`packet_of` of many times."""
    numbers: Int64s = -(-times >> BITS)
    return numbers


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


FEW = 24
"""Packets up to which a loop is faster than columns (measured)."""
LATEST = (1 << 62) - 1
"""A clock ends here, in the year 2116, and begins as long before 1970: the difference of two times fits 64 bits."""


class Clock:
    """The running maximum of packet times.

    A step back of more than ``step_ns`` (clock set, files out of order, one absurd time) shifts what
    follows, so that time always advances.
    """

    __slots__ = ("_step_ns", "now", "shift")

    def __init__(self, step_ns: int) -> None:
        self.now = -LATEST
        """The time of the last packet, ns."""
        self.shift = 0
        """Added to the times of packets since the last step back."""
        self._step_ns = step_ns

    def at(self, time_ns: int) -> int:
        """The time of the next packet, ns."""
        if self.now <= (moved := time_ns + self.shift) <= LATEST:  # nearly always
            self.now = moved
            return moved
        time = min(max(time_ns, -LATEST), LATEST)
        if self.now - (time + self.shift) > self._step_ns:
            self.shift = self.now - time
        self.now = min(max(self.now, time + self.shift), LATEST)
        return self.now

    def advance(self, time_ns: Int64s) -> Int64s:
        """The time of each of the next packets, ns."""
        if len(time_ns) >= FEW and self.shift <= LATEST:
            adjusted = within(time_ns) + self.shift
            clock: Int64s = np.clip(np.maximum.accumulate(adjusted), self.now, LATEST)
            if int((clock - adjusted).max()) <= self._step_ns:
                self.now = int(clock[-1])
                return clock
        return np.array([self.at(time) for time in time_ns.tolist()], np.int64)


def within(time_ns: Int64s) -> Int64s:
    """Packet times, the absurd ones made the latest or the earliest of a clock."""
    limited: Int64s = np.clip(time_ns, -LATEST, LATEST)
    return limited
