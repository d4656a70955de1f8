"""Parquet files of a thousand columns in little memory; their bytes are those that Arrow alone would write.

A file of frames has the columns of all protocols, so that one query reads a capture of several. Arrow keeps 2.3 MB for
each row group of them until the file ends: memory would grow with the capture. Here every group becomes a small file to
Arrow, and only its part of the footer is kept, compressed together with those before it: 17 KB.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from wiredecode.export.target import ExportError
from wiredecode.fields.numbers import write_varint

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetWriter

MAGIC = b"PAR1"
ROWS, GROUPS = b"\x16", b"\x19"
"""Fields of the footer in Thrift's compact protocol: an integer, and a list."""
ZEROS = bytes(1 << 24)
BUFFER_BYTES = 256 * 1024
"""Parquet is passed on in pieces of this size."""


class UnknownFormError(Exception):
    """Arrow writes footers of a form that :class:`Footer` cannot join."""


class UnclosableStream(io.RawIOBase):
    """A stream that Arrow may write to and must not close; the first ``skipped`` bytes are not written to it."""

    def __init__(self, stream: BinaryIO, skipped: int = 0) -> None:
        self._stream, self._skipped = stream, skipped
        self.footer: bytearray | None = None
        """If it is set, it takes all bytes."""

    def skip(self, file: pa.NativeFile) -> None:
        """Write the skipped bytes to ``file``, which writes to this stream, so that Arrow counts them."""
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


Make = Callable[[Any], "ParquetWriter"]
"""Makes Arrow's writer of a stream."""


def open_parquet(stream: BinaryIO, make: Make, *, wide: bool) -> "PlainFile | WideFile":
    """A Parquet file to write; ``wide``: it has very many columns."""
    if wide:
        with suppress(UnknownFormError):  # of a newer Arrow: more memory is needed
            return WideFile(stream, make)
    return PlainFile(UnclosableStream(stream), make)


class PlainFile:
    """A file as Arrow writes it; a table is a row group."""

    def __init__(self, stream: UnclosableStream, make: Make) -> None:
        # Arrow writes each column separately; while another thread runs Python, every call may take 5 ms.
        self.raw = pa.PythonFile(stream, mode="w")
        self.sink = pa.BufferedOutputStream(self.raw, BUFFER_BYTES)
        self._writer = make(self.sink)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table, row_group_size=len(table))

    def close(self) -> None:
        self._writer.close()
        self.sink.close()


class WideFile:
    """Copies a Parquet file in little memory. Raises UnknownFormError before it writes."""

    def __init__(self, stream: BinaryIO, make: Make) -> None:
        self._stream, self._make, self._written = stream, make, len(MAGIC)
        self._footer = Footer(self._group())
        stream.write(MAGIC)

    def write(self, table: pa.Table) -> None:
        self._footer.add(self._group(table), len(table))

    def _group(self, *tables: pa.Table) -> bytes:
        """Write a row group, or none; return the footer of a file that holds nothing else."""
        stream = UnclosableStream(self._stream, skipped=self._written)
        file = PlainFile(stream, self._make)
        try:
            file.sink.flush()
            stream.skip(file.raw)
            for table in tables:
                file.write(table)
            self._written = file.sink.tell()
            file.sink.flush()
        finally:
            stream.footer = bytearray()  # if that failed, Arrow still ends its file
        file.close()
        return bytes(stream.footer[: -4 - len(MAGIC)])

    def close(self) -> None:
        for part in self._footer.parts():
            self._stream.write(part)


class Footer:
    """Joins the footers of files of one row group; ``empty``: the footer of a file of none."""

    def __init__(self, empty: bytes) -> None:
        self._first, counts, self._last = empty.rpartition(_counts(0, 0))
        if not counts:
            raise UnknownFormError
        self._packed = io.BytesIO()
        self._groups = pa.CompressedOutputStream(UnclosableStream(self._packed), "zstd")
        self._count = self._rows = 0

    def add(self, footer: bytes, rows: int) -> None:
        """Add the footer of a file of one row group."""
        first = self._first + _counts(rows, 1)
        if not (footer.startswith(first) and footer.endswith(self._last)):
            raise ExportError(
                "this version of pyarrow writes Parquet footers in an unknown form; export another format"
            )
        self._groups.write(memoryview(footer)[len(first) : -len(self._last)])
        self._count += 1
        self._rows += rows

    def parts(self) -> Iterator[bytes]:
        """The end of the file."""
        size = 0
        for part in self._parts():
            size += len(part)
            yield part
        yield size.to_bytes(4, "little") + MAGIC

    def _parts(self) -> Iterator[bytes]:
        yield self._first + _counts(self._rows, self._count)
        self._groups.close()
        self._packed.seek(0)
        groups = pa.CompressedInputStream(self._packed, "zstd")
        yield from iter(partial(groups.read, BUFFER_BYTES), b"")
        yield self._last


def _counts(rows: int, groups: int) -> bytes:
    """The number of rows, and the head of the list of row groups."""
    head = bytes([groups << 4 | 0xC]) if groups < 0xF else b"\xfc" + write_varint(groups)
    return ROWS + write_varint(rows << 1) + GROUPS + head
