"""The schemas as text, one line per column: ``python -m tests.tables.freeze`` writes tests/tables/schema_v2.txt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from wiredecode.tables import schema

FROZEN = Path(__file__).with_name(f"schema_v{schema.VERSION}.txt")


def lines() -> list[str]:
    """``table name type``: ``frames layers.tank.topics[].partitions[].partition uint16``."""
    tables = (schema.frames_schema(), schema.declared_schema("messages"), schema.declared_schema("packets"))
    return [f"{table.metadata[b'wiredecode.table'].decode()} {line}" for table in tables for line in _lines(table)]


def _lines(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    for field in fields:
        name, inner = prefix + field.name, field
        while pa.types.is_list(inner.type):
            name, inner = name + "[]", inner.type.value_field
        if pa.types.is_struct(inner.type):
            yield from _lines(inner.type, name + ".")
        else:
            yield f"{name} {'json' if schema.is_json(inner) else inner.type}"


if __name__ == "__main__":
    FROZEN.write_text("\n".join(lines()) + "\n")
