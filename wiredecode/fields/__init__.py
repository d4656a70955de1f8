"""The field kinds: how a message type declares its layout, once.

Every kind is a Scapy field, so a message type is an ordinary Scapy ``Packet`` (a :class:`~wiredecode.layer.Layer`)
whose ``fields_desc`` is made of them. Three readers stand on the same declarations:

* **Scapy**, through :meth:`Kind.read` and :meth:`Kind.write`: dissect, build, ``show()``;
* the **compiled decoder** (:mod:`wiredecode.fields.compiler`), through :meth:`Kind.emit`: straight-line Python;
* **columns** (later), through :attr:`Kind.fixed` and :attr:`Kind.column`: many frames of one type at a time.

Positions are byte offsets into one ``bytes`` object. A reader that needs bytes beyond the end raises
:class:`Short`; nothing outside ``layer.py`` and ``compiler.py`` ever sees that exception.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from scapy.fields import Field

from wiredecode.fields.presence import Absent as Absent
from wiredecode.fields.presence import Is as Is
from wiredecode.fields.presence import Left as Left
from wiredecode.fields.presence import More as More
from wiredecode.fields.presence import Peek as Peek
from wiredecode.fields.presence import Spans as Spans
from wiredecode.fields.presence import Test as Test

if TYPE_CHECKING:
    from wiredecode.fields.compiler import Emitter
    from wiredecode.fields.layer import Layer

Inner = Callable[[bytes, Callable[[bytes], str], dict[str, Any]], dict[str, Any] | None]
"""Decoder of what a bytes field carries: ``(value, show, record of the structure so far) -> further keys, or None``.

``show`` renders bytes. The keys are JSON-ready and join the record of the structure that holds the field."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECONDS_MAX = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: what RFC 3339 can spell."""


class Short(Exception):
    """The bytes end inside a field: ``field`` needed ``needed`` bytes at ``start`` and there were ``had``."""

    reason: str = ""
    """Why the bytes cannot be the field, where that is not that they end."""

    def __init__(self, field: str, needed: int, had: int, start: int, partial: Any = None) -> None:
        super().__init__(field, needed, had, start)
        self.field, self.needed, self.had, self.start, self.partial = field, needed, had, start, partial

    def inside(self, field: str, partial: Any) -> Short:
        """The same problem, as the structure or array around the field tells it."""
        problem = Short(field, self.needed, self.had, self.start, partial)
        problem.reason = self.reason
        return problem


class Unfit(Short):
    """Bytes that cannot be the field, whatever follows."""

    def __init__(self, field: str, reason: str, start: int, partial: Any = None) -> None:
        super().__init__(field, 0, 0, start, partial)
        self.reason = reason


def take(field: str, position: int, length: int, end: int) -> int:
    """Return the end of ``length`` bytes at ``position``, or raise :class:`Short`."""
    if length < 0 or position + length > end:
        raise Short(field, length, end - position, position)
    return position + length


def text(raw: bytes) -> str:
    """UTF-8, losslessly: bytes that are not become surrogates, as in file names (PEP 383)."""
    return raw.decode("utf-8", "surrogateescape")


def printable(value: str) -> str:
    """The text with bytes that were not UTF-8 spelled as ``\\xNN``, fit for JSON and terminals."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def redacted(raw: bytes) -> str:
    """What stands for a secret in every output."""
    return f"<redacted {len(raw)} bytes>"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.")


def rfc3339_ms(milliseconds: int) -> str | int:
    """RFC 3339 text of a time in ms since the Unix epoch; the number itself beyond years 1970 to 9999."""
    if not 0 <= milliseconds <= MILLISECONDS_MAX:
        return milliseconds
    seconds, fraction = divmod(milliseconds, 1000)
    return f"{_second(seconds)}{fraction:03d}Z"


class Kind(Field[Any, Any]):
    """One field of a layout.

    ``doc`` says in a few words what it means; ``unit`` what it counts (``"bytes"``, ``"s"``); ``secret`` hides the
    value in every output unless the user asks for it.
    """

    __slots__ = ("__dict__",)

    fixed: ClassVar[str | None] = None
    """The struct code of a kind of fixed width; runs of these become one unpack."""
    column: ClassVar[str] = "binary"
    """The Arrow type of its column."""
    hidden: ClassVar[bool] = False
    """Whether records leave it out: bytes that only hold a message together, such as the end of a line."""
    tagged: ClassVar[bool] = False
    """Found by a tag or key, in any order: read by the tail of its layer (:meth:`Layer.read_tail`)."""

    def __init__(self, name: str, doc: str = "", *, default: Any = None, unit: str = "", secret: bool = False) -> None:
        super().__init__(name, default, "H")
        self.doc, self.unit, self.secret = doc, unit, secret

    def __hash__(self) -> int:
        return id(self)

    # What each kind defines.

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        """Read the value at ``position``; return it and the position after it. Raises :class:`Short`."""
        raise NotImplementedError

    def write(self, value: Any, layer: Layer) -> bytes:
        """Encode ``value``, the inverse of :meth:`read`."""
        raise NotImplementedError

    def emit(self, em: Emitter) -> str:
        """Generate code that reads the value; return the expression that holds it."""
        raise NotImplementedError

    def minimum(self) -> int:
        """The least number of bytes this field can take."""
        return struct.calcsize(">" + self.fixed) if self.fixed else 0

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        """The value as records show it: JSON-ready."""
        return value

    def shown(self, em: Emitter, expression: str) -> str:
        """Generate the expression that does what :meth:`present` does."""
        return expression

    # Scapy's contract, in terms of the above.

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        value, position = self.read(s, 0, len(s), pkt)
        return s[position:], value

    def addfield(self, pkt: Any, s: bytes, val: Any) -> bytes:
        return s + self.write(val, pkt)

    def i2repr(self, pkt: Any, x: Any) -> str:
        return repr(x)


# Numbers


class Number(Kind):
    """An integer of fixed width. ``names`` gives the name of each known value, as an enumeration.

    A record shows the name, with the number beside it as ``<field>_code``. ``little`` turns the byte order.
    """

    signed: ClassVar[bool] = False
    width: ClassVar[int] = 0

    def __init__(
        self,
        name: str,
        doc: str = "",
        *,
        names: Mapping[int, str] | None = None,
        little: bool = False,
        **kw: Any,
    ) -> None:
        kw.setdefault("default", 0)
        super().__init__(name, doc, **kw)
        self.names, self.little = names, little

    @property
    def order(self) -> str:
        return "<" if self.little else ">"

    @property
    def code_name(self) -> str | None:
        """The key under which a record shows the number of an enumeration."""
        return f"{self.name}_code" if self.names else None

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        stop = take(self.name, position, self.width, end)
        order = "little" if self.little else "big"
        return int.from_bytes(data[position:stop], order, signed=self.signed), stop  # type: ignore[arg-type]

    def write(self, value: int | None, layer: Layer) -> bytes:
        order = "little" if self.little else "big"
        return (value or 0).to_bytes(self.width, order, signed=self.signed)  # type: ignore[arg-type]

    def emit(self, em: Emitter) -> str:
        return em.fixed(self)

    def minimum(self) -> int:
        return self.width

    def present(self, value: int, show: Callable[[bytes], str]) -> Any:
        return self.names.get(value, value) if self.names else value

    def shown(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.names)}.get({expression}, {expression})" if self.names else expression

    def i2repr(self, pkt: Any, x: Any) -> str:
        if self.names and x in self.names:
            return f"{self.names[x]} ({x})"
        return f"{x} {self.unit}" if self.unit and x is not None else str(x)


class UInt8(Number):
    fixed, width, column = "B", 1, "uint8"


class UInt16(Number):
    fixed, width, column = "H", 2, "uint16"


class UInt24(Number):
    """Three bytes: no struct code, so the compiled decoder reads them as bytes."""

    fixed, width, column = "3s", 3, "uint32"


class UInt32(Number):
    fixed, width, column = "I", 4, "uint32"


class UInt64(Number):
    fixed, width, column = "Q", 8, "uint64"


class Int8(Number):
    fixed, width, column, signed = "b", 1, "int8", True


class Int16(Number):
    fixed, width, column, signed = "h", 2, "int16", True


class Int32(Number):
    fixed, width, column, signed = "i", 4, "int32", True


class Int64(Number):
    fixed, width, column, signed = "q", 8, "int64", True


class Flags(UInt8):
    """A byte of bits; ``names`` maps each single-bit mask to its name. A record lists the names that are set."""

    column = "list<string>"
    code_name = None

    def present(self, value: int, show: Callable[[bytes], str]) -> list[str]:
        known = [name for mask, name in (self.names or {}).items() if value & mask]
        unknown = value & ~sum(self.names or {})
        return known + ([f"0x{unknown:02x}"] if unknown else [])

    def shown(self, em: Emitter, expression: str) -> str:
        return f"({em.constant(self.present)}({expression}, None) if {expression} else [])"

    def i2repr(self, pkt: Any, x: Any) -> str:
        return f"0x{x:02x} ({' '.join(self.present(x, str)) or 'none'})"


class Boolean(UInt8):
    """One byte, 0 or 1; a record shows any other value as the number it is."""

    column = "bool"

    def present(self, value: int, show: Callable[[bytes], str]) -> bool | int:
        return bool(value) if value < 2 else value

    def shown(self, em: Emitter, expression: str) -> str:
        return f"({expression} == 1 if {expression} < 2 else {expression})"

    def i2repr(self, pkt: Any, x: Any) -> str:
        return str(self.present(x, str)).lower()


def rfc3339_ns(nanoseconds: int) -> str | int:
    """RFC 3339 text of a time in ns since the Unix epoch; the number itself beyond years 1970 to 9999."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}{fraction:09d}Z" if 0 <= seconds <= MILLISECONDS_MAX // 1000 else nanoseconds


class Moment(Kind):
    """Base of times: numbers that records show as RFC 3339 text."""

    @staticmethod
    def spell(value: int, /) -> str | int:
        """The text, or the number itself where there is none."""
        raise NotImplementedError

    def present(self, value: int, show: Callable[[bytes], str]) -> str | int:
        return self.spell(value)

    def shown(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.spell)}({expression})"

    def i2repr(self, pkt: Any, x: Any) -> str:
        return str(self.spell(x))


class Timestamp(Moment, Int64):
    """Signed 64-bit milliseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ms, UTC]"
    spell = staticmethod(rfc3339_ms)


class TimestampNs(Moment, Int64):
    """Signed 64-bit nanoseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ns, UTC]"
    spell = staticmethod(rfc3339_ns)


class Varint(Kind):
    """Little-endian base-128 unsigned integer (as in protobuf and TANK), at most ``max_bytes`` long."""

    column = "uint64"

    def __init__(self, name: str, doc: str = "", *, max_bytes: int = 10, **kw: Any) -> None:
        kw.setdefault("default", 0)
        super().__init__(name, doc, **kw)
        self.max_bytes = max_bytes

    def minimum(self) -> int:
        return 1

    def read(self, data: bytes, position: int, end: int, layer: Layer | None) -> tuple[int, int]:
        value = 0
        for index in range(self.max_bytes):
            take(self.name, position, index + 1, end)
            byte = data[position + index]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value, position + index + 1
        raise Short(self.name, self.max_bytes + 1, self.max_bytes, position)

    def write(self, value: int, layer: Layer) -> bytes:
        out = bytearray()
        while value >= 0x80:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)
        return bytes(out)

    def emit(self, em: Emitter) -> str:
        return em.call(self)


# Text and bytes


class Sized(Kind):
    """Base of values whose length is known before them.

    ``length`` is the kind of a number in front, the name of an earlier field, or the number of bytes itself.
    ``null`` is the length that stands for "no value".
    """

    def __init__(
        self,
        name: str,
        doc: str = "",
        *,
        length: type[Number] | str | int = UInt16,
        null: int | None = None,
        **kw: Any,
    ) -> None:
        kw.setdefault("default", self.empty)
        super().__init__(name, doc, **kw)
        self.length = length(name) if isinstance(length, type) else length
        self.null = null

    empty: ClassVar[Any] = b""

    def minimum(self) -> int:
        return self.length.width if isinstance(self.length, Number) else 0

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        if isinstance(self.length, Number):
            count, position = self.length.read(data, position, end, layer)
        else:
            count = layer.fields[self.length] if isinstance(self.length, str) else self.length
        if count == self.null:
            return None, position
        stop = take(self.name, position, count, end)
        return self.decode(data[position:stop]), stop

    def write(self, value: Any, layer: Layer) -> bytes:
        raw = b"" if value is None else self.encode(value)
        if not isinstance(self.length, Number):
            return raw
        count = self.null if value is None and self.null is not None else len(raw)
        return self.length.write(count, layer) + raw

    def emit(self, em: Emitter) -> str:
        value = em.variable(self.name)
        if isinstance(self.length, Number):
            count = em.number(self.length)
        else:
            count = em.reference(self.length) if isinstance(self.length, str) else str(self.length)
            em.flush()
        if self.null is None:
            self.emit_value(em, value, count)
        else:
            with em.block(f"if {count} == {self.null}:"):
                em.line(f"{value} = None")
            with em.block("else:"):
                self.emit_value(em, value, count)
        return value

    def emit_value(self, em: Emitter, value: str, count: str) -> None:
        if isinstance(self.length, Number) and self.length.signed:  # a negative length leads nowhere
            em.line(f"q = p + {count} if {count} >= 0 else e + 1")
        else:
            em.line(f"q = p + {count}")
        em.require("q", self.name, count)
        if not em.stepping:
            em.line(f"{value} = {self.sliced(em)}")
        elif em.picked(self.name):
            em.line(f"{value} = b[p:q]")
        em.line("p = q")

    def decode(self, raw: bytes) -> Any:
        return raw

    def encode(self, value: Any) -> bytes:
        return bytes(value)

    def sliced(self, em: Emitter) -> str:
        return "b[p:q]"


class Text(Sized):
    """A string: length in bytes, then UTF-8. Bytes that are not UTF-8 survive a round trip."""

    column = "string"
    empty = ""

    def decode(self, raw: bytes) -> str:
        return text(raw)

    def encode(self, value: str) -> bytes:
        return value.encode("utf-8", "surrogateescape")

    def sliced(self, em: Emitter) -> str:
        return f"{em.constant(text)}(b[p:q])" if em.careful else "b[p:q].decode()"

    def present(self, value: str | None, show: Callable[[bytes], str]) -> str | None:
        return value if value is None else printable(value)

    # The fast decoder needs no shown(): text that is not UTF-8 sends it to the careful one.


class Binary(Sized):
    """Bytes with their length in front; ``inner`` decodes what they carry."""

    def __init__(self, name: str, doc: str = "", *, inner: Inner | None = None, **kw: Any) -> None:
        kw.setdefault("length", UInt32)
        super().__init__(name, doc, **kw)
        self.inner = inner

    def present(self, value: bytes | None, show: Callable[[bytes], str]) -> str | None:
        return None if value is None else show(value)

    def shown(self, em: Emitter, expression: str) -> str:
        return (
            f"(None if {expression} is None else show({expression}))"
            if self.null is not None
            else f"show({expression})"
        )

    def i2repr(self, pkt: Any, x: Any) -> str:
        return "null" if x is None else f"{len(x)} bytes"


class Rest(Binary):
    """All bytes that are left in the frame."""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, **kw)

    def minimum(self) -> int:
        return 0

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        return data[position:end], end

    def write(self, value: bytes, layer: Layer) -> bytes:
        return bytes(value or b"")

    def emit(self, em: Emitter) -> str:
        em.flush()
        value = em.variable(self.name)
        em.line(f"{value} = b[p:e]")
        em.line("p = e")
        return value


class Uuid(Kind):
    """Sixteen bytes in network order, shown as RFC 9562 text."""

    fixed, column = "16s", "fixed_size_binary[16]"

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        stop = take(self.name, position, 16, end)
        return data[position:stop], stop

    def write(self, value: bytes | None, layer: Layer) -> bytes:
        return bytes(value or bytes(16))

    def emit(self, em: Emitter) -> str:
        return em.fixed(self)

    def present(self, value: bytes, show: Callable[[bytes], str]) -> str:
        text = value.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def shown(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.present)}({expression}, None)"

    def i2repr(self, pkt: Any, x: Any) -> str:
        return self.present(x, str)


# Compositions


class Struct(Kind):
    """A structure in place: the fields of another layer."""

    holds_packets = 1
    column = "struct"

    def __init__(self, name: str, layer: type[Layer], doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.layer = layer

    def minimum(self) -> int:
        return self.layer.minimum()

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Layer, int]:
        inner = self.layer.within(data, position, end)
        if inner.problem is not None:
            short = inner.problem
            raise short.inside(f"{self.name}.{short.field}", inner)
        return inner, inner.stop

    def write(self, value: Any, layer: Layer) -> bytes:
        return bytes(value if value is not None else self.layer())

    def emit(self, em: Emitter) -> str:
        em.flush()
        return em.structure(self.layer, self.name)


class Array(Kind):
    """``count`` elements one after another: a kind (its name is not used) or the fields of a layer.

    ``count`` is the kind of a number in front, the name of an earlier field, or None: elements up to the end. ``size``
    names an earlier field that bounds the array in bytes. ``bulk`` marks arrays of messages, which readers that only
    look at a frame count and do not read.
    """

    islist = 1
    column = "list"

    def __init__(
        self,
        name: str,
        element: Kind | type[Layer],
        doc: str = "",
        *,
        count: type[Number] | str | None = UInt32,
        size: str | None = None,
        bulk: bool = False,
        **kw: Any,
    ) -> None:
        kw.setdefault("default", [])
        super().__init__(name, doc, **kw)
        self.element = element if isinstance(element, Kind) else Struct(name, element)
        self.element.name = name  # what an error inside an element is called
        self.holds_packets = int(isinstance(self.element, Struct))
        self.count = count(name) if isinstance(count, type) else count
        self.size, self.bulk = size, bulk
        if self.element.minimum() < 1:
            raise TypeError(f"{name}: an element that may be empty cannot be counted safely")

    def minimum(self) -> int:
        return self.count.width if isinstance(self.count, Number) else 0

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        count = None
        if isinstance(self.count, str):
            count = layer.fields[self.count]
        elif self.count is not None:
            count, position = self.count.read(data, position, end, layer)
        stop = min(end, position + layer.fields[self.size]) if self.size else end
        values: list[Any] = []
        for index in itertools.count() if count is None else range(count):
            if count is None and position >= stop:
                break
            try:
                value, position = self.element.read(data, position, stop, layer)
            except Short as short:
                if short.partial is not None:
                    values.append(short.partial)
                inside = short.field.removeprefix(self.name)
                raise short.inside(f"{self.name}[{index}]{inside}", values) from None
            values.append(value)
        return values, position

    def write(self, value: Sequence[Any], layer: Layer) -> bytes:
        front = self.count.write(len(value), layer) if isinstance(self.count, Number) else b""
        return front + b"".join(self.element.write(element, layer) for element in value)

    def emit(self, em: Emitter) -> str:
        return em.array(self)

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return [self.element.present(element, show) for element in value]

    def shown(self, em: Emitter, expression: str) -> str:
        # Elements that are structures or need no rendering were shown while they were read.
        return expression


class Optional(Kind):
    """A field that is there only when ``when`` holds."""

    def __init__(self, kind: Kind, when: Test) -> None:
        super().__init__(kind.name, kind.doc, unit=kind.unit, secret=kind.secret)
        self.kind, self.when = kind, when
        self.holds_packets, self.islist = kind.holds_packets, kind.islist

    def minimum(self) -> int:
        return 0

    def getfield(self, pkt: Any, s: bytes) -> tuple[bytes, Any]:
        return self.kind.getfield(pkt, s) if self.when.holds(s, 0, len(s), pkt) else (s, None)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        return self.kind.read(data, position, end, layer)

    def write(self, value: Any, layer: Layer) -> bytes:
        return b"" if value is None else self.kind.write(value, layer)

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return self.kind.present(value, show)

    def i2repr(self, pkt: Any, x: Any) -> str:
        return self.kind.i2repr(pkt, x)


def plain(kind: Field[Any, Any]) -> Kind:
    """The kind itself, without the condition on its presence."""
    return kind.kind if isinstance(kind, Optional) else kind  # type: ignore[return-value]
