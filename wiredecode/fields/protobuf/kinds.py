"""The field kinds of protobuf messages (protobuf.dev, "proto3")."""

from __future__ import annotations

from typing import Any, ClassVar

from wiredecode.fields import compiler
from wiredecode.fields.composition import Array, Struct
from wiredecode.fields.contracts import Emitter
from wiredecode.fields.kind import Kind
from wiredecode.fields.layer import Layer
from wiredecode.fields.numbers import Moment, Number, rfc3339_ns, write_varint
from wiredecode.fields.protobuf.wire import LEN, U32, U64, VARINT, emit_varint
from wiredecode.fields.sized import Binary, Text


class Tagged(Kind):
    """Base of all: a field found by its ``number``.

    A scalar that is absent has its default, unless it is ``optional``: declared so, or a member of a oneof.
    """

    tagged = True
    wire: ClassVar[int] = LEN
    zero: ClassVar[Any] = None
    """What proto3 leaves out; None: to be absent means something else."""

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

    def contained(self, value: Any) -> bytes:
        """The inverse of :meth:`content`."""
        raise NotImplementedError

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
    zero = False

    def decode(self, raw: int) -> bool:
        return raw & U64 != 0

    def emit_at(self, em: Emitter, before: int) -> str:
        value = super().emit_at(em, before)
        em.line(f"{value} = {value} != 0")
        return value

    def readable(self, value: Any) -> str:
        return str(value).lower()


class TimestampNs(Moment, Int64):
    """Nanoseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ns, UTC]"
    spell = staticmethod(rfc3339_ns)


class String(Tagged, Text):
    zero = ""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> str:
        return str(self.decode(data[start:stop]))

    def contained(self, value: str) -> bytes:
        return self.encode(value)

    def emit(self, em: Emitter) -> str:
        return emit_slice(self, em, self.sliced(em))


class Bytes(Tagged, Binary):
    zero = b""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> bytes:
        return data[start:stop]

    def contained(self, value: bytes) -> bytes:
        return bytes(value)

    def emit(self, em: Emitter) -> str:
        return emit_slice(self, em, self.sliced(em))


class Embedded(Tagged, Struct):
    """A message inside: ``layer`` declares it."""

    def content(self, data: bytes, start: int, stop: int, layer: Layer) -> Layer:
        inner: Layer = Struct.read(self, data, start, stop, layer)[0]
        return inner

    def contained(self, value: Any) -> bytes:
        return bytes(value)

    def emit(self, em: Emitter) -> str:
        layer: type[Layer] = self.layer
        decode = em.constant(compiler.decoder(layer, em.mode, em.style))
        return emit_slice(self, em, f"{decode}(b, p, q)[0]")


def emit_slice(kind: Tagged, em: Emitter, expression: str) -> str:
    """Generate the reading of a length and of the bytes ``b[p:q]`` after it."""
    value, length = em.variable(kind.name), em.variable("n")
    emit_varint(em, length, len(kind.tag))
    em.line(f"q = p + {length}")
    em.line(f"{value} = {expression}")
    em.line("p = q")
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
