"""Converts rows of the frames table into records, to compare them with JSON records."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pyarrow as pa

from wiredecode.fields import rfc3339_ms, rfc3339_ns
from wiredecode.tables.schema import OTHER, is_enumeration, is_json

STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
SPELL = {"ms": rfc3339_ms, "ns": rfc3339_ns}


def rendered(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The record of each row as in JSON output, without nulls (fields that are missing, or null on the wire)."""
    rows = []
    for values in zip(*(_integers(column).to_pylist() for column in batch.columns), strict=True):
        row = {field.name: _rendered(field, value) for field, value in zip(batch.schema, values, strict=True)}
        rows.append(_without_nulls(_with_others(row)))
    return rows


def expected(record: dict[str, Any]) -> dict[str, Any]:
    """A record in the form of :func:`rendered`: without fields that tables omit, enumerations as text."""
    found: dict[str, Any] = _without_nulls({key: value for key, value in record.items() if key != "time_ns"})
    return found


def _integers(column: pa.Array) -> pa.Array:
    return column.cast(_plain(column.type))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def _rendered(field: pa.Field, value: Any) -> Any:
    if value is None:
        return None
    kind = field.type
    if is_json(field):
        return orjson.loads(value)
    if is_enumeration(field) and value.isdigit():
        return int(value)
    if pa.types.is_timestamp(kind):
        return SPELL[kind.unit](value)
    if pa.types.is_binary(kind):
        return value.hex()
    if pa.types.is_list(kind):
        return [_rendered(kind.value_field, element) for element in value]
    if pa.types.is_struct(kind):
        return {inner.name: _rendered(inner, value[inner.name]) for inner in kind}
    return value


def _with_others(row: dict[str, Any]) -> dict[str, Any]:
    """Move the values of OTHER to their paths."""
    layers = row.get("layers")
    if layers is not None:
        unknown = layers.pop(OTHER) or {}
        for layer in layers.values():
            for path, value in ((layer or {}).pop(OTHER, None) or {}).items():
                _put(layer, path, value)
        layers.update(unknown)
    return row


def _put(holder: Any, path: str, value: Any) -> None:
    *steps, last = [name or int(index) for name, index in STEP.findall(path)]
    for step in steps:
        holder = holder[step]
    holder[last] = value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value
