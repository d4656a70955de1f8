"""Floods and bombs: ``python -m tests.faults.floods [KIND...]`` makes and reads each, prints time and memory.

A flood is ``N`` packets (blocks, comments) as an attacker sends them; a bomb is little that becomes much.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from wiredecode.testing import Talk

PCAP = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1)
SECTION = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
INTERFACE = struct.pack("<IIHHII", 1, 20, 1, 0, 1 << 18, 20)
CLIENT, SERVER, PORT = 0x0A000001, 0x0A000002, 5552
SYN, PSH_ACK = 0x02, 0x18
HOSTILE = Path(__file__).parents[2] / "captures/hostile"


def packet(number: int, source: int, port: int, seq: int, flags: int, payload: bytes = b"") -> bytes:
    """A record of pcap: Ethernet, IPv4, TCP; ten microseconds after the one before."""
    tcp = struct.pack(">HHIIBBHHH", port, PORT, seq & 0xFFFFFFFF, 5, 5 << 4, flags, 65535, 0, 0) + payload
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0, source, SERVER)
    data = bytes(12) + b"\x08\0" + ip + tcp
    now = number * 10
    return struct.pack("<IIII", 1_700_000_000 + now // 10**6, now % 10**6, len(data), len(data)) + data


def syn(count: int) -> Iterator[bytes]:
    """SYNs of different clients."""
    yield PCAP
    for at in range(count):
        yield packet(at, CLIENT + 256 + at % 50_000, 1024 + at // 50_000, at * 77, SYN)


def one(count: int) -> Iterator[bytes]:
    """One packet with the beginning of a frame per connection."""
    yield PCAP
    for at in range(count):
        yield packet(at, CLIENT + 256 + at % 50_000, 1024 + at // 50_000, at * 77, PSH_ACK, b"\0\0\0\x10" + bytes(24))


def overlap(count: int) -> Iterator[bytes]:
    """One connection whose packets overlap, with other bytes each time."""
    yield PCAP
    yield packet(0, CLIENT, 4000, 1, SYN)
    for at in range(1, count):
        yield packet(at, CLIENT, 4000, 2 + at % 7, PSH_ACK, bytes([at & 255, at >> 8 & 255]) * 20)


def sections(count: int) -> Iterator[bytes]:
    """Section headers of pcapng, each with an interface."""
    return (SECTION + INTERFACE for _ in range(count))


def comments(count: int) -> Iterator[bytes]:
    """Packets of pcapng with a comment each."""
    yield SECTION + INTERFACE
    data = packet(0, CLIENT, 4000, 1, SYN)[16:] + bytes(2)
    option = struct.pack("<HH20sHH", 1, 20, b"comment comment!!..!", 0, 0)
    size = 32 + len(data) + len(option)
    block = struct.pack("<IIIIIII", 6, size, 0, 0, 1000, len(data) - 2, len(data) - 2) + data + option
    return (yield from (block + struct.pack("<I", size) for _ in range(count)))


def talk(*said: bytes) -> Iterator[bytes]:
    """A capture of one client's bytes."""
    made = Talk(server=("10.0.0.2", 4222))
    yield PCAP
    for data in [*made.handshake(), *(each for words in said for each in made.send(0, words))]:
        yield struct.pack("<IIII", 1_700_000_000, 0, len(data), len(data)) + data


def gzip_capture(count: int) -> Iterator[bytes]:
    """A gigabyte of one repeated packet in a gzip file."""
    made = zlib.compressobj(9, wbits=31)
    yield made.compress(PCAP)
    block = packet(0, CLIENT, 4000, 1, PSH_ACK, bytes(1400)) * 100
    for _ in range((1 << 30) // len(block)):
        yield made.compress(block)
    yield made.flush()


def zstd_batches(count: int) -> Iterator[bytes]:
    """Sub-batches that become 1.5 GB."""
    yield (HOSTILE / "02-rabbitmq-zstd-subentry-bomb.pcap.zst").read_bytes()


def nested_json(count: int) -> Iterator[bytes]:
    """CONNECT of NATS, nested 300,000 deep."""
    return talk(b'CONNECT {"a":' + b"[" * 300_000 + b"]" * 300_000 + b"}\r\n")


FLOODS: dict[str, tuple[Callable[[int], Iterator[bytes]], int]] = {
    "syn": (syn, 3_000_000),
    "one": (one, 3_000_000),
    "overlap": (overlap, 3_000_000),
    "sections": (sections, 300_000),
    "comments": (comments, 1_000_000),
    "gzip": (gzip_capture, 1),
    "zstd": (zstd_batches, 1),
    "json": (nested_json, 1),
}
"""Each with its usual count."""


def write(name: str, count: int, path: Path) -> None:
    """Write a flood."""
    pieces = FLOODS[name][0](count)
    with path.open("wb") as file:
        while some := b"".join(islice(pieces, 10_000)):
            file.write(some)


def measured(words: list[str]) -> tuple[int, float, int]:
    """Exit code, seconds of CPU, peak MB of a command whose output goes nowhere."""
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        os.execv(sys.executable, [sys.executable, "-m", "wiredecode", *words])
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss // 1024


def main() -> None:
    """Make each flood, read it, print time and memory."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.floods", description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(FLOODS), metavar="KIND", help=f"of {', '.join(FLOODS)}")
    parser.add_argument("--count", type=int, help="in place of each kind's own")
    parser.add_argument("--command", default="pcap FILE --summary", help="what reads it")
    given = parser.parse_args()
    for name in given.kinds:
        with tempfile.TemporaryDirectory() as folder:
            path, count = Path(folder, "flood"), given.count or FLOODS[name][1]
            write(name, count, path)
            words = given.command.replace("FILE", str(path)).replace("OUT", f"{folder}/out").split()
            code, seconds, peak = measured(words)
            size = path.stat().st_size / 1e6
            print(f"| {name} | {count:,} | {size:,.1f} | {seconds:.1f} | {peak} | {code} |", flush=True)


if __name__ == "__main__":
    main()
