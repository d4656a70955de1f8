"""The third reader of the declarations: many frames of one type at a time, into Arrow columns.

It reads what is common. A frame is *plain* if it ends exactly where its last field ends, and every value has the form
that nearly all have: texts are UTF-8, times can be spelled in RFC 3339, booleans are 0 or 1. The columns of plain
frames are the record that :func:`compiler.record` makes of them; others are marked, for the row decoder.
No object is made per frame or per value.

How a layer is read, field by field, for all frames in one step each:

* a number: one gather, in the byte order of the wire;
* text and bytes: their lengths, a step over them, and one copy of each value into the column;
* a structure: its fields, into a struct column;
* an optional field: the frames that have it, read as a column of their own, then spread over all;
* an array: where each element starts (:mod:`wiredecode.fields.columns.steps`), then all elements of all frames as the
  rows of one column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TypeVar

import numpy as np
import pyarrow as pa

from wiredecode.fields import Array, Kind, Number, Optional, Struct
from wiredecode.fields.columns import kinds as columns_kinds
from wiredecode.fields.columns import text as text  # adds the kinds of lines
from wiredecode.fields.columns.kinds import Column, Look, NumberColumn, Scope, same
from wiredecode.fields.columns.presence import Presence, reach
from wiredecode.fields.columns.rows import Bools, Int64s, Rows, Source, spread
from wiredecode.fields.columns.steps import FIXED, UNLESS, Step, element_starts
from wiredecode.fields.layer import Layer, Style

T = TypeVar("T")


@dataclass(slots=True)
class Columns:
    """What was read of n frames."""

    fields: dict[str, pa.Array]
    """Name in the record -> n values, in the order of the record; null where an optional field is absent."""
    plain: Bools
    """Which frames could be read. The values of the others mean nothing."""

    def struct(self) -> pa.StructArray:
        return pa.StructArray.from_arrays(list(self.fields.values()), list(self.fields))


class ColumnReader:
    """Reads frames of one layer."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure

    def read(self, buffer: bytes, starts: Int64s, stops: Int64s) -> Columns:
        """Read the frames ``buffer[starts[i] : stops[i]]``, which may have anything between them."""
        rows = Rows.of(Source(buffer), starts, stops)
        arrays = self.structure.read(rows, Scope())
        rows.require(rows.p == rows.e)
        return Columns(dict(zip(self.structure.names, arrays, strict=True)), rows.good)


COMPLETE: dict[type[Layer], Callable[[dict[str, pa.Array]], None]] = {}
"""Adds to the columns of a layer what :meth:`Layer.complete_record` adds to a record."""


@cache
def reader(layer: type[Layer], style: Style, raw: bool = True) -> ColumnReader | None:
    """The reader of a layer; None if it has kinds of fields that cannot be read this way.

    ``raw`` leaves bytes as ``binary``; otherwise they are text, as the style shows them. The style's ``show`` has to
    give text in either case: JSON text (AMQP sections) has no other place for bytes.
    """
    add_kinds(layer)
    structure = structure_of(layer, Look(style, raw))
    return None if structure is None else ColumnReader(structure)


def add_kinds(layer: type[Layer]) -> None:
    """Import the module ``columns`` beside the layer's, where its package has kinds of its own."""
    package = layer.__module__.rpartition(".")[0]
    if package and find_spec(f"{package}.columns") is not None:
        import_module(f"{package}.columns")


def covered(layers: Iterable[type[Layer]]) -> tuple[list[type[Layer]], list[type[Layer]]]:
    """The layers that have a reader, and those that have none."""
    found: tuple[list[type[Layer]], list[type[Layer]]] = [], []
    for layer in dict.fromkeys(layers):
        found[reader(layer, Style()) is None].append(layer)
    return found


# Compositions.


class Structure(Column):
    """The fields of a layer, one after another."""

    def __init__(self, columns: list[tuple[Kind, Column]]) -> None:
        self.columns = columns
        self.measured = {name for kind, _ in columns if isinstance(kind, Optional) for name in kind.when.measured}
        self.names = tuple(name for kind, column in columns if not kind.hidden for name in column.names)

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        arrays: list[pa.Array] = []
        for kind, column in self.columns:
            values = column.read(rows, scope)
            self.measure(kind, rows, scope)
            if not kind.hidden:
                arrays += values
        return arrays

    def step(self, rows: Rows, scope: Scope) -> None:
        for kind, column in self.columns:
            column.step(rows, scope)
            self.measure(kind, rows, scope)

    def measure(self, kind: Kind, rows: Rows, scope: Scope) -> None:
        """Note where the bytes end that the field counts, if a condition asks for it."""
        if kind.name in self.measured:
            scope.values[reach(kind.name)] = rows.p + scope.values[kind.name].astype(np.int64)

    def steps(self) -> list[Step] | None:
        """Of two fields of the same form of which always one is there, one step stands for both."""
        program: list[Step] = []
        either: OptionalColumn | None = None
        for _, column in self.columns:
            if isinstance(column, OptionalColumn) and either is None:
                either = column
                continue
            steps = column.steps()
            if either is not None:
                steps = either.column.steps() if stands_for(column, either) else None
                either = None
            if steps is None:
                return None
            program += steps
        return None if either is not None else merged(program)


def merged(program: list[Step]) -> list[Step]:
    """The program with neighbouring fixed runs in one step."""
    made: list[Step] = []
    for step in program:
        if made and step[0] == made[-1][0] == FIXED:
            made[-1] = (FIXED, made[-1][1] + step[1], 0, 0)
        else:
            made.append(step)
    return made


class StructColumn(Column):
    """A structure in place."""

    def __init__(self, kind: Struct, structure: Structure) -> None:
        self.names, self.structure = (kind.name,), structure

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        return [struct_array(self.structure, self.structure.read(rows, Scope()), len(rows))]

    def step(self, rows: Rows, scope: Scope) -> None:
        self.structure.step(rows, Scope())

    def steps(self) -> list[Step] | None:
        return self.structure.steps()


def struct_array(structure: Structure, arrays: list[pa.Array], size: int) -> pa.Array:
    if not arrays:
        return pa.array([{}] * size, pa.struct([]))
    return pa.StructArray.from_arrays(arrays, list(structure.names))


class OptionalColumn(Column):
    """A field of those rows for which a condition holds."""

    def __init__(self, kind: Optional, column: Column, presence: Presence) -> None:
        self.kind, self.column, self.presence = kind, column, presence
        self.names = column.names

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        chosen, arrays = self.among(rows, scope, self.column.read)
        return [spread(array, chosen, len(rows)) for array in arrays]

    def step(self, rows: Rows, scope: Scope) -> None:
        self.among(rows, scope, self.column.step)

    def among(self, rows: Rows, scope: Scope, act: Callable[[Rows, Scope], T]) -> tuple[Int64s, T]:
        """Read or step over the field in the rows that have it; which these are."""
        sure, maybe = self.presence(rows, scope)
        rows.require(sure | ~maybe)
        there = scope.there[self.kind.name] = sure & rows.good
        chosen = np.flatnonzero(there)
        if len(chosen) == len(rows):
            return chosen, act(rows, scope)
        some, inner = rows.at(chosen), scope.at(chosen)
        result = act(some, inner)
        rows.moved(chosen, some)
        if self.kind.name in inner.values:
            value = inner.values[self.kind.name]
            scope.values[self.kind.name] = np.zeros(len(rows), value.dtype)
            scope.values[self.kind.name][chosen] = value
        return chosen, result


def stands_for(column: Column, other: OptionalColumn) -> bool:
    """Whether a field is there exactly where the other one is not, and of the same form."""
    if not isinstance(column, OptionalColumn) or column.kind.when.absent != other.kind.name:
        return False
    return column.column.steps() == other.column.steps()


class RefusedColumn(Column):
    """An optional field that cannot be read this way: rows that have it are not plain."""

    def __init__(self, kind: Optional, presence: Presence) -> None:
        self.kind, self.presence = kind, presence

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        rows.require(~self.presence(rows, scope).maybe)
        scope.there[self.kind.name] = np.zeros(len(rows), np.bool_)
        return []

    def steps(self) -> list[Step] | None:
        refused = self.kind.when.next_byte
        return None if refused is None else [(UNLESS, *refused, 0)]


class ArrayColumn(Column):
    """``count`` elements, or as many as there are up to the end."""

    def __init__(self, kind: Array, element: Column, look: Look) -> None:
        self.kind, self.element, self.names = kind, element, (kind.name,)
        self.count = NumberColumn(kind.count, look) if isinstance(kind.count, Number) else None
        self.program = element.steps()
        self.least = kind.element.minimum()

    def counts(self, rows: Rows, scope: Scope) -> Int64s:
        if self.count is not None:
            return self.count.values(rows).astype(np.int64)
        if isinstance(self.kind.count, str):
            return scope.values[self.kind.count].astype(np.int64)
        return np.full(len(rows), -1, np.int64)

    def starts(self, rows: Rows, scope: Scope) -> tuple[Int64s, Int64s, Int64s]:
        """Where each element of all rows starts, the limit of its bytes, and how many elements each row has."""
        counts, ends = self.counts(rows, scope), rows.e.copy()
        if self.kind.count is not None:
            rows.require(counts >= 0)
        if self.kind.size:
            rows.e = np.minimum(ends, rows.p + scope.values[self.kind.size].astype(np.int64))
        limits = rows.e.copy()
        starts, counts = element_starts(rows, counts, self.least, self.program, self.advance)
        rows.e = np.where(rows.good, ends, 0)
        return starts, np.repeat(limits, counts), counts

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        starts, limits, counts = self.starts(rows, scope)
        elements = Rows(rows.source, starts, limits, np.ones(len(starts), np.bool_))
        values = self.element.read(elements, Scope())[0]
        elements.require(elements.p == following(starts, counts, rows.p))
        if not elements.good.all():
            fits = np.ones(len(rows), np.bool_)
            fits[np.repeat(np.arange(len(rows)), counts)[~elements.good]] = False
            rows.require(fits)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return [pa.ListArray.from_arrays(pa.array(offsets), values)]

    def step(self, rows: Rows, scope: Scope) -> None:
        self.starts(rows, scope)

    def advance(self, rows: Rows) -> None:
        self.element.step(rows, Scope())


def following(starts: Int64s, counts: Int64s, stops: Int64s) -> Int64s:
    """Where each element has to end: where the next one starts, the last of a row where the array stops."""
    ends = np.append(starts[1:], 0)
    ends[np.cumsum(counts)[counts > 0] - 1] = stops[counts > 0]
    return ends


# From declarations to readers.


def structure_of(layer: type[Layer], look: Look) -> Structure | None:
    """The reader of all fields of a layer."""
    if len(layer.in_order) < len(layer.fields_desc):
        return None
    columns: list[tuple[Kind, Column]] = []
    refused: set[str] = set()
    for kind in layer.in_order:
        if isinstance(kind, Optional) and kind.when.absent in refused:
            kind = kind.kind  # no plain row has the other field, so all have this one
        column = column_of(kind, look)
        if isinstance(column, RefusedColumn):
            refused.add(kind.name)
        if column is None:
            return None
        columns.append((kind, column))
    structure = Structure(columns)
    return structure if len(set(structure.names)) == len(structure.names) else None


def column_of(kind: Kind, look: Look) -> Column | None:
    """The reader of one field."""
    if isinstance(kind, Optional):
        presence, column = Presence(kind.when), column_of(kind.kind, look)
        if not presence.answer:
            return None
        return RefusedColumn(kind, presence) if column is None else OptionalColumn(kind, column, presence)
    hides = kind.secret and not look.style.secrets
    if isinstance(kind, Struct) and same(kind, Struct):
        structure = None if hides else structure_of(kind.layer, look)
        return None if structure is None else StructColumn(kind, structure)
    if isinstance(kind, Array) and same(kind, Array):
        element = None if hides or kind.element.secret else column_of(kind.element, look)
        return None if element is None else ArrayColumn(kind, element, look)
    return columns_kinds.column(kind, look)
