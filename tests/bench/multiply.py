"""Make a large two-way capture out of small real ones.

Every copy of a source capture gets its own client address, a broker address, shifted client ports and a
shifted start, so that about ``concurrent`` copies (each of several connections) are open at any moment.
The handshakes of the source determine the server and its port. Payloads, sequence
numbers and TCP options stay as captured. IPv4 and TCP checksums are made right: the sources come from a
loopback interface, where the kernel leaves them unfinished. The result depends on nothing but the arguments.

    python -m tests.bench.multiply --mix small --size 100
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tests.bench.mixes import MIXES

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

CAPTURES = Path(__file__).parents[2] / "captures"
BROKERS = 3
FIRST_CLIENT = 10 << 24 | 1
FIRST_BROKER = 192 << 24 | 168 << 16 | 10
PORTS = range(49152, 57000)
"""Range of new client ports: dynamic ports below 57000, since tshark decodes that port as IRC."""
START_NS = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z: when the made capture begins."""
RECORD = struct.Struct("<IIII")
FILE_HEADER = struct.Struct("<IHHiIII")
SYN_ACK = 0x12
MAGIC_US, MAGIC_NS = 0xA1B2C3D4, 0xA1B23C4D
WRITE_BLOCK = 16_384


@dataclass(frozen=True, slots=True)
class Source:
    """A small capture, ready to be copied: its pcap records in one array, and where in them to write what."""

    image: Bytes
    """All records, headers included; checksums, addresses and client ports are still to be set."""
    record: Int64s
    """Offset of each record in ``image``, and one past the last."""
    time_ns: Int64s
    """Since the first packet; never decreases."""
    client_ip: Int64s
    broker_ip: Int64s
    client_port_at: Int64s
    client_port: Int64s
    ip_checksum_at: Int64s
    ip_sum: Int64s
    """Sum of the IPv4 header's 16-bit words without addresses and checksum."""
    tcp_checksum_at: Int64s
    tcp_sum: Int64s
    """Sum of the segment's and the pseudo header's words without addresses, client port and checksum."""

    @property
    def duration_ns(self) -> int:
        return int(self.time_ns[-1])


def read_records(path: Path) -> Iterator[tuple[int, bytes]]:
    """``(time in ns, packet)`` of a little-endian microsecond pcap of whole Ethernet packets."""
    data = pa.input_stream(path).read()
    magic, *_, linktype = FILE_HEADER.unpack_from(data)
    if magic != MAGIC_US or linktype != 1:
        raise ValueError("not a little-endian microsecond Ethernet pcap")
    at = FILE_HEADER.size
    while at < len(data):
        seconds, micros, captured, original = RECORD.unpack_from(data, at)
        at += RECORD.size
        if captured != original:
            raise ValueError("packet cut by the snapshot length")
        yield seconds * 1_000_000_000 + micros * 1000, data[at : at + captured]
        at += captured


def word_sum(data: bytes) -> int:
    """Sum of the big-endian 16-bit words, the last byte padded with zero (RFC 1071)."""
    return int(np.frombuffer(data + b"\0" * (len(data) % 2), ">u2").sum(dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Segment:
    """One packet of a source: IPv4 and TCP over Ethernet."""

    packet: bytes
    tcp: int
    """Offset of the TCP header."""
    end: int
    """Offset of the end of the IP packet: padding of short Ethernet packets follows."""

    @classmethod
    def of(cls, packet: bytes) -> Segment:
        if packet[12:14] != b"\x08\x00" or packet[14] >> 4 != 4 or packet[23] != 6:
            raise ValueError("not IPv4 and TCP over Ethernet")
        return cls(packet, 14 + 4 * (packet[14] & 15), 14 + int.from_bytes(packet[16:18]))

    @property
    def ports(self) -> tuple[int, int]:
        source, destination = struct.unpack_from(">HH", self.packet, self.tcp)
        return source, destination

    @property
    def sender(self) -> tuple[bytes, int]:
        return self.packet[26:30], self.ports[0]

    @property
    def receiver(self) -> tuple[bytes, int]:
        return self.packet[30:34], self.ports[1]

    @property
    def flags(self) -> int:
        return self.packet[self.tcp + 13]

    def sums(self, client_port: int) -> tuple[int, int]:
        """Words of the IP header and of segment with pseudo header, as :class:`Source` wants them."""
        packet, tcp, end = self.packet, self.tcp, self.end
        words = word_sum(packet[tcp : tcp + 16]) + word_sum(packet[tcp + 18 : end])
        return word_sum(packet[14:24]) + word_sum(packet[34:tcp]), 6 + (end - tcp) + words - client_port


def load(path: Path) -> Source:
    """Read a source capture and compute everything that is the same in all its copies.

    Raises ``ValueError`` for what cannot be copied: other link types, cut packets, connections without handshake.
    """
    try:
        records = list(read_records(path))
        segments = [Segment.of(packet) for _, packet in records]
        image, rows = layout(segments)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    record, *columns = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    times = np.array([time for time, _ in records], np.int64)
    return Source(
        np.frombuffer(image, np.uint8),
        np.append(record, len(image)),
        np.maximum.accumulate(times - times[0]),
        *columns,
    )


def layout(segments: Sequence[Segment]) -> tuple[bytes, list[tuple[int, ...]]]:
    """The image, and per record its offset and the other columns of :class:`Source`."""
    servers = {segment.sender for segment in segments if segment.flags & SYN_ACK == SYN_ACK}
    image, rows, at = bytearray(), list[tuple[int, ...]](), 0
    connections, copied = set(), set()
    for segment in segments:
        from_client = segment.receiver in servers
        if not from_client and segment.sender not in servers:
            raise ValueError(f"connection without handshake, ports {segment.ports}")
        client, server = segment.ports if from_client else segment.ports[::-1]
        ends = (segment.sender, segment.receiver)
        connections.add(ends if from_client else ends[::-1])
        copied.add((client % len(PORTS), server))
        ip_sum, tcp_sum = segment.sums(client)
        base = at + RECORD.size
        addresses = (base + 26, base + 30) if from_client else (base + 30, base + 26)
        tcp = base + segment.tcp
        port_at = tcp + (0 if from_client else 2)
        rows.append((at, *addresses, port_at, client, base + 24, ip_sum, tcp + 16, tcp_sum))
        image += RECORD.pack(0, 0, len(segment.packet), len(segment.packet)) + segment.packet
        at = len(image)
    if len(copied) < len(connections):
        raise ValueError("two connections would become one")
    return bytes(image), rows


def put(image: Bytes, at: Int64s, value: Int64s | int, width: int, order: str = ">") -> None:
    """Write an unsigned integer of ``width`` bytes at every offset of ``at``."""
    for k in range(width):
        shift = 8 * (width - 1 - k if order == ">" else k)
        image[at + k] = (value >> shift) & 255


def checksum(total: Int64s) -> Int64s:
    """Internet checksum of a sum of words (RFC 1071); three folds are enough for any 48-bit sum."""
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def instance(source: Source, index: int, start_ns: int, resolution_ns: int) -> bytes:
    """Copy ``index`` of the source: its records with their own addresses, ports, times and checksums."""
    image = source.image.copy()
    client, broker = FIRST_CLIENT + index, FIRST_BROKER + index % BROKERS
    port = PORTS.start + (source.client_port + 7 * index) % len(PORTS)
    seconds, rest = np.divmod(source.time_ns + start_ns, 1_000_000_000)
    put(image, source.record[:-1], seconds, 4, "<")
    put(image, source.record[:-1] + 4, rest // resolution_ns, 4, "<")
    put(image, source.client_ip, client, 4)
    put(image, source.broker_ip, broker, 4)
    put(image, source.client_port_at, port, 2)
    addresses = sum(divmod(client, 1 << 16)) + sum(divmod(broker, 1 << 16))
    put(image, source.ip_checksum_at, checksum(source.ip_sum + addresses), 2)
    put(image, source.tcp_checksum_at, checksum(source.tcp_sum + addresses + port), 2)
    return image.tobytes()


def choose(sources: Sequence[Source], size: int, equal_bytes: bool) -> list[Source]:
    """Yield the source of each copy until ``size`` bytes are reached and every source has been used."""
    copies: list[Source] = []
    written = [0] * len(sources)
    while sum(written) < size or len(copies) < len(sources):
        next_one = written.index(min(written)) if equal_bytes else len(copies) % len(sources)
        copies.append(sources[next_one])
        written[next_one] += len(sources[next_one].image)
    return copies


def multiply(
    sources: Sequence[Source],
    size: int,
    out: Path,
    concurrent: int = 50,
    nanoseconds: bool = False,
    equal_bytes: bool = False,
) -> dict[str, int | str]:
    """Write about ``size`` bytes (never less) of copies of ``sources`` to ``out``, see :func:`choose`.

    Memory holds the copies that are open at one time, besides 40 bytes per packet for the order.
    """
    resolution = 1 if nanoseconds else 1000
    copies = choose(sources, size - FILE_HEADER.size, equal_bytes)
    written = FILE_HEADER.size + sum(len(copy.image) for copy in copies)
    step = sum(copy.duration_ns for copy in copies) // len(copies) // concurrent
    starts = [START_NS + step * index for index in range(len(copies))]
    times = np.concatenate([copy.time_ns + start for copy, start in zip(copies, starts, strict=True)])
    owner = np.repeat(np.arange(len(copies)), [len(copy.time_ns) for copy in copies])
    begin = np.concatenate([copy.record[:-1] for copy in copies])
    end = np.concatenate([copy.record[1:] for copy in copies])
    order = np.argsort(times, kind="stable")
    left = [len(copy.time_ns) for copy in copies]
    images: dict[int, bytes] = {}
    with out.open("wb") as file:
        magic = MAGIC_NS if nanoseconds else MAGIC_US
        file.write(FILE_HEADER.pack(magic, 2, 4, 0, 0, 262_144, 1))
        for block in np.split(order, range(WRITE_BLOCK, len(order), WRITE_BLOCK)):
            pieces = []
            columns = (owner[block].tolist(), begin[block].tolist(), end[block].tolist())
            for index, first, last in zip(*columns, strict=True):
                if index not in images:
                    images[index] = instance(copies[index], index, starts[index], resolution)
                pieces.append(images[index][first:last])
                left[index] -= 1
                if not left[index]:
                    del images[index]
            file.write(b"".join(pieces))
    return {"path": str(out), "bytes": written, "packets": len(order), "copies": len(copies)}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.multiply", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--mix", choices=MIXES, default="small", help="which captures to multiply")
    add("--size", type=float, metavar="MB", help="10**6 bytes (default: the usual size of the mix)")
    add("--concurrent", type=int, default=50, metavar="N", help="copies open at a time (default 50)")
    add("--nanoseconds", action="store_true", help="nanosecond pcap instead of microseconds")
    add("-o", "--out", type=Path, help="default: a file in the temporary directory")
    options = parser.parse_args(arguments)
    mix = MIXES[options.mix]
    size = mix.megabytes if options.size is None else options.size
    out = options.out or Path(tempfile.gettempdir()) / f"wiredecode-{options.mix}-{size:g}.pcap"
    sources = [load(next(CAPTURES.glob(f"{name}.pcap*"))) for name in mix.sources]
    made = multiply(
        *(sources, int(size * 1e6), out, options.concurrent, options.nanoseconds), equal_bytes=mix.equal_bytes
    )
    print(json.dumps(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
