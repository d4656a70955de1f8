"""Rows of values from the wire as a rich table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from wiredecode.frames.escape import escape, shorten
from wiredecode.tables.rows import dumps
from wiredecode.view import theme
from wiredecode.view.console import UNBOUNDED_WIDTH

Name = TypeVar("Name")
MAX_NAMED = 12
"""Columns without room that are named; of more the number is said."""


def grid(schema: pa.Schema, rows: Iterable[Iterable[Any]], most: int = theme.SHOWN_CHARACTERS) -> Table:
    """A table whose names and cells are escaped and shortened to ``most`` characters; columns of numbers, and of
    durations, align right.
    """
    table = Table(box=box.SIMPLE_HEAD, header_style=theme.HEAD, pad_edge=False, show_edge=False)
    for field in schema:
        number = _is_number(field)
        table.add_column(
            Text(escape(field.name)), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in rows:
        table.add_row(*(_cell(value, most) for value in row))
    return table


def width_of(table: Table, console: Console) -> int:
    """Columns of the terminal that a table needs."""
    return console.measure(table, options=console.options.update(width=UNBOUNDED_WIDTH)).maximum


def fitting(
    names: Sequence[Name], dropped: Iterable[Name], make: Callable[[list[Name]], Table], console: Console
) -> list[Name]:
    """The columns that fit a terminal: ``names`` without the first of ``dropped``. ``make``: a table of columns."""

    def fits(columns: list[Name]) -> bool:
        return width_of(make(columns), console) <= console.width

    kept, gone = [*names], list[Name]()
    for name in dropped:
        if fits(kept):
            break
        if name in kept:
            kept.remove(name)
            gone.append(name)
    for name in reversed(gone):  # a narrow one may fit where a wide one did not
        more = [each for each in names if each in kept or each == name]
        kept = more if fits(more) else kept
    return kept


def remarks(missing: Sequence[str], same: Mapping[str, Any], where: str = "") -> Iterator[Text]:
    """Lines below a table without some columns: the value of those that are ``same`` in all rows, unless it is
    nothing, and the names of the others. ``where``: what shows them.
    """
    if values := [f"{escape(name)} {_cell(value).plain}" for name, value in same.items() if value]:
        yield Text(f"in all rows: {', '.join(values)}", "dim")
    if missing:
        more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED + 1 else ""
        named = map(escape, missing[:MAX_NAMED] if more else missing)
        yield Text(f"no room for {', '.join(named)}{more}{where}", "dim")


def plain(table: Table) -> Iterator[str]:
    """The lines of a grid as wide as it needs to be, as rich writes them; rich takes ten times as long."""
    names, right = [str(column.header) for column in table.columns], [each.justify == "right" for each in table.columns]
    return _lines(names, right, lambda: zip(*(map(str, column.cells) for column in table.columns), strict=True))


def plain_rows(schema: pa.Schema, rows: Callable[[], Iterable[Iterable[Any]]]) -> Iterator[str]:
    """The same of many ``rows``, without a grid: they are made twice, for the widths and for the lines."""
    names, right = [escape(field.name) for field in schema], [_is_number(field) for field in schema]
    return _lines(names, right, lambda: ([*map(_text, row)] for row in rows()))


def _lines(names: list[str], right: list[bool], rows: Callable[[], Iterable[Sequence[str]]]) -> Iterator[str]:
    widths = [*map(cell_len, names)]
    for row in rows():
        widths = [*map(max, widths, map(cell_len, row))]
    for number, row in enumerate(chain((names,), rows())):
        gaps = (" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        yield "   ".join(gap + cell if at else cell + gap for cell, gap, at in zip(row, gaps, right, strict=True))
        if not number:
            yield "─" * (sum(widths) + 3 * (len(widths) - 1))


def _is_number(field: pa.Field) -> bool:
    return any(is_(field.type) for is_ in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


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


def _cell(value: Any, most: int = theme.SHOWN_CHARACTERS) -> Text:
    return Text(_text(value, most))


def _text(value: Any, most: int = theme.SHOWN_CHARACTERS) -> str:
    if value is None:
        return ""  # as a terminal of psql shows it
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        value = dumps(value).decode()
    return escape(shorten(str(value), most))
