"""Packets to TCP segments: headers of a whole batch as columns, unusual packets one by one.

The columns are of IPv4 and IPv6 packets that carry TCP directly and are not fragments, on every link type; a second
pass reads those inside of tunnels. `ip.IpReader` reads all other IP packets; both return the same rows.
"""

import socket
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from wiredecode.arrays import Bools, Int32s, Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.net import link, tunnels
from wiredecode.net.ip import AUTHENTICATION, TCP, Carried, IpPacket, IpReader
from wiredecode.net.limits import Limits
from wiredecode.net.link import Octets, ethertype_name, linktype_name, protocol_name
from wiredecode.net.segments import IPV6_FLOW, Row, Segments, from_rows, merge

_NOT_SIMPLE = np.isin(np.arange(256), (0, 43, 44, TCP, AUTHENTICATION, 60, 135, 139, 140))
"""IP protocol numbers that need a look at the next header; the others are counted by name."""


COLUMNS = ((4, link.IPV4, 40), (6, link.IPV6, 60))
"""IP versions, their ethertypes, and the least size of IP and TCP headers."""


class HeaderReader:
    """Decodes link, IP and TCP headers; keeps IP fragments, and the counts of packets that were not decoded."""

    def __init__(self, limits: Limits, not_decoded: Counter[str], limits_hit: Counter[str]) -> None:
        self._limits = limits
        self._not_decoded, self._limits_hit = not_decoded, limits_hit
        self._ip = IpReader(limits, not_decoded, limits_hit)
        self._fast_packets = 0
        self.found_tunnels = False
        """Whether packets were in tunnels; the caller resets it."""
        self.carried: list[Carried] = []
        """Tunnelled contents of the packets of the last `read_rows`, outermost first."""

    @property
    def tcp_packets(self) -> int:
        """Packets that carried TCP, those of completed fragmented datagrams included."""
        return self._fast_packets + self._ip.tcp_packets

    def finish(self) -> None:
        """End of the capture: count the fragments that are left."""
        self._ip.fragments.finish()

    def read(self, batch: PacketBatch) -> Segments:
        """The TCP segments of a batch that is not empty."""
        parts: list[Segments] = []
        rows_left, extra = self._read(batch, COLUMNS, parts)
        if rows_left:
            parts.append(from_rows(batch.buffer, rows_left, extra))
        return merge(parts) if parts else from_rows(batch.buffer, [], [])

    def read_rows(self, batch: PacketBatch) -> tuple[list[Row], list[bytes]]:
        """The segments as rows, read one by one, and the payloads they refer to; sets `carried`."""
        return self._read(batch, (), [])

    def _read(
        self, batch: PacketBatch, versions: Iterable[tuple[int, int, int]], parts: list[Segments]
    ) -> tuple[list[Row], list[bytes]]:
        """Add segments of these IP versions to ``parts``; return those that must be read one by one, as rows.

        A round reads one IP header of every packet; the next round those in tunnels. ``unread``: IP packets to be read.
        """
        octets = Octets(batch.buffer)
        self.carried = []
        layers, unread = self._outermost(batch, octets)
        for _ in range(self._limits.tunnels + 1):
            inside: list[tunnels.Layers] = []
            for version, kind, least in versions:
                rows = np.flatnonzero((layers.ethertype == kind) & (layers.captured_end - layers.at >= least))
                if len(rows):
                    chosen = layers if len(rows) == len(unread) else layers.select(rows)
                    part, unread[rows] = self._read_columns(batch, octets, chosen, version, inside)
                    parts.append(part)
            if unread.any():
                inside += self._one_by_one(batch, layers.select(unread), octets)
            if not inside:
                break
            layers, unread = self._enter(tunnels.Layers.join(inside), octets, batch)
            self.found_tunnels |= bool(unread.any())
        else:
            self._too_deep(unread)
        return self._ip.pop_rows()

    def _outermost(self, batch: PacketBatch, octets: Octets) -> tuple[tunnels.Layers, Bools]:
        """The network layers of a batch, and which are IP; the others are counted."""
        at, ethertype = link.network_layer(batch, octets, self._limits.vlan_tags)
        ends = batch.start + batch.captured, batch.start + batch.original
        return self._enter(tunnels.Layers(np.arange(len(batch)), at, ethertype, *ends), octets, batch)

    def _enter(self, layers: tunnels.Layers, octets: Octets, batch: PacketBatch) -> tuple[tunnels.Layers, Bools]:
        """``layers`` up to the next IP header, and which have one; the others are counted."""
        is_ip = (layers.ethertype == link.IPV4) | (layers.ethertype == link.IPV6)
        if not is_ip.all():
            if np.isin(layers.ethertype, tunnels.LINKS).any():
                tunnels.enter_links(layers, octets, self._limits)
                is_ip = (layers.ethertype == link.IPV4) | (layers.ethertype == link.IPV6)
            self._count_not_ip(batch.linktype[layers.row], layers.ethertype, ~is_ip)
        return layers, is_ip

    def _too_deep(self, unread: Bools) -> None:
        count = int(np.count_nonzero(unread))
        if count:
            self._not_decoded["too many tunnels"] += count
            self._limits_hit["tunnels"] += count

    def _count_not_ip(self, linktype: Int32s, ethertype: Int64s, rows: Bools) -> None:
        for value, count in zip(*np.unique(ethertype[rows], return_counts=True), strict=True):
            if value != link.UNKNOWN_LINKTYPE:
                self._not_decoded[ethertype_name(int(value))] += int(count)
        unknown = linktype[ethertype == link.UNKNOWN_LINKTYPE]
        for value, count in zip(*np.unique(unknown, return_counts=True), strict=True):
            self._not_decoded[linktype_name(int(value))] += int(count)

    def _read_columns(
        self, batch: PacketBatch, octets: Octets, layers: tunnels.Layers, version: int, inside: list[tunnels.Layers]
    ) -> tuple[Segments, Bools]:
        """Read one IP version as columns; return those left of ``layers``, too. ``inside`` gets tunnelled contents."""
        rows, at = layers.row, layers.at
        available, wire = layers.captured_end - at, layers.wire_end - at
        protocol, header, total, plain = _ip_fields(octets, at, available, version)
        end = np.minimum(np.where(total == 0, wire, total), wire)
        tcp = at + header
        data = (octets.u8(tcp + 12) >> 4) * 4 + header
        fast = plain & (protocol == TCP) & (np.minimum(available, end) >= header + 20)
        fast &= (data >= header + 20) & (data <= end)
        not_tcp = plain & ~_NOT_SIMPLE[protocol]
        if not_tcp.any():
            self._count_others(protocol[not_tcp])
            carrying = np.flatnonzero(not_tcp & tunnels.IS_CARRIER[protocol])
            if len(carrying):
                stop = np.minimum(layers.captured_end, at + end), at + end
                carried = tunnels.Layers(rows, tcp, layers.ethertype, *stop).select(carrying)
                tunnels.enter_ip(carried, protocol[carrying], octets)
                inside.append(carried)
        unread = ~(fast | not_tcp)
        if not fast.all():
            rows, at, tcp, end, data, available = (column[fast] for column in (rows, at, tcp, end, data, available))
        self._fast_packets += len(rows)
        ports, number, time_ns = octets.u32(tcp), batch.number[rows], batch.time_ns[rows]
        if version == 4:
            high = np.zeros(len(rows), np.uint64)
            source, target = (octets.u32(at + field).astype(np.uint64) for field in (12, 16))
            addresses = high, source, high, target
        else:
            ports |= IPV6_FLOW
            addresses = octets.u64(at + 8), octets.u64(at + 16), octets.u64(at + 24), octets.u64(at + 32)
        segments = Segments(
            batch.buffer,
            rows,
            *addresses,
            ports,
            seq=octets.u32(tcp + 4),
            ack=octets.u32(tcp + 8),
            flags=octets.u8(tcp + 13),
            start=at + np.minimum(data, available),
            captured=np.maximum(np.minimum(available, end) - data, 0),
            length=end - data,
            number=number,
            time_ns=time_ns,
            completed_by=number,
            completed_ns=time_ns,
            window=octets.u16(tcp + 14),
            header=tcp,
        )
        return segments, unread

    def _count_others(self, protocol: Int64s) -> None:
        for value, count in enumerate(np.bincount(protocol)):
            if count and value not in tunnels.CARRIERS:
                self._not_decoded[protocol_name(value)] += int(count)

    def _one_by_one(self, batch: PacketBatch, layers: tunnels.Layers, octets: Octets) -> list[tunnels.Layers]:
        """Read IP packets by `IpReader`; return their tunnelled contents, after those of fragmented datagrams."""
        rows = layers.row
        columns = (*layers.columns(), batch.number[rows], batch.time_ns[rows])
        for row, begin, kind, end, wire, number, time_ns in zip(*(c.tolist() for c in columns), strict=True):
            self._ip.read(IpPacket(batch.buffer[begin:end], wire - begin, begin, row, number, time_ns), kind)
        carried = self._ip.pop_tunnelled()
        self.carried += carried
        plain = [inner for inner in carried if inner.packet.offset >= 0]
        for inner in carried:
            if inner.packet.offset < 0:
                self._datagram(inner, batch)
        return [_carried_packets(plain, octets)] if plain else []

    def _datagram(self, carried: Carried, batch: PacketBatch) -> None:
        """Read the tunnelled contents of a fragmented datagram, which have a separate buffer."""
        before, waiting = self._ip.tcp_packets, [carried]
        for _ in range(self._limits.tunnels + 1):
            inner = waiting.pop()
            packet, octets = inner.packet, Octets(inner.packet.data)
            layers, is_ip = self._enter(_carried_packets([inner], octets), octets, batch)
            if is_ip[0]:
                at, wire = int(layers.at[0]), int(layers.wire_end[0])
                data = packet.data[at : int(layers.captured_end[0])]
                origin = packet.row, packet.number, packet.time_ns
                self._ip.read(IpPacket(data, wire - at, -1, *origin), int(layers.ethertype[0]))
            waiting = self._ip.pop_tunnelled()
            if not waiting:
                break
        self._too_deep(np.ones(len(waiting), bool))
        if self._ip.tcp_packets > before:
            self._ip.tcp_packets += carried.packets - 1
        else:
            self._not_decoded[protocol_name(carried.protocol)] += carried.packets - 1


def _carried_packets(carried: list[Carried], octets: Octets) -> tunnels.Layers:
    rows = []
    for packet, protocol, at, _ in carried:
        begin, captured = max(packet.offset, 0), min(len(packet.data), packet.wire)
        rows.append((packet.row, begin + at, protocol, begin + captured, begin + packet.wire))
    layers = tunnels.Layers(*np.array(rows, np.int64).T.copy())
    tunnels.enter_ip(layers, layers.ethertype, octets)
    return layers


def _ip_fields(octets: Octets, at: Int64s, available: Int64s, version: int) -> tuple[Int64s, Int64s, Int64s, Bools]:
    """Protocol, size of header and packet (0: unknown) of IP packets at ``at``, and which are plain: no fragments."""
    if version == 6:
        total = octets.u16(at + 4)
        size = np.full(len(at), 40, np.int64)
        return octets.u8(at + 6), size, np.where(total == 0, 0, total + 40), octets.u8(at) >> 4 == 6
    first, fragment, protocol = octets.u8(at), octets.u16(at + 6) & 0x3FFF, octets.u8(at + 9)
    header, total = (first & 15) * 4, octets.u16(at + 2)
    plain = (first >> 4 == 4) & (header >= 20) & (fragment == 0) & ((total >= header) | (total == 0))
    return protocol, header, total, plain & (available >= header)


NAMES = {tunnels.IP_IN_IP: "ipip", tunnels.IPV6_IN_IP: "6in4", tunnels.MPLS_IN_IP: "mpls"}
KEY = 0x2000
"""Bit of the first two bytes of GRE: a key is there (RFC 2890)."""


class Outer(NamedTuple):
    """The tunnels of a connection, by its first packet."""

    tunnel: str
    """``vxlan 42``; of nested ones from the outside in: ``gre, vxlan 42``."""
    ends: tuple[str, str]
    """Addresses of the outermost header, in the order of ``Connection.endpoints``."""


def outer_of(packet: PacketBatch, limits: Limits) -> Outer | None:
    """Outer headers of the only packet of a batch; None if it is in no tunnel, or does not show it."""
    reader = HeaderReader(limits, Counter(), Counter())
    reader.read_rows(packet)
    if not reader.tcp_packets or not reader.carried:
        return None
    first = reader.carried[0].packet
    ends = (_address(value, first.version) for value in (first.source, first.target))
    return Outer(", ".join(map(_kind, reader.carried)), (next(ends), next(ends)))


def _address(value: int, version: int) -> str:
    family, size = (socket.AF_INET, 4) if version == 4 else (socket.AF_INET6, 16)
    return socket.inet_ntop(family, value.to_bytes(size))


def _kind(carried: Carried) -> str:
    data, at = carried.packet.data, carried.at

    def number(begin: int, size: int) -> int:
        return int.from_bytes(data[at + begin : at + begin + size])

    if carried.protocol == tunnels.UDP:
        return f"{'geneve' if number(2, 2) == tunnels.GENEVE_PORT else 'vxlan'} {number(12, 3)}"
    if carried.protocol != tunnels.GRE:
        return NAMES[carried.protocol]
    flags, inside = number(0, 2), number(2, 2)
    payload = 4 + 4 * (flags >> 15) + 4 * (flags >> 13 & 1) + 4 * (flags >> 12 & 1)
    if inside in (tunnels.ERSPAN, tunnels.ERSPAN_III):
        return f"erspan {number(payload + 2, 2) & 0x3FF}" if flags & 0x1000 else "erspan"
    return f"gre {number(4 + 4 * (flags >> 15), 4)}" if flags & KEY else "gre"
