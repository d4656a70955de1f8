"""The statistics: their tables, columns and sources (docs/stats.md), from ``statistics.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

FRAMES, MESSAGES = "frames", "messages"
SOURCE = "source"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
HOUR = 3600


@dataclass(frozen=True)
class Statistic:
    """A table of statistics. On one machine its first column, ``source``, is missing."""

    name: str
    title: str
    level: str
    """Rows that it is counted from: frames or messages."""
    columns: tuple[str, ...]
    narrow: tuple[str, ...]
    """Columns that stay however narrow the terminal is: they identify or explain. Others go from the right."""
    order: tuple[str, ...]
    """Columns that rows are sorted by, nulls last; ``-name``: the largest first."""
    preferred: tuple[str, ...] = ()
    """Columns that go after the others, where the terminal is narrow."""
    needs: tuple[str, ...] = ()
    """Columns of tables that it is counted from on Spark ..."""
    query: str = ""
    """... and how."""


_TABLES = tomllib.loads((files(__package__) / "statistics.toml").read_text("utf-8"))
CONNECTION_FACTS: tuple[str, ...] = tuple(_TABLES["connections"].pop("facts"))
"""Columns of connections that are known on one machine only, after the others."""
_SAID: dict[str, dict[str, Any]] = {
    name: {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    for name, table in _TABLES.items()
}
*STATISTICS, CONSUMERS = (Statistic(name, **said) for name, said in _SAID.items())
"""``CONSUMERS`` is counted frame by frame only: not of tables that were written."""
NAMES = tuple(statistic.name for statistic in STATISTICS)


def chosen(names: Iterable[str] | None, *, captures: bool = False) -> list[Statistic]:
    """The statistics of these names, all for none, in their order. Raises ``ValueError``.

    ``captures``: those, too, that are counted of captures only.
    """
    known = {each.name: each for each in (*STATISTICS, *((CONSUMERS,) if captures else ()))}
    wanted = tuple(names or known)
    for name in wanted:
        if name not in known:
            raise ValueError(f"no statistic is called {name!r}; there is {', '.join(known)}")
    return [each for name, each in known.items() if name in wanted]


FITTING = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Intervals, seconds, that :func:`fitting` chooses of."""
MOST_INTERVALS = 20


def fitting(span_ns: int) -> int:
    """The shortest interval, seconds, of which a capture of that length has at most :data:`MOST_INTERVALS`."""
    return next((each for each in FITTING if span_ns <= each * MOST_INTERVALS * 10**9), FITTING[-1])


def seconds(interval: str) -> int:
    """The seconds of ``1h``, ``15m``, ``10s``, ``1d``. Raises ``ValueError``."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([smhd])", interval, re.ASCII)
    if found is None:
        raise ValueError(f"{interval!r} is not an interval such as 1h, 15m or 10s")
    return int(found[1]) * UNITS[found[2]]
