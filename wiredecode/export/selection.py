"""Which rows and columns of a table are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.export.partition import TIMES
from wiredecode.tables.schema import named

TIME = "time"


def needed(columns: Sequence[str] | None, partition_by: Sequence[str], *, timed: bool) -> list[str] | None:
    """The columns that must be read: those asked for, and what partitions and a selection by time need."""
    if columns is None:
        return None
    by = [name for name in partition_by if name not in TIMES]
    time = [TIME] if timed or len(by) < len(partition_by) else []
    return list(dict.fromkeys([*columns, *by, *time]))


@dataclass(frozen=True)
class Projection:
    """Columns in the order in which they were asked for; ``layers.nats.subject`` becomes a column of that name."""

    columns: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, schema: pa.Schema, columns: Sequence[str] | None) -> Projection:
        """``schema`` has the columns, nested ones in their structures; None: all of its columns."""
        if columns is None:
            return cls(tuple(schema.names), schema)
        columns = named(schema, columns)
        fields = [_field(schema, name) for name in columns]
        return cls(tuple(columns), pa.schema(fields, schema.metadata))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.schema.equals(batch.schema):
            return batch
        return pa.record_batch([_column(batch, name) for name in self.columns], schema=self.schema)


def _field(schema: pa.Schema, name: str) -> pa.Field:
    first, *rest = name.split(".")
    field = schema.field(first)
    for step in rest:
        field = field.type.field(step)
    return field.with_name(name).with_nullable(True)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    first, *rest = name.split(".")
    column = batch.column(first)
    return pc.struct_field(column, rest) if rest else column


def within(batch: pa.RecordBatch, start_ns: int | None, end_ns: int | None) -> pa.RecordBatch:
    """The rows of a time from ``start_ns`` to ``end_ns``, in nanoseconds since the epoch."""
    if start_ns is None and end_ns is None:
        return batch
    times = batch.column(TIME).cast(pa.int64())
    kept = pa.array([True] * len(batch))
    if start_ns is not None:
        kept = pc.and_(kept, pc.greater_equal(times, start_ns))
    if end_ns is not None:
        kept = pc.and_(kept, pc.less_equal(times, end_ns))
    return batch.filter(kept)
