"""Percentiles of counts, and of times in a histogram."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import log2

FINENESS = 32
"""Buckets per doubling of a time: percentiles are right within 2.2 %."""


class Times:
    """Many times, ns: count, smallest, largest, and percentiles out of a histogram of bounded size."""

    __slots__ = ("_buckets", "count", "largest", "smallest")

    def __init__(self) -> None:
        self.count = 0
        self.smallest: int | None = None
        self.largest: int | None = None
        self._buckets: dict[int, int] = {}

    def add(self, ns: int) -> None:
        """One more; a clock that went back counts as no time."""
        ns = max(ns, 0)
        self.count += 1
        if self.smallest is None or ns < self.smallest:
            self.smallest = ns
        if self.largest is None or ns > self.largest:
            self.largest = ns
        bucket = int(log2(ns) * FINENESS) if ns else -1
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def percentile(self, percent: float) -> int | None:
        """The time that ``percent`` % of all do not exceed; None: there are none."""
        buckets = sorted(self._buckets.items())
        place = percentile_place([count for _, count in buckets], percent)
        if place is None or self.smallest is None or self.largest is None:
            return None
        bucket = buckets[place][0]
        middle = 0 if bucket < 0 else int(2 ** ((bucket + 0.5) / FINENESS))
        return min(max(middle, self.smallest), self.largest)


def percentile_place(counts: Sequence[int], percent: float) -> int | None:
    """The first place up to which ``percent`` % of all are counted; None: nothing is."""
    total = sum(counts)
    if not total:
        return None
    return next(place for place, upto in enumerate(accumulate(counts)) if upto >= total * percent / 100)
