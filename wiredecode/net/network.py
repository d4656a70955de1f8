"""Packets to streams: `Network` takes batches of packets and gives the bytes of every TCP direction in order.

A batch is decoded into columns, its segments are grouped by flow, and what of a group continues its stream
exactly is taken at once; only the rest goes segment by segment. Nothing is done for a connection without
packets in the batch, unless it waits for a hole.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from wiredecode.capture.batch import PacketBatch
from wiredecode.net.clock import Clock
from wiredecode.net.connections import Connections
from wiredecode.net.headers import HeaderReader
from wiredecode.net.intake import ColumnIntake, take_rows
from wiredecode.net.limits import TOTAL_CHECK_PACKETS, Limits
from wiredecode.net.types import Connection, Event

COLUMNS_PAY_FROM = 40
"""Packets in a batch from which on columns are faster than one by one (measured)."""


DEFAULT = Limits()


class Network:
    """Link, IP and TCP of one capture.

    Feed all batches in packet order. Events of one direction come in stream order; sort what is made of
    several directions by ``ready``, and hold back what is ready at or after `watermark`: the result is in
    capture order, and the same however the capture was cut into batches.
    """

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self.limits = limits
        self.packets = 0
        """Packets read."""
        self.not_decoded: Counter[str] = Counter()
        """Packets without TCP, by reason (``"UDP"``, ``"ARP"``, ``"linktype 147 (USER0)"`` ...)."""
        self.limits_hit: Counter[str] = Counter()
        """How often each limit was reached, by its name in `Limits`."""
        self._headers = HeaderReader(limits, self.not_decoded, self.limits_hit)
        self._clock = Clock(int(limits.hole_seconds * 1e9))
        self._connections = Connections(limits, self.limits_hit)
        self._last = 0

    @property
    def tcp_packets(self) -> int:
        """Packets that carried TCP. After `finish`, this plus all of ``not_decoded`` is ``packets``."""
        return self._headers.tcp_packets

    @property
    def connections(self) -> int:
        """Connections seen."""
        return self._connections.count

    @property
    def watermark(self) -> int:
        """Every event to come has ``ready`` at or after this packet number."""
        oldest = (stream.oldest() for stream in self._connections.holed)
        return min((arrival.origin.ready for arrival in oldest if arrival is not None), default=self._last + 1)

    def take_forgotten(self) -> list[Connection]:
        """Connections, since the last call, that nothing will be heard of any more: their state can go."""
        forgotten, self._connections.forgotten = self._connections.forgotten, []
        return forgotten

    def feed(self, batch: PacketBatch) -> list[Event]:
        """Take the next packets."""
        out: list[Event] = []
        for part in self._parts(batch):
            clock = self._clock.advance(part.time_ns)
            if len(part) < COLUMNS_PAY_FROM:
                rows, extra = self._headers.read_rows(part, clock)
                take_rows(rows, extra, part.buffer, clock.tolist(), self._connections, out)
            elif len(segments := self._headers.read(part, clock)):
                ColumnIntake(segments, clock, self._connections, out).process()
            self.packets += len(part)
            self._last = int(part.number[-1])
            self._expire(out)
            if self._last % TOTAL_CHECK_PACKETS == 0:
                self._bound_total(out)
        return out

    def tick(self, time_ns: int) -> list[Event]:
        """Live capture: no packet came up to ``time_ns``; give up the holes whose time is over."""
        self._clock.advance(np.array([time_ns], np.int64))
        out: list[Event] = []
        self._expire(out)
        return out

    def finish(self) -> list[Event]:
        """End of the capture: every hole is given up, what waits behind comes out."""
        out: list[Event] = []
        for stream in list(self._connections.holed):
            stream.finish(out)
        self._headers.finish()
        return out

    def _parts(self, batch: PacketBatch) -> Iterator[PacketBatch]:
        """The batch, or pieces of it where a limit could be reached inside: its size must not matter."""
        begin, count = 0, len(batch)
        while begin < count:
            end = count
            if len(self._connections) + count - begin > self.limits.connections:
                end = min(end, begin + max(self.limits.connections, 1))
            buffered = sum(stream.buffered for stream in self._connections.holed)
            if buffered + int(batch.captured[begin:].sum()) > self.limits.buffered_total:
                edge = -(-int(batch.number[begin]) // TOTAL_CHECK_PACKETS) * TOTAL_CHECK_PACKETS
                end = min(end, max(int(np.searchsorted(batch.number, edge, "right")), begin + 1))
            yield batch if end - begin == count else _slice(batch, begin, end)
            begin = end

    def _expire(self, out: list[Event]) -> None:
        if self._clock.now is None:
            return
        for stream in list(self._connections.holed):
            stream.expire(self._clock.now, out)
            stream.flush(out)

    def _bound_total(self, out: list[Event]) -> None:
        """Give up the oldest holes, wherever they are, while too much waits behind holes."""
        total = sum(stream.buffered for stream in self._connections.holed)
        if total <= self.limits.buffered_total:
            return
        queue = [
            (arrival.origin.ready, arrival.position, index, stream)
            for index, stream in enumerate(self._connections.holed)
            if (arrival := stream.oldest()) is not None
        ]
        heapq.heapify(queue)
        while total > self.limits.buffered_total and queue:
            _, _, index, stream = heapq.heappop(queue)
            arrival = stream.oldest()
            assert arrival is not None
            before = stream.buffered
            stream.limit_reached("buffered_total", arrival.origin, out)
            stream.give_up(out)
            stream.flush(out)
            total -= before - stream.buffered
            arrival = stream.oldest()
            if arrival is not None:
                heapq.heappush(queue, (arrival.origin.ready, arrival.position, index, stream))


def _slice(batch: PacketBatch, begin: int, end: int) -> PacketBatch:
    columns = {f.name: getattr(batch, f.name)[begin:end] for f in fields(batch) if f.name != "buffer"}
    return PacketBatch(batch.buffer, **columns)
