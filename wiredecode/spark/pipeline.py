"""Captures to tables on Spark: packets of all files, shuffled by connection, decoded bucket by bucket (docs/spark.md).

Three stages. Files, or parts of them, become rows of packets (``spark/packets.py``); these are shuffled so that a
bucket of connections is in one task, and sorted there, on disk where memory does not suffice; the engine reads each
bucket as it reads a capture (``spark/decode.py``). Nothing is collected: a task holds a few batches of packets, and
what the engine remembers of its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.spark import session, splits
from wiredecode.spark.decode import REPORTED, Rows, TableDemand, decode, report_row, row_batch
from wiredecode.spark.files import Problem
from wiredecode.spark.packets import ORDER, File, PacketRows, packed, report, report_text
from wiredecode.spark.parcels import PARCELS, opened, parcels
from wiredecode.spark.prepare import (
    Part,
    Planned,
    bring_keys,
    cores,
    dealt,
    each_part,
    parts_in,
    prepared,
    stopping,
)
from wiredecode.tables import bound_memory
from wiredecode.tables.reader import PACKETS as PACKET_LEVEL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Decoder = Callable[[Iterable[pa.RecordBatch], TableDemand], Iterator[pa.RecordBatch]]
"""As :func:`decode`; it can be pickled."""


class Sink(Protocol):
    """What a task does with the rows and reports of :func:`rows`; it can be pickled."""

    @property
    def schema(self) -> pa.Schema:
        """What it gives."""
        ...

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]: ...


def frames(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per frame: the columns of ``wiredecode export --ids stable``, and ``source`` before them.

    ``paths``: files, folders and globs. ``options``: ``columns``, ``filter``, ``decode_as``, ``limits``,
    ``show_secrets``, ``fail_fast``, ``keylog`` as for :class:`wiredecode.spark.decode.TableDemand`; ``source``,
    ``partitions``, ``buckets``, ``split_bytes`` as for :func:`rows`.
    Files that cannot be read are left out from where they are damaged; :func:`rows` tells which. Raises ``ValueError``
    for what is wrong.
    """
    return _table(spark, paths, "frames", options)


def messages(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per published or delivered message; see :func:`frames`."""
    return _table(spark, paths, "messages", options)


def connections(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per TCP connection; see :func:`frames`."""
    return _table(spark, paths, "connections", options)


def packets(spark: SparkSession, paths: str | Sequence[str], **options: Any) -> DataFrame:
    """A row per packet, without a shuffle; see :func:`frames`."""
    return _table(spark, paths, "packets", options)


HOW = ("source", "partitions", "buckets", "split_bytes")
"""Options of :func:`rows`."""


def _table(spark: SparkSession, paths: str | Sequence[str], level: str, options: dict[str, Any]) -> DataFrame:
    how = {name: options.pop(name) for name in HOW if name in options}
    try:
        demand = TableDemand(level, **options)
    except TypeError as error:
        raise ValueError(str(error).replace("TableDemand.__init__()", f"{level}()")) from None
    found = rows(spark, [paths] if isinstance(paths, str) else paths, demand, **how)
    return found.where(f"{REPORTED.name} is null").drop(REPORTED.name)


def rows(
    spark: SparkSession,
    paths: Sequence[str],
    demand: TableDemand,
    *,
    source: str = "none",
    partitions: int | None = None,
    buckets: int | None = None,
    split_bytes: int | None = None,
    sink: Sink | None = None,
    planned: Planned | None = None,
    decoder: Decoder = decode,
) -> DataFrame:
    """The rows of ``demand``, and reports: rows that are null but for the last column ``report``, which holds JSON.

    ``source``: how files are told apart by capture point: ``none``, ``folder``, or a regular expression, see
    :func:`wiredecode.spark.files.find`. ``partitions``: tasks of the shuffle; ``buckets``: parts that the connections
    of a source are dealt out to. Both follow from the size of the input and the cores of the cluster where they are not
    given, and change no row. ``split_bytes``: size of the parts that large files are read in, 0 for whole files.
    ``sink``: what the tasks do with these rows; its rows come in their place.
    ``planned``: what :func:`prepared` returned for the same arguments. ``decoder``: decodes after the shuffle. Raises
    ``ValueError`` for arguments that do not work, :class:`Stopped` if a file cannot be read and ``demand.fail_fast`` is
    set.
    """
    session.tune(spark)
    bring_keys(spark, demand)
    if planned is None:
        planned = prepared(spark, paths, demand, source, partitions, buckets, split_bytes)
    demand = planned.demand
    tasks = each_part(spark, dealt(planned.parts, cores(spark)))
    return _decoded(tasks, Reading(demand), demand, planned.partitions, sink, decoder)


@dataclass(frozen=True)
class Reading:
    """Reads packets for the shuffle."""

    demand: TableDemand

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for parts in parts_in(batches):
            for part in parts:
                rows = read_part(part, self.demand)
                yield from rows if self.demand.level == PACKET_LEVEL else parcels(rows)


def _decoded(
    ids: DataFrame, read: Rows, demand: TableDemand, partitions: int, sink: Sink | None, decoder: Decoder
) -> DataFrame:
    """From what tells which files to read, through the shuffle, to rows, or to what ``sink`` makes of them."""
    from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
    from pyspark.sql.pandas.types import from_arrow_schema

    if demand.level == PACKET_LEVEL:
        return mapped(ids, read, demand, sink)
    target = from_arrow_schema(demand.row_schema() if sink is None else sink.schema)
    shuffled = ids.mapInArrow(read, from_arrow_schema(PARCELS))
    place = F.expr(f"cast(pmod(crc32(cast(source as binary)) + bucket, {partitions}) as int)")
    if hasattr(shuffled, "repartitionById"):
        shuffled = shuffled.repartitionById(partitions, place)
    else:  # before Spark 4.1: by the hash of the number, so that some tasks have two buckets and some have none
        shuffled = shuffled.repartition(partitions, place)

    def decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        bound_memory()
        found = decoder(opened(batches), demand)
        return found if sink is None else sink(found)

    return shuffled.sortWithinPartitions(*ORDER).mapInArrow(decoded, target)


def mapped(ids: DataFrame, read: Rows, demand: TableDemand, sink: Sink | None) -> DataFrame:
    """Rows that need no shuffle, or what ``sink`` makes of them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    target = from_arrow_schema(demand.row_schema() if sink is None else sink.schema)
    return ids.mapInArrow(read if sink is None else lambda batches: sink(read(batches)), target)


# What a task does.


def read_part(part: Part, demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Return the rows of a file, or of a part of it; damage is a report."""
    if isinstance(part.what, Problem):
        yield problem_row(part.what, demand)
    else:
        yield from read_rows(part.what.file, splits.packets(part.what), demand)


def problem_row(problem: Problem, demand: TableDemand) -> pa.RecordBatch:
    """A file that is not read, as a report."""
    values = {"problem": problem.text, "file": problem.file}
    if demand.level == PACKET_LEVEL:
        return report_row(report_text(problem.source, **values), demand.row_schema())
    return report(problem.source, **values)


def read_rows(file: File, batches: Iterable[PacketBatch], demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Rows of packets for the shuffle; at level ``packets``, rows of the table."""
    checked = stopping(batches) if demand.fail_fast else batches
    if demand.level == PACKET_LEVEL:
        return packet_table(file, checked, demand)
    return PacketRows(file, demand.dealt, demand.reassembly).rows(checked)


def packet_table(file: File, batches: Iterable[PacketBatch], demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Rows of the table of packets, and reports."""
    schema, reader = demand.row_schema(), demand.reader(batches, 0)
    try:
        for batch in reader:
            yield row_batch(batch, file.source, demand)
    except CaptureError as error:
        for each in error.errors:
            yield report_row(report_text(file.source, problem=str(each), file=file.name), schema)
    yield report_row(report_text(file.source, totals=packed(reader.totals), file=file.name, place=file.place), schema)
