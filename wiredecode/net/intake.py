"""Segments into the streams they belong to: as columns where they continue a stream, one by one where not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from wiredecode.capture.batch import Int64s
from wiredecode.net.backlog import Origin
from wiredecode.net.connections import Connections, FlowKey, Tracked, reverse
from wiredecode.net.flows import group_by_flow
from wiredecode.net.reassembly import Stream
from wiredecode.net.segments import FIN, RST, SYN, Row, Segments
from wiredecode.net.serial import MASK
from wiredecode.net.types import Event

RUN_PAYS_FROM = 8
"""Segments in order from which on taking them as columns is faster than one by one (measured)."""


def take_segment(
    tracked: Tracked,
    side: int,
    seq: int,
    flags: int,
    data: bytes,
    length: int,
    origin: Origin,
    out: list[Event],
) -> None:
    """Put any segment into its stream; ``seq`` is the number of its first payload byte."""
    stream = tracked.streams[side]
    if flags & RST:
        # RFC 9293 section 3.5.3: data in a reset explains its cause, it is not part of the stream.
        if data:
            stream.ignore(len(data), origin, "reset-cause", "data inside a reset", out)
        stream.reset()
        tracked.connection.closed = "RST"
        return
    if length:
        stream.segment(seq, data, length, origin, out)
    if flags & FIN:
        stream.fin((seq + length) & MASK, origin, out)
        tracked.connection.closed = tracked.connection.closed or "FIN"


def take_rows(
    rows: list[Row],
    extra: list[bytes],
    buffer: bytes,
    clock: list[int],
    connections: Connections,
    out: list[Event],
) -> None:
    """The segments of a small batch, in packet order."""
    streams: dict[Stream, None] = {}
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
    ) in rows:
        high, low, other_high, other_low = address
        key = high, low, other_high, other_low, ports
        tracked, side = connections.find_or_open(key, out)
        if flags & (SYN | RST) == SYN:
            tracked, side = connections.synchronize(key, tracked, side, seq, flags, ack, out)
        if length or flags & (FIN | RST):
            data = buffer[start : start + captured] if start >= 0 else extra[~start]
            origin = Origin(number, time_ns, ready, ready_ns, clock[place])
            first = seq + 1 & MASK if flags & SYN else seq
            take_segment(tracked, side, first, flags, data, length, origin, out)
            streams[tracked.streams[side]] = None
    for stream in streams:
        stream.flush(out)


class ColumnIntake:
    """The segments of one batch on their way into the streams."""

    def __init__(self, segments: Segments, clock: Int64s, connections: Connections, out: list[Event]) -> None:
        self._segments = segments
        self._clock = clock
        self._connections = connections
        self._out = out
        flows = self._flows = group_by_flow(segments)
        self._flow_of_key = {key: flow for flow, key in enumerate(flows.keys)}
        self._cursor = flows.begin[:-1]
        rows = self._rows = flows.rows
        self._row_list: list[int] = rows.tolist()
        flags = segments.flags[rows]
        seq = (segments.seq[rows] + (flags & SYN != 0)) & MASK
        self._seq: list[int] = seq.tolist()
        self._length = segments.length[rows]
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
        self._runs: list[int] = np.flatnonzero(fresh).tolist()

    def process(self) -> None:
        """Go through first packets of flows and SYNs in packet order, and take the segments between them."""
        flows, syn = self._flows, self._segments.flags & (SYN | RST) == SYN
        events = {row: flow for flow, row in enumerate(flows.first)}
        if syn.any():
            for row in np.flatnonzero(syn).tolist():
                if row not in events:
                    events[row] = self._flow_of_key[self._key(row)]
        for row in sorted(events):
            flow = events[row]
            key = flows.keys[flow]
            tracked, side = self._connections.find_or_open(key, self._out)
            if syn[row]:
                self._syn(row, flow, tracked, side)
        for flow in range(len(flows.keys)):
            self._take(flow, flows.begin[flow + 1])
        for flow in np.argsort(flows.last).tolist():
            self._connections.seen(flows.keys[flow])

    def _key(self, row: int) -> FlowKey:
        s = self._segments
        columns = (s.source_high, s.source_low, s.target_high, s.target_low, s.ports)
        high, low, other_high, other_low, ports = (int(column[row]) for column in columns)
        return high, low, other_high, other_low, ports

    def _syn(self, row: int, flow: int, tracked: Tracked, side: int) -> None:
        """A SYN: what came before belongs to the connection as it is, what follows perhaps to a new one."""
        for part in (flow, self._flow_of_key.get(reverse(self._flows.keys[flow]), flow)):
            end = self._flows.begin[part + 1]
            self._take(part, bisect_left(self._row_list, row, self._cursor[part], end))
        s = self._segments
        isn, flags, ack = int(s.seq[row]), int(s.flags[row]), int(s.ack[row])
        self._connections.synchronize(self._flows.keys[flow], tracked, side, isn, flags, ack, self._out)

    def _take(self, flow: int, end: int) -> None:
        """Put the segments of ``flow`` up to place ``end`` into the stream that the flow belongs to now."""
        place = self._cursor[flow]
        if place == end:
            return
        self._cursor[flow] = end
        found = self._connections.find(self._flows.keys[flow])
        assert found is not None
        tracked, side = found
        stream = tracked.streams[side]
        next_run = bisect_right(self._runs, place)
        while place < end:
            stop = min(self._runs[next_run] if next_run < len(self._runs) else end, end)
            next_run += 1
            if self._odd[place]:
                self._take_odd(tracked, side, place)
            else:
                self._take_run(stream, place, stop)
            place = stop
        stream.flush(self._out)

    def _take_run(self, stream: Stream, place: int, stop: int) -> None:
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

    def _take_odd(self, tracked: Tracked, side: int, place: int) -> None:
        """A segment that is cut, in fragments, or has FIN or RST."""
        row = self._row_list[place]
        data = self._segments.payload(row)
        seq, length, flags = self._seq[place], int(self._length[place]), int(self._segments.flags[row])
        take_segment(tracked, side, seq, flags, data, length, self._origin(place), self._out)

    def _origin(self, place: int) -> Origin:
        if self._origins is None:
            self._origins = self._origin_columns()
        number, time_ns, ready, ready_ns, clock = self._origins
        return Origin(number[place], time_ns[place], ready[place], ready_ns[place], clock[place])

    def _origin_columns(self) -> tuple[list[int], ...]:
        """The columns of `Origin` as lists, made when a segment has to go alone: faster than the arrays."""
        segments, rows = self._segments, self._rows
        number, time_ns = self._number.tolist(), self._time_ns.tolist()
        clock = self._clock[segments.row[rows]].tolist()
        if segments.ready is segments.number:  # no fragments
            return number, time_ns, number, time_ns, clock
        return number, time_ns, segments.ready[rows].tolist(), segments.ready_ns[rows].tolist(), clock
