"""What tasks have written becomes tables: of a run, all at once (``spark/folder.py``), of a stream, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from wiredecode.spark.accounts import PROBLEMS, TOTALS, Accounts, summed, tables
from wiredecode.spark.folder import Folder, Move, alone
from wiredecode.spark.merging import SMALL_BYTES, Merger, TaskFile, groups
from wiredecode.spark.writing import FILES, FINDINGS, FOUND, TaskWriter, findings
from wiredecode.tables.portable import portable_schema
from wiredecode.tables.reader import FRAMES, table_schema
from wiredecode.tables.schema import select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MERGERS = 2
"""Tasks per core that merge files."""
MANY = 16
"""So many small files of a folder, of earlier steps of a stream, are joined."""


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


def step(
    out: str,
    level: str,
    columns: Sequence[str],
    stream: str,
    number: int,
    rows_of: Callable[[TaskWriter], DataFrame],
    replaced: Sequence[str] | None = None,
) -> tuple[Accounts, list[str]]:
    """A step of a stream, once, however often it is done; what was reported, and the files that it brought.

    ``rows_of``: the rows of a task writer. ``replaced``: files whose rows it brings anew; None: it only adds, and joins
    small files of earlier steps with its own.
    """
    with alone(out):
        folder = Folder(out)
        there = folder.has_step(stream, number)
        folder.begin()
        try:
            rows = rows_of(task_writer(folder, level, columns))
            files, accounts = collected(rows, folder)
            if there:  # who calls does not know, and wants the states to be brought to that step
                folder.discard()
                return accounts, [to for _, to in (folder.last_step() or {})["moves"]]
            before = small_files(folder, {each.folder for each in files}) if replaced is None else []
            moves = joined(rows.sparkSession, folder, [*before, *files])
            for name, table in tables(accounts).items():
                if len(table):
                    moves.append((f"{folder.run}/{name}.parquet", f"{name}/part-{folder.id}.parquet"))
                    folder.write(moves[-1][0], table)
        except BaseException:
            folder.discard()
            raise
        kept = {name for name, to in moves if name == to}
        moves = [(name, to) for name, to in moves if name != to]
        gone = [*(replaced or ()), *(each.file for each in before if each.file not in kept)]
        folder.add(stream, number, moves, gone)
        return accounts, [to for _, to in moves]


def small_files(folder: Folder, names: Iterable[str]) -> list[TaskFile]:
    """Small files that earlier steps have left in some folders, of those that have :data:`MANY`."""
    found = []
    for name in sorted(names):
        small = [each for each in folder.list(name) if each.size is not None and each.size < SMALL_BYTES]
        if len(small) >= MANY:
            found += [TaskFile(name, f"{name}/{each.base_name}", each.size, in_order=True) for each in small]
    return found


def finish(out: str, level: str) -> None:
    """A stream has come to its end: its totals become those of a run, and the folder is marked as complete."""
    folder = Folder(out)
    last = folder.last_step()
    if last is None:
        return
    for name in (TOTALS, PROBLEMS):
        parts = [f"{name}/{each}" for each in folder.names(name)]
        if len(parts) > 1:
            whole = pa.concat_tables([folder.read(part) for part in parts])
            made = f"{folder.run}/{name}.parquet"
            folder.write(made, summed(whole) if name == TOTALS else whole)
            folder.add(last["stream"], last["number"], [(made, f"{name}/part-{folder.id}.parquet")], parts)
    folder.done({"level": level})
