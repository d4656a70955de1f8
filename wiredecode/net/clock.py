"""Capture time: packet times made monotone, so that a rule on time does not depend on where a batch ends."""

from __future__ import annotations

import numpy as np

from wiredecode.arrays import Int64s

FEW = 24
"""Packets up to which a loop is faster than columns (measured)."""
LATEST = 1 << 62
"""Capture time ends here, in the year 2116: absurd times in a file must not add up beyond 64 bits."""


class Clock:
    """The running maximum of packet times.

    A step back of more than ``step_ns`` (clock set, files out of order, one absurd time) shifts what
    follows, so that time always goes on.
    """

    __slots__ = ("_shift", "_step_ns", "now")

    def __init__(self, step_ns: int) -> None:
        self.now: int | None = None
        self._shift = 0
        self._step_ns = step_ns

    def advance(self, time_ns: Int64s) -> Int64s:
        """The capture time of each packet of the next batch, ns."""
        if len(time_ns) < FEW or abs(self._shift) > LATEST:
            return self._one_by_one(time_ns)
        adjusted = time_ns + self._shift if self._shift else time_ns
        if self.now is None:
            self.now = min(int(adjusted[0]), LATEST)
        clock: Int64s = np.clip(np.maximum.accumulate(adjusted), self.now, LATEST)
        if int((clock - adjusted).max()) > self._step_ns:
            return self._one_by_one(time_ns)
        self.now = int(clock[-1])
        return clock

    def _one_by_one(self, time_ns: Int64s) -> Int64s:
        times, shift, clock = time_ns.tolist(), self._shift, []
        now = min(times[0], LATEST) if self.now is None else self.now
        for time in times:
            if now - (time + shift) > self._step_ns:
                shift = now - time
            now = min(max(now, time + shift), LATEST)
            clock.append(now)
        self.now, self._shift = now, shift
        return np.array(clock, np.int64)
