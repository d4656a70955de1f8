"""Tables of Iceberg and Delta from Spark: tasks write their files where they belong, the driver commits them.

Neither needs a package of Java. The same code as that of ``wiredecode export`` decides what is there already
(``export/lake``); tasks report one row per file, see :data:`TOLD`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import AlreadyThere, TableRun
from wiredecode.export.lake.table import TABLES, LakeWriter, Places, Written, commit, remove
from wiredecode.spark.accounts import Accounts
from wiredecode.spark.decode import Decoded
from wiredecode.spark.pipeline import REPORTED, one_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOLD = pa.schema(
    [
        *((name, pa.string()) for name in ("table", "path", "day")),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("schema", pa.binary()),
        REPORTED,
    ]
)
"""Report of a task: a file, with the schema of its table, or accounts."""


@dataclass(frozen=True)
class LakeSink:
    """Writes decoded rows to files of tables, and returns rows of :data:`TOLD`; ``runs``: by level."""

    places: Places
    runs: Mapping[str, TableRun]
    schema: pa.Schema = TOLD

    def __call__(self, items: Iterator[Decoded]) -> Iterator[pa.RecordBatch]:
        store = replace(self.places, schemas={})
        writers = {level: LakeWriter(store, level, run) for level, run in self.runs.items()}
        try:
            for item in items:
                if isinstance(item, str):
                    yield one_row(TOLD, report=item)
                elif item[0] in writers:
                    writers[item[0]].write(item[1])
            for writer in writers.values():
                writer.close()
        except BaseException:
            for writer in writers.values():
                writer.discard()
            raise
        for each in (file for writer in writers.values() for file in writer.take()):
            yield one_row(TOLD, **asdict(each), schema=store.schemas[each.table].serialize().to_pybytes())


class LakeRun:
    """The driver's part of one run, or of one step of increments, for the place ``out``; ``runs``: by level.

    Levels whose table has the captures already are left out. Raises AlreadyThere if all levels are, and LakeError.
    """

    def __init__(
        self, out: str, runs: Mapping[str, TableRun], selected: Callable[[str], str], *, overwrite: bool
    ) -> None:
        self.lake, self.selected, self.overwrite = open_lake(out), selected, overwrite
        self.runs = {level: run for level, run in runs.items() if not self._is_there(run)}
        if not self.runs:
            raise AlreadyThere
        self.sink = LakeSink(self.lake.places(), self.runs)

    def _is_there(self, run: TableRun) -> bool:
        try:
            if run.captures:
                run.replaces(self.lake.known(TABLES, run), overwrite=self.overwrite)
        except AlreadyThere:
            return True
        return False

    def commit(self, tasks: DataFrame) -> Accounts:
        """Have the tasks write, and commit their files; ``tasks``: rows of :data:`TOLD`."""
        files: dict[str, list[Written]] = {level: [] for level in self.runs}
        schemas: dict[str, pa.Schema] = {}
        for row in (found := tasks.collect()):
            if row.path is not None:
                level = row.table.partition("_")[0]  # frames are a table per protocol
                files[level].append(Written(row.table, row.path, row.rows, row.size, row.day))
                schemas.setdefault(row.table, row.schema)
        try:
            for table, schema in schemas.items():
                self.lake.prepare(table, pa.ipc.read_schema(pa.py_buffer(schema)))
            for level, run in self.runs.items():
                commit(self.lake, level, run, files.pop(level), self.selected(level), overwrite=self.overwrite)
        finally:
            for some in files.values():
                remove(self.lake, some)
        return Accounts.of(row.report for row in found if row.report is not None)
