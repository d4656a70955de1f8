"""The statistics: their tables, columns and sources (docs/stats.md), from ``statistics.toml``; how people see them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from rich.table import Table as RichTable

from wiredecode.data import tables_of
from wiredecode.dataclasses import dataclass
from wiredecode.frames.escape import duration
from wiredecode.tables.rows import values
from wiredecode.view.grid import grid, plain_rows

SOURCE = "source"
PORTION = 1024
"""Rows that are converted together."""
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True)
class Statistic:
    """A table of statistics; on Spark with a column ``source`` before the others."""

    name: str
    title: str
    columns: tuple[str, ...]
    narrow: tuple[str, ...]
    """Columns that a narrow terminal keeps. It drops others from the right."""
    order: tuple[str, ...]
    """Columns that rows are sorted by, nulls last; ``-name``: the largest first."""
    preferred: tuple[str, ...] = ()
    """Columns that a narrow terminal drops last."""
    facts: tuple[str, ...] = ()
    """Further columns, of another source."""

    @property
    def heading(self) -> str:
        """The title for people, who see units in the values."""
        return self.title.removesuffix(", in microseconds")


_TABLES = tables_of(__package__, "statistics.toml")
CONNECTION_FACTS: tuple[str, ...] = tuple(_TABLES["connections"]["facts"])


def _statistic(name: str, table: dict[str, Any]) -> Statistic:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    return Statistic(name, **fields)


STATISTICS = tuple(_statistic(name, table) for name, table in _TABLES.items())
NAMES = tuple(statistic.name for statistic in STATISTICS)


def choose_statistics(names: Iterable[str] | None) -> list[Statistic]:
    """The statistics of these names, or all. Raises ValueError."""
    wanted = tuple(names or NAMES)
    for name in wanted:
        if name not in NAMES:
            raise ValueError(f"no statistic is called {name!r}; there is {', '.join(NAMES)}")
    return [each for each in STATISTICS if each.name in wanted]


FITTING = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Intervals, seconds, that :func:`fitting` chooses of."""
MAX_INTERVALS = 20


def fitting(span_ns: int) -> int:
    """The shortest interval, seconds, of which a capture of that length has at most :data:`MAX_INTERVALS`."""
    return next((each for each in FITTING if span_ns <= each * MAX_INTERVALS * 10**9), FITTING[-1])


def seconds(interval: str) -> int:
    """The seconds of ``1h``, ``15m``, ``10s``, ``1d``. Raises ``ValueError``."""
    match = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", interval, re.ASCII)
    if match is None:
        raise ValueError(f"{interval!r} is not an interval such as 1h, 15m or 10s")
    return int(match[1]) * UNITS[match[2]]


CONNECTION = "connection"
MICROSECONDS = "_us"
"""Suffix of columns of durations; people see them with their unit."""


def shown_columns(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Columns to show: ``source`` only if there are several."""
    several = SOURCE in table.schema.names and len(table.column(SOURCE).unique()) > 1
    return [SOURCE] * several + [name for name in columns if name != SOURCE]


def differing(statistic: Statistic, table: pa.Table, *, keep: bool = True) -> tuple[list[str], dict[str, Any]]:
    """Columns for people, and the value of those that have the same one in all rows; of a single row only those that it
    is sorted by.

    ``keep``: the most important columns are among the former, also if their values are equal.
    """
    names = shown_columns(table, table.schema.names)
    same = {
        name: values(table.column(name).slice(0, 1).combine_chunks())[0]
        for name in names
        if (table.num_rows > 1 or name in statistic.order) and is_constant(table, name)
    }
    keep = keep or table.num_rows == 1
    same = {name: value for name, value in same.items() if value is None or not (keep and name in statistic.narrow)}
    return [name for name in names if name not in same], same


def is_constant(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return not pa.types.is_nested(kind) and len(table.column(name).unique()) == 1


def heading(name: str) -> str:
    """The name of a column for people: without its unit, which the values have."""
    return name.removesuffix(MICROSECONDS)


def counted_grid(table: pa.Table, columns: list[str], *, people: bool) -> RichTable:
    """These columns as a grid. ``people``: with separators of thousands, and durations with their unit."""
    names = [heading(name) for name in columns] if people else columns
    shown = table.select(columns)
    return grid(shown.rename_columns(names).schema, _rows(shown, people=people))


def counted_lines(table: pa.Table) -> Iterator[str]:
    """All columns as the lines of a plain grid."""
    return plain_rows(table.schema, lambda: _rows(table, people=False))


def _rows(table: pa.Table, *, people: bool) -> Iterator[tuple[Any, ...]]:
    names = table.schema.names
    for first in range(0, table.num_rows, PORTION):
        part = table.slice(first, PORTION)
        cells = (_cells(*column, people=people) for column in zip(names, part.columns, strict=True))
        yield from zip(*cells, strict=True)


def _cells(name: str, column: pa.ChunkedArray, *, people: bool) -> list[Any]:
    """Values as text: ``#3`` for connections, at most three decimals; for ``people`` with thousands separators."""
    cells = values(column.combine_chunks())
    if name == CONNECTION:
        return [None if number is None else f"#{number}" for number in cells]
    if pa.types.is_timestamp(column.type):
        return [None if time is None else time.removesuffix("Z").rstrip("0").rstrip(".") + "Z" for time in cells]
    if people and name.endswith(MICROSECONDS):
        return [None if number is None else duration(number * 1e3) for number in cells]
    separator = "," if people else ""
    if pa.types.is_floating(column.type):
        return [None if number is None else f"{number:{separator}.3f}".rstrip("0").rstrip(".") for number in cells]
    if pa.types.is_integer(column.type):
        return [None if number is None else f"{number:{separator}}" for number in cells]
    return cells
