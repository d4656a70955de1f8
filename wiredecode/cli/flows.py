"""``wiredecode flows``: who publishes what, and who gets it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

from typer import Option

from wiredecode.cli import options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import complain, wants_color

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wiredecode.cli.output import Output
    from wiredecode.flows import Flows
    from wiredecode.flows.table import Row

MAX_ROWS = 40
"""Most rows on a terminal."""
DROPPED = "p99 worst-lag until since confirmed p50 lag skipped again delivered"
"""Columns that a narrow terminal leaves out, the first one first."""
NUMBERS = frozenset(
    ["published", "confirmed", "refused", "delivered", "again", "skipped", "lag", "worst-lag", "p50", "p99"]
)


@options.group
class FlowOptions(options.Captures):
    """Choice of flows, and the form of the output."""

    topic: str | None = Option(None, metavar="NAME", help="Only topics whose name has this text.")
    client: str | None = Option(None, metavar="NAME", help="Only publishers and consumers whose name has this text.")
    by: Literal["topic", "partition", "client", "second"] = Option(
        "topic", help="A row for each topic and consumer; or for each partition, client or second, too."
    )
    display_filter: options.DisplayFilter = None
    two_passes: options.TwoPasses = False
    json: bool = Option(False, "--json", help="One JSON object per row (NDJSON).")
    color: options.Color = "auto"


def flows(settings: FlowOptions) -> int:
    """See who publishes what, who gets it, and what became of it: confirmed, delivered, again, skipped, late.

    A row is a topic and one of its consumers. "skipped" counts messages that were written while a consumer was away and
    that it never got, "again" those that it got more than once. Times are from publish to delivery, in ms. A capture of
    one side only shows that side.
    """
    from wiredecode.cli.session import Selection, Session
    from wiredecode.dataclasses import replace
    from wiredecode.dissect.dissector import ANALYSED
    from wiredecode.flows import Flows
    from wiredecode.flows.table import rows

    display = options.display_filter(settings.display_filter, utc=settings.span.utc)
    counted = Flows(by_second=settings.by == "second")
    selection = Selection(span=settings.span, display=display)
    session = Session.of(
        *(settings, settings.files, selection, replace(ANALYSED, copies=True)),
        two_passes=settings.two_passes,
        to_stdout=False,
    )

    def work() -> None:
        for frame in session.all_frames():
            if session.within(frame.time_ns) and (display is None or display.matches(frame)):
                counted.frame(frame)

    code = session.work(work)
    if code == INTERRUPTED or (code and not session.totals.packets):
        return code
    chosen = [row for row in rows(counted, settings.by) if _is_chosen(row, settings)]
    _show(chosen, settings, session.output, session.first_ns)
    _remark(counted, chosen)
    return code


def _is_chosen(row: Row, settings: FlowOptions) -> bool:
    client = settings.client
    named = client is None or any(client in name for name in (*row.publishers, row.consumer))
    return named and (settings.topic is None or settings.topic in row.topic)


def _show(rows: Sequence[Row], settings: FlowOptions, output: Output, first_ns: int) -> None:
    from wiredecode.frames.record import dumps

    if settings.json:
        for row in rows:
            output.write(dumps(row.record()))
        output.flush()
        return
    from rich.text import Text

    from wiredecode.view import theme
    from wiredecode.view.console import tree_console
    from wiredecode.view.grid import plain

    terminal, color = sys.stdout.isatty(), wants_color(settings.color, sys.stdout)
    if not rows:
        complain("no flows: no known protocol carried messages")
        return
    shown = rows[: MAX_ROWS if terminal else None]
    columns = _columns(shown, first_ns, settings.by)
    console = tree_console(output, color=color, terminal=terminal)
    names, left_out = [*columns], list[str]()
    for name in DROPPED.split() if terminal else ():
        if console.measure(_grid(columns, names)).maximum <= console.width:
            break
        if name in names:
            names.remove(name)
            left_out.append(name)
    if terminal or color:
        console.print(_grid(columns, names, theme.HEAD))
        if left_out:
            console.print(Text(f"no room for {', '.join(left_out)}: --json", "dim"))
    else:
        output.text("".join(f"{line}\n" for line in plain(_grid(columns, names))))
    output.flush()
    if len(shown) < len(rows):
        complain(f"the first {MAX_ROWS} of {len(rows):,} rows; a pipe and --json get all")


def _columns(rows: Sequence[Row], first_ns: int, by: str) -> dict[str, list[str]]:
    """Texts by column; columns that say nothing are left out."""
    from wiredecode.flows.table import NOT_CAPTURED

    def seconds(time_ns: int | None) -> str:
        return f"{(time_ns - first_ns) / 1e9:.3f}" if time_ns else ""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"

    read: dict[str, Callable[[Row], str]] = {
        "second": lambda row: seconds(row.second_ns),
        "from": lambda row: ", ".join(row.publishers) or NOT_CAPTURED,
        "topic": lambda row: row.topic if row.partition is None else f"{row.topic}[{row.partition}]",
        "in": lambda row: row.space,
        "to": lambda row: row.consumer,
        **{
            name: lambda row, name=name: number(getattr(row, name))  # type: ignore[misc]
            for name in ("published", "confirmed", "refused", "delivered", "again", "skipped", "lag")
        },
        "worst-lag": lambda row: number(row.worst_lag),
        "p50": lambda row: number(row.percentile(50)),
        "p99": lambda row: number(row.percentile(99)),
        "since": lambda row: seconds(row.first_ns),
        "until": lambda row: seconds(row.last_ns),
    }
    columns = {name: [text(row) for row in rows] for name, text in read.items()}
    silent = {name for name, texts in columns.items() if set(texts) <= {"", "0"}}
    silent |= {"confirmed"} if columns["confirmed"] == columns["published"] else set()
    silent |= {"in"} if len(set(columns["in"])) == 1 else set()
    silent |= {"since", "until"} if by == "second" else {"second"}
    return {name: texts for name, texts in columns.items() if name not in silent or name in ("published", "delivered")}


def _grid(columns: dict[str, list[str]], names: Sequence[str], style: str = "") -> object:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from wiredecode.frames.escape import escape

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style=style)
    for name in names:
        right = name in NUMBERS or name in ("since", "until", "second")
        table.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold")
    for row in zip(*(columns[name] for name in names), strict=True):
        table.add_row(*(Text(escape(text)) for text in row))
    return table


def _remark(counted: Flows, rows: Sequence[Row]) -> None:
    """What the table cannot show."""
    if counted.omitted:
        complain(f"{sum(counted.omitted.values()):,} steps of further topics are counted under (others)")
    sides = {bool(row.publishers) for row in rows}
    if sides == {False}:
        complain("no publisher was captured: what was published is not known")
