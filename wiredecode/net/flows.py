"""Assigns packets to connections: incarnations of a 4-tuple, and a bounded number of remembered connections."""

import socket
from collections import Counter, OrderedDict
from functools import lru_cache
from itertools import repeat
from math import inf
from typing import NamedTuple

from wiredecode.arrays import Bools
from wiredecode.net.analysis import ConnectionAnalysis, SegmentHeader, options
from wiredecode.net.connection_state import BOTH, ConnectionState, Owner
from wiredecode.net.health import ConnectionHealth
from wiredecode.net.limits import SILENT_NS, Limits
from wiredecode.net.logical_time import Clock, logical_time, packet_of
from wiredecode.net.reassembly import Reassembler, ReassemblyContext
from wiredecode.net.reorder import Origin, ending
from wiredecode.net.segment_facts import FactsLog
from wiredecode.net.segments import ACK, IPV6_FLOW, SYN, FlowKey, Segments, advance, distance, reverse
from wiredecode.net.types import Connection, Event

REMEMBERED_HOSTS = 1024
"""Addresses of which the text is kept: most connections have one in common."""


@lru_cache(REMEMBERED_HOSTS)
def address(high: int, low: int, ipv6: bool) -> str:
    """An IP address as text, IPv6 in brackets (RFC 5952)."""
    if ipv6:
        return f"[{socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16))}]"
    return socket.inet_ntop(socket.AF_INET, low.to_bytes(4))


def endpoint(high: int, low: int, port: int, ipv6: bool) -> str:
    """``address:port``."""
    return f"{address(high, low, ipv6)}:{port}"


REPLACED, CLOSED, CAPTURE_ENDED, TOO_MANY = (
    *("another connection took its place", "the connection was closed"),
    *("the capture ends", "too many connections are open"),
)


class FlowPacket(NamedTuple):
    key: FlowKey
    clock: Clock
    """The connection clock."""
    own_ns: int
    """Time of the connection clock at this packet."""
    capture_ns: int
    """The capture clock at this packet."""
    number: int
    time_ns: int
    """Of the fragments of a datagram: number and time of the one that completed it."""


NEEDED = ("number", "time_ns", "seq", "ack", "flags", "length", "window", "header", "start")
"""Columns of `Segments`."""


class Analyser:
    """Analyses the connections of a capture: each gets a `ConnectionHealth`, which grows packet by packet.

    ``facts`` gets every segment; ``track``: note the connections of packets.
    """

    def __init__(self, facts: FactsLog | None = None, *, track: bool = False) -> None:
        self._facts = facts
        self.ended: list[ConnectionAnalysis] = []
        """Of connections of which nothing more comes after the next `analyse`; then `finish` completes them."""
        self.kinds: dict[int, int] = {}
        """Packet number to kinds, of the packets since `begin` that are of any."""
        self.connections: dict[int, int] | None = {} if track else None
        """Packet number to number of its connection, of those packets; None: not wanted."""

    def begin(self) -> None:
        """The next packets come."""
        self.kinds = {}
        if self.connections is not None:
            self.connections = {}

    def analyse(self, segments: Segments, owners: list[Owner], copies: Bools | None = None) -> None:
        """Analyse the next segments, in packet order. ``owners``: connection and side; ``copies``: to be ignored."""
        buffer, columns = segments.buffer, (getattr(segments, name).tolist() for name in NEEDED)
        again = repeat(False, len(owners)) if copies is None else copies.tolist()
        places = repeat(0, len(owners)) if self._facts is None else segments.row.tolist()
        for (state, side), copied, place, *row, header, start in zip(owners, again, places, *columns, strict=True):
            analysis, flags = state.analysis, row[4]
            assert analysis is not None
            if self.connections is not None:
                self.connections[row[0]] = analysis.number
            if self._facts is not None:
                self._facts.add(analysis, side, place, SegmentHeader(*row))
            if copied:
                continue
            offered = options(buffer[header:start]) if flags & SYN and header >= 0 else ()
            if analysis.sides[1 - side].repeated and flags & ACK and header >= 0:
                analysis.acknowledges(side, row[1], row[3], buffer[header:start])
            kinds = analysis.analyse(side, SegmentHeader(*row, *offered))
            if kinds:
                self.kinds[row[0]] = kinds

    def finish(self) -> None:
        """Complete the connections that are over."""
        for analysis in self.ended:
            analysis.finish()
        self.ended.clear()


class Connections:
    """The connections of a capture, least recently seen first; at most `Limits.connections` of them.

    ``analyser`` gets the analysis of each connection that is forgotten; None: they have none.
    """

    def __init__(self, limits: Limits, limits_hit: Counter[str], analyser: Analyser | None) -> None:
        self._limits, self._analyser = limits, analyser
        self._limits_hit = limits_hit
        self._flows: dict[FlowKey, Owner] = {}
        self._recent: OrderedDict[ConnectionState, None] = OrderedDict()
        self._closed: OrderedDict[ConnectionState, None] = OrderedDict()  # by time of their last packet
        self._unfilled: dict[ConnectionState, None] = {}  # expired, but with gaps that may be filled
        self.gap_ns = int(limits.gap_seconds * 1e9)
        self.closed_ns = int(max(limits.closed_seconds, limits.gap_seconds) * 1e9)
        self.shared = ReassemblyContext(limits, limits_hit)
        self.count = 0
        """Connections seen."""
        self.opened: list[Connection] = []
        """Connections opened since the caller emptied the list."""
        self.forgotten: list[Connection] = []
        """Connections that ended since the caller emptied the list."""

    def __len__(self) -> int:
        return len(self._recent)

    @property
    def closed(self) -> int:
        """Closed connections that are remembered."""
        return len(self._closed) + len(self._unfilled)

    def has_room(self, count: int) -> bool:
        """Whether ``count`` more connections would all be remembered."""
        return len(self) + count <= self._limits.connections

    def find(self, key: FlowKey) -> Owner | None:
        """The connection that flow ``key`` belongs to now, and its side."""
        return self._flows.get(key)

    def open(self, packet: FlowPacket, out: list[Event]) -> Owner:
        """Open a connection with its first packet; it replaces the one before on this flow."""
        key, number = packet.key, packet.number
        before = self._flows.get(key)
        if before is not None:
            self._forget(before[0], REPLACED, ending(logical_time(number)), out)
        elif len(self._recent) >= self._limits.connections:
            self.forget_closed(packet.capture_ns - SILENT_NS, out)
            if len(self._recent) >= self._limits.connections:
                self._limits_hit["connections"] += 1
                self._forget_at(next(iter(self._recent)), TOO_MANY, number, number, out)
        self.count += 1
        ports, ipv6 = key[4], bool(key[4] & IPV6_FLOW)
        source, target = ports >> 16 & 0xFFFF, ports & 0xFFFF
        names = endpoint(key[0], key[1], source, ipv6), endpoint(key[2], key[3], target, ipv6)
        connection = Connection(
            self.count,
            names,
            (source, target),
            first=number,
            first_ns=packet.time_ns,
            capture_ns=self.shared.first_ns or 0,
        )
        self.opened.append(connection)
        back = reverse(key)
        first, second = connection.directions
        streams = Reassembler(first, self.shared, back), Reassembler(second, self.shared, key)
        streams[1].answered = packet.own_ns
        state = ConnectionState(connection, streams, key, packet.clock, self.shared)
        state.last_ns, state.last_capture_ns = packet.own_ns, packet.capture_ns
        if self._analyser is not None:
            connection.health = ConnectionHealth()
            state.analysis = ConnectionAnalysis(connection.health, connection.number)
        self._flows[back] = state, 1
        owner = self._flows[key] = state, 0
        self._recent[state] = None
        return owner

    def find_or_open(self, packet: FlowPacket, expired: int, out: list[Event]) -> Owner:
        """The connection and side of the next packet. ``expired``: connection clock up to which waits have ended."""
        owner = self._flows.get(packet.key)
        if owner is None:
            return self.open(packet, out)
        state, side = owner
        if state.closed_sides == BOTH and self._forget_if_expired(state, expired, packet.number, out):
            return self.open(packet, out)
        self.touch(state, side, packet.own_ns, packet.capture_ns)
        return owner

    def touch(self, state: ConnectionState, side: int, own_ns: int, capture_ns: int) -> None:
        """Note the latest packet of a connection, sent by ``side``: both clocks at it."""
        peer = state.streams[1 - side]
        if peer.answered is None:
            peer.answered = own_ns
        state.last_ns, state.last_capture_ns = own_ns, capture_ns
        self._recent.move_to_end(state)
        if state.closed_sides == BOTH:
            self._close(state)

    def mark_recent(self, owners: list[Owner]) -> None:
        """Put the connections of the latest packets in the order of their last packets."""
        for state in reversed(dict.fromkeys(owner[0] for owner in reversed(owners))):
            if state in self._recent:
                self._recent.move_to_end(state)

    def forget_closed(self, clock: int, out: list[Event]) -> None:
        """Forget the closed connections that have expired when the capture clock is at ``clock``."""
        until = self.shared.until
        for state in list(self._unfilled):
            self._forget_if_expired(state, state.clock_at(clock), until, out)
        while self._closed:
            state = next(iter(self._closed))
            if state.clock_at(clock) <= state.last_ns + self.closed_ns:
                return
            if not self._forget_if_expired(state, state.clock_at(clock), until, out):
                del self._closed[state]
                self._unfilled[state] = None

    def _forget_if_expired(self, state: ConnectionState, clock: int, number: int, out: list[Event]) -> bool:
        """Forget a closed connection if `closed_ns` passed before its ``clock``, and it waits for no missing bytes."""
        if clock <= state.last_ns + self.closed_ns:
            return False
        state.expire(clock, number, out)
        if state.waits:
            return False
        self._forget(state, CLOSED, state.end_of_wait(state.last_ns + self.closed_ns, number), out)
        return True

    def bound_closed(self, last: int, out: list[Event]) -> None:
        """Enforce `Limits.closed_connections` at the packet ``last``."""
        while self.closed > self._limits.closed_connections:
            self._forget_at(next(iter(self._unfilled or self._closed)), CLOSED, last + 1, last, out)

    def finish(self, last: int, out: list[Event]) -> None:
        """Forget all connections; ``last`` is the last packet."""
        while self._recent:
            self._forget_at(next(iter(self._recent)), CAPTURE_ENDED, last + 1, last, out)

    def _close(self, state: ConnectionState) -> None:
        self._unfilled.pop(state, None)
        self._closed[state] = None
        self._closed.move_to_end(state)

    def synchronize(
        self, packet: FlowPacket, state: ConnectionState, side: int, isn: int, flags: int, ack: int, out: list[Event]
    ) -> Owner:
        """A SYN or SYN/ACK: the connection and side that it belongs to, perhaps a new one."""
        if self.shared.with_gap:
            state.expire(packet.own_ns, packet.number, out)
        if _is_new_incarnation(state, side, isn, self._limits.late_syn_bytes):
            state, side = self.open(packet, out)
        _learn_from_syn(state, side, isn, flags, ack, packet.number)
        return state, side

    def _forget_at(self, state: ConnectionState, reason: str, number: int, last: int, out: list[Event]) -> None:
        """Forget a connection before packet ``number`` of another one: all its waits end first."""
        until, self.shared.until = self.shared.until, min(self.shared.until, number)
        if self.shared.with_gap:
            state.expire(inf, number, out)
        self._forget(state, reason, ending(state.wait_ends.before(number)), out)
        self.shared.until = until
        state.connection.end_packet = last

    def _forget(self, state: ConnectionState, reason: str, last: Origin, out: list[Event]) -> None:
        """End a connection at ``last``."""
        until, self.shared.until = self.shared.until, min(self.shared.until, packet_of(last.at))
        state.finish(last, out)
        self._lose_end(state, last.at)
        self.shared.until = until
        connection, state.hold = state.connection, None  # which refers to the state
        connection.end_packet, connection.ended_at = packet_of(last.at), last.at
        connection.end_reason = CLOSED if state.closed_sides == BOTH else reason
        del self._recent[state]
        self._closed.pop(state, None)
        self._unfilled.pop(state, None)
        for stream in state.streams:
            self._flows.pop(stream.acked_by, None)
        if self._analyser is not None and state.analysis is not None:
            self._analyser.ended.append(state.analysis)
        self.forgotten.append(state.connection)

    @staticmethod
    def _lose_end(state: ConnectionState, at: int) -> None:
        """Note bytes that were acknowledged at the end but not captured: no later segment shows the gap.

        A single byte can be a FIN. A reset shows them, too, but its number may be wrong: they are not counted.
        """
        for side, stream in enumerate(state.streams):
            expected, ack = stream.expected(), state.acks[1 - side]
            if expected < 0 or not stream.has_sent:
                continue
            if ack >= 0 and 1 < (ahead := distance(expected, ack)) <= stream.limits.window_bytes:
                stream.direction.acked_beyond = ahead
                stream.direction.missing += ahead
            elif not stream.before_end():
                continue
            stream.direction.lose(at, stream.offset, state.last_ns, first=state.shared.first)


def _is_new_incarnation(state: ConnectionState, side: int, isn: int, late_syn_bytes: int) -> bool:
    """Whether a SYN with initial sequence number ``isn`` opens another connection on the same 4-tuple.

    Not if it is a retransmission, the first SYN of this side, or a SYN captured after the first data.
    """
    stream = state.streams[side]
    if state.connection.closed is not None:
        return True
    if stream.isn is not None:
        return stream.isn != isn
    if stream.base is None or stream.untouched:
        return False
    return not 0 <= distance(advance(isn, 1), stream.base) <= late_syn_bytes


def _learn_from_syn(state: ConnectionState, side: int, isn: int, flags: int, ack: int, number: int) -> None:
    """Learn from a SYN or SYN/ACK of ``side`` where the streams start and who opened the connection.

    Ignored after payload, because its frames may be decoded already.
    """
    stream, peer = state.streams[side], state.streams[1 - side]
    answers = bool(flags & ACK)
    if state.connection.initiator is None and stream.untouched and peer.untouched:
        state.connection.initiator = 1 - side if answers else side
    if stream.isn is None:
        stream.isn = isn
        if stream.untouched:
            stream.base = advance(isn, 1)
            stream.direction.started, stream.direction.started_at = True, logical_time(number)
    if answers and peer.base is None:
        peer.base = ack
        peer.direction.started, peer.direction.started_at = True, logical_time(number)
