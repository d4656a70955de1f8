"""What happened when, in memory that does not grow with the capture: bins of time that double as it gets longer."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

ROWS = 512
"""Bins at most."""
FINEST_NS = 1_000
"""Width of a bin at first."""
WAITING = 65_536
"""Values that wait before they are counted, all at once."""
POINTS = 1_024
"""Values of a series that are kept at most."""
PER_DOUBLING = 8
"""Buckets of a latency per doubling: the lines drawn are right within 5 %."""
LATENCIES = 45 * PER_DOUBLING
"""Buckets: up to 2**45 ns, nearly ten hours."""

Counts = npt.NDArray[np.int64]


class Bins:
    """Sums by time and column: ``counts`` has a row per bin, ``width_ns`` says how long each lasts."""

    def __init__(self, columns: int) -> None:
        self.width_ns = FINEST_NS
        self.first_ns: int | None = None
        """Where the first bin begins; what is earlier counts there."""
        self._counts: Counts = np.zeros((ROWS, columns), np.int64)
        self._times, self._columns, self._values = array("q"), array("q"), array("q")
        self._last = 0

    def add(self, time_ns: int, column: int, value: int = 1) -> None:
        """Add to a column at a time."""
        self._times.append(time_ns)
        self._columns.append(column)
        self._values.append(value)
        if len(self._times) >= WAITING:
            self._count()

    def _count(self) -> None:
        if not self._times:
            return
        times = np.frombuffer(self._times, np.int64)
        if self.first_ns is None:
            self.first_ns = int(times.min())
        rows = np.maximum(times - self.first_ns, 0)
        self._last = max(self._last, int(rows.max()))
        while self._last >= self.width_ns * ROWS:
            self._double()
        places = rows // self.width_ns, np.frombuffer(self._columns, np.int64)
        np.add.at(self._counts, places, np.frombuffer(self._values, np.int64))
        del times
        self._times, self._columns, self._values = array("q"), array("q"), array("q")

    def _double(self) -> None:
        self._counts[: ROWS // 2] = halved(self._counts)
        self._counts[ROWS // 2 :] = 0
        self.width_ns *= 2

    def counts(self, most: int, last_ns: int) -> tuple[Counts, int]:
        """At most so many rows, up to a time, and the width of each in nanoseconds."""
        self._count()
        counts, width = self._counts, self.width_ns
        end = max(self._last, last_ns - (self.first_ns or 0))
        while end >= width * min(most, len(counts)):
            if len(counts) * width <= end:
                counts = np.vstack([counts, np.zeros_like(counts)])
            counts, width = halved(counts), width * 2
        return counts[: end // width + 1], width


def halved(counts: Counts) -> Counts:
    """Each two rows as one."""
    pairs: Counts = counts.reshape(len(counts) // 2, 2, -1)
    return np.asarray(pairs.sum(axis=1), np.int64)


def bucket_of(latency_ns: int) -> int:
    """The bucket of a latency."""
    if latency_ns < 2:
        return 0
    doublings = latency_ns.bit_length() - 1
    part = (latency_ns << 3 >> doublings) & 7  # linear within a doubling: PER_DOUBLING is 8
    return min(doublings * PER_DOUBLING + part, LATENCIES - 1)


def bucket_ns(bucket: float) -> float:
    """Where a bucket begins; fractions lie within."""
    doublings, part = divmod(bucket, PER_DOUBLING)
    return float(2.0**doublings * (1 + part / PER_DOUBLING))


def percentile(row: Sequence[int] | Counts, percent: float) -> float | None:
    """The latency, ns, that so many of those counted by bucket do not exceed; None: there are none."""
    upto = np.cumsum(row)
    if not upto[-1]:
        return None
    return bucket_ns(float(np.searchsorted(upto, upto[-1] * percent / 100)) + 0.5)


class Series:
    """A value that changes. What is kept halves when it gets too much: of two values the one that matters stays."""

    def __init__(self, *, lowest: bool) -> None:
        self.points: list[tuple[int, int]] = []
        """Time in nanoseconds, value."""
        self.changes = 0
        self._lowest = lowest
        self._step, self._held = 1, 0
        self._best: tuple[int, int] | None = None

    @property
    def shown(self) -> list[tuple[int, int]]:
        """The points, and what waits to become one."""
        return self.points if self._best is None else [*self.points, self._best]

    def add(self, time_ns: int, value: int) -> None:
        """The value from a time on."""
        self.changes += 1
        best = self._best
        if best is None or (value < best[1] if self._lowest else value > best[1]):
            self._best = time_ns, value
        self._held += 1
        if self._held < self._step:
            return
        assert self._best is not None
        self.points.append(self._best)
        self._best, self._held = None, 0
        if len(self.points) >= POINTS:
            choose = min if self._lowest else max
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [choose(pair, key=lambda point: point[1]) for pair in pairs]
            self._step *= 2
