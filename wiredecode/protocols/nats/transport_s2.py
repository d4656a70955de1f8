"""S2, the compression of server links since nats-server 2.10 (klauspost/compress, "S2 Stream Format").

A stream is a sequence of chunks::

    type uint8 | length uint24 little-endian | data: [crc uint32 little-endian] [block or plain bytes]

A block is snappy's, with one addition: a copy of offset 0 repeats the last offset, with its own lengths.
"""

from wiredecode.dataclasses import dataclass
from wiredecode.protocols.shared.compression import masked_crc

IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"
COMPRESSED, UNCOMPRESSED, PADDING, STREAM = 0x00, 0x01, 0xFE, 0xFF
HEADER, CRC = 4, 4
MAX_PLAIN = 4 * 1024 * 1024
"""Most uncompressed bytes of one chunk; S2 blocks are at most 4 MiB."""
MAX_CHUNK = MAX_PLAIN + MAX_PLAIN // 6 + 64
"""Longest plausible chunk: incompressible data grows a little."""
LONG_LITERAL = 60
"""From this value on a literal's tag gives the width of its length."""
REPEAT_WIDTHS = {5: (1, 8), 6: (2, 260), 7: (3, 65540)}
"""By a repeat's length field: number of further bytes, and the value added to them."""


@dataclass(slots=True, frozen=True)
class PlainChunk:
    """Plain bytes of a chunk; ``problem`` says why there may be fewer than there should be."""

    data: bytes
    problem: str = ""
    crc_good: bool = True
    effort: int = 0
    """Work to find them: as much as that of decoding this number of bytes of a block."""


BYTES_COPIED = 16
"""Plain bytes that are copied and checked while one byte of a block is decoded."""


class DamageError(Exception):
    """A block that cannot be decoded; ``effort``: see :attr:`PlainChunk.effort`."""

    effort = 0


def plain(kind: int, data: bytes, crc: int) -> PlainChunk:
    """The plain bytes of a chunk with data; ``data`` is without the CRC."""
    effort = 0 if kind == UNCOMPRESSED else len(data)
    try:
        out = data if kind == UNCOMPRESSED else decode(data, MAX_PLAIN)
    except DamageError as damage:
        return PlainChunk(b"", str(damage), False, damage.effort)
    if len(out) > MAX_PLAIN:
        return PlainChunk(b"", f"a chunk decompresses to more than {MAX_PLAIN} bytes", False)
    return PlainChunk(out, "", masked_crc(out) == crc, effort + len(out) // BYTES_COPIED)


def decode(block: bytes, limit: int) -> bytes:
    """The plain bytes of a block that announces at most ``limit``; raises :class:`DamageError`."""
    size, position = plain_length(block)
    if size > limit:
        raise DamageError(f"a block announces {size} bytes, more than {limit}")
    out = bytearray()
    end, offset = len(block), 0
    try:
        while position < end:
            tag = block[position]
            if tag & 3 == 0:
                position = literal(block, position, out)
            else:
                length, offset, position = copy(block, position, offset)
                repeat(out, offset, length)
            if len(out) > size:
                raise DamageError("a block gives more bytes than it announces")
    except (DamageError, IndexError) as error:
        damage = error if isinstance(error, DamageError) else DamageError("a block ends inside an element")
        damage.effort = position + len(out) // BYTES_COPIED
        raise damage from None
    if len(out) != size:
        raise DamageError(f"a block gives {len(out)} bytes, it announces {size}")
    return bytes(out)


def plain_length(block: bytes) -> tuple[int, int]:
    """The length that a block announces, and where its elements begin."""
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, index + 1
    raise DamageError("a block without its length")


def literal(block: bytes, position: int, out: bytearray) -> int:
    """Plain bytes; return the position after them."""
    length = block[position] >> 2
    position += 1
    if length >= LONG_LITERAL:
        width = length - LONG_LITERAL + 1
        length = int.from_bytes(block[position : position + width], "little")
        position += width
    stop = position + length + 1
    if stop > len(block):
        raise DamageError("a block ends inside a literal")
    out += block[position:stop]
    return stop


def copy(block: bytes, position: int, last: int) -> tuple[int, int, int]:
    """Length and offset of a copy, and the position after it; ``last`` is the offset of the copy before."""
    tag = block[position]
    if tag & 3 == 2:
        return (tag >> 2) + 1, block[position + 1] | block[position + 2] << 8, position + 3
    if tag & 3 == 3:
        offset = int.from_bytes(block[position + 1 : position + 5], "little")
        return (tag >> 2) + 1, offset, position + 5
    offset = (tag & 0xE0) << 3 | block[position + 1]
    position += 2
    field = tag >> 2 & 7
    if offset:
        return field + 4, offset, position
    width, more = REPEAT_WIDTHS.get(field, (0, 4 + field))
    length = int.from_bytes(block[position : position + width], "little") + more
    return length, last, position + width


def repeat(out: bytearray, offset: int, length: int) -> None:
    """Append ``length`` bytes from ``offset`` before the end; they may overlap themselves."""
    if not 0 < offset <= len(out):
        raise DamageError(f"a copy from {offset} bytes before, with {len(out)} there")
    start = len(out) - offset
    if length <= offset:
        out += out[start : start + length]
        return
    pattern = bytes(out[start:])
    out += (pattern * (length // offset + 1))[:length]
