"""Assigns packets to connections: incarnations of a 4-tuple, and a bounded number of remembered connections."""

import socket
from collections import Counter, OrderedDict
from math import inf
from typing import NamedTuple

from wiredecode.net.analyser import Analyser
from wiredecode.net.analysis import ConnectionAnalysis
from wiredecode.net.causality import BOTH, Tracked
from wiredecode.net.health import ConnectionHealth
from wiredecode.net.limits import SILENT_NS, Limits
from wiredecode.net.moments import Clock, at_packet, place
from wiredecode.net.reassembly import Reassembler, ReassemblyContext
from wiredecode.net.reorder import Origin, ending
from wiredecode.net.segments import ACK, IPV6_FLOW, FlowKey, advance, distance, reverse
from wiredecode.net.types import Connection, Event


def endpoint(high: int, low: int, port: int, ipv6: bool) -> str:
    """``address:port``, IPv6 in brackets (RFC 5952)."""
    if ipv6:
        return f"[{socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16))}]:{port}"
    return f"{socket.inet_ntop(socket.AF_INET, low.to_bytes(4))}:{port}"


REPLACED, CLOSED, OVER, TOO_MANY = (
    *("another connection took its place", "the connection was closed"),
    *("the capture ends", "too many connections are open"),
)
"""Why nothing more is heard of a connection."""


class OwnPacket(NamedTuple):
    """A packet on a flow; ``clock`` of its connection is at ``now`` then or later, that of the capture at ``at``."""

    key: FlowKey
    clock: Clock
    now: int
    at: int
    number: int
    time_ns: int


class Connections:
    """The connections of a capture, least recently seen first; at most `Limits.connections` of them."""

    def __init__(self, limits: Limits, limits_hit: Counter[str]) -> None:
        self._limits = limits
        self.analyser: Analyser | None = None
        """Gets the analysis of each connection that is forgotten; None: they have none."""
        self._limits_hit = limits_hit
        self._flows: dict[FlowKey, tuple[Tracked, int]] = {}
        self._recent: OrderedDict[Tracked, None] = OrderedDict()
        self._closed: OrderedDict[Tracked, None] = OrderedDict()  # the one whose last packet is the oldest first
        self._unfilled: dict[Tracked, None] = {}  # the same, closed for their time but for gaps that may be filled
        self.gap_ns = int(limits.gap_seconds * 1e9)
        self.closed_ns = int(max(limits.closed_seconds, limits.gap_seconds) * 1e9)
        self.shared = ReassemblyContext(limits, limits_hit)
        self.count = 0
        """Connections seen."""
        self.opened: list[Connection] = []
        """Connections of the packets at hand; the caller empties it."""
        self.forgotten: list[Connection] = []
        """Connections that no further event can belong to; the reader clears it."""

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def closed(self) -> int:
        """Closed connections that are remembered."""
        return len(self._closed) + len(self._unfilled)

    def find(self, key: FlowKey) -> tuple[Tracked, int] | None:
        """The connection that flow ``key`` belongs to now, and its side."""
        return self._flows.get(key)

    def open(self, packet: OwnPacket, out: list[Event]) -> tuple[Tracked, int]:
        """A new connection with its first packet, in place of the one before."""
        key, number = packet.key, packet.number
        before = self._flows.get(key)
        if before is not None:
            self._forget(before[0], REPLACED, ending(at_packet(number)), out)
        elif len(self._recent) >= self._limits.connections:
            self.forget_closed(packet.at - SILENT_NS, out)
            if len(self._recent) >= self._limits.connections:
                self._limits_hit["connections"] += 1
                self._forget_at(next(iter(self._recent)), TOO_MANY, number, number, out)
        self.count += 1
        ports, ipv6 = key[4], bool(key[4] & IPV6_FLOW)
        source, target = ports >> 16 & 0xFFFF, ports & 0xFFFF
        names = endpoint(key[0], key[1], source, ipv6), endpoint(key[2], key[3], target, ipv6)
        connection = Connection(self.count, names, (source, target), first=number, first_ns=packet.time_ns)
        self.opened.append(connection)
        first, second = (
            Reassembler(direction, self.shared, acked_by)
            for direction, acked_by in zip(connection.directions, (reverse(key), key), strict=True)
        )
        second.answered = packet.now
        tracked = Tracked(connection, (first, second), key, packet.clock, self.shared)
        tracked.last, tracked.seen = packet.now, packet.at
        if self.analyser is not None:
            connection.health = ConnectionHealth()
            tracked.analysis = ConnectionAnalysis(connection.health, connection.number)
        self._flows[reverse(key)] = tracked, 1
        self._flows[key] = tracked, 0
        self._recent[tracked] = None
        return tracked, 0

    def find_or_open(self, packet: OwnPacket, over: int, out: list[Event]) -> tuple[Tracked, int]:
        """The connection and side of a packet; they must come in order. ``over``: its own time, at least."""
        found = self._flows.get(packet.key)
        if found is None:
            return self.open(packet, out)
        tracked, side = found
        if tracked.ends == BOTH and self._forget_over(tracked, over, packet.number, out):
            return self.open(packet, out)
        self.seen(tracked, side, packet.now, packet.at)
        return found

    def seen(self, tracked: Tracked, side: int, now: int, at: int) -> None:
        """The latest packet, at its own time ``now``, ``at`` of the capture, is one of ``side`` of ``tracked``."""
        other = tracked.streams[1 - side]
        if other.answered is None:
            other.answered = now
        tracked.last, tracked.seen = now, at
        self._recent.move_to_end(tracked)
        if tracked.ends == BOTH:
            self._close(tracked)

    def forget_closed(self, clock: int, out: list[Event]) -> None:
        """Forget the closed connections whose time is over, if ``clock`` of the capture advances for them."""
        until = self.shared.until
        for tracked in list(self._unfilled):
            self._forget_over(tracked, tracked.now(clock), until, out)
        while self._closed:
            tracked = next(iter(self._closed))
            if tracked.now(clock) <= tracked.last + self.closed_ns:
                return
            if not self._forget_over(tracked, tracked.now(clock), until, out):
                del self._closed[tracked]
                self._unfilled[tracked] = None

    def _forget_over(self, tracked: Tracked, clock: int, number: int, out: list[Event]) -> bool:
        """Forget a connection if its time is over at its own ``clock``: closed long enough, and no gap can be filled.

        FINs of both sides end nothing while one of them did not get all before the other's.
        """
        if clock <= tracked.last + self.closed_ns:
            return False
        tracked.expire(clock, number, out)
        if tracked.waits:
            return False
        self._forget(tracked, CLOSED, tracked.end_of_wait(tracked.last + self.closed_ns, number), out)
        return True

    def bound_closed(self, last: int, out: list[Event]) -> None:
        """Enforce `Limits.closed_connections` at the packet ``last``."""
        while self.closed > self._limits.closed_connections:
            self._forget_at(next(iter(self._unfilled or self._closed)), CLOSED, last + 1, last, out)

    def finish(self, last: int, out: list[Event]) -> None:
        """Forget all connections; ``last`` is the last packet."""
        while self._recent:
            self._forget_at(next(iter(self._recent)), OVER, last + 1, last, out)

    def _close(self, tracked: Tracked) -> None:
        self._unfilled.pop(tracked, None)
        self._closed[tracked] = None
        self._closed.move_to_end(tracked)

    def synchronize(
        self, packet: OwnPacket, tracked: Tracked, side: int, isn: int, flags: int, ack: int, out: list[Event]
    ) -> tuple[Tracked, int]:
        """A SYN or SYN/ACK: the connection and side that it belongs to, perhaps a new one."""
        tracked.expire(packet.now, packet.number, out)
        if _is_new_incarnation(tracked, side, isn, self._limits.late_syn_bytes):
            tracked, side = self.open(packet, out)
        _learn_from_syn(tracked, side, isn, flags, ack, packet.number)
        return tracked, side

    def _forget_at(self, tracked: Tracked, reason: str, number: int, last: int, out: list[Event]) -> None:
        """Forget a connection before packet ``number``, which is not its own: all of its waits end before."""
        until, self.shared.until = self.shared.until, min(self.shared.until, number)
        tracked.expire(inf, number, out)
        self._forget(tracked, reason, ending(tracked.moments.before(number)), out)
        self.shared.until = until
        tracked.connection.ended = last

    def _forget(self, tracked: Tracked, reason: str, last: Origin, out: list[Event]) -> None:
        """Nothing more comes of a connection from the moment of ``last`` on."""
        until, self.shared.until = self.shared.until, min(self.shared.until, place(last.at))
        tracked.finish(last, out)
        self._lose_end(tracked, last.at)
        self.shared.until = until
        connection = tracked.connection
        connection.ended, connection.over = place(last.at), last.at
        connection.end = CLOSED if tracked.ends == BOTH else reason
        del self._recent[tracked]
        self._closed.pop(tracked, None)
        self._unfilled.pop(tracked, None)
        self._flows.pop(tracked.key, None)
        self._flows.pop(reverse(tracked.key), None)
        if self.analyser is not None and tracked.analysis is not None:
            self.analyser.over.append(tracked.analysis)
        self.forgotten.append(tracked.connection)

    @staticmethod
    def _lose_end(tracked: Tracked, at: int) -> None:
        """Bytes acknowledged at the end were sent, although no later segment shows the gap.

        One byte may be a FIN.
        """
        for stream, ack in zip(tracked.streams, reversed(tracked.acks), strict=True):
            expected = stream.expected()
            if ack < 0 or expected < 0 or not stream.has_sent:
                continue
            if 1 < (ahead := distance(expected, ack)) <= stream.limits.window_bytes:
                stream.direction.acked_beyond = ahead
                stream.direction.lose(at, stream.offset, tracked.last)


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


def _learn_from_syn(tracked: Tracked, side: int, isn: int, flags: int, ack: int, number: int) -> None:
    """Learn from a SYN or SYN/ACK of ``side`` where the streams start and who opened the connection.

    It is not learned after bytes: their frames may or may not be decoded already.
    """
    stream, other = tracked.streams[side], tracked.streams[1 - side]
    answers = bool(flags & ACK)
    if tracked.connection.initiator is None and stream.untouched and other.untouched:
        tracked.connection.initiator = 1 - side if answers else side
    if stream.isn is None:
        stream.isn = isn
        if stream.untouched:
            stream.base = advance(isn, 1)
            stream.direction.started, stream.direction.started_at = True, at_packet(number)
    if answers and other.base is None:
        other.base = ack
        other.direction.started, other.direction.started_at = True, at_packet(number)
