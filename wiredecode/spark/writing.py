"""Files that the decoding tasks write, for lakes and folders alike, without another shuffle (docs/spark.md, "Output").

A task names its files after its run and itself, and returns a row per file, and the reports. The driver gets the rows
of one attempt of each task, and makes these files part of their tables: those of Iceberg and Delta by the same code as
``wiredecode export`` (``export/lake``), without a package of Java; those of a folder in ``folder.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.dataclasses import asdict, dataclass, replace
from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import AlreadyThere, TableRun
from wiredecode.export.lake.table import (
    DAY,
    FILE_BYTES,
    TABLES,
    LakeWriter,
    TableFiles,
    TaskStore,
    Written,
    commit,
    commit_table,
    remove,
)
from wiredecode.export.partition import PartitionWriter
from wiredecode.spark.accounts import TaskReports, flows_table, tables
from wiredecode.spark.decode import Decoded
from wiredecode.spark.pipeline import REPORTED, one_row
from wiredecode.tables.portable import PROTOCOL, TIME_NS, by_protocol
from wiredecode.tables.reader import CONNECTIONS, FLOWS, FRAMES, MESSAGES, PACKETS

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


class LakeRun:
    """The driver's part of one run, or of one step of increments, for the place ``out``.

    ``run``: what is added to a table, by its name. Levels whose table has the captures already are left out. Raises
    AlreadyThere if all levels are, and LakeError.
    """

    def __init__(
        self,
        out: str,
        levels: Iterable[str],
        run: Callable[[str], TableRun],
        selected: Callable[[str], str],
        *,
        overwrite: bool,
    ) -> None:
        self.lake, self.run, self.selected, self.overwrite = open_lake(out), run, selected, overwrite
        self.runs = {level: table_run for level in levels if not self._is_there(table_run := run(level))}
        if not self.runs:
            raise AlreadyThere
        self.sink = TaskSink(self.lake.task_store(), self.runs)

    def _is_there(self, run: TableRun) -> bool:
        try:
            if run.captures:
                run.replaces(self.lake.find_known(TABLES, run), overwrite=self.overwrite)
        except AlreadyThere:
            return True
        return False

    def commit(self, tasks: DataFrame) -> TaskReports:
        """Have the tasks write, and commit their files; ``tasks``: rows of :data:`FILES`."""
        files, schemas, accounts = write_all(tasks)
        uncommitted = {level: [file for file in files if file.table.partition("_")[0] == level] for level in self.runs}
        if FLOWS in self.runs:
            writer = LakeWriter(self.lake, FLOWS, self.runs[FLOWS])
            for batch in flows_table(accounts).to_batches():
                writer.write(batch)
            writer.close()
            uncommitted[FLOWS] = writer.take()
        try:
            for table, schema in schemas.items():
                self.lake.prepare(table, schema)
            for level, run in self.runs.items():
                commit(self.lake, level, run, uncommitted.pop(level), self.selected(level), overwrite=self.overwrite)
            for name, rows in tables(accounts).items():
                commit_table(self.lake, name, self.run(name), rows, overwrite=self.overwrite)
        finally:
            for some in uncommitted.values():
                remove(self.lake, some)
        return accounts
