"""Counts over time, in memory that does not grow with the capture: bins of time that double as it gets longer."""

from array import array

import numpy as np
import numpy.typing as npt

ROWS = 512
"""Bins at most."""
FINEST_NS = 1_000
"""Width of a bin at first."""
WAITING = 65_536
"""Values that wait before they are counted, all together."""

Counts = npt.NDArray[np.int64]


class Bins:
    """Sums by time and column: ``counts`` has a row per bin, ``width_ns`` says how long each lasts."""

    def __init__(self, columns: int) -> None:
        self.width_ns = FINEST_NS
        self.first_ns: int | None = None
        """Where the first bin begins; what is earlier counts there."""
        self._counts: Counts = np.zeros((ROWS, columns), np.int64)
        self._waiting = array("q")
        """Time, column and value, one after another, of values that are not counted yet."""
        self._last = 0

    def add(self, time_ns: int, column: int, value: int = 1) -> None:
        self._waiting.extend((time_ns, column, value))
        if len(self._waiting) >= 3 * WAITING:
            self._count()

    def _count(self) -> None:
        if not self._waiting:
            return
        times, columns, values = np.array(self._waiting).reshape(-1, 3).T
        self._waiting = array("q")
        if self.first_ns is None:
            self.first_ns = int(times.min())
        rows = np.maximum(times - self.first_ns, 0)
        self._last = max(self._last, int(rows.max()))
        while self._last >= self.width_ns * ROWS:
            self._double()
        np.add.at(self._counts, (rows // self.width_ns, columns), values)

    def _double(self) -> None:
        self._counts[: ROWS // 2] = halve(self._counts)
        self._counts[ROWS // 2 :] = 0
        self.width_ns *= 2

    def counts(self, most: int, last_ns: int) -> tuple[Counts, int]:
        """Return at most ``most`` rows, up to a time, and the width of each in nanoseconds."""
        self._count()
        counts, width = self._counts, self.width_ns
        end = max(self._last, last_ns - (self.first_ns or 0))
        while end >= width * min(most, len(counts)):
            if len(counts) * width <= end:
                counts = np.vstack([counts, np.zeros_like(counts)])
            counts, width = halve(counts), width * 2
        return counts[: end // width + 1], width


def halve(counts: Counts) -> Counts:
    """Each two rows as one."""
    pairs: Counts = counts.reshape(len(counts) // 2, 2, -1)
    return np.asarray(pairs.sum(axis=1), np.int64)
