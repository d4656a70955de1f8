"""IPv4, IPv6 and TCP headers of one packet: for packets that are not plain TCP."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable
from operator import itemgetter
from typing import NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.net.limits import Limits
from wiredecode.net.link import FRAGMENT_INCOMPLETE, HEADER_TRUNCATED, IPV4, protocol_name
from wiredecode.net.logical_time import Clock
from wiredecode.net.segments import FIN, IPV6_FLOW, RST, SYN, Row
from wiredecode.net.tunnels import CARRIERS, PORTS, UDP

MALFORMED_FRAGMENT = "malformed IP fragment"
MAX_DATAGRAM = 65535


@dataclass(slots=True)
class FragmentPiece:
    """The part of a datagram in one fragment: wire bytes [start, end), of which ``data`` was captured."""

    start: int
    end: int
    data: bytes
    number: int
    time_ns: int


@dataclass(slots=True)
class Datagram:
    """An IP datagram that is not complete yet."""

    clock: int
    """When its first fragment came, ns by the clock of all fragments."""
    pieces: list[FragmentPiece] = field(default_factory=list)
    """Sorted, not overlapping."""
    total: int | None = None
    """Length on the wire, known from the last fragment."""
    covered: int = 0
    buffered: int = 0
    packets: int = 0

    def add(self, piece: FragmentPiece) -> None:
        """Insert what of ``piece`` is not there yet."""
        at = bisect_left(self.pieces, piece.start, key=lambda existing: existing.end)
        cursor = piece.start
        while cursor < piece.end:
            existing = self.pieces[at] if at < len(self.pieces) else None
            if existing is not None and existing.start <= cursor:
                cursor = existing.end
            else:
                end = piece.end if existing is None else min(piece.end, existing.start)
                data = piece.data[cursor - piece.start : end - piece.start]
                self.pieces.insert(at, FragmentPiece(cursor, end, data, piece.number, piece.time_ns))
                self.covered += end - cursor
                self.buffered += len(data)
                cursor = end
            at += 1

    @property
    def malformed(self) -> bool:
        """Bytes after the last fragment, or more than a datagram can hold."""
        end = self.pieces[-1].end if self.pieces else 0
        return end > MAX_DATAGRAM or (self.total is not None and end > self.total)


class Fragments:
    """The incomplete datagrams of a capture, bounded in number, bytes and time."""

    def __init__(self, limits: Limits, not_decoded: Counter[str], limits_hit: Counter[str]) -> None:
        self._limits = limits
        self._not_decoded = not_decoded
        self._limits_hit = limits_hit
        self._datagrams: dict[Hashable, Datagram] = {}
        self._buffered = 0
        self._clock = Clock(int(limits.gap_seconds * 1e9))  # other packets have no part in it

    def __contains__(self, key: Hashable) -> bool:
        """Whether a datagram is being put together."""
        return key in self._datagrams

    def add(self, key: Hashable, piece: FragmentPiece, more: bool) -> Datagram | None:
        """Take one fragment; the datagram it belongs to when that is complete now."""
        clock = self._clock.at(piece.time_ns)
        self._expire(clock)
        datagram = self._datagrams.setdefault(key, Datagram(clock))
        before = datagram.buffered
        datagram.packets += 1
        datagram.add(piece)
        self._buffered += datagram.buffered - before
        if not more and datagram.total is None:
            datagram.total = piece.end
        if datagram.malformed:
            self._drop(key, MALFORMED_FRAGMENT)
        elif datagram.covered == datagram.total:
            del self._datagrams[key]
            self._buffered -= datagram.buffered
            return datagram
        else:
            self._bound()
        return None

    def finish(self) -> None:
        """End of the capture: what is incomplete stays so."""
        for key in list(self._datagrams):
            self._drop(key, FRAGMENT_INCOMPLETE)

    def _expire(self, clock: int) -> None:
        oldest = clock - int(self._limits.fragment_seconds * 1e9)
        while self._datagrams:
            key, datagram = next(iter(self._datagrams.items()))
            if datagram.clock >= oldest:
                break
            self._drop(key, FRAGMENT_INCOMPLETE)

    def _bound(self) -> None:
        limits = self._limits
        while len(self._datagrams) > limits.fragmented_datagrams or self._buffered > limits.fragment_bytes:
            name = "fragment_bytes" if self._buffered > limits.fragment_bytes else "fragmented_datagrams"
            self._limits_hit[name] += 1
            self._drop(next(iter(self._datagrams)), FRAGMENT_INCOMPLETE)

    def _drop(self, key: Hashable, reason: str) -> None:
        datagram = self._datagrams.pop(key)
        self._buffered -= datagram.buffered
        self._not_decoded[reason] += datagram.packets


TCP = 6
HOP_BY_HOP, ROUTING, FRAGMENT, AUTHENTICATION, DESTINATION = 0, 43, 44, 51, 60
MOBILITY, HIP, SHIM6 = 135, 139, 140
_EXTENSIONS = frozenset((HOP_BY_HOP, ROUTING, AUTHENTICATION, DESTINATION, MOBILITY, HIP, SHIM6))
MALFORMED_IPV4 = "malformed IPv4 header"
MALFORMED_IPV6 = "malformed IPv6 header"
MALFORMED_TCP = "malformed TCP header"
LOW = (1 << 64) - 1


@dataclass(slots=True, eq=False)
class IpPacket:
    """One packet from its network layer on, and where it comes from."""

    data: bytes
    wire: int
    """Bytes on the wire from the network layer on; cut to the IP length once that is known."""
    offset: int
    """Where ``data`` lies in the buffer of the batch; negative: nowhere, it came in fragments."""
    row: int
    number: int
    time_ns: int
    source: int = 0
    target: int = 0
    version: int = 4


class Carried(NamedTuple):
    """Contents of an IP packet with one of the protocols `tunnels.CARRIERS`."""

    packet: IpPacket
    """The packet; of a datagram in fragments the one that made it complete, from the IP payload on."""
    protocol: int
    at: int
    """Where the IP payload starts in ``packet.data``."""
    packets: int = 1
    """Packets of the datagram."""


class IpReader:
    """Decodes packets one by one into rows; ``not_decoded`` counts, by reason, the packets that gave none."""

    def __init__(self, limits: Limits, not_decoded: Counter[str], limits_hit: Counter[str]) -> None:
        self._limits = limits
        self._not_decoded = not_decoded
        self.fragments = Fragments(limits, not_decoded, limits_hit)
        self.rows: list[Row] = []
        self.extra: list[bytes] = []
        self.tcp_packets = 0
        self.tunnelled: list[Carried] = []
        """Possible packets inside of packets since `pop_tunnelled`."""

    def pop_tunnelled(self) -> list[Carried]:
        """Return the contents of packets since the last call; the caller decodes or counts them."""
        popped, self.tunnelled = self.tunnelled, []
        return popped

    def pop_rows(self) -> tuple[list[Row], list[bytes]]:
        """Rows decoded since the last call, in packet order, and the payloads that they refer to."""
        self.rows.sort(key=itemgetter(0))
        popped = self.rows, self.extra
        self.rows, self.extra = [], []
        return popped

    def read(self, packet: IpPacket, ethertype: int) -> None:
        """Decode one IP packet."""
        reason = self._ipv4(packet) if ethertype == IPV4 else self._ipv6(packet)
        if reason is not None:
            self._not_decoded[reason] += 1

    def _ipv4(self, packet: IpPacket) -> str | None:
        """RFC 791 section 3.1. Total length 0: segmentation offload, the packet is as long as it is."""
        data = packet.data
        if len(data) < 20:
            return HEADER_TRUNCATED
        header = (data[0] & 15) * 4
        total = int.from_bytes(data[2:4]) or packet.wire
        if data[0] >> 4 != 4 or header < 20 or total < header:
            return MALFORMED_IPV4
        if len(data) < header:
            return HEADER_TRUNCATED
        packet.wire = min(packet.wire, total)
        packet.source, packet.target = int.from_bytes(data[12:16]), int.from_bytes(data[16:20])
        fragment, protocol = int.from_bytes(data[6:8]), data[9]
        if fragment & 0x3FFF:
            key = (4, packet.source, packet.target, protocol, data[4:6])
            return self._fragment(packet, protocol, key, header, (fragment & 0x1FFF) * 8, bool(fragment & 0x2000))
        return self._upper(packet, protocol, header)

    def _ipv6(self, packet: IpPacket) -> str | None:
        """RFC 8200 section 3. Payload length 0 is a jumbogram or segmentation offload: as long as it is."""
        data = packet.data
        if len(data) < 40:
            return HEADER_TRUNCATED
        if data[0] >> 4 != 6:
            return MALFORMED_IPV6
        length = int.from_bytes(data[4:6])
        packet.wire = min(packet.wire, 40 + length) if length else packet.wire
        packet.version = 6
        packet.source, packet.target = int.from_bytes(data[8:24]), int.from_bytes(data[24:40])
        return self._upper(packet, data[6], 40)

    def _extensions(self, data: bytes, protocol: int, at: int) -> tuple[int, int] | str:
        """Step over extension headers: return the protocol after them and where it starts."""
        for _ in range(self._limits.extension_headers + 1):
            if protocol not in _EXTENSIONS:
                return protocol, at
            if len(data) < at + 2:
                return HEADER_TRUNCATED
            size = (data[at + 1] + 2) * 4 if protocol == AUTHENTICATION else (data[at + 1] + 1) * 8
            protocol, at = data[at], at + size
        return "too many extension headers"

    def _upper(self, packet: IpPacket, protocol: int, at: int) -> str | None:
        upper = self._extensions(packet.data, protocol, at)
        if isinstance(upper, str):
            return upper
        protocol, at = upper
        if protocol == FRAGMENT and packet.version == 6:
            return self._ipv6_fragment(packet, at)
        if protocol in CARRIERS:
            self.tunnelled.append(Carried(packet, protocol, at))
            return None
        if protocol != TCP:
            return protocol_name(protocol)
        return self._tcp(packet, at)

    def _ipv6_fragment(self, packet: IpPacket, at: int) -> str | None:
        """RFC 8200 section 4.5; an atomic fragment (RFC 6946) is a whole datagram."""
        data = packet.data
        if len(data) < at + 8:
            return HEADER_TRUNCATED
        protocol, offset_flags = data[at], int.from_bytes(data[at + 2 : at + 4])
        if not offset_flags & 0xFFF9:
            return self._upper(packet, protocol, at + 8)
        key = (6, packet.source, packet.target, data[at + 4 : at + 8])
        return self._fragment(packet, protocol, key, at + 8, offset_flags & 0xFFF8, bool(offset_flags & 1))

    def _fragment(
        self, packet: IpPacket, protocol: int, key: tuple[object, ...], at: int, start: int, more: bool
    ) -> str | None:
        data = packet.data[at : packet.wire]
        if protocol != TCP and protocol not in _EXTENSIONS and not self._may_be_tunnel(protocol, key, start, data):
            return protocol_name(protocol)
        end = start + packet.wire - at
        if end <= start:
            return MALFORMED_IPV4 if packet.version == 4 else MALFORMED_IPV6
        piece = FragmentPiece(start, end, data, packet.number, packet.time_ns)
        datagram = self.fragments.add(key, piece, more)
        return None if datagram is None else self._datagram(packet, protocol, datagram)

    def _may_be_tunnel(self, protocol: int, key: tuple[object, ...], start: int, data: bytes) -> bool:
        """Whether a fragment is put together with others: of UDP once the first one shows a tunnel's port."""
        if protocol != UDP:
            return protocol in CARRIERS
        return int.from_bytes(data[2:4]) in PORTS if start == 0 else key in self.fragments

    def _datagram(self, packet: IpPacket, protocol: int, datagram: Datagram) -> str | None:
        """A reassembled datagram: one row per fragment that carries TCP payload."""
        head = b""
        for piece in datagram.pieces:
            head += piece.data
            if len(piece.data) < piece.end - piece.start:
                break
        upper = self._extensions(head, protocol, 0)
        reason = upper if isinstance(upper, str) else None
        if isinstance(upper, tuple) and upper[0] in CARRIERS:
            whole = IpPacket(head, datagram.total or 0, -1, packet.row, packet.number, packet.time_ns)
            self.tunnelled.append(Carried(whole, *upper, datagram.packets))
            return None
        if isinstance(upper, tuple) and upper[0] != TCP:
            reason = protocol_name(upper[0])
        elif isinstance(upper, tuple):
            reason = self._tcp_header(head, upper[1], datagram.total or 0)
        if reason is not None:
            self._not_decoded[reason] += datagram.packets - 1
            return reason
        assert isinstance(upper, tuple)
        self.tcp_packets += datagram.packets
        self._datagram_rows(packet, head[upper[1] :], datagram, upper[1])
        return None

    def _datagram_rows(self, packet: IpPacket, header: bytes, datagram: Datagram, at: int) -> None:
        """SYN belongs to the first row, FIN and RST to the last."""
        begin = at + (header[12] >> 4) * 4
        pieces = [piece for piece in datagram.pieces if piece.end > begin] or datagram.pieces[-1:]
        for index, piece in enumerate(pieces):
            skip = max(begin - piece.start, 0)
            data = piece.data[skip:]
            flags, ahead = header[13], max(piece.start - begin, 0)
            if index:
                ahead += 1 if flags & SYN else 0
                flags &= ~SYN
            if index < len(pieces) - 1:
                flags &= ~(FIN | RST)
            length = max(piece.end - piece.start - skip, 0)
            self._row(packet, header, flags, ahead, ~len(self.extra), len(data), length, piece)
            self.extra.append(data)

    def _tcp_header(self, data: bytes, at: int, wire: int) -> str | None:
        """Describe the error in the TCP header at ``at``, if any (RFC 9293 section 3.1)."""
        if len(data) < at + 20:
            return HEADER_TRUNCATED
        size = (data[at + 12] >> 4) * 4
        return MALFORMED_TCP if size < 20 or at + size > wire else None

    def _tcp(self, packet: IpPacket, at: int) -> str | None:
        data = packet.data[: packet.wire]
        reason = self._tcp_header(data, at, packet.wire)
        if reason is not None:
            return reason
        begin = at + (data[at + 12] >> 4) * 4
        self.tcp_packets += 1
        captured = max(len(data) - begin, 0)
        header = data[at : at + 20]
        payload_at, header_at = packet.offset + min(begin, len(data)), packet.offset + at
        if packet.offset < 0:
            payload_at, header_at = ~len(self.extra), -1
            self.extra.append(data[begin:])
        self._row(packet, header, header[13], 0, payload_at, captured, packet.wire - begin, packet, header_at)
        return None

    def _row(
        self,
        packet: IpPacket,
        header: bytes,
        flags: int,
        ahead: int,
        start: int,
        captured: int,
        length: int,
        carrier: IpPacket | FragmentPiece,
        header_at: int = -1,
    ) -> None:
        """Append a row; ``ahead`` is added to the sequence number, ``carrier`` has the bytes."""
        self.rows.append(
            (
                packet.row,
                packet.source >> 64,
                packet.source & LOW,
                packet.target >> 64,
                packet.target & LOW,
                int.from_bytes(header[0:4]) | (IPV6_FLOW if packet.version == 6 else 0),
                (int.from_bytes(header[4:8]) + ahead) & 0xFFFFFFFF,
                int.from_bytes(header[8:12]),
                flags,
                start,
                captured,
                length,
                carrier.number,
                carrier.time_ns,
                packet.number,
                packet.time_ns,
                int.from_bytes(header[14:16]),
                header_at,
            )
        )
