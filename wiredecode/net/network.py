"""Packets to streams: `Network` takes batches of packets and gives the bytes of every TCP direction in order.

The headers of a batch are decoded as columns; then its segments are put into their streams one by one. Nothing is done
for a connection without packets in the batch, unless it waits for a gap.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.buckets import Bucket, Dealt
from wiredecode.net.connection_state import AckHold, ConnectionState, Owner, Segment
from wiredecode.net.flows import Analyser, Connections, FlowPacket
from wiredecode.net.headers import HeaderReader, outer_of
from wiredecode.net.hosts import Hosts
from wiredecode.net.limits import CLOSED_CHECK_PACKETS, DEFAULT_LIMITS, SILENT_NS, TOTAL_CHECK_PACKETS, Limits
from wiredecode.net.logical_time import Clock, logical_time
from wiredecode.net.reassembly import Reassembler
from wiredecode.net.reorder import Origin, ending
from wiredecode.net.runs import CONTROL, place_runs
from wiredecode.net.segment_copies import SegmentCopies
from wiredecode.net.segment_facts import FactsLog
from wiredecode.net.segments import ACK, FIN, FLOW, MASK, RST, SYN, Segments
from wiredecode.net.types import Connection, Event

REST = (
    "row",
    "seq",
    "ack",
    "flags",
    "start",
    "captured",
    "length",
    "number",
    "time_ns",
    "completed_by",
    "completed_ns",
)
"""Columns of `Segments` that are needed here."""


def place_segments(s: Segments, clock: Int64s, connections: Connections, out: list[Event]) -> list[Owner]:
    """Put segments into their streams, in packet order; return connection and side of each.

    ``clock``: the capture clock at each packet, ns. The Chunks are made at the end, by `Reassembler.flush`.
    """
    owners: list[Any] = [None] * len(s)
    placed = place_runs(s, clock, connections, owners, out) if connections.has_room(len(s)) else np.zeros(len(s), bool)
    singly = np.flatnonzero(~placed)
    flows, rest = ([getattr(s, name)[singly].tolist() for name in names] for names in (FLOW, REST))
    rows = zip(singly.tolist(), zip(*flows, strict=True), clock[s.row[singly]].tolist(), *rest, strict=True)
    buffer, find, touch = s.buffer, connections.find, connections.touch
    streams: dict[Reassembler, None] = {}
    with_gap = connections.shared.with_gap
    for index, key, capture_ns, row, seq, ack, flags, start, captured, length, number, time_ns, last, last_ns in rows:
        owner = find(key)
        if owner is not None and flags & CONTROL == ACK and length == captured and start >= 0:
            state, side = owner
            stream, peer = state.streams[side], state.streams[1 - side]
            waits = with_gap and (stream in with_gap or peer in with_gap)
            # Nearly every packet: a whole segment in order, of an open connection without gaps.
            if not (waits or state.closed_sides or (length and (not stream.in_order(seq) or peer.is_ack_ahead(ack)))):
                touch(state, side, state.clock.at(last_ns), capture_ns)
                state.acks[side] = ack
                owners[index] = owner
                if length:
                    stream.extend(seq, buffer[start : start + length], number, time_ns, logical_time(last), last_ns)
                    streams[stream] = None
                continue
        own = Clock(connections.gap_ns) if owner is None else owner[0].clock
        packet = FlowPacket(key, own, own.at(last_ns), capture_ns, last, last_ns)
        before_ns = int(clock[row - 1]) if row and owner is not None else None
        columns = seq, ack, flags, start, captured, length, number, time_ns
        owners[index] = _place_segment(s, columns, packet, connections, owner, before_ns, streams, out)
    for stream in streams:
        stream.flush(out)
    if len(singly) < len(s):
        connections.mark_recent(owners)
    return owners


def _place_segment(
    s: Segments,
    columns: tuple[int, ...],
    packet: FlowPacket,
    connections: Connections,
    owner: Owner | None,
    before_ns: int | None,
    streams: dict[Reassembler, None],
    out: list[Event],
) -> Owner:
    """Put one segment, also with SYN, FIN, RST or a gap, into its stream; return connection and side.

    ``columns``: its row of ``s``. ``before_ns``: the capture clock at the packet before. ``streams``: those to flush.
    """
    seq, ack, flags, start, captured, length, number, time_ns = columns
    now = expired = packet.own_ns
    with_gap = connections.shared.with_gap
    if owner is not None and before_ns is not None:  # packets of other connections may have ended its waits
        expired = max(now, owner[0].clock_at(before_ns - SILENT_NS))
    if owner is not None and with_gap:
        owner[0].expire(expired, packet.number, out)
    state, side = connections.find_or_open(packet, expired, out)
    if flags & (SYN | RST) == SYN:
        state, side = connections.synchronize(packet, state, side, seq, flags, ack, out)
    if flags & (ACK | RST | SYN) == ACK:
        state.acks[side] = ack
    if length or flags & (FIN | RST):
        data = s.buffer[start : start + captured] if start >= 0 else s.extra[~start]
        segment = Segment(seq + 1 & MASK if flags & SYN else seq, ack, flags, data, length)
        origin = Origin(number, time_ns, logical_time(packet.number), packet.time_ns, now)
        state.arrive(side, segment, origin, out)
        streams[state.streams[side]] = None
        if state.hold is not None:
            streams[state.streams[1 - side]] = None
        if flags & (FIN | RST):
            connections.touch(state, side, now, packet.capture_ns)
    if with_gap and flags & (ACK | RST) and not flags & SYN:
        state.streams[1 - side].acknowledge(ack, flags, packet.number, now)
    return state, side


class Network:
    """Link, IP and TCP of one capture.

    Feed all batches in packet order. Events of one direction come in stream order; a stable sort by ``ready`` puts
    those of several directions in capture order, for any size of batches. Later events are ready at or after
    `watermark`.

    ``bucket``: take only its connections. Every bucket counts packets without TCP, only the first one the limits that
    they reach. ``analyse``: every connection gets its `Connection.health`. ``resolve``: connections get the names of
    their addresses found in the capture. ``track``: analyse, and note `tracked_packets`. ``facts``: analyse,
    and note the facts of packets (`ConnectionHealth.facts`).
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        bucket: Bucket | Dealt | None = None,
        *,
        analyse: bool = False,
        resolve: bool = False,
        track: bool = False,
        facts: bool = False,
    ) -> None:
        self.limits = limits
        self.packets = 0
        self.not_decoded: Counter[str] = Counter()
        """Packets without TCP, by reason (``"UDP"``, ``"ARP"``, ``"linktype 147 (USER0)"`` ...)."""
        self.limits_hit: Counter[str] = Counter()
        """Number of times that each limit was reached, by its name in `Limits`."""
        self._bucket = bucket
        counted = bucket is None or bucket.number == 0
        self._headers = HeaderReader(limits, self.not_decoded, self.limits_hit if counted else Counter())
        self._clock = Clock(int(limits.gap_seconds * 1e9))
        self.facts = FactsLog() if facts else None
        self._analyser = Analyser(self.facts, track=track) if analyse or track or facts else None
        self.tunnelled: dict[int, Connection] = {}
        """Connections in tunnels, by number, if packets are tracked; the caller forgets them."""
        self._hosts = Hosts(limits) if resolve else None
        self.opened: list[Connection] | None = None
        """Connections that were opened, if the caller gives a list, and empties it."""
        self._copies = SegmentCopies()
        self._connections = Connections(limits, self.limits_hit, self._analyser)
        self._last = 0

    @property
    def tracked_packets(self) -> tuple[dict[int, int], dict[int, int]]:
        """Of the packets of the last `feed`: number to connection, and to kinds where TCP analysis found any."""
        assert self._analyser is not None
        return self._analyser.connections or {}, self._analyser.kinds

    @property
    def tcp_packets(self) -> int:
        """Packets that carried TCP. After `finish`, this plus all of ``not_decoded`` is ``packets``."""
        return self._headers.tcp_packets

    @property
    def copies(self) -> int:
        """Packets with TCP that were seen before at another interface; 0 where connections are not analysed."""
        return self._copies.count

    @property
    def connections(self) -> int:
        return self._connections.count

    @property
    def watermark(self) -> int:
        """The number of the next packet: all later events are ready at or after it."""
        return self._last + 1

    def pop_forgotten(self) -> list[Connection]:
        """Connections that ended since the last call: their state can be dropped.

        In order of `Connection.end_packet`. After `finish`, all connections have been among them once.
        """
        forgotten, self._connections.forgotten = self._connections.forgotten, []
        return sorted(forgotten, key=attrgetter("end_packet", "first"))

    def feed(self, batch: PacketBatch) -> list[Event]:
        """Take the next packets."""
        out: list[Event] = []
        if self._analyser is not None:
            self._analyser.begin()
        if self.facts is not None:
            self.facts.begin()
        for part, clock in self._parts(batch, self._clock.advance(batch.time_ns)):
            self._connections.shared.begin(clock, part.number)
            if self._hosts is not None:
                self._hosts.learn_names(part)
            self._feed_segments(self._headers.read(part), part, clock, out)
            if self._headers.found_tunnels:
                self._find_tunnels(part)
            if self._hosts is not None:
                for connection in self._connections.opened:
                    connection.hosts = self._hosts.of(connection)
            if self.opened is not None:
                self.opened += self._connections.opened
            self._connections.opened.clear()
            self.packets += len(part)
            self._last = int(part.number[-1])
            self._expire(int(clock[-1]) - SILENT_NS, out)
            if self._last % TOTAL_CHECK_PACKETS == 0:
                self._bound_total(int(clock[-1]), out)
            if self._last % CLOSED_CHECK_PACKETS == 0:
                self._connections.bound_closed(self._last, out)
            if self._analyser is not None:
                self._analyser.finish()
        return out

    def _find_tunnels(self, part: PacketBatch) -> None:
        """Note the tunnels of new connections."""
        self._headers.found_tunnels = False
        for connection in self._connections.opened:
            row = int(np.searchsorted(part.number, connection.first))
            connection.outer = outer_of(part.part(row, row + 1), self.limits)
            if connection.outer is not None and self._analyser is not None and self._analyser.connections is not None:
                self.tunnelled[connection.number] = connection

    def _feed_segments(self, segments: Segments, part: PacketBatch, clock: Int64s, out: list[Event]) -> None:
        if self._bucket is not None:
            segments = self._bucket.keep(segments)
        owners = place_segments(segments, clock, self._connections, out)
        if self.facts is not None:
            self.facts.next_part(part)
        if self._analyser is not None:
            self._analyser.analyse(segments, owners, self._copies.find(segments, part, clock))

    def tick(self, time_ns: int) -> list[Event]:
        """Live capture: no packet came up to ``time_ns``; give up the gaps that have expired.

        Gaps without an ACK expire after `Limits.live_seconds`. All events are ready with the next packet.
        """
        clock = self._clock.advance(np.array([time_ns], np.int64))
        out: list[Event] = []
        shared = self._connections.shared
        shared.begin(clock, np.array([self._last + 1], np.int64))
        shared.until = self._last + 1
        now, patience = int(clock[0]), int(self.limits.live_seconds * 1e9)
        self._expire(now, out)
        for state in self._waiting():
            own = state.clock_at(now)
            for stream in state.streams:
                while (oldest := stream.oldest()) is not None and own > oldest.origin.clock + patience:
                    state.give_up(stream, ending(state.wait_ends.before(self._last + 1), own), out)
        if self._analyser is not None:
            self._analyser.finish()
        return out

    def _waiting(self) -> list[ConnectionState]:
        connections = self._connections
        owners = (connections.find(stream.acked_by) for stream in connections.shared.with_gap)
        return list(dict.fromkeys(each[0] for each in owners if each is not None))

    def finish(self) -> list[Event]:
        """End of the capture: give up all gaps, return the remaining events, and end all connections."""
        out: list[Event] = []
        self._connections.finish(self._last, out)
        if self._analyser is not None:
            self._analyser.finish()
        self._headers.finish()
        return out

    def _parts(self, batch: PacketBatch, clock: Int64s) -> Iterator[tuple[PacketBatch, Int64s]]:
        """The batch, divided where a limit could be reached inside it, so that its size does not matter."""
        begin, count, limits = 0, len(batch), self.limits
        while begin < count:
            end = count
            if len(self._connections) + count - begin > limits.connections:
                over = int(np.searchsorted(clock, int(clock[begin]) + self._connections.closed_ns, "right"))
                end = min(end, begin + max(limits.connections, 1), over)
            buffered = sum(stream.buffered for stream in self._connections.shared.with_gap)
            if buffered + int(batch.captured[begin:].sum()) > limits.buffered_total:
                end = min(end, _edge(batch, begin, TOTAL_CHECK_PACKETS))
            if self._connections.closed + count - begin > limits.closed_connections:
                end = min(end, _edge(batch, begin, CLOSED_CHECK_PACKETS))
            yield (batch if end - begin == count else batch.part(begin, end)), clock[begin:end]
            begin = end

    def _expire(self, clock: int, out: list[Event]) -> None:
        """End the waits that have expired at ``clock``, ns of the capture clock."""
        shared = self._connections.shared
        for state in self._waiting() if shared.with_gap else ():
            state.expire(max(state.last_ns, state.clock_at(clock)), shared.until, out)
        self._connections.forget_closed(clock, out)

    def _bound_total(self, clock: int, out: list[Event]) -> None:
        """Enforce `Limits.buffered_total`: end the oldest waits of all connections. ``clock``: the capture clock."""
        limit, with_gap = self.limits.buffered_total, self._connections.shared.with_gap
        total = sum(stream.buffered for stream in with_gap)
        if total <= limit:
            return
        queue: list[tuple[int, int, int, Reassembler | AckHold, ConnectionState]] = []

        def enqueue(kind: int, each: Reassembler | AckHold, state: ConnectionState) -> None:
            if (oldest := each.oldest()) is not None:
                heapq.heappush(queue, (oldest.origin.at, state.connection.first, kind, each, state))

        for state in self._waiting():
            for kind, each in enumerate((*state.streams, state.hold)):
                if each is not None:
                    enqueue(kind, each, state)
        while total > limit and queue:
            since, _, kind, holder, state = heapq.heappop(queue)
            oldest = holder.oldest()
            if oldest is not None and oldest.origin.at == since:
                before = sum(stream.buffered for stream in state.streams)
                last = ending(state.wait_ends.before(self._last + 1), state.clock_at(clock))
                holder.limit_reached("buffered_total", last, out)
                state.give_up(holder, last, out)
                total -= before - sum(stream.buffered for stream in state.streams)
            enqueue(kind, holder, state)


def _edge(batch: PacketBatch, begin: int, step: int) -> int:
    """The row after the first packet from row ``begin`` on whose number is a multiple of ``step``."""
    edge = -(-int(batch.number[begin]) // step) * step
    return max(int(np.searchsorted(batch.number, edge, "right")), begin + 1)
