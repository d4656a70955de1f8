"""The files that tasks have written become the tables of a run: small ones are joined, and rows are put in order.

A file is sorted by time within each row group, and mostly from one end to the other. Files are read a batch at a time
and merged, so memory depends on how many files are merged, not on how large they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from wiredecode.capture.remote import place_of
from wiredecode.export.writers import in_order
from wiredecode.spark.accounts import Accounts, tables
from wiredecode.spark.folder import Folder, Move
from wiredecode.spark.writing import FILES, FINDINGS, FOUND, Attempt, attempt_name, findings
from wiredecode.tables import bound_memory
from wiredecode.tables.portable import TIME_NS, portable_schema
from wiredecode.tables.reader import FRAMES, table_schema
from wiredecode.tables.schema import select

if TYPE_CHECKING:
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame, SparkSession

SMALL_BYTES, JOINED_BYTES = 4 << 20, 64 << 20
"""Files below the first size are joined, until they have the second one."""
MOST_FILES = 100
"""Files of a group that are open at the same time."""
BATCH_ROWS = 8192
MERGERS = 2
"""Tasks per core that merge files."""


class TaskFile(NamedTuple):
    """A file that is complete, by its name below the folder of all tables, and the folder that it belongs to."""

    folder: str
    file: str
    bytes: int
    in_order: bool


class Group(NamedTuple):
    """Files that become one."""

    folder: str
    files: tuple[str, ...]


def groups(files: Iterable[TaskFile]) -> list[Group]:
    """Small files of a folder together, and each one that is not in order."""
    found = []
    for folder, some in groupby(sorted(files), lambda each: each.folder):
        own = list(some)
        found += [Group(folder, (each.file,)) for each in own if each.bytes >= SMALL_BYTES and not each.in_order]
        small = [each for each in own if each.bytes < SMALL_BYTES]
        if len(small) > 1 or any(not each.in_order for each in small):
            found += [Group(folder, tuple(each.file for each in some)) for some in _shared(small)]
    return found


def _shared(files: list[TaskFile]) -> Iterator[list[TaskFile]]:
    """Consecutive files of about the same number of bytes together, each below :data:`JOINED_BYTES`."""
    group: list[TaskFile] = []
    size = 0
    for each in files:
        if group and (size + each.bytes > JOINED_BYTES or len(group) == MOST_FILES):
            yield group
            group, size = [], 0
        group.append(each)
        size += each.bytes
    if group:
        yield group


@dataclass(frozen=True)
class Merger:
    """Makes one file of each group of those below ``out``, in the folder ``attempts`` there; what it is handed are
    numbers of ``groups``. ``name``: of the run."""

    out: str
    attempts: str
    groups: tuple[Group, ...]
    name: str = "0"

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_memory()
        attempt = Attempt(f"{self.out}/{self.attempts}", f"{self.name}-joined-{attempt_name()}")
        for number in chain.from_iterable(batch.column(0).to_pylist() for batch in numbers):
            group = self.groups[number]
            with ExitStack() as stack:
                stream = stack.enter_context(attempt.begin(group.folder))
                runs = [run for name in group.files for run in self._runs(name, stack)]
                writer, rows = None, 0
                for each in merged(runs):
                    writer = writer or attempt.writer(stream, each.schema)
                    writer.write(each)
                    rows += len(each)
                if writer is not None:
                    writer.close()
                attempt.end(group.folder, stream, rows)
        yield from attempt.complete

    def _runs(self, name: str, stack: ExitStack) -> Iterator[Iterator[pa.RecordBatch]]:
        """The rows of a file, as parts that are sorted."""
        import pyarrow.parquet as pq

        found = place_of(f"{self.out}/{name}")
        file = stack.enter_context(pq.ParquetFile(stack.enter_context(found.system.open_input_file(found.path))))
        yield from (file.iter_batches(BATCH_ROWS, row_groups=run) for run in sorted_runs(file.metadata))


def sorted_runs(metadata: pq.FileMetaData) -> Iterator[list[int]]:
    """Row groups that follow each other in time."""
    run: list[int] = []
    latest = 0
    place = next(at for at in range(metadata.num_columns) if metadata.schema.column(at).path == TIME_NS.name)
    for number in range(metadata.num_row_groups):
        times = metadata.row_group(number).column(place).statistics
        if run and times.min < latest:
            yield run
            run = []
        run.append(number)
        latest = times.max
    if run:
        yield run


def merged(runs: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Batches that are each a sorted run, as one; rows of a run keep their order."""
    heads: dict[int, pa.RecordBatch] = {}
    for number, run in enumerate(runs):
        _advance(heads, number, run)
    while heads:
        limit = min(int(_times(head)[-1]) for head in heads.values())
        parts = []
        for number, head in sorted(heads.items()):
            count = int(np.searchsorted(_times(head), limit, "right"))
            if count:
                parts.append(head.slice(0, count))
            if count == len(head):
                _advance(heads, number, runs[number])
            elif count:
                heads[number] = head.slice(count)
        table = in_order(pa.Table.from_batches(parts), TIME_NS.name)
        yield from table.combine_chunks().to_batches()


def _advance(heads: dict[int, pa.RecordBatch], number: int, run: Iterator[pa.RecordBatch]) -> None:
    batch = next((each for each in run if len(each)), None)
    if batch is None:
        heads.pop(number, None)
    else:
        heads[number] = batch


def _times(batch: pa.RecordBatch) -> Any:
    return batch.column(TIME_NS.name).to_numpy()


# The driver's part.


def publish(tasks: DataFrame, folder: Folder, levels: Sequence[str]) -> Accounts:
    """Have the tasks write, and put their files into the tables of the run; ``tasks``: rows of FILES."""
    files, accounts = collected(tasks, folder)
    moves = joined(tasks.sparkSession, folder, files)
    for level in levels:
        folder.make(folder.table(level))
    folder.move((name, folder.table(to)) for name, to in moves)
    for name, table in tables(accounts).items():
        folder.write(f"{folder.table(name)}/part-0.parquet", table)
    if FRAMES in levels and not any(to.startswith(FINDINGS) for _, to in moves):
        nothing = pa.RecordBatch.from_pylist([], select(portable_schema(table_schema(FRAMES)), [*FOUND, FINDINGS]))
        folder.write(f"{folder.table(FINDINGS)}/part-0.parquet", pa.Table.from_batches([findings(nothing)]))
    return accounts


def collected(tasks: DataFrame, folder: Folder) -> tuple[list[TaskFile], Accounts]:
    """Reports of the tasks: their files that count, and their accounts."""
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
