"""Capture order of frames and runs: which are ready, and the number of each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from wiredecode.dissect.streams import Passed
from wiredecode.frames.frame import Frame
from wiredecode.frames.run import Run

Int64s = npt.NDArray[np.int64]

STEP_BYTES = 4 * 1024 * 1024
"""Decoded, a frame takes several times its length."""


def ready_columns(items: list[Frame | Run | Passed]) -> tuple[Int64s, Int64s]:
    """``ready`` and ``Connection.first`` of each frame."""
    if not items:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ready: list[int] = []
    for item in items:
        if isinstance(item, Frame):
            ready.append(item.ready)
        else:
            ready += item.ready if isinstance(item, Passed) else item.ready.tolist()
    sizes = [1 if isinstance(item, Frame) else len(item) for item in items]
    first = np.fromiter((item.connection.first for item in items), np.int64, len(items))
    return np.array(ready, np.int64), np.repeat(first, sizes)


def steps(pending: list[Frame | Run | Passed], watermark: int | None) -> list[int]:
    """Watermarks before that one between which some :data:`STEP_BYTES` are ready; none where all is less."""
    sizes = [
        np.array([item.length], np.int64) if isinstance(item, Frame) else item.stops - item.starts
        for item in pending
        if not isinstance(item, Passed)
    ]
    if sum(int(size.sum()) for size in sizes) < 2 * STEP_BYTES:
        return []
    ready, _ = ready_columns([item for item in pending if not isinstance(item, Passed)])
    order = np.argsort(ready, kind="stable")
    sums = np.cumsum(np.concatenate(sizes)[order])
    marks = ready[order][np.searchsorted(sums, np.arange(STEP_BYTES, int(sums[-1]), STEP_BYTES))]
    return [mark for mark in np.unique(marks).tolist() if watermark is None or mark < watermark]


def capture_order(ready: Int64s, first: Int64s) -> Int64s:
    """Where each frame stands among those that wait, which are never so many that this overflows."""
    if not len(ready):
        return np.empty(0, np.int64)
    return np.argsort(
        (ready - ready.min()) * (int(first.max()) - int(first.min()) + 1) + (first - first.min()), kind="stable"
    )


class Release:
    """Takes what is ready out of ``pending``; numbers go on after ``number``.

    Frames are in the order of the packets that made them ready; those of one packet by connection, and within that as
    they stand in ``pending``.
    """

    def __init__(self, pending: list[Frame | Run | Passed], watermark: int | None, number: int) -> None:
        ready, first = ready_columns(pending)
        order = capture_order(ready, first)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        self.count = len(ready) if watermark is None else int(np.count_nonzero(ready < watermark))
        self._first = number + 1
        self._inserted: list[int] = []
        self._rows: list[tuple[int, Frame]] = []
        self._runs: dict[int, list[tuple[Run, Int64s]]] = {}
        """Runs and the ranks of their frames, by connection."""
        pending[:] = self._sort(pending, ranks)
        self._rows.sort(key=lambda row: row[0])

    def _sort(self, pending: list[Frame | Run | Passed], ranks: Int64s) -> Iterator[Frame | Run | Passed]:
        """Sort out what is ready; yield the rest."""
        position = 0
        for item in pending:
            if isinstance(item, Frame):
                rank = int(ranks[position])
                position += 1
                if rank < self.count:
                    self._rows.append((rank, item))
                else:
                    yield item
                continue
            own = ranks[position : position + len(item)]
            position += len(item)
            if isinstance(item, Passed):
                item.ready = [ready for ready, rank in zip(item.ready, own.tolist(), strict=True) if rank >= self.count]
                if item.ready:
                    yield item
                continue
            count = int(np.searchsorted(own, self.count))
            if count:
                runs = self._runs.setdefault(item.connection.number, [])
                runs.append((item.part(0, count), own[:count]))
            if count < len(item):
                yield item.part(count, len(item))

    def rows(self) -> Iterator[tuple[Frame, int]]:
        """The frames that come one by one, in order, each with its rank among all that are ready."""
        for rank, frame in self._rows:
            yield frame, rank

    def number(self, rank: int) -> int:
        """The number of a row, when all before it have been decoded."""
        return self._first + rank + len(self._inserted)

    def insert(self, rank: int) -> None:
        """One more frame comes right after the one of that rank."""
        self._inserted.append(rank)

    @property
    def last(self) -> int:
        """The number of the last frame."""
        return self._first + self.count + len(self._inserted) - 1

    def connections(self) -> list[int]:
        """Those with runs that did not come out yet."""
        return [*self._runs]

    def runs_before(self, connection: int, rank: int) -> Iterator[Run]:
        """The runs of a connection up to one of its rows: what is decoded before it."""
        waiting = self._runs.pop(connection, ())
        for run, ranks in waiting:
            count = int(np.searchsorted(ranks, rank))
            if count:
                yield self._numbered(run.part(0, count), ranks[:count])
            if count < len(run):
                rest = run.part(count, len(run)), ranks[count:]
                self._runs.setdefault(connection, []).append(rest)

    def runs(self) -> Iterator[Run]:
        """All that are left."""
        for connection in list(self._runs):
            yield from self.runs_before(connection, self.count)

    def _numbered(self, run: Run, ranks: Int64s) -> Run:
        run.numbers = self._first + ranks + np.searchsorted(self._inserted, ranks)
        return run
