"""Packets made of plain bytes: both sides of a TCP connection over Ethernet and IP, also in batches."""

import socket
import struct
from collections.abc import Iterable, Iterator

from wiredecode.capture.batch import PacketBatch
from wiredecode.dataclasses import dataclass, field

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
SECOND = 1_000_000_000
START_NS = 1_700_000_000 * SECOND
"""Time of the first packet, less one millisecond."""


def ethernet(payload: bytes, ethertype: int = 0x0800, vlans: Iterable[tuple[int, int]] = ()) -> bytes:
    """An Ethernet frame; ``vlans`` are (tag protocol, VLAN id), outermost first. No padding, no checksum."""
    tags = b"".join(struct.pack("!HH", tpid, vlan) for tpid, vlan in vlans)
    return b"\x02\0\0\0\0\2" + b"\x02\0\0\0\0\1" + tags + struct.pack("!H", ethertype) + payload


def ipv4(
    payload: bytes,
    source: str = "10.0.0.1",
    target: str = "10.0.0.2",
    protocol: int = 6,
    *,
    identification: int = 1,
    offset: int = 0,
    more: bool = False,
    options: bytes = b"",
    total: int | None = None,
) -> bytes:
    """An IPv4 packet or fragment; ``offset`` in bytes, ``total`` overrides the total length. No checksum."""
    header = 20 + len(options)
    length = header + len(payload) if total is None else total
    fragment = offset // 8 | (0x2000 if more else 0)
    return (
        struct.pack("!BBHHHBBH", 0x40 | header // 4, 0, length, identification, fragment, 64, protocol, 0)
        + socket.inet_aton(source)
        + socket.inet_aton(target)
        + options
        + payload
    )


def ipv6(
    payload: bytes,
    source: str = "fd00::1",
    target: str = "fd00::2",
    protocol: int = 6,
    *,
    extensions: Iterable[tuple[int, bytes]] = (),
    length: int | None = None,
) -> bytes:
    """An IPv6 packet; ``extensions`` are (protocol number, header without its next-header byte)."""
    chain = list(extensions)
    numbers = [number for number, _ in chain] + [protocol]
    body = b"".join(bytes([after]) + data for (_, data), after in zip(chain, numbers[1:], strict=True)) + payload
    size = len(body) if length is None else length
    addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, target)
    return struct.pack("!IHBB", 6 << 28, size, numbers[0], 64) + addresses + body


def tcp(
    payload: bytes = b"",
    source: int = 40000,
    target: int = 5552,
    seq: int = 0,
    ack: int = 0,
    flags: int = ACK,
    options: bytes = b"",
) -> bytes:
    """A TCP segment; sequence numbers are taken modulo 2**32. No checksum."""
    size = 5 + len(options) // 4
    numbers = struct.pack("!HHII", source, target, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF)
    return numbers + struct.pack("!BBHHH", size << 4, flags, 65535, 0, 0) + options + payload


@dataclass
class Talk:
    """Both sides of a TCP connection over Ethernet and IP; every method gives one or more packets.

    ``seq`` is the next sequence number of each side (0: client, 1: server). Addresses with a colon are IPv6.
    """

    client: tuple[str, int] = ("10.0.0.1", 40000)
    server: tuple[str, int] = ("10.0.0.2", 5552)
    isn: tuple[int, int] = (1000, 5000)
    seq: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.seq = [self.isn[0] + 1, self.isn[1] + 1]

    def packet(self, side: int, payload: bytes = b"", seq: int | None = None, flags: int = ACK) -> bytes:
        """A packet with any sequence number (default: the next one); does not move ``seq``."""
        ends = (self.client, self.server) if side == 0 else (self.server, self.client)
        (source, source_port), (target, target_port) = ends
        at = self.seq[side] if seq is None else seq
        segment = tcp(payload, source_port, target_port, at, self.seq[1 - side], flags)
        if ":" in source:
            return ethernet(ipv6(segment, source, target), 0x86DD)
        return ethernet(ipv4(segment, source, target))

    def handshake(self) -> list[bytes]:
        """SYN, SYN/ACK, ACK."""
        return [
            self.packet(0, seq=self.isn[0], flags=SYN),
            self.packet(1, seq=self.isn[1], flags=SYN | ACK),
            self.packet(0),
        ]

    def send(self, side: int, payload: bytes, size: int = 1460) -> list[bytes]:
        """``payload`` in order, in segments of at most ``size`` bytes."""
        packets = []
        for at in range(0, len(payload), size):
            part = payload[at : at + size]
            packets.append(self.packet(side, part, flags=ACK | PSH))
            self.seq[side] += len(part)
        return packets

    def ack(self, side: int) -> bytes:
        """A pure acknowledgement."""
        return self.packet(side)

    def close(self, side: int = 0) -> list[bytes]:
        """FIN, FIN/ACK, ACK, ``side`` first."""
        packets = [self.packet(side, flags=FIN | ACK)]
        self.seq[side] += 1
        packets.append(self.packet(1 - side, flags=FIN | ACK))
        self.seq[1 - side] += 1
        return [*packets, self.packet(side)]


def batches(
    packets: Iterable[bytes | tuple[float, bytes]],
    size: int | None = None,
    linktype: int = 1,
    snaplen: int | None = None,
    first_number: int = 1,
) -> Iterator[PacketBatch]:
    """Packets as batches of ``size`` (default: one batch).

    A packet alone comes 1 ms after the one before, a pair (seconds, bytes) at that time since `START_NS`.
    """
    timed: list[tuple[int, bytes]] = []
    now = START_NS
    for packet in packets:
        if isinstance(packet, tuple):
            now = START_NS + round(packet[0] * SECOND)
            timed.append((now, packet[1]))
        else:
            now += SECOND // 1000
            timed.append((now, packet))
    step = size or max(len(timed), 1)
    for at in range(0, len(timed), step):
        part = timed[at : at + step]
        cut = [(time_ns, data[:snaplen]) for time_ns, data in part]
        original = [len(data) for _, data in part]
        yield PacketBatch.from_packets(cut, linktype, first_number + at, original)
