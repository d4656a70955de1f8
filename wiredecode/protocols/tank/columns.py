"""Kinds and conditions of TANK as columns: varints, bundles, and the header of answers to Consume.

Importing this module adds them to the tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.fields import Array, Struct
from wiredecode.fields.columns.kinds import READERS, Column, FixedBytesColumn, Look, Scope, TimeColumn
from wiredecode.fields.columns.presence import reach
from wiredecode.fields.columns.reader import ArrayColumn, StructColumn, column_of, structure_of
from wiredecode.fields.columns.rows import Int64s, Rows, spelled
from wiredecode.protocols.tank import layers_bundle as bundle
from wiredecode.protocols.tank import layers_kinds as kinds
from wiredecode.protocols.tank import names


class VarintColumn(Column):
    def __init__(self, kind: kinds.Varint32, look: Look) -> None:
        self.names = (kind.name,)

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        values = np.zeros(len(rows), np.int64)
        left = np.arange(len(rows))
        for index in range(kinds.VARINT_BYTES):
            some = rows.at(left)
            octets = some.number("u1").astype(np.int64)
            values[left] |= (octets & 0x7F) << 7 * index
            rows.moved(left, some)
            left = left[octets >= 0x80]
            if not len(left):
                break
        ended = np.ones(len(rows), np.bool_)
        ended[left] = False
        rows.require(ended)
        values &= kinds.MASK32
        scope.values[self.names[0]] = values
        return [pa.array(values.astype(np.uint32))]


class SecondsColumn(TimeColumn):
    scale = 1000


class EndpointColumn(FixedBytesColumn):
    width = 6

    def shown(self, values: npt.NDArray[np.bytes_]) -> pa.Array:
        return spelled(values, lambda raw: kinds.Endpoint.spell(raw.ljust(self.width, b"\0")))  # numpy drops zeros


READERS |= {
    kinds.Milliseconds: TimeColumn,
    kinds.Seconds: SecondsColumn,
    kinds.Varint32: VarintColumn,
    kinds.Endpoint: EndpointColumn,
}


# Parts of a frame whose size stands elsewhere.


class LimitedColumn(Column):
    """What is read by ``column`` within a part of the frame: up to where ``limit`` says, which must be inside."""

    def __init__(self, column: Column, limit: Callable[[Rows, Scope], Int64s]) -> None:
        self.column, self.limit, self.names = column, limit, column.names

    def limits(self, rows: Rows, scope: Scope) -> Int64s:
        limits = self.limit(rows, scope)
        rows.require((limits >= rows.p) & (limits <= rows.e))
        return np.where(rows.good, limits, 0)

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        limits, ends = self.limits(rows, scope), rows.e
        rows.e = limits.copy()
        arrays = self.column.read(rows, scope)
        rows.e = np.where(rows.good, ends, 0)
        return arrays


class FilledColumn(LimitedColumn):
    """The part has to be used up."""

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        limits = self.limits(rows, scope)
        arrays = super().read(rows, scope)
        rows.require(rows.p == np.where(rows.good, limits, 0))
        return arrays

    def step(self, rows: Rows, scope: Scope) -> None:
        rows.p = self.limits(rows, scope)


def bounded(kind: kinds.Bounded, look: Look) -> Column | None:
    structure = structure_of(kind.layer, look)
    if structure is None:
        return None
    return FilledColumn(StructColumn(kind, structure), lambda rows, scope: rows.p + scope.values[kind.size])


def in_header(kind: kinds.HeaderArray, look: Look) -> Column | None:
    element = column_of(kind.element, look)
    if element is None:
        return None
    return LimitedColumn(
        HeaderTopics(kind, element, look), lambda rows, scope: scope.values[reach(kinds.HEADER_LENGTH)]
    )


class HeaderTopics(ArrayColumn):
    """The topics of an answer; the sizes of the chunks that they announce are left for the chunks."""

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        topics = super().read(rows, scope)[0]
        partitions = pc.list_flatten(topics).field("partitions")
        sizes = pc.fill_null(pc.list_flatten(partitions).field("chunk_length"), 0)
        per_topic = np.asarray(pc.fill_null(pc.list_value_length(partitions), 0), np.int64)
        per_row = np.asarray(pc.list_value_length(topics), np.int64)
        row = np.repeat(np.repeat(np.arange(len(rows)), per_row), per_topic)
        scope.parts[CHUNK_ROWS], scope.parts[CHUNK_SIZES] = row, np.asarray(sizes, np.int64)
        return [topics]


CHUNK_ROWS, CHUNK_SIZES = "chunk rows", "chunk sizes"
"""Parts of the scope: of each partition in the header, the row it is of, and the size of its chunk."""


class ChunksColumn(ArrayColumn):
    """The chunks, which follow one another without anything between them."""

    def starts(self, rows: Rows, scope: Scope) -> tuple[Int64s, Int64s, Int64s]:
        there = (scope.parts[CHUNK_SIZES] > 0) & rows.good[scope.parts[CHUNK_ROWS]]
        row, sizes = scope.parts[CHUNK_ROWS][there], scope.parts[CHUNK_SIZES][there]
        totals = np.bincount(row, sizes, len(rows)).astype(np.int64)
        before = np.cumsum(sizes) - sizes
        starts = rows.p[row] + before - (np.cumsum(totals) - totals)[row]
        rows.require(totals <= rows.e - rows.p)
        kept = rows.good[row]
        rows.p = np.where(rows.good, rows.p + totals, 0)
        counts = np.bincount(row[kept], minlength=len(rows)).astype(np.int64)
        return starts[kept], (starts + sizes)[kept], counts


def chunks(kind: bundle.Chunks, look: Look) -> Column | None:
    element = column_of(kind.element, look)
    return None if element is None else ChunksColumn(kind, element, look)


class MessagesColumn(ArrayColumn):
    """The messages of a bundle that is not sparse: all have the same fields then."""

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        rows.require(scope.values["flags"] & names.SPARSE == 0)
        messages = super().read(rows, scope)
        rows.require(np.asarray(pc.list_value_length(messages[0]), np.int64) <= bundle.MAX_MESSAGES)
        return messages


def messages(kind: bundle.Messages, look: Look) -> Column | None:
    assert isinstance(kind.plain.element, Struct)
    element = column_of(kind.plain.element, look)
    return None if element is None else MessagesColumn(kind.plain, element, look)


def all_bundles(kind: bundle.Bundles, look: Look) -> Column | None:
    """Every bundle of the chunk is whole, or the frame is not plain."""
    return column_of(Array(kind.name, kind.element, count=None), look)


READERS |= {
    kinds.Bounded: bounded,
    kinds.HeaderArray: in_header,
    bundle.Messages: messages,
    bundle.Bundles: all_bundles,
    bundle.Chunks: chunks,
}
