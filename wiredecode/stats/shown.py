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


def shown_columns(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """These, and ``source`` only where there are several."""
    several = SOURCE in table.schema.names and len(table.column(SOURCE).unique()) > 1
    return [SOURCE] * several + [name for name in columns if name != SOURCE]


def counted_grid(table: pa.Table, columns: list[str], *, people: bool) -> RichTable:
    shown = table.select(columns)
    cells = (_cells(*column, people=people) for column in zip(columns, shown.columns, strict=True))
    return grid(shown.schema, zip(*cells, strict=True))


def _cells(name: str, column: pa.ChunkedArray, *, people: bool) -> list[Any]:
    """Values as text: ``#3`` for connections, seconds without zeros behind them, other numbers to three digits.

    For ``people`` thousands have separators.
    """
    found = values(column.combine_chunks())
    if name == CONNECTION:
        return [None if number is None else f"#{number}" for number in found]
    if pa.types.is_timestamp(column.type):
        return [None if time is None else time.removesuffix("Z").rstrip("0").rstrip(".") + "Z" for time in found]
    separator = "," if people else ""
    if pa.types.is_floating(column.type):
        return [None if number is None else f"{number:{separator}.3f}".rstrip("0").rstrip(".") for number in found]
    if pa.types.is_integer(column.type):
        return [None if number is None else f"{number:{separator}}" for number in found]
    return found
