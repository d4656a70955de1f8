"""Distributions of times in bounded memory: exact percentiles for 262,144 different values, and histograms."""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.dataclasses import Lazy

MAX_NS = (1 << 63) - 1
"""Longest time: columns have 64 bits."""
PERCENTILES = {"p50_us": 500, "p90_us": 900, "p99_us": 990, "p99_9_us": 999}
"""Column to thousandths."""
SPREAD = ("min_us", *PERCENTILES, "max_us")
"""Columns of a distribution, in microseconds."""
WAITING = 4_096
"""Values that are added before they are sorted."""
MAX_VALUES = 262_144
"""Different values that are kept exactly; more are rounded."""
PRECISION = 10
"""Significant bits of rounded values, an error of a thousandth; fewer if there are still too many values."""


class TimeHistogram:
    """A histogram of times with upper ``bounds``, seconds; :meth:`add` as of :class:`Distribution`."""

    __slots__ = ("bounds", "counts", "largest", "smallest", "total_ns")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts = bounds, [0] * (len(bounds) + 1)
        self.total_ns = self.largest = 0
        self.smallest = MAX_NS

    def add(self, ns: int, count: int = 1) -> None:
        """Add a time ``count`` times; a negative one is ignored."""
        if ns < 0:
            return
        self.counts[bisect_left(self.bounds, ns / 1e9)] += count
        self.total_ns += ns * count
        if ns < self.smallest:
            self.smallest = ns
        if ns > self.largest:
            self.largest = ns

    def in_seconds(self) -> tuple[int, float, list[int], Sequence[float], float, float]:
        """Number of times, their sum, the number in each interval, ``bounds``, least and largest."""
        counts = self.counts.copy()
        return sum(counts), self.total_ns / 1e9, counts, self.bounds, self.smallest / 1e9, self.largest / 1e9


NO_VALUES = np.empty(0, np.int64)


class Distribution(Lazy):
    """Times in ns with their counts; at most ``most`` different ones are kept."""

    made = dict.fromkeys(("_waiting", "_weights"), partial(array, "q"))
    _waiting: "array[int]"
    _weights: "array[int]"

    __slots__ = (
        "_bits",
        "_counts",
        "_equal",
        "_most",
        "_rounds",
        "_values",
        "_waiting",
        "_weights",
        "count",
        "largest",
        "smallest",
    )

    def __init__(self, most: int = MAX_VALUES) -> None:
        self._most, self._bits = most, PRECISION
        self._rounds = False
        """Whether there were too many values: then all are rounded, in any order."""
        self.count = self._equal = 0  # in all, and equal ones at the beginning
        self.smallest = self.largest = 0
        self._values = self._counts = NO_VALUES

    def add(self, ns: int, count: int = 1) -> None:
        """Add a time ``count`` times."""
        ns = min(ns, MAX_NS)
        if self._equal == self.count and (not self.count or ns == self.smallest):
            self.smallest = self.largest = ns
            self.count += count
            self._equal += count
            return
        if self._equal:
            self._keep_equal()
        if ns < self.smallest:
            self.smallest = ns
        if ns > self.largest:
            self.largest = ns
        self.count += count
        self._waiting.append(ns)
        self._weights.append(count)
        if len(self._waiting) >= min(WAITING, self._most) and len(self._waiting) * 4 >= len(self._values):
            self._merge_waiting()

    def merge(self, other: "Distribution") -> None:
        """Add all times of another one."""
        other._merge_waiting()
        self._merge_waiting()
        if not other.count:
            return
        self.smallest = min(self.smallest, other.smallest) if self.count else other.smallest
        self.largest = max(self.largest, other.largest) if self.count else other.largest
        self.count += other.count
        self._bits, self._rounds = min(self._bits, other._bits), self._rounds or other._rounds
        self._take(other._values, other._counts)

    def _keep_equal(self) -> None:
        self._waiting.append(self.smallest)
        self._weights.append(self._equal)
        self._equal = 0

    def _merge_waiting(self) -> None:
        if self._equal:
            self._keep_equal()
        if self._waiting:
            waiting, weights = self._waiting, self._weights
            del self._waiting, self._weights
            self._take(np.frombuffer(waiting, np.int64), np.frombuffer(weights, np.int64))

    def _take(self, more: Int64s, weights: Int64s) -> None:
        """Merge values with their counts into those kept."""
        values, counts = np.concatenate([self._values, more]), np.concatenate([self._counts, weights])
        if self._rounds:
            values = round_values(values, self._bits)
        self._values, self._counts = merge_counts(values, counts)
        while len(self._values) > self._most:
            self._values, self._counts = merge_counts(round_values(self._values, self._bits), self._counts)
            self._rounds = True
            self._bits -= len(self._values) > self._most

    def percentile(self, thousandths: int) -> int:
        """The percentile, interpolated linearly between the nearest values, rounded half up. There must be a value."""
        if self.smallest == self.largest:
            return self.smallest
        self._merge_waiting()
        index, remainder = divmod((self.count - 1) * thousandths, 1000)
        upto = np.cumsum(self._counts)
        low = self._at(upto, index)
        high = low if not remainder else self._at(upto, index + 1)
        return low + ((high - low) * remainder * 2 + 1000) // 2000

    def _at(self, upto: Int64s, index: int) -> int:
        """The value at an index, from 0 on, in sorted order. ``upto``: cumulated counts."""
        value = int(self._values[np.searchsorted(upto, index, "right")])
        return min(max(value, self.smallest), self.largest)

    def columns(self) -> dict[str, float | None]:
        """The columns :data:`SPREAD`, in microseconds; null without values."""
        if not self.count:
            return dict.fromkeys(SPREAD)
        between = {name: self.percentile(part) / 1e3 for name, part in PERCENTILES.items()}
        return {"min_us": self.smallest / 1e3, **between, "max_us": self.largest / 1e3}


def merge_counts(values: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Different values, sorted, with their counts."""
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[first], np.add.reduceat(counts, first)


def round_values(values: Int64s, remain: int) -> Int64s:
    """Values with ``remain`` significant bits: the middles of their intervals."""
    bits = np.maximum(np.frexp(np.abs(values).astype(np.float64))[1].astype(np.int64) - remain, 0)
    return (values >> bits << bits) + (np.int64(1) << bits >> 1)
