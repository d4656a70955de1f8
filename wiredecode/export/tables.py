"""Rows of any level through Arrow, in one file or in partitions, and the choice of rows and columns."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.dataclasses import dataclass, replace
from wiredecode.export.atomic import NewFolder
from wiredecode.export.job import Export, ExportJob
from wiredecode.export.partition import TIMES, LocalFiles, PartitionWriter, check_partition
from wiredecode.export.writers import ROW_GROUP, WRITERS, Writer, WriterSettings
from wiredecode.frames.record import BYTES
from wiredecode.tables.portable import portable_rows, portable_schema, table_columns
from wiredecode.tables.reader import TIME, LevelsReader, table_schema
from wiredecode.tables.schema import column_names, field_of
from wiredecode.tables.windows import Processes


@dataclass(frozen=True)
class Projection:
    """Columns in the order in which they were asked for; ``layers.nats.subject`` becomes a column of that name."""

    columns: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, schema: pa.Schema, columns: Sequence[str] | None) -> "Projection":
        """``schema`` has the columns, nested ones in their structures; None: all of its columns."""
        if columns is None:
            return cls(tuple(schema.names), schema)
        columns = column_names(schema, columns)
        fields = [field_of(schema, name).with_name(name).with_nullable(True) for name in columns]
        return cls(tuple(columns), pa.schema(fields, schema.metadata))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the projection, unless it was applied."""
        if self.schema.equals(batch.schema):
            return batch
        paths = [name.split(".") for name in self.columns]
        return pa.record_batch([_below(batch.column(first), inner) for first, *inner in paths], schema=self.schema)


def _below(column: pa.Array, path: list[str]) -> pa.Array:
    """A field of structures; if they are in arrays, all its values of a row as one list."""
    if not path:
        return column
    if not pa.types.is_list(column.type):
        return _below(pc.struct_field(column, path[0]), path[1:])
    values, ends = _below(column.values, path), pa.concat_arrays([column.offsets])
    if pa.types.is_list(values.type):
        values, ends = values.values, values.offsets.take(ends)
    return pa.ListArray.from_arrays(ends, values, mask=column.is_null())


class TableExport(Export):
    """Rows as Parquet, Arrow or CSV, or of messages, packets and connections as JSON."""

    inner_comments = False
    """Whether the output has the meanings of the fields of layers."""

    def __init__(self, job: ExportJob, standard: BinaryIO) -> None:
        super().__init__(job, standard)
        self.unit = job.level.removesuffix("s")
        self.columns = job.demand.columns
        self.writer: Writer | None = None
        self.portable: pa.Schema | None = None
        """Schema of rows in Parquet."""

    def begin(self, *, analyse: bool) -> LevelsReader:
        """Open the output; return the reader of rows. Raises ValueError, FileExistsError, NotADirectoryError."""
        reader = self._read(analyse=analyse)
        schema = reader.schemas[self.job.level] if self.portable is None else self.portable
        self.projection = Projection.of(schema, self._columns(schema))
        if self.job.writes:
            self.writer = self._open_writer()
        return reader

    def share(self, reader: LevelsReader, exchange: Processes) -> None:
        """Get the rows of several processes, which each shapes."""
        reader.share(exchange, self.projection.schema, self.shape_rows)

    def _read(self, *, analyse: bool) -> LevelsReader:
        job, columns = self.job, self._needed_columns()
        choice = job.bytes if job.bytes and not self.form.is_text else "raw"
        reader = LevelsReader(replace(job.read_twice(), columns=columns, bytes_choice=choice, analyse=analyse))
        if self.form.name == "parquet":
            self.portable = portable_schema(reader.schemas[job.level], inner_comments=self.inner_comments)
        return reader

    def _needed_columns(self) -> list[str] | None:
        """The columns to read, also for partitions and a selection by time; those of Parquet are derived from them."""
        if self.columns is None:
            return None
        portable = self.form.name == "parquet"
        if portable:
            self.columns = column_names(
                portable_schema(table_schema(self.job.level), inner_comments=False), self.columns
            )
        timed = self.job.start is not None or self.job.end is not None
        wanted = [*self.columns, *self._by(), *([TIME] if timed else [])]
        return table_columns(wanted) if portable else list(dict.fromkeys(wanted))

    def _by(self) -> list[str]:
        """The columns that name partitions."""
        return [TIME if name in TIMES else name for name in self.job.partitions]

    def _columns(self, schema: pa.Schema) -> list[str]:
        """The columns that are written: those asked for, and those that name partitions."""
        by = self._by()
        for name in by:
            check_partition(schema, name)
        return list(dict.fromkeys([*(self.columns or schema.names), *by]))

    def _open_writer(self) -> Writer:
        job, make = self.job, WRITERS[self.form.name]
        groups = job.row_group or ROW_GROUP
        settings = WriterSettings(BYTES[job.bytes or "hex"], self.form.compression, groups, job.guard_formulas)
        if not job.partitions:
            self.open()
            return make(self.packed, self.projection.schema, settings)
        self.output = NewFolder(Path(job.out), overwrite=job.overwrite)
        return PartitionWriter(
            LocalFiles(self.output.part, self.form.suffix),
            self.projection.schema,
            job.partitions,
            lambda stream, schema: make(stream, schema, settings),
        )

    def write(self, items: Iterable[pa.RecordBatch]) -> None:
        """Write rows, as :meth:`shape_rows` returns them."""
        for rows in items:
            if len(rows):
                assert self.writer is not None
                self.writer.write(rows)
            self.done += len(rows)

    def shape_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self.projection.apply(self.made_portable(rows))

    def made_portable(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows if self.portable is None else portable_rows(rows, "", self.portable)

    def end(self) -> None:
        """Write what ends the format."""
        assert self.writer is not None
        self.writer.close()

    def discard(self) -> None:
        """Remove the unfinished output."""
        if isinstance(self.writer, PartitionWriter):
            self.writer.discard()
        super().discard()
