"""Captures to tables on Spark: packets of all files, shuffled by connection, decoded bucket by bucket (docs/spark.md).

Three stages. Files, or their parts, become parcels of packets (``spark/parcels.py``); these are shuffled so that a
bucket of connections is in one task, and sorted there, on disk if memory does not suffice; the engine reads each
bucket as it reads a capture (``spark/decode.py``). Nothing is collected: a task holds a few batches of packets, and
the state of its connections.
"""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import numpy as np
import pyarrow as pa

from wiredecode.arrays import Int32s
from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.dataclasses import dataclass, replace
from wiredecode.spark import sample, session, splits
from wiredecode.spark.decode import (
    BucketDecoder,
    BucketReader,
    Decoded,
    TableDemand,
    decode,
    decode_bucket,
    write_notes,
)
from wiredecode.spark.files import NONE, FileProblem, Inputs, Paths, UnreadableFile, find_readable
from wiredecode.spark.parcels import ORDER, PARCELS, PacketParcels, pack, report, report_text, unpack
from wiredecode.tables import bound_memory
from wiredecode.tables.reader import FLOWS
from wiredecode.tables.reader import PACKETS as PACKET_LEVEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MIB = 1 << 20
PARTITION_BYTES = 128 * MIB
"""Intended captured bytes per task of the shuffle; the sizes of connections decide."""
TASK_BYTES = 64 * MIB
"""Small files are read several to a task, up to this many bytes."""
TASKS_PER_CORE = 4
"""At least this many tasks, if there are enough files."""
PACKED = 4
"""A compressed file counts as this many times its size."""
PACKED_NAMES = (".gz", ".zst", ".lz4")
MAX_PARTITIONS = 100_000
TASK = pa.field("task", pa.int32(), nullable=False)
"""Last column of parcels for the shuffle: the task that decodes them."""
NO_TASKS = np.zeros(1, np.int32)
"""Of a source with reports only."""
REPORTED = pa.field("report", pa.string())
"""Last column of the rows of tasks: null in rows; in reports all other columns are null."""


@dataclass(frozen=True)
class ReadablePart:
    """A file or a part of one, and its size; or a file that cannot be read, and why."""

    input: splits.FileSplit | FileProblem
    size: int


def size_run(
    demand: TableDemand, sizes: Mapping[str, int], parallel: int, partitions: int | None, buckets: int | None
) -> tuple[TableDemand, int]:
    """Number of tasks and buckets; ``sizes``: captured bytes by source."""
    total = sum(sizes.values())
    if partitions is None:
        wanted = math.ceil(total / PARTITION_BYTES / parallel) * parallel
        partitions = min(wanted, MAX_PARTITIONS) if total > MIB else 1
    if buckets is None:
        share = max(sizes.values(), default=0) / max(total, 1)
        buckets = max(1, math.ceil(partitions * share))
    if min(partitions, buckets) < 1:
        raise ValueError("partitions and buckets must be 1 or more")
    return replace(demand, buckets=buckets), partitions


def group_parts(parts: Sequence[ReadablePart], parallel: int) -> list[list[ReadablePart]]:
    """Parts for each task: small ones together, unless cores would be idle. The largest tasks come first, so that no
    core is left with one at the end."""
    most = min(TASK_BYTES, math.ceil(sum(part.size for part in parts) / (TASKS_PER_CORE * parallel)))
    tasks: list[list[ReadablePart]] = []
    filled = 0
    for part in parts:
        if not tasks or filled + part.size > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(part)
        filled += max(part.size, 1)
    return sorted(tasks, key=lambda task: sum(part.size for part in task), reverse=True)


@dataclass(frozen=True)
class Plan:
    """The files to read, and into how many tasks the shuffle divides their packets."""

    parts: list[ReadablePart]
    demand: TableDemand
    partitions: int
    sampled: bool = True
    """A sample decides on the buckets of connections; else they are the same in every run."""


def make_plan(
    spark: SparkSession,
    inputs: Inputs,
    demand: TableDemand,
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
) -> Plan:
    """Return the plan of a run over the files in ``inputs``; other arguments as for :func:`pipeline.rows`."""
    if demand.fail_fast and inputs.problems:
        raise UnreadableFile(inputs.problems[0].text)
    size_of_part = splits.SPLIT_BYTES if split_bytes is None else split_bytes
    parts = [ReadablePart(problem, 0) for problem in inputs.problems]
    of_sources: Counter[str] = Counter()
    for file in inputs.files:
        size = inputs.sizes[file.name] * (PACKED if file.name.endswith(PACKED_NAMES) else 1)
        of_sources[file.source] += size
        cut = splits.splits(file, inputs.sizes[file.name], size_of_part)
        parts += [ReadablePart(split, size // len(cut)) for split in cut]
    demand, partitions = size_run(demand, of_sources, spark.sparkContext.defaultParallelism, partitions, buckets)
    return Plan(parts, demand, partitions)


def deal(plan: Plan) -> tuple[TableDemand, dict[str, Int32s]]:
    """The demand with what a sample shows, and by source the task of each bucket; the last: of reports."""
    demand = plan.demand
    parts = [(part.input, part.size) for part in plan.parts if isinstance(part.input, splits.FileSplit)]
    of_sources = Counter[str]()
    for split, size in parts:
        of_sources[split.file.source] += size
    loads = {source: np.full(demand.buckets, size / demand.buckets) for source, size in of_sources.items()}
    if plan.sampled and demand.buckets > 1:
        taken, large = sample.take(parts, demand.reassembly), {}
        demand = replace(demand, seen=sample.session_ports(taken, demand))
        for source, sizes in sample.connection_sizes(taken, demand.bucketing("")).items():
            large[source], loads[source] = sample.large_connections(sizes, demand.buckets, of_sources[source])
        demand = replace(demand, large=large)
    every = sample.deal(np.concatenate([[0.0], *loads.values()]), plan.partitions)
    of_buckets = every[1:].reshape(len(loads), demand.buckets)
    return demand, {source: np.append(some, every[:1]) for source, some in zip(loads, of_buckets, strict=True)}


def send_key_logs(spark: SparkSession, demand: TableDemand) -> None:
    """Have Spark bring key logs to the tasks, where these run elsewhere. Raises ``ValueError`` for two of one name."""
    names = {Path(path).name for path in demand.keylog}
    if len(names) < len(set(demand.keylog)):
        raise ValueError("keylog: two files have the same name")
    if not str(spark.sparkContext.master).startswith("local"):
        for path in demand.keylog:
            spark.sparkContext.addFile(path)


class Tasks:
    """Tasks and the parts that each works on. A row is the number of a task: Java makes it, without another Python."""

    def __init__(self, parts: Iterable[Sequence[Any]]) -> None:
        self._parts = [pickle.dumps(each) for each in parts]

    def rows(self, spark: SparkSession) -> DataFrame:
        """A row, and a partition, per task."""
        count = len(self._parts)
        return spark.range(0, count, 1, max(count, 1))

    def of(self, rows: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        """The parts of the tasks in ``rows``."""
        for batch in rows:
            for number in batch.column(0).to_pylist():
                yield from pickle.loads(self._parts[number])


# From files to rows.


class Sink(Protocol):
    """Takes the rows and reports of a task, and returns rows for Spark; it can be pickled."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the returned rows."""
        ...

    def __call__(self, items: Iterator[Decoded]) -> Iterator[pa.RecordBatch]: ...


def one_row(schema: pa.Schema, /, **values: Any) -> pa.RecordBatch:
    """A row with these values; all others are null."""
    return pa.RecordBatch.from_pylist([values], schema=schema)


@dataclass(frozen=True)
class RowSink:
    """Passes the rows of the only table to Spark, with its reports."""

    schema: pa.Schema

    def __call__(self, items: Iterator[Decoded]) -> Iterator[pa.RecordBatch]:
        for item in items:
            if isinstance(item, str):
                yield one_row(self.schema, report=item)
            else:
                yield pa.record_batch([*item[1].columns, pa.nulls(len(item[1]), pa.string())], schema=self.schema)


class _Parts:
    """Adds up an accumulator of parts: a part that is counted again replaces itself."""

    def zero(self, _: Any) -> dict[Any, Any]:
        return {}

    def addInPlace(self, parts: dict[Any, Any], more: dict[Any, Any]) -> dict[Any, Any]:  # noqa: N802 - Spark's name
        parts.update(more)
        return parts


@dataclass(frozen=True)
class Metric:
    """A number of :class:`Metrics`."""

    parts: Any
    index: int

    @property
    def value(self) -> int:
        return sum(counts[self.index] for counts in [*self.parts.value.values()])


class Metrics:
    """Counts of packets, frames, problems (files with damage) and undecoded bytes, as an accumulator of Spark.

    Each has a ``value``, which grows as tasks end. Tasks and actions that Spark runs again do not count twice.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._parts: Any = spark.sparkContext.accumulator({}, _Parts())  # type: ignore[arg-type]
        self.packets, self.frames, self.problems, self.undecoded_bytes = (Metric(self._parts, at) for at in range(4))

    def counting(self, items: Iterator[Decoded], rows: str) -> Iterator[Decoded]:
        """Pass on items, and count their reports. ``rows``: id of the DataFrame."""
        for item in items:
            if isinstance(item, str):
                report = json.loads(item)
                if "problem" in report:
                    self._parts.add({(rows, item): (0, 0, 1, 0)})
                elif "totals" in report:
                    totals = unpack(report["totals"])
                    part = rows, *(report.get(name) for name in ("source", "bucket", "file", "place"))
                    packets = 0 if "bucket" in report else totals.packets  # a file's report has them, too
                    self._parts.add({part: (packets, sum(totals.frames.values()), 0, totals.undecoded)})
            yield item


def frames(spark: SparkSession, paths: Paths, **options: Any) -> DataFrame:
    """A row per frame: the columns of ``wiredecode export --ids stable``, and ``source`` before them.

    ``paths``: files, folders and globs. ``options``: those of :class:`wiredecode.spark.decode.TableDemand`, and of
    :func:`rows`. Files that cannot be read are left out from where they are damaged: ``metrics`` counts them,
    :func:`rows` names them. Raises ``ValueError`` for wrong values, UnreadableFile if a path does not exist or no file
    can be read.
    """
    return _table(spark, paths, "frames", options)


def messages(spark: SparkSession, paths: Paths, **options: Any) -> DataFrame:
    """A row per published or delivered message; see :func:`frames`."""
    return _table(spark, paths, "messages", options)


def connections(spark: SparkSession, paths: Paths, **options: Any) -> DataFrame:
    """A row per TCP connection; see :func:`frames`."""
    return _table(spark, paths, "connections", options)


def packets(spark: SparkSession, paths: Paths, **options: Any) -> DataFrame:
    """A row per packet, without a shuffle; see :func:`frames`."""
    return _table(spark, paths, "packets", options)


def _table(spark: SparkSession, paths: Paths, level: str, options: dict[str, Any]) -> DataFrame:
    metrics = options.pop("metrics", None)
    plan = plan_of(spark, paths, level, **options)
    frame = decode_plan(spark, plan, RowSink(plan.demand.schema.append(REPORTED)), metrics=metrics)
    return frame.where(f"{REPORTED.name} is null").drop(REPORTED.name)


def plan_of(
    spark: SparkSession,
    paths: Paths,
    level: str,
    *,
    source: str = NONE,
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
    **reading: Any,
) -> Plan:
    """The plan for one level; arguments are those of :func:`rows`, ``reading`` those of :class:`TableDemand`."""
    try:
        demand = TableDemand(level, **reading)
    except TypeError as error:
        raise ValueError(str(error).replace("TableDemand.__init__()", f"{level}()")) from None
    return make_plan(spark, find_readable(paths, source), demand, partitions, buckets, split_bytes)


def rows(
    spark: SparkSession,
    paths: Paths,
    demand: TableDemand,
    *,
    source: str = "none",
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
    metrics: Metrics | None = None,
) -> DataFrame:
    """The rows of ``demand``, and reports: rows with nothing but JSON in the last column ``report``.

    ``source``: how to find the capture point of a file: ``none``, ``folder``, or a regular expression, see
    :func:`wiredecode.spark.files.find`. ``partitions``: tasks of the shuffle; ``buckets``: parts that the connections
    of a source are divided into. By default both follow from the size of the input and the cores of the cluster; they
    change no row. ``split_bytes``: size of the parts that large files are read in, 0 for whole files. Raises
    ``ValueError`` for arguments that do not work, and UnreadableFile as :func:`files.find_readable` does.
    """
    plan = make_plan(spark, find_readable(paths, source), demand, partitions, buckets, split_bytes)
    return decode_plan(spark, plan, RowSink(demand.schema.append(REPORTED)), metrics=metrics)


def decode_plan(
    spark: SparkSession,
    plan: Plan,
    sink: Sink,
    *,
    decoder: BucketDecoder = decode_bucket,
    metrics: Metrics | None = None,
) -> DataFrame:
    """The rows that ``sink`` makes of the output of the tasks; ``decoder``: decodes a bucket after the shuffle.

    If nothing is added up over buckets, notes link the connections of several buckets; that reads the files twice.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    session.tune(spark)
    demand, partitions = plan.demand, plan.partitions
    if decoder is decode_bucket and demand.buckets > 1 and not {PACKET_LEVEL, FLOWS}.intersection(demand.levels):
        plan = replace(plan, demand=replace(demand, linked=True))
    send_key_logs(spark, demand)
    groups = group_parts(plan.parts, spark.sparkContext.defaultParallelism)
    tasks = Tasks([part.input for part in parts] for parts in groups)
    ids = tasks.rows(spark)
    if demand.level == PACKET_LEVEL:
        return map_tasks(ids, partial(read_packets, demand, tasks), sink, metrics)
    demand, tasks_of = deal(plan)
    schema = from_arrow_schema(PARCELS.append(TASK))

    def shuffled(parcels: DataFrame) -> DataFrame:
        if hasattr(parcels, "repartitionById"):
            parcels = parcels.repartitionById(partitions, TASK.name)
        else:  # before Spark 4.1: by the hash of the number, so that some tasks have two buckets and some have none
            parcels = parcels.repartition(partitions, TASK.name)
        return parcels.sortWithinPartitions(*ORDER)

    def mapped(rows: DataFrame, work: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            bound_memory()
            return to_tasks(work(batches), tasks_of)

        return rows.mapInArrow(run, schema)

    parcels = mapped(ids, partial(read_parcels, demand, tasks))
    if demand.linked:
        of_sessions = mapped(ids, partial(read_parcels, demand, tasks, sessions_only=True))
        parcels = parcels.union(mapped(shuffled(of_sessions), partial(write_notes, demand=demand)))
    return map_tasks(shuffled(parcels), partial(decode, demand=demand, decoder=decoder), sink, metrics)


def to_tasks(parcels: Iterable[pa.RecordBatch], tasks: Mapping[str, Int32s]) -> Iterator[pa.RecordBatch]:
    """Parcels, each batch of one source, with the task for each bucket."""
    for batch in parcels:
        of_buckets = tasks.get(batch.column("source")[0].as_py(), NO_TASKS)
        numbers = pa.array(of_buckets[batch.column("bucket").to_numpy()])
        yield pa.record_batch([*batch.columns, numbers], schema=PARCELS.append(TASK))


def map_tasks(
    ids: DataFrame,
    work: Callable[[Iterator[pa.RecordBatch]], Iterator[Decoded]],
    sink: Sink,
    metrics: Metrics | None = None,
) -> DataFrame:
    """The rows that ``sink`` makes of the items of ``work``, what a task does with rows from Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    frame = uuid4().hex

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_memory()
        items = work(batches)
        return sink(items if metrics is None else metrics.counting(items, frame))

    return ids.mapInArrow(run, from_arrow_schema(sink.schema))


def read_parcels(
    demand: TableDemand, tasks: Tasks, rows: Iterator[pa.RecordBatch], *, sessions_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """Read the files of a task as parcels for the shuffle; damage is a report.

    ``sessions_only``: only packets of connections that may know of others, without reports.
    """
    for part in tasks.of(rows):
        if isinstance(part, FileProblem):
            if not sessions_only:
                yield report(part.source, problem=part.text, file=part.file)
            continue
        parcels = PacketParcels(
            part.file, demand.bucketing(part.file.source), demand.reassembly, sessions_only=sessions_only
        )
        yield from parcels.rows(packets_of(part, demand))


def read_packets(demand: TableDemand, tasks: Tasks, rows: Iterator[pa.RecordBatch]) -> Iterator[Decoded]:
    """Read the files of a task as rows of the table of packets."""
    for part in tasks.of(rows):
        if isinstance(part, FileProblem):
            yield report_text(part.source, problem=part.text, file=part.file)
            continue
        file = part.file
        reader = BucketReader(demand, file.source, 0)
        try:
            yield from reader.table_rows(packets_of(part, demand))
        except CaptureError as error:
            yield from (report_text(file.source, problem=str(each), file=file.name) for each in error.errors)
        yield report_text(file.source, totals=pack(reader.totals), file=file.name, place=file.place)


def packets_of(split: splits.FileSplit, demand: TableDemand) -> Iterator[PacketBatch]:
    """The packets of a file, or of a part; with ``fail_fast`` damage ends the whole run."""
    try:
        yield from splits.packets(split)
    except CaptureError as error:
        if demand.fail_fast:
            raise UnreadableFile(str(error)) from None
        raise
