"""Statistics of captures of any size: tasks count the frames of their connections, the driver adds (docs/stats.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wiredecode.dataclasses import dataclass, replace
from wiredecode.dissect.dissector import Dissector
from wiredecode.spark.accounts import TaskReports, flows_table
from wiredecode.spark.decode import TableDemand, bucket_report
from wiredecode.spark.files import Paths
from wiredecode.spark.parcels import pack, packets
from wiredecode.spark.pipeline import REPORTED, Plan, RowSink, decode_plan, plan_of
from wiredecode.stats.counters import Counters
from wiredecode.stats.tables import SOURCE, Statistic, choose_statistics, seconds
from wiredecode.stats.tallies import table_of
from wiredecode.tables.reader import FLOWS, FRAMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wiredecode.spark.pipeline import Metrics


@dataclass(frozen=True)
class BucketCounter:
    """Counts the frames of buckets; can be pickled. ``interval``: of throughput, in seconds; None: one that fits."""

    tables: Sequence[str] | None = None
    interval: int | None = None
    hops: bool = False

    def __post_init__(self) -> None:
        self.statistics()

    def statistics(self) -> list[Statistic]:
        """The statistics that are wanted. Raises ``ValueError``."""
        return choose_statistics(self.tables)

    def __call__(self, source: str, bucket: int, rows: Iterator[pa.RecordBatch], demand: TableDemand) -> Iterator[str]:
        """As :func:`wiredecode.spark.decode.decode_bucket`; the report has what was counted."""
        reading, display = replace(demand.reading(source, bucket), select=None), demand.display()
        counters = Counters(self.statistics(), self.interval, hops=self.hops, whole=display is None)
        dissector = Dissector(counters.demand(reading).for_filters(display), on_decoded=counters.end)
        for frame in dissector.frames(packets(rows)):
            counters.frame(frame, counts=display is None or display.matches(frame))
        yield bucket_report(source, bucket, dissector, demand, counted=pack(counters.finish()))


def count(
    spark: SparkSession, plan: Plan, counter: BucketCounter, metrics: Metrics | None = None
) -> tuple[list[tuple[Statistic, pa.Table]], TaskReports]:
    """The statistics of the captures of a plan, with ``source`` before the other columns, and the reports."""
    accounts = _reports(spark, plan, decoder=counter, metrics=metrics)
    answers = []
    for statistic in counter.statistics():
        every = [
            {SOURCE: source, **row}
            for source, counted in sorted(accounts.counted.items())
            for row in counted.rows(statistic)
        ]
        answers.append((statistic, table_of(statistic, every, SOURCE)))
    return answers, accounts


def statistics(
    spark: SparkSession,
    paths: Paths,
    *,
    tables: Sequence[str] | None = None,
    interval: str = "1h",
    hops: bool = False,
    **options: Any,
) -> dict[str, pa.Table]:
    """The statistics of captures as Arrow tables, by name: those of :func:`wiredecode.stats.statistics`, by source.

    ``paths``, ``options``: as for :func:`wiredecode.spark.frames`. Files are left out from where they are damaged.
    Raises ``ValueError``, UnreadableFile, and what Spark raises.
    """
    counter = BucketCounter(tables, None if interval == "auto" else seconds(interval), hops)
    answers, _ = count(spark, plan_of(spark, paths, FRAMES, **options), counter)
    return {statistic.name: table for statistic, table in answers}


def flows(spark: SparkSession, paths: Paths, **options: Any) -> pa.Table:
    """The flows of captures (docs/flows.md) as an Arrow table, by source; arguments as of :func:`statistics`."""
    return flows_table(_reports(spark, plan_of(spark, paths, FLOWS, **options)))


def _reports(spark: SparkSession, plan: Plan, **how: Any) -> TaskReports:
    """The reports of a run that makes no rows; ``how``: as for :func:`decode_plan`."""
    rows = decode_plan(spark, plan, RowSink(pa.schema([REPORTED])), **how).collect()
    return TaskReports.of(row.report for row in rows)
