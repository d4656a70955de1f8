"""Tables as Parquet and Spark hold them: no unsigned integers, times in microseconds (docs/tables.md, "In Parquet").

What is lost by that is there in another column: ``time_ns`` beside ``time``, ``offset_large`` beside ``offset``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.tables.column_builders import nulls
from wiredecode.tables.meanings import commented

WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.timestamp("ns", "UTC"): pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "UTC"): pa.timestamp("us", "UTC"),
}
SOURCE = pa.field("source", pa.string())
TIME, TIME_NS = "time", pa.field("time_ns", pa.int64())
LARGE = "_large"
"""Columns of unsigned 64 bits are ``bigint``, which joins and compares fast; what does not fit is null there, and
stands in a column of this name beside it, which is null otherwise. Within ``layers`` they are decimals."""
LARGEST = pa.scalar((1 << 63) - 1, pa.uint64())
LATEST_MS = (1 << 63) // 1000
"""Beyond it, times in milliseconds do not fit: they are null."""


def portable_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a table of wiredecode in files and on Spark, with comments; its first column is ``source``."""
    fields = [SOURCE]
    for field in schema:
        if field.type == pa.uint64():
            fields += [pa.field(field.name, pa.int64()), pa.field(field.name + LARGE, WIDER[field.type])]
            continue
        fields.append(field.with_type(_type(field.type)).remove_metadata())
        if field.name == TIME:
            fields.append(TIME_NS)
    table = (schema.metadata or {}).get(b"wiredecode.table", b"").decode()
    return pa.schema(commented(fields, table), schema.metadata)


def table_columns(columns: Sequence[str] | None) -> list[str] | None:
    """The columns of a table of wiredecode that the given portable ones are made of."""
    if columns is None:
        return None
    names = [TIME if name == TIME_NS.name else name.removesuffix(LARGE) for name in columns if name != SOURCE.name]
    return list(dict.fromkeys(names)) or [TIME]


def converted(batch: pa.RecordBatch, source: str, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of a table as rows of a source; ``schema`` as :func:`portable_schema` gives, or some of its columns."""
    columns = []
    for field in schema:
        if field.name == SOURCE.name:
            columns.append(pa.repeat(source, len(batch)))
        elif field.name == TIME_NS.name:
            columns.append(batch.column(TIME).cast(pa.int64()))
        elif field.name.endswith(LARGE):
            columns.append(_large(batch.column(field.name.removesuffix(LARGE)), field.type))
        else:
            columns.append(_cast(batch.column(field.name), field.type))
    return pa.record_batch(columns, schema=schema)


def _large(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers that do not fit ``bigint``, null for all others."""
    if not _beyond(array):
        return nulls(len(array), kind)
    return pc.if_else(pc.greater(array, LARGEST), array, None).cast(kind)


def _beyond(array: pa.Array) -> bool:
    """Whether a number does not fit ``bigint``."""
    return bool((pc.max(array).as_py() or 0) > LARGEST.as_py())


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type(field.type)).remove_metadata() for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type(kind.value_type)).remove_metadata())
    return WIDER.get(kind, kind)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if array.null_count == len(array):
        return nulls(len(array), kind)
    if pa.types.is_struct(kind):
        members = [_cast(part, field.type) for part, field in zip(_parts(array), kind, strict=True)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        whole = pa.concat_arrays([array]) if array.offset else array
        ends = whole.offsets
        values = _cast(whole.values, kind.value_type)
        return pa.ListArray.from_arrays(ends, values, type=kind, mask=whole.is_null() if whole.null_count else None)
    if array.type == pa.uint64() and kind == pa.int64() and _beyond(array):
        array = pc.if_else(pc.less_equal(array, LARGEST), array, None)
    if array.type == pa.timestamp("ms", "UTC"):
        fits = pc.less(pc.abs(array.cast(pa.int64())), LATEST_MS)
        array = pc.if_else(fits, array, pa.scalar(None, array.type))
    return array.cast(kind, safe=False)


def _parts(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(index) for index in range(array.type.num_fields)] if not array.offset else array.flatten()
