"""The plan of a run: the files to read, in how many tasks and buckets."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.spark import session, splits
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import Problem, find
from wiredecode.tables import bound_memory

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
    """The files to read, and into how many tasks the shuffle divides their packets."""

    parts: list[Part]
    demand: TableDemand
    partitions: int


def prepared(
    spark: SparkSession,
    paths: Sequence[str],
    demand: TableDemand,
    source: str = "none",
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
) -> Planned:
    """Return the plan of a run; arguments as for :func:`rows`."""
    session.tune(spark)
    parts = found(paths, source, split_bytes)
    bad = next((part.what.text for part in parts if isinstance(part.what, Problem)), None)
    if demand.fail_fast and bad is not None:
        raise Stopped(bad)
    demand, partitions = sized(demand, by_source(parts), cores(spark), partitions, buckets)
    return Planned(parts, demand, partitions)


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


def stopping(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
    """The same, but damage ends the whole run."""
    try:
        yield from batches
    except CaptureError as error:
        raise Stopped(str(error)) from None
