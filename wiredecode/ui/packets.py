"""The packets of the inspected input: files, or files that still grow; all packets, or those after a place."""

import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import takewhile
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import BinaryIO, NamedTuple, cast

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.capture.info import FileInfo
from wiredecode.capture.pcap import FILE_HEADER_BYTES, MAGICS
from wiredecode.capture.pcapng import ENHANCED_PACKET, MAGIC, SIMPLE_PACKET
from wiredecode.dataclasses import replace

POLL_SECONDS = 0.05
"""Interval of looking for new bytes in a growing file."""
BLOCKS = ((ENHANCED_PACKET, 28), (SIMPLE_PACKET, 12))
"""Types of pcapng blocks that hold a packet, and where in them it begins."""


class Position(NamedTuple):
    """Between two packets of a capture."""

    packet: int = 0
    """The number of the packet before."""
    offset: int | None = None
    """Where the next one begins in its file; None: not known, as in compressed files, or there are several files."""
    part: int = 0
    """Index of the file, of several in a row."""


Stop = Callable[[], bool]


def packets_after(batch: PacketBatch, packet: int) -> PacketBatch:
    skip = packet + 1 - int(batch.number[0]) if len(batch) else 0
    return batch.part(min(skip, len(batch)), len(batch)) if skip > 0 else batch


class CaptureFiles:
    """Captures that are there: several of them in time order."""

    grows = False
    gone = 0

    def __init__(self, files: Sequence[str]) -> None:
        self.files = list(files)
        self._resume = Resume(Path(files[0])) if len(files) == 1 and Path(files[0]).is_file() else None
        self._first = open_capture(self.files)
        self._total = self._first.bytes_total or 0

    @property
    def progress(self) -> float:
        """Progress of the first pass: 0 to 1."""
        return min(self._first.bytes_read / self._total, 1.0) if self._total else 0.0

    def first(self, stop: Stop) -> Iterator[PacketBatch]:
        """The first pass over all packets. Raises CaptureError after the readable part, as all passes do."""
        return self._until(self._first, stop)

    def again(self, stop: Stop, progress: Callable[[float], None]) -> Iterator[PacketBatch]:
        """All packets once more."""
        capture = open_capture(self.files)
        for batch in self._until(capture, stop):
            yield batch
            progress(min(capture.bytes_read / (self._total or 1), 1.0))

    def position_after(self, batch: PacketBatch) -> Position:
        """The place after a batch of the first pass."""
        offset = None if self._resume is None else self._resume.offset(batch, self._first.info.files[0])
        return Position(int(batch.number[-1]), offset)

    def after(self, position: Position, stop: Stop, *, wait: bool = False) -> Iterator[PacketBatch]:
        """The packets after ``position``; if its offset is known, earlier bytes are not read."""
        if self._resume is not None and position.offset is not None:
            yield from self._resume.after(position)
            return
        for batch in self.again(stop, lambda share: None):
            rest = packets_after(batch, position.packet)
            if len(rest):
                yield rest

    @staticmethod
    def _until(batches: Iterable[PacketBatch], stop: Stop) -> Iterator[PacketBatch]:
        return takewhile(lambda batch: not stop(), batches)


class Growing:
    """Files one after another, the last of which still grows: the ring of a live capture, or one file.

    files: the existing ones, oldest first; over: nothing more comes.
    """

    grows = True
    progress = 0.0

    def __init__(self, files: Callable[[], Sequence[Path]], over: Stop) -> None:
        self._there, self._over = files, over
        self._parts: list[Path] = []
        self._resumes: dict[int, Resume] = {}
        self._begins: dict[int, int] = {}
        """Number of packets before each part."""
        self._part, self._info = 0, FileInfo("")
        """The part that the first pass reads."""
        self._gone, self._looking = 0, Lock()
        self._look()

    @property
    def files(self) -> list[str]:
        """Files that exist now."""
        return [str(path) for path in self._there()]

    @property
    def gone(self) -> int:
        """Number of files that the ring has dropped."""
        while self._gone < len(self._parts) and not self._parts[self._gone].exists():
            self._gone += 1
        return self._gone

    def first(self, stop: Stop) -> Iterator[PacketBatch]:
        """The first pass over all packets, and those to come, until nothing more comes or ``stop()``."""
        for part, info, batch in self._read(Position(), stop, wait=True):
            self._part, self._info = part, info
            yield batch

    def again(self, stop: Stop, progress: Callable[[float], None]) -> Iterator[PacketBatch]:
        """All packets that are there once more."""
        return self.after(Position(), stop)

    def position_after(self, batch: PacketBatch) -> Position:
        """The place after a batch of the first pass."""
        resume = self._resumes.get(self._part) or self._resumes.setdefault(self._part, Resume(self._parts[self._part]))
        return Position(int(batch.number[-1]), resume.offset(batch, self._info), self._part)

    def after(self, position: Position, stop: Stop, *, wait: bool = False) -> Iterator[PacketBatch]:
        """The existing packets after ``position``, and with ``wait`` those to come."""
        for _, _, batch in self._read(position, stop, wait=wait):
            yield batch

    def _look(self) -> None:
        with self._looking:  # several threads read: a file that both find new would be read twice
            existing = set(self._parts)
            self._parts += [path for path in self._there() if path not in existing]

    def _read(self, position: Position, stop: Stop, *, wait: bool) -> Iterator[tuple[int, FileInfo, PacketBatch]]:
        part, packet = position.part, position.packet
        while not stop():
            over = self._over() or not wait
            self._look()
            if part < len(self._parts):
                offset = position.offset if part == position.part else None
                before = position.packet if offset is not None else self._begins.setdefault(part, packet)
                for info, batch in self._open(part, offset, stop, wait=wait):
                    rest = packets_after(replace(batch, number=batch.number + before), position.packet)
                    if len(rest):
                        packet = int(rest.number[-1])
                        yield part, info, rest
                part += 1
            elif over:
                return
            else:
                time.sleep(POLL_SECONDS)

    def _open(self, part: int, offset: int | None, stop: Stop, *, wait: bool) -> Iterator[tuple[FileInfo, PacketBatch]]:
        path, resume = self._parts[part], self._resumes.get(part)
        head, offset = (b"", 0) if resume is None or offset is None else (resume.head, offset)
        try:
            file = FilePart(path, head, offset, self._more(part, stop, wait=wait))
        except FileNotFoundError:
            raise CaptureError(str(path), "is no longer in the ring") from None
        with closing(file):
            capture = open_capture([cast(BinaryIO, file)])
            for batch in capture:
                if stop():
                    return
                yield capture.info.files[0], batch

    def _more(self, part: int, stop: Stop, *, wait: bool) -> Stop:
        """Whether more may come of a file."""

        def more() -> bool:
            if not wait or stop() or self._over():
                return False
            self._look()
            return part + 1 >= len(self._parts)

        return more


class Resume:
    """Places where reading of one file can resume: after its head and any of its packets."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.head = b""
        """Bytes before all packets: later ones cannot be read without."""
        self._described: tuple[int, ...] | None = None
        """Counts of the descriptions in the head."""
        with path.open("rb") as file:
            start = file.read(FILE_HEADER_BYTES)
        self._pcap = len(start) == FILE_HEADER_BYTES and start[:4] in MAGICS
        self._pcapng = start.startswith(MAGIC)
        self._block = Struct("<II" if start[8:9] == b"\x4d" else ">II")
        if self._pcap:
            self.head = start

    def offset(self, batch: PacketBatch, info: FileInfo) -> int | None:
        """File offset of the packet after a batch; None: unknown. Call it for all batches, in order."""
        if batch.origin is None:
            return None
        if self._pcap:
            return batch.origin + int(batch.start[-1]) + int(batch.captured[-1])
        if not self._pcapng:
            return None
        if self._described is None:
            self._described = self._read_head(batch)
        ends = self._ends(batch, -1)
        return None if ends is None or self._described != counts(info) else batch.origin + ends[1]

    def _read_head(self, batch: PacketBatch) -> tuple[int, ...]:
        ends = self._ends(batch, 0)
        if ends is None or batch.origin is None:
            return ()
        with self._path.open("rb") as file:
            self.head = file.read(batch.origin + ends[0])
        capture = open_capture([io.BytesIO(self.head)])
        with suppress(CaptureError):
            for _ in capture:
                pass
        return counts(capture.info.files[0])

    def _ends(self, batch: PacketBatch, at: int) -> tuple[int, int] | None:
        """Where in the buffer the block of a packet begins and ends; None: it is of no kind that is known here."""
        start, captured = int(batch.start[at]), int(batch.captured[at])
        for kind, packet_at in BLOCKS:
            begin = start - packet_at
            if begin < 0 or self._block.unpack_from(batch.buffer, begin)[0] != kind:
                continue
            length: int = self._block.unpack_from(batch.buffer, begin)[1]
            end = begin + length + (-length & 3)
            trailer = batch.buffer[end - 4 : end]
            if start + captured <= end - 4 and trailer == batch.buffer[begin + 4 : begin + 8]:
                return begin, end
        return None

    def after(self, position: Position) -> Iterator[PacketBatch]:
        """The packets after ``position``, whose offset is known."""
        assert position.offset is not None
        with closing(FilePart(self._path, self.head, position.offset)) as file:
            try:
                for batch in open_capture([cast(BinaryIO, file)]):
                    yield replace(batch, number=batch.number + position.packet)
            except CaptureError as error:
                raise CaptureError(str(self._path), error.what, None, None, error.advice) from None


def counts(info: FileInfo) -> tuple[int, ...]:
    """Counts of the metadata that packets need."""
    return info.sections, len(info.interfaces), len(info.secrets)


class FilePart(io.RawIOBase):
    """``head``, then a file from ``offset`` on; at its end ``more()`` returns whether to wait for more bytes."""

    def __init__(self, path: Path, head: bytes, offset: int, more: Stop = lambda: False) -> None:
        self.name = str(path)
        self._head, self._more = head, more
        self._file = path.open("rb", buffering=0)
        self._file.seek(offset)

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        if head:
            return head
        while True:
            more = self._more()  # asked first: what came before nothing more came is read, too
            data = self._file.read(size)
            if data or not more:
                return data or b""
            time.sleep(POLL_SECONDS)

    def close(self) -> None:
        self._file.close()
        super().close()
