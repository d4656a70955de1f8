"""Messages: occurrences of fields in any order, read, built and compiled."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from wiredecode.fields.composition import Array
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import Kind, Malformed, Truncated, take
from wiredecode.fields.layer import Range, Style, TaggedLayer, present_field
from wiredecode.fields.numbers import UInt8, UInt32, write_varint
from wiredecode.fields.protobuf.kinds import (
    FIXED_WIDTHS,
    LEN,
    MAX_NUMBER,
    VARINT,
    WIRE_TYPES,
    Embedded,
    Repeated,
    Scalar,
    Tagged,
    emit_varint,
    read_varint,
)
from wiredecode.fields.sized import OPAQUE, Rest


class Content(Rest):
    """The value of an unknown field: a number, or bytes."""

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return value if isinstance(value, int) else show(value)

    def readable(self, value: Any) -> str:
        return str(value) if isinstance(value, int) else super().readable(value)


class UnknownField(TaggedLayer):
    """An occurrence that the declaration has no place for."""

    __slots__ = ("tag_width", "width")
    fields_desc = [  # noqa: RUF012 - Scapy wants a list on the class
        UInt32("number", "field number"),
        UInt8("wire_type", "how the value is written", names=WIRE_TYPES),
        Content("value", "the value", **OPAQUE),
    ]

    def begin(self) -> None:
        self.tag_width = self.width = 0
        super().begin()

    @classmethod
    def within(cls, data: bytes, position: int, end: int) -> "UnknownField":
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

    def secret_ranges(self) -> Iterator[Range]:
        if isinstance(self.fields["value"], bytes):
            yield self.stop - len(self.fields["value"]), self.stop

    def self_build(self) -> bytes:
        number, wire, value = self.number, self.wire_type, self.value
        tag = write_varint(number << 3 | wire, self.tag_width)
        if isinstance(value, int):
            return tag + write_varint(value, self.width)
        length = write_varint(len(value), self.width) if wire == LEN else b""
        return tag + length + bytes(value)


class UnknownFields(Array):
    """Fields of a message beyond its declaration; see :func:`message`."""

    tagged = True
    number = 0

    def __init__(self) -> None:
        doc = "fields that are not known, kept as they are"
        super().__init__("unknown_fields", UnknownField, doc, count=None, default=None)


MAX_MEMBERS = 10_000
"""Sub-messages and unknown fields in one message, those inside them included: each is an object when read carefully."""


def message(*kinds: Kind) -> list[Any]:
    """The ``fields_desc`` of a message: ordinary kinds first, then tagged ones in the order of their numbers."""
    return [*kinds, UnknownFields()]


# Messages.


class Occurrence(NamedTuple):
    """Encoding of one occurrence."""

    name: str
    at: int
    """Index in the values of a repeated field, of the first one if packed."""
    tag_width: int
    width: int
    """Bytes of the varint, or of the length."""
    raw: int | list[tuple[int, int]] | None = None
    """The varint itself; of packed ones all, with their widths."""


NEXT_TAG = "t = b[p] if p < e else 0"


def has_tag(em: Emitter, tag: bytes) -> str:
    """The condition that the next occurrence has this tag."""
    return f"t == {tag[0]}" if len(tag) == 1 else f"b.startswith({tag!r}, p, e)"


class Message(TaggedLayer):
    """Base of all messages."""

    __slots__ = ("indexes", "members", "shape")
    by_number: ClassVar[dict[int, Any]] = {}

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        tagged = [kind for kind in cls.fields_desc if kind.tagged]
        cls.by_number = {kind.number: kind for kind in tagged if not isinstance(kind, UnknownFields)}
        kinds = cls.by_number.values()
        single = [kind for kind in kinds if not isinstance(kind, Array | Embedded)]
        cls.defaults = {kind.name: kind.default for kind in single if kind.default is not None}
        if list(cls.by_number) != sorted(cls.by_number) or len(cls.by_number) < len(tagged) - 1:
            raise TypeError(f"{cls.__name__}: fields are declared in the order of their numbers, each once")

    def begin(self) -> None:
        self.shape: list[Occurrence] = []
        self.indexes: dict[str, int] = {}
        """Index of each single field in the shape."""
        self.members = 0
        super().begin()

    # Values that are not on the wire.

    def values(self, *, defaults: bool = True) -> dict[str, Any]:
        """The defaults of absent fields with the others; none where the message is truncated, since they may follow."""
        present = super().values(defaults=defaults)
        return present | ({**self.defaults, **present} if defaults and self.problem is None else {})

    @classmethod
    def present(cls, values: Mapping[str, Any], style: Style) -> dict[str, Any]:
        """The record, in the order of the declaration."""
        names = [kind.name for kind in cls.fields_desc if kind.name in values]
        return super().present({name: values[name] for name in names}, style)

    # Reading.

    def read_tagged(self, data: bytes, position: int, end: int) -> int:
        self.shape, self.indexes, self.members = [], {}, 0
        try:
            while position < end:
                position = self._occurrence(data, position, end)
                if self.members > MAX_MEMBERS:
                    reason = f"more than {MAX_MEMBERS} members: the rest is not decoded"
                    raise Malformed("unknown_fields", reason, position)
        except Truncated as short:
            self.problem = short
        return position

    def _occurrence(self, data: bytes, start: int, end: int) -> int:
        tag, position = read_varint("tag", data, start, end)
        number, wire = tag >> 3, tag & 7
        if wire not in WIRE_TYPES or not 0 < number <= MAX_NUMBER:
            raise Malformed("tag", f"field number {number} with wire type {wire} cannot be", start)
        kind = self.by_number.get(number)
        if kind is None or not kind.accepts(wire):
            return self._unknown(data, start, end, len(self.shape))
        name = kind.name
        if isinstance(kind, Repeated):
            stop = self._element(kind, wire, data, position, end, position - start)
            self.ranges[name] = (self.ranges.get(name, (start, 0))[0], stop)
            return stop
        if name in self.fields:
            self._unknown(data, *self.ranges[name], self.indexes[name])  # the last occurrence counts
        self.indexes[name] = len(self.shape)
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
            except Truncated as short:
                if short.partial is not None:
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
        except Truncated as short:
            values.append(short.partial)
            raise short.inside(f"{name}[{index}]{short.field.removeprefix(name)}") from None
        self._count(values[-1])
        return stop

    def _count(self, value: Any) -> None:
        if isinstance(value, Message):
            self.members += 1 + value.members

    def _unknown(self, data: bytes, start: int, end: int, index: int) -> int:
        unknown = UnknownField.within(data, start, end)
        kept = self.fields.setdefault("unknown_fields", [])
        self.shape[index : index + 1] = [Occurrence("unknown_fields", len(kept), 0, 0)]
        kept.append(unknown)
        first, last = self.ranges.get("unknown_fields", (start, unknown.stop))
        self.ranges["unknown_fields"] = (min(first, start), max(last, unknown.stop))
        self.members += 1
        return unknown.stop

    # Building.

    def build_tagged(self) -> bytes:
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
            unbuilt = [value for value in values[built.get(name, 0) :] if value is not None]
            if isinstance(kind, Repeated) and kind.packed:
                unbuilt = [unbuilt] if unbuilt else []
            out += [self._build(kind, item if isinstance(item, list) else [item], None) for item in unbuilt]
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
            content = element.build_content(values[0])
        return tag + write_varint(len(content), width) + content

    # Compiling.

    @classmethod
    def emit_tagged(cls, em: Emitter) -> None:
        target = em.scopes[-1].target
        with em.block("try:"):
            em.line(NEXT_TAG)
            for kind in cls.by_number.values():
                if isinstance(kind, Repeated):
                    cls._emit_repeated(em, kind, target)
                else:
                    with em.block(f"if {has_tag(em, kind.tag)}:"):
                        em.store(kind, kind.emit(em))
                        em.flush_dict()
                        em.line(NEXT_TAG)
                    if em.style is not None and kind.name in cls.defaults:
                        cls._emit_default(em, kind, em.style, target)
        em.line("except IndexError: raise DecodeError from None")
        em.line("if p != e: raise DecodeError")

    @staticmethod
    def _emit_default(em: Emitter, kind: Tagged, style: Style, target: str) -> None:
        with em.block("else:"):
            for key, value in present_field(kind, kind.default, style, {}).items():
                literal = repr(value) if type(value) in (int, bool, str) else em.constant(value)
                em.line(f"{target}[{key!r}] = {literal}")

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
                        em.line(
                            f"{values}.append({element.spell_present(em, value) if em.mode == 'record' else value})"
                        )
                    em.line(f"if p > {stop}: raise DecodeError")
                    em.line(NEXT_TAG)
            with em.block(f"while {tests[0]}:"):
                value = element.emit(em)
                em.line(f"{values}.append({element.spell_present(em, value) if em.mode == 'record' else value})")
                em.line(NEXT_TAG)


def spell(element: Scalar, value: Any, raw: int, width: int) -> bytes:
    """Encode a number as it was written, if it still has the value that was written."""
    if raw >= 0 and element.decode(raw) == value:
        return write_varint(raw, width)
    return write_varint(element.encode(value))
