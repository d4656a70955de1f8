"""The same predicate on columns of the frames table, for writing many rows at a time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.filter.logic import Atom, Column, Expression, Join, Negation

COMPARED = {
    "==": lambda column, value: column == value,
    "===": lambda column, value: column == value,
    "!=": lambda column, value: column != value,
    "!==": lambda column, value: column != value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


def arrow_expression(expression: Expression, schema: pa.Schema) -> pc.Expression | None:
    """The predicate for tables with that schema; None where a part of it is about something that is no column."""
    if isinstance(expression, bool):
        return pc.scalar(expression)
    if isinstance(expression, Atom):
        return None if expression.column is None else _test(expression.column, schema)
    if isinstance(expression, Negation):
        inner = arrow_expression(expression.part, schema)
        return None if inner is None else ~inner
    assert isinstance(expression, Join)
    parts = [arrow_expression(part, schema) for part in expression.parts]
    if any(part is None for part in parts):
        return None
    whole = parts[0]
    for part in parts[1:]:
        if expression.operator == "xor":
            whole = (whole & ~part) | (~whole & part)  # type: ignore[operator]
        else:
            whole = whole & part if expression.operator == "and" else whole | part  # type: ignore[operator]
    return whole


def _test(column: Column, schema: pa.Schema) -> pc.Expression | None:
    """One comparison; never null, since an absent field fits nothing."""
    path = column.name.split(".")
    type_ = _type(path, schema)
    if type_ is None:
        return None
    field = pc.field(*path)
    if column.operator == "present":
        return field.is_valid()
    value = _scalar(column.values[0], type_)
    if value is None:
        return None
    if column.operator == "contains":
        if not pa.types.is_string(type_):
            return None
        found = pc.match_substring(field, column.values[0])
    else:
        found = COMPARED[column.operator](field, value)
    return pc.coalesce(found, pc.scalar(False))


def _type(path: list[str], schema: pa.Schema) -> pa.DataType | None:
    """The type of a column, through structures; None: there is none, or it is a list or JSON text."""
    found: Any = None
    for index, step in enumerate(path):
        place = schema.get_field_index(step) if index == 0 else found.type.get_field_index(step)
        if place < 0:
            return None
        found = schema.field(place) if index == 0 else found.type.field(place)
        if index < len(path) - 1 and not pa.types.is_struct(found.type):
            return None
    if found.metadata and b"wiredecode.json" in found.metadata:
        return None
    plain = pa.types.is_primitive(found.type) or pa.types.is_string(found.type) or pa.types.is_binary(found.type)
    return found.type if plain else None


def _scalar(value: Any, type_: pa.DataType) -> pa.Scalar[Any] | None:
    """The value as one of the column's type; None where it has none, or not the same one."""
    try:
        if pa.types.is_timestamp(type_):
            return pa.scalar(value, pa.timestamp("ns", type_.tz)).cast(type_)
        if isinstance(value, bool) != pa.types.is_boolean(type_):
            return None
        if isinstance(value, bytes) != pa.types.is_binary(type_):
            return None
        if isinstance(value, float) and not pa.types.is_floating(type_):
            return None
        return pa.scalar(value, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
        return None
