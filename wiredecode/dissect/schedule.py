"""Decoding runs and frames of connections that know of each other, as if all were decoded in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from wiredecode.dissect.order import FrameOrder, Order
from wiredecode.frames.frame import Frame
from wiredecode.frames.run import Run

SHORT = 8
"""A run that was cut to fewer frames than this is faster one by one."""


class Schedule(FrameOrder):
    """What is to be decoded next: runs as early as they can be, frames in order.

    A run is due when the frame of its connection before it was decoded, and all before it that ``disturbs`` names. So
    when a frame is decoded, all runs that begin before it were decoded, and those it may change were not.
    """

    def __init__(self, order: Order, disturbs: Callable[[Frame], bool]) -> None:
        self._order = order
        self._own: dict[int, deque[int]] = {}
        """Ranks of the frames of each connection ..."""
        self._barriers = deque(rank for rank, frame in order.frames if disturbs(frame))
        for rank, frame in order.frames:
            self._own.setdefault(frame.connection.number, deque()).append(rank)
        self._refused: list[tuple[int, Frame]] = []

    @property
    def last(self) -> int:  # type: ignore[override]
        return self._order.last

    def insert(self) -> None:
        self._order.insert()

    def refuse(self, run: Run) -> None:
        for frame in run.frames():
            heappush(self._refused, (frame.number, frame))

    def __iter__(self) -> Iterator[tuple[Frame | Run, int]]:
        order = self._order
        yield from self._all_runs()
        for rank, frame in order.frames:
            yield from self._refused_before(order.number(rank))
            order.rank = rank
            yield frame, order.number(rank)
            connection = frame.connection.number
            self._own[connection].popleft()
            if self._barriers and self._barriers[0] == rank:
                self._barriers.popleft()
                yield from self._all_runs()
            else:
                yield from self._runs(connection)
        yield from self._refused_before(order.last + 1)

    def _all_runs(self) -> Iterator[tuple[Run, int]]:
        for connection in self._order.connections():
            yield from self._runs(connection)

    def _runs(self, connection: int) -> Iterator[tuple[Run, int]]:
        """Those of a connection up to its next frame, or the next that disturbs."""
        limit = self._order.count
        for ranks in (self._own.get(connection), self._barriers):
            if ranks:
                limit = min(limit, ranks[0])
        for run in self._order.runs_before(connection, limit):
            if len(run) < SHORT and limit < self._order.count:
                self.refuse(run)
            else:
                yield run, 0

    def _refused_before(self, number: int) -> Iterator[tuple[Frame, int]]:
        while self._refused and self._refused[0][0] < number:
            before, frame = heappop(self._refused)
            yield frame, before
