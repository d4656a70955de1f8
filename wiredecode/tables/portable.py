"""Tables in Parquet and on Spark: no unsigned integers, times in microseconds (docs/tables.md, "In Parquet").

The lost part is in another column: ``time_ns`` beside ``time``, ``offset_large`` beside ``offset``. Schemas have the
meanings of columns as comments: for Parquet and Delta (``comment``), Iceberg (``doc``) and Spark.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.frames.columns import COLUMNS
from wiredecode.protocols.catalogue import amqp_entries, catalogue, generated_entries
from wiredecode.protocols.registry import protocols
from wiredecode.tables.column_builders import nulls
from wiredecode.tables.schema import declared_columns, protocol_schema

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
"""Columns of unsigned 64 bits are ``bigint``, which joins and compares fast; larger values are null there, and
in a column of this name beside it, which is null otherwise. Within ``layers`` they are decimals."""
LARGEST = pa.scalar((1 << 63) - 1, pa.uint64())
LATEST_MS = (1 << 63) // 1000
"""Beyond it, times in milliseconds do not fit: they are null."""
COMMON = {"source": "capture point that the row is from; empty: there is one", "day": "day of time (UTC)"}
LAYERS, PROTOCOL, CODE = "layers", "protocol", "_code"
SPARK = b"SPARK::metadata::json"
"""Where Spark looks for the metadata of a column."""


@lru_cache(maxsize=32)
def portable_schema(schema: pa.Schema, *, inner_comments: bool = True) -> pa.Schema:
    """The schema of a table of wiredecode in files and on Spark, with comments; its first column is ``source``.

    ``inner_comments``: also of the fields of layers, for which all protocols are imported.
    """
    fields = [SOURCE]
    for field in schema:
        if field.type == pa.uint64():
            fields += [pa.field(field.name, pa.int64()), pa.field(field.name + LARGE, WIDER[field.type])]
            continue
        fields.append(field.with_type(_type(field.type, field.name, inner_comments)).remove_metadata())
        if field.name == TIME:
            fields.append(TIME_NS)
    table = (schema.metadata or {}).get(b"wiredecode.table", b"").decode()
    return pa.schema([_with_comment(field, column_meaning(table, field.name)) for field in fields], schema.metadata)


@lru_cache(maxsize=32)
def file_schema(schema: pa.Schema) -> pa.Schema:
    """The schema in every file: meanings of top columns only, as those of a thousand fields would be 300 KB."""
    fields = []
    for field in schema:
        kept = {b"comment": text} if (text := (field.metadata or {}).get(b"comment")) else None
        fields.append(pa.field(field.name, _type(field.type, "", False), metadata=kept))
    return pa.schema(fields, schema.metadata)


def _type(kind: pa.DataType, path: str, comments: bool) -> pa.DataType:
    """The portable type, perhaps with comments on members of structures; an empty ``path``: only without comments."""
    if pa.types.is_struct(kind):
        members = []
        for field in kind:
            below = path and f"{path}.{field.name}"
            member = field.with_type(_type(field.type, below, comments))
            members.append(_describe_member(member, below) if comments else pa.field(member.name, member.type))
        return pa.struct(members)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type(kind.value_type, path, comments)).remove_metadata())
    return WIDER.get(kind, kind) if path else kind


# Meanings of columns.


def column_meaning(level: str, name: str) -> str | None:
    """Meaning of a column at the top of a table."""
    if name.endswith(LARGE):
        return f"{name.removesuffix(LARGE)} where it is 2**63 or more"
    if declared := declared_columns().get(level, {}).get(name):
        return declared[1]
    of_frames = {each.name: each.comment for each in COLUMNS if level == "frames" or not each.kind}
    return of_frames.get(name) or COMMON.get(name)


def _with_comment(field: pa.Field, text: str | None) -> pa.Field:
    if not text:
        return field
    return field.with_metadata({b"comment": text, b"doc": text, SPARK: json.dumps({"comment": text})})


def _describe_member(field: pa.Field, path: str) -> pa.Field:
    """A member of a structure with its meaning, as declared. Only those of layers need protocols to be imported."""
    layers, _, name = path.partition(".")
    text = None
    if layers == LAYERS:
        *_, last = name.split(".")
        code = f"number of {last.removesuffix(CODE)}" if last.endswith(CODE) else None
        text = _declarations().get(name) or code
    return _with_comment(field.remove_metadata(), text)


@cache
def _declarations() -> dict[str, str]:
    """Meanings of fields by their full names."""
    layers = [layer for protocol in protocols() for layer in protocol.layers()]
    meanings: dict[str, str] = {}
    for entry in (*catalogue(layers), *generated_entries(protocols()), *amqp_entries()):
        if entry.description:
            meanings.setdefault(entry.name, entry.description)
    return meanings


# Rows.


def table_columns(columns: Sequence[str] | None) -> list[str] | None:
    """The columns that a table needs so that these portable columns can be made."""
    if columns is None:
        return None
    names = [TIME if name == TIME_NS.name else name.removesuffix(LARGE) for name in columns if name != SOURCE.name]
    return list(dict.fromkeys(names)) or [TIME]


def portable_rows(batch: pa.RecordBatch, source: str, schema: pa.Schema) -> pa.RecordBatch:
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


def by_protocol(rows: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Rows by protocol, with the members of ``layers`` that its frames can have (docs/tables.md, "Frames")."""
    column = rows.column(PROTOCOL)
    for protocol in pc.unique(column).to_pylist():
        own = pc.is_null(column) if protocol is None else pc.equal(column, protocol)
        yield protocol, take_rows(rows if protocol is None else _narrow(rows, protocol), pc.indices_nonzero(own))


def take_rows(rows: pa.RecordBatch, indexes: pa.Array) -> pa.RecordBatch:
    """Some of the rows, in order; columns without values share one buffer of nulls, since many of them wait."""
    if len(indexes) == len(rows):
        return rows
    return pa.record_batch([_take(column, indexes) for column in rows.columns], schema=rows.schema)


def _take(array: pa.Array, indexes: pa.Array) -> pa.Array:
    if array.null_count == len(array):
        return nulls(len(indexes), array.type)
    if not pa.types.is_struct(array.type):
        return array.take(indexes)
    mask = array.is_null().take(indexes) if array.null_count else None
    return pa.StructArray.from_arrays([_take(part, indexes) for part in _parts(array)], fields=[*array.type], mask=mask)


def _narrow(rows: pa.RecordBatch, protocol: str) -> pa.RecordBatch:
    names = rows.schema.names
    if LAYERS not in names:
        return rows
    layers, kept = rows.column(LAYERS), _members(protocol)
    kept_indexes = [index for index, member in enumerate(layers.type) if member.name in kept]
    if not kept_indexes or len(kept_indexes) == layers.type.num_fields:
        return rows
    fields = [layers.type.field(index) for index in kept_indexes]
    mask = layers.is_null() if layers.null_count else None
    narrow = pa.StructArray.from_arrays([layers.field(index) for index in kept_indexes], fields=fields, mask=mask)
    at = names.index(LAYERS)
    return rows.set_column(at, rows.schema.field(at).with_type(narrow.type), narrow)


@cache
def _members(protocol: str) -> frozenset[str]:
    """The members of ``layers`` that frames of a protocol can have."""
    return frozenset(member.name for member in protocol_schema(protocol).field(LAYERS).type)
