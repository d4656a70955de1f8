"""The files that tasks have written become the tables of a run, all at once (``spark/folder.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from wiredecode.spark.accounts import Accounts, tables
from wiredecode.spark.folder import Folder, Move
from wiredecode.spark.merging import Merger, TaskFile, groups
from wiredecode.spark.writing import FILES, FINDINGS, FOUND, TaskWriter, findings
from wiredecode.tables.portable import portable_schema
from wiredecode.tables.reader import FRAMES, table_schema
from wiredecode.tables.schema import select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MERGERS = 2
"""Tasks per core that merge files."""


def task_writer(folder: Folder, level: str, columns: Sequence[str]) -> TaskWriter:
    """What tasks of a run write with."""
    return TaskWriter(folder.place(folder.attempts), level, tuple(columns), folder.id)


def publish(tasks: DataFrame, folder: Folder, level: str) -> Accounts:
    """Have the tasks write, and put their files into the tables of the run; ``tasks``: rows of what they report."""
    files, accounts = collected(tasks, folder)
    moves = joined(tasks.sparkSession, folder, files)
    folder.make(folder.table(level))
    folder.move((name, folder.table(to)) for name, to in moves)
    for name, table in tables(accounts).items():
        folder.write(f"{folder.table(name)}/part-0.parquet", table)
    if level == FRAMES and not any(to.startswith(FINDINGS) for _, to in moves):
        nothing = pa.RecordBatch.from_pylist([], select(portable_schema(table_schema(FRAMES)), [*FOUND, FINDINGS]))
        folder.write(f"{folder.table(FINDINGS)}/part-0.parquet", pa.Table.from_batches([findings(nothing)]))
    return accounts


def collected(tasks: DataFrame, folder: Folder) -> tuple[list[TaskFile], Accounts]:
    """What the tasks tell: their files that count, and their reports."""
    rows = tasks.collect()
    files = [
        TaskFile(row.folder, f"{folder.attempts}/{row.file}", row.bytes, row.in_order)
        for row in rows
        if row.file is not None
    ]
    return files, Accounts.of(row.report for row in rows if row.report is not None)


def joined(spark: SparkSession, folder: Folder, files: Sequence[TaskFile]) -> list[Move]:
    """The files that there are when small ones are joined, and all are in order, and the names that they are to get."""
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = groups(files)
    gone = {name for group in wanted for name in group.files}
    found = [(each.file, each.folder) for each in files if each.file not in gone]
    if wanted:
        tasks = min(len(wanted), MERGERS * spark.sparkContext.defaultParallelism)
        merger = Merger(folder.out, folder.attempts, tuple(wanted), folder.id)
        made = spark.range(0, len(wanted), 1, tasks).mapInArrow(merger, from_arrow_schema(FILES)).collect()
        found += [(f"{folder.attempts}/{row.file}", row.folder) for row in made]
    return [(name, f"{to}/{name.rpartition('/')[2]}") for name, to in found]
