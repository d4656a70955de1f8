"""A Parquet file whose row groups Arrow writes as files of their own; its bytes are those that Arrow alone would write.

Arrow needs 2 MB for each row group of a thousand columns until the end of a file; here its compressed part of the
footer is kept, 50 KB.
"""

import io
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa

MAGIC = b"PAR1"
ROWS, GROUPS = b"\x16", b"\x19"
"""Fields of the footer in Thrift's compact protocol: an integer, and a list."""
ZEROS = bytes(1 << 24)


class Unclosed(io.RawIOBase):
    """A stream that Arrow may write to and must not close; the first ``skipped`` bytes are not written to it."""

    def __init__(self, stream: BinaryIO, skipped: int = 0) -> None:
        self._stream, self._skipped = stream, skipped
        self.footer: bytearray | None = None
        """If it is set, it takes all bytes."""

    def skip(self, file: pa.NativeFile) -> None:
        """Have Arrow count the skipped bytes, by writing them to ``file``, which writes to this stream."""
        while self._skipped:
            file.write(memoryview(ZEROS)[: self._skipped])

    def write(self, data: Any) -> int:
        if self.footer is not None:
            self.footer += data
        elif self._skipped:
            self._skipped -= len(data)
        elif not self._stream.closed:  # else the output was given up, and Arrow still wants to end it
            self._stream.write(data)
        return len(data)

    def writable(self) -> bool:
        return True


class Footer:
    """Joins the footers of files of one row group; ``empty``: the footer of a file of none."""

    def __init__(self, empty: bytes) -> None:
        self._first, found, self._last = empty.rpartition(_counts(0, 0))
        assert found, "Arrow writes footers in another form"
        self._groups: list[bytes] = []
        self._rows = 0

    def add(self, footer: bytes, rows: int) -> None:
        """Add the footer of a file of one row group."""
        first = self._first + _counts(rows, 1)
        assert footer.startswith(first) and footer.endswith(self._last), "Arrow writes footers in another form"
        self._groups.append(zlib.compress(footer[len(first) : -len(self._last)], 1))
        self._rows += rows

    def parts(self) -> Iterator[bytes]:
        """The end of the file."""
        size = 0
        for part in self._parts():
            size += len(part)
            yield part
        yield size.to_bytes(4, "little") + MAGIC

    def _parts(self) -> Iterator[bytes]:
        yield self._first + _counts(self._rows, len(self._groups))
        yield from map(zlib.decompress, self._groups)
        yield self._last


def _counts(rows: int, groups: int) -> bytes:
    """The number of rows, and the head of the list of row groups."""
    head = bytes([groups << 4 | 0xC]) if groups < 0xF else b"\xfc" + _varint(groups)
    return ROWS + _varint(rows << 1) + GROUPS + head


def _varint(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits[-1] |= 0x80
        digits.append(number & 0x7F)
    return bytes(digits)
