"""The schemas of the tables, derived from the declarations of layers and columns.toml (docs/tables.md).

Metadata of a field completes its type: :data:`JSON_TEXT` marks columns of JSON text, :data:`ENUMERATION` the
names of an enumeration, whose numbers are beside them.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from wiredecode.data import tables_of
from wiredecode.fields import Array, Binary, Kind, Number, Struct, plain
from wiredecode.fields.jsonfields import Others
from wiredecode.fields.layer import Layer
from wiredecode.frames.columns import COLUMNS
from wiredecode.protocols.base import Protocol
from wiredecode.protocols.catalogue import UnknownColumn as UnknownColumn
from wiredecode.protocols.catalogue import column_name, known_columns
from wiredecode.protocols.registry import has_added, protocols

VERSION = 2
"""Version of all schemas. A version may add columns; it never removes one or changes its type or meaning."""
STABLE_IDS = {b"wiredecode.ids": b"stable"}
"""Metadata of a table that calls connections and frames by ids, and packets by their times."""
JSON_TEXT = {b"wiredecode.json": b"1"}
ENUMERATION = {b"wiredecode.enum": b"1"}
OTHER = "other"
"""Member of every layer: what no other member holds, as a JSON object from path to value."""
ORDER = pa.field("(order)", pa.int64())
"""With several processes the last column: number of the frame."""
RAW = "raw"
"""``bytes_choice`` that leaves bytes as bytes."""
MAX_DEPTH = 16
"""Nesting of structures that is followed; what is deeper is JSON text."""

LAYERS = Path(__file__).with_name("layers.json")
"""What the layers of our protocols are as columns, as to derive it takes 0.3 s. ``python -m tests.tables.freeze``."""
TIME = pa.timestamp("ns", "UTC")
TYPES = {
    "bool": pa.bool_(),
    "float64": pa.float64(),
    **{kind: getattr(pa, kind)() for kind in ("int8", "int16", "int32", "int64", "string", "binary")},
    **{kind: getattr(pa, kind)() for kind in ("uint8", "uint16", "uint32", "uint64")},
    "fixed_size_binary[16]": pa.string(),  # UUIDs, as records show them
    "timestamp[s, UTC]": pa.timestamp("ms", "UTC"),
    "timestamp[ms, UTC]": pa.timestamp("ms", "UTC"),
    "timestamp[ns, UTC]": TIME,
}
INTEGER_RANGES = {
    kind: range(-(1 << bits - 1), 1 << bits - 1) if signed else range(1 << bits)
    for bits in (8, 16, 32, 64)
    for kind, signed in ((TYPES[f"int{bits}"], True), (TYPES[f"uint{bits}"], False))
}
"""Values of each type of integer, the narrowest first."""


# The tables.


def frames_schema(bytes_choice: str = RAW) -> pa.Schema:
    """Frames of all protocols: ``layers`` has a member per layer name, each with the fields of all message types."""
    raw = bytes_choice == RAW
    return _frames(derived_layers(tuple(protocols()), raw) if has_added() else written_layers(raw))


def protocol_schema(protocol: str, bytes_choice: str = RAW) -> pa.Schema:
    """Frames of one protocol: ``layers`` has only those that its frames can have.

    ``protocol`` is as in frames: it may be one that others carry. Of an unknown one it is :func:`frames_schema`.
    """
    hosts = tuple(each for each in protocols() if protocol == each.name or protocol in layer_names(each))
    return _frames(derived_layers(hosts or tuple(protocols()), bytes_choice == RAW))


@cache
def declared_columns() -> dict[str, dict[str, tuple[str, str]]]:
    """Type and meaning of the columns of all tables but that of frames, from ``columns.toml``."""
    tables = tables_of(__package__, "columns.toml")
    directions = tables.pop("direction")
    for side in ("client", "server"):
        tables["connections"] |= {
            f"{side}_{name}": ("int64", f"of the {side}: {meaning}") for name, meaning in directions.items()
        }
    return tables


def declared_schema(table: str, bytes_choice: str = RAW) -> pa.Schema:
    """Messages, packets, connections or flows: the columns of ``columns.toml``."""
    raw = bytes_choice == RAW
    headers = pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("value", _bytes(raw))]))
    columns = declared_columns()[table].items()
    return _schema(
        table,
        [(name, headers if kind == "headers" else spelled_field(name, kind, raw).type) for name, (kind, _) in columns],
    )


def _frames(layers: pa.StructType) -> pa.Schema:
    finding = pa.struct(
        [
            *(pa.field(name, pa.string()) for name in ("severity", "group", "code", "message", "field")),
            pa.field("range", pa.list_(pa.int32())),
        ]
    )
    structures = {"layers": layers, "findings": pa.list_(finding)}
    columns = [(each.name, structures.get(each.kind), each.kind) for each in COLUMNS if each.kind]
    return _schema("frames", [(name, fixed or spelled_field(name, kind, True).type) for name, fixed, kind in columns])


def _schema(table: str, columns: list[tuple[str, pa.DataType]]) -> pa.Schema:
    metadata = {"wiredecode.table": table, "wiredecode.schema": str(VERSION)}
    return pa.schema([pa.field(name, kind) for name, kind in columns], metadata=metadata)


# Choosing columns.


def select(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    """Columns by name, in this order, also members as ``layers.nats.subject``. Raises :class:`UnknownColumn`."""
    if columns is None:
        return schema
    columns = known_columns(columns, _names(schema))
    order = [column.split(".")[0] for column in columns]
    fields = sorted(_choose_fields(schema, "", frozenset(columns)), key=lambda field: order.index(field.name))
    return pa.schema(fields, metadata=schema.metadata)


def column_names(schema: pa.Schema, columns: Iterable[str]) -> list[str]:
    """The names of columns, where some are those that filters have: ``frame`` for ``frame.number``; none twice."""
    names = frozenset(_names(schema))
    return list(dict.fromkeys(column_name(column, names) for column in columns))


def _names(fields: Iterable[pa.Field], prefix: str = "") -> list[str]:
    names: list[str] = []
    for field in fields:
        names += [prefix + field.name, *_names(members_of(field.type), f"{prefix}{field.name}.")]
    return names


def members_of(kind: pa.DataType) -> Iterable[pa.Field]:
    """The fields of a structure, or of the structures in an array."""
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind if pa.types.is_struct(kind) else ()


def field_of(schema: pa.Schema, name: str) -> pa.Field:
    """The column of a name; that of a field of structures in arrays is one list of all its values."""
    first, *rest = name.split(".")
    field, listed = schema.field(first), False
    for step in rest:
        listed = listed or pa.types.is_list(field.type)
        field = next(each for each in members_of(field.type) if each.name == step)
    listed = listed and not pa.types.is_list(field.type)
    return field.with_type(pa.list_(field.with_name("item"))) if listed else field


def _choose_fields(fields: Iterable[pa.Field], prefix: str, columns: frozenset[str]) -> list[pa.Field]:
    chosen = []
    for field in fields:
        name = prefix + field.name
        if name in columns:
            chosen.append(field)
        elif inner := _choose_fields(members_of(field.type), f"{name}.", columns):
            chosen.append(_narrow(field, inner))
    return chosen


def _narrow(field: pa.Field, members: list[pa.Field]) -> pa.Field:
    """The column with these fields in its structures."""
    if pa.types.is_list(field.type):
        return field.with_type(pa.list_(_narrow(field.type.value_field, members)))
    return field.with_type(pa.struct(members))


# Layers.


@cache
def written_layers(raw: bool) -> pa.StructType:
    """Those of :data:`LAYERS`; ``raw`` as for :func:`derived_layers`."""
    return _written_field("layers", json.loads(LAYERS.read_text("utf-8")), raw).type


def _written_field(name: str, written: Any, raw: bool) -> pa.Field:
    """A structure by its members, a list by its element, others by a word; without ``raw`` by the second of two."""
    if isinstance(written, dict):
        return pa.field(name, pa.struct([_written_field(member, each, raw) for member, each in written.items()]))
    if isinstance(written, list):
        return pa.field(name, pa.list_(_written_field("item", written[0], raw)))
    of_bytes, _, of_text = written.partition("|")
    column = of_bytes if raw or not of_text else of_text
    return pa.field(name, pa.string(), metadata=ENUMERATION) if column == "enum" else spelled_field(name, column, raw)


@cache
def derived_layers(hosts: tuple[Protocol, ...], raw: bool) -> pa.StructType:
    """The layers of protocols as columns; ``raw``: bytes are bytes, not text."""
    members: dict[str, list[pa.Field]] = {}
    for host in hosts:
        by_name: dict[str, list[pa.Field]] = {}
        for layer in dict.fromkeys(host.layers()):
            by_name.setdefault(layer.filter_name, []).extend(layer_fields(layer, raw))
        merged = {name: merged_fields(fields) for name, fields in by_name.items()}
        types = generated_types(host)
        for path in sorted(types, key=lambda path: path.count(".")):  # what holds it first
            name, *rest = path.split(".")
            if name in merged:
                merged[name] = _replace_field(merged[name], rest, types[path], raw)
        for name, fields in merged.items():
            members[name] = merged_fields([*members.get(name, []), *fields])
    structs = [pa.field(name, pa.struct([*fields, json_field(OTHER)])) for name, fields in members.items()]
    return pa.struct([*structs, json_field(OTHER)])


def generated_types(protocol: Protocol) -> dict[str, str]:
    """Types that are not in the declarations of layers, by full name."""
    return {**{name: field.column for name, field in protocol.generated_fields().items()}, **protocol.column_types}


def layer_names(protocol: Protocol) -> set[str]:
    """The layers of its frames, as columns of ``layers``."""
    return {layer.filter_name for layer in protocol.layers()}


def layer_fields(layer: type[Layer], raw: bool, depth: int = 0) -> list[pa.Field]:
    """The columns of a layer's fields, in the order of the declaration."""
    return [field for kind in layer.fields_desc for field in _fields(plain(kind), raw, depth)]


def _fields(kind: Kind, raw: bool, depth: int) -> list[pa.Field]:
    """A field as columns: the number of an enumeration is a separate column."""
    if kind.hidden or isinstance(kind, Others):  # other members are in OTHER
        return []
    if kind.secret:
        return [pa.field(kind.name, pa.string())]
    if kind.name == "unknown_fields":
        return [json_field(kind.name)]
    if isinstance(kind, Struct):
        return [_struct(kind, kind.name, raw, depth)]
    if isinstance(kind, Array):
        element = _fields(kind.element, raw, depth)[0].with_name("item")
        return [pa.field(kind.name, pa.list_(element))]
    if isinstance(kind, Number) and kind.code_name:
        return [pa.field(kind.name, pa.string(), metadata=ENUMERATION), pa.field(kind.code_name, TYPES[kind.column])]
    if isinstance(kind, Binary) and type(kind).present is not Binary.present:  # records show it in another way
        return [pa.field(kind.name, pa.string())]
    return [spelled_field(kind.name, kind.column, raw)]


def _struct(kind: Struct, name: str, raw: bool, depth: int) -> pa.Field:
    inner = merged_fields(layer_fields(kind.layer, raw, depth + 1)) if depth < MAX_DEPTH else []
    return pa.field(name, pa.struct(inner)) if inner else json_field(name)


def _bytes(raw: bool) -> pa.DataType:
    return pa.binary() if raw else pa.string()


def json_field(name: str) -> pa.Field:
    """A column of JSON text."""
    return pa.field(name, pa.string(), metadata=JSON_TEXT)


def is_json(field: pa.Field) -> bool:
    return bool(field.metadata) and b"wiredecode.json" in field.metadata


def is_enumeration(field: pa.Field) -> bool:
    return bool(field.metadata) and b"wiredecode.enum" in field.metadata


def spelled_field(name: str, column: str, raw: bool) -> pa.Field:
    """A column of the type that is spelled so; what cannot be spelled is JSON text."""
    if column == "binary":
        return pa.field(name, _bytes(raw))
    if column.startswith("list<"):
        return pa.field(name, pa.list_(spelled_field("item", column[5:-1], raw)))
    return pa.field(name, TYPES[column]) if column in TYPES else json_field(name)


def _replace_field(fields: list[pa.Field], path: list[str], column: str, raw: bool) -> list[pa.Field]:
    """The columns with the one at ``path`` added or replaced; unchanged where what should hold it is not there."""
    name, *inner = path
    at = next((index for index, field in enumerate(fields) if field.name == name), len(fields))
    if not inner:
        item = pa.field("item", pa.struct([]))
        replacement = pa.field(name, pa.list_(item)) if column == "list<struct>" else spelled_field(name, column, raw)
        return fields[:at] + ([] if column == "-" else [replacement]) + fields[at + 1 :]
    if at == len(fields):
        return fields
    return [*fields[:at], _inside(fields[at], inner, column, raw), *fields[at + 1 :]]


def _inside(field: pa.Field, path: list[str], column: str, raw: bool) -> pa.Field:
    if pa.types.is_list(field.type):
        return field.with_type(pa.list_(_inside(field.type.value_field, path, column, raw)))
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct(_replace_field(list(field.type), path, column, raw)))
    return field


# Fields of one name in several message types.


def merged_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    """Each name once, in the order of first mention; two of one name as :func:`merge_fields`."""
    merged: dict[str, pa.Field] = {}
    for field in fields:
        existing = merged.get(field.name)
        merged[field.name] = field if existing is None else merge_fields(existing, field)
    return list(merged.values())


def merge_fields(first: pa.Field, second: pa.Field) -> pa.Field:
    """A column for both: members united, list elements merged, integers widened; anything else becomes JSON text."""
    if is_json(first) or is_json(second):
        return json_field(first.name)
    if pa.types.is_struct(first.type) and pa.types.is_struct(second.type):
        return first.with_type(pa.struct(merged_fields([*first.type, *second.type])))
    if pa.types.is_list(first.type) and pa.types.is_list(second.type):
        return first.with_type(pa.list_(merge_fields(first.type.value_field, second.type.value_field)))
    if first.type == second.type:
        return second if is_enumeration(second) else first
    if first.type in INTEGER_RANGES and second.type in INTEGER_RANGES:
        values = (INTEGER_RANGES[first.type], INTEGER_RANGES[second.type])
        for kind, holds in INTEGER_RANGES.items():
            if all(each[0] in holds and each[-1] in holds for each in values):
                return first.with_type(kind)
    return json_field(first.name)
