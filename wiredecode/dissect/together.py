"""Decoding runs and frames of connections that know of each other, as if all were decoded in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush

from wiredecode.dissect.order import Release
from wiredecode.frames.frame import Frame
from wiredecode.frames.run import Run

SHORT = 8
"""A run that was cut to fewer frames than this is faster one by one."""


class Schedule:
    """What is to be decoded next: runs as early as they can be, frames in order.

    A run is due when the row of its connection before it was decoded, and all before it that ``disturbs`` names. So
    when a row is decoded, all runs that begin before it were taken, and those it may change were not. Rows come with
    their rank; frames of runs that were refused with None.
    """

    def __init__(self, release: Release, disturbs: Callable[[Frame], bool]) -> None:
        self._release, self._rows = release, [*release.rows()]
        self._own: dict[int, deque[int]] = {}
        """Ranks of the rows of each connection ..."""
        self._barriers = deque(rank for frame, rank in self._rows if disturbs(frame))
        for frame, rank in self._rows:
            self._own.setdefault(frame.connection.number, deque()).append(rank)
        self._refused: list[tuple[int, Frame]] = []

    def refuse(self, run: Run) -> None:
        """The frames of a run that came out must be decoded one by one."""
        for frame in run.frames():
            heappush(self._refused, (frame.number, frame))

    def __iter__(self) -> Iterator[tuple[Frame | Run, int | None]]:
        release = self._release
        yield from self._all_runs()
        for frame, rank in self._rows:
            yield from self._refused_before(release.number(rank))
            yield frame, rank
            connection = frame.connection.number
            self._own[connection].popleft()
            if self._barriers and self._barriers[0] == rank:
                self._barriers.popleft()
                yield from self._all_runs()
            else:
                yield from self._runs(connection)
        yield from self._refused_before(release.last + 1)

    def _all_runs(self) -> Iterator[tuple[Run, None]]:
        for connection in self._release.connections():
            yield from self._runs(connection)

    def _runs(self, connection: int) -> Iterator[tuple[Run, None]]:
        """Those of a connection up to its next row, or the next that disturbs."""
        limit = self._release.count
        for ranks in (self._own.get(connection), self._barriers):
            if ranks:
                limit = min(limit, ranks[0])
        for run in self._release.runs_before(connection, limit):
            if len(run) < SHORT and limit < self._release.count:
                self.refuse(run)
            else:
                yield run, None

    def _refused_before(self, number: int) -> Iterator[tuple[Frame, None]]:
        while self._refused and self._refused[0][0] < number:
            yield heappop(self._refused)[1], None
