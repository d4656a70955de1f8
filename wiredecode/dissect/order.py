"""Capture order of frames and runs: which are ready, and the number of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.frame import Frame
from wiredecode.frames.span import Skipped
from wiredecode.net.types import Connection

STEP_BYTES = 4 * 1024 * 1024
"""Decoded, a frame takes several times its length."""


def ready_columns(items: Sequence[Frame | FrameBlock | Skipped]) -> tuple[Int64s, Int64s]:
    """``ready`` and ``Connection.first`` of each frame."""
    if not items:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ready: list[int] = []
    for item in items:
        if isinstance(item, Frame):
            ready.append(item.ready)
        else:
            ready += item.ready if isinstance(item, Skipped) else item.ready.tolist()
    sizes = [1 if isinstance(item, Frame) else len(item) for item in items]
    first = np.fromiter((item.connection.first for item in items), np.int64, len(items))
    return np.array(ready, np.int64), np.repeat(first, sizes)


def lossy(items: list[Any]) -> dict[Connection, int]:
    """Of the connections of frames, runs and skipped frames those of which bytes waited or are missing: since when."""
    found: dict[Connection, int] = {}
    for connection in {item.connection for item in items}:
        given_up = [0] if connection.waited else [each.first_gap for each in connection.directions if each.first_gap]
        if given_up:
            found[connection] = min(given_up)
    return found


def sent_times(items: list[Frame | FrameBlock | Skipped], connections: dict[Connection, int]) -> Int64s:
    """When each frame of these connections was sent, as far as that is told, in the order of its stream.

    Of others, and of what was ready before the packet of its connection, it is 0.

    What waited for a hole that was given up is ready with one packet: both sides, in whatever order they were kept.
    """
    latest: dict[tuple[Connection, int], int] = {}
    found: list[int] = []
    for item in items:
        since = connections.get(item.connection)
        if since is None or isinstance(item, Skipped):
            found += [0] * (1 if isinstance(item, Frame) else len(item))
            continue
        key = item.connection, item.side
        last = latest.get(key, 0)
        if isinstance(item, Frame):
            latest[key] = last = max(item.time_ns, last)
            found.append(0 if item.ready < since else last)
            continue
        times = np.maximum.accumulate(np.maximum(item.time_ns, last))
        latest[key] = int(times[-1])
        found += np.where(item.ready < since, 0, times).tolist()
    return np.array(found, np.int64)


def partial_watermarks(pending: list[Frame | FrameBlock | Skipped], watermark: int | None) -> list[int]:
    """Watermarks before that one between which some :data:`STEP_BYTES` are ready; none where all is less."""
    items = [item for item in pending if not isinstance(item, Skipped)]
    total = sum(item.length if isinstance(item, Frame) else int(item.stops[-1] - item.starts[0]) for item in items)
    if total < 2 * STEP_BYTES:
        return []
    sizes = [np.array([item.length]) if isinstance(item, Frame) else item.stops - item.starts for item in items]
    ready, _ = ready_columns(items)
    order = np.argsort(ready, kind="stable")
    sums = np.cumsum(np.concatenate(sizes)[order])
    marks = ready[order][np.searchsorted(sums, np.arange(STEP_BYTES, int(sums[-1]), STEP_BYTES))]
    return [mark for mark in np.unique(marks).tolist() if watermark is None or mark < watermark]


def capture_order(ready: Int64s, first: Int64s, sent: Int64s | None) -> Int64s:
    """Where each frame stands among those that wait, which are never so many that this overflows."""
    if not len(ready):
        return np.empty(0, np.int64)
    if sent is not None:
        return np.lexsort((sent, first, ready))
    return np.argsort(
        (ready - ready.min()) * (int(first.max()) - int(first.min()) + 1) + (first - first.min()), kind="stable"
    )


class FrameOrder:
    """Takes the frames that are ready out of ``pending``, where there is nothing else; numbers go on after ``number``.

    Iterating gives each frame and its number. Frames are in the order of the packets that made them ready; those of one
    packet by connection, and within that in the order of their times where bytes are missing, else as they stand in
    ``pending``.
    """

    def __init__(self, pending: list[Any], watermark: int | None, number: int) -> None:
        connections = lossy(pending)
        if connections:
            order = np.argsort(sent_times(pending, connections), kind="stable")
            pending[:] = [pending[place] for place in order.tolist()]
        pending.sort(key=attrgetter("connection.first"))  # so it does not matter where they waited
        pending.sort(key=attrgetter("ready"))
        count = len(pending)
        if watermark is not None:
            while count and pending[count - 1].ready >= watermark:
                count -= 1
        self._ready = pending[:count]
        del pending[:count]
        self._ready.reverse()
        self.last = number
        """The number of the last frame."""

    def __iter__(self) -> Iterator[tuple[Frame | FrameBlock, int]]:
        ready = self._ready
        while ready:
            self.last += 1
            yield ready.pop(), self.last  # a frame that was handed on is not kept until the last one is

    def insert(self) -> None:
        """One more frame comes right after the one that was given last."""
        self.last += 1

    def refuse(self, run: FrameBlock) -> None:
        """The frames of the run that was given last must be decoded one by one."""
        raise NotImplementedError


class Order(FrameOrder):
    """The same where there are runs, too: these are given before the next frame of their connection."""

    def __init__(self, pending: list[Frame | FrameBlock | Skipped], watermark: int | None, number: int) -> None:
        ready, first = ready_columns(pending)
        connections = lossy(pending)
        order = capture_order(ready, first, sent_times(pending, connections) if connections else None)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        self.count = len(ready) if watermark is None else int(np.count_nonzero(ready < watermark))
        self._first = number + 1
        self._inserted: list[int] = []
        self.rank = 0
        """Of the frame that was given last."""
        self._refused: list[Frame] = []
        self.frames: list[tuple[int, Frame]] = []
        """Frames that come one by one, in order, each with its rank among all that are ready."""
        self._runs: dict[int, list[tuple[int, FrameBlock, Int64s]]] = {}
        """By connection a heap of runs: the rank of its first frame, the run, and all ranks."""
        pending[:] = self._sort(pending, ranks)
        self.frames.sort(key=itemgetter(0))

    def _sort(
        self, pending: list[Frame | FrameBlock | Skipped], ranks: Int64s
    ) -> Iterator[Frame | FrameBlock | Skipped]:
        """Sort out what is ready; yield the rest."""
        position = 0
        for item in pending:
            if isinstance(item, Frame):
                rank = int(ranks[position])
                position += 1
                if rank < self.count:
                    self.frames.append((rank, item))
                else:
                    yield item
                continue
            own = ranks[position : position + len(item)]
            position += len(item)
            if isinstance(item, Skipped):
                item.ready = [ready for ready, rank in zip(item.ready, own.tolist(), strict=True) if rank >= self.count]
                if item.ready:
                    yield item
                continue
            count = int(np.searchsorted(own, self.count))
            if count:
                runs = self._runs.setdefault(item.connection.number, [])
                heappush(runs, (int(own[0]), item.part(0, count), own[:count]))
            if count < len(item):
                yield item.part(count, len(item))

    def __iter__(self) -> Iterator[tuple[Frame | FrameBlock, int]]:
        for rank, frame in self.frames:
            self.rank = rank
            for run in self.runs_before(frame.connection.number, rank):
                yield from self._decoded(run)
            yield frame, self.number(rank)
        for connection in [*self._runs]:
            for run in self.runs_before(connection, self.count):
                yield from self._decoded(run)

    def _decoded(self, run: FrameBlock) -> Iterator[tuple[Frame | FrameBlock, int]]:
        yield run, 0
        refused, self._refused = self._refused, []
        for frame in refused:
            yield frame, frame.number

    def refuse(self, run: FrameBlock) -> None:
        self._refused = run.frames()

    def number(self, rank: int) -> int:
        """The number of a frame, when all before it have been decoded."""
        return self._first + rank + len(self._inserted)

    def insert(self) -> None:
        self._inserted.append(self.rank)

    @property
    def last(self) -> int:  # type: ignore[override]
        """The number of the last frame."""
        return self._first + self.count + len(self._inserted) - 1

    def runs_before(self, connection: int, rank: int) -> Iterator[FrameBlock]:
        """The runs of a connection up to one of its frames: what is decoded before that."""
        waiting = self._runs.get(connection, [])
        while waiting and waiting[0][0] < rank:
            _, run, ranks = heappop(waiting)
            count = int(np.searchsorted(ranks, rank))
            if count < len(run):
                heappush(waiting, (int(ranks[count]), run.part(count, len(run)), ranks[count:]))
            yield self._numbered(run.part(0, count), ranks[:count])

    def _numbered(self, run: FrameBlock, ranks: Int64s) -> FrameBlock:
        run.numbers = self._first + ranks + np.searchsorted(self._inserted, ranks)
        return run
