"""Writing pcapng (draft-ietf-opsawg-pcapng), a batch of packets at a time, and a ring of files of a live capture.

Times are in nanoseconds, integers little-endian.
"""

import os
import platform
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import pack
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.capture.info import Interface
from wiredecode.capture.pcapng import ENHANCED_PACKET, INTERFACE_DESCRIPTION, INTERFACE_STATISTICS, SECTION_HEADER
from wiredecode.capture.reader import NOTHING
from wiredecode.dataclasses import dataclass

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
        for iface in interfaces[self._described :]:
            self._describe(iface)
        if len(batch):
            self._write(_packets(batch, comments))

    def close(self, statistics: Statistics | None) -> None:
        """End the file, with statistics of the first interface."""
        with self._file:
            if statistics is not None and self._described:
                self._write(_statistics(statistics))

    def _describe(self, iface: Interface) -> None:
        body = pack("<HHI", iface.linktype, 0, iface.snaplen)
        for code, text in ((_IF_NAME, iface.name), (_IF_DESCRIPTION, iface.description), (_IF_OS, iface.os)):
            body += _option(code, text) if text else b""
        body += _option(_IF_FILTER, b"\0" + iface.filter.encode()) if iface.filter else b""
        body += _option(_IF_TSRESOL, bytes([_NANOSECONDS])) + _option(0)
        self._write(_block(INTERFACE_DESCRIPTION, body))
        self._described += 1

    def _write(self, data: bytes | memoryview) -> None:
        unwritten = memoryview(data)
        self.size += len(unwritten)
        while unwritten:
            unwritten = unwritten[self._file.write(unwritten) :]


def block_sizes(batch: PacketBatch) -> Int64s:
    """Bytes of each packet's block."""
    padded: Int64s = batch.captured + (-batch.captured & 3) + _PACKET_BYTES
    return padded


def _packets(batch: PacketBatch, comments: Mapping[int, str]) -> memoryview:
    """Enhanced packet blocks: everything but the packets themselves and their comments by column."""
    size = block_sizes(batch)
    options = {row: _option(_COMMENT, text) + _option(0) for row, text in comments.items()}
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
    targets = (at + _DATA_AT).tolist()
    for target, start, count in zip(targets, batch.start.tolist(), batch.captured.tolist(), strict=True):
        out[target : target + count] = source[start : start + count]
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


MODE = 0o600


def open_private(path: Path) -> BinaryIO:
    """Open a file anew for writing, readable by its owner only; unbuffered. Raises OSError.

    A link is followed if it is one's own or root's (/dev/stdout); another one is an error. A file of somebody else is
    removed first, where that is allowed. A file that was there, and is one's own, keeps its permissions.
    """
    own = {0, os.geteuid()}
    if path.is_symlink() and path.lstat().st_uid in own:
        path = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        there = path.lstat()
        if stat.S_ISREG(there.st_mode) and there.st_uid != os.geteuid():
            path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, MODE), "wb", buffering=0)


@dataclass(frozen=True, slots=True)
class Rotation:
    """When the next file begins, and how many are kept; None: never, all."""

    size: int | None = None
    """Bytes; the packet that exceeds it is the last one of its file."""
    seconds: float | None = None
    files: int | None = None

    @property
    def wanted(self) -> bool:
        return self.size is not None or self.seconds is not None


class CaptureWriter:
    """Writes batches to ``path``, or with a rotation to ``base_00001_20260131120000.ext``, ``base_00002_...``.

    statistics: asked whenever a file ends. The first file is made immediately, so that an error shows before
    the capture begins, as an OSError with its name. Later ones raise CaptureError.
    """

    def __init__(self, path: Path, rotation: Rotation, statistics: Callable[[], Statistics]) -> None:
        self._path, self._rotation, self._statistics = path, rotation, statistics
        self._kept: deque[Path] = deque()
        self._number = 0
        self._interfaces: list[Interface] = []
        self.packets = 0
        self._ended = False
        """Whether the current file is whole."""
        self._current, self._writer, self._began = self._open()

    @property
    def files(self) -> list[Path]:
        """The files that are there, oldest first."""
        return list(self._kept)

    def write(self, batch: PacketBatch, interfaces: list[Interface]) -> None:
        """Save a batch, in as many files as it takes. An empty one only lets time pass."""
        self._interfaces = interfaces
        limit = self._rotation.seconds
        if limit is not None and time.monotonic() - self._began >= limit:
            self._rotate()
        while self._rotation.size is not None and len(batch):
            ends = np.cumsum(block_sizes(batch))
            fit = int(np.searchsorted(ends, self._rotation.size - self._writer.size)) + 1
            if fit > len(batch):
                break
            self._put(batch.part(0, fit))
            batch = batch.part(fit, len(batch))
            self._rotate()
        self._put(batch)

    def close(self) -> None:
        if self._ended:
            return  # the next file of a ring could not be opened
        self._ended = True
        try:
            self._put(NOTHING)  # an interface is described even if nothing came from it
        finally:
            with self._telling():
                self._writer.close(self._statistics())

    def _put(self, batch: PacketBatch) -> None:
        with self._telling():
            self._writer.write(batch, self._interfaces)
        self.packets += len(batch)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CaptureError(str(self._current), f"can no longer be written: {error.strerror}") from None

    def _rotate(self) -> None:
        self.close()
        try:
            self._current, self._writer, self._began = self._open()
            self._ended = False
        except OSError as error:
            raise CaptureError(str(error.filename), f"cannot be written: {error.strerror}") from None

    def _open(self) -> tuple[Path, PcapNgWriter, float]:
        self._number += 1
        path = self._path
        if self._rotation.wanted:
            stamp = time.strftime("%Y%m%d%H%M%S")
            path = path.with_name(f"{path.stem}_{self._number:05}_{stamp}{path.suffix}")
        while self._rotation.files is not None and len(self._kept) >= self._rotation.files:
            self._kept.popleft().unlink(missing_ok=True)
        writer = PcapNgWriter(open_private(path))
        self._kept.append(path)
        return path, writer, time.monotonic()
