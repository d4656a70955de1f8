"""Sets of offsets as intervals: bounded, added, and asked for holes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

MAX_INTERVALS = 4096
"""Intervals of one flow; beyond it the two with the smallest hole between them become one."""


class Intervals:
    """Offsets as disjoint intervals ``[begin, end)`` in order."""

    __slots__ = ("begins", "ends", "is_rough")

    def __init__(self) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.is_rough = False
        """Whether holes were closed because there were too many."""

    def add(self, begin: int, end: int) -> int:
        """Add an interval; return how many of its offsets were there before."""
        begins, ends = self.begins, self.ends
        if not ends or begin > ends[-1]:
            begins.append(begin)
            ends.append(end)
        elif begin == ends[-1]:
            ends[-1] = end
            return 0
        else:
            first, last = bisect_left(ends, begin), bisect_right(begins, end)
            both = sum(max(min(end, ends[at]) - max(begin, begins[at]), 0) for at in range(first, last))
            if first < last:
                begin, end = min(begin, begins[first]), max(end, ends[last - 1])
            begins[first:last], ends[first:last] = [begin], [end]
            return both
        if len(begins) > MAX_INTERVALS:
            self._close_one()
        return 0

    def _close_one(self) -> None:
        at = min(range(1, len(self.begins)), key=lambda index: self.begins[index] - self.ends[index - 1])
        del self.begins[at], self.ends[at - 1]
        self.is_rough = True

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self.begins, self.ends, strict=True))

    def __len__(self) -> int:
        """Offsets in all."""
        return sum(self.ends) - sum(self.begins)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]  # it changes

    def within(self, begin: int, end: int) -> int:
        """The number of its offsets in ``[begin, end)``."""
        first, last = bisect_right(self.ends, begin), bisect_left(self.begins, end)
        return sum(min(end, self.ends[at]) - max(begin, self.begins[at]) for at in range(first, last))

    def update(self, other: Intervals) -> Intervals:
        """Add all of another one; return itself."""
        for begin, end in other:
            self.add(begin, end)
        self.is_rough |= other.is_rough
        return self

    def holes(self) -> list[tuple[int, int]]:
        """Missing intervals between the first and the last."""
        return [*zip(self.ends[:-1], self.begins[1:], strict=True)]
