"""Tables written by the tasks that decode: Parquet, without another shuffle (docs/spark.md, "Output").

A task writes files under names of its attempt, flat in a folder of their own, and its rows are only what it wrote: one
per file, and the reports. Spark hands the driver the rows of one attempt of each task; ``spark/merging.py`` joins files
that are small, they get their places, and what other attempts have left is removed with the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.export.lake.table import create_file
from wiredecode.export.partition import PartitionWriter
from wiredecode.export.writers import ParquetWriter, Settings
from wiredecode.spark.decode import Decoded
from wiredecode.spark.pipeline import REPORTED, one_row
from wiredecode.tables.portable import PROTOCOL, TIME, TIME_NS, of_protocol
from wiredecode.tables.reader import CONNECTIONS, FRAMES, MESSAGES, PACKETS

DAY, FINDINGS = "day", "findings"
LEVELS: dict[str, tuple[str, ...]] = {
    FRAMES: (PROTOCOL, DAY),
    MESSAGES: (DAY, PROTOCOL, "operation"),
    PACKETS: (DAY, "transport"),
    CONNECTIONS: (DAY,),
}
"""The tables, and the columns that name their folders. Frames of each protocol are a table with its own columns."""
KEPT = {
    FRAMES: ("source", "frame", "time", "time_ns", "connection", "src", "dst", PROTOCOL, "type", "findings"),
    MESSAGES: ("source", "frame", "index", "time", "time_ns", PROTOCOL, "operation"),
    PACKETS: ("source", "packet", "time", "time_ns", "transport"),
    CONNECTIONS: ("source", "connection", "time", "time_ns"),
}
"""Columns that are always written: folders, order and findings need them."""
FOUND = ("source", "connection", "frame", "time", "time_ns", "src", "dst", PROTOCOL, "type")
"""Columns of the frame in the table of findings."""
FILE_BYTES = 128 << 20
"""A file of this size is finished, and the next row begins another."""
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
"""Report of a task: a file, and the folder that it belongs to, or accounts. ``in_order``: its rows are sorted by time
from one end to the other, not only those of each row group."""


@dataclass(frozen=True)
class TaskWriter:
    """Writes decoded rows to files in the folder ``place``, and returns rows of :data:`FILES`.

    Files of frames have the layers of their protocol only, and findings are a table beside them. ``name``: of the
    run, so that files of two have different names.
    """

    place: str
    name: str = "0"
    schema: pa.Schema = FILES

    def __call__(self, items: Iterator[Decoded]) -> Iterator[pa.RecordBatch]:
        attempt = Attempt(self.place, f"{self.name}-{attempt_name()}")
        writers: dict[str, PartitionWriter] = {}
        try:
            for item in items:
                if isinstance(item, str):
                    yield one_row(FILES, report=item)
                    continue
                for table, part in _tables(*item):
                    if table not in writers:
                        writers[table] = _writer(attempt, table, part.schema)
                    writers[table].write(part)
            for writer in writers.values():
                writer.close()
        except BaseException:
            for writer in writers.values():
                writer.discard()
            raise
        yield from attempt.complete


def _tables(level: str, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    yield level, with_day(rows)
    if level == FRAMES and len(found := findings(rows)):
        yield FINDINGS, with_day(found)


def _writer(attempt: Attempt, table: str, schema: pa.Schema) -> PartitionWriter:
    shape = of_protocol if table == FRAMES else None
    files = replace(attempt, table=f"{table}/")  # they share their lists
    return PartitionWriter(files, schema, LEVELS.get(table, (DAY,)), attempt.writer, FILE_BYTES, shape)


def findings(frames: pa.RecordBatch) -> pa.RecordBatch:
    """A row per finding, and which frame has it."""
    lists = frames.column(FINDINGS)
    each = pc.list_flatten(lists)
    rows = frames.select(list(FOUND)).take(pc.list_parent_indices(lists))
    names = [*FOUND, *(member.name for member in each.type)]
    return pa.record_batch([*rows.columns, *each.flatten()], names)


def with_day(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, and their day (UTC)."""
    days = rows.column(TIME).cast(pa.timestamp("us")).cast(pa.date32())  # without a zone no database of zones is needed
    return rows.append_column(DAY, days)


def attempt_name() -> str:
    """A name that no other attempt of a task of this session has."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return "0" if context is None else f"{context.partitionId():05}-{context.taskAttemptId()}"


@dataclass
class Attempt:
    """The files of one attempt, with names of their own in the folder ``place``; ``table``: before their folders."""

    place: str
    name: str
    table: str = ""
    complete: list[pa.RecordBatch] = field(default_factory=list)
    """Rows of :data:`FILES`."""
    _names: dict[str, str] = field(default_factory=dict)
    """The file that is being written, by folder."""
    _writers: dict[int, ParquetWriter] = field(default_factory=dict)
    """By the identity of the stream."""
    _numbers: Iterator[int] = field(default_factory=count)

    def begin(self, place: str, number: int = 0) -> BinaryIO:
        name = self._names[self.table + place] = f"part-{self.name}-{next(self._numbers)}.parquet"
        return create_file(f"{self.place}/{name}")

    def writer(self, stream: BinaryIO, schema: pa.Schema) -> ParquetWriter:
        made = self._writers[id(stream)] = ParquetWriter(stream, schema, Settings(order=TIME_NS.name))
        return made

    def end(self, place: str, stream: BinaryIO, rows: int) -> None:
        folder, in_order = self.table + place, self._writers.pop(id(stream)).in_order
        file = {"folder": folder, "file": self._names.pop(folder), "rows": rows, "bytes": stream.tell()}
        self.complete.append(one_row(FILES, **file, in_order=in_order))
