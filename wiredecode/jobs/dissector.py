"""Dissects the connections of one process; numbers of frames and connections are those of the whole capture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.dissect.demand import Demand, RunsFor
from wiredecode.dissect.dissector import Dissector
from wiredecode.dissect.order import Order, capture_order, ready_columns
from wiredecode.frames.frame import Frame
from wiredecode.frames.framer import Skipped
from wiredecode.frames.run import Run
from wiredecode.jobs import Unsplittable
from wiredecode.jobs.exchange import END, Peers, Told
from wiredecode.net import Network
from wiredecode.net.share import Share
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Conversation

Int64s = npt.NDArray[np.int64]
NONE = np.empty(0, np.int64)

MAX_AHEAD = 4
"""Batches that a process reads before the others have told of theirs."""


class SharedDissector(Dissector):
    """Takes its ``share``, and hears from its ``peers`` what else there is. ``together``: ports that have one owner."""

    def __init__(self, share: Share, peers: Peers, together: frozenset[int], demand: Demand, network: Network) -> None:
        if demand.runs is RunsFor.COLUMNS:
            demand = replace(demand, runs=None)
        super().__init__(demand, Network(network.limits, share))
        self._peers, self._bound = peers, together
        self._told = 0
        """Of what is pending, so many are known to the others."""
        self._mark = self._safe = 0
        self._others: list[Told] = []
        """What waits elsewhere; connections of it have numbers."""
        self._opened: list[Int64s] = []
        """First packets of connections, also of others, that have no number yet."""
        self._unnumbered: list[Connection] = []
        self._unknown: set[Connection] = set()
        """Connections whose protocol is not known yet."""
        self._connections = 0
        self._lengths = self._times = NONE
        """By rank in what is being released."""

    def parts(self, batches: Iterable[PacketBatch]) -> Iterator[tuple[Iterable[Frame | Run], int]]:
        """What becomes ready, and up to which frame number all is out then; take all of one before the next."""
        error: CaptureError | None = None
        try:
            for batch in batches:
                self._receive(batch)
                self._tell(self.network.watermark)
                self._hear(wait=False)
                yield from self._part()
                while self._peers.ahead > MAX_AHEAD:
                    self._hear(wait=True)
                    yield from self._part()
        except CaptureError as raised:
            error = raised
        self._end()
        self._tell(END)
        while self._peers.watermark != END:
            self._hear(wait=True)
            yield from self._part()
        yield from self._part()
        yield [*self._waiting], self._number
        self.accounts.finish(self.network)
        if error is not None:
            raise error

    def _part(self) -> Iterator[tuple[Iterable[Frame | Run], int]]:
        safe = min(self._mark, self._peers.watermark)
        if safe > self._safe:
            self._safe = safe
            self._number_connections(safe)
            ready = self._release(safe)
            yield (self._linked(ready) if self.demand.link_responses else ready), 0
            yield (), self._waiting[0].number - 1 if self._waiting else self._number

    def _tell(self, watermark: int) -> None:
        opened = self.network.take_opened()
        self._unnumbered += opened
        self._unknown.update(opened)
        self._check()
        firsts = np.fromiter((connection.first for connection in opened), np.int64, len(opened))
        self._opened.append(firsts)
        items = self._pending[self._told :]
        self._told = len(self._pending)
        self._mark = watermark
        ready, first = ready_columns(items)
        self._peers.tell(Told(watermark, firsts, ready, first, *self._weights(items)))

    def _weights(self, items: list[Frame | Run | Skipped]) -> tuple[Int64s, Int64s]:
        if not self.demand.link_responses:
            return NONE, NONE
        frames = [item for item in items if isinstance(item, Frame)]
        return (
            np.fromiter((frame.length for frame in frames), np.int64, len(frames)),
            np.fromiter((frame.time_ns for frame in frames), np.int64, len(frames)),
        )

    def _hear(self, *, wait: bool) -> None:
        for told in self._peers.hear(wait=wait):
            self._opened.append(told.opened)
            if len(told.ready):
                self._others.append(told)

    def _number_connections(self, safe: int) -> None:
        """Number the connections that are known to all, in the order of their first packets."""
        firsts = np.concatenate(self._opened) if self._opened else NONE
        known = np.sort(firsts[firsts < safe])
        self._opened = [firsts[firsts >= safe]]
        later = []
        for connection in self._unnumbered:
            if connection.first < safe:
                connection.number = self._connections + 1 + int(np.searchsorted(known, connection.first))
            else:
                later.append(connection)
        self._unnumbered = later
        self._connections += len(known)

    def _order(self, watermark: int | None) -> Order:
        """All that is ready, in order: also what others have is counted."""
        assert watermark is not None
        chosen: list[tuple[Int64s, ...]] = []
        rest: list[Told] = []
        for told in self._others:
            mask = told.ready < watermark
            columns = told.ready, told.first, told.length, told.time_ns
            weighed = columns if self.demand.link_responses else columns[:2]
            chosen.append(tuple(column[mask] for column in weighed))
            if not mask.all():
                left = [column[~mask] for column in weighed] + [NONE, NONE]
                rest.append(Told(told.watermark, NONE, *left[:4]))
        self._others = rest
        others = [np.concatenate(column) for column in zip(*chosen, strict=True)] or [NONE] * 4
        if self.demand.link_responses:
            self._weigh(watermark, others)
        order = Order(self._pending, watermark, self._number, (others[0], others[1]))
        self._told = len(self._pending)
        return order

    def _weigh(self, watermark: int, others: list[Int64s]) -> None:
        """Know how much came before each frame."""
        own = [item for item in self._pending if isinstance(item, Frame) and item.ready < watermark]
        columns = (*ready_columns([*own]), *self._weights([*own]))
        ready, first, length, time_ns = (
            np.concatenate([column, other]) for column, other in zip(columns, others, strict=True)
        )
        order = capture_order(ready, first)
        self._lengths, self._times = length[order], time_ns[order]

    def _linked(self, frames: Iterable[Frame | Run]) -> Iterator[Frame]:
        """Requests wait for their responses as they do in one process: what others have counts."""
        waiting, lookahead, before, at = self._waiting, self._lookahead, self._number, 0
        for frame in frames:
            assert isinstance(frame, Frame)
            rank = frame.number - before - 1
            lookahead.skip(self._times[at:rank], self._lengths[at:rank])
            lookahead.add(frame)
            at = rank + 1
            waiting.append(frame)
            yield from self._not_waiting()
        lookahead.skip(self._times[at:], self._lengths[at:])
        yield from self._not_waiting()

    def _not_waiting(self) -> Iterator[Frame]:
        waiting, last = self._waiting, self._lookahead.seen - self._lookahead.waiting
        while waiting and waiting[0].number <= last:
            yield waiting.popleft()

    # What cannot be divided.

    def _check(self) -> None:
        """Connections that know of each other must have one owner."""
        for connection in list(self._unknown):
            tracker = self._trackers.get(connection)
            if tracker is None or tracker.identifier is not None:
                continue
            self._unknown.discard(connection)
            protocol = tracker.protocol
            if protocol is not None and protocol.has_session and self._bound.isdisjoint(connection.ports):
                port = connection.ports[1 if connection.initiator is None else 1 - connection.initiator]
                raise Unsplittable(f"{protocol.title} on port {port}: say -d {port}={protocol.name}")

    def _handed_on(self, conversation: Conversation) -> Iterator[Frame]:
        raise Unsplittable("it has frames inside compressed or wrapped frames, which all processes would have to count")
