"""Segments into the streams they belong to: as columns where they continue a stream, one by one where not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from copy import copy

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.net.backlog import Origin
from wiredecode.net.causality import Segment, Tracked, arrive, deliver
from wiredecode.net.connections import Connections, OwnPacket
from wiredecode.net.limits import SILENT_NS
from wiredecode.net.moments import Clock, at_packet, within
from wiredecode.net.reassembly import Reassembler
from wiredecode.net.segments import (
    ACK,
    COLUMNS,
    FIN,
    HALF,
    MASK,
    RST,
    SYN,
    FlowKey,
    Flows,
    Row,
    Segments,
    group_by_flow,
    reverse,
)
from wiredecode.net.types import Event

Owner = tuple[Tracked, int]
"""A connection and a side of it: what a flow belongs to."""


def feed_rows(
    rows: Iterable[Row],
    extra: list[bytes],
    buffer: bytes,
    clock: list[int],
    connections: Connections,
    out: list[Event],
) -> None:
    """Segments one by one, in packet order; ``clock`` of the capture, at each packet."""
    streams: dict[Reassembler, None] = {}
    holed = connections.shared.holed
    for place, high, low, other_high, other_low, ports, *row in rows:
        seq, ack, flags, start, captured, length, number, time_ns, ready, ready_ns, _window, _header = row
        key = high, low, other_high, other_low, ports
        found = connections.find(key)
        own = Clock(connections.hole_ns) if found is None else found[0].clock
        now = over = own.at(ready_ns)
        packet = OwnPacket(key, own, now, clock[place], ready, ready_ns)
        if found is not None and place:  # others may have shown before that nothing more was to be expected
            over = max(now, found[0].now(clock[place - 1] - SILENT_NS))
        if found is not None and holed:
            found[0].expire(over, ready, out)
        tracked, side = connections.find_or_open(packet, over, out)
        if flags & (SYN | RST) == SYN:
            tracked, side = connections.synchronize(packet, tracked, side, seq, flags, ack, out)
        if flags & (ACK | RST | SYN) == ACK:
            tracked.acks[side] = ack
        if length or flags & (FIN | RST):
            data = buffer[start : start + captured] if start >= 0 else extra[~start]
            origin = Origin(number, time_ns, at_packet(ready), ready_ns, now)
            segment = Segment(seq + 1 & MASK if flags & SYN else seq, ack, flags, data, length)
            arrive(tracked, side, segment, origin, out)
            streams[tracked.streams[side]] = None
            if tracked.hold is not None:
                streams[tracked.streams[1 - side]] = None
            if flags & (FIN | RST):
                connections.seen(tracked, now, clock[place])
        if holed and flags & (ACK | RST) and not flags & SYN:
            tracked.streams[1 - side].acknowledged(ack, flags, ready, now)
    for stream in streams:
        stream.flush(out)


class ColumnIntake:
    """The segments of one batch on their way into the streams."""

    def __init__(self, segments: Segments, clock: Int64s, connections: Connections, out: list[Event]) -> None:
        """``clock``: of the capture, at each packet."""
        self._segments = segments
        self._capture_clock = clock
        self._connections = connections
        self._out = out
        flows = self.flows = group_by_flow(segments)
        self._flow_of_key = {key: flow for flow, key in enumerate(flows.keys)}
        opposite = (self._flow_of_key.get(reverse(key), -1) for key in flows.keys)
        self._opposite = [-1 if other == flow else other for flow, other in enumerate(opposite)]
        known = [None if found is None else found[0] for found in map(connections.find, flows.keys)]
        self._before = [None if each is None else (each.last, each.seen) for each in known]
        clocks = [Clock(connections.hole_ns) if each is None else copy(each.clock) for each in known]
        self._clocks = [clocks[max(flow, other)] for flow, other in enumerate(self._opposite)]
        self._clock = self._own_clock()
        first, last, other = np.array(flows.first), np.array(flows.last), np.array(self._opposite)
        other = np.where(other < 0, np.arange(len(other)), other)
        self._from, self._to = self._clock[np.minimum(first, first[other])], self._clock[np.maximum(last, last[other])]
        self._cursor = flows.begin[:-1]
        rows = self._rows = flows.rows
        self._row_list: list[int] = rows.tolist()
        flags = self._flags = segments.flags[rows]
        seq = self._seq_column = (segments.seq[rows] + (flags & SYN != 0)) & MASK
        self._seq: list[int] = seq.tolist()
        self._length = segments.length[rows]
        self._taken = np.where(flags & RST != 0, 0, self._length)
        """Bytes that move the stream on: data inside a reset is no part of it."""
        self._number = segments.number[rows]
        self._time_ns = segments.time_ns[rows]
        self._begin = segments.start[rows].tolist()
        self._end = (segments.start[rows] + segments.captured[rows]).tolist()
        odd = (flags & (FIN | RST) != 0) | (segments.captured[rows] != self._length) | (segments.start[rows] < 0)
        fresh = np.ones(len(rows), bool)
        fresh[1:] = (
            (flows.flow_of[1:] != flows.flow_of[:-1])
            | (seq[1:] != (seq[:-1] + self._length[:-1]) & MASK)
            | odd[1:]
            | odd[:-1]
        )
        self._odd: list[bool] = odd.tolist()
        self._origins: tuple[list[int], ...] | None = None
        self._plain: Int64s | None = None  # of every place in ``flows.every`` the last one with an ACK up to it
        self._runs: list[int] = np.flatnonzero(fresh).tolist()

    def process(self) -> None:
        """Go through first packets of flows and SYNs in packet order, and take the segments between them."""
        s = self._segments
        if self._outlives() or self._falls_silent():
            rows = zip(*(getattr(s, name).tolist() for name in COLUMNS), strict=True)
            feed_rows(rows, s.extra, s.buffer, self._capture_clock.tolist(), self._connections, self._out)
            return
        shared = self._connections.shared
        shared.apply_acks, shared.own_after, end = self._apply_acks, self.own_after, shared.until
        flows, syn = self.flows, s.flags & (SYN | RST) == SYN
        events = {row: flow for flow, row in enumerate(flows.first)}
        if syn.any():
            for row in np.flatnonzero(syn).tolist():
                if row not in events:
                    events[row] = self._flow_of_key[self._key(row)]
        order = sorted(events)
        first_number = int(s.ready[0])
        columns = self._clock, self._capture_clock[s.row], s.ready, s.ready_ns
        for row, *columns_of in zip(order, *(column[order].tolist() for column in columns), strict=True):
            flow = events[row]
            packet = OwnPacket(flows.keys[flow], self._clocks[flow], *columns_of)
            tracked, side = self._connections.find_or_open(packet, packet.now, self._out)
            if syn[row]:
                if tracked.connection.first >= first_number:
                    self._answer(tracked.streams[1 - side], flow)
                shared.until = packet.number
                self._syn(row, flow, packet, tracked, side)
        shared.until = end
        self._feed_all()

    def _outlives(self) -> bool:
        """Whether a connection goes on for so long after its end, in these packets, that it may be another one."""
        flows, longest = self.flows, self._connections.closed_ns
        if not (self._to - self._from > longest).any():
            return False
        ends = np.flatnonzero(self._flags & (FIN | RST))[::-1]
        since: dict[int, int] = dict(zip(flows.flow_of[ends].tolist(), self._rows[ends].tolist(), strict=True))
        for key in self._connections.closed_flows():
            flow = self._flow_of_key.get(key, -1)
            if flow >= 0:
                since[flow] = flows.first[flow]
        for flow, row in since.items():
            other = self._flow_of_key.get(reverse(flows.keys[flow]), flow)
            last = max(flows.last[flow], flows.last[other])
            if int(self._clock[last] - self._clock[row]) > longest:
                return True
        return False

    def _falls_silent(self) -> bool:
        """Whether the clock of the capture goes on for so much longer between two packets of a connection that others
        show its waits to be over, while its own clock does not."""
        ahead = self._capture_clock[self._segments.row] - self._clock
        before = [seen - last for last, seen in filter(None, self._before)]
        if int(ahead.max()) - min(before, default=int(ahead[0])) <= SILENT_NS and int(np.ptp(ahead)) <= SILENT_NS:
            return False
        for flow in range(len(self._opposite)):
            known = self._before[flow]
            own = ahead[self._own_rows(flow)]
            first = own[0] if known is None else known[1] - known[0]
            if (np.diff(own, prepend=first) > SILENT_NS).any():
                return True
        return False

    def _own_rows(self, flow: int) -> Int64s:
        """The rows of both directions, in packet order."""
        rows, other = self.flows.rows_of(flow), self._opposite[flow]
        return rows if other < 0 else np.sort(np.append(rows, self.flows.rows_of(other)))

    def _own_clock(self) -> Int64s:
        """The clock of its connection at each segment; the clocks have gone on to the last one."""
        s, flows = self._segments, self.flows
        clock = within(s.ready_ns)
        first, last = clock[flows.first].tolist(), clock[flows.last].tolist()
        stepping = {flow for flow, own in enumerate(self._clocks) if own.shift or own.now > first[flow]}
        if (clock[1:] < clock[:-1]).any():
            owner = np.empty(len(clock), np.int64)
            names = [max(flow, other) for flow, other in enumerate(self._opposite)]
            owner[flows.every] = np.repeat(names, np.diff(flows.starts))
            order = np.argsort(owner, kind="stable")
            back = (clock[order][1:] < clock[order][:-1]) & (owner[order][1:] == owner[order][:-1])
            stepping.update(owner[order[1:][back]].tolist())
        for flow in {max(flow, self._opposite[flow]) for flow in stepping}:
            rows = self._own_rows(flow)
            clock[rows] = self._clocks[flow].advance(clock[rows])
        for flow, own in enumerate(self._clocks):
            if own.shift == 0:
                own.now = max(own.now, last[flow])
        return clock

    def own_after(self, key: FlowKey, due: int, number: int) -> tuple[int, int, int] | None:
        """Of the packets of a connection the first after its own time ``due``, unless ``number`` is before; with its
        own time and that of the capture at the packet before it. None: it has no packets here."""
        flow = self._flow_of_key.get(key, self._flow_of_key.get(reverse(key)))
        if flow is None:
            return None
        rows = self._own_rows(flow)
        place = int(np.searchsorted(self._clock[rows], due, "right"))
        if place < len(rows):
            number = min(number, int(self._segments.ready[rows[place]]))
        before = self._before[flow]
        if place:
            row = rows[place - 1]
            before = int(self._clock[row]), int(self._capture_clock[self._segments.row[row]])
        assert before is not None
        return number, *before

    def _feed_all(self) -> None:
        """Take what is left of all flows: those in which the order of both sides matters in packet order."""
        flows, connections = self.flows, self._connections
        owners: list[Owner] = []
        opposite = self._opposite
        for flow, key in enumerate(flows.keys):
            found = connections.find(key)
            assert found is not None
            owners.append(found)
            found[0].clock = self._clocks[flow]
            across = found[0].streams[1 - found[1]]
            if across.answered is None:
                self._answer(across, flow)
        ordered = self._ordered(owners)
        for flow, owner in enumerate(owners):
            if flow in ordered:
                other = opposite[flow]
                self._feed_ordered(flow, other, flows.begin[flow + 1], flows.begin[other + 1] if other >= 0 else 0)
            else:
                self._feed(flow, owner)
        self._note_acks(owners)
        last = np.array(flows.last)
        times, clock = self._clock[last].tolist(), self._capture_clock[self._segments.row[last]].tolist()
        for flow in np.argsort(last).tolist():
            connections.seen(owners[flow][0], times[flow], clock[flow])

    def _note_acks(self, owners: list[Owner]) -> None:
        s, last = self._segments, np.array(self.flows.last)
        columns = (s.flags[last] & (ACK | RST | SYN) == ACK), s.ack[last], s.ready[last]
        for flow, (plain, ack, ready) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            tracked, side = owners[flow]
            if plain and ready >= tracked.connection.first:
                tracked.acks[side] = ack
            else:
                self._note_ack(flow, tracked, side)

    def _note_ack(self, flow: int, tracked: Tracked, side: int, row: int | None = None) -> None:
        """Remember what a side, which is ``flow``, acknowledged last before ``row``."""
        s, every = self._segments, self.flows.every
        low, high = self.flows.starts[flow : flow + 2].tolist()
        place = high if row is None else low + int(np.searchsorted(every[low:high], row))
        if self._plain is None:
            plain = s.flags[every] & (ACK | RST | SYN) == ACK
            self._plain = np.maximum.accumulate(np.where(plain, np.arange(len(every)), -1))
        place = int(self._plain[place - 1]) if place > low else -1
        if place >= low and int(s.ready[every[place]]) >= tracked.connection.first:
            tracked.acks[side] = int(s.ack[every[place]])

    def _ordered(self, owners: list[Owner]) -> set[int]:
        """Flows that must be taken in packet order together with their opposite."""
        begin = np.array(self.flows.begin)
        ordered: set[int] = set(np.flatnonzero(np.array(self._cursor) != begin[:-1]).tolist())
        opposite = self._opposite
        expected, others, holed = [], [], []
        for flow, (tracked, side) in enumerate(owners):
            stream, other = tracked.streams[side], tracked.streams[1 - side]
            expected.append(stream.expected())
            if opposite[flow] >= 0:
                others.append(UNKNOWN)  # until the rows of that flow are looked at
            else:
                others.append(other.expected() if other.has_sent else NO_WAIT)
            if stream.has_hole:
                holed.append(flow)
            if tracked.hold is not None and tracked.hold.held:
                ordered.add(flow)
        ordered.update(self._may_give_up(owners, holed, np.array(expected)))
        columns = self._seq_column, self._segments.ack[self._rows], self._taken, self._flags
        ordered.update(flows_acking_ahead(self.flows, *columns, expected, others, opposite, holed))
        ordered.update([opposite[flow] for flow in ordered if opposite[flow] >= 0])
        return ordered

    def _may_give_up(self, owners: list[Owner], holed: list[int], expected: Int64s) -> Iterator[int]:
        """Flows of which a hole may be given up between these packets: what the other side sent has a place, too."""
        long = self._to - self._from > self._connections.hole_ns
        if long.any():
            broken = np.unique(self.flows.flow_of[self._broken(expected)])
            yield from broken[long[broken]].tolist()
        for flow in {*holed, *(self._opposite[flow] for flow in holed)} - {-1}:
            for stream in owners[flow][0].streams:
                deadline = stream.deadline()
                if long[flow] or (deadline is not None and deadline < self._to[flow]):
                    yield flow

    def _broken(self, expected: Int64s) -> npt.NDArray[np.bool_]:
        flows, seq, ends = self.flows, self._seq_column, self._seq_column + self._taken & MASK
        broken = np.zeros(len(seq), bool)
        broken[1:] = (seq[1:] != ends[:-1]) & (flows.flow_of[1:] == flows.flow_of[:-1])
        begin = np.array(flows.begin[:-1])
        some = np.flatnonzero((begin < np.array(flows.begin[1:])) & (expected >= 0))
        broken[begin[some]] = seq[begin[some]] != expected[some]
        return broken

    def _apply_acks(self, stream: Reassembler, after: int) -> None:
        """Tell a stream what the other side acknowledges after packet ``after``, up to `ReassemblyContext.until`."""
        flow, s = self._flow_of_key.get(stream.acked_by), self._segments
        if flow is None:
            return
        rows = self.flows.rows_of(flow)
        if stream.answered is None:
            self._answer(stream, flow)
        kinds = s.flags[rows]
        ready, after = s.ready[rows], max(after, stream.opened_at)
        until = min(self._connections.shared.until, self._first_reset(stream, after))
        acks = (kinds & SYN == 0) & (kinds & (ACK | RST) != 0)
        rows = rows[acks & (ready > after) & (ready < until)]
        ack, flags = s.ack[rows], s.flags[rows]
        news = np.ones(len(rows), bool)
        news[1:] = (ack[1:] != ack[:-1]) | (flags[1:] != flags[:-1])
        rows = rows[news]
        columns = ack[news].tolist(), flags[news].tolist(), s.ready[rows].tolist(), self._clock[rows].tolist()
        for row in zip(*columns, strict=True):
            stream.acknowledged(*row)

    def _first_reset(self, stream: Reassembler, after: int) -> int:
        """The first packet after packet ``after`` that resets a stream: what comes later acknowledges nothing of it."""
        flow, s = self._flow_of_key.get(reverse(stream.acked_by)), self._segments
        if flow is None:
            return self._connections.shared.until
        rows = self.flows.rows_of(flow)
        resets = s.ready[rows[s.flags[rows] & RST != 0]]
        return int(next(iter(resets[resets > after]), self._connections.shared.until))

    def _answer(self, stream: Reassembler, flow: int) -> None:
        """Tell a stream when the other side, ``flow``, was heard first; its connection began in these packets."""
        s, rows = self._segments, self.flows.rows_of(flow)
        rows = rows[s.ready[rows] >= stream.connection.first]
        if len(rows):
            stream.answered = int(self._clock[rows[0]])

    def _feed_ordered(self, flow: int, other: int, end: int, other_end: int) -> None:
        """Put the segments of two opposite flows, up to places ``end``, into their streams in packet order."""
        places = list(range(self._cursor[flow], end))
        self._cursor[flow] = end
        if other >= 0:
            places += range(self._cursor[other], other_end)
            self._cursor[other] = other_end
        if not places:
            return
        segments, row_list = self._segments, self._row_list
        found = self._connections.find(self.flows.keys[flow])
        assert found is not None
        tracked, side = found
        for place in sorted(places, key=row_list.__getitem__):
            row = row_list[place]
            data, length = segments.payload(row), int(self._length[place])
            segment = Segment(self._seq[place], int(segments.ack[row]), int(segments.flags[row]), data, length)
            at = side if self.flows.begin[flow] <= place < end else 1 - side
            arrive(tracked, at, segment, self._origin(place), self._out)
        for stream in tracked.streams:
            stream.flush(self._out)

    def _key(self, row: int) -> FlowKey:
        s = self._segments
        columns = (s.source_high, s.source_low, s.target_high, s.target_low, s.ports)
        high, low, other_high, other_low, ports = (int(column[row]) for column in columns)
        return high, low, other_high, other_low, ports

    def _syn(self, row: int, flow: int, packet: OwnPacket, tracked: Tracked, side: int) -> None:
        """A SYN: what came before belongs to the connection as it is, what follows perhaps to a new one."""
        other = self._opposite[flow]
        end, other_end = self._place_of(row, flow), self._place_of(row, other)
        if end > self._cursor[flow] or (other >= 0 and other_end > self._cursor[other]):
            self._feed_ordered(flow, other, end, other_end)
        self._note_ack(flow, tracked, side, row)
        if other >= 0:
            self._note_ack(other, tracked, 1 - side, row)
        s = self._segments
        isn, flags, ack = int(s.seq[row]), int(s.flags[row]), int(s.ack[row])
        self._connections.synchronize(packet, tracked, side, isn, flags, ack, self._out)

    def _place_of(self, row: int, flow: int) -> int:
        """The first place of ``flow`` that is left and not before ``row``."""
        if flow < 0:
            return 0
        place, end = self._cursor[flow], self.flows.begin[flow + 1]
        if place == end or self._row_list[place] >= row:
            return place
        return bisect_left(self._row_list, row, place, end)

    def _feed(self, flow: int, owner: Owner) -> None:
        place, end = self._cursor[flow], self.flows.begin[flow + 1]
        if place == end:
            return
        self._cursor[flow] = end
        tracked, side = owner
        stream = tracked.streams[side]
        next_run = bisect_right(self._runs, place)
        while place < end:
            stop = min(self._runs[next_run] if next_run < len(self._runs) else end, end)
            next_run += 1
            if self._odd[place]:
                self._feed_irregular(tracked, side, place)
            else:
                self._feed_run(stream, place, stop)
            place = stop
        stream.flush(self._out)

    def _feed_run(self, stream: Reassembler, place: int, stop: int) -> None:
        """Plain segments that follow each other; the first may not follow the stream."""
        while place < stop:
            if stream.in_order(self._seq[place]):
                part = slice(place, stop)
                buffer = self._segments.buffer
                data = b"".join([buffer[a:b] for a, b in zip(self._begin[part], self._end[part], strict=True)])
                # Copies: a chunk that is kept must not keep the columns of the whole batch.
                number, time_ns = self._number[part].copy(), self._time_ns[part].copy()
                stream.run(self._seq[place], data, self._length[part], number, time_ns, self._out)
                return
            data = self._segments.buffer[self._begin[place] : self._end[place]]
            stream.segment(self._seq[place], data, len(data), self._origin(place), self._out)
            place += 1

    def _feed_irregular(self, tracked: Tracked, side: int, place: int) -> None:
        """A segment that is cut, in fragments, or has FIN or RST."""
        row = self._row_list[place]
        flags = int(self._segments.flags[row])
        if flags & (FIN | RST):
            tracked.note_end(side, flags)
        length = int(self._length[place])
        if not length and not flags & RST:
            tracked.streams[side].fin(self._seq[place], self._origin(place), self._out)
            return
        segment = Segment(self._seq[place], 0, flags, self._segments.payload(row), length)
        deliver(tracked, side, segment, self._origin(place), self._out)

    def _origin(self, place: int) -> Origin:
        if self._origins is None:
            self._origins = self._origin_columns()
        number, time_ns, ready, ready_ns, clock = self._origins
        return Origin(number[place], time_ns[place], at_packet(ready[place]), ready_ns[place], clock[place])

    def _origin_columns(self) -> tuple[list[int], ...]:
        """The columns of `Origin` as lists, made when a segment has to go alone: faster than the arrays."""
        segments, rows = self._segments, self._rows
        number, time_ns = self._number.tolist(), self._time_ns.tolist()
        clock = self._clock[rows].tolist()
        if segments.ready is segments.number:  # no fragments
            return number, time_ns, number, time_ns, clock
        return number, time_ns, segments.ready[rows].tolist(), segments.ready_ns[rows].tolist(), clock


FLOW = 34
"""Bits of a position within its flow: a distance of sequence numbers and a bit more."""

UNKNOWN, NO_WAIT = -1, -2
"""In place of a sequence number."""


def flows_acking_ahead(
    flows: Flows,
    seq: Int64s,
    ack: Int64s,
    length: Int64s,
    flags: Int64s,
    expected: list[int],
    other: list[int],
    opposite: list[int],
    holed: list[int],
) -> list[int]:
    """The flows, if any, with a segment whose ACK is ahead of what came in order on the opposite flow before it.

    ``seq``, ``ack``, ``length`` (of what is part of the stream), ``flags``: of every place in ``flows.rows``. Of
    every flow: ``expected`` is the next sequence number of its stream, ``opposite`` the opposite flow in this batch or
    -1; ``other`` is the next sequence number of the opposite stream where there is no such flow, or `NO_WAIT`. Both
    may be `UNKNOWN`.
    ``holed``: flows whose stream waits for a hole.
    """
    flow_of, begin = flows.flow_of, np.array(flows.begin)
    across = np.array(opposite)
    start_of, start_across = _starts(seq, begin, np.array(expected), np.array(other), across)
    acked = (ack - start_across[flow_of] + HALF & MASK) - HALF
    acking = (acked > 0) & (flags & (ACK | RST) == ACK) & (start_across[flow_of] >= 0)
    acking[1:] &= (ack[1:] != ack[:-1]) | (flow_of[1:] != flow_of[:-1])  # the first to acknowledge is the earliest
    asking = np.flatnonzero(acking)
    if not len(asking):
        return []
    reached = _reached(flows, seq, length + ((flags & (FIN | RST)) == FIN), start_of, holed)
    flow = flow_of[asking]
    target = across[flow]
    place = np.searchsorted(reached, (target << FLOW) + acked[asking])
    place_or_any = np.minimum(place, len(reached) - 1)
    there = (target >= 0) & (place < len(reached)) & (flow_of[place_or_any] == target)
    there &= flows.rows[place_or_any] < flows.rows[asking]
    found: list[int] = np.unique(flow[~there]).tolist()
    return found


def _starts(seq: Int64s, begin: Int64s, expected: Int64s, other: Int64s, across: Int64s) -> tuple[Int64s, Int64s]:
    """Of every flow and of its opposite, the sequence number that positions count from."""
    if len(seq) == 0:
        return expected, other
    has_rows = begin[1:] > begin[:-1]
    first = np.where(has_rows, seq[np.minimum(begin[:-1], len(seq) - 1)], UNKNOWN)
    start = np.where(expected == UNKNOWN, first, expected)
    return start, np.where((other == UNKNOWN) & (across >= 0), start[across], other)


def _reached(flows: Flows, seq: Int64s, length: Int64s, start: Int64s, holed: list[int]) -> Int64s:
    """For every place, (flow, position up to which its flow is there in order); never decreasing."""
    flow_of, begin = flows.flow_of, flows.begin
    floor = flow_of << FLOW
    at = (seq - start[flow_of] + HALF & MASK) - HALF
    reached: Int64s = np.maximum.accumulate(floor + np.maximum(at + length, 0))
    before = floor.copy()
    np.maximum(floor[1:], reached[:-1], out=before[1:])
    gaps: npt.NDArray[np.bool_] = floor + at > before
    done = set(holed)
    for flow in holed:
        reached[begin[flow] : begin[flow + 1]] = flow << FLOW
    if gaps.any():
        for place in np.flatnonzero(gaps).tolist():
            flow = int(flow_of[place])
            if flow not in done:
                done.add(flow)
                reached[place : begin[flow + 1]] = before[place]
    return reached
