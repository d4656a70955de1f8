"""Flows as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from rich import box
from rich.table import Table
from rich.text import Text

from wiredecode.flows.table import NOT_CAPTURED, Row
from wiredecode.frames.escape import escape

SECOND = 1_000_000_000
DROPPED = "p99 worst-lag until since confirmed p50 lag skipped again delivered"
"""Columns that a narrow terminal leaves out, the first one first."""
NUMBERS = frozenset(
    ("published", "confirmed", "refused", "delivered", "again", "skipped", "lag", "worst-lag", "p50", "p99")
)


SHOWN, WIDEST = 1, 22
"""On a terminal: publishers that a row names, and columns of their names."""


def columns_of(rows: Sequence[Row], first_ns: int, by: str, *, terminal: bool = False) -> dict[str, list[str]]:
    """Texts by column; columns that say nothing are left out. ``terminal``: of many publishers only some are named."""

    def publishers(row: Row) -> str:
        names = [*row.publishers] or [NOT_CAPTURED]
        if not terminal or len(names) <= SHOWN + 1:
            return ", ".join(names)
        return f"{', '.join(names[:SHOWN])} and {len(names) - SHOWN:,} more"

    def seconds(time_ns: int | None) -> str:
        return f"{(time_ns - first_ns) / 1e9:.3f}" if time_ns else ""

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"

    def count(name: str, row: Row) -> str:
        return number(getattr(row, name))

    read: dict[str, Callable[[Row], str]] = {
        "second": lambda row: f"{(row.second_ns or 0) // SECOND - first_ns // SECOND}",
        "from": publishers,
        "topic": lambda row: row.topic if row.partition is None else f"{row.topic}[{row.partition}]",
        "in": lambda row: row.space,
        "to": lambda row: row.consumer,
        **{
            name: partial(count, name)
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


def grid(columns: dict[str, list[str]], names: Sequence[str], style: str = "") -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style=style)
    for name in names:
        right = name in NUMBERS or name in ("since", "until", "second")
        most = WIDEST if name == "from" else None
        table.add_column(name, justify="right" if right else "left", no_wrap=right, overflow="fold", max_width=most)
    for row in zip(*(columns[name] for name in names), strict=True):
        table.add_row(*(Text(escape(text)) for text in row))
    return table
