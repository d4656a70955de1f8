"""Tables of statistics as output, and their options: for ``stats`` and ``spark stats``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.output import Output, complain, wants_color
from wiredecode.frames.escape import text_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from rich.table import Table

    from wiredecode.stats.tables import Statistic

    Answers = Sequence[tuple[Statistic, pa.Table]]

TABLES = ("frames", "latency", "confirms", "throughput", "findings", "connections", "deliveries", "consumers")
MAX_ROWS = 40
"""Most rows of a table on a terminal."""
TEXTS = {"message": 32, "reason": 19}
"""Columns that a text has on a terminal, at least: it continues in the next line."""


@options.group
class StatsOptions:
    """Selection of tables, and their form."""

    table: list[str] | None = Option(
        None, metavar="NAME", autocompletion=lambda: TABLES, help=f"Only this table: {', '.join(TABLES)}. Repeatable."
    )
    interval: str = Option("auto", metavar="TIME", help="Of throughput: 1h, 15m, 10s ..., or auto: one that fits.")
    json: bool = Option(False, "--json", help="One JSON object: per table a list of rows.")
    csv: bool = Option(False, "--csv", help="One table as CSV.")
    csv_formulas: options.CsvFormulas = "keep"
    color: options.Color = "auto"


def parse_tables(form: StatsOptions) -> tuple[list[Statistic], int | None]:
    """Tables and interval of ``--table`` and ``--interval``. Raises ``ValueError``."""
    from wiredecode.stats.tables import choose_statistics, seconds

    statistics = choose_statistics(form.table)
    if form.json and form.csv:
        raise ValueError("--json and --csv are two formats: choose one")
    if form.csv and len(statistics) > 1:
        raise ValueError("--csv writes one table: name it with --table")
    if form.csv_formulas == "guard" and not form.csv:
        raise ValueError("--csv-formulas goes with --csv")
    return statistics, None if form.interval == "auto" else seconds(form.interval)


def show(answers: Answers, form: StatsOptions) -> None:
    """Write tables to standard output: for people, as one JSON object, or the first one as CSV."""
    if form.csv:
        _write_csv(answers[0][1], guard_formulas=form.csv_formulas == "guard")
    elif form.json:
        _write_json(answers)
    else:
        _show_tables(answers, color=wants_color(form.color, sys.stdout))


def _write_csv(table: pa.Table, *, guard_formulas: bool) -> None:
    from wiredecode.export.writers import CsvWriter, WriterSettings

    writer = CsvWriter(text_bytes(), table.schema, WriterSettings(guard_formulas=guard_formulas))
    for batch in table.to_batches():
        writer.write(batch)
    writer.close()


def _write_json(answers: Answers) -> None:
    from wiredecode.tables.rows import dumps, rows

    tables = {each.name: [row for batch in table.to_batches() for row in rows(batch)] for each, table in answers}
    output = Output()
    output.write(dumps(tables) + b"\n")
    output.flush()


def _show_tables(answers: Answers, *, color: bool) -> None:
    """Titles and grids; fewer columns where not all fit, and on a terminal fewer rows."""
    from rich.text import Text

    from wiredecode.stats.tables import counted_grid, counted_lines, differing, heading, shown_columns
    from wiredecode.view import theme
    from wiredecode.view.console import UNBOUNDED_WIDTH, tree_console
    from wiredecode.view.grid import fitting, plain, remarks, width_of

    terminal = sys.stdout.isatty()
    output = Output()
    console = tree_console(output, color=color, terminal=terminal)
    for index, (statistic, table) in enumerate(answers):
        if index:
            console.print()
        console.print(Text(statistic.heading if terminal else statistic.title, theme.HEAD))
        if not table.num_rows:
            console.print(Text("none", "dim"))
            continue
        shown = table.slice(0, MAX_ROWS if terminal else None)
        names, same = differing(statistic, table) if terminal else (shown_columns(table, table.schema.names), {})

        def made(names: list[str], shown: pa.Table = shown, room: int = 0) -> Table:
            grid = counted_grid(shown, names, people=terminal)
            for column in grid.columns:
                if (least := TEXTS.get(str(column.header))) is not None:
                    column.max_width = least + room
            return grid

        if not color and console.width == UNBOUNDED_WIDTH:
            for each in plain(made(names)) if terminal else counted_lines(shown.select(names)):
                output.text(f"{each}\n")
            continue
        if same and width_of(made(names), console) > console.width:
            names, same = differing(statistic, table, keep=False)
        narrow = shown_columns(table, statistic.narrow)
        optional = [name for name in names if name not in narrow and name not in statistic.preferred]
        kept = fitting(names, [*reversed(optional), *reversed(statistic.preferred)], made, console)
        console.print(made(kept, room=max(console.width - width_of(made(kept), console), 0)))
        for line in remarks([heading(name) for name in names if name not in kept], same, ": --json"):
            console.print(line)
    output.flush()
    hidden = [statistic.name for statistic, table in answers if terminal and table.num_rows > MAX_ROWS]
    if hidden:
        complain(f"the first {MAX_ROWS} rows of {', '.join(hidden)}; a pipe, --json and --csv get all")
