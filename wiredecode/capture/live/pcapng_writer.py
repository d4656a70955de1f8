"""Writing pcapng (draft-ietf-opsawg-pcapng), a batch of packets at a time: times in nanoseconds, little-endian."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from struct import pack
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.info import Interface
from wiredecode.capture.pcapng import ENHANCED_PACKET, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, SECTION_HEADER

_BYTE_ORDER = 0x1A2B3C4D
_NANOSECONDS = 9
_LENGTH_UNKNOWN = 0xFFFFFFFF_FFFFFFFF
_COMMENT, _OS, _APPLICATION = 1, 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL, _IF_FILTER, _IF_OS = 2, 3, 9, 11, 12
_ISB_START, _ISB_END, _ISB_RECEIVED, _ISB_DROPPED = 2, 3, 4, 5
_DATA_AT, _PACKET_BYTES, _LAST_BYTES = 28, 32, 4
NO_COMMENTS: Mapping[int, str] = {}


@dataclass(frozen=True, slots=True)
class Statistics:
    """Contents of an interface statistics block."""

    start_ns: int
    end_ns: int
    received: int
    """Packets that passed the filter."""
    dropped: int


class PcapNgWriter:
    """Writes to ``file``, unbuffered: what was written is there when a program that reads along looks."""

    def __init__(self, file: BinaryIO, *, system: bool = True) -> None:
        """``system``: the file names the system that it was written on."""
        self._file = file
        self._described = 0
        self.size = 0
        """Bytes written."""
        text = _option(_OS, f"{platform.system()} {platform.release()}") if system else b""
        text += _option(_APPLICATION, "wiredecode")
        head = pack("<IHHQ", _BYTE_ORDER, 1, 0, _LENGTH_UNKNOWN)
        self._write(_block(SECTION_HEADER, head + text + _option(0)))

    def write(self, batch: PacketBatch, interfaces: list[Interface], comments: Mapping[int, str] = NO_COMMENTS) -> None:
        """Packets, after the descriptions of their interfaces that were not written yet; comments by place."""
        for one in interfaces[self._described :]:
            self._describe(one)
        if len(batch):
            self._write(_packets(batch, comments))

    def close(self, statistics: Statistics | None) -> None:
        """End the file, with statistics of the first interface."""
        with self._file:
            if statistics is not None and self._described:
                self._write(_statistics(statistics))

    def _describe(self, one: Interface) -> None:
        body = pack("<HHI", one.linktype, 0, one.snaplen)
        for code, text in ((_IF_NAME, one.name), (_IF_DESCRIPTION, one.description), (_IF_OS, one.os)):
            body += _option(code, text) if text else b""
        body += _option(_IF_FILTER, b"\0" + one.filter.encode()) if one.filter else b""
        body += _option(_IF_TSRESOL, bytes([_NANOSECONDS])) + _option(0)
        self._write(_block(INTERFACE_DESCRIPTION, body))
        self._described += 1

    def _write(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        self.size += len(left)
        while left:
            left = left[self._file.write(left) :]


def block_sizes(batch: PacketBatch) -> Int64s:
    """Bytes of each packet's block."""
    padded: Int64s = batch.captured + (-batch.captured & 3) + _PACKET_BYTES
    return padded


def _packets(batch: PacketBatch, comments: Mapping[int, str]) -> memoryview:
    """Enhanced packet blocks: everything but the packets themselves and their comments by column."""
    size = block_sizes(batch)
    options = {place: _option(_COMMENT, text) + _option(0) for place, text in comments.items()}
    if options:
        size[list(options)] += [len(option) for option in options.values()]
    at = np.cumsum(size) - size
    words: npt.NDArray[np.uint32] = np.zeros(int(size.sum()) // 4, "<u4")
    word = at // 4
    columns = (
        np.full(len(batch), ENHANCED_PACKET),
        size,
        batch.interface,
        batch.time_ns >> 32,
        batch.time_ns & 0xFFFFFFFF,
        batch.captured,
        batch.original,
    )
    for offset, column in enumerate(columns):
        words[word + offset] = column
    words[word + size // 4 - 1] = size
    out, source = words.view(np.uint8).data, memoryview(batch.buffer)
    places = (at + _DATA_AT).tolist()
    for place, start, count in zip(places, batch.start.tolist(), batch.captured.tolist(), strict=True):
        out[place : place + count] = source[start : start + count]
    ends = (at + size - _LAST_BYTES).tolist()
    for index, option in options.items():
        out[ends[index] - len(option) : ends[index]] = option
    return out


def _statistics(counts: Statistics) -> bytes:
    body = pack("<I", 0) + _time(counts.end_ns)
    body += _option(_ISB_START, _time(counts.start_ns)) + _option(_ISB_END, _time(counts.end_ns))
    body += _option(_ISB_RECEIVED, pack("<Q", counts.received)) + _option(_ISB_DROPPED, pack("<Q", counts.dropped))
    return _block(INTERFACE_STATISTICS, body + _option(0))


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return pack("<II", kind, size) + body + pack("<I", size)


def _option(code: int, value: str | bytes = b"") -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return pack("<HH", code, len(data)) + data + bytes(-len(data) & 3)


def _time(ns: int) -> bytes:
    return pack("<II", ns >> 32, ns & 0xFFFFFFFF)
