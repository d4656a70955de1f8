"""Tables written by the tasks that decode: Parquet, without another shuffle (docs/spark.md, "Output").

A task writes files under names of its attempt, flat in a folder of their own, and its rows are only what it wrote: one
per file, and the reports. Spark hands the driver the rows of one attempt of each task; ``spark/merging.py`` joins those
that are small, these files get their places, and what other attempts have left is removed with the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import pyarrow as pa

from wiredecode.capture.remote import place_of
from wiredecode.export.partition import PartitionWriter
from wiredecode.export.writers import ParquetWriter, Settings
from wiredecode.spark.decode import REPORTED
from wiredecode.tables.narrow import PROTOCOL, of_protocol
from wiredecode.tables.portable import TIME, TIME_NS

DAY = "day"
FILE_BYTES = 128 << 20
"""A file of so many bytes is finished, and the next row begins another."""
FILES = pa.schema(
    [
        ("folder", pa.string()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("in_order", pa.bool_()),
        REPORTED,
    ]
)
"""What a task tells: a file and the folder of the table that it belongs to, or a report. ``in_order``: its rows are
sorted by time from one end to the other, not only those of each row group."""


@dataclass(frozen=True)
class TaskWriter:
    """Writes the rows of ``pipeline.rows`` to files in the folder ``place``, and tells rows of :data:`FILES`.

    ``columns``: those that are written. ``by``: what folders are named after, ``day`` (UTC) among them. Files of frames
    in folders of a protocol have the layers of this protocol only.
    """

    place: str
    columns: tuple[str, ...]
    by: tuple[str, ...]
    schema: pa.Schema = FILES

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = Attempt(self.place, attempt_name())
        shape = of_protocol if PROTOCOL in self.by else None
        writer: PartitionWriter | None = None
        try:
            for batch in rows:
                report = batch.column(REPORTED.name)
                if report.null_count < len(batch):
                    yield from (_told(report=text) for text in report.to_pylist())
                    continue
                made = with_day(batch.select(list(self.columns)))
                if writer is None:
                    writer = PartitionWriter(attempt, made.schema, self.by, attempt.writer, FILE_BYTES, shape)
                writer.write(made)
            if writer is not None:
                writer.close()
        except BaseException:
            if writer is not None:
                writer.discard()
            raise
        yield from attempt.complete


def with_day(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, and their day (UTC)."""
    days = rows.column(TIME).cast(pa.timestamp("us")).cast(pa.date32())  # without a zone no database of zones is needed
    return rows.append_column(DAY, days)


def attempt_name() -> str:
    """What no other attempt of a task of this session is called."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else f"{context.partitionId():05}-{context.taskAttemptId()}"


@dataclass
class Attempt:
    """The files of one attempt."""

    place: str
    name: str
    complete: list[pa.RecordBatch] = field(default_factory=list)
    """Rows of :data:`FILES`."""
    _names: dict[str, str] = field(default_factory=dict)
    """The file that is being written, by folder."""
    _writers: dict[int, ParquetWriter] = field(default_factory=dict)
    """By the identity of the stream."""
    _begun: int = 0

    def begin(self, place: str, number: int) -> BinaryIO:
        name = self._names[place] = f"part-{self.name}-{self._begun}.parquet"
        self._begun += 1
        found = place_of(f"{self.place}/{name}")
        return cast(BinaryIO, found.system.open_output_stream(found.path))

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> ParquetWriter:
        made = self._writers[id(stream)] = ParquetWriter(stream, schema, Settings(order=TIME_NS.name))
        return made

    def end(self, place: str, stream: BinaryIO, rows: int) -> None:
        in_order, name = self._writers.pop(id(stream)).in_order, self._names.pop(place)
        self.complete.append(_told(folder=place, file=name, rows=rows, bytes=stream.tell(), in_order=in_order))


def _told(**values: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], schema=FILES)
