"""Builds captures by hand, and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from struct import pack
from typing import Any, BinaryIO, NamedTuple

from wiredecode.capture import Capture, CaptureError

Paths = Sequence[str | Path | BinaryIO]


class Seen(NamedTuple):
    """A packet that was read."""

    number: int
    time_ns: int
    data: bytes
    original: int
    linktype: int
    interface: int


def packets(capture: Capture) -> tuple[list[Seen], CaptureError | None]:
    """All packets of a capture, and the error that ended it."""
    seen: list[Seen] = []
    try:
        for batch in capture:
            assert type(batch.buffer) is bytes
            starts, ends = batch.start.tolist(), (batch.start + batch.captured).tolist()
            data = [batch.buffer[start:end] for start, end in zip(starts, ends, strict=True)]
            columns = (batch.number, batch.time_ns, batch.original, batch.linktype, batch.interface)
            numbers, times, originals, linktypes, interfaces = (column.tolist() for column in columns)
            seen += map(Seen, numbers, times, data, originals, linktypes, interfaces)
    except CaptureError as error:
        return seen, error
    return seen, None


def read(content: bytes, **options: Any) -> tuple[list[Seen], CaptureError | None]:
    return packets(Capture([BytesIO(content)], **options))


def record(data: bytes, seconds: int = 1, fraction: int = 0, order: str = "<", captured: int | None = None) -> bytes:
    """A pcap record, optionally with a wrong captured length."""
    length = len(data) if captured is None else captured
    return pack(order + "IIII", seconds, fraction, length, len(data)) + data


def pcap(*records: bytes, magic: int = 0xA1B2C3D4, order: str = "<", network: int = 1) -> bytes:
    return pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, network) + b"".join(records)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Ng:
    """Builds pcapng blocks of one byte order."""

    def __init__(self, order: str = "<") -> None:
        self.order = order

    def block(self, kind: int, body: bytes) -> bytes:
        length = pack(self.order + "I", 12 + len(padded(body)))
        return pack(self.order + "I", kind) + length + padded(body) + length

    def options(self, *options: tuple[int, bytes]) -> bytes:
        if not options:
            return b""
        parts = [pack(self.order + "HH", code, len(value)) + padded(value) for code, value in options]
        return b"".join(parts) + bytes(4)

    def section(self, *options: tuple[int, bytes], major: int = 1) -> bytes:
        fixed = pack(self.order + "IHHq", 0x1A2B3C4D, major, 0, -1)
        return self.block(0x0A0D0D0A, fixed + self.options(*options))

    def interface(self, *options: tuple[int, bytes], linktype: int = 1, snaplen: int = 0) -> bytes:
        return self.block(1, pack(self.order + "HHI", linktype, 0, snaplen) + self.options(*options))

    def enhanced(
        self,
        data: bytes,
        ticks: int = 0,
        *options: tuple[int, bytes],
        interface: int = 0,
        original: int | None = None,
    ) -> bytes:
        wire = len(data) if original is None else original
        fixed = pack(self.order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), wire)
        return self.block(6, fixed + padded(data) + self.options(*options))

    def obsolete(self, data: bytes, ticks: int = 0, *options: tuple[int, bytes], interface: int = 0) -> bytes:
        drops = 0xFFFF
        fixed = pack(self.order + "HHIIII", interface, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
        return self.block(2, fixed + padded(data) + self.options(*options))

    def simple(self, data: bytes, original: int | None = None) -> bytes:
        return self.block(3, pack(self.order + "I", len(data) if original is None else original) + data)
