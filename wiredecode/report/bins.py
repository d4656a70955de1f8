"""Latencies by bucket, and values that change, in memory that does not grow with the capture."""

from __future__ import annotations

from collections.abc import Sequence

from wiredecode.frames.bins import Counts
from wiredecode.net.times import percentile_place

POINTS = 1_024
"""Values of a series that are kept at most."""
PER_DOUBLING = 8
"""Buckets of a latency per doubling: the lines drawn are right within 5 %."""
LATENCIES = 45 * PER_DOUBLING
"""Buckets: up to 2**45 ns, nearly ten hours."""


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
    """The latency, ns, that this percentage of those counted by bucket do not exceed; None: there are none."""
    place = percentile_place([*map(int, row)], percent)
    return None if place is None else bucket_ns(place + 0.5)


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
