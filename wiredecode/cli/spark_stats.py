"""``wiredecode spark stats``: the tables of ``wiredecode stats``, of captures of any size."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.options import with_groups
from wiredecode.cli.output import complain
from wiredecode.cli.spark_options import SparkInputs
from wiredecode.cli.stats_output import StatsOptions, parse_tables, show
from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@options.group
class SparkStatsOptions(SparkInputs):
    """Captures to count, and what."""

    form: StatsOptions
    hops: bool = Option(False, "--hops", help="Latency: count a request again on each hop between servers.")


@with_groups
def stats(settings: SparkStatsOptions) -> int:
    """Count what is in captures of any size, on Spark: the tables of wiredecode stats, by source."""
    settings.check()
    try:
        parse_tables(settings.form)
    except ValueError as error:
        raise options.UsageError(str(error)) from None
    return run(settings)


def run(settings: SparkStatsOptions, spark: SparkSession | None = None) -> int:
    """Print the statistics; return the exit code. ``spark``: session to use."""
    from wiredecode.cli.spark_job import FAILED, complain_of, complain_of_inputs, log_of, reason
    from wiredecode.spark import session
    from wiredecode.spark.decode import TableDemand
    from wiredecode.spark.files import find
    from wiredecode.spark.pipeline import make_plan
    from wiredecode.spark.stats import BucketCounter, count

    form, cluster = settings.form, settings.cluster
    try:
        statistics, interval = parse_tables(form)
        counter = BucketCounter([each.name for each in statistics], interval, settings.hops)
        if spark is None:
            session.check(cluster.master)
        demand, inputs = TableDemand("frames", **settings.reading), find(settings.inputs, settings.source)
        if not inputs.files:
            complain_of_inputs(inputs, settings.inputs)
            return FAILED
        with log_of(settings) as log:
            started = session.session(cluster.master, settings=cluster.settings, log=log)
            with started if spark is None else nullcontext(spark) as running:
                how = {"partitions": settings.partitions, "split_bytes": settings.split_bytes}
                answers, accounts = count(running, make_plan(running, inputs, demand, **how), counter)
    except Exception as error:
        complain(escape(reason(error, settings)))
        return FAILED
    if accounts.totals.packets or not accounts.problems:
        show(answers, form)
    complain_of(accounts)
    return FAILED if accounts.problems else 0
