"""Writers of tables: record batches in, bytes of a format out. A few batches are in memory at most."""

from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from wiredecode.dataclasses import dataclass
from wiredecode.export.footer import UnclosableStream, open_parquet
from wiredecode.frames.record import JsonArray
from wiredecode.tables import trim_memory
from wiredecode.tables.portable import file_schema
from wiredecode.tables.reader import MESSAGES
from wiredecode.tables.rows import dumps, rows, text_column

ROW_GROUP = 65_536
"""Rows of a row group: large enough for statistics to skip by, small enough to be read on its own."""
ROW_GROUP_BYTES = 24 * 1024 * 1024
"""A row group is written when this much is waiting for it, even with few rows; nulls are not counted."""
WIDE = "layers"
WIDE_BATCH_BYTES = 1024 * 1024
"""Bytes of a waiting batch of a thousand columns beside its values, at least."""
NOT_PACKED = "none"
GROWTH = 16
"""A file with the column :data:`WIDE` has a thousand columns, whose footer takes 260 KB per row group: after this many
row groups the next ones may have twice the rows."""
DICTIONARY_BYTES = 128 * 1024
"""With Arrow's default size, a useless dictionary of distinct numbers takes 30 MB."""
PAGE_ROWS = ROW_GROUP
"""With Arrow's default of 20,000, columns of nulls are three times as large."""


@dataclass(frozen=True)
class WriterSettings:
    """Settings for writing files."""

    show: Callable[[bytes], str] = bytes.hex
    """Form of bytes in JSON and CSV."""
    compression: str | None = None
    """Codec of Parquet (None: zstd) and Arrow (None: zstd for frames); the stream compresses text."""
    row_group: int = ROW_GROUP
    guard_formulas: bool = False
    """CSV: an apostrophe precedes text that a spreadsheet would run as a formula."""
    order: str | None = None
    """Parquet: sort the rows of a row group by this column of integers."""


FORMULA = r"\A([=+\-@\t\r])"
"""Beginnings that spreadsheets treat as a formula."""


class Writer(Protocol):
    """Writes batches of one schema to a stream that it does not close."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None:
        """Write what ends the file."""
        ...


class JsonWriter:
    """One JSON object per row and line, by themselves or as one array."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, settings: WriterSettings, *, as_array: bool = True) -> None:
        self._stream, self._show = stream, settings.show
        self._array = JsonArray(stream.write, b"[\n", b"\n]\n") if as_array else None

    def write(self, batch: pa.RecordBatch) -> None:
        texts = map(dumps, rows(batch, self._show))
        if self._array is None:
            self._stream.write(b"".join(text + b"\n" for text in texts))
            return
        for text in texts:
            self._array.add(text)

    def close(self) -> None:
        if self._array is not None:
            self._array.close()


class CsvWriter:
    """CSV as RFC 4180, with a header; text in quotes, null is nothing, nested values are JSON text."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, settings: WriterSettings) -> None:
        import pyarrow.csv as pcsv

        self._show, self._guarded = settings.show, settings.guard_formulas
        empty = [text_column(pa.array([], field.type), self._show).type for field in schema]
        self._schema = pa.schema(list(zip(schema.names, empty, strict=True)))
        self._writer = pcsv.CSVWriter(UnclosableStream(stream), self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [text_column(column, self._show) for column in batch.columns]
        if self._guarded:
            columns = [_guard_formulas(column) for column in columns]
        self._writer.write_batch(pa.record_batch(columns, names=batch.schema.names).cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def _guard_formulas(column: pa.Array) -> pa.Array:
    """Text that is no formula for a spreadsheet; other columns as they are."""
    import pyarrow.compute as pc

    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    return pc.replace_substring_regex(column, pattern=FORMULA, replacement=r"'\1")


class ArrowWriter:
    """Arrow IPC: a file, which can be mapped into memory, or a stream, which can be read while it is written."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, settings: WriterSettings, *, as_file: bool = True) -> None:
        usual = "zstd" if WIDE in schema.names else NOT_PACKED  # else nulls take 10 KB a row
        codec = settings.compression or usual
        options = pa.ipc.IpcWriteOptions(compression=None if codec == NOT_PACKED else codec)
        make = pa.ipc.new_file if as_file else pa.ipc.new_stream
        self._writer: Any = make(UnclosableStream(stream), schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class ParquetWriter:
    """Parquet; batches are gathered to row groups of :data:`ROW_GROUP` rows or :data:`ROW_GROUP_BYTES`."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema, settings: WriterSettings) -> None:
        import pyarrow.parquet as pq

        encoded = [field for field in schema if pa.types.is_dictionary(field.type)]  # of answers of SQL
        for field in encoded:
            schema = schema.set(schema.get_field_index(field.name), field.with_type(field.type.value_type))
        self._encoded, schema = bool(encoded), file_schema(schema)
        self._schema, self._rows, self._order = schema, settings.row_group, settings.order
        compression = settings.compression or "zstd"
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        of_messages = (schema.metadata or {}).get(b"wiredecode.table") == MESSAGES.encode()
        make = partial(
            pq.ParquetWriter,
            schema=schema,
            compression=compression,
            use_dictionary=texts if of_messages else True,  # dictionaries of numbers and bodies would be larger
            write_statistics=[field.name for field in schema if not pa.types.is_binary(field.type)],
            dictionary_pagesize_limit=DICTIONARY_BYTES,
            max_rows_per_page=PAGE_ROWS,
        )
        self._wide = WIDE in schema.names
        self._file = open_parquet(stream, make, wide=self._wide)
        self._waiting: list[pa.RecordBatch] = []
        self._count = self._groups = 0
        self.waiting_bytes = 0
        """Held back for the next row group."""

    def write(self, batch: pa.RecordBatch) -> None:
        while self._count + len(batch) >= self._rows:
            room = self._rows - self._count
            self._keep(batch.slice(0, room))
            self.flush()
            batch = batch.slice(room)
        if len(batch):
            self._keep(batch)
        if self.waiting_bytes >= ROW_GROUP_BYTES:
            self.flush()

    def _keep(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch.cast(self._schema) if self._encoded else batch)
        self._count += len(batch)
        self.waiting_bytes += WIDE_BATCH_BYTES * self._wide + sum(map(weight, batch.columns))

    def flush(self) -> None:
        """Write what waits as a row group."""
        if self._count:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._waiting, self._count, self.waiting_bytes = [], 0, 0
            if self._order is not None:
                table = sorted_by(table, self._order)
            self._file.write(table)
            self._groups += 1
            if self._wide:
                del table
                trim_memory()
                if self._groups % GROWTH == 0:
                    self._rows *= 2

    def close(self) -> None:
        self.flush()
        self._file.close()


def sorted_by(table: pa.Table, name: str) -> pa.Table:
    """The rows sorted by a column of integers without nulls; those of one value stay as they are."""
    values = table[name].to_numpy()
    if (values[1:] >= values[:-1]).all():
        return table
    return table.take(values.argsort(kind="stable"))


def weight(column: pa.Array) -> int:
    """Bytes of the values of a column. Most members of ``layers`` are null, and share one buffer of nulls."""
    if column.null_count == len(column):
        return 0
    if pa.types.is_struct(column.type):
        return sum(weight(column.field(index)) for index in range(column.type.num_fields))
    return int(column.nbytes)


WRITERS: dict[str, Callable[[BinaryIO, pa.Schema, WriterSettings], Writer]] = {
    "ndjson": partial(JsonWriter, as_array=False),
    "json": JsonWriter,
    "csv": CsvWriter,
    "parquet": ParquetWriter,
    "arrow": ArrowWriter,
    "arrows": partial(ArrowWriter, as_file=False),
}
