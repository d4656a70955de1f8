"""What there is to read, in how many tasks, and who decodes what: all that is done before the work itself."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.spark import planner, session, splits
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import Problem, find
from wiredecode.spark.index import INDEX, Indexer, known_rows, settings_of
from wiredecode.tables import bound_memory
from wiredecode.tables.reader import PACKETS as PACKET_LEVEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB = 1 << 20
PARTITION_BYTES = 128 * MIB
"""Captured bytes that one task of the shuffle is meant to have; connections decide what it really has."""
TASK_BYTES = 64 * MIB
"""Small files are read several to a task, up to so many bytes."""
TASKS_PER_CORE = 4
"""So many tasks at least, where there are enough files."""
PACKED = 4
"""A compressed file counts as so many times its size."""
PACKED_NAMES = (".gz", ".zst", ".lz4")
MAX_PARTITIONS = 100_000


class Stopped(Exception):
    """A file cannot be read, and that was to end everything; ``str()`` is the line that tells."""


@dataclass(frozen=True)
class Part:
    """What is read in one go, and its size: a file or some of it; or a file that cannot be read, and why."""

    what: splits.Split | Problem
    size: int

    @property
    def source(self) -> str:
        return self.what.source if isinstance(self.what, Problem) else self.what.file.source


# How much of what.


def cores(spark: SparkSession) -> int:
    """Tasks that run at the same time."""
    return max(1, spark.sparkContext.defaultParallelism)


def sized(
    demand: TableDemand, sizes: dict[str, int], parallel: int, partitions: int | None, buckets: int | None
) -> tuple[TableDemand, int]:
    """How many tasks and buckets there are to be; ``sizes``: captured bytes by source."""
    total = sum(sizes.values())
    if partitions is None:
        wanted = max(math.ceil(total / PARTITION_BYTES), parallel if total > MIB else 1)
        partitions = min(math.ceil(wanted / parallel) * parallel, MAX_PARTITIONS)
    if buckets is None:
        share = max(sizes.values(), default=0) / max(total, 1)
        buckets = max(1, math.ceil(partitions * share))
    if min(partitions, buckets) < 1:
        raise ValueError("partitions and buckets must be 1 or more")
    return replace(demand, buckets=buckets), partitions


def dealt(parts: Sequence[Part], parallel: int) -> list[list[Part]]:
    """Parts for each task: small ones together, as long as there is something to do for everybody."""
    most = min(TASK_BYTES, math.ceil(sum(part.size for part in parts) / (TASKS_PER_CORE * parallel)))
    tasks: list[list[Part]] = []
    filled = 0
    for part in parts:
        if not tasks or filled + part.size > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += max(part.size, 1)
    return tasks


def by_source(parts: Iterable[Part]) -> dict[str, int]:
    """Bytes of each source."""
    sizes: dict[str, int] = {}
    for part in parts:
        sizes[part.source] = sizes.get(part.source, 0) + part.size
    return sizes


def found(paths: Sequence[str], source: str, split_bytes: int | None) -> list[Part]:
    """What there is to read. Raises ``ValueError`` for ``source`` or ``split_bytes`` that do not work."""
    files = find(paths, source)
    size_of_part = splits.SPLIT_BYTES if split_bytes is None else split_bytes
    parts = [Part(problem, 0) for problem in files.problems]
    for file in files.files:
        size = files.sizes[file.name] * (PACKED if file.name.endswith(PACKED_NAMES) else 1)
        cut = splits.splits(file, files.sizes[file.name], size_of_part)
        parts += [Part(split, size // len(cut)) for split in cut]
    return parts


# The plan.


@dataclass(frozen=True)
class Planned:
    """What is read, and who decodes what."""

    parts: list[Part]
    demand: TableDemand
    partitions: int
    """Of the shuffle."""
    division: planner.Division
    index: pa.Table | None = None


def prepared(
    spark: SparkSession,
    paths: Sequence[str],
    demand: TableDemand,
    source: str = "none",
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
    divide: planner.Divide = "auto",
    known: pa.Table | None = None,
) -> Planned:
    """Look into the files that the index ``known`` does not have, and make a plan; as for :func:`rows`."""
    session.tune(spark)
    parts = found(paths, source, split_bytes)
    bad = next((part.what.text for part in parts if isinstance(part.what, Problem)), None)
    if demand.fail_fast and bad is not None:
        raise Stopped(bad)
    demand, partitions = sized(demand, by_source(parts), cores(spark), partitions, buckets)
    if divide == "shuffle" or demand.level == PACKET_LEVEL:
        return Planned(parts, demand, partitions, planner.Division())
    parts.sort(key=lambda part: isinstance(part.what, Problem))  # what the index has no row of comes last
    files = [part.what.file for part in parts if not isinstance(part.what, Problem)]
    index = indexed(spark, parts[: len(files)], demand, known)
    whole = list({(file.source, file.name): replace(file, place=0) for file in files}.values())
    division = planner.divided(index, whole, demand, partitions, cores(spark), divide)
    if division.rows is not None and len(parts) > len(files):  # those that cannot be read are told of by the shuffle
        rows = [*division.rows, *range(len(files), len(parts))]
        division = replace(division, rows=rows, shuffled=division.shuffled or {"": np.empty(0, np.uint64)})
    return Planned(parts, demand, partitions, division, index)


def indexed(spark: SparkSession, parts: Sequence[Part], demand: TableDemand, known: pa.Table | None) -> pa.Table:
    """The index of some parts, a row each in their order; what ``known`` has is not read again."""
    from pyspark.sql.pandas.types import from_arrow_schema

    have = {} if known is None else known_rows(known)
    keys = [index_key(part, demand) for part in parts]
    missing = [part for part, key in zip(parts, keys, strict=True) if key not in have]
    tables = [] if known is None else [known]
    if missing:
        tasks = each_part(spark, dealt(missing, cores(spark)))
        tables.append(tasks.mapInArrow(Indexing(demand), from_arrow_schema(INDEX)).toArrow().cast(INDEX))
    whole = pa.concat_tables(tables) if tables else INDEX.empty_table()
    rows = known_rows(whole)
    return whole.take(pa.array([rows[key] for key in keys], pa.int64()))


def index_key(part: Part, demand: TableDemand) -> tuple[Any, ...]:
    """What the row of a part in an index is found by."""
    assert not isinstance(part.what, Problem)
    file = part.what.file
    return file.name, file.source, file.first_ns, file.place, part.size, settings_of(demand, part.what.step)


def bring_keys(spark: SparkSession, demand: TableDemand) -> None:
    """Have Spark bring key logs to the tasks, where these run elsewhere. Raises ``ValueError`` for two of one name."""
    names = {Path(path).name for path in demand.keylog}
    if len(names) < len(set(demand.keylog)):
        raise ValueError("keylog: two files have the same name")
    if not str(spark.sparkContext.master).startswith("local"):
        for path in demand.keylog:
            spark.sparkContext.addFile(path)


def each_part(spark: SparkSession, parts: Sequence[Any]) -> DataFrame:
    """A row to a task, which holds its own part of the work and no other."""
    rows = [(bytearray(pickle.dumps(part)),) for part in parts]
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, max(len(rows), 1)), "part binary")


def parts_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """What a task of :func:`each_part` is to do."""
    bound_memory()
    for batch in batches:
        yield from (pickle.loads(text) for text in batch.column(0).to_pylist())


@dataclass(frozen=True)
class Indexing:
    """Reads headers, see ``spark/index.py``."""

    demand: TableDemand

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        demand = self.demand
        for part in chain.from_iterable(parts_in(batches)):
            packets = splits.packets(part.what)
            checked = stopping(packets) if demand.fail_fast else packets
            made = Indexer(part.what.file, demand.reassembly, demand.sessions)
            yield made.row(checked, part.size, settings_of(demand, part.what.step))


def stopping(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
    """The same, but damage ends the whole run."""
    try:
        yield from batches
    except CaptureError as error:
        raise Stopped(str(error)) from None
