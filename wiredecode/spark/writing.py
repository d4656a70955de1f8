"""Files that the decoding tasks write, for lakes and folders alike, without another shuffle (docs/spark.md, "Output").

A task names its files after its run and itself, and returns a row per file, and the reports. The driver gets the rows
of one attempt of each task, and makes these files part of their tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.dataclasses import asdict, dataclass, replace
from wiredecode.export.lake.run import TableRun
from wiredecode.export.lake.table import DAY, FILE_BYTES, LakeWriter, TableFiles, TaskStore, Written
from wiredecode.export.partition import PartitionWriter
from wiredecode.spark.accounts import TaskReports
from wiredecode.spark.decode import Decoded
from wiredecode.spark.pipeline import REPORTED, one_row
from wiredecode.tables.portable import PROTOCOL, TIME_NS, by_protocol
from wiredecode.tables.reader import CONNECTIONS, FRAMES, MESSAGES, PACKETS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FINDINGS = "findings"
PARTITION_COLUMNS: dict[str, tuple[str, ...]] = {
    FRAMES: (PROTOCOL, DAY),
    MESSAGES: (DAY, PROTOCOL, "operation"),
    PACKETS: (DAY, "transport"),
    CONNECTIONS: (DAY,),
}
"""The tables, and the columns that name their folders. Frames of each protocol are a table with its own columns."""
REQUIRED_COLUMNS = {
    FRAMES: ("source", "frame", "time", "time_ns", "connection", "src", "dst", PROTOCOL, "type", "findings"),
    MESSAGES: ("source", "frame", "index", "time", "time_ns", PROTOCOL, "operation"),
    PACKETS: ("source", "packet", "time", "time_ns", "transport"),
    CONNECTIONS: ("source", "connection", "time", "time_ns"),
}
"""Columns that are always written: folders, order and findings need them."""
FOUND = ("source", "connection", "frame", "time", "time_ns", "src", "dst", PROTOCOL, "type")
"""Columns of the frame in the table of findings."""
FILES = pa.schema(
    [
        *((name, pa.string()) for name in ("table", "path", "day")),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("schema", pa.binary()),
        REPORTED,
    ]
)
"""Report of a task: a file, the first one with the schema of its table, or accounts."""


class FolderWriter(LakeWriter):
    """Writes tables of a plain folder: frames are one table, and findings are a table beside them."""

    order = TIME_NS.name

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.level != FRAMES:
            yield self.level, rows
            return
        yield from ((FRAMES, part) for _, part in by_protocol(rows))
        if len(problems_found := findings(rows)):
            yield FINDINGS, problems_found

    def schema(self, rows: pa.RecordBatch) -> pa.Schema:
        """Empty: files have their own schemas."""
        return pa.schema([])

    def writer(self, files: TableFiles, schema: pa.Schema) -> PartitionWriter:
        by = PARTITION_COLUMNS.get(files.table, (DAY,))
        return PartitionWriter(files, schema, by, self.parquet, FILE_BYTES, self.beside)


@dataclass(frozen=True)
class TaskSink:
    """Writes decoded rows to files of tables, and returns rows of :data:`FILES`; ``runs``: by level."""

    task_store: TaskStore
    runs: Mapping[str, TableRun]
    writer: type[LakeWriter] = LakeWriter
    schema: pa.Schema = FILES

    def __call__(self, items: Iterator[Decoded]) -> Iterator[pa.RecordBatch]:
        store = replace(self.task_store, schemas={})
        writers = {level: self.writer(store, level, run) for level, run in self.runs.items()}
        beside: list[PartitionWriter] = []
        for writer in writers.values():
            writer.beside = beside
        try:
            for item in items:
                if isinstance(item, str):
                    yield one_row(FILES, report=item)
                elif item[0] in writers:
                    writers[item[0]].write(item[1])
            for writer in writers.values():
                writer.close()
        except BaseException:
            for writer in writers.values():
                writer.discard()
            raise
        for each in (file for writer in writers.values() for file in writer.take()):
            schema = store.schemas.pop(each.table, None)
            yield one_row(FILES, **asdict(each), schema=None if schema is None else schema.serialize().to_pybytes())


def write_all(tasks: DataFrame) -> tuple[list[Written], dict[str, pa.Schema], TaskReports]:
    """Have the tasks write; return their files, the schemas of the tables, and their accounts."""
    rows = tasks.collect()
    files = [Written(row.table, row.path, row.rows, row.size, row.day) for row in rows if row.path is not None]
    schemas = {row.table: pa.ipc.read_schema(pa.py_buffer(row.schema)) for row in rows if row.schema is not None}
    return files, schemas, TaskReports.of(row.report for row in rows if row.report is not None)


def findings(frames: pa.RecordBatch) -> pa.RecordBatch:
    """A row per finding, and which frame has it."""
    lists = frames.column(FINDINGS)
    each = pc.list_flatten(lists)
    rows = frames.select(list(FOUND)).take(pc.list_parent_indices(lists))
    names = [*FOUND, *(member.name for member in each.type)]
    return pa.record_batch([*rows.columns, *each.flatten()], names)
