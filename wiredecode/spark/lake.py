"""Tables of Iceberg and Delta from Spark: tasks write their files where they belong, the driver commits them.

Neither needs a package of Java. The same code as that of ``wiredecode export`` decides what is there already
(``export/lake``); what tasks tell is one row per file, see :data:`TOLD`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from wiredecode.capture import CaptureError
from wiredecode.capture.listing import listing
from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import Known, TableRun, run_of
from wiredecode.export.lake.table import Lake, Places, Written, create_file, remove_file
from wiredecode.export.lake.writer import TABLES, LakeWriter
from wiredecode.spark.accounts import Accounts
from wiredecode.spark.decode import REPORTED, one_row, without_reports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TOLD = pa.schema(
    [
        *((name, pa.string()) for name in ("table", "path", "day")),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("schema", pa.binary()),
        REPORTED,
    ]
)
"""What a task tells: a file, with the schema of its table, or a report."""


class TaskLake(Lake):
    """What a task may do: write files."""

    def __init__(self, places: Places) -> None:
        self._places, self.day = places, places.day
        self.schemas: dict[str, bytes] = {}

    def tables(self) -> list[str]:
        return []

    def files(self, name: str) -> list[str]:
        return []

    def known(self, name: str, run: TableRun) -> dict[int, Known]:
        return {}

    def make(self, name: str, schema: pa.Schema) -> None:
        """The driver makes it."""
        self.schemas[name] = schema.serialize().to_pybytes()

    def create(self, name: str, path: str) -> BinaryIO:
        return create_file(self._places.path(name, path))

    def remove(self, name: str, path: str) -> None:
        remove_file(self._places.path(name, path))

    def add(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> None:
        raise NotImplementedError("the driver commits")

    def places(self) -> Places:
        return self._places


@dataclass(frozen=True)
class LakeSink:
    """Writes rows of ``pipeline.rows`` to files of tables, and tells rows of :data:`TOLD`."""

    places: Places
    level: str
    columns: tuple[str, ...]
    run: TableRun
    schema: pa.Schema = TOLD

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        lake = TaskLake(self.places)
        writer = LakeWriter(lake, self.level, self.run)
        try:
            for reports, batch in without_reports(rows):
                yield from (one_row(TOLD, report=text) for text in reports)
                if len(batch):
                    writer.write(batch.select(list(self.columns)))
            writer.close()
        except BaseException:
            writer.discard()
            raise
        for each in writer.complete():
            file = {"table": each.table, "path": each.path, "day": each.day, "rows": each.rows, "bytes": each.size}
            yield one_row(TOLD, **file, schema=lake.schemas[each.table])


class LakeRun:
    """The driver's part of one run, or of one step of increments, for the place ``out``."""

    def __init__(
        self, out: str, level: str, columns: Sequence[str], run: TableRun, selected: str, *, overwrite: bool
    ) -> None:
        self.lake, self.level, self.run, self.selected, self.overwrite = open_lake(out), level, run, selected, overwrite
        if run.captures:
            run.replaces(self.lake.known(TABLES, run), overwrite=overwrite)
        self.sink = LakeSink(self.lake.places(), level, tuple(columns), run)
        self.writer = LakeWriter(self.lake, level, run)

    def commit(self, tasks: DataFrame) -> Accounts:
        """Have the tasks write, and commit their files; ``tasks``: rows of :data:`TOLD`."""
        for row in (found := tasks.collect()):
            if row.path is not None:
                schema = pa.ipc.read_schema(pa.py_buffer(row.schema))
                self.writer.adopt(Written(row.table, row.path, row.rows, row.bytes, row.day), schema)
        try:
            self.writer.commit(self.selected, overwrite=self.overwrite)
        finally:
            self.writer.discard()
        return Accounts.of(row.report for row in found if row.report is not None)


def captures(paths: Sequence[str], selected: str) -> TableRun:
    """The run of all files behind ``paths``, as ``pipeline.rows`` reads them."""
    names: list[str] = []
    for path in paths:
        with suppress(CaptureError):  # decoding tells it
            names += [each.name for each in listing(path)]
    return run_of(sorted(dict.fromkeys(names)), selected)
