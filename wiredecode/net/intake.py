"""Segments into the streams they belong to, one by one: most of them just continue both streams."""

from __future__ import annotations

from wiredecode.arrays import Int64s
from wiredecode.net.backlog import Origin
from wiredecode.net.causality import Segment, Tracked, arrive
from wiredecode.net.connections import Connections, OwnPacket
from wiredecode.net.limits import SILENT_NS
from wiredecode.net.moments import Clock, at_packet
from wiredecode.net.reassembly import Reassembler
from wiredecode.net.segments import ACK, FIN, MASK, RST, SYN, Segments
from wiredecode.net.types import Event

CONTROL = SYN | FIN | RST | ACK
FLOW = ("source_high", "source_low", "target_high", "target_low", "ports")
REST = ("row", "seq", "ack", "flags", "start", "captured", "length", "number", "time_ns", "ready", "ready_ns")
"""Columns of `Segments` that are needed here."""


def feed(s: Segments, clock: Int64s, connections: Connections, out: list[Event]) -> list[tuple[Tracked, int]]:
    """Put segments into their streams, in packet order; return connection and side of each.

    ``clock`` of the capture, at each packet.
    """
    owners: list[tuple[Tracked, int]] = []
    flows, rest = ([getattr(s, name).tolist() for name in names] for names in (FLOW, REST))
    rows = zip(zip(*flows, strict=True), clock[s.row].tolist(), *rest, strict=True)
    buffer, extra, find, seen = s.buffer, s.extra, connections.find, connections.seen
    streams: dict[Reassembler, None] = {}
    holed = connections.shared.holed
    for key, here, place, seq, ack, flags, start, captured, length, number, time_ns, ready, ready_ns in rows:
        found = find(key)
        if found is not None and flags & CONTROL == ACK and length == captured and start >= 0:
            tracked, side = found
            stream, other = tracked.streams[side], tracked.streams[1 - side]
            waits = holed and (stream in holed or other in holed)
            if not (waits or tracked.ends or (length and (not stream.in_order(seq) or other.lacks(ack)))):
                now = tracked.clock.at(ready_ns)
                seen(tracked, side, now, here)
                tracked.acks[side] = ack
                owners.append(found)
                if length:
                    stream.extend(seq, buffer[start : start + length], number, time_ns, at_packet(ready), ready_ns)
                    streams[stream] = None
                continue
        own = Clock(connections.hole_ns) if found is None else found[0].clock
        now = over = own.at(ready_ns)
        packet = OwnPacket(key, own, now, here, ready, ready_ns)
        if found is not None and place:  # others may have shown before that nothing more was to be expected
            over = max(now, found[0].now(int(clock[place - 1]) - SILENT_NS))
        if found is not None and holed:
            found[0].expire(over, ready, out)
        tracked, side = connections.find_or_open(packet, over, out)
        if flags & (SYN | RST) == SYN:
            tracked, side = connections.synchronize(packet, tracked, side, seq, flags, ack, out)
        owners.append((tracked, side))
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
                seen(tracked, side, now, here)
        if holed and flags & (ACK | RST) and not flags & SYN:
            tracked.streams[1 - side].acknowledged(ack, flags, ready, now)
    for stream in streams:
        stream.flush(out)
    return owners
