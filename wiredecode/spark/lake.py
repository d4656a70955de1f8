"""Tables of Iceberg and Delta from Spark: tasks write their files where they belong, the driver commits them.

Neither needs a package of Java. The same code as that of ``wiredecode export`` decides what is there already
(``export/lake``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import AlreadyThere, TableRun
from wiredecode.export.lake.table import TABLES, LakeWriter, commit, commit_table, remove
from wiredecode.spark.accounts import TaskReports, flows_table, tables
from wiredecode.spark.writing import TaskSink, write_all
from wiredecode.tables.reader import FLOWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
        """Have the tasks write, and commit their files; ``tasks``: rows of :data:`writing.FILES`."""
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
