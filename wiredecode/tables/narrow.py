"""Rows of frames of one protocol, without the layers that these cannot have (docs/tables.md, "Wide or narrow")."""

from __future__ import annotations

from functools import cache

import pyarrow as pa

from wiredecode.tables.schema import type_schema

LAYERS, PROTOCOL = "layers", "protocol"


def of_protocol(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, all of one protocol, with those members of ``layers`` that its frames can have.

    Where none of them was asked for, ``layers`` stays as it is.
    """
    names = rows.schema.names
    if LAYERS not in names or not len(rows):
        return rows
    layers, kept = rows.column(LAYERS), members(str(rows.column(PROTOCOL)[0]))
    places = [index for index, member in enumerate(layers.type) if member.name in kept]
    if not places or len(places) == layers.type.num_fields:
        return rows
    fields = [layers.type.field(index) for index in places]
    mask = layers.is_null() if layers.null_count else None
    narrow = pa.StructArray.from_arrays([layers.field(index) for index in places], fields=fields, mask=mask)
    at = names.index(LAYERS)
    return rows.set_column(at, rows.schema.field(at).with_type(narrow.type), narrow)


@cache
def members(protocol: str) -> frozenset[str]:
    """The members of ``layers`` that frames of a protocol can have."""
    return frozenset(member.name for member in type_schema(protocol).field(LAYERS).type)
