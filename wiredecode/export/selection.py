"""Rows and columns of a table that are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.export.partition import TIMES
from wiredecode.tables.schema import named

if TYPE_CHECKING:
    from wiredecode.capture import PacketBatch
    from wiredecode.frames.totals import Totals
    from wiredecode.tables.reader import TableReader

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


class Timed:
    """A table of captures that are read with ``packets``, between two times; ``since`` makes them of the first one.

    ``open_`` makes the reader of packets, which has the column :data:`TIME`.
    """

    def __init__(
        self,
        packets: Iterable[PacketBatch],
        open_: Callable[[Iterable[PacketBatch]], TableReader],
        since: Callable[[int], tuple[int | None, int | None]],
    ) -> None:
        self._since = since
        self._span: tuple[int | None, int | None] = None, None
        self._reader = open_(self._watched(packets))

    @property
    def totals(self) -> Totals:
        return self._reader.totals

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._reader:
            yield within(batch, *self._span)

    def _watched(self, packets: Iterable[PacketBatch]) -> Iterator[PacketBatch]:
        unset = True
        for batch in packets:
            if unset and len(batch):
                unset, self._span = False, self._since(int(batch.time_ns[0]))
            yield batch


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
