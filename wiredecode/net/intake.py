"""Segments into the streams they belong to: as columns where they just continue a stream, one by one where not."""

from __future__ import annotations

import numpy as np

from wiredecode.arrays import Bools, Int64s
from wiredecode.net.backlog import Origin
from wiredecode.net.causality import Segment, Tracked, arrive
from wiredecode.net.connections import Connections, OwnPacket
from wiredecode.net.limits import SILENT_NS
from wiredecode.net.moments import Clock, at_packet, within
from wiredecode.net.reassembly import Reassembler
from wiredecode.net.segments import ACK, COLUMNS, FIN, MASK, RST, SYN, ByConnection, Segments, distances
from wiredecode.net.types import Event


def feed_rows(s: Segments, chosen: Int64s, clock: Int64s, connections: Connections, out: list[Event]) -> None:
    """Some rows of segments one by one, in packet order; ``clock`` of the capture, at each packet."""
    rows = zip(*(getattr(s, name)[chosen].tolist() for name in COLUMNS), strict=True)
    buffer, extra = s.buffer, s.extra
    streams: dict[Reassembler, None] = {}
    holed = connections.shared.holed
    for place, high, low, other_high, other_low, ports, *row in rows:
        seq, ack, flags, start, captured, length, number, time_ns, ready, ready_ns, _window, _header = row
        key = high, low, other_high, other_low, ports
        found = connections.find(key)
        own = Clock(connections.hole_ns) if found is None else found[0].clock
        now = over = own.at(ready_ns)
        packet = OwnPacket(key, own, now, int(clock[place]), ready, ready_ns)
        if found is not None and place:  # others may have shown before that nothing more was to be expected
            over = max(now, found[0].now(int(clock[place - 1]) - SILENT_NS))
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
                connections.seen(tracked, now, int(clock[place]))
        if holed and flags & (ACK | RST) and not flags & SYN:
            tracked.streams[1 - side].acknowledged(ack, flags, ready, now)
    for stream in streams:
        stream.flush(out)


class ColumnIntake:
    """The segments of one batch on their way into the streams.

    Of each connection the packets up to the last SYN are taken one by one. Those after it that just continue both
    streams are taken as columns. From the first other one on, packets are taken one by one again.
    """

    def __init__(self, segments: Segments, clock: Int64s, connections: Connections, out: list[Event]) -> None:
        """``clock``: of the capture, at each packet."""
        self._segments, self._capture_clock, self._connections, self._out = segments, clock, connections, out
        self.by = by = ByConnection(segments)
        self._flags = segments.flags[by.row]
        self._length = segments.length[by.row]
        self._ends = by.first + by.sizes
        self._which = np.repeat(np.arange(len(by.first)), by.sizes)
        """Of each place which connection it is, counted from 0."""
        self._heads = self._first_columns()

    def process(self) -> None:
        """Put all segments into their streams."""
        place = np.arange(len(self._flags))
        rest = place >= self._heads[self._which]
        self._one_by_one(~rest)
        if not rest.any():
            return
        stops = self._first_others(rest)
        plain = rest & (place < stops[self._which])
        self._columns(plain, stops)
        self._one_by_one(rest & ~plain)
        self._note_last()

    def _find(self, which: int) -> tuple[Tracked, int] | None:
        """The connection of that number, and the side of its lower flow."""
        return self._connections.find(self.by.keys[self.by.conn[self.by.first[which]]])

    def _first_columns(self) -> Int64s:
        """Of each connection the place from which on columns may be tried."""
        by, flags, ends = self.by, self._flags, self._ends
        heads = by.first + 1
        syn = np.flatnonzero(flags & (SYN | RST) == SYN)
        np.maximum.at(heads, self._which[syn], syn + 1)
        closing = np.unique(self._which[flags & (FIN | RST) != 0])
        if len(closing):  # packets long after the end are those of another connection, which are counted in order
            longest = self._connections.closed_ns
            for clock in (within(self._segments.ready_ns), self._capture_clock[self._segments.row]):
                times = clock[by.row]
                span = np.maximum.reduceat(times, by.first) - np.minimum.reduceat(times, by.first)
                late = closing[span[closing] > longest]
                heads[late] = ends[late]
        for which in range(len(heads)):
            found = self._find(which)
            if found is not None and (found[0].ends or found[0].waits):
                heads[which] = ends[which]
        return heads

    def _first_others(self, rest: Bools) -> Int64s:
        """Of each connection the first place of the ``rest`` whose segment has to be taken alone, or its end."""
        s, by, flags = self._segments, self.by, self._flags
        row, mine, theirs = by.row, by.flow, by.other[by.flow]
        start, has_sent = self._streams()
        sent, across = by.sent(np.where(rest, self._length, 0))
        other = (flags & (SYN | FIN | RST | ACK) != ACK) | (s.captured[row] != self._length) | (s.start[row] < 0)
        ahead = has_sent[theirs] & (distances(start[theirs], s.ack[row]) > across)
        moved = ~has_sent[mine] | (distances(start[mine], s.seq[row]) != sent)
        other |= (self._length > 0) & (ahead | moved)
        other |= (start[mine] < 0) | (mine == theirs)
        places = np.flatnonzero(other & rest)
        stops = self._ends.copy()
        np.minimum.at(stops, self._which[places], places)
        return stops

    def _streams(self) -> tuple[Int64s, Bools]:
        """Of each flow the next sequence number of its stream, -1: it cannot go on so; and whether it has sent any."""
        by = self.by
        start, has_sent = np.full(len(by.other), -1, np.int64), np.zeros(len(by.other), np.bool_)
        for which, flow in enumerate(by.conn[by.first].tolist()):
            found = self._find(which)
            if found is None or found[0].ends or found[0].waits:
                continue
            tracked, side = found
            for at, stream in ((flow, tracked.streams[side]), (by.other[flow], tracked.streams[1 - side])):
                start[at] = max(stream.expected(), 0)
                has_sent[at] = stream.base is not None and stream.has_sent
        return start, has_sent

    def _columns(self, plain: Bools, stops: Int64s) -> None:
        """Take the ``plain`` segments, those of each connection up to its stop."""
        s, by, row = self._segments, self.by, self.by.row
        places = np.flatnonzero(plain)
        places = places[np.argsort(by.flow[places], kind="stable")]
        data = places[self._length[places] > 0]
        flows = np.arange(len(by.keys) + 1)
        begin, data_begin = (np.searchsorted(by.flow[some], flows).tolist() for some in (places, data))
        ack, rows = s.ack[row[places]].tolist(), row[data]
        seq, length, number, time_ns = s.seq[rows].tolist(), s.length[rows], s.number[rows], s.time_ns[rows]
        pieces = [*zip(s.start[rows].tolist(), (s.start[rows] + s.captured[rows]).tolist(), strict=True)]
        times, capture_clock = within(s.ready_ns)[row], self._capture_clock[s.row[row]]
        back = np.append(False, times[1:] < times[:-1])
        for which in np.flatnonzero(stops > self._heads).tolist():
            low, high = int(self._heads[which]), int(stops[which])
            found = self._find(which)
            assert found is not None
            tracked, own = found[0], found[0].clock
            if own.shift or times[low] < own.now or back[low + 1 : high].any():
                clock = own.advance(times[low:high])
            else:
                clock, own.now = times[low:high], int(times[high - 1])
            lower, its_side = int(by.conn[low]), found[1]
            for flow, side in ((lower, its_side), (int(by.other[lower]), 1 - its_side)):
                if flow >= len(by.keys) or begin[flow] == begin[flow + 1]:
                    continue
                stream, answered = tracked.streams[side], tracked.streams[1 - side]
                if answered.answered is None:
                    answered.answered = int(clock[places[begin[flow]] - low])
                tracked.acks[side] = ack[begin[flow + 1] - 1]
                some = slice(data_begin[flow], data_begin[flow + 1])
                if some.start < some.stop:
                    payload = b"".join([s.buffer[first:stop] for first, stop in pieces[some]])
                    # Copies: a chunk that is kept must not keep the columns of the whole batch.
                    columns = length[some], number[some].copy(), time_ns[some].copy()
                    stream.run(seq[some.start], payload, *columns, self._out)
            tracked.last, tracked.seen = own.now, int(capture_clock[high - 1])

    def _one_by_one(self, places: Bools) -> None:
        rows = np.sort(self.by.row[places])
        feed_rows(self._segments, rows, self._capture_clock, self._connections, self._out)

    def _note_last(self) -> None:
        """Connections are in the order of their last packets, however these were taken."""
        for which in np.argsort(self.by.row[self._ends - 1]).tolist():
            found = self._find(which)
            if found is not None:
                self._connections.seen(found[0], found[0].last, found[0].seen)
