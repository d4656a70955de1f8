"""Varints of 32 bits that keep the way in which they were written."""

from __future__ import annotations

from typing import Any

from wiredecode.fields.contracts import Emitter, Structure, Truncated, TruncatedField
from wiredecode.fields.kind import Kind
from wiredecode.fields.numbers import write_varint

VARINT_BYTES = 5
"""Longest varint; the fifth byte brings the top four bits, whatever else is set in it."""
MASK32 = 0xFFFFFFFF


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

    def read(self, data: bytes, position: int, end: int, layer: Structure) -> tuple[int, int]:
        return varint(data, position, end, self.name)

    def write(self, value: int | None, layer: Structure) -> bytes:
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
