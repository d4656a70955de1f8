"""Rows of values from the wire as a rich table."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from wiredecode.frames.escape import escape, shorten
from wiredecode.tables.rows import dumps
from wiredecode.view import theme


def grid(schema: pa.Schema, rows: Iterable[Iterable[Any]]) -> Table:
    """A table whose names and cells are escaped and shortened; columns of numbers, and of durations, align right."""
    table = Table(box=box.SIMPLE_HEAD, header_style=theme.HEAD, pad_edge=False, show_edge=False)
    for field in schema:
        number = any(is_(field.type) for is_ in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
        table.add_column(
            Text(escape(field.name)), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def plain(table: Table) -> Iterator[str]:
    """The lines of a grid as wide as it needs to be, as rich writes them; rich takes ten times as long."""
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    widths = [max(map(cell_len, column)) for column in columns]
    right = [column.justify == "right" for column in table.columns]
    for number, row in enumerate(zip(*columns, strict=True)):
        gaps = (" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield "   ".join(gap + cell if at else cell + gap for cell, gap, at in zip(row, gaps, right, strict=True))
        if not number:
            yield "─" * (sum(widths) + 3 * (len(widths) - 1))


def vertical(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[Text]:
    """The lines of rows one below the other: a name and a value each."""
    width = max(map(cell_len, map(escape, names)))
    for number, row in enumerate(rows, 1):
        yield Text(f"── row {number:,} ──", theme.HEAD)
        for name, value in zip(map(escape, names), row, strict=True):
            yield Text(f"{name}{' ' * (width - cell_len(name))}  ").append_text(_cell(value))


def markdown(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for an issue or a page."""
    lines = [[escape(name) for name in names], ["---"] * len(names)]
    lines += [[_cell(value).plain for value in row] for row in rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("null", "dim")
    if isinstance(value, bool):
        return Text(str(value).lower())
    if isinstance(value, dict | list):
        value = dumps(value).decode()
    return Text(escape(shorten(str(value), theme.SHOWN_CHARACTERS)))
