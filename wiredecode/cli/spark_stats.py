"""``wiredecode spark stats``: what ``wiredecode stats`` tells, of tables that ``wiredecode spark`` wrote."""

from __future__ import annotations

from typing import Annotated

import typer

from wiredecode.cli import options
from wiredecode.cli.groups import with_groups
from wiredecode.cli.spark import Cluster
from wiredecode.cli.stats import StatsOptions

EXAMPLES = """\b
Examples:
  wiredecode spark stats lake                        all tables
  wiredecode spark stats lake --table latency --table confirms
  wiredecode spark stats frames-lake messages-lake --table throughput --interval 15m
"""


@with_groups
def stats(
    folders: Annotated[
        list[str],
        typer.Argument(
            metavar="FOLDER",
            show_default=False,
            help="What wiredecode spark wrote; one with frames, one with messages.",
        ),
    ],
    form: StatsOptions,
    cluster: Cluster,
    verbose: options.Verbose = False,
) -> int:
    """Count what is in the tables of a folder, on Spark: the tables of wiredecode stats, by source.

    Throughput is counted from messages, the rest from frames: name a folder of each for both.
    """
    from wiredecode.tables import require_pyarrow

    try:
        require_pyarrow()
    except ImportError as error:
        raise options.UsageError(str(error)) from None
    from wiredecode.spark.stats import run

    return run(
        folders,
        master=cluster.master,
        settings=cluster.settings,
        tables=form.table,
        interval=form.interval,
        json=form.json,
        csv=form.csv,
        color=form.color.value,
        verbose=verbose,
    )
