"""Decompression that never produces more than it was allowed to.

``decompress(codec, data, limit)`` returns what could be decompressed, at most ``limit`` bytes, and a status:
sizes announced by a sender are not trusted, damage is a value and not an exception, and a codec whose library
is not installed is named. A further codec is one line in ``CODECS``.

Sources: gzip RFC 1952; snappy ``framing_format.txt`` and ``format_description.txt``; LZ4 frame format 1.6.x;
Zstandard RFC 8878.
"""

import threading
import zlib
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from wiredecode.budget import BUDGET, FRAME_BYTES
from wiredecode.dataclasses import dataclass
from wiredecode.decompressors import GZIP, LZ4, SKIPPABLE, ZSTD, Gzip, Zstd, lz4
from wiredecode.extras import install

NOT_DECODED = "compressed, not decoded"
"""In the message where a library is not installed."""
OVER_BUDGET = f"more than {FRAME_BYTES >> 20} MiB decompressed in one frame"
MESSAGE_BYTES = 256
"""Bytes counted for each compressed message besides its own: it becomes an object with keys and values."""
MAX_STREAMS = 4096
"""Concatenated gzip members, LZ4 or zstd frames read from one input; empty ones would cost time without output."""
INPUT_WINDOW = 16_384
"""Input bytes that a decompressor gets at a time: it copies those that it does not need yet."""
SALVAGE_WINDOW = 256
"""Window when a damaged stream is read again, to keep all bytes before the damage."""
ENDS_EARLY = "the compressed data ends early"

_SNAPPY_MAX_CHUNK = 65_536
_SNAPPY_IDENTIFIER = b"sNaPpY"
_NO_IDENTIFIER = "does not start with the snappy stream identifier"
_LZ4_MAX_RATIO = 255
"""An LZ4 sequence byte gives at most 255 bytes: keeps lz4 from allocating the whole limit for a small input."""


class Status(StrEnum):
    """Outcome of decompression."""

    OK = "ok"
    LIMIT = "limit"
    """More output (or more concatenated streams) than allowed; ``data`` is the beginning."""
    CORRUPT = "corrupt"
    """Damaged or cut; ``data`` is what lay before the damage."""
    TRAILING = "trailing"
    """All decompressed, but bytes that are no stream follow; ``Decompressed.trailing`` counts them."""
    MISSING = "missing"
    """The library for this codec is not installed; nothing decompressed."""
    UNKNOWN = "unknown"
    """No such codec; nothing decompressed."""


@dataclass(slots=True, frozen=True)
class Decompressed:
    """At most ``limit`` bytes of output, what became of the rest, and why (``message`` is "" when ok)."""

    data: bytes
    status: Status = Status.OK
    message: str = ""
    trailing: int = 0


class _DamageError(Exception):
    """Found by our own reading of a framing, as opposed to the library's."""


def decompress(codec: str, data: bytes, limit: int) -> Decompressed:
    """Decompress ``data`` (bytes) with the codec of that name, to at most ``limit`` bytes. Never raises for
    content.

    Codecs: none, gzip (all members), snappy (framing format), snappy-raw (one block), lz4 and zstd (frames),
    snappy-java and lz4-kafka (their own framings). A raw snappy block cannot be read in part: above the limit its
    ``data`` is empty.
    """
    decode = CODECS.get(codec)
    if decode is None:
        return Decompressed(b"", Status.UNKNOWN, f"unknown codec {codec!r}: compressed, not decoded")
    try:
        return decode(data, limit)
    except ImportError as error:
        hint = f"{codec} needs {error.name or 'a library'}: {install(codec.partition('-')[0])}"
        return Decompressed(b"", Status.MISSING, f"{NOT_DECODED} ({hint})")


def decompress_in_frame(codec: str, data: bytes, limit: int | None = None) -> Decompressed:
    """As :func:`decompress`, within what the frame may still grow to; without a ``limit`` in that alone."""
    remaining = max(BUDGET.own.remaining, 0)
    most = remaining if limit is None else min(limit, remaining)
    inflated = decompress(codec, data, most)
    BUDGET.own.spend(len(inflated.data))
    if inflated.status is Status.LIMIT and (limit is None or most < limit):
        return Decompressed(inflated.data, Status.LIMIT, OVER_BUDGET)
    return inflated


def _none(data: bytes, limit: int) -> Decompressed:
    return Decompressed(data) if len(data) <= limit else _over(data[:limit], limit)


def _over(data: bytes, limit: int) -> Decompressed:
    return Decompressed(data, Status.LIMIT, f"more than {limit} bytes when decompressed")


class _Format(NamedTuple):
    """Streams of one kind, several of which may follow one another: gzip members, frames of LZ4 and zstd."""

    start: Callable[[], Any]
    """Makes a decompressor of one stream, see :mod:`wiredecode.decompressors`."""
    magic: tuple[bytes, ...]
    errors: tuple[type[Exception], ...]
    most: int = FRAME_BYTES
    """Output bytes asked for at a time."""

    def decompress(self, data: bytes, limit: int) -> Decompressed:
        """Read up to ``limit`` bytes, then probe for one more."""
        streams = _Streams(data, self)
        pieces: list[bytes] = []
        remaining = limit
        try:
            while remaining > 0 and (piece := streams.read(remaining)):
                pieces.append(piece)
                remaining -= len(piece)
            more = remaining <= 0 and streams.read(1) != b""
        except self.errors as error:
            pieces.clear()
            good = self._salvage(data, limit + 1)
            return Decompressed(good, Status.CORRUPT, str(error)) if len(good) <= limit else _over(good[:limit], limit)
        joined = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if more:
            return _over(joined, limit)
        return Decompressed(joined, streams.status, streams.problem, streams.trailing)

    def _salvage(self, data: bytes, limit: int) -> bytes:
        """Libraries drop the output of the call that fails: read again, the failing window byte by byte."""
        good, single_bytes_at = bytearray(), len(data)
        for _ in range(2):
            good, streams = bytearray(), _Streams(data, self, SALVAGE_WINDOW, single_bytes_at)
            try:
                while len(good) < limit and (piece := streams.read(limit - len(good))):
                    good += piece
            except self.errors:
                single_bytes_at = streams.window_at
        return bytes(good)


class _Streams:
    """Concatenated streams of one kind, read as one: ``window`` bytes at a time, from ``single_bytes_at`` on 1."""

    def __init__(
        self, data: bytes, kind: _Format, window: int = INPUT_WINDOW, single_bytes_at: int | None = None
    ) -> None:
        self.data, self.kind, self.window = data, kind, window
        self.single_bytes_at = len(data) if single_bytes_at is None else single_bytes_at
        self.window_at = 0
        """Where the last window starts."""
        self.position = self.count = self.trailing = 0
        self.stream: Any = None
        self.status, self.problem = Status.OK, ""

    def read(self, size: int) -> bytes:
        """Return 1 to size bytes, or b"" at the end; then ``status``, ``problem`` and ``trailing`` hold."""
        while self.stream is not None or self._next():
            stream = self.stream
            window = b""
            if stream.needs_input:
                self.window_at = self.position
                self.position += self.window if self.position < self.single_bytes_at else 1
                window = self.data[self.window_at : self.position]
                if not window:
                    return self._end(Status.CORRUPT, ENDS_EARLY)
            piece: bytes = stream.decompress(window, min(size, self.kind.most))
            if stream.eof:
                self.position = min(self.position, len(self.data)) - len(stream.unused_data or b"")
                self.stream = None
            if piece:
                return piece
        return b""

    def _next(self) -> bool:
        """Start the stream at the current position, if there is one."""
        if self.status is not Status.OK or (self.position == len(self.data) and self.count):
            return False
        if not self.data.startswith(self.kind.magic, self.position):
            if not self.count:
                raise _DamageError(f"does not start with {self.kind.magic[0].hex(' ')}")
            self.trailing = len(self.data) - self.position
            self._end(Status.TRAILING, f"{self.trailing} bytes after the compressed data")
            return False
        if self.count == MAX_STREAMS:
            self._end(Status.LIMIT, f"more than {MAX_STREAMS} concatenated streams")
            return False
        self.count += 1
        self.stream = self.kind.start()
        return True

    def _end(self, status: Status, problem: str) -> bytes:
        self.stream, self.status, self.problem = None, status, problem
        return b""


_GZIP = _Format(Gzip, (GZIP,), (zlib.error, _DamageError))


def _lz4(data: bytes, limit: int) -> Decompressed:
    most = _LZ4_MAX_RATIO * min(len(data), INPUT_WINDOW) + 64
    errors = (RuntimeError, ValueError, EOFError, _DamageError)
    return _Format(lz4, (LZ4, *SKIPPABLE), errors, most).decompress(data, limit)


_LZ4_CHECKSUM_AT, _LZ4_WRONG_HEADER = 6, "headerChecksum"


def _lz4_kafka(data: bytes, limit: int) -> Decompressed:
    """LZ4 frames of Kafka: before 0.10 their header checksum counted the magic number, too, so it is put right."""
    frames = _lz4(data, limit)
    if _LZ4_WRONG_HEADER not in frames.message:
        return frames
    head = _lz4_head(data[:_LZ4_CHECKSUM_AT])
    return _lz4(head + data[len(head) :], limit)


@lru_cache(maxsize=64)
def _lz4_head(front: bytes) -> bytes:
    """The front of a frame with the checksum that LZ4 takes; empty: it takes none."""
    heads = (front + bytes([byte]) for byte in range(256))
    return next((head for head in heads if _LZ4_WRONG_HEADER not in _lz4(head, 0).message), b"")


_per_thread = threading.local()
"""Holds one zstd decompressor: to make one costs more than a small message, and threads cannot share it."""


def _zstd(data: bytes, limit: int) -> Decompressed:
    import zstandard

    if not hasattr(_per_thread, "zstd"):
        _per_thread.zstd = zstandard.ZstdDecompressor()

    errors = (zstandard.ZstdError, _DamageError)
    return _Format(lambda: Zstd(_per_thread.zstd), (ZSTD, *SKIPPABLE), errors).decompress(data, limit)


def _snappy_length(block: bytes) -> int:
    """The uncompressed length a raw block announces: a 32-bit varint."""
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80 and value < 1 << 32:
            return value
    raise _DamageError("no length at the start of a snappy block")


def _snappy_block(block: bytes, most: int | None = None) -> bytes:
    """One raw block; ``most`` bytes it may announce, where that is not known."""
    import cramjam

    if most is not None and _snappy_length(block) > most:
        raise _DamageError(f"a snappy block announces more than {most} bytes")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise _DamageError(str(error)) from None


def _snappy_raw(data: bytes, limit: int) -> Decompressed:
    try:
        return Decompressed(_snappy_block(data)) if _snappy_length(data) <= limit else _over(b"", limit)
    except _DamageError as error:
        return Decompressed(b"", Status.CORRUPT, str(error))


def _snappy(data: bytes, limit: int) -> Decompressed:
    """Snappy framing: type, 24-bit length; data chunks have a masked CRC-32C and at most 64 KiB."""
    pieces: list[bytes] = []
    position, remaining = 0, limit
    try:
        while position < len(data):
            kind, start = data[position], position + 4
            end = start + int.from_bytes(data[position + 1 : start], "little")
            if start > len(data) or end > len(data):
                raise _DamageError(ENDS_EARLY)
            piece = _snappy_chunk(kind, data[start:end], first=position == 0)
            if len(piece) > remaining:
                return _over(b"".join([*pieces, piece[:remaining]]), limit)
            pieces.append(piece)
            remaining -= len(piece)
            position = end
    except _DamageError as error:
        return Decompressed(b"".join(pieces), Status.CORRUPT, str(error))
    return Decompressed(pieces[1] if len(pieces) == 2 else b"".join(pieces))


_XERIAL = b"\x82SNAPPY\0"
_XERIAL_HEADER = 16


def _snappy_java(data: bytes, limit: int) -> Decompressed:
    """The framing of snappy-java: a header, then raw blocks with their 32-bit lengths; without it one raw block."""
    if not data.startswith(_XERIAL):
        return _snappy_raw(data, limit)
    pieces: list[bytes] = []
    position, remaining = _XERIAL_HEADER, limit
    try:
        while position < len(data):
            start = position + 4
            position = start + int.from_bytes(data[position:start])
            if position > len(data):
                raise _DamageError(ENDS_EARLY)
            if _snappy_length(data[start:position]) > remaining:
                return _over(b"".join(pieces), limit)
            pieces.append(_snappy_block(data[start:position]))
            remaining -= len(pieces[-1])
    except _DamageError as error:
        return Decompressed(b"".join(pieces), Status.CORRUPT, str(error))
    return Decompressed(b"".join(pieces))


def masked_crc(data: bytes) -> int:
    """CRC-32C as chunks of snappy and S2 carry it: rotated by 15 bits, plus a constant."""
    from crc32c import crc32c

    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _snappy_chunk(kind: int, body: bytes, first: bool) -> bytes:
    if kind == 0xFF and body == _SNAPPY_IDENTIFIER:
        return b""
    if first or kind == 0xFF:
        raise _DamageError(_NO_IDENTIFIER if first else "wrong snappy stream identifier")
    if kind >= 0x80:  # skippable, 0xfe is padding
        return b""
    if kind > 1:
        raise _DamageError(f"reserved snappy chunk type {kind:#04x}")
    if len(body) < 4:
        raise _DamageError("snappy chunk without checksum")
    piece = body[4:] if kind else _snappy_block(body[4:], _SNAPPY_MAX_CHUNK)
    if len(piece) > _SNAPPY_MAX_CHUNK:
        raise _DamageError(f"snappy chunk of more than {_SNAPPY_MAX_CHUNK} bytes")
    if int.from_bytes(body[:4], "little") != masked_crc(piece):
        raise _DamageError("wrong CRC-32C in a snappy chunk")
    return piece


CODECS: dict[str, Callable[[bytes, int], Decompressed]] = {
    "none": _none,
    "gzip": _GZIP.decompress,
    "snappy": _snappy,
    "snappy-raw": _snappy_raw,
    "snappy-java": _snappy_java,
    "lz4": _lz4,
    "lz4-kafka": _lz4_kafka,
    "zstd": _zstd,
}
