"""Large pcap files in parts that are read at the same time (docs/spark.md, "Inputs").

A part is a range of bytes; the packets whose records begin in it, or a little later, are read with it. A pcap file has
no markers, so the first record is searched: every task that needs an edge searches the same bytes, with one result.
Nothing here needs Spark.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from wiredecode.capture import CaptureError, PacketBatch, TruncatedCapture, open_capture
from wiredecode.capture.batch import NS_PER_SECOND, gather
from wiredecode.capture.pcap import FILE_HEADER_BYTES, MAGICS
from wiredecode.capture.reader import MAX_RECORD_BYTES
from wiredecode.capture.remote import open_file
from wiredecode.dataclasses import dataclass, replace
from wiredecode.spark.parcels import File

SPLIT_BYTES = 128 << 20
MIN_SPLIT_BYTES = 1 << 20
CHAIN_RECORDS, CHAIN_BYTES = 64, 256 << 10
"""This many records, and at least this many bytes, must follow from each other before an edge is believed."""
EARLIER_SECONDS, LATER_SECONDS = 86_400, 400 * 86_400
"""Largest distance of a packet from the first packet of the file."""
LONGEST_BYTES = 64 << 20
"""Longest packet on the wire."""
STEP_NS = NS_PER_SECOND
"""If time goes back further than this, the order of packets needs all that came before: parts do not know that."""
WHOLE = "read the file in one piece (splitBytes 0)"


@dataclass(frozen=True)
class FileSplit:
    """A part of a file: nominally the bytes from ``low`` up to ``high``; all of it when ``high`` is None.

    ``file.place`` is ``low``. As every packet takes 16 bytes or more, places that count up from there never reach those
    of the next part.
    """

    file: File
    low: int = 0
    high: int | None = None
    step: int = 0
    size: int = 0
    """Distance of the edges of the file, and its size, when it was cut."""


def splits(file: File, size: int, split_bytes: int = SPLIT_BYTES) -> list[FileSplit]:
    """The parts of a file of ``size`` bytes, each of about ``split_bytes``; 0: files are not cut.

    Only the 24 bytes at its beginning are read, and only of a large file. pcapng files cannot be cut, because packets
    refer to earlier blocks, nor can compressed ones; nor files that cannot be opened: reading them reports it.
    Raises ``ValueError`` for ``split_bytes`` below 1 MiB.
    """
    check_size(split_bytes)
    lows = _lows(size, split_bytes) if split_bytes else range(1)
    if len(lows) < 2 or not _is_pcap(file.name):
        return [FileSplit(file)]
    edges = pairwise([*lows, size])
    return [FileSplit(replace(file, place=low), low, high, split_bytes, size) for low, high in edges]


def check_size(split_bytes: int) -> None:
    """Raise ``ValueError`` for parts that are too small."""
    if 0 < split_bytes < MIN_SPLIT_BYTES:
        raise ValueError(f"parts of {split_bytes} bytes are too small: from {MIN_SPLIT_BYTES} on, or 0 for whole files")


def _lows(size: int, step: int) -> range:
    """Where parts begin; the last one may be half as long again."""
    return range(0, max(size - step // 2, 1), step)


def packets(split: FileSplit) -> Iterator[PacketBatch]:
    """The packets of a part, in the order of the file; ``number`` counts within the part.

    Raises CaptureError after the last packet: for damage, which costs the rest of this part; when the last record does
    not end where the next part begins; and when time goes back, so that parts cannot be put in order.
    """
    with open_file(split.file.name) as file:
        if split.high is None:
            yield from open_capture([file])
            return
        header = PcapHeader.read(file)
        start = _edge(file, header, split, split.low)
        if start is None:
            return
        later = (low for low in _lows(split.size, split.step) if low > split.low)
        edges = (_edge(file, header, split, low) for low in later)
        # a part without a beginning belongs to the one before
        stop = next((edge for edge in edges if edge is not None), None)
        part = PartFile(file, header.raw, start, file.seek(0, io.SEEK_END) if stop is None else stop)
        yield from _in_time_order(part, split, at_end=stop is None)


def _in_time_order(part: PartFile, split: FileSplit, *, at_end: bool) -> Iterator[PacketBatch]:
    latest, back = None, False
    try:
        for batch in open_capture([cast(BinaryIO, part)]):
            times = batch.time_ns if latest is None else np.concatenate([[latest], batch.time_ns])
            clock = np.maximum.accumulate(times)
            back = back or int((clock - times).max(initial=0)) > STEP_NS
            latest = clock[-1] if len(clock) else latest
            yield batch
    except CaptureError as error:
        raise _place_error(error, part, split.file.name, at_end=at_end) from None
    if back:
        what = f"time goes back by more than {STEP_NS // NS_PER_SECOND} s, so that parts are not in order"
        raise CaptureError(split.file.name, what, part.start, advice=WHOLE)


def _place_error(error: CaptureError, part: PartFile, name: str, *, at_end: bool) -> CaptureError:
    """An error with its place in the file, instead of that in the part."""
    if error.offset is None:
        return error
    offset = part.start + error.offset - FILE_HEADER_BYTES
    if isinstance(error, TruncatedCapture) and not at_end:
        what = f"its packets do not lead to byte {part.stop}, where the next part begins"
        return CaptureError(name, what, offset, advice=f"damaged in between; or {WHOLE}")
    return CaptureError(name, error.what, offset, advice=error.advice.replace("before it", "before it in its part"))


class PartFile(io.RawIOBase):
    """The bytes from ``start`` to ``stop`` of a file after its header: a separate capture."""

    def __init__(self, file: BinaryIO, header: bytes, start: int, stop: int) -> None:
        self.name = file.name
        self.start, self.stop = start, stop
        self._file, self._header, self._at = file, header, start
        file.seek(start)

    def read(self, size: int = -1) -> bytes:
        if self._header:
            data, self._header = self._header, b""
            return data
        unread = self.stop - self._at
        data = self._file.read(unread if size < 0 else min(size, unread)) if unread else b""
        self._at += len(data)
        return data


# Edges.


class PcapHeader(NamedTuple):
    """Facts in the head of a pcap file."""

    raw: bytes
    order: str
    """Byte order: ``<`` or ``>``."""
    unit_ns: int
    size: int
    """Bytes of the header of a record."""
    longest: int
    """Most captured bytes of a packet."""

    @classmethod
    def read(cls, file: BinaryIO) -> PcapHeader:
        """Read the header of an open pcap file."""
        raw = file.read(FILE_HEADER_BYTES)
        order, (_, unit_ns, size) = MAGICS[raw[:4]]
        (snaplen,) = Struct(order + "I").unpack_from(raw, 16)
        return cls(raw, order, unit_ns, size, min(snaplen or MAX_RECORD_BYTES, MAX_RECORD_BYTES))


def _is_pcap(name: str) -> bool:
    try:
        with open_file(name) as file:
            head = file.read(FILE_HEADER_BYTES)
    except (CaptureError, OSError):
        return False
    return len(head) == FILE_HEADER_BYTES and head[:4] in MAGICS


def _edge(file: BinaryIO, header: PcapHeader, split: FileSplit, low: int) -> int | None:
    """Offset of the first record of the part that begins at ``low``; None: none was found. The same for all parts."""
    if low == 0:
        return FILE_HEADER_BYTES
    reach = max(header.longest + header.size, CHAIN_BYTES)
    for window in (4 * reach, 16 * reach):
        file.seek(low)
        data = _read(file, min(window, split.size - low))
        distance = edge(data, header, split.file.first_ns // NS_PER_SECOND, reach)
        if distance is not None:
            return low + distance if distance < split.step else None
        if len(data) < window:
            break
    return None


def _read(file: BinaryIO, size: int) -> bytes:
    parts = []
    while size and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def edge(data: bytes, header: PcapHeader, first_seconds: int, reach: int) -> int | None:
    """Offset of a record in ``data``, which begins anywhere in a file; None when there is none to rely on.

    A packet may carry a capture itself. Its records may lead to the end of the packet, and so to true ones; true
    records never lead into packets. So an edge is accepted only ``reach`` bytes, more than any packet has, after the
    first header that leads that far, and only if no other chain of records leads past it.
    """
    table, seen = RecordHeaders(data, header, first_seconds), set[int]()
    chains = [chain for first in table.plausible(reach) if (chain := table.chain(first, seen))]
    if len(chains) != 1:
        return None
    chain = chains[0]
    after = max(int(np.searchsorted(chain, chain[0] + reach)), CHAIN_RECORDS)
    return _in_order(data, header, chain, after) if after < len(chain) else None


class RecordHeaders:
    """Where in ``data`` headers of records may be."""

    def __init__(self, data: bytes, header: PcapHeader, first_seconds: int) -> None:
        self._size, self._header = len(data), header.size
        self._length = Struct(header.order + "I")
        self._data = data
        every = _every(data, header.order)
        count = max(len(data) - header.size + 1, 0)
        seconds, part, captured, original = (every[field : field + count] for field in (0, 4, 8, 12))
        fits = (captured <= header.longest) & (captured <= original) & (original <= LONGEST_BYTES)
        fits &= (seconds >= max(first_seconds - EARLIER_SECONDS, 0)) & (seconds <= first_seconds + LATER_SECONDS)
        fits &= part < NS_PER_SECOND // header.unit_ns
        self._fits: npt.NDArray[np.bool_] = fits

    def plausible(self, end: int) -> list[int]:
        """Where headers may be, up to ``end``."""
        offsets: list[int] = np.flatnonzero(self._fits[:end]).tolist()
        return offsets

    def chain(self, at: int, seen: set[int]) -> list[int]:
        """Records from ``at`` to the end of ``data``; none if the chain ends before or meets ``seen``, which grows."""
        records: list[int] = []
        last = self._size - self._header
        while at <= last:
            if at in seen or not self._fits[at]:
                return []
            seen.add(at)
            records.append(at)
            at += self._header + self._length.unpack_from(self._data, at + 8)[0]
        return records


def _every(data: bytes, order: str) -> npt.NDArray[Any]:
    """The number of four bytes at each offset."""
    return np.ndarray((max(len(data) - 3, 0),), np.dtype(order + "u4"), data, strides=(1,))


def _in_order(data: bytes, header: PcapHeader, chain: list[int], after: int) -> int | None:
    """The first record from number ``after`` on that separates the records before and after it in time."""
    at, kind = np.array(chain, np.int64), header.order + "u4"
    times = gather(data, at, kind) * NS_PER_SECOND + gather(data, at + 4, kind) * header.unit_ns
    before = np.maximum.accumulate(times)[after - 1 : -1]
    behind = np.minimum.accumulate(times[::-1])[::-1][after:]
    parting = np.flatnonzero(before <= behind)
    return chain[after + int(parting[0])] if len(parting) else None
