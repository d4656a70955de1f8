"""Packets to TCP segments: the headers of a whole batch as columns, what is unusual one by one.

The fast path takes IPv4 and IPv6 packets that carry TCP directly and are not fragments, on every link type.
All other IP packets, and batches too small for columns to pay, go through `ip.IpReader`: the rows are equal.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt

from wiredecode.capture.batch import Int64s, PacketBatch
from wiredecode.net import link
from wiredecode.net.ip import AUTHENTICATION, TCP, IpReader, Packet
from wiredecode.net.limits import Limits
from wiredecode.net.link import Octets
from wiredecode.net.names import ethertype_name, linktype_name, protocol_name
from wiredecode.net.segments import IPV6_FLOW, Row, Segments, from_rows, merge

Mask = npt.NDArray[np.bool_]

_NOT_SIMPLE = np.isin(np.arange(256), (0, 43, 44, TCP, AUTHENTICATION, 60, 135, 139, 140))
"""IP protocol numbers that need a look behind them; the others are counted by name."""


class HeaderReader:
    """Decodes link, IP and TCP headers; keeps the counts of what was not decoded, and IP fragments."""

    def __init__(self, limits: Limits, not_decoded: Counter[str], limits_hit: Counter[str]) -> None:
        self._limits = limits
        self._not_decoded = not_decoded
        self._ip = IpReader(limits, not_decoded, limits_hit)
        self._fast_packets = 0

    @property
    def tcp_packets(self) -> int:
        """Packets that carried TCP, those of completed fragmented datagrams included."""
        return self._fast_packets + self._ip.tcp_packets

    def finish(self) -> None:
        """End of the capture: count the fragments that are left."""
        self._ip.fragments.finish()

    def read(self, batch: PacketBatch, clock: Int64s) -> Segments:
        """The TCP segments of a batch that is not empty; ``clock`` is the capture time of each packet, ns."""
        octets = Octets(batch.buffer)
        offset, ethertype, slow = self._network_layer(batch, octets)
        parts: list[Segments] = []
        for version, kind, least in ((4, link.IPV4, 40), (6, link.IPV6, 60)):
            rows = np.flatnonzero((ethertype == kind) & (batch.start + batch.captured - offset >= least))
            if len(rows):
                part, left = self._columns(batch, octets, rows, offset[rows], version)
                slow[rows] = left
                parts.append(part)
        if slow.any():
            rows = np.flatnonzero(slow)
            parts.append(from_rows(batch.buffer, *self._one_by_one(batch, offset, ethertype, rows, clock)))
        return merge(parts) if parts else from_rows(batch.buffer, [], [])

    def read_rows(self, batch: PacketBatch, clock: Int64s) -> tuple[list[Row], list[bytes]]:
        """The same as rows, and the payloads that they refer to: cheaper for a small batch."""
        offset, ethertype, rows = self._network_layer(batch, Octets(batch.buffer))
        return self._one_by_one(batch, offset, ethertype, np.flatnonzero(rows), clock)

    def _network_layer(self, batch: PacketBatch, octets: Octets) -> tuple[Int64s, Int64s, Mask]:
        """Offset and type of the network layer, and which packets are IP; the others are counted."""
        offset, ethertype = link.network_layer(batch, octets, self._limits.vlan_tags)
        is_ip = (ethertype == link.IPV4) | (ethertype == link.IPV6)
        if not is_ip.all():
            self._count_not_ip(batch, ethertype, ~is_ip)
        return offset, ethertype, is_ip

    def _count_not_ip(self, batch: PacketBatch, ethertype: Int64s, rows: Mask) -> None:
        for value, count in zip(*np.unique(ethertype[rows], return_counts=True), strict=True):
            if value != link.UNKNOWN_LINKTYPE:
                self._not_decoded[ethertype_name(int(value))] += int(count)
        unknown = batch.linktype[ethertype == link.UNKNOWN_LINKTYPE]
        for value, count in zip(*np.unique(unknown, return_counts=True), strict=True):
            self._not_decoded[linktype_name(int(value))] += int(count)

    def _columns(
        self, batch: PacketBatch, octets: Octets, rows: Int64s, at: Int64s, version: int
    ) -> tuple[Segments, Mask]:
        """Fast path for one IP version, headers start ``at``; also which of ``rows`` it did not take."""
        start = batch.start[rows]
        available = start + batch.captured[rows] - at
        wire = batch.original[rows] - (at - start)
        if version == 4:
            first, fragment, protocol = octets.u8(at), octets.u16(at + 6) & 0x3FFF, octets.u8(at + 9)
            header = (first & 15) * 4
            total = octets.u16(at + 2)
            plain = (first >> 4 == 4) & (header >= 20) & (fragment == 0) & ((total >= header) | (total == 0))
            plain &= available >= header
        else:
            protocol, header = octets.u8(at + 6), np.full(len(at), 40, np.int64)
            total = octets.u16(at + 4)
            total = np.where(total == 0, 0, total + 40)
            plain = octets.u8(at) >> 4 == 6
        end = np.minimum(np.where(total == 0, wire, total), wire)
        tcp = at + header
        data = (octets.u8(tcp + 12) >> 4) * 4 + header
        fast = plain & (protocol == TCP) & (np.minimum(available, end) >= header + 20)
        fast &= (data >= header + 20) & (data <= end)
        other = plain & ~_NOT_SIMPLE[protocol]
        if other.any():
            for value, count in enumerate(np.bincount(protocol[other])):
                if count:
                    self._not_decoded[protocol_name(value)] += int(count)
        left = ~(fast | other)
        if not fast.all():
            rows, at, tcp, end, data, available = (column[fast] for column in (rows, at, tcp, end, data, available))
        self._fast_packets += len(rows)
        return self._segments(batch, octets, rows, at, tcp, data, end, available, version), left

    def _segments(
        self,
        batch: PacketBatch,
        octets: Octets,
        rows: Int64s,
        at: Int64s,
        tcp: Int64s,
        data: Int64s,
        end: Int64s,
        available: Int64s,
        version: int,
    ) -> Segments:
        number, time_ns = batch.number[rows], batch.time_ns[rows]
        ports = octets.u32(tcp)
        if version == 4:
            high = np.zeros(len(rows), np.uint64)
            addresses = (
                high,
                octets.u32(at + 12).astype(np.uint64),
                high,
                octets.u32(at + 16).astype(np.uint64),
            )
        else:
            ports |= IPV6_FLOW
            addresses = octets.u64(at + 8), octets.u64(at + 16), octets.u64(at + 24), octets.u64(at + 32)
        return Segments(
            batch.buffer,
            rows,
            *addresses,
            ports,
            seq=octets.u32(tcp + 4),
            ack=octets.u32(tcp + 8),
            flags=octets.u8(tcp + 13),
            start=at + data,
            captured=np.maximum(np.minimum(available, end) - data, 0),
            length=end - data,
            number=number,
            time_ns=time_ns,
            ready=number,
            ready_ns=time_ns,
            window=octets.u16(tcp + 14),
            header=tcp,
        )

    def _one_by_one(
        self, batch: PacketBatch, offset: Int64s, ethertype: Int64s, rows: Int64s, clock: Int64s
    ) -> tuple[list[Row], list[bytes]]:
        start, at = batch.start[rows], offset[rows]
        columns = (
            rows,
            ethertype[rows],
            at,
            start + batch.captured[rows],
            batch.original[rows] - (at - start),
            batch.number[rows],
            batch.time_ns[rows],
            clock[rows],
        )
        for row, kind, begin, end, wire, number, time_ns, now in zip(*(c.tolist() for c in columns), strict=True):
            data = batch.buffer[begin:end]
            self._ip.read(Packet(data, wire, begin, row, number, time_ns, now), kind)
        return self._ip.take()
