"""``wiredecode spark stats``: the tables of ``wiredecode stats``, from tables that ``wiredecode spark`` wrote."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument

from wiredecode.cli import options
from wiredecode.cli.options import with_groups
from wiredecode.cli.output import complain
from wiredecode.cli.spark_options import Cluster
from wiredecode.cli.stats_output import StatsOptions, parse_tables, show
from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@with_groups
def stats(
    folders: Annotated[
        list[str],
        Argument(
            metavar="FOLDER",
            show_default=False,
            help="Output of wiredecode spark, streams and delta:PATH, iceberg:CATALOG too; one with frames, one with "
            "messages.",
        ),
    ],
    form: StatsOptions,
    cluster: Cluster,
    verbose: options.Verbose = False,
) -> int:
    """Count what is in the tables of a folder, on Spark: the tables of wiredecode stats, by source.

    Throughput is counted from messages, the rest from frames: name a folder of each for both.
    """
    return run(folders, form, cluster, verbose=verbose)


def run(
    folders: Sequence[str],
    form: StatsOptions,
    cluster: Cluster,
    *,
    verbose: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Print the statistics of folders; return the exit code (2 after an error). ``spark``: session to use."""
    from wiredecode.spark import session
    from wiredecode.spark.stats import Unusable, collect_tables
    from wiredecode.stats.tables import choose_statistics

    tables, interval = form.table, "1h" if form.interval == "auto" else form.interval
    try:
        parse_tables(form)
        if spark is not None:
            answers = collect_tables(spark, folders, tables, interval)
        else:
            log = nullcontext(None) if verbose else Path(os.devnull).open("wb")  # noqa: SIM115
            with log as quiet, session.session(cluster.master, settings=cluster.settings, log=quiet) as started:
                answers = collect_tables(started, folders, tables, interval)
    except (ValueError, Unusable, session.CannotStart, OSError) as error:
        complain(escape(str(error)))
        return 2
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyspark", "py4j"):
            raise
        complain(escape(session.one_line(error)))
        return 2
    show(answers, form)
    missing = [
        statistic.name
        for statistic in choose_statistics(tables)
        if statistic.name not in {each.name for each, _ in answers}
    ]
    if missing:
        complain(f"without {', '.join(missing)}: name a folder with {choose_statistics(missing)[0].level}, too")
    return 0
