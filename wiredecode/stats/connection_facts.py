"""Columns of the table of connections that frames do not tell: names, beginnings, ends and TCP health."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from wiredecode.stats.tables import CONNECTION_FACTS
from wiredecode.tables.schema import connections_schema

SAME = ("connection", "client", "server", "protocol", "seconds")
"""Columns of both that say the same."""
SENT = tuple(f"{side}_{name}" for side in ("client", "server") for name in ("frames", "bytes"))


def joined(
    rows: list[dict[str, Any]], schema: pa.Schema, connections: Iterable[dict[str, Any]], *, whole: bool
) -> tuple[list[dict[str, Any]], pa.Schema]:
    """``rows``, counted by connection, with the columns CONNECTION_FACTS of ``connections``, rows of their table.

    ``whole``: connections without frames come, too.
    """
    facts = {each["connection"]: each for each in connections}
    if whole:
        there = {row["connection"] for row in rows}
        rows = rows + [_without_frames(row) for number, row in facts.items() if number not in there]
    for row in rows:
        known = facts.get(row["connection"], {})
        row.update({name: value(name, known) for name in CONNECTION_FACTS})
    return rows, pa.schema([*schema, *map(field, CONNECTION_FACTS)])


def field(name: str) -> pa.Field:
    return pa.field(name, pa.float64()) if name.endswith("_us") else connections_schema().field(name)


def value(name: str, row: dict[str, Any]) -> Any:
    if not name.endswith("_us"):
        return row.get(name)
    ns = row.get(f"{name.removesuffix('_us')}_ns")
    return None if ns is None else ns / 1e3


def _without_frames(row: dict[str, Any]) -> dict[str, Any]:
    start = pa.scalar(row["time"], pa.timestamp("ns", "UTC")).cast(pa.timestamp("us", "UTC"), safe=False).as_py()
    return {**{name: row[name] for name in SAME}, **dict.fromkeys(SENT, 0), "start": start}
