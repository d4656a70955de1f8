"""The field kinds of protobuf messages (protobuf.dev, "proto3")."""

import struct
from typing import Any, ClassVar

from wiredecode.fields import compiler
from wiredecode.fields.composition import Array, Struct
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.kind import Kind, Malformed, Truncated
from wiredecode.fields.layer import Layer
from wiredecode.fields.numbers import Number, Time, rfc3339_ns, varint, write_varint
from wiredecode.fields.sized import Binary, Text

VARINT, LEN = 0, 2
WIRE_TYPES = {0: "varint", 1: "fixed64", 2: "length-delimited", 5: "fixed32"}
"""Groups (3 and 4) are not part of proto3."""
FIXED_WIDTHS = {1: 8, 5: 4}
MAX_NUMBER = (1 << 29) - 1
MAX_VARINT_BYTES = 10
U32, U64 = (1 << 32) - 1, (1 << 64) - 1
MINUS_ONE = b"\xff" * 9 + b"\x01"
"""By far the most frequent number of ten bytes."""
EIGHT_BYTES = struct.Struct("<Q").unpack_from
MORE = 0x8080808080808080
"""Eight bytes that others follow."""


def read_varint(field: str, data: bytes, position: int, end: int) -> tuple[int, int]:
    """The number at ``position`` as it is written (70 bits) and the position after it; raises :class:`Truncated`."""
    try:
        return varint(field, data, position, end)
    except Truncated as problem:
        if problem.needed <= MAX_VARINT_BYTES:
            raise
    raise Malformed(field, f"a varint of more than {MAX_VARINT_BYTES} bytes", position)


def fast_varint(b: bytes, p: int, e: int) -> tuple[int, int]:
    """Read a varint of several bytes: 64 bits, and the position after it. Fast for two bytes and for nine."""
    if p + 1 < e and b[p + 1] < 0x80:
        return b[p] & 0x7F | b[p + 1] << 7, p + 2
    if p + 9 <= e and b[p + 8] < 0x80:
        (word,) = EIGHT_BYTES(b, p)
        if word & MORE == MORE:
            word = word & 0x007F007F007F007F | (word & 0x7F007F007F007F00) >> 1
            word = word & 0x00003FFF00003FFF | (word & 0x3FFF00003FFF0000) >> 2
            return word & 0x0FFFFFFF | (word & 0x0FFFFFFF00000000) >> 4 | b[p + 8] << 56, p + 9
    if b.startswith(MINUS_ONE, p) and p + MAX_VARINT_BYTES <= e:
        return U64, p + MAX_VARINT_BYTES
    value, p = varint("", b, p, e)
    return value & U64, p


def emit_varint(em: Emitter, value: str, before: int, wide: str = "") -> None:
    """Generate the reading of a varint ``before`` bytes after ``p``; ``wide`` is for values of more than one byte."""
    start = f"p + {before}" if before else "p"
    em.line(f"{value} = b[{start}]")
    em.line(f"if {value} < 128: p += {before + 1}")
    with em.block("else:"):
        em.line(f"{value}, p = {em.constant(fast_varint)}(b, {start}, e)")
        if wide:
            em.line(wide)


class Tagged(Kind):
    """Base of all: a field found by its ``number``.

    A scalar that is absent has its default, unless it is ``optional``: declared so, or a member of a oneof.
    """

    tagged = True
    wire: ClassVar[int] = LEN
    zero: ClassVar[Any] = None
    """The value that proto3 leaves out; None: absence has another meaning."""

    def __init__(self, number: int, *args: Any, optional: bool = False, **kw: Any) -> None:
        if self.zero is not None:
            kw["default"] = None if optional else self.zero
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

    def build_content(self, value: Any) -> bytes:
        """The inverse of :meth:`content`."""
        return bytes(value)

    def emit(self, em: Emitter) -> str:
        """Generate the reading of a length and of the bytes after it."""
        sliced = self.spell_slice(em)  # type: ignore[attr-defined]  # of Text, Binary or Struct
        value, length = em.variable(self.name), em.variable("n")
        emit_varint(em, length, len(self.tag))
        em.line(f"q = p + {length}")
        em.line(f"{value} = {sliced}")
        em.line("p = q")
        return value

    def minimum(self) -> int:
        return 2


class Scalar(Tagged, Number):
    """A varint. ``names`` makes it an enumeration: values without a name stay numbers, as proto3 wants it."""

    wire = VARINT
    zero = 0
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
    zero = False

    def decode(self, raw: int) -> bool:
        return raw & U64 != 0

    def emit_at(self, em: Emitter, before: int) -> str:
        value = super().emit_at(em, before)
        em.line(f"{value} = {value} != 0")
        return value

    def readable(self, value: Any) -> str:
        return str(value).lower()


class TimestampNs(Time, Int64):
    """Nanoseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ns, UTC]"
    spell = staticmethod(rfc3339_ns)


class String(Tagged, Text):
    zero = ""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> str:
        return str(self.decode(data[start:stop]))

    def build_content(self, value: str) -> bytes:
        return self.encode(value)


class Bytes(Tagged, Binary):
    zero = b""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> bytes:
        return data[start:stop]


class Embedded(Tagged, Struct):
    """A message inside: ``layer`` declares it."""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> Layer:
        message: Layer = Struct.read(self, data, start, stop, layer)[0]
        return message

    def spell_slice(self, em: Emitter) -> str:
        layer: type[Layer] = self.layer
        return f"{em.constant(compiler.decoder(layer, em.mode, em.style))}(b, p, q)[0]"


class Repeated(Array):
    """Several occurrences of ``element``; numbers may also be packed, all in one, as proto3 writes them."""

    tagged = True

    def __init__(self, element: Tagged) -> None:
        super().__init__(
            element.name, element, element.doc, count=None, default=None, unit=element.unit, secret=element.secret
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
