"""Tables of statistics as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wiredecode.stats.tables import SOURCE
from wiredecode.tables.rows import values
from wiredecode.view.grid import grid

if TYPE_CHECKING:
    from rich.table import Table as RichTable

CONNECTION = "connection"
MICROSECONDS = "_us"
"""Suffix of columns of durations; people see them with their unit."""
UNITS = ((1e6, "s"), (1e3, "ms"), (1, "µs"))


def shown_columns(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """These, and ``source`` only where there are several."""
    several = SOURCE in table.schema.names and len(table.column(SOURCE).unique()) > 1
    return [SOURCE] * several + [name for name in columns if name != SOURCE]


def constants(table: pa.Table, columns: Sequence[str]) -> dict[str, Any]:
    """Return the columns of a table of several rows that have the same value in all rows, and that value."""
    if table.num_rows < 2:
        return {}
    same = [name for name in columns if is_constant(table, name)]
    return {name: values(table.column(name).slice(0, 1).combine_chunks())[0] for name in same}


def is_constant(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return not pa.types.is_nested(kind) and len(table.column(name).unique()) == 1


def heading(name: str) -> str:
    """The name of a column for people: without its unit, which the values have."""
    return name.removesuffix(MICROSECONDS)


def duration(microseconds: float) -> str:
    """Three digits, and a unit: ``1.62 ms``, ``119 ms``."""
    size, unit = next((each for each in UNITS if microseconds >= each[0]), UNITS[-1])
    number = microseconds / size
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:,.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if digits else text} {unit}"


def counted_grid(table: pa.Table, columns: list[str], *, people: bool) -> RichTable:
    """These columns as a grid. ``people``: with separators of thousands, and durations with their unit."""
    shown = table.select(columns)
    if people:
        shown = shown.rename_columns([heading(name) for name in columns])
    cells = (_cells(*column, people=people) for column in zip(columns, shown.columns, strict=True))
    return grid(shown.schema, zip(*cells, strict=True))


def _cells(name: str, column: pa.ChunkedArray, *, people: bool) -> list[Any]:
    """Values as text: ``#3`` for connections, seconds without trailing zeros, other numbers to three digits.

    For ``people`` thousands have separators.
    """
    found = values(column.combine_chunks())
    if name == CONNECTION:
        return [None if number is None else f"#{number}" for number in found]
    if pa.types.is_timestamp(column.type):
        return [None if time is None else time.removesuffix("Z").rstrip("0").rstrip(".") + "Z" for time in found]
    if people and name.endswith(MICROSECONDS):
        return [None if number is None else duration(number) for number in found]
    separator = "," if people else ""
    if pa.types.is_floating(column.type):
        return [None if number is None else f"{number:{separator}.3f}".rstrip("0").rstrip(".") for number in found]
    if pa.types.is_integer(column.type):
        return [None if number is None else f"{number:{separator}}" for number in found]
    return found
