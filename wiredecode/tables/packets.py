"""Packets as record batches: link, IP and TCP headers, and why a packet was not decoded (docs/tables.md)."""

import socket
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from wiredecode.arrays import Bools, Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.filter.tables import FACT
from wiredecode.frames.columns import TUNNEL_COLUMNS
from wiredecode.frames.totals import Totals
from wiredecode.net import link
from wiredecode.net.flows import endpoint
from wiredecode.net.headers import HeaderReader
from wiredecode.net.health import KINDS
from wiredecode.net.ip import TCP, IpPacket, IpReader
from wiredecode.net.limits import DEFAULT_LIMITS, Limits
from wiredecode.net.link import FRAGMENT_INCOMPLETE, Octets, ethertype_name, linktype_name, protocol_name
from wiredecode.net.network import Network
from wiredecode.net.segment_facts import without_tcp
from wiredecode.net.segments import IPV6_FLOW, Segments
from wiredecode.tables.schema import declared_schema

FRAGMENT = "IP fragment"
"""Why a fragment was not decoded by itself: the packet that completes its datagram has the facts."""
UDP = 17
ONE_BY_ONE = np.isin(np.arange(256), (0, 43, 44, TCP, 51, 60, 135, 139, 140))
"""IP protocol numbers that need a look at the next header to find why the packet was not decoded."""

BITS = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")


@cache
def _flags() -> pa.Array:
    """Text of each value of TCP's flags (RFC 9293 section 3.1, RFC 3168)."""
    return pa.array([" ".join(name for bit, name in enumerate(BITS) if mask >> bit & 1) for mask in range(256)])


class PacketFacts:
    """Facts about n packets, as columns; -1 if there is no value."""

    def __init__(self, size: int) -> None:
        self.version, self.protocol = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        self.ports = np.full((2, size), -1, np.int64)
        self.high, self.low = np.zeros((2, size), np.uint64), np.zeros((2, size), np.uint64)
        """Addresses of source and destination as two halves; an IPv4 address is in the lower one."""
        self.seq, self.ack, self.flags = (np.zeros(size, np.int64) for _ in range(3))
        self.length, self.captured = np.zeros(size, np.int64), np.zeros(size, np.int64)
        """TCP payload bytes on the wire and in the capture."""
        self.tcp = np.zeros(size, np.bool_)

    def add_segments(self, segments: Segments) -> None:
        """TCP segments; of one that was put together of fragments each fragment has a row, the first counts."""
        np.add.at(self.length, segments.row, segments.length)
        np.add.at(self.captured, segments.row, segments.captured)
        _, first = np.unique(segments.row, return_index=True)
        rows, ports = segments.row[first], segments.ports[first]
        self.tcp[rows], self.protocol[rows] = True, TCP
        self.version[rows] = np.where(ports & IPV6_FLOW, 6, 4)
        self.ports[:, rows] = ports >> 16 & 0xFFFF, ports & 0xFFFF
        self.high[:, rows] = segments.source_high[first], segments.target_high[first]
        self.low[:, rows] = segments.source_low[first], segments.target_low[first]
        self.seq[rows], self.ack[rows] = segments.seq[first], segments.ack[first]
        self.flags[rows] = segments.flags[first]

    def add_ip(self, octets: Octets, rows: Int64s, at: Int64s, available: Int64s, version: int) -> Int64s:
        """Add packets with an IP header at ``at``; return which are plain: no fragment, transport header next."""
        whole = (available >= (20 if version == 4 else 40)) & (octets.u8(at) >> 4 == version)
        rows, at, available = rows[whole], at[whole], available[whole]
        self.version[rows] = version
        if version == 4:
            protocol, header = octets.u8(at + 9), (octets.u8(at) & 15) * 4
            plain = (octets.u16(at + 6) & 0x3FFF == 0) & (header >= 20) & (available >= header)
            total = octets.u16(at + 2)
            plain &= (total >= header) | (total == 0)
            self.low[:, rows] = octets.u32(at + 12), octets.u32(at + 16)
        else:
            protocol, header = octets.u8(at + 6), np.full(len(at), 40, np.int64)
            plain = np.ones(len(at), np.bool_)
            self.high[:, rows] = octets.u64(at + 8), octets.u64(at + 24)
            self.low[:, rows] = octets.u64(at + 16), octets.u64(at + 32)
        self.protocol[rows] = protocol
        udp = plain & (protocol == UDP) & (available >= header + 4)
        ports = octets.u32((at + header)[udp])
        self.ports[:, rows[udp]] = ports >> 16, ports & 0xFFFF
        plain_rows: Int64s = rows[plain & ~ONE_BY_ONE[protocol]]
        return plain_rows

    def addresses(self, end: int) -> pa.Array:
        """``address:port`` of the sources (0) or destinations (1), or the address alone."""
        columns = self.high[end].tolist(), self.low[end].tolist(), self.ports[end].tolist(), self.version.tolist()
        return pa.array([_address(*row) for row in zip(*columns, strict=True)], pa.string())


@lru_cache(maxsize=1 << 16)
def _address(high: int, low: int, port: int, version: int) -> str | None:
    if version < 0:
        return None
    if port >= 0:
        return endpoint(high, low, port, version == 6)
    if version == 6:
        return socket.inet_ntop(socket.AF_INET6, (high << 64 | low).to_bytes(16))
    return socket.inet_ntop(socket.AF_INET, low.to_bytes(4))


class PacketTable:
    """Makes record batches of packets, in the order of the capture. ``totals`` counts them, and is whole at the end.

    ``facts``: more columns, for filters (:data:`wiredecode.filter.tables.FACT`).
    """

    def __init__(
        self,
        limits: Limits = DEFAULT_LIMITS,
        *,
        stable_ids: bool = False,
        analyse: bool = True,
        facts: Sequence[str] = (),
    ) -> None:
        self.schema = declared_schema("packets")
        self._network = Network(limits, track=True, facts=bool(facts)) if analyse or facts else None
        """Assigns packets to connections, and analyses them."""
        self._stable_ids, self._facts = stable_ids, facts
        self._last_ns: int | None = None
        self.totals = Totals()
        self._limits = limits
        self._reader = HeaderReader(self._limits, self.totals.not_decoded, self.totals.limits)
        self._why: Counter[str] = Counter()
        self._ip = IpReader(self._limits, self._why, Counter())
        """Examines packets again whose reason was counted but not kept."""

    def batch(self, packets: PacketBatch) -> pa.RecordBatch:
        """One row per packet."""
        if not len(packets):
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        facts = PacketFacts(len(packets))
        facts.add_segments(self._reader.read(packets))
        reasons = self._reasons(packets, facts)
        if self._network is not None:
            self._network.feed(packets)
        self.totals.packets += len(packets)
        self.totals.tcp_packets = self._reader.tcp_packets
        table = self._batch(packets, facts, reasons)
        if self._network is not None:
            for connection in self._network.pop_forgotten():
                self._network.tunnelled.pop(connection.number, None)
        return table

    def finish(self) -> None:
        """The capture is over: count the fragments whose rest never came."""
        self._reader.finish()
        self.totals.tcp_packets = self._reader.tcp_packets

    def _reasons(self, packets: PacketBatch, facts: PacketFacts) -> list[str | None]:
        """Return why each packet was not decoded; also fill in the facts about these packets."""
        octets = Octets(packets.buffer)
        offset, ethertype = link.network_layer(packets, octets, self._limits.vlan_tags)
        reasons: list[str | None] = [None] * len(packets)
        unread = ~facts.tcp
        for version, kind in ((4, link.IPV4), (6, link.IPV6)):
            rows = np.flatnonzero(unread & (ethertype == kind))
            stop = packets.start[rows] + packets.captured[rows]
            for row in facts.add_ip(octets, rows, offset[rows], stop - offset[rows], version).tolist():
                reasons[row] = protocol_name(int(facts.protocol[row]))
                unread[row] = False
        for row in np.flatnonzero(unread).tolist():
            kind = int(ethertype[row])
            if kind in (link.IPV4, link.IPV6):
                reasons[row] = self._look_again(packets, row, int(offset[row]), kind)
            else:
                unknown = kind == link.UNKNOWN_LINKTYPE
                reasons[row] = linktype_name(int(packets.linktype[row])) if unknown else ethertype_name(kind)
        return reasons

    def _look_again(self, packets: PacketBatch, row: int, offset: int, kind: int) -> str:
        start, stop = int(packets.start[row]), int(packets.start[row] + packets.captured[row])
        wire = int(packets.original[row]) - (offset - start)
        number, time_ns = int(packets.number[row]), int(packets.time_ns[row])
        self._why.clear()
        self._ip.read(IpPacket(packets.buffer[offset:stop], wire, offset, row, number, time_ns), kind)
        self._ip.pop_rows()
        return next((reason for reason in self._why if reason != FRAGMENT_INCOMPLETE), FRAGMENT)

    def _batch(self, packets: PacketBatch, facts: PacketFacts, reasons: list[str | None]) -> pa.RecordBatch:
        no_tcp, no_ip = ~facts.tcp, facts.version < 0
        protocols, sources = facts.protocol.tolist(), facts.addresses(0)
        columns = {
            "packet": packets.time_ns if self._stable_ids else packets.number,
            "time": packets.time_ns.view("datetime64[ns]"),
            "interface": packets.interface,
            "linktype": packets.linktype,
            "captured": packets.captured,
            "length": packets.original,
            "ip_version": _mask(facts.version, no_ip),
            "src": sources,
            "dst": facts.addresses(1),
            "transport": ["TCP" if one == TCP else None if one < 0 else protocol_name(one) for one in protocols],
            "seq": _mask(facts.seq, no_tcp),
            "ack": _mask(facts.ack, no_tcp),
            "flags": _flags().take(_mask(facts.flags, no_tcp)),
            "flags_code": _mask(facts.flags, no_tcp),
            "payload": _mask(facts.length, no_tcp),
            "payload_captured": _mask(facts.captured, no_tcp),
            "not_decoded": reasons,
            **self._analysis(packets, sources),
        }
        arrays = [_as(columns[field.name], field.type) for field in self.schema]
        made = pa.record_batch(arrays, schema=self.schema)
        return self._with_facts(made, packets) if self._facts else made

    def _with_facts(self, made: pa.RecordBatch, packets: PacketBatch) -> pa.RecordBatch:
        """Add the columns for filters; of packets without TCP only those that do not need it."""
        assert self._network is not None and self._network.facts is not None
        of_packet, others = self._network.facts.by_packet, without_tcp(packets, self._last_ns)
        self._last_ns = int(packets.time_ns[-1])
        facts = [of_packet.get(number, other) for number, other in zip(packets.number.tolist(), others, strict=True)]
        for name in self._facts:
            column = pa.array([getattr(each, name.removeprefix(FACT)) for each in facts], pa.int64())
            made = made.append_column(name, column)
        return made

    def _analysis(self, packets: PacketBatch, sources: pa.Array) -> dict[str, Any]:
        """Connections, their tunnels and what TCP analysis found, of packets with TCP."""
        if self._network is None:
            return dict.fromkeys(("connection", "tcp_analysis", *TUNNEL_COLUMNS), [None] * len(packets))
        connections, kinds = self._network.tracked_packets
        numbers = packets.number.tolist()
        analysed = [kind_names(kinds[number]) if number in kinds else None for number in numbers]
        of_packets = [connections.get(number) for number in numbers]
        columns: dict[str, Any] = {"connection": of_packets, "tcp_analysis": analysed}
        tunnelled = self._network.tunnelled
        if not tunnelled:
            return columns | dict.fromkeys(TUNNEL_COLUMNS, [None] * len(packets))
        outer = [
            (None, None, None)
            if number not in tunnelled
            else tunnelled[number].tunnel_columns(tunnelled[number].endpoints.index(source))
            for number, source in zip(of_packets, sources.to_pylist(), strict=True)
        ]
        return columns | dict(zip(TUNNEL_COLUMNS, map(list, zip(*outer, strict=True)), strict=True))


@cache
def kind_names(kinds: int) -> list[str]:
    """The kinds of a segment, as Wireshark calls them."""
    return [name for bit, name in enumerate(KINDS) if kinds >> bit & 1]


def _mask(values: Int64s, mask: Bools) -> pa.Array:
    return pa.array(values, pa.int64(), mask=mask)


def _as(column: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(column, pa.Array):
        return column.cast(kind, safe=False) if column.type != kind else column
    return pa.array(column, kind)
