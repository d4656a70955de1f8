"""Record batches as rows that can be written as JSON, and as columns of text for CSV."""

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from wiredecode.frames.escape import json_safe
from wiredecode.frames.record import encode_json, rfc3339

Show = Callable[[bytes], Any]
MAX_INTEGER = (1 << 64) - 1
"""The largest integer that JSON output holds as a number."""
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
Fix = Callable[[Any], Any]


def rows(batch: pa.RecordBatch, show: Show = bytes.hex) -> list[dict[str, Any]]:
    """A dict per row, JSON-ready: RFC 3339 times, maps as lists, bytes by ``show``, null struct members omitted."""
    columns = [values(column, show) for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def values(column: pa.Array, show: Show = bytes.hex) -> list[Any]:
    """The values of one column, JSON-ready for :func:`dumps`."""
    plain, fix = _plain(column.type, show)
    plain_values: list[Any] = (column if plain == column.type else column.cast(plain)).to_pylist()
    return plain_values if fix is None else [None if value is None else fix(value) for value in plain_values]


def dumps(value: Any) -> bytes:
    """``value`` as JSON, without a newline."""
    return json_safe(encode_json(value, _other))


def text_column(column: pa.Array, show: Show = bytes.hex) -> pa.Array:
    """A column as CSV has it: numbers, truth values and text as they are, times as RFC 3339, nested values as JSON."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return text_column(column.cast(kind.value_type), show)
    if pa.types.is_nested(kind):
        texts = [None if value is None else dumps(value).decode() for value in values(column, show)]
        return pa.array(texts, pa.string())
    if is_bytes(kind) or pa.types.is_timestamp(kind):
        return pa.array(values(column, show), pa.string())
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    return column


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are bytes, in any layout."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


@lru_cache(maxsize=256)
def _plain(kind: pa.DataType, show: Show) -> tuple[pa.DataType, Fix | None]:
    """Type in which values are read, and conversion to JSON (None: none). Times as integers keep nanoseconds."""
    if pa.types.is_timestamp(kind):
        factor = PER_SECOND["ns"] // PER_SECOND[kind.unit]
        return pa.int64(), lambda ticks: rfc3339(ticks * factor)
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type, show)
    if is_bytes(kind):
        return kind, show
    if pa.types.is_struct(kind):
        members = {field.name: _plain(field.type, show) for field in kind}
        fixes = {name: fix for name, (_, fix) in members.items() if fix is not None}
        return pa.struct([field.with_type(members[field.name][0]) for field in kind]), _members(fixes)
    if pa.types.is_map(kind):
        (key, name), (item, value) = _plain(kind.key_type, show), _plain(kind.item_type, show)
        return pa.map_(key, item), lambda pairs: [
            {"key": _apply(name, key_fix), "value": _apply(value, value_fix)} for key_fix, value_fix in pairs
        ]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        plain, fix = _plain(kind.value_type, show)
        if not pa.types.is_fixed_size_list(kind):
            kind = (pa.list_ if pa.types.is_list(kind) else pa.large_list)(kind.value_field.with_type(plain))
        return kind, None if fix is None else lambda values: [_apply(fix, value) for value in values]
    return kind, None


def _apply(fix: Fix | None, value: Any) -> Any:
    return value if fix is None or value is None else fix(value)


def _members(fixes: dict[str, Fix]) -> Fix:
    return lambda value: {
        name: fixes[name](member) if name in fixes else member for name, member in value.items() if member is not None
    }


def _other(value: Any) -> Any:
    """Convert a value without a JSON type, which the answer of a query can contain."""
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value() and abs(value) <= MAX_INTEGER >> (value < 0)
        return int(value) if whole else float(value) if abs(value) < 1 << 53 else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value) if isinstance(value, UUID) else repr(value)
