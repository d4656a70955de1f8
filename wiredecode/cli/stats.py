"""``wiredecode stats``: counts, latencies and throughput of captures, as tables."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wiredecode.cli import INTERRUPTED, options
from wiredecode.cli.groups import group, with_groups
from wiredecode.cli.output import Output, complain, text_bytes, wants_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from wiredecode.cli.session import Session
    from wiredecode.filter import Filter
    from wiredecode.net.types import Connection
    from wiredecode.stats.counters import Counters
    from wiredecode.stats.tables import Statistic

    Found = Sequence[tuple[Statistic, pa.Table]]

EXAMPLES = """\b
Examples:
  wiredecode stats a.pcap                            all tables
  wiredecode stats a.pcap* --table latency --table confirms
  wiredecode stats a.pcap --table throughput --interval 1m
  wiredecode stats a.pcap -Y 'ip.addr == 10.0.0.7' --from 60
  wiredecode stats a.pcap --timeline                 what changed when
  wiredecode stats a.pcap --json | jq '.confirms[].p99_us'
  wiredecode stats a.pcap --table latency --csv > latency.csv
"""
TABLES = ("frames", "latency", "confirms", "throughput", "findings", "connections", "consumers")
MAX_ROWS = 40
"""Of a table on a terminal."""
MESSAGE = "message"
MESSAGE_WIDTH = 32
"""Columns of a message on a terminal, at least: it goes on in the next line."""


def complete_table(incomplete: str) -> list[str]:
    """Names of tables, for the shell."""
    return [name for name in TABLES if name.startswith(incomplete)]


@group
class StatsOptions:
    """Which tables, and in what form."""

    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            metavar="NAME",
            autocompletion=complete_table,
            help=f"Only this table: {', '.join(TABLES)}. Repeatable.",
        ),
    ] = None
    interval: Annotated[
        str, typer.Option("--interval", metavar="TIME", help="Of throughput: 1h, 15m, 10s ..., or auto: one that fits.")
    ] = "auto"
    json: Annotated[bool, typer.Option("--json", help="One JSON object: per table a list of rows.")] = False
    csv: Annotated[bool, typer.Option("--csv", help="One table as CSV.")] = False
    color: options.Color = "auto"


@group
class CaptureOptions:
    """What is counted of captures."""

    files: options.Files
    form: StatsOptions
    hops: Annotated[
        bool, typer.Option("--hops", help="Latency: count requests again where servers pass them on to others.")
    ] = False
    timeline: Annotated[
        bool, typer.Option("--timeline", help="In place of tables: what changed when, on one screen.")
    ] = False
    display_filter: options.DisplayFilter = None
    decoding: options.Decoding
    span: options.Span
    verbosity: options.Verbosity

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, utc=self.span.utc)

    def session(self, **watched: Any) -> Session:
        """The captures; ``watched``: as for :meth:`Session.of`."""
        from wiredecode.cli.session import Session

        return Session.of(*(self.files, self.decoding, self.verbosity), span=self.span, display=self.display, **watched)


@with_groups
def stats(settings: CaptureOptions) -> int:
    """Count what is in captures: frames, latency percentiles, publish to confirm, throughput, findings, connections.

    With -Y, --from and --to only the frames and messages chosen count.
    """
    form = settings.form
    if settings.timeline:
        if form.csv or form.table:
            raise options.UsageError("--timeline is no table: it goes without --table and --csv")
        return _timeline(settings)
    try:
        statistics, length = requested(form)
    except ValueError as error:
        raise options.UsageError(str(error)) from None
    code, counters = _counted(settings, statistics, length)
    if counters is not None:
        show([(statistic, counters.table(statistic)) for statistic in statistics], form)
    return code


def _counted(
    settings: CaptureOptions, statistics: Sequence[Statistic], interval: int | None
) -> tuple[int, Counters | None]:
    """The exit code, and what was counted; None: nothing could be."""
    from wiredecode.stats.counters import Counters
    from wiredecode.tables import bound_memory, without_pandas

    bound_memory()
    without_pandas()
    display = settings.display
    counters = Counters(statistics, interval, hops=settings.hops)
    watched = counters.connections
    over = None if watched is None else watched.end
    session = settings.session(analyse=over is not None, on_over=over, messages=counters.messages)
    counters.whole = display is None and settings.span.is_whole

    def work() -> None:
        for frame in session.decoded():
            counts = session.within(frame.time_ns) and (display is None or display.matches(frame))
            counters.frame(frame, counts=counts)

    code = session.work(work)
    failed = code == INTERRUPTED or (code and not session.totals.packets)
    return code, None if failed else counters


def _timeline(settings: CaptureOptions) -> int:
    """Show what changed when, of the connections of the frames chosen."""
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli import timeline

    changes = Timeline()
    chosen: set[Connection] = set()

    def over(connection: Connection, other: str | None) -> None:
        if settings.display is None or connection in chosen:
            changes.end(connection, other)

    session = settings.session(analyse=True, on_over=over)

    def work() -> None:
        try:
            for frame in session.frames():
                chosen.add(frame.connection)
                changes.frame(frame)
        finally:
            timeline.show(session, changes, json=settings.form.json)

    return session.work(work)


def requested(form: StatsOptions) -> tuple[list[Statistic], int | None]:
    """What ``--table`` and ``--interval`` ask for. Raises ``ValueError``."""
    from wiredecode.stats.tables import chosen, seconds

    statistics = chosen(form.table, captures=True)
    if form.json and form.csv:
        raise ValueError("--json and --csv are two formats: choose one")
    if form.csv and len(statistics) > 1:
        raise ValueError("--csv writes one table: name it with --table")
    return statistics, None if form.interval == "auto" else seconds(form.interval)


def show(found: Found, form: StatsOptions) -> None:
    """Write tables to standard output: for people, as one JSON object, or the first one as CSV."""
    if form.csv:
        _write_csv(found[0][1])
    elif form.json:
        _write_json(found)
    else:
        _show_tables(found, color=wants_color(form.color, sys.stdout))


def _write_csv(table: pa.Table) -> None:
    from wiredecode.export.writers import CsvWriter, Settings

    writer = CsvWriter(text_bytes(), table.schema, Settings())
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()


def _write_json(found: Found) -> None:
    from wiredecode.tables.rows import dumps, rows

    tables = {
        statistic.name: [row for batch in table.to_batches() for row in rows(batch)] for statistic, table in found
    }
    output = Output()
    output.write(dumps(tables) + b"\n")
    output.flush()


def _show_tables(found: Found, *, color: bool) -> None:
    """Titles and grids; fewer columns where not all fit, and on a terminal fewer rows."""
    from rich.text import Text

    from wiredecode.stats.shown import counted_grid, shown_columns
    from wiredecode.view import theme
    from wiredecode.view.console import UNBOUNDED_WIDTH, tree_console

    terminal = sys.stdout.isatty()
    output = Output()
    console = tree_console(output, color=color, terminal=terminal)
    wide = console.options.update(width=UNBOUNDED_WIDTH)
    for place, (statistic, table) in enumerate(found):
        if place:
            console.print()
        console.print(Text(statistic.title, theme.HEAD))
        if not table.num_rows:
            console.print(Text("none", "dim"))
            continue
        shown = table.slice(0, MAX_ROWS if terminal else None)
        names = shown_columns(table, table.schema.names)
        left_out: list[str] = []

        def width(names: list[str], shown: pa.Table = shown) -> int:
            narrow = [name for name in names if name != MESSAGE]
            needed = console.measure(counted_grid(shown, narrow, people=terminal), options=wide).maximum
            return needed + MESSAGE_WIDTH * (MESSAGE in names)

        optional = [name for name in names if name not in shown_columns(table, statistic.narrow)]
        while optional and width(names) > console.width:
            left_out.insert(0, optional.pop())
            names.remove(left_out[0])
        console.print(counted_grid(shown, names, people=terminal))
        if left_out:
            console.print(Text(f"no room for {', '.join(left_out)}", "dim"))
    output.flush()
    hidden = [statistic.name for statistic, table in found if terminal and table.num_rows > MAX_ROWS]
    if hidden:
        complain(f"the first {MAX_ROWS} rows of {', '.join(hidden)}; a pipe, --json and --csv get all")
