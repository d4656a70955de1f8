"""Kinds of numbers: integers of fixed width, flags, times, varints."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

from wiredecode.fields.kind import AsText, Kind, Malformed, Truncated, integer, take, whole

if TYPE_CHECKING:
    from wiredecode.fields.emitter import Emitter
    from wiredecode.fields.layer import Layer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECONDS_MAX = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: what RFC 3339 can spell."""


@lru_cache(maxsize=256)
def rfc3339_second(seconds: int) -> str:
    """RFC 3339 text of a second since the Unix epoch, up to the point. Raises OverflowError."""
    return f"{(EPOCH + timedelta(seconds=seconds)).isoformat()[:19]}."


@lru_cache(maxsize=1024)
def rfc3339_ms(milliseconds: int) -> str | int:
    """RFC 3339 text of a time in ms since the Unix epoch; the number itself beyond years 1970 to 9999."""
    if not 0 <= milliseconds <= MILLISECONDS_MAX:
        return milliseconds
    seconds, fraction = divmod(milliseconds, 1000)
    return f"{rfc3339_second(seconds)}{fraction:03d}Z"


class Number(Kind):
    """An integer of fixed width. ``names`` gives the name of each known value, as an enumeration.

    A record shows the name, with the number beside it as ``<field>_code``. ``little`` turns the byte order.
    """

    delimited = True
    signed: ClassVar[bool] = False
    width: ClassVar[int] = 0
    little: bool = False

    def __init__(
        self, name: str, doc: str = "", *, names: Mapping[int, str] | None = None, little: bool | None = None, **kw: Any
    ) -> None:
        kw.setdefault("default", 0)
        super().__init__(name, doc, **kw)
        self.names = names
        self.little = self.little if little is None else little

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

    def present(self, value: int, show: Callable[[bytes], str]) -> Any:
        return self.names.get(value, value) if self.names else value

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.names)}.get({expression}, {expression})" if self.names else expression

    def randval(self) -> Any:
        return whole(8 * self.width, signed=self.signed)

    def readable(self, value: Any) -> str:
        if self.names and value in self.names:
            return f"{self.names[value]} ({value})"
        return f"{value} {self.unit}" if self.unit and value is not None else str(value)


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
        named = [name for mask, name in (self.names or {}).items() if value & mask]
        unknown = value & ~sum(self.names or {})
        return named + ([f"0x{unknown:02x}"] if unknown else [])

    @cached_property
    def lists(self) -> list[list[str]]:
        """The names of each value, made once: flags may precede every message."""
        return [self.present(value, bytes.hex) for value in range(256)]

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(self.lists)}[{expression}]"

    def readable(self, value: Any) -> str:
        return f"0x{value:02x} ({' '.join(self.present(value, str)) or 'none'})"


class Boolean(UInt8):
    """One byte, 0 or 1; a record shows any other value as the number it is."""

    column = "bool"

    def present(self, value: int, show: Callable[[bytes], str]) -> bool | int:
        return bool(value) if value < 2 else value

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"({expression} == 1 if {expression} < 2 else {expression})"

    def readable(self, value: Any) -> str:
        return str(self.present(value, str)).lower()


def rfc3339_ns(nanoseconds: int) -> str | int:
    """RFC 3339 text of a time in ns since the Unix epoch; the number itself beyond years 1970 to 9999."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{rfc3339_second(seconds)}{fraction:09d}Z" if 0 <= seconds <= MILLISECONDS_MAX // 1000 else nanoseconds


class Time(AsText):
    """Base of times: numbers that records show as RFC 3339 text."""


class Timestamp(Time, Int64):
    """Signed 64-bit milliseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ms, UTC]"
    spell = staticmethod(rfc3339_ms)


class TimestampNs(Time, Int64):
    """Signed 64-bit nanoseconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[ns, UTC]"
    spell = staticmethod(rfc3339_ns)


class Seconds(Time, UInt64):
    """Unsigned 64-bit seconds since the Unix epoch; RFC 3339 in records."""

    column = "timestamp[s, UTC]"

    @staticmethod
    def spell(value: int, /) -> str | int:
        return rfc3339_ms(1000 * value)


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


def varint(name: str, data: bytes, position: int, end: int, most: int = 10) -> tuple[int, int]:
    """Read at most ``most`` bytes, 7 bits in each; return the number and the place after it."""
    if position < end and data[position] < 0x80:
        return data[position], position + 1
    value = 0
    for index in range(most):
        take(name, position, index + 1, end)
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise Truncated(name, most + 1, most, position)


class Float64(Kind):
    """An IEEE 754 number of eight bytes."""

    fixed, column, delimited, order = "d", "double", True, ">"

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[float, int]:
        stop = take(self.name, position, 8, end)
        return struct.unpack_from(">d", data, position)[0], stop

    def write(self, value: float | None, layer: Layer) -> bytes:
        return struct.pack(">d", value or 0.0)


class Varint(Kind):
    """Little-endian base-128 unsigned integer (as in protobuf and TANK), at most ``max_bytes`` long."""

    column, delimited = "uint64", True
    signed: ClassVar[bool] = False
    inlined: ClassVar[int] = 2
    """Bytes of varints that generated code reads without a call: 1 or 2."""

    max_bytes: int = 10

    def __init__(self, name: str, doc: str = "", *, max_bytes: int | None = None, **kw: Any) -> None:
        kw.setdefault("default", 0)
        super().__init__(name, doc, **kw)
        self.max_bytes = max_bytes or self.max_bytes

    def minimum(self) -> int:
        return 1

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        return varint(self.name, data, position, end, self.max_bytes)

    def write(self, value: int | None, layer: Layer) -> bytes:
        return write_varint(value or 0)

    def emit(self, em: Emitter) -> str:
        """Read one or two bytes without a call; longer ones, and the end of the bytes, with :meth:`read`."""
        em.flush()
        value = em.variable(self.name)
        single = self.single(value)
        convert = f"; {value} = {single}" if single != value else ""
        with em.block(f"if p < e and ({value} := b[p]) < 128:"):
            em.line(f"p += 1{convert}")
        if self.inlined > 1:
            with em.block("elif p + 1 < e and 0 < (q := b[p + 1]) < 128:"):
                em.line(f"p += 2; {value} += (q << 7) - 128{convert}")
        em.line(f"else: {value}, p = {em.constant(self.read)}(b, p, e, None)")
        return value

    def single(self, byte: str) -> str:
        """The expression for the value of a short varint."""
        return byte


class ZigZag(Varint):
    """Varint of a signed integer: 0, -1, 1, -2 ... are 0, 1, 2, 3 ... (as in protobuf's ``sint64`` and in Kafka)."""

    column, signed = "int64", True

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        raw, stop = super().read(data, position, end, layer)
        if raw >> 64:
            raise Malformed(self.name, "a varint of more than 64 bits", position)
        return raw >> 1 ^ -(raw & 1), stop

    def write(self, value: int | None, layer: Layer) -> bytes:
        value = value or 0
        return write_varint(value << 1 if value >= 0 else ~(value << 1))

    def single(self, byte: str) -> str:
        return f"{byte} >> 1 ^ -({byte} & 1)"


class CompactLength(Varint):
    """Varint of a length or count plus one, as in Kafka: 0 is null, which reads as -1."""

    column, signed, inlined, max_bytes = "int64", True, 1, 5

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        value, stop = super().read(data, position, end, layer)
        return value - 1, stop

    def write(self, value: int | None, layer: Layer) -> bytes:
        return super().write((value or 0) + 1, layer)

    def single(self, byte: str) -> str:
        return f"{byte} - 1"


MASK32 = 0xFFFFFFFF


class LongForm(int):
    """A varint that was longer than it had to be, or had stray bits in its fifth byte; keeps its bytes."""

    raw: bytes


def shortest(value: int) -> bytes:
    """The shortest encoding of a value, truncated to 32 bits as the encoders do."""
    return write_varint(value & MASK32)


def varint_size(value: int) -> int:
    """The bytes that a varint took on the wire."""
    return len(value.raw if isinstance(value, LongForm) else shortest(value))


class Varint32(Varint):
    """LEB128, 32 bits: the fifth byte brings the top four bits; its other bits are ignored."""

    column, max_bytes = "uint32", 5

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        value, stop = super().read(data, position, end, layer)
        raw = data[position:stop]
        value &= MASK32
        if raw != shortest(value):
            value = LongForm(value)
            value.raw = raw
        return value, stop

    def write(self, value: int | None, layer: Layer) -> bytes:
        return value.raw if isinstance(value, LongForm) else shortest(value or 0)


Integer = Number | Varint
"""Kinds that a length or count can be read as."""
INTEGERS = (Number, Varint)

WHOLE: dict[int, type[Number]] = {8: UInt8, 16: UInt16, 32: UInt32, 64: UInt64}


class Bits(Number):
    """``count`` bits of an integer that it shares with the bit fields beside it.

    Bit fields come one after another in ``fields_desc``, the highest bits first (``lowest_first``: the lowest), and
    fill 8, 16, 32 or 64 bits together. Each is its own field: ``Bits("kind", 4), Bits("dup", 1), Bits("qos", 2),
    Bits("retain", 1)`` is one byte. The byte range of each is that of the whole integer.
    """

    def __init__(self, name: str, count: int, doc: str = "", *, lowest_first: bool = False, **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.count, self.mask, self.lowest_first = count, (1 << count) - 1, lowest_first
        self.column = next(f"uint{bits}" for bits in WHOLE if count <= bits)  # type: ignore[misc]
        self.group: list[Bits] = []
        self.shift = 0

    def join(self, group: list[Bits], bits: int) -> None:
        """Take the place in a group of bit fields of ``bits`` bits."""
        self.group = group
        before = sum(other.count for other in group[: group.index(self)])
        self.shift = before if self.lowest_first else bits - before - self.count
        self.whole = WHOLE[bits](group[0].name)
        self.back = 0 if self is group[0] else self.whole.width

    def minimum(self) -> int:
        return 0 if self.back else self.whole.width

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        """The first bit field moves past the integer, the others look back at it."""
        start = position - self.back
        stop = take(self.name, start, self.whole.width, end)
        return self.whole.read(data, start, stop, layer)[0] >> self.shift & self.mask, stop

    def write(self, value: int | None, layer: Layer) -> bytes:
        if self.back:
            return b""
        whole = sum((self._value_of(bits.name, layer) & bits.mask) << bits.shift for bits in self.group)
        return self.whole.write(whole, layer)

    @staticmethod
    def _value_of(name: str, layer: Layer) -> int:
        """The value set, or the one filled in."""
        value = layer.getfieldval(name)
        return (layer.filled.get(name) if value is None else value) or 0

    def randval(self) -> Any:
        return integer(0, self.mask)

    def emit(self, em: Emitter) -> str:
        shared = em.scopes[-1].variables
        key = f"bits of {self.group[0].name}"
        if not self.back:
            shared[key] = em.fixed(self.whole)
        return f"({shared[key]} >> {self.shift} & {self.mask})"


class Bit(Bits):
    """One bit, a truth value in records; neighbours share a byte, the lowest first."""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, 1, doc, lowest_first=True, **kw)
        self.column = "bool"  # type: ignore[misc]

    def present(self, value: int, show: Callable[[bytes], str]) -> bool:
        return bool(value)

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"({expression} == 1)"


def group_bits(kinds: Iterable[Kind]) -> None:
    """Set for the bit fields of a layer which of them share an integer. Raises TypeError if some fill none."""
    group: list[Bits] = []
    for kind in kinds:
        if isinstance(kind, Bits):
            group.append(kind)
            total = sum(bits.count for bits in group)
            if total in WHOLE:
                for bits in group:
                    bits.join(group, total)
                group = []
        elif group:
            break
    if group:
        names, total = ", ".join(bits.name for bits in group), sum(bits.count for bits in group)
        raise TypeError(f"{names}: {total} bits fill no integer of 8, 16, 32 or 64")
