"""A packet with its addresses replaced and everything after its headers blanked, and its checksums."""

from collections import Counter
from typing import Literal, NamedTuple

import numpy as np

from wiredecode.anonymize.key import BLANK, Key
from wiredecode.capture.batch import PacketBatch
from wiredecode.dataclasses import dataclass, field
from wiredecode.net import link
from wiredecode.net.ip import TCP

ETHERNET, SLL, SLL2 = link.LINKTYPE_ETHERNET, link.LINKTYPE_LINUX_SLL, link.LINKTYPE_LINUX_SLL2
ARP, ICMP, UDP, HOP_OPTIONS, DESTINATION_OPTIONS = 0x0806, 1, 17, 0, 60
FRAGMENT = 0x3FFF
TCP_HEADER, IPV4_HEADER, IPV6_HEADER, UDP_HEADER = 20, 20, 40, 8
END, NOP = 0, 1
KNOWN_OPTIONS = frozenset({2, 3, 4, 5, 8})
"""MSS, window scale, SACK permitted, SACK, timestamps: they identify no host."""

Flow = tuple[bytes, bytes, bytes]
"""Source and destination address, both ports."""


class StreamPosition(NamedTuple):
    """Where the TCP payload of a packet is."""

    flow: Flow
    seq: int
    """Sequence number of its first byte."""
    start: int
    stop: int
    ip: int
    tcp: int


@dataclass(slots=True, eq=False)
class AnonymizedPacket:
    """One packet on its way through: as it was, and as it will be."""

    number: int
    time_ns: int
    interface: int
    linktype: int
    wire: int
    """Payload bytes on the wire."""
    was: bytes
    now: bytearray
    payload: StreamPosition | None = None
    at: int = 0
    """Where the payload lies in its flow: see :class:`Streams`."""
    done: bytearray = field(default_factory=bytearray)
    """1 for each byte of the payload that has been replaced."""
    written: int | None = None
    """Where in the output its bytes are, once they are."""

    @property
    def is_done(self) -> bool:
        return not self.done or self.done.find(0) < 0


class Packets:
    """Makes packets of batches."""

    def __init__(self, key: Key, vlan_tags: int) -> None:
        self.key, self._vlan_tags = key, vlan_tags
        self.blanked: Counter[str] = Counter()
        """Bytes that were blanked, by reason."""

    def read(self, batch: PacketBatch) -> list[AnonymizedPacket]:
        if not len(batch):
            return []
        offsets, types = link.network_layer(batch, link.Octets(batch.buffer), self._vlan_tags)
        columns = (batch.start, batch.captured, batch.original, batch.time_ns, batch.linktype, batch.interface)
        rows = zip(*(each.tolist() for each in (*columns, batch.number, offsets - batch.start, types)), strict=True)
        packets = []
        for start, captured, wire, time_ns, linktype, interface, number, offset, kind in rows:
            was = bytes(batch.buffer[start : start + captured])
            packet = AnonymizedPacket(number, time_ns, interface, linktype, wire, was, bytearray(was))
            self._read(packet, offset, kind)
            packets.append(packet)
        return packets

    def _read(self, packet: AnonymizedPacket, offset: int, kind: int) -> None:
        if kind == link.UNKNOWN_LINKTYPE:
            self._blank(packet, 0, "link types that are not known")
            return
        self._link(packet, min(offset, len(packet.was)))
        if kind == link.IPV4 and len(packet.was) >= offset + IPV4_HEADER and packet.was[offset] >> 4 == 4:
            self._ipv4(packet, offset)
        elif kind == link.IPV6 and len(packet.was) >= offset + IPV6_HEADER and packet.was[offset] >> 4 == 6:
            self._ipv6(packet, offset)
        elif kind == ARP and packet.was[offset : offset + 6] == b"\0\1\x08\0\6\4" and len(packet.was) >= offset + 28:
            self._arp(packet, offset)
        else:
            self._blank(packet, offset, "packets that are neither IP nor ARP, or truncated in their headers")

    def _blank(self, packet: AnonymizedPacket, start: int, why: str) -> None:
        start = min(start, len(packet.now))
        count = len(packet.now) - start
        if not count:
            return
        self.blanked[why] += count
        packet.now[start:] = bytes(count)

    def _link(self, packet: AnonymizedPacket, stop: int) -> None:
        mac, now = self.key.mac, packet.now
        if packet.linktype == ETHERNET and stop >= 12:
            now[:6], now[6:12] = mac(packet.was[:6]), mac(packet.was[6:12])
        elif packet.linktype in (SLL, SLL2) and stop >= 16:
            length, at = (packet.was[5], 6) if packet.linktype == SLL else (packet.was[11], 12)
            now[at : at + 8] = mac(packet.was[at : at + 6]) + b"\0\0" if length == 6 else bytes(8)
        elif packet.linktype == link.LINKTYPE_PPI:
            now[8:stop] = bytes(max(stop - 8, 0))
        elif packet.linktype == link.LINKTYPE_NFLOG and stop >= 12:
            order: Literal["big", "little"] = "little" if packet.was[stop - 2] else "big"
            size = stop - 8  # one attribute, a prefix of zeros, in place of those before the packet
            now[4 : stop - 4] = size.to_bytes(2, order) + link.NFLOG_PREFIX.to_bytes(2, order) + bytes(size - 4)

    def _arp(self, packet: AnonymizedPacket, at: int) -> None:
        was, now, key = packet.was, packet.now, self.key
        for pair_at in (at + 8, at + 18):
            now[pair_at : pair_at + 6] = key.mac(was[pair_at : pair_at + 6])
            now[pair_at + 6 : pair_at + 10] = key.ipv4(was[pair_at + 6 : pair_at + 10])
        now[at + 28 :] = bytes(len(now) - at - 28)

    def _ipv4(self, packet: AnonymizedPacket, at: int) -> None:
        was, now = packet.was, packet.now
        source, target = was[at + 12 : at + 16], was[at + 16 : at + 20]
        now[at + 12 : at + 20] = self.key.ipv4(source) + self.key.ipv4(target)
        header = (was[at] & 15) * 4
        if header < IPV4_HEADER or len(was) < at + header:
            self._blank(packet, at + IPV4_HEADER, "packets that are truncated or broken in their headers")
            return
        now[at + IPV4_HEADER : at + header] = bytes([NOP]) * (header - IPV4_HEADER)
        total = int.from_bytes(was[at + 2 : at + 4], "big")
        fragment = int.from_bytes(was[at + 6 : at + 8], "big") & FRAGMENT
        self._payload(packet, at, at + header, at + total if total else len(was), was[at + 9], bool(fragment))
        now[at + 10 : at + 12] = b"\0\0"
        now[at + 10 : at + 12] = checksum(now[at : at + header]).to_bytes(2, "big")

    def _ipv6(self, packet: AnonymizedPacket, at: int) -> None:
        was, now = packet.was, packet.now
        now[at + 8 : at + 24] = self.key.ipv6(was[at + 8 : at + 24])
        now[at + 24 : at + 40] = self.key.ipv6(was[at + 24 : at + 40])
        length = int.from_bytes(was[at + 4 : at + 6], "big")
        protocol, start = was[at + 6], at + IPV6_HEADER
        while protocol in (HOP_OPTIONS, DESTINATION_OPTIONS) and len(was) >= start + 8:
            size = (was[start + 1] + 1) * 8
            end = min(start + size, len(now))
            now[start + 2 : end] = bytes(end - start - 2)  # options of one byte that pad (RFC 8200 section 4.2)
            protocol, start = was[start], start + size
        stop = at + IPV6_HEADER + length if length else len(was)
        self._payload(packet, at, min(start, len(was)), stop, protocol, False)

    def _payload(self, packet: AnonymizedPacket, ip: int, start: int, stop: int, protocol: int, fragment: bool) -> None:
        """Replace the payload of IP, from ``start`` up to ``stop``."""
        was, now = packet.was, packet.now
        end = max(start, min(stop, len(was)))
        now[end:] = bytes(len(now) - end)  # trailers
        if fragment:
            self._blank(packet, start, "IP fragments")
        elif protocol == TCP and end >= start + TCP_HEADER:
            self._tcp(packet, ip, start, end)
            if packet.payload is None or packet.payload.start == packet.payload.stop:
                seal(packet, ip, start, end)
        elif protocol == UDP and end >= start + UDP_HEADER:
            self._blank(packet, start + UDP_HEADER, "packets of UDP and others")
            now[start + 6 : start + 8] = b"\0\0"
            computed = _transport(now, ip, start, end, UDP)
            now[start + 6 : start + 8] = (computed or 0xFFFF).to_bytes(2, "big")
        else:
            self._blank(packet, start, "packets of UDP and others")
            if protocol == ICMP and end >= start + 8:
                now[start : start + 2] = was[start : start + 2]
                now[start + 2 : start + 4] = checksum(now[start:end]).to_bytes(2, "big")

    def _tcp(self, packet: AnonymizedPacket, ip: int, start: int, end: int) -> None:
        was = packet.was
        data = start + (was[start + 12] >> 4) * 4
        if data < start + TCP_HEADER or data > end:
            self._blank(packet, start + TCP_HEADER, "packets that are truncated or broken in their headers")
            return
        packet.now[start + TCP_HEADER : data] = _options(was[start + TCP_HEADER : data])
        packet.now[data:end] = BLANK * (end - data)
        wide = was[ip] >> 4 == 6
        first, size = (ip + 8, 16) if wide else (ip + 12, 4)
        addresses = was[first : first + size], was[first + size : first + 2 * size]
        seq = int.from_bytes(was[start + 4 : start + 8], "big") + (was[start + 13] >> 1 & 1)
        flow = (*addresses, was[start : start + 4])
        packet.payload = StreamPosition(flow, seq & 0xFFFFFFFF, data, end, ip, start)
        packet.done = bytearray(end - data)


def _options(raw: bytes) -> bytes:
    """TCP options: those that are not known become NOPs."""
    out, at = bytearray([NOP]) * len(raw), 0
    while at < len(raw) and raw[at] != END:
        size = 1 if raw[at] == NOP else raw[at + 1] if at + 1 < len(raw) else 0
        if not 0 < size <= len(raw) - at or (size == 1 and raw[at] != NOP):
            break
        if raw[at] in KNOWN_OPTIONS:
            out[at : at + size] = raw[at : at + size]
        at += size
    return bytes(out)


def checksum(data: bytes | bytearray) -> int:
    """The internet checksum (RFC 1071)."""
    padded = bytes(data) + b"\0" if len(data) % 2 else bytes(data)
    total = int.from_bytes(padded, "big")
    folded = total % 0xFFFF
    return 0xFFFF - (0xFFFF if total and not folded else folded)


def _transport(now: bytearray, ip: int, start: int, end: int, protocol: int) -> int:
    """Checksum of what IP carries, with the pseudo header."""
    wide = now[ip] >> 4 == 6
    addresses = now[ip + 8 : ip + 40] if wide else now[ip + 12 : ip + 20]
    return checksum(addresses + bytes([0, protocol]) + (end - start & 0xFFFF).to_bytes(2, "big") + now[start:end])


def seal(packet: AnonymizedPacket, ip: int, tcp: int, end: int) -> None:
    """Make the checksum of TCP right."""
    packet.now[tcp + 16 : tcp + 18] = b"\0\0"
    packet.now[tcp + 16 : tcp + 18] = _transport(packet.now, ip, tcp, end, TCP).to_bytes(2, "big")


def batch_of(packets: list[AnonymizedPacket]) -> PacketBatch:
    """The packets as they will be."""
    sizes = np.fromiter((len(packet.now) for packet in packets), np.int64, len(packets))
    columns = [(p.wire, p.time_ns, p.linktype, p.interface, p.number) for p in packets]
    original, time_ns, linktype, interface, number = np.array(columns, np.int64).reshape(-1, 5).T
    return PacketBatch(
        b"".join(packet.now for packet in packets),
        np.cumsum(sizes) - sizes,
        sizes,
        original,
        time_ns,
        linktype.astype(np.int32),
        interface.astype(np.int32),
        number,
    )
