"""Sorts the frames of each connection (:func:`own_order`), and merges connections in capture order.

The order within a connection follows from its own packets alone. Merging never changes it.
"""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.frames.block import FrameBlock, has_blocks
from wiredecode.frames.frame import Frame
from wiredecode.net.logical_time import BITS, packets_of
from wiredecode.net.types import Connection

Item = Frame | FrameBlock
BETWEEN = (1 << BITS) - 1
"""Bits of logical times between packets."""

STEP_BYTES = 512 * 1024
"""Decoded, a frame takes several times its length, a small one twenty times."""


def gap_since(connection: Connection) -> int | None:
    """Logical time from which on frames of a connection may have waited for a gap that was given up; None: none did."""
    if connection.waited:
        return 0
    return min((each.first_gap for each in connection.directions if each.first_gap), default=None)


def own_order(frames: list[Any], since: int | None) -> None:
    """Sort the frames of one connection by ``ready``, those that are equal by the order in which they were sent.

    ``since``: of :func:`gap_since`.
    """
    frames.sort(key=attrgetter("ready"))
    if since is None or len(frames) < 2:
        return
    columns = ((frame.ready, frame.side, frame.time_ns) for frame in frames)
    ready, side, time_ns = np.array([*columns], np.int64).T
    frames[:] = [frames[at] for at in np.lexsort((sent_times(ready, side, time_ns, since), ready)).tolist()]


def sent_times(ready: Int64s, side: Int64s, time_ns: Int64s, since: int) -> Int64s:
    """Ranks by which frames with equal ``ready`` were sent; 0 before logical time ``since``.

    Frames of both sides may have waited for the end of one gap. Each side keeps the order of its stream, and both are
    merged by the times of their packets: otherwise all responses would come before their requests.
    """
    rank = np.unique(time_ns, return_inverse=True)[1] + 1
    order = np.lexsort((side, ready))
    new = (np.diff(ready[order]) != 0) | (np.diff(side[order]) != 0)
    group = np.append(0, np.cumsum(new)) * (len(ready) + 1)
    sent = np.empty(len(ready), np.int64)
    sent[order] = np.maximum.accumulate(rank[order] + group) - group
    sent[ready < since] = 0
    return sent


def ready_of(item: Item) -> Any:
    """``ready`` of each frame of an item, never decreasing."""
    return [item.ready] if isinstance(item, Frame) else item.ready


def take_ready(items: list[Item], limit: int) -> tuple[list[Item], list[Item]]:
    """Split into the items that are ready at logical time ``limit``, and the rest."""
    ready: list[Item] = []
    rest: list[Item] = []
    for item in items:
        if isinstance(item, Frame):
            (ready if item.ready <= limit else rest).append(item)
            continue
        count = int(np.searchsorted(ready_of(item), limit, "right"))
        if count:
            ready.append(item.part(0, count))
        if count < len(item):
            rest.append(item.part(count, len(item)))
    return ready, rest


def partial_limits(items: Sequence[Item], limit: int) -> list[int]:
    """Logical times before ``limit`` that divide the items into steps of :data:`STEP_BYTES`; none if all are less."""
    total = sum(item.length if isinstance(item, Frame) else int(item.stops[-1] - item.starts[0]) for item in items)
    if total < 2 * STEP_BYTES:
        return []
    sizes = [_lengths(item) for item in items]
    ready = np.concatenate([ready_of(item) for item in items])
    order = np.argsort(ready, kind="stable")
    sums = np.cumsum(np.concatenate(sizes)[order])
    marks = ready[order][np.searchsorted(sums, np.arange(STEP_BYTES, int(sums[-1]), STEP_BYTES))]
    return [mark for mark in np.unique(marks).tolist() if mark < limit]


class FrameOrder:
    """Merges the ready frames of connections, each in its own order; numbers continue after ``number``.

    Iterate over frames and their numbers: in the order of the packets that completed them, then by connection.
    """

    def __init__(self, connections: Sequence[list[Frame]], number: int) -> None:
        """``connections``: in the order of their first packets."""
        self._ready = [frame for frames in connections for frame in frames]
        waited = any(_waited(frames) for frames in connections if frames)
        self._ready.sort(key=attrgetter("packet_ready" if waited else "ready"))  # without waits the same order
        self._ready.reverse()
        self.last = number
        self._numbers: list[int] = []

    def keys(self) -> Int64s:
        """Of each frame: when it was complete, first packet of the connection, and length."""
        rows = [(frame.ready, frame.connection.first, frame.length) for frame in reversed(self._ready)]
        return np.array(rows, np.int64).reshape(-1, 3)

    def number_all(self, numbers: Int64s) -> None:
        """Give all frames numbers: other processes have frames between them (:mod:`wiredecode.dissect.share`)."""
        self._numbers = numbers.tolist()

    def __iter__(self) -> Iterator[tuple[Frame, int]]:
        ready = self._ready
        for number in self._numbers:
            yield ready.pop(), number
        while ready:
            self.last += 1
            yield ready.pop(), self.last  # so that it can be freed

    def insert(self, count: int = 1) -> None:
        """Number more frames, such as an inner one, after the last one."""
        self.last += count

    insert_before = insert
    """Number more frames before the last one."""


def _waited(frames: list[Frame]) -> bool:
    """Whether frames of a connection may be complete between two packets: after a gap, or at its end."""
    return any(each.lossy for each in frames[0].connection.directions) or frames[-1].ready & BETWEEN != 0


class BlockOrder:
    """The same order with blocks: each is yielded, with number 0, before the next frame of its connection.

    After a block that is ``refused`` come its frames.
    """

    def __init__(self, connections: Sequence[list[Item]], number: int) -> None:
        self._items = items = [each for each in connections if each]
        self._order, order = _ranks(items)
        self.count = len(order)
        self._first = number + 1
        self._numbers: Int64s | None = None
        self._inserted: list[int] = []
        self.rank = 0
        """Rank of the last frame."""
        self.frames: list[tuple[int, Frame]] = []
        """Single frames, in order, with their ranks among all that are ready."""
        self._blocks: dict[int, list[tuple[int, FrameBlock, Int64s]]] = {}
        """By first packet of the connection a heap of blocks: rank of the first frame, block, all ranks."""
        position = 0
        for item in (item for own in items for item in own):
            ranks = order[position : position + _count(item)]
            position += len(ranks)
            if isinstance(item, Frame):
                self.frames.append((int(ranks[0]), item))
            elif isinstance(item, FrameBlock):
                heappush(self._blocks.setdefault(item.connection.first, []), (int(ranks[0]), item, ranks))
        self.frames.sort(key=itemgetter(0))

    def __iter__(self) -> Iterator[tuple[Item, int]]:
        for rank, frame in self.frames:
            self.rank = rank
            yield from self._before(frame.connection.first, rank)
            yield frame, self.number(rank)
        for connection in [*self._blocks]:
            yield from self._before(connection, self.count)

    def _before(self, connection: int, rank: int) -> Iterator[tuple[Item, int]]:
        for block in self.blocks_before(connection, rank):
            yield block, 0
            if block.refused:
                for frame in block.frames():
                    yield frame, frame.number

    def number(self, rank: int) -> int:
        """The number of a frame; all before it must have been decoded."""
        return self._first + rank + len(self._inserted) if self._numbers is None else int(self._numbers[rank])

    def keys(self) -> Int64s:
        """As :meth:`FrameOrder.keys`."""
        items = [item for own in self._items for item in own]
        if not items:
            return np.empty((0, 3), np.int64)
        ready = np.concatenate([np.asarray(ready_of(item), np.int64) for item in items])
        first = np.repeat([item.connection.first for item in items], [_count(item) for item in items])
        lengths = np.concatenate([_lengths(item) for item in items])
        return np.stack([ready, first, lengths], axis=1)[self._order]

    def number_all(self, numbers: Int64s) -> None:
        """As :meth:`FrameOrder.number_all`."""
        self._numbers = numbers

    def insert(self, count: int = 1) -> None:
        """As :meth:`FrameOrder.insert`."""
        self._inserted += [self.rank] * count

    def insert_before(self, count: int) -> None:
        """As :meth:`FrameOrder.insert_before`."""
        self._inserted += [self.rank - 1] * count

    @property
    def last(self) -> int:
        """The number of the last frame."""
        return self._first + self.count + len(self._inserted) - 1

    def blocks_before(self, connection: int, rank: int) -> Iterator[FrameBlock]:
        """The blocks of a connection, or their parts, before one of its frames."""
        waiting = self._blocks.get(connection, [])
        while waiting and waiting[0][0] < rank:
            _, block, ranks = heappop(waiting)
            count = int(np.searchsorted(ranks, rank))
            if count < len(block):
                heappush(waiting, (int(ranks[count]), block.part(count, len(block)), ranks[count:]))
            yield self._renumber(block.part(0, count), ranks[:count])

    def _renumber(self, block: FrameBlock, ranks: Int64s) -> FrameBlock:
        if self._numbers is None:
            block.numbers = self._first + ranks + np.searchsorted(self._inserted, ranks)
        else:
            block.numbers = self._numbers[ranks]
        return block


def _ranks(connections: list[list[Item]]) -> tuple[Int64s, Int64s]:
    """The frames of all items in the order of the capture, and the rank of each there."""
    if not connections:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    ready, sent = [], []
    waited = False
    for items in connections:
        own = np.concatenate([np.asarray(ready_of(item), np.int64) for item in items])
        since = gap_since(items[0].connection)
        ready.append(own)
        if since is None:
            sent.append(np.zeros(len(own), np.int64))
            continue
        waited = True
        sizes = [_count(item) for item in items]
        sides = np.repeat([item.side for item in items], sizes)
        times = np.concatenate([_times(item) for item in items])
        sent.append(sent_times(own, sides, times, since))
    every = np.concatenate(ready)
    if waited or (every & BETWEEN).any():
        first = np.repeat(np.arange(len(ready)), [len(own) for own in ready])
        order = np.lexsort((np.concatenate(sent), every, first, packets_of(every)))
    else:
        order = np.argsort(every, kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return order, ranks


def _count(item: Item) -> int:
    return 1 if isinstance(item, Frame) else len(item)


def _lengths(item: Item) -> Int64s:
    return np.array([item.length], np.int64) if isinstance(item, Frame) else item.stops - item.starts


def _times(item: Item) -> Int64s:
    if isinstance(item, FrameBlock):
        return item.time_ns
    return np.array([item.time_ns], np.int64)


def frames_of(items: list[Item]) -> list[Frame]:
    """The items of a connection as frames, in its order."""
    if not has_blocks(items):
        return items  # type: ignore[return-value]
    frames = [frame for item in items for frame in ([item] if isinstance(item, Frame) else item.frames())]
    own_order(frames, gap_since(frames[0].connection))
    return frames
