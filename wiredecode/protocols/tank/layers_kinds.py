"""The field kinds that only TANK needs: its varint, its endpoints, and structures whose size stands elsewhere."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address
from typing import Any

from wiredecode.fields import (
    Array,
    AsText,
    FixedBytes,
    Kind,
    Rest,
    Struct,
    Truncated,
    UInt16,
    UInt32,
    UInt64,
    rfc3339_ms,
)
from wiredecode.fields.compiler import TruncatedField
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer
from wiredecode.fields.numbers import write_varint

VARINT_BYTES = 5
"""Longest varint; the fifth byte brings the top four bits, whatever else is set in it."""
MASK32 = 0xFFFFFFFF


class U16(UInt16):
    """16 bits, little-endian as all numbers of TANK."""

    little = True


class U32(UInt32):
    """32 bits, little-endian."""

    little = True


class U64(UInt64):
    """64 bits, little-endian."""

    little = True


class Milliseconds(AsText, U64):
    """A time, by convention in ms since 1970; RFC 3339 in records, other conventions as the number they are."""

    column = "timestamp[ms, UTC]"
    spell = staticmethod(lru_cache(maxsize=1024)(rfc3339_ms))  # neighbours in a bundle often have the same time


class Seconds(AsText, U32):
    """A time in seconds since 1970; RFC 3339 in records."""

    column = "timestamp[s, UTC]"

    @staticmethod
    def spell(value: int, /) -> str | int:
        return rfc3339_ms(value * 1000)


# Varints.


class LongForm(int):
    """A varint that was longer than it had to be, or had stray bits in its fifth byte; keeps its bytes."""

    raw: bytes


def varint(data: bytes, position: int, end: int, name: str, origin: int = 0) -> tuple[int, int]:
    """Read a varint; return it and the place after it. Raises :class:`Truncated`, places relative to ``origin``."""
    value = byte = index = 0
    for index in range(VARINT_BYTES):
        if position + index >= end:
            raise Truncated(name, index + 1, end - position, position - origin)
        byte = data[position + index]
        value |= (byte & 0x7F if index < VARINT_BYTES - 1 else byte) << 7 * index
        if byte < 0x80 or index == VARINT_BYTES - 1:
            break
    stop = position + index + 1
    if byte >= 0x80:
        raise Truncated(name, VARINT_BYTES + 1, VARINT_BYTES, position - origin)
    value &= MASK32
    raw = data[position:stop]
    if raw != shortest(value):
        value = LongForm(value)
        value.raw = raw
    return value, stop


def shortest(value: int) -> bytes:
    """The shortest encoding of a value, truncated to 32 bits as the encoders do."""
    return write_varint(value & MASK32)


def varint_size(value: int) -> int:
    """The bytes that a varint took on the wire."""
    return len(value.raw if isinstance(value, LongForm) else shortest(value))


def _quick(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A long varint, for the fast decoders."""
    try:
        return varint(data, position, end, "")
    except Truncated:
        raise TruncatedField from None


class Varint32(Kind):
    """LEB128, 32 bits: 7 bits per byte, lowest first, the top bit set in all bytes but the last."""

    column, delimited = "uint32", True

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, **{"default": 0, **kw})

    def minimum(self) -> int:
        return 1

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[int, int]:
        return varint(data, position, end, self.name)

    def write(self, value: int | None, layer: Layer) -> bytes:
        value = 0 if value is None else value
        return value.raw if isinstance(value, LongForm) else shortest(value)

    def emit(self, em: Emitter) -> str:
        em.flush()
        value = em.variable(self.name)
        if em.careful:
            em.line(f"{value}, p = {em.constant(varint)}(b, p, e, {em.path(self.name)}, o)")
            return value
        em.line("if p >= e: raise TruncatedField")
        em.line(f"{value} = b[p]")
        em.line(f"if {value} < 128: p += 1")
        em.line(f"elif p + 1 < e and 0 < (y := b[p + 1]) < 128: {value} = {value} & 127 | y << 7; p += 2")
        em.line(f"else: {value}, p = {em.constant(_quick)}(b, p, e)")
        return value


class Endpoint(AsText, FixedBytes):
    """An IPv4 address in network order and a port, little-endian; shown as ``address:port``."""

    fixed, column = "6s", "string"

    @staticmethod
    def spell(value: bytes, /) -> str:
        return f"{IPv4Address(value[:4])}:{int.from_bytes(value[4:], 'little')}"

    def write(self, value: bytes | str | None, layer: Layer) -> bytes:
        if isinstance(value, str):
            address, _, port = value.partition(":")
            return IPv4Address(address).packed + int(port).to_bytes(2, "little")
        return super().write(value, layer)


# The header of the answers to Consume, whose length stands in front of it.

HEADER_LENGTH = "header_length"
"""The field that says how many bytes follow it up to the chunks."""


class InHeader(Kind):
    """Mixed into a kind that must not read beyond the header."""

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        header_end = layer.ranges[HEADER_LENGTH][1] + layer.fields[HEADER_LENGTH]
        stop = max(position, min(end, header_end))
        return super().read(data, position, stop, layer)

    def emit(self, em: Emitter) -> str:
        em.flush()
        outer = em.variable("z")
        em.line(f"{outer}, e = e, max(p, min(e, {em.reach(HEADER_LENGTH)}))")
        value = super().emit(em)
        em.flush()
        em.line(f"e = {outer}")
        return value


class HeaderArray(InHeader, Array):
    """An array inside the header."""


class HeaderRest(InHeader, Rest):
    """What is left of the header."""


# Structures of limited size.


class Bounded(Struct):
    """A structure that has exactly as many bytes as an earlier field says.

    ``until_end`` names its fields that reach to its end, whatever they hold: where it is cut, they are left out.
    """

    def __init__(
        self, name: str, layer: type[Layer], doc: str = "", *, size: str, until_end: tuple[str, ...] = (), **kw: Any
    ) -> None:
        super().__init__(name, layer, doc, **kw)
        self.size, self.until_end = size, until_end

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Layer, int]:
        stop = position + layer.fields[self.size]
        inner, reached = super().read(data, position, min(stop, end), layer)
        if stop > end:
            for name in self.until_end:
                inner.fields.pop(name, None)
                inner.ranges.pop(name, None)
            raise Truncated(self.name, stop - position, end - position, position, inner)
        return inner, reached

    def emit(self, em: Emitter) -> str:
        size = em.reference(self.size)
        em.flush()
        outer, start, stop = em.variable("z"), em.variable("t"), em.variable("q")
        em.line(f"{outer}, {start}, {stop} = e, p, p + {size}")
        if not em.careful:
            em.line(f"if {stop} > e: raise TruncatedField")
        em.line(f"e = min(e, {stop})")
        value = em.structure(self.layer, self.name)
        em.line(f"e = {outer}")
        if em.careful:
            with em.block(f"if {stop} > e:"):
                for name in self.until_end:
                    em.line(f"{value}.pop({name!r}, None); r.pop({em.path(f'{self.name}.{name}')}, None)")
                em.line(f"raise Truncated({em.path(self.name)}, {size}, e - {start}, {start} - o)")
        return value


class Tail(Struct):
    """A structure that ends where it is cut: what can be read of it, and as ``cut`` the bytes of the next field."""

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Layer, int]:
        inner = self.layer.within(data, position, end)
        if inner.problem is not None:
            inner.problem = None
            if inner.stop < end:
                inner.fields["cut"], inner.ranges["cut"] = data[inner.stop : end], (inner.stop, end)
            inner.stop = end
        return inner, end

    def emit(self, em: Emitter) -> str:
        em.flush()
        target, prefix = em.variable("d"), em.variable("x")
        em.line(f"{target} = {{}}")
        if em.careful:
            em.line(f"{em.scopes[-1].target}[{self.name!r}] = {target}")
            em.line(f"{prefix} = {em.path(self.name + '.')}")
        with em.block("try:"):
            em.scope(self.layer, target, prefix, created=True)
        with em.block(f"except {'Truncated' if em.careful else 'TruncatedField'}:"), em.block("if p < e:"):
            em.line(f"{target}['cut'] = {'show(b[p:e])' if em.mode == 'record' else 'b[p:e]'}")
            if em.careful:
                em.line(f"r[{prefix} + 'cut'] = (p - o, e - o)")
            em.line("p = e")
        return target
