"""Shared by test modules: captures of the repository, checks of damaged ones, and parts of the kit."""

from __future__ import annotations

import shutil
import struct
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.pcap import write_pcap
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.frames.frame import Frame
from wiredecode.testing.dissection import STYLE, careful_values, dissect, meaning
from wiredecode.testing.dissection import Result as Run
from wiredecode.testing.packets import batches
from wiredecode.testing.samples import build
from wiredecode.testing.segments import (
    Cutting,
    Part,
    Segments,
    craft,
    duplicate,
    every,
    overlap,
    random_cuts,
    reorder,
)
from wiredecode.testing.segments import dialogue as dialogue_of

__all__ = [
    "STYLE",
    "Cutting",
    "Part",
    "Run",
    "Segments",
    "batches",
    "build",
    "careful_values",
    "craft",
    "dissect",
    "duplicate",
    "every",
    "meaning",
    "overlap",
    "random_cuts",
    "reorder",
]

RABBITMQ = Path(__file__).parent.parent / "captures" / "rabbitmq-stream"

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@cache
def capture(path: Path) -> Run:
    """Dissect a capture file through the whole stack. The result is cached: do not change it."""
    return dissect(open_capture([path]))


def capture_files() -> list[Path]:
    """Every capture of the repository's RabbitMQ folder."""
    return sorted(path for path in RABBITMQ.iterdir() if ".pcap" in path.name)


def at(record: Any, path: str) -> Any:
    """The value at a dotted path of a record: ``messages.0.data``."""
    for step in path.split("."):
        record = record[int(step)] if isinstance(record, list) else record[step]
    return record


def codes(frame: Frame) -> list[str]:
    """The codes of a frame's findings."""
    return [finding.code for finding in frame.findings]


def dialogue(run: Run, most: int | None = None) -> list[Part]:
    """Both sides of all connections of a run, or of its first ``most`` frames."""
    return dialogue_of(run.frames[:most])


def one_sided(data: bytes, side: int = 0, **options: Any) -> Run:
    """Dissect ``data`` sent by one side after a handshake, through the whole stack."""
    return dissect(batches(craft([Part(1, side, data)], every(1460))), **options)


# Captured bytes, computed without the reassembler under test.

Spans = list[tuple[int, int]]


@dataclass
class Segment:
    """The TCP part of a packet of an Ethernet, IPv4 capture."""

    flow: tuple[bytes, bytes]
    sequence: int
    payload: bytes
    sent: int
    syn: bool
    packet: int


def is_plain(batch: PacketBatch) -> bool:
    """Whether all packets are TCP in IPv4 in Ethernet without tags or fragments: what `segments` reads."""
    data = batch.buffer
    return all(
        kind == 1 and data[at + 12 : at + 14] == b"\x08\0" and data[at + 23] == 6 and not data[at + 20] & 0x3F
        for at, kind in zip(batch.start.tolist(), batch.linktype.tolist(), strict=True)
    )


def segments(source: Iterable[PacketBatch]) -> Iterator[Segment]:
    for batch in source:
        columns = zip(batch.start.tolist(), batch.captured.tolist(), batch.number.tolist(), strict=True)
        for start, size, number in columns:
            data = batch.buffer[start : start + size]
            ip = 14 + 4 * (data[14] & 15)
            total = struct.unpack_from("!H", data, 16)[0]
            sequence, _, shape, flags = struct.unpack_from("!IIBB", data, ip + 4)
            payload = ip + 4 * (shape >> 4)
            ends = data[26:30] + data[ip : ip + 2], data[30:34] + data[ip + 2 : ip + 4]
            sent = 14 + total - payload
            yield Segment(ends, sequence, data[payload : 14 + total], sent, bool(flags & 2), number)


@dataclass
class Seen:
    """The captured bytes of each direction: spans of stream offsets by flow (no sequence wrap)."""

    captured: int = 0
    origin: dict[tuple[bytes, bytes], int] = field(default_factory=dict)
    """Sequence number of offset 0 of each direction: after the SYN, or that of the first captured packet."""
    spans: dict[tuple[bytes, bytes], Spans] = field(default_factory=lambda: defaultdict(list))

    def holds(self, flow: tuple[bytes, bytes], low: int, high: int) -> bool:
        """Whether all bytes of ``[low, high)`` were captured."""
        for start, stop in sorted(self.spans[flow]):
            if start <= low < stop:
                low = stop
            if low >= high:
                return True
        return low >= high


def seen(source: Iterable[PacketBatch]) -> Seen:
    found = Seen()
    for segment in segments(source):
        if segment.syn:
            found.origin[segment.flow] = segment.sequence + 1
        start = segment.sequence - found.origin.setdefault(segment.flow, segment.sequence)
        found.captured += len(segment.payload)
        if segment.payload:
            found.spans[segment.flow].append((start, start + len(segment.payload)))
    return found


def flow(frame: Frame) -> tuple[bytes, bytes]:
    """The key of a frame's direction in `Seen`."""

    def packed(endpoint: str) -> bytes:
        address, _, port = endpoint.rpartition(":")
        return bytes(int(part) for part in address.split(".")) + int(port).to_bytes(2, "big")

    return packed(frame.source), packed(frame.destination)


def lossy(
    base: Run, damaged: Run, there: Seen, origin: dict[tuple[bytes, bytes], int] | None = None
) -> tuple[list[str], list[Frame]]:
    """Compare a damaged capture with the undamaged one; return (invented or wrong frames, whole frames not found).

    ``there``: the bytes that the damaged capture still holds. If the start of connections is missing, ``origin`` is
    that of the undamaged one.
    """
    known = {}
    for frame in base.frames:
        way = flow(frame)
        later = there.origin.get(way, 0) - origin.get(way, 0) if origin else 0
        known[way, frame.offset - later] = frame
    wrong: list[str] = []
    found = set()
    for frame in damaged.frames:
        place = flow(frame), frame.offset
        true = known.get(place)
        if frame.status == "undecoded":
            continue
        if true is None:
            wrong.append(f"invented: {frame.type} at {place[1]} of {frame.source}")
            continue
        found.add(place)
        whole = there.holds(place[0], frame.offset, frame.offset + true.length)
        wrong += disagreements(true, frame, whole)
    lost = [
        frame
        for place, frame in known.items()
        if place not in found and there.holds(place[0], place[1], place[1] + frame.length)
    ]
    return wrong, lost


def disagreements(true: Frame, frame: Frame, whole: bool) -> list[str]:
    """Differences between a frame of a damaged capture and the true one that the damage does not explain."""
    name = f"{true.type} at {true.offset} of {true.source}"
    values, expected = careful_values(frame), careful_values(true)
    if whole:
        same = (values, frame.status, frame.type) == (expected, true.status, true.type)
        return [] if same else [f"{name}: {frame.type} {frame.status} although all of it is there"]
    wrong = []
    if frame.status not in ("partial", "malformed"):
        wrong.append(f"{name}: {frame.status} although bytes of it are missing")
    if frame.length != true.length:
        wrong.append(f"{name}: {frame.length} bytes long, not {true.length}")
    if not is_part(values, expected):
        wrong.append(f"{name}: values that the true frame does not have")
    return wrong


def is_part(value: Any, of: Any) -> bool:
    """Whether a value is the true one with fewer keys or elements."""
    if isinstance(value, dict):
        return isinstance(of, dict) and all(key in of and is_part(inner, of[key]) for key, inner in value.items())
    if isinstance(value, list):
        short = isinstance(of, list) and len(value) <= len(of)
        return short and all(is_part(a, b) for a, b in zip(value, of, strict=False))
    return bool(value == of)


@cache
def packets(path: Path) -> list[tuple[int, bytes]]:
    """(time in ns, bytes) of every packet of a capture without truncated packets."""
    found: list[tuple[int, bytes]] = []
    for batch in open_capture([path]):
        columns = zip(batch.time_ns.tolist(), batch.start.tolist(), batch.captured.tolist(), strict=True)
        found += [(time_ns, batch.buffer[start : start + size]) for time_ns, start, size in columns]
    return found


def beginning(path: Path, count: int, folder: Path) -> Path:
    """A file of the first packets of a capture."""
    made = folder / f"{path.stem}.pcap"
    with made.open("wb") as file:
        write_pcap(file, packets(path)[:count])
    return made


def without(path: Path, lost: Container[int]) -> PacketBatch:
    """A capture without the packets of these indices."""
    return PacketBatch.from_packets(packet for i, packet in enumerate(packets(path)) if i not in lost)


def opening(path: Path) -> set[int]:
    """The indices of the packets with SYN: they give stream offsets their zero."""
    return {segment.packet - 1 for segment in segments(open_capture([path])) if segment.syn}
