"""Decompression that never produces more than it was allowed to.

``decompress(codec, data, limit)`` returns what could be decompressed, at most ``limit`` bytes, and a status:
sizes announced by a sender are not trusted, damage is a value and not an exception, and a codec whose library
is not installed is named. A further codec is one line in ``CODECS``.

Sources: gzip RFC 1952; snappy ``framing_format.txt`` and ``format_description.txt``; LZ4 frame format 1.6.x;
Zstandard RFC 8878.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from typing import Any, Protocol

from wiredecode.extras import install

MAX_FRAME_BYTES = 32 * 1024 * 1024
"""Most that everything compressed in one frame may grow to, together."""
NOT_DECODED = "compressed, not decoded"
"""In the message where a library is not installed."""
OVER_BUDGET = f"more than {MAX_FRAME_BYTES >> 20} MiB decompressed in one frame"
MESSAGE_BYTES = 256
"""What each message that was compressed counts besides its bytes: it becomes an object with keys and values."""
MAX_STREAMS = 4096
"""Concatenated gzip members or LZ4 frames read from one input; empty ones would cost time without output."""
INPUT_WINDOW = 16_384
"""Input bytes handed to zlib or lz4 at a time: they copy what they leave over."""
SALVAGE_WINDOWS = (256, 1)
"""Input bytes at a time when a damaged stream is read again, to keep all that lies before the damage."""

_SNAPPY_MAX_CHUNK = 65_536
_SNAPPY_IDENTIFIER = b"sNaPpY"
_NO_IDENTIFIER = "does not start with the snappy stream identifier"
_GZIP_MAGIC = (b"\x1f\x8b",)
_LZ4_MAGIC = (b"\x04\x22\x4d\x18", *(bytes([0x50 + low]) + b"\x2a\x4d\x18" for low in range(16)))
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LZ4_MAX_RATIO = 255
"""An LZ4 sequence byte stands for at most 255 bytes: keeps lz4 from allocating the whole limit for a small
input."""


class Status(StrEnum):
    """What became of the data."""

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


class _Reader(Protocol):
    """One opened input. ``read`` gives 1 to size bytes, or b"" at the end; then ``problem`` and ``trailing``
    hold."""

    window: int
    """Input bytes taken at a time."""
    errors: tuple[type[Exception], ...]
    status: Status
    problem: str
    trailing: int

    def read(self, size: int) -> bytes: ...


def decompress(codec: str, data: bytes, limit: int) -> Decompressed:
    """Decompress ``data`` (bytes) with the codec of that name, to at most ``limit`` bytes. Never raises for
    content.

    Codecs: none, gzip (all members), snappy (framing format), snappy-raw (one block), lz4 (frames), zstd
    (frames). A raw snappy block cannot be read in part: above the limit its ``data`` is empty.
    """
    known = CODECS.get(codec)
    if known is None:
        return Decompressed(b"", Status.UNKNOWN, f"unknown codec {codec!r}: compressed, not decoded")
    try:
        return known.decode(data, limit)
    except ImportError as error:
        hint = f"{codec} needs {error.name or 'a library'}: {install(known.extra)}"
        return Decompressed(b"", Status.MISSING, f"{NOT_DECODED} ({hint})")


class Budget:
    """What may still be decompressed of one frame, :data:`MAX_FRAME_BYTES` at first."""

    def __init__(self) -> None:
        self.left = MAX_FRAME_BYTES

    def decompress(self, codec: str, data: bytes, limit: int | None = None) -> Decompressed:
        """As :func:`decompress`, within the budget too; without a ``limit`` in the budget alone."""
        left = max(self.left, 0)
        most = left if limit is None else min(limit, left)
        inflated = decompress(codec, data, most)
        self.left -= len(inflated.data)
        if inflated.status is Status.LIMIT and (limit is None or most < limit):
            return Decompressed(inflated.data, Status.LIMIT, OVER_BUDGET)
        return inflated

    def count(self, messages: int) -> None:
        """So many messages were found."""
        self.left -= messages * MESSAGE_BYTES


def _none(data: bytes, limit: int) -> Decompressed:
    return Decompressed(data) if len(data) <= limit else _over(data[:limit], limit)


def _over(data: bytes, limit: int) -> Decompressed:
    return Decompressed(data, Status.LIMIT, f"more than {limit} bytes when decompressed")


def _bounded(open_reader: Callable[[], _Reader], limit: int) -> Decompressed:
    """Read up to ``limit`` bytes, then probe for one more."""
    reader = open_reader()
    pieces: list[bytes] = []
    left = limit
    try:
        while left > 0 and (piece := reader.read(left)):
            pieces.append(piece)
            left -= len(piece)
        more = left <= 0 and reader.read(1) != b""
    except reader.errors as error:
        pieces.clear()
        return Decompressed(_salvage(open_reader, limit), Status.CORRUPT, str(error))
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if more:
        return _over(data, limit)
    return Decompressed(data, reader.status, reader.problem, reader.trailing)


def _salvage(open_reader: Callable[[], _Reader], limit: int) -> bytes:
    """Libraries drop the output of the call that fails: read again, the failing window byte by byte."""
    good = bytearray()
    for window in SALVAGE_WINDOWS:
        reader = open_reader()
        kept, good = len(good), bytearray()
        try:
            while len(good) < limit:
                reader.window = SALVAGE_WINDOWS[0] if len(good) < kept else window
                piece = reader.read((kept if len(good) < kept else limit) - len(good))
                if not piece:
                    break
                good += piece
        except reader.errors:
            continue
    return bytes(good)


class _Streams:
    """Concatenated streams of one kind (gzip members, LZ4 frames) as one reader."""

    def __init__(
        self,
        data: bytes,
        start: Callable[[], Any],
        magic: tuple[bytes, ...],
        errors: tuple[type[Exception], ...],
    ) -> None:
        self.data, self.start, self.magic, self.errors = data, start, magic, errors
        self.window = INPUT_WINDOW
        self.position = self.count = self.trailing = 0
        self.stream: Any = None
        self.status, self.problem = Status.OK, ""

    def read(self, size: int) -> bytes:
        while self.stream is not None or self._next():
            stream = self.stream
            # lz4 keeps unread input inside (needs_input False); zlib hands it back (unconsumed_tail).
            held = not getattr(stream, "needs_input", True)
            window = b"" if held else self.data[self.position : self.position + self.window]
            if not window and not held:
                return self._end(Status.CORRUPT, "the compressed data ends early")
            piece: bytes = stream.decompress(window, size)
            self.position += len(window)
            if stream.eof:
                self.position -= len(stream.unused_data or b"")
                self.stream = None
            else:
                self.position -= len(getattr(stream, "unconsumed_tail", b""))
            if piece:
                return piece
        return b""

    def _next(self) -> bool:
        """Start the stream at the current position, if there is one."""
        if self.status is not Status.OK or (self.position == len(self.data) and self.count):
            return False
        if not self.data.startswith(self.magic, self.position):
            if not self.count:
                raise _DamageError(f"does not start with {self.magic[0].hex(' ')}")
            self.trailing = len(self.data) - self.position
            self._end(Status.TRAILING, f"{self.trailing} bytes after the compressed data")
            return False
        if self.count == MAX_STREAMS:
            self._end(Status.LIMIT, f"more than {MAX_STREAMS} concatenated streams")
            return False
        self.count += 1
        self.stream = self.start()
        return True

    def _end(self, status: Status, problem: str) -> bytes:
        self.stream, self.status, self.problem = None, status, problem
        return b""


def _gzip_member() -> Any:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)


def _gzip(data: bytes, limit: int) -> Decompressed:
    return _bounded(lambda: _Streams(data, _gzip_member, _GZIP_MAGIC, (zlib.error, _DamageError)), limit)


class _Lz4Frame:
    """lz4's decompressor allocates max_length at once: never ask for more than the input can give."""

    def __init__(self, inner: Any, most: int) -> None:
        self.inner, self.most = inner, most

    eof = property(lambda self: self.inner.eof)
    needs_input = property(lambda self: self.inner.needs_input)
    unused_data = property(lambda self: self.inner.unused_data)

    def decompress(self, window: bytes, size: int) -> bytes:
        piece: bytes = self.inner.decompress(window, max_length=min(size, self.most))
        return piece


def _lz4(data: bytes, limit: int) -> Decompressed:
    from lz4.frame import LZ4FrameDecompressor

    most = _LZ4_MAX_RATIO * min(len(data), INPUT_WINDOW) + 64
    errors = (RuntimeError, ValueError, EOFError, _DamageError)

    def frame() -> _Lz4Frame:
        return _Lz4Frame(LZ4FrameDecompressor(), most)

    return _bounded(lambda: _Streams(data, frame, _LZ4_MAGIC, errors), limit)


_per_thread = threading.local()
"""Holds one zstd decompressor: making one costs more than decompressing a small message, and threads cannot
share it."""


class _ZstdFrames:
    """Frames through zstandard's reader, which neither tells a cut frame nor where the last one ends."""

    def __init__(self, data: bytes, end: int, zstandard: Any) -> None:
        self.errors: tuple[type[Exception], ...] = (zstandard.ZstdError, _DamageError)
        self.status, self.problem, self.trailing = Status.OK, "", 0
        if 0 <= end < len(data):
            self.trailing = len(data) - end
            self.status, self.problem = Status.TRAILING, f"{self.trailing} bytes after the compressed data"
            data = data[:end]
        elif end < 0:
            self.status, self.problem = Status.CORRUPT, "the compressed data ends early"
        if not hasattr(_per_thread, "zstd"):
            _per_thread.zstd = zstandard.ZstdDecompressor()
        self.window = len(data)
        self.input = BytesIO(data)
        self.output = _per_thread.zstd.stream_reader(_Windows(self), read_across_frames=True)

    def read(self, size: int) -> bytes:
        piece: bytes = self.output.read1(size)
        return piece


class _Windows:
    """The input as zstandard's reader takes it: a file, of which it gets one window at a time."""

    def __init__(self, frames: _ZstdFrames) -> None:
        self.frames = frames

    def read(self, size: int) -> bytes:
        return self.frames.input.read(self.frames.window)


def _zstd_end(data: bytes) -> int:
    """Where the last whole frame ends (RFC 8878 section 3.1); -1 if the data stops inside a frame."""
    position, size = 0, len(data)
    while position < size:
        if data.startswith(_ZSTD_MAGIC, position):
            position = _zstd_frame_end(data, position + 4)
        elif data[position + 1 : position + 4] == b"\x2a\x4d\x18" and data[position] >> 4 == 5:
            if position + 8 > size:
                return -1
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
        else:
            return position
    return position if position == size else -1


def _zstd_frame_end(data: bytes, position: int) -> int:
    """Walk block headers from the frame header descriptor; past the end of the data if it is cut."""
    size, past = len(data), len(data) + 1
    if position >= size:
        return past
    descriptor = data[position]
    single = descriptor >> 5 & 1
    content_size = (single, 2, 4, 8)[descriptor >> 6]
    position += 1 + (1 - single) + (0, 1, 2, 4)[descriptor & 3] + content_size
    last = 0
    while not last:
        if position + 3 > size:
            return past
        block = int.from_bytes(data[position : position + 3], "little")
        last, kind = block & 1, block >> 1 & 3
        if kind == 3:  # reserved: the library shall say so
            return size
        position += 3 + (1 if kind == 1 else block >> 3)
    return position + (4 if descriptor & 4 else 0)


def _zstd(data: bytes, limit: int) -> Decompressed:
    import zstandard

    end = _zstd_end(data)
    if end == 0:
        return Decompressed(b"", Status.CORRUPT, f"does not start with {_ZSTD_MAGIC.hex(' ')}")
    return _bounded(lambda: _ZstdFrames(data, end, zstandard), limit)


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
    """Chunks of the framing format: type, 24-bit length, then for data chunks a masked CRC-32C and at most 64
    KiB."""
    pieces: list[bytes] = []
    position, left = 0, limit
    try:
        while position < len(data):
            kind, start = data[position], position + 4
            end = start + int.from_bytes(data[position + 1 : start], "little")
            if start > len(data) or end > len(data):
                raise _DamageError("the compressed data ends early")
            piece = _snappy_chunk(kind, data[start:end], first=position == 0)
            if len(piece) > left:
                return _over(b"".join([*pieces, piece[:left]]), limit)
            pieces.append(piece)
            left -= len(piece)
            position = end
    except _DamageError as error:
        return Decompressed(b"".join(pieces), Status.CORRUPT, str(error))
    return Decompressed(pieces[1] if len(pieces) == 2 else b"".join(pieces))


def _snappy_chunk(kind: int, body: bytes, first: bool) -> bytes:
    from crc32c import crc32c

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
    crc = crc32c(piece)
    if int.from_bytes(body[:4], "little") != ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF:
        raise _DamageError("wrong CRC-32C in a snappy chunk")
    return piece


@dataclass(slots=True, frozen=True)
class Codec:
    """How to decompress, and the pip extra that brings its library ("": none needed)."""

    decode: Callable[[bytes, int], Decompressed]
    extra: str = ""


CODECS: dict[str, Codec] = {
    "none": Codec(_none),
    "gzip": Codec(_gzip),
    "snappy": Codec(_snappy, "snappy"),
    "snappy-raw": Codec(_snappy_raw, "snappy"),
    "lz4": Codec(_lz4, "lz4"),
    "zstd": Codec(_zstd, "zstd"),
}
