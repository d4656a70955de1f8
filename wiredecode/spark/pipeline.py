"""Captures to tables on Spark: packets of all files, shuffled by connection, decoded bucket by bucket (docs/spark.md).

Three stages. Files, or parts of them, become rows of packets (``spark/packets.py``); these are shuffled so that a
bucket of connections is in one task, and sorted there, on disk where memory does not suffice; the engine reads each
bucket as it reads a capture (``spark/decode.py``). Nothing is collected: a task holds a few batches of packets, and
what the engine remembers of its connections.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

import pyarrow as pa

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.spark import session, splits
from wiredecode.spark.decode import REPORTED, Plan, Rows, decode, report_row
from wiredecode.spark.files import HEAD_BYTES, Problem, find, source_rule
from wiredecode.spark.packets import ORDER, File, PacketRows, packed, report, report_text
from wiredecode.spark.parcels import PARCELS, opened, parcels
from wiredecode.tables import bound_memory
from wiredecode.tables.portable import converted
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
MAX_WHOLE = (1 << 31) - 1 - MIB
"""Most bytes of a file that is one row."""


class Sink(Protocol):
    """What a task does with the rows and reports of :func:`rows`; it can be pickled."""

    @property
    def schema(self) -> pa.Schema:
        """What it gives."""
        ...

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


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


def frames(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per frame: the columns of ``wiredecode export --ids stable``, and ``source`` before them.

    ``paths``: files, folders and globs. ``options``: ``columns``, ``filter``, ``decode_as``, ``limits``,
    ``show_secrets``, ``fail_fast`` as for :class:`wiredecode.spark.decode.Plan`; ``source``, ``partitions``,
    ``buckets``, ``split_bytes``, ``hadoop`` as for :func:`rows`. Files that cannot be read are left out from where
    they are damaged; :func:`rows` tells which. Raises ``ValueError`` for what is wrong.
    """
    return _table(spark, paths, "frames", options)


def messages(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per published or delivered message; see :func:`frames`."""
    return _table(spark, paths, "messages", options)


def packets(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per packet, without a shuffle; see :func:`frames`."""
    return _table(spark, paths, "packets", options)


HOW = ("source", "partitions", "buckets", "split_bytes", "hadoop")
"""Options of :func:`rows`."""


def _table(spark: SparkSession, paths: str | Sequence[str], level: str, options: dict[str, Any]) -> DataFrame:

    how = {name: options.pop(name) for name in HOW if name in options}
    try:
        plan = Plan(level, **options)
    except TypeError as error:
        raise ValueError(str(error).replace("Plan.__init__()", f"{level}()")) from None
    found = rows(spark, [paths] if isinstance(paths, str) else paths, plan, **how)
    return found.where(f"{REPORTED.name} is null").drop(REPORTED.name)


def rows(
    spark: SparkSession,
    paths: Sequence[str],
    plan: Plan,
    *,
    source: str = "none",
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
    hadoop: bool = False,
    sink: Sink | None = None,
) -> DataFrame:
    """The rows of ``plan``, and reports: rows that are null but for the last column ``report``, which holds JSON.

    ``source``: how files are told apart by capture point: ``none``, ``folder``, or a regular expression, see
    :func:`wiredecode.spark.files.find`. ``partitions``: tasks of the shuffle; ``buckets``: parts that the connections
    of a source are dealt out to. Both follow from the size of the input and the cores of the cluster where they are not
    given, and change no row. ``split_bytes``: size of the parts that large files are read in, 0 for whole files.
    ``hadoop``: bytes come through Spark's own reader of files, each file whole and in one row, so at most 2 GB; for
    file systems that pyarrow does not reach. ``sink``: what the tasks do with these rows; its rows come in their place.
    Raises ``ValueError`` for what is wrong, :class:`Stopped` where a file
    cannot be read and ``plan.fail_fast`` is set.
    """
    session.tune(spark)
    if hadoop:
        return _hadoop(spark, paths, plan, source, partitions, buckets, sink)
    parts = found(paths, source, split_bytes)
    bad = next((part.what.text for part in parts if isinstance(part.what, Problem)), None)
    if plan.fail_fast and bad is not None:
        raise Stopped(bad)
    plan, partitions = sized(plan, by_source(parts), cores(spark), partitions, buckets)
    tasks = dealt(parts, cores(spark))
    ids = spark.range(0, len(tasks), 1, max(len(tasks), 1))  # one number to a task

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_memory()
        for index in chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
            for part in tasks[index]:
                yield from read_part(part, plan)

    return _decoded(ids, read, plan, partitions, sink)


def _hadoop(
    spark: SparkSession,
    paths: Sequence[str],
    plan: Plan,
    source: str,
    partitions: int | None,
    buckets: int | None,
    sink: Sink | None,
) -> DataFrame:
    """The same, with files that Spark reads."""
    source_of = source_rule(source)
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(paths))
    listed = [(file_name(path), size) for path, size in files.select("path", "length").collect()]
    sizes: dict[str, int] = {}
    for name, size in listed:
        sizes[source_of(name)] = sizes.get(source_of(name), 0) + size
    plan, partitions = sized(plan, sizes, cores(spark), partitions, buckets)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_memory()
        for batch in batches:
            for path, size, content in zip(*batch.columns, strict=True):
                name, data = file_name(path.as_py()), content.as_py()
                yield from read_whole(name, source_of(name), size.as_py(), data, plan)

    small, large = (files.where(f"length {than} {MAX_WHOLE}") for than in ("<=", ">"))
    whole = small.select("path", "length", "content")
    if any(size > MAX_WHOLE for _, size in listed):
        whole = whole.union(large.selectExpr("path", "length", "cast(null as binary)"))
    return _decoded(whole, read, plan, partitions, sink)


def file_name(path: str) -> str:
    """The name of a file as the other way of reading calls it: local ones without ``file:``."""
    return unquote(path.removeprefix("file://").removeprefix("file:")) if path.startswith("file:/") else path


def _decoded(ids: DataFrame, read: Rows, plan: Plan, partitions: int, sink: Sink | None) -> DataFrame:
    """From what tells which files to read, through the shuffle, to rows, or to what ``sink`` makes of them."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
    from pyspark.sql.pandas.types import from_arrow_schema

    target = from_arrow_schema(plan.row_schema() if sink is None else sink.schema)
    if plan.level == PACKET_LEVEL:
        return ids.mapInArrow(read if sink is None else lambda batches: sink(read(batches)), target)
    shuffled = ids.mapInArrow(read, from_arrow_schema(PARCELS))
    place = F.expr(f"cast(pmod(crc32(cast(source as binary)) + bucket, {partitions}) as int)")
    if hasattr(shuffled, "repartitionById"):
        shuffled = shuffled.repartitionById(partitions, place)
    else:  # before Spark 4.1: by the hash of the number, so that some tasks have two buckets and some have none
        shuffled = shuffled.repartition(partitions, place)

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_memory()
        found = decode(opened(batches), plan)
        return found if sink is None else sink(found)

    return shuffled.sortWithinPartitions(*ORDER).mapInArrow(decoded, target)


# How much of what.


def cores(spark: SparkSession) -> int:
    """Tasks that run at the same time."""
    return max(1, spark.sparkContext.defaultParallelism)


def sized(
    plan: Plan, sizes: dict[str, int], parallel: int, partitions: int | None, buckets: int | None
) -> tuple[Plan, int]:
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
    return replace(plan, buckets=buckets), partitions


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


# What a task does.


def read_part(part: Part, plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows of a file, or of a part of it; damage is a report."""
    if isinstance(part.what, Problem):
        yield problem_row(part.what, plan)
    else:
        yield from read_rows(part.what.file, splits.packets(part.what), plan)


def problem_row(problem: Problem, plan: Plan) -> pa.RecordBatch:
    """A file that is not read, as a report."""
    told = {"problem": problem.text, "file": problem.file}
    if plan.level == PACKET_LEVEL:
        return report_row(report_text(problem.source, **told), plan.row_schema())
    return report(problem.source, **told).select(PARCELS.names)


def read_whole(path: str, source: str, size: int, content: bytes | None, plan: Plan) -> Iterator[pa.RecordBatch]:
    """The rows of a file that Spark has read; one that is too large has no ``content``."""

    def stream() -> BytesIO:
        made = BytesIO(content or b"")
        made.name = path
        return made

    if content is None:
        text = f"{path}: has {size:,} bytes; through Spark's file systems files of up to 2 GB can be read"
        if plan.fail_fast:
            raise Stopped(text)
        yield problem_row(Problem(source, path, text), plan)
        return
    try:
        first = next((batch for batch in open_capture([stream()], batch_bytes=HEAD_BYTES) if len(batch)), None)
    except CaptureError as error:
        if plan.fail_fast:
            raise Stopped(str(error)) from None
        yield problem_row(Problem(source, path, str(error)), plan)
        return
    if first is not None:
        yield from read_rows(File(path, source, int(first.time_ns[0])), open_capture([stream()]), plan)


def read_rows(file: File, batches: Iterable[PacketBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Rows of packets for the shuffle; at level ``packets``, rows of the table."""
    checked = stopping(batches) if plan.fail_fast else batches
    if plan.level == PACKET_LEVEL:
        return packet_table(file, checked, plan)
    return parcels(PacketRows(file, plan.dealt, plan.reassembly).rows(checked))


def stopping(batches: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
    """The same, but damage ends the whole run."""
    try:
        yield from batches
    except CaptureError as error:
        raise Stopped(str(error)) from None


def packet_table(file: File, batches: Iterable[PacketBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Rows of the table of packets, and reports."""

    schema, reader = plan.row_schema(), plan.reader(batches, 0)
    try:
        for batch in reader:
            made = converted(batch, file.source, plan.schema)
            yield pa.record_batch([*made.columns, pa.nulls(len(made), pa.string())], schema=schema)
    except CaptureError as error:
        for each in error.errors:
            yield report_row(report_text(file.source, problem=str(each), file=file.name), schema)
    yield report_row(report_text(file.source, totals=packed(reader.totals), file=file.name, place=file.place), schema)
