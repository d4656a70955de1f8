"""Writes down what schemas are derived from declarations: ``python -m tests.tables.freeze``.

tests/tables/schema_v2.txt has a line per column; wiredecode/tables/layers.json is what commands read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from wiredecode.protocols.registry import protocols
from wiredecode.tables import schema

FROZEN = Path(__file__).with_name(f"schema_v{schema.VERSION}.txt")


def lines() -> list[str]:
    """``table name type``: ``frames layers.tank.topics[].partitions[].partition uint16``."""
    tables = (schema.frames_schema(), *map(schema.declared_schema, ("messages", "packets", "flows")))
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


def layers() -> dict[str, Any]:
    """The content of wiredecode/tables/layers.json."""
    both = [pa.field("layers", schema.derived_layers(protocols(), raw)) for raw in (True, False)]
    written: dict[str, Any] = _written(*both)
    return written


def _written(raw: pa.Field, text: pa.Field) -> Any:
    if pa.types.is_struct(raw.type):
        return {member.name: _written(member, other) for member, other in zip(raw.type, text.type, strict=True)}
    if pa.types.is_list(raw.type):
        return [_written(raw.type.value_field, text.type.value_field)]
    first, second = _word(raw), _word(text)
    return first if second in (first, {"binary": "string"}.get(first)) else f"{first}|{second}"


def _word(field: pa.Field) -> str:
    if schema.is_json(field):
        return "json"
    return "enum" if schema.is_enumeration(field) else next(k for k, each in schema.TYPES.items() if each == field.type)


if __name__ == "__main__":
    schema.LAYERS.write_text(json.dumps(layers(), indent=1) + "\n")
    FROZEN.write_text("\n".join(lines()) + "\n")
