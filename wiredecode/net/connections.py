"""Which connection a packet belongs to: incarnations of a 4-tuple, and what is remembered of how many."""

from __future__ import annotations

import socket
from collections import Counter, OrderedDict
from dataclasses import dataclass

from wiredecode.net.limits import Limits
from wiredecode.net.reassembly import Stream
from wiredecode.net.segments import ACK, IPV6_FLOW
from wiredecode.net.serial import advance, distance
from wiredecode.net.types import Connection, Event

FlowKey = tuple[int, int, int, int, int]
"""One direction of a 4-tuple: halves of source and destination address, ports, as in `segments.Segments`."""


def reverse(key: FlowKey) -> FlowKey:
    """The flow of the other direction."""
    source_high, source_low, target_high, target_low, ports = key
    swapped = (ports & 0xFFFF) << 16 | (ports >> 16) & 0xFFFF | ports & IPV6_FLOW
    return target_high, target_low, source_high, source_low, swapped


def endpoint(high: int, low: int, port: int, ipv6: bool) -> str:
    """``address:port``, IPv6 in brackets (RFC 5952)."""
    if ipv6:
        return f"[{socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16))}]:{port}"
    return f"{socket.inet_ntop(socket.AF_INET, low.to_bytes(4))}:{port}"


@dataclass(slots=True, eq=False)
class Tracked:
    """A connection, its two streams, and the flow of side 0."""

    connection: Connection
    streams: tuple[Stream, Stream]
    key: FlowKey


class Connections:
    """The connections of a capture, least recently seen first; at most `Limits.connections` of them."""

    def __init__(self, limits: Limits, limits_hit: Counter[str]) -> None:
        self._limits = limits
        self._limits_hit = limits_hit
        self._flows: dict[FlowKey, tuple[Tracked, int]] = {}
        self._recent: OrderedDict[Tracked, None] = OrderedDict()
        self.holed: dict[Stream, None] = {}
        """Streams in which something waits for a hole to be filled."""
        self.count = 0
        """Connections seen."""
        self.forgotten: list[Connection] = []
        """Connections that no further event can belong to; whoever reads it clears it."""

    def __len__(self) -> int:
        return len(self._recent)

    def find(self, key: FlowKey) -> tuple[Tracked, int] | None:
        """The connection that flow ``key`` belongs to now, and its side."""
        return self._flows.get(key)

    def open(self, key: FlowKey, out: list[Event]) -> tuple[Tracked, int]:
        """A new connection whose first packet was sent on flow ``key``, in place of the one before."""
        before = self._flows.get(key)
        if before is not None:
            self._forget(before[0], out)
        elif len(self._recent) >= self._limits.connections:
            self._limits_hit["connections"] += 1
            self._forget(next(iter(self._recent)), out)
        self.count += 1
        ports, ipv6 = key[4], bool(key[4] & IPV6_FLOW)
        source, target = ports >> 16 & 0xFFFF, ports & 0xFFFF
        names = endpoint(key[0], key[1], source, ipv6), endpoint(key[2], key[3], target, ipv6)
        connection = Connection(self.count, names, (source, target))
        first, second = (
            Stream(direction, self._limits, self.holed, self._limits_hit) for direction in connection.directions
        )
        tracked = Tracked(connection, (first, second), key)
        self._flows[reverse(key)] = tracked, 1
        self._flows[key] = tracked, 0
        self._recent[tracked] = None
        return tracked, 0

    def find_or_open(self, key: FlowKey, out: list[Event]) -> tuple[Tracked, int]:
        """The connection and side of a packet on flow ``key``; packets must come in order."""
        found = self._flows.get(key)
        if found is None:
            return self.open(key, out)
        self._recent.move_to_end(found[0])
        return found

    def seen(self, key: FlowKey) -> None:
        """A packet on flow ``key`` is the latest one."""
        found = self._flows.get(key)
        if found is not None:
            self._recent.move_to_end(found[0])

    def synchronize(
        self, key: FlowKey, tracked: Tracked, side: int, isn: int, flags: int, ack: int, out: list[Event]
    ) -> tuple[Tracked, int]:
        """A SYN or SYN/ACK on flow ``key``: the connection and side that it belongs to, perhaps a new one."""
        if _is_new_incarnation(tracked, side, isn, self._limits.late_syn_bytes):
            tracked, side = self.open(key, out)
        _learn_from_syn(tracked, side, isn, flags, ack)
        return tracked, side

    def _forget(self, tracked: Tracked, out: list[Event]) -> None:
        for stream in tracked.streams:
            stream.finish(out)
        del self._recent[tracked]
        self._flows.pop(tracked.key, None)
        self._flows.pop(reverse(tracked.key), None)
        self.forgotten.append(tracked.connection)


def _is_new_incarnation(tracked: Tracked, side: int, isn: int, late_syn_bytes: int) -> bool:
    """Whether a SYN with initial sequence number ``isn`` opens another connection on the same 4-tuple.

    It does not when it is retransmitted, the first one of this side, or only arrived after the first data.
    """
    stream = tracked.streams[side]
    if tracked.connection.closed is not None:
        return True
    if stream.isn is not None:
        return stream.isn != isn
    if stream.base is None or stream.untouched:
        return False
    return not 0 <= distance(advance(isn, 1), stream.base) <= late_syn_bytes


def _learn_from_syn(tracked: Tracked, side: int, isn: int, flags: int, ack: int) -> None:
    """Learn from a SYN or SYN/ACK of ``side`` where the streams start and who opened the connection."""
    stream, other = tracked.streams[side], tracked.streams[1 - side]
    answers = bool(flags & ACK)
    if tracked.connection.initiator is None:
        tracked.connection.initiator = 1 - side if answers else side
    if stream.isn is None:
        stream.isn = isn
        if stream.untouched:
            stream.base = advance(isn, 1)
            stream.direction.started = True
    if answers and other.base is None:
        other.base = ack
        other.direction.started = True
