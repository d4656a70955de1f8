"""Segments into the streams they belong to: as columns where they continue a stream, one by one where not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.net.ack_ahead import NO_WAIT, UNKNOWN, flows_acking_ahead
from wiredecode.net.backlog import Origin
from wiredecode.net.causality import Segment, Tracked, arrive, deliver
from wiredecode.net.connections import Connections
from wiredecode.net.flows import FlowKey, group_by_flow, reverse
from wiredecode.net.moments import at_packet
from wiredecode.net.reassembly import Reassembler
from wiredecode.net.segments import ACK, COLUMNS, FIN, RST, SYN, Row, Segments
from wiredecode.net.serial import MASK
from wiredecode.net.types import Event

RUN_PAYS_FROM = 8
"""Segments in order from which on taking them as columns is faster than one by one (measured)."""

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
    """Segments one by one, in packet order."""
    streams: dict[Reassembler, None] = {}
    holed = connections.shared.holed
    for (
        place,
        *address,
        ports,
        seq,
        ack,
        flags,
        start,
        captured,
        length,
        number,
        time_ns,
        ready,
        ready_ns,
        _window,
        _header,
    ) in rows:
        high, low, other_high, other_low = address
        key = high, low, other_high, other_low, ports
        tracked, side = connections.find_or_open(key, clock[place], ready, ready_ns, out)
        if flags & (SYN | RST) == SYN:
            tracked, side = connections.synchronize(key, tracked, side, seq, flags, ack, ready, ready_ns, out)
        elif holed:
            tracked.expire(clock[place], out)
        if flags & (ACK | RST | SYN) == ACK:
            tracked.acks[side] = ack
        if length or flags & (FIN | RST):
            data = buffer[start : start + captured] if start >= 0 else extra[~start]
            origin = Origin(number, time_ns, at_packet(ready), ready_ns, clock[place])
            segment = Segment(seq + 1 & MASK if flags & SYN else seq, ack, flags, data, length)
            arrive(tracked, side, segment, origin, out)
            streams[tracked.streams[side]] = None
            if tracked.hold is not None:
                streams[tracked.streams[1 - side]] = None
            if flags & (FIN | RST):
                connections.seen(tracked, clock[place])
        if holed and flags & (ACK | RST) and not flags & SYN:
            tracked.streams[1 - side].acknowledged(ack, flags, ready, clock[place])
    for stream in streams:
        stream.flush(out)


class ColumnIntake:
    """The segments of one batch on their way into the streams."""

    def __init__(self, segments: Segments, clock: Int64s, connections: Connections, out: list[Event]) -> None:
        self._segments = segments
        self._clock = clock
        self._connections = connections
        self._out = out
        flows = self.flows = group_by_flow(segments)
        self._flow_of_key = {key: flow for flow, key in enumerate(flows.keys)}
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
        if self._outlives():
            rows = zip(*(getattr(s, name).tolist() for name in COLUMNS), strict=True)
            feed_rows(rows, s.extra, s.buffer, self._clock.tolist(), self._connections, self._out)
            return
        shared = self._connections.shared
        shared.apply_acks, end = self._apply_acks, shared.until
        flows, syn = self.flows, s.flags & (SYN | RST) == SYN
        events = {row: flow for flow, row in enumerate(flows.first)}
        if syn.any():
            for row in np.flatnonzero(syn).tolist():
                if row not in events:
                    events[row] = self._flow_of_key[self._key(row)]
        order = sorted(events)
        first_number = int(s.ready[0])
        columns = self._clock[s.row[order]].tolist(), s.ready[order].tolist(), s.ready_ns[order].tolist()
        for row, clock, number, time_ns in zip(order, *columns, strict=True):
            flow = events[row]
            key = flows.keys[flow]
            tracked, side = self._connections.find_or_open(key, clock, number, time_ns, self._out)
            if syn[row]:
                if tracked.connection.first >= first_number:
                    self._answer(tracked.streams[1 - side], flow)
                shared.until = number
                self._syn(row, flow, tracked, side)
        shared.until = end
        self._feed_all()

    def _outlives(self) -> bool:
        """Whether a connection goes on for so long after its end, in these packets, that it may be another one."""
        s, flows, longest = self._segments, self.flows, self._connections.closed_ns
        if int(self._clock[-1] - self._clock[0]) <= longest:
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
            if int(self._clock[s.row[last]] - self._clock[s.row[row]]) > longest:
                return True
        return False

    def _feed_all(self) -> None:
        """Take what is left of all flows: those in which the order of both sides matters in packet order."""
        flows, connections = self.flows, self._connections
        owners: list[Owner] = []
        seats: dict[Tracked, int] = {}
        opposite = [-1] * len(flows.keys)
        for flow, key in enumerate(flows.keys):
            found = connections.find(key)
            assert found is not None
            owners.append(found)
            across = found[0].streams[1 - found[1]]
            if across.answered is None:
                self._answer(across, flow)
            other = seats.setdefault(found[0], flow)
            if other != flow:
                opposite[flow], opposite[other] = other, flow
        ordered = self._ordered(owners, opposite)
        for flow, owner in enumerate(owners):
            if flow in ordered:
                other = opposite[flow]
                self._feed_ordered(flow, other, flows.begin[flow + 1], flows.begin[other + 1] if other >= 0 else 0)
            else:
                self._feed(flow, owner)
        self._note_acks(owners)
        last = np.array(flows.last)
        times = self._clock[self._segments.row[last]].tolist()
        for flow in np.argsort(last).tolist():
            connections.seen(owners[flow][0], times[flow])

    def _note_acks(self, owners: list[Owner]) -> None:
        """Remember what each side acknowledged last."""
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

    def _ordered(self, owners: list[Owner], opposite: list[int]) -> set[int]:
        """Flows that must be taken in packet order together with their opposite."""
        begin = np.array(self.flows.begin)
        ordered: set[int] = set(np.flatnonzero(np.array(self._cursor) != begin[:-1]).tolist())
        expected, others = [], []
        for flow, (tracked, side) in enumerate(owners):
            expected.append(tracked.streams[side].expected())
            other = tracked.streams[1 - side]
            if opposite[flow] >= 0:
                others.append(UNKNOWN)  # until the rows of that flow are looked at
            else:
                others.append(other.expected() if other.has_sent else NO_WAIT)
        holed = []
        if self._connections.shared.holed:
            for flow, (tracked, side) in enumerate(owners):
                if tracked.streams[side].has_hole:
                    holed.append(flow)
                if tracked.hold is not None and tracked.hold.held:
                    ordered.add(flow)
        ordered.update(self._may_give_up(owners, opposite, holed, np.array(expected)))
        columns = self._seq_column, self._segments.ack[self._rows], self._taken, self._flags
        ordered.update(flows_acking_ahead(self.flows, *columns, expected, others, opposite, holed))
        ordered.update([opposite[flow] for flow in ordered if opposite[flow] >= 0])
        return ordered

    def _may_give_up(
        self, owners: list[Owner], opposite: list[int], holed: list[int], expected: Int64s
    ) -> Iterator[int]:
        """Flows of which a hole may be given up between these packets: what the other side sent has a place, too."""
        now, wait = int(self._clock[-1]), self._connections.hole_ns
        if now - int(self._clock[0]) > wait:
            yield from holed
            yield from np.unique(self.flows.flow_of[self._broken(expected)]).tolist()
            return
        for flow in {*holed, *(opposite[flow] for flow in holed if opposite[flow] >= 0)}:
            for stream in owners[flow][0].streams:
                deadline = stream.deadline()
                if deadline is not None and deadline < now:
                    yield flow

    def _broken(self, expected: Int64s) -> npt.NDArray[np.bool_]:
        """The places where a segment does not go on where its flow was, given the next sequence number of each."""
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
        rows = self.flows.every[self.flows.starts[flow] : self.flows.starts[flow + 1]]
        if stream.answered is None:
            self._answer(stream, flow)
        kinds = s.flags[rows]
        ready, until = (
            s.ready[rows],
            min(self._connections.shared.until, self._first_reset(stream, max(after, stream.opened_at))),
        )
        acks = (kinds & SYN == 0) & (kinds & (ACK | RST) != 0)
        rows = rows[acks & (ready > max(after, stream.opened_at)) & (ready < until)]
        ack, flags = s.ack[rows], s.flags[rows]
        news = np.ones(len(rows), bool)
        news[1:] = (ack[1:] != ack[:-1]) | (flags[1:] != flags[:-1])
        rows = rows[news]
        columns = ack[news].tolist(), flags[news].tolist(), s.ready[rows].tolist(), self._clock[s.row[rows]].tolist()
        for row in zip(*columns, strict=True):
            stream.acknowledged(*row)

    def _first_reset(self, stream: Reassembler, after: int) -> int:
        """The first packet after packet ``after`` that resets a stream: what comes later acknowledges nothing of it."""
        flow, s = self._flow_of_key.get(reverse(stream.acked_by)), self._segments
        if flow is None:
            return self._connections.shared.until
        rows = self.flows.every[self.flows.starts[flow] : self.flows.starts[flow + 1]]
        resets = s.ready[rows[s.flags[rows] & RST != 0]]
        return int(next(iter(resets[resets > after]), self._connections.shared.until))

    def _answer(self, stream: Reassembler, flow: int) -> None:
        """Tell a stream when the other side, ``flow``, was heard first; its connection began in these packets."""
        s, rows = self._segments, self.flows.every[self.flows.starts[flow] : self.flows.starts[flow + 1]]
        rows = rows[s.ready[rows] >= stream.connection.first]
        if len(rows):
            stream.answered = int(self._clock[s.row[rows[0]]])

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

    def _syn(self, row: int, flow: int, tracked: Tracked, side: int) -> None:
        """A SYN: what came before belongs to the connection as it is, what follows perhaps to a new one."""
        key = self.flows.keys[flow]
        other = self._flow_of_key.get(reverse(key), -1)
        other = -1 if other == flow else other
        end, other_end = self._place_of(row, flow), self._place_of(row, other)
        if end > self._cursor[flow] or (other >= 0 and other_end > self._cursor[other]):
            self._feed_ordered(flow, other, end, other_end)
        self._note_ack(flow, tracked, side, row)
        if other >= 0:
            self._note_ack(other, tracked, 1 - side, row)
        s = self._segments
        isn, flags, ack = int(s.seq[row]), int(s.flags[row]), int(s.ack[row])
        number, time_ns = int(s.ready[row]), int(s.ready_ns[row])
        self._connections.synchronize(key, tracked, side, isn, flags, ack, number, time_ns, self._out)

    def _place_of(self, row: int, flow: int) -> int:
        """The first place of ``flow`` that is left and not before ``row``."""
        if flow < 0:
            return 0
        place, end = self._cursor[flow], self.flows.begin[flow + 1]
        if place == end or self._row_list[place] >= row:
            return place
        return bisect_left(self._row_list, row, place, end)

    def _feed(self, flow: int, owner: Owner) -> None:
        """Put the segments of ``flow`` into its stream."""
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
            if stop - place >= RUN_PAYS_FROM and stream.in_order(self._seq[place]):
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
        clock = self._clock[segments.row[rows]].tolist()
        if segments.ready is segments.number:  # no fragments
            return number, time_ns, number, time_ns, clock
        return number, time_ns, segments.ready[rows].tolist(), segments.ready_ns[rows].tolist(), clock
