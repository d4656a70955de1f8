"""How each kind of field is read as a column. See :mod:`wiredecode.fields.columns.reader`.

A kind is read here only if its class reads and shows values as the class of :mod:`wiredecode.fields` that stands in
:data:`READERS`: one that defines any of :data:`MEANING` anew needs a reader of its own, or its layer has none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from wiredecode import fields
from wiredecode.fields import MILLISECONDS_MAX, Binary, Kind, Number, Sized
from wiredecode.fields.columns.rows import HEX, Bools, Int64s, Rows, hexadecimal, lengths, masked, spelled
from wiredecode.fields.columns.steps import FIXED, Step, sized_step
from wiredecode.fields.layer import Style

MEANING = (
    *("read", "emit", "present", "shown", "spell", "decode", "sliced", "emit_value", "code_name", "hidden"),
    *("scan", "strict", "emit_token"),
)
"""What makes a kind read, or show, its values as it does."""

TEXT_TYPE = pa.string()


@dataclass(frozen=True)
class Look:
    """How values are shown: as records show them, but for bytes, which stay bytes if they are to be ``raw``."""

    style: Style
    raw: bool


@dataclass(slots=True)
class Scope:
    """What later fields of the structure refer to: numbers, and which rows have an optional field."""

    values: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    there: dict[str, Bools] = field(default_factory=dict)
    parts: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    """What columns of one structure hand to each other, not one element per row."""

    def at(self, chosen: Int64s) -> Scope:
        values = {name: value[chosen] for name, value in self.values.items()}
        return Scope(values, {name: there[chosen] for name, there in self.there.items()})


class Column(ABC):
    """Reads one field of all rows."""

    names: tuple[str, ...] = ()
    """The keys that the field has in a record."""
    hides_secrets = False
    """Whether it shows secrets as records do; if not, no secret is read by it."""

    @abstractmethod
    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        """The values of each of ``names``; ``rows`` moves behind the field."""

    def step(self, rows: Rows, scope: Scope) -> None:
        """Only move behind the field, where that takes less than reading it."""
        self.read(rows, scope)

    def steps(self) -> list[Step] | None:
        """How to step over it, if that can be said without reading other fields."""
        return None


# Numbers.


class NumberColumn(Column):
    def __init__(self, kind: Number, look: Look) -> None:
        self.kind, self.width = kind, kind.width
        self.names = (kind.name,)
        order, sign = "<" if kind.little else ">", "i" if kind.signed else "u"
        self.code = "u1" if kind.width == 3 else f"{order}{sign}{kind.width}"

    def steps(self) -> list[Step]:
        return [(FIXED, self.width, 0, 0)]

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        if self.width != 3:
            return rows.number(self.code)
        octets = [rows.number(self.code).astype(np.uint32) for _ in range(3)]
        low, middle, high = octets if self.kind.little else octets[::-1]
        return high << 16 | middle << 8 | low

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        self.step(rows, scope)
        return self.shown(scope.values[self.kind.name], rows)

    def step(self, rows: Rows, scope: Scope) -> None:
        scope.values[self.kind.name] = self.values(rows)

    def shown(self, values: npt.NDArray[Any], rows: Rows) -> list[pa.Array]:
        return [pa.array(values)]


class EnumerationColumn(NumberColumn):
    """The name, and the number. A number without a name is shown as such: a text of its digits in this column."""

    def __init__(self, kind: Number, look: Look) -> None:
        super().__init__(kind, look)
        self.names = (kind.name, str(kind.code_name))
        assert kind.names is not None
        known = sorted(kind.names)
        self.known = np.array(known, np.int64)

    @cached_property
    def spelled(self) -> pa.Array:
        """The names. Made late: ``pa.array`` imports pandas where that is installed, which tables of messages save."""
        assert self.kind.names is not None
        return pa.array([self.kind.names[number] for number in self.known.tolist()], TEXT_TYPE)

    def shown(self, values: npt.NDArray[Any], rows: Rows) -> list[pa.Array]:
        numbers = values.astype(np.int64)
        places = np.minimum(np.searchsorted(self.known, numbers), len(self.known) - 1)
        there = self.known[places] == numbers
        texts = self.spelled.take(pa.array(places))
        if not there.all():
            texts = pc.if_else(pa.array(there), texts, spelled(values, str))
        return [texts, pa.array(values)]


class FlagsColumn(NumberColumn):
    def __init__(self, kind: fields.Flags, look: Look) -> None:
        super().__init__(kind, look)
        self.show = look.style.show

    @cached_property
    def lists(self) -> pa.Array:
        return pa.array([self.kind.present(value, self.show) for value in range(256)], pa.list_(TEXT_TYPE))

    def shown(self, values: npt.NDArray[Any], rows: Rows) -> list[pa.Array]:
        return [self.lists.take(pa.array(values))]


class BitsColumn(NumberColumn):
    """Some bits of the integer at which the first bit field of the group stands."""

    kind: fields.Bits

    def steps(self) -> list[Step]:
        return [] if self.kind.back else [(FIXED, self.kind.whole.width, 0, 0)]

    def values(self, rows: Rows) -> npt.NDArray[Any]:
        width = self.kind.whole.width
        starts = rows.p - width if self.kind.back else rows.advance(width)
        whole = rows.source.gather(f">u{width}", np.where(rows.good, starts, 0)).astype(np.uint64)
        bits = whole >> np.uint64(self.kind.shift) & np.uint64(self.kind.mask)
        return np.where(rows.good, bits, 0).astype(self.kind.column)


class NamedBitsColumn(BitsColumn, EnumerationColumn):
    """Bits whose values have names."""


class BooleanColumn(NumberColumn):
    """A byte that is neither 0 nor 1 is shown as a number: not plain."""

    def shown(self, values: npt.NDArray[Any], rows: Rows) -> list[pa.Array]:
        rows.require(values < 2)
        return [pa.array(values == 1)]


class TimeColumn(NumberColumn):
    """Times that RFC 3339 can spell; others are shown as numbers: not plain."""

    unit, most, scale = "ms", MILLISECONDS_MAX, 1

    def shown(self, values: npt.NDArray[Any], rows: Rows) -> list[pa.Array]:
        rows.require((values >= 0) & (values <= self.most))
        times = np.where(rows.good, values, 0).astype(np.int64) * self.scale
        return [pa.array(times).cast(pa.timestamp(self.unit, "UTC"))]


class NanosecondsColumn(TimeColumn):
    unit, most = "ns", 2**63 - 1


class OwnColumn(Column):
    """Kinds that say nothing of columns: read value by value, as Scapy reads them."""

    TYPES: ClassVar = {"string": pa.string(), "bool": pa.bool_(), "binary": pa.binary()} | {
        f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("u", "") for bits in (8, 16, 32, 64)
    }

    def __init__(self, kind: Kind, look: Look) -> None:
        self.kind, self.look, self.names = kind, look, (kind.name,)
        self.bytes = look.raw and kind.column == "binary"
        self.type = TEXT_TYPE if kind.column == "binary" and not look.raw else self.TYPES[kind.column]

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        nothing: Any = None
        values: list[Any] = [None] * len(rows)
        reached, fits = rows.p.copy(), np.ones(len(rows), np.bool_)
        for row in np.flatnonzero(rows.good).tolist():
            try:
                place = int(rows.p[row]), int(rows.e[row])
                values[row], reached[row] = self.kind.read(rows.source.buffer, *place, nothing)
            except fields.Short:
                fits[row] = False
        rows.p = reached
        rows.require(fits)
        if "int" in self.kind.column:
            scope.values[self.kind.name] = np.array([value or 0 for value in values], self.kind.column)
        if not self.bytes:
            show = self.look.style.show
            values = [None if value is None else self.kind.present(value, show) for value in values]
        return [pa.array(values, self.type)]


class FixedBytesColumn(Column):
    """So many bytes, always: a UUID unless a protocol says otherwise."""

    width = 16

    def __init__(self, kind: Kind, look: Look) -> None:
        self.names = (kind.name,)

    def steps(self) -> list[Step]:
        return [(FIXED, self.width, 0, 0)]

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        return [self.shown(rows.source.gather(f"S{self.width}", rows.advance(self.width)))]

    def shown(self, values: npt.NDArray[np.bytes_]) -> pa.Array:
        """The text: 32 digits in groups."""
        size = len(values)
        digits = HEX[np.frombuffer(values.tobytes(), np.uint8)].view(np.uint8).reshape(size, 32)
        texts = np.full((size, 36), ord("-"), np.uint8)
        for low, high, shift in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
            texts[:, low + shift : high + shift] = digits[:, low:high]
        bounds = np.arange(0, 36 * size + 1, 36, dtype=np.int32)
        return pa.Array.from_buffers(TEXT_TYPE, size, [None, pa.py_buffer(bounds), pa.py_buffer(texts.tobytes())])


# Texts and bytes.


class SizedColumn(Column):
    """Bytes whose length stands before them."""

    hides_secrets = True

    def __init__(self, kind: Sized, look: Look) -> None:
        self.kind, self.look = kind, look
        self.names = (kind.name,)
        self.hides = kind.secret and not look.style.secrets
        self.length = NumberColumn(kind.length, look) if isinstance(kind.length, Number) else None

    def steps(self) -> list[Step] | None:
        if isinstance(self.kind.length, Number):
            return [sized_step(self.kind.length, self.kind.null)]
        return [(FIXED, self.kind.length, 0, 0)] if isinstance(self.kind.length, int) else None

    def sizes(self, rows: Rows, scope: Scope) -> Int64s:
        if self.length is not None:
            return self.length.values(rows).astype(np.int64)
        if isinstance(self.kind.length, str):
            return scope.values[self.kind.length].astype(np.int64)
        return np.full(len(rows), self.kind.length, np.int64)

    def places(self, rows: Rows, scope: Scope) -> tuple[Int64s, Int64s, Bools]:
        """Where the values start, their sizes, and which rows have one."""
        sizes = self.sizes(rows, scope)
        there = np.ones(len(rows), np.bool_) if self.kind.null is None else sizes != self.kind.null
        rows.require((sizes >= 0) | ~there)
        sizes = np.where(there, sizes, 0)
        starts = rows.advance(sizes)
        there &= rows.good
        return starts, np.where(there, sizes, 0), there

    def read(self, rows: Rows, scope: Scope) -> list[pa.Array]:
        starts, sizes, there = self.places(rows, scope)
        return [masked(column, there) for column in self.shown(rows.source.slices(starts, sizes), rows)]

    def step(self, rows: Rows, scope: Scope) -> None:
        self.places(rows, scope)

    def shown(self, raw: pa.Array, rows: Rows) -> list[pa.Array]:
        if self.hides:
            return [hidden(lengths(raw))]
        return [raw if self.look.raw and not self.kind.secret else self.rendered(raw)]

    def rendered(self, raw: pa.Array) -> pa.Array:
        """Bytes as the style shows them."""
        if self.look.style.show == bytes.hex:
            return hexadecimal(raw)
        return pa.array([self.look.style.show(value) for value in raw.to_pylist()], TEXT_TYPE)


class TextColumn(SizedColumn):
    """Texts that are UTF-8; others are not plain."""

    def shown(self, raw: pa.Array, rows: Rows) -> list[pa.Array]:
        texts = self.decoded(raw, rows)
        return [hidden(np.asarray(pc.utf8_length(texts), np.int64))] if self.hides else [texts]

    @staticmethod
    def decoded(raw: pa.Array, rows: Rows) -> pa.Array:
        try:
            return raw.cast(TEXT_TYPE)
        except pa.ArrowInvalid:
            texts = [_decoded(value) for value in raw.to_pylist()]
        rows.require(np.array([text is not None for text in texts], np.bool_))
        return pa.array([text or "" for text in texts], TEXT_TYPE)


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def hidden(sizes: Int64s) -> pa.Array:
    """What stands for secrets of these sizes, as :func:`wiredecode.fields.redacted` writes it."""
    return spelled(sizes, lambda size: f"<redacted {size} bytes>")


class RestColumn(SizedColumn):
    def steps(self) -> None:
        return None

    def sizes(self, rows: Rows, scope: Scope) -> Int64s:
        return rows.e - rows.p


# Which kind is read by which column.

Maker = Callable[[Any, Look], "Column | None"]

CARRIED: dict[fields.Inner, type[SizedColumn]] = {}
"""Columns of bytes whose ``inner`` decoder is known."""


def bits(kind: fields.Bits, look: Look) -> Column:
    return NamedBitsColumn(kind, look) if kind.names else BitsColumn(kind, look)


def number(kind: Number, look: Look) -> Column | None:
    return EnumerationColumn(kind, look) if kind.names else NumberColumn(kind, look)


def sized(column: type[SizedColumn]) -> Maker:
    def make(kind: Sized, look: Look) -> Column | None:
        long = isinstance(kind.length, Number) and (kind.length.width > 4 or not same(kind.length, Number))
        if isinstance(kind, Binary) and kind.inner is not None:
            return CARRIED[kind.inner](kind, look) if kind.inner in CARRIED and not long else None
        return None if long else column(kind, look)

    return make


READERS: dict[type[Kind], Maker] = {
    Number: number,
    fields.Bits: bits,
    fields.Flags: FlagsColumn,
    fields.Boolean: BooleanColumn,
    fields.Timestamp: TimeColumn,
    fields.TimestampNs: NanosecondsColumn,
    fields.Uuid: FixedBytesColumn,
    fields.Text: sized(TextColumn),
    fields.Binary: sized(SizedColumn),
    fields.Rest: sized(RestColumn),
}


def same(kind: Any, base: type) -> bool:
    """Whether the kind reads and shows its values as the class ``base`` does."""
    return all(getattr(type(kind), name, None) is getattr(base, name, None) for name in MEANING)


def column(kind: Kind, look: Look) -> Column | None:
    """The reader of a kind that is no composition; None: there is none."""
    for base in type(kind).__mro__:
        if base in READERS:
            made = READERS[base](kind, look) if same(kind, base) else None
            return None if made is None or (kind.secret and not made.hides_secrets) else made
    if type(kind).emit is Kind.emit and kind.column in OwnColumn.TYPES and not kind.secret:
        return OwnColumn(kind, look)
    return None
