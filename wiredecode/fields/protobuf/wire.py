"""Tags and varints: how numbers are written (protobuf.dev, "Encoding")."""

from __future__ import annotations

import struct

from wiredecode.fields.contracts import Emitter, Malformed, TruncatedField
from wiredecode.fields.kind import take

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
    value = 0
    for index in range(MAX_VARINT_BYTES):
        take(field, position, index + 1, end)
        byte = data[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise Malformed(field, f"a varint of more than {MAX_VARINT_BYTES} bytes", position)


def fast_varint(b: bytes, p: int, e: int) -> tuple[int, int]:
    """The compiled decoders' reader of varints of several bytes: 64 bits, and the position after them.

    Those of two bytes (lengths) and of nine (times in nanoseconds) are the usual ones.
    """
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
    value = shift = 0
    while p < e and shift < 7 * MAX_VARINT_BYTES:
        byte = b[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & U64, p
        shift += 7
    raise TruncatedField


def emit_varint(em: Emitter, value: str, before: int, wide: str = "") -> None:
    """Generate the reading of a varint ``before`` bytes after ``p``; ``wide`` is for values of more than one byte."""
    start = f"p + {before}" if before else "p"
    em.line(f"{value} = b[{start}]")
    em.line(f"if {value} < 128: p += {before + 1}")
    with em.block("else:"):
        em.line(f"{value}, p = {em.constant(fast_varint)}(b, {start}, e)")
        if wide:
            em.line(wide)
