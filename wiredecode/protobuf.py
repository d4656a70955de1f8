"""Protocol buffers as field kinds: messages whose fields stand in any order, each with its number in front.

Source: protobuf.dev, "Encoding" and "proto3". A message is a sequence of occurrences::

    tag varint = number << 3 | wire type | value: 0 varint, 1 eight bytes, 2 length varint + bytes, 5 four bytes

A :class:`Message` declares its fields with the kinds below; ordinary kinds may stand before them, as the header of an
envelope does. Fields that are absent (proto3 leaves defaults out) stay absent. Whatever a declaration has no place
for (unknown numbers, other wire types, values that a later occurrence replaced) is kept in ``unknown_fields``.

Building gives the very bytes that were dissected: a message remembers the order of its occurrences and how wide each
varint was written, not the bytes. The compiled decoders read what encoders really write: known fields in ascending
order. Whatever else is legal they leave to :meth:`Message.read_tail`, which is also what Scapy uses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from wiredecode import compiler, fields
from wiredecode.fields import Array, Binary, Kind, Number, Rest, Short, Struct, Text, rfc3339_ns, take
from wiredecode.layer import Layer
from wiredecode.tails import TailLayer, moved
from wiredecode.textlines import Unfit

if TYPE_CHECKING:
    from wiredecode.compiler import Emitter

VARINT, LEN = 0, 2
WIRE_TYPES = {0: "varint", 1: "fixed64", 2: "length-delimited", 5: "fixed32"}
"""Groups (3 and 4) are not part of proto3."""
FIXED_WIDTHS = {1: 8, 5: 4}
MAX_NUMBER = (1 << 29) - 1
MAX_VARINT_BYTES = 10
MAX_MEMBERS = 10_000
"""Sub-messages and unknown fields in one message, those inside them included: each is an object when read carefully."""
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
MINUS_ONE = b"\xff" * 9 + b"\x01"
"""By far the most frequent long number."""


def read_varint(field: str, data: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at ``position`` as it is written (up to 70 bits) and the position after it; raises :class:`Short`."""
    value = 0
    for index in range(MAX_VARINT_BYTES):
        take(field, position, index + 1, end)
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise Unfit(field, f"a varint of more than {MAX_VARINT_BYTES} bytes", position)


def write_varint(value: int, width: int = 0) -> bytes:
    """Encode ``value`` in at least ``width`` bytes."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    while len(out) < width:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def fast_varint(b: bytes, p: int, e: int) -> tuple[int, int]:
    """The compiled decoders' reader of varints of several bytes: 64 bits, and the position after them."""
    if b.startswith(MINUS_ONE, p) and p + MAX_VARINT_BYTES <= e:
        return U64, p + MAX_VARINT_BYTES
    value = shift = 0
    while p < e and shift < 7 * MAX_VARINT_BYTES:
        byte = b[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & U64, p
        shift += 7
    raise compiler.Cut


def emit_varint(em: Emitter, value: str, before: int, wide: str = "") -> None:
    """Generate the reading of a varint ``before`` bytes after ``p``; ``wide`` is for values of more than one byte."""
    start = f"p + {before}" if before else "p"
    em.line(f"{value} = b[{start}]")
    em.line(f"if {value} < 128: p += {before + 1}")
    with em.block("else:"):
        em.line(f"{value}, p = {em.constant(fast_varint)}(b, {start}, e)")
        if wide:
            em.line(wide)


# The kinds.


class Tagged(Kind):
    """Base of all: a field found by its ``number``."""

    tagged = True
    wire: ClassVar[int] = LEN

    def __init__(self, number: int, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.number = number

    @property
    def tag(self) -> bytes:
        return write_varint(self.number << 3 | self.wire)

    def accepts(self, wire: int) -> bool:
        return wire == self.wire

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> Any:
        """The value of ``data[start:stop]``, the bytes after the length."""
        raise NotImplementedError

    def contained(self, value: Any) -> bytes:
        """The inverse of :meth:`content`."""
        raise NotImplementedError

    def minimum(self) -> int:
        return 2


class Scalar(Tagged, Number):
    """A varint. ``names`` makes it an enumeration: values without a name stay numbers, as proto3 wants it."""

    wire = VARINT
    wide = ""
    """Code that makes the value of the 64 bits read."""

    def decode(self, raw: int) -> Any:
        return raw & U64

    def encode(self, value: Any) -> int:
        return int(value) & U64

    def emit(self, em: Emitter) -> str:
        return self.emit_at(em, len(self.tag))

    def emit_at(self, em: Emitter, before: int) -> str:
        """As :meth:`emit`, of the number ``before`` bytes after ``p``."""
        value = em.variable(self.name)
        emit_varint(em, value, before, self.wide.format(value))
        return value

    def minimum(self) -> int:
        return 2


class UInt64(Scalar):
    column = "uint64"


class UInt32(Scalar):
    column = "uint32"
    wide = f"{{0}} &= {U32}"

    def decode(self, raw: int) -> int:
        return raw & U32


class Int64(Scalar):
    """Negative numbers take ten bytes."""

    column = "int64"
    wide = f"{{0}} = ({{0}} ^ {1 << 63}) - {1 << 63}"

    def decode(self, raw: int) -> int:
        return ((raw & U64) ^ 1 << 63) - (1 << 63)


class Int32(Scalar):
    """Negative numbers take ten bytes; of more than 32 bits the low ones count."""

    column = "int32"
    wide = f"{{0}} = ({{0}} & {U32} ^ {1 << 31}) - {1 << 31}"

    def decode(self, raw: int) -> int:
        return ((raw & U32) ^ 1 << 31) - (1 << 31)


class Enum(Int32):
    """An :class:`Int32` with ``names``."""


class Bool(Scalar):
    column = "bool"

    def decode(self, raw: int) -> bool:
        return raw & U64 != 0

    def emit_at(self, em: Emitter, before: int) -> str:
        value = super().emit_at(em, before)
        em.line(f"{value} = {value} != 0")
        return value

    def i2repr(self, pkt: Any, x: Any) -> str:
        return str(x).lower()


class TimestampNs(Int64):
    """Nanoseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ns, UTC]"

    def present(self, value: int, show: Callable[[bytes], str]) -> str | int:
        return rfc3339_ns(value)

    def shown(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(rfc3339_ns)}({expression})"

    def i2repr(self, pkt: Any, x: Any) -> str:
        return str(rfc3339_ns(x))


class String(Tagged, Text):
    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> str:
        return str(self.decode(data[start:stop]))

    def contained(self, value: str) -> bytes:
        return self.encode(value)

    def emit(self, em: Emitter) -> str:
        return emit_slice(self, em, self.sliced(em))


class Bytes(Tagged, Binary):
    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> bytes:
        return data[start:stop]

    def contained(self, value: bytes) -> bytes:
        return bytes(value)

    def emit(self, em: Emitter) -> str:
        return emit_slice(self, em, self.sliced(em))


class Embedded(Tagged, Struct):
    """A message inside: ``layer`` declares it."""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> Layer:
        return Struct.read(self, data, start, stop, layer)[0]

    def contained(self, value: Any) -> bytes:
        return bytes(value)

    def emit(self, em: Emitter) -> str:
        decode = em.constant(compiler.decoder(self.layer, em.mode, em.style))
        return emit_slice(self, em, f"{decode}(b, p, q)[0]")


def emit_slice(kind: Tagged, em: Emitter, expression: str) -> str:
    """Generate the reading of a length and of the bytes ``b[p:q]`` after it."""
    value, length = em.variable(kind.name), em.variable("n")
    emit_varint(em, length, len(kind.tag))
    em.line(f"q = p + {length}")
    em.line(f"{value} = {expression}")
    em.line(f"p += {length}")
    return value


class Repeated(Array):
    """Several occurrences of ``element``; numbers may also be packed, all in one, as proto3 writes them."""

    tagged = True

    def __init__(self, element: Tagged) -> None:
        super().__init__(
            element.name,
            element,
            element.doc,
            count=None,
            default=None,
            unit=element.unit,
            secret=element.secret,
        )
        self.number = element.number
        self.packed = isinstance(element, Scalar)

    def accepts(self, wire: int) -> bool:
        return self.tagged_element.accepts(wire) or (self.packed and wire == LEN)

    @property
    def packed_tag(self) -> bytes:
        return write_varint(self.number << 3 | LEN)

    @property
    def tagged_element(self) -> Tagged:
        assert isinstance(self.element, Tagged)
        return self.element


class Content(Rest):
    """The value of an unknown field: a number, or bytes."""

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return value if isinstance(value, int) else show(value)

    def i2repr(self, pkt: Any, x: Any) -> str:
        return str(x) if isinstance(x, int) else super().i2repr(pkt, x)


class UnknownField(TailLayer):
    """An occurrence that the declaration has no place for."""

    __slots__ = written = ("tag_width", "width")
    fields_desc = [  # noqa: RUF012 - Scapy wants a list on the class
        fields.UInt32("number", "field number"),
        fields.UInt8("wire_type", "how the value is written", names=WIRE_TYPES),
        Content("value", "the value"),
    ]

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.tag_width = self.width = 0
        super().__init__(*args, **kw)

    @classmethod
    def within(cls, data: bytes, position: int, end: int) -> UnknownField:
        unknown = cls()
        unknown.explicit, unknown.start = 1, position
        tag, start = read_varint("tag", data, position, end)
        unknown.tag_width = start - position
        number, wire = tag >> 3, tag & 7
        name = f"unknown_fields.{number}"
        value: int | bytes
        if wire == VARINT:
            value, stop = read_varint(name, data, start, end)
            unknown.width = stop - start
        else:
            length = FIXED_WIDTHS.get(wire, 0)
            if wire == LEN:
                length, content = read_varint(name, data, start, end)
                unknown.width, start = content - start, content
            stop = take(name, start, length, end)
            value = data[start:stop]
        unknown.fields = {"number": number, "wire_type": wire, "value": value}
        unknown.stop = stop
        return unknown

    def self_build(self) -> bytes:
        number, wire, value = self.number, self.wire_type, self.value
        tag = write_varint(number << 3 | wire, self.tag_width)
        if isinstance(value, int):
            return tag + write_varint(value, self.width)
        length = write_varint(len(value), self.width) if wire == LEN else b""
        return tag + length + bytes(value)


class UnknownFields(Array):
    """What a message holds beyond its declaration; see :func:`message`."""

    tagged = True
    number = 0

    def __init__(self) -> None:
        doc = "fields that are not known, kept as they are"
        super().__init__("unknown_fields", UnknownField, doc, count=None, default=None)


def message(*kinds: Kind) -> list[Any]:
    """The ``fields_desc`` of a message: ordinary kinds first, then tagged ones in the order of their numbers."""
    return [*kinds, UnknownFields()]


# Messages.


class Occurrence(NamedTuple):
    """How one occurrence was written."""

    name: str
    at: int
    """Which of the values of a repeated field, the first one if packed."""
    tag_width: int
    width: int
    """Bytes of the varint, or of the length."""
    raw: int | list[tuple[int, int]] | None = None
    """The varint itself; of packed ones all, with their widths."""


NEXT_TAG = "t = b[p] if p < e else 0"


def has_tag(em: Emitter, tag: bytes) -> str:
    """The condition that the next occurrence has this tag."""
    return f"t == {tag[0]}" if len(tag) == 1 else f"b.startswith({tag!r}, p, e)"


class Message(TailLayer):
    """Base of all messages."""

    __slots__ = written = ("members", "shape")
    by_number: ClassVar[dict[int, Any]] = {}

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        tagged = [kind for kind in cls.fields_desc if kind.tagged]
        cls.by_number = {kind.number: kind for kind in tagged if not isinstance(kind, UnknownFields)}
        if list(cls.by_number) != sorted(cls.by_number) or len(cls.by_number) < len(tagged) - 1:
            raise TypeError(f"{cls.__name__}: fields are declared in the order of their numbers, each once")

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.shape: list[Occurrence] = []
        self.members = 0
        super().__init__(*args, **kw)

    # Reading.

    def read_tail(self, data: bytes, position: int, end: int) -> int:
        self.shape, self.members = [], 0
        try:
            while position < end:
                position = self._occurrence(data, position, end)
                if self.members > MAX_MEMBERS:
                    reason = f"more than {MAX_MEMBERS} members: the rest is not decoded"
                    raise Unfit("unknown_fields", reason, position)
        except Short as short:
            self.problem = short
        return position

    def _occurrence(self, data: bytes, start: int, end: int) -> int:
        tag, position = read_varint("tag", data, start, end)
        number, wire = tag >> 3, tag & 7
        if wire not in WIRE_TYPES or not 0 < number <= MAX_NUMBER:
            raise Unfit("tag", f"field number {number} with wire type {wire} cannot be", start)
        kind = self.by_number.get(number)
        if kind is None or not kind.accepts(wire):
            return self._unknown(data, start, end, len(self.shape))
        name = kind.name
        if isinstance(kind, Repeated):
            stop = self._element(kind, wire, data, position, end, position - start)
            self.ranges[name] = (self.ranges.get(name, (start, 0))[0], stop)
            return stop
        if name in self.fields:
            self._supersede(data, name)
        if isinstance(kind, Scalar):
            raw, stop = read_varint(name, data, position, end)
            self.shape.append(Occurrence(name, 0, position - start, stop - position, raw))
            self.fields[name] = kind.decode(raw)
        else:
            length, content = read_varint(name, data, position, end)
            stop = take(name, content, length, end)
            self.shape.append(Occurrence(name, 0, position - start, content - position))
            try:
                self.fields[name] = kind.content(data, content, stop, self)
            except Short as short:
                self.fields[name] = short.partial
                raise
            self._count(self.fields[name])
        self.ranges[name] = (start, stop)
        return stop

    def _element(self, kind: Repeated, wire: int, data: bytes, position: int, end: int, tag_width: int) -> int:
        name, element = kind.name, kind.tagged_element
        values: list[Any] = self.fields.setdefault(name, [])
        index = len(values)
        if wire == VARINT and isinstance(element, Scalar):
            raw, stop = read_varint(name, data, position, end)
            self.shape.append(Occurrence(name, index, tag_width, stop - position, raw))
            values.append(element.decode(raw))
            return stop
        length, content = read_varint(name, data, position, end)
        stop = take(name, content, length, end)
        if isinstance(element, Scalar):
            raws: list[tuple[int, int]] = []
            self.shape.append(Occurrence(name, index, tag_width, content - position, raws))
            while content < stop:
                raw, after = read_varint(name, data, content, stop)
                raws.append((raw, after - content))
                values.append(element.decode(raw))
                content = after
            return stop
        self.shape.append(Occurrence(name, index, tag_width, content - position))
        try:
            values.append(element.content(data, content, stop, self))
        except Short as short:
            values.append(short.partial)
            raise moved(short, f"{name}[{index}]{short.field.removeprefix(name)}", short.start) from None
        self._count(values[-1])
        return stop

    def _count(self, value: Any) -> None:
        if isinstance(value, Message):
            self.members += 1 + value.members

    def _unknown(self, data: bytes, start: int, end: int, place: int) -> int:
        unknown = UnknownField.within(data, start, end)
        kept = self.fields.setdefault("unknown_fields", [])
        self.shape[place : place + 1] = [Occurrence("unknown_fields", len(kept), 0, 0)]
        kept.append(unknown)
        first, last = self.ranges.get("unknown_fields", (start, unknown.stop))
        self.ranges["unknown_fields"] = (min(first, start), max(last, unknown.stop))
        self.members += 1
        return unknown.stop

    def _supersede(self, data: bytes, name: str) -> None:
        """The last occurrence of a single field counts: the one before is kept among the unknown fields."""
        place = next(i for i, occurrence in enumerate(self.shape) if occurrence.name == name)
        start, stop = self.ranges[name]
        self._unknown(data, start, stop, place)

    # Building.

    def build_tail(self) -> bytes:
        out: list[bytes] = []
        built: dict[str, int] = {}
        kinds = {kind.name: kind for kind in self.fields_desc if kind.tagged}
        for occurrence in self.shape:
            kind, value = kinds[occurrence.name], self.fields.get(occurrence.name)
            values = value if isinstance(kind, Array) and value is not None else [value]
            count = len(occurrence.raw) if isinstance(occurrence.raw, list) else 1
            some = [value for value in values[occurrence.at : occurrence.at + count] if value is not None]
            if some or count == 0:
                out.append(self._build(kind, some, occurrence))
            built[occurrence.name] = max(occurrence.at + count, built.get(occurrence.name, 0))
        for name, kind in kinds.items():
            value = self.fields.get(name)
            values = value if isinstance(kind, Array) and value is not None else [value]
            rest = [value for value in values[built.get(name, 0) :] if value is not None]
            if isinstance(kind, Repeated) and kind.packed:
                rest = [rest] if rest else []
            out += [self._build(kind, item if isinstance(item, list) else [item], None) for item in rest]
        return b"".join(out)

    def _build(self, kind: Any, values: list[Any], written: Occurrence | None) -> bytes:
        if isinstance(kind, UnknownFields):
            return bytes(values[0])
        element: Any = kind.tagged_element if isinstance(kind, Repeated) else kind
        packed = isinstance(kind, Repeated) and kind.packed and not (written and isinstance(written.raw, int))
        wire = LEN if packed else element.wire
        tag = write_varint(element.number << 3 | wire, written.tag_width if written else 0)
        width = written.width if written else 0
        if packed:
            raws = written.raw if written and isinstance(written.raw, list) else []
            raws = raws + [(-1, 0)] * (len(values) - len(raws))
            content = b"".join(spell(element, value, *raw) for value, raw in zip(values, raws, strict=True))
        elif isinstance(element, Scalar):
            raw = written.raw if written and isinstance(written.raw, int) else -1
            return tag + spell(element, values[0], raw, width)
        else:
            content = element.contained(values[0])
        return tag + write_varint(len(content), width) + content

    # Compiling.

    @classmethod
    def emit_tail(cls, em: Emitter) -> None:
        if em.careful:
            super().emit_tail(em)
            return
        target = em.scopes[-1].target
        with em.block("try:"):
            em.line(NEXT_TAG)
            for kind in cls.by_number.values():
                if isinstance(kind, Repeated):
                    cls._emit_repeated(em, kind, target)
                else:
                    with em.block(f"if {has_tag(em, kind.tag)}:"):
                        em._store(kind, kind.emit(em))
                        em._flush_dict()
                        em.line(NEXT_TAG)
        em.line("except IndexError: raise Cut from None")
        em.line("if p != e: raise Cut")

    @staticmethod
    def _emit_repeated(em: Emitter, kind: Repeated, target: str) -> None:
        element, values = kind.tagged_element, em.variable("l")
        tests = [has_tag(em, element.tag)]
        if kind.packed:
            tests.append(has_tag(em, kind.packed_tag))
        with em.block(f"if {' or '.join(tests)}:"):
            em.line(f"{values} = {target}[{kind.name!r}] = []")
            if kind.packed:
                with em.block(f"while {tests[1]}:"):
                    length, stop = em.variable("n"), em.variable("stop")
                    emit_varint(em, length, len(kind.packed_tag))
                    em.line(f"{stop} = p + {length}")
                    with em.block(f"while p < {stop}:"):
                        value = element.emit_at(em, 0) if isinstance(element, Scalar) else ""
                        em.line(f"{values}.append({element.shown(em, value) if em.mode == 'record' else value})")
                    em.line(f"if p > {stop}: raise Cut")
                    em.line(NEXT_TAG)
            with em.block(f"while {tests[0]}:"):
                value = element.emit(em)
                em.line(f"{values}.append({element.shown(em, value) if em.mode == 'record' else value})")
                em.line(NEXT_TAG)


def spell(element: Scalar, value: Any, raw: int, width: int) -> bytes:
    """Encode a number as it was written, if it still has the value that was written."""
    if raw >= 0 and element.decode(raw) == value:
        return write_varint(raw, width)
    return write_varint(element.encode(value))
