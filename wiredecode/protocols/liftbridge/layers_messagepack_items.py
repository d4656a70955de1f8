"""Items of MessagePack in bytes: reading, stepping over and writing them (msgpack/spec, the old dialect)."""

import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from wiredecode.fields import Malformed, Truncated, take

MAX_DEPTH = 32
"""Deepest nesting of a value that is not declared."""
MAX_PAIRS = 1000
"""Most pairs of one map: Raft's have a dozen."""
MAX_ELEMENTS = 10_000
"""Most elements of one array: Raft sends at most 64 log entries together."""

NIL, FALSE, TRUE = 0xC0, 0xC2, 0xC3
NUMBERS = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q", 0xCA: "f", 0xCB: "d"}
FLOATS = (0xCA, 0xCB)
SIZED = {0xC4: ("raw", 1), 0xC5: ("raw", 2), 0xC6: ("raw", 4), 0xD9: ("raw", 1), 0xDA: ("raw", 2), 0xDB: ("raw", 4)}
COUNTED = {0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4)}
EXTENSIONS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
FIXED_EXTENSIONS = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


class Item(NamedTuple):
    """One item without its members."""

    family: str
    """``nil``, ``bool``, ``number``, ``float``, ``raw``, ``extension``, ``array``, ``map``."""
    value: Any
    """Value; of arrays and maps the number of members, of raws and extensions the bytes (type first)."""
    code: int
    stop: int


def read_item(field: str, data: bytes | bytearray, position: int, end: int) -> Item:
    """The item at ``position``; raises :class:`Truncated`."""
    start = take(field, position, 1, end)
    code = data[position]
    if code < 0x80 or code >= 0xE0:
        return Item("number", code if code < 0x80 else code - 0x100, code, start)
    if code < 0xA0:
        return Item("map" if code < 0x90 else "array", code & 0x0F, code, start)
    if code in NUMBERS:
        stop = take(field, start, struct.calcsize(NUMBERS[code]), end)
        family = "float" if code in FLOATS else "number"
        return Item(family, struct.unpack(">" + NUMBERS[code], data[start:stop])[0], code, stop)
    if code == NIL:
        return Item("nil", None, code, start)
    if code in (FALSE, TRUE):
        return Item("bool", code == TRUE, code, start)
    if code in COUNTED:
        family, width = COUNTED[code]
        stop = take(field, start, width, end)
        return Item(family, int.from_bytes(data[start:stop], "big"), code, stop)
    if code < 0xC0 or code in SIZED:
        width = SIZED[code][1] if code in SIZED else 0
        content = take(field, start, width, end)
        length = int.from_bytes(data[start:content], "big") if width else code & 0x1F
        stop = take(field, content, length, end)
        return Item("raw", data[content:stop], code, stop)
    if code in FIXED_EXTENSIONS or code in EXTENSIONS:
        width = EXTENSIONS.get(code, 0)
        content = take(field, start, width, end)
        length = int.from_bytes(data[start:content], "big") if width else FIXED_EXTENSIONS[code]
        stop = take(field, content, length + 1, end)
        return Item("extension", data[content:stop], code, stop)
    raise Malformed(field, f"{code:#04x} begins no MessagePack item", position)


def skip(data: bytes | bytearray, position: int, end: int, count: int) -> tuple[int, int]:
    """Skip up to ``count`` whole items with all members; return the position, and the number of items left."""
    while count:
        try:
            item = read_item("item", data, position, end)
        except Malformed:
            raise
        except Truncated:
            break
        count += -1 + (item.value if item.family == "array" else 2 * item.value if item.family == "map" else 0)
        position = item.stop
    return position, count


def to_python(data: bytes, show: Callable[[bytes], str], position: int = 0, depth: int = 0) -> tuple[Any, int]:
    """A whole value, JSON-ready: raws that are text as text, others as ``show`` renders bytes."""
    item = read_item("value", data, position, len(data))
    if item.family in ("array", "map") and depth >= MAX_DEPTH:
        raise Malformed("value", f"nested deeper than {MAX_DEPTH}", position)
    position = item.stop
    if item.family == "array":
        elements = []
        for _ in range(item.value):
            element, position = to_python(data, show, position, depth + 1)
            elements.append(element)
        return elements, position
    if item.family == "map":
        members: dict[str, Any] = {}
        for _ in range(item.value):
            key, position = to_python(data, show, position, depth + 1)
            members[str(key)], position = to_python(data, show, position, depth + 1)
        return members, position
    if isinstance(item.value, bytes):
        return _readable(item.value, show), position
    return item.value, position


def _readable(raw: bytes, show: Callable[[bytes], str]) -> str:
    try:
        decoded = raw.decode()
    except UnicodeDecodeError:
        return show(raw)
    return decoded if decoded.isprintable() else show(raw)


# Writing: with the code that was read, where the value still fits it.


def write_number(value: int, code: int = 0) -> bytes:
    if -32 <= value < 128 and (code not in NUMBERS):
        return struct.pack("b", value)
    kinds = {code: NUMBERS[code]} if code in NUMBERS else {}
    preferred = (0xCC, 0xCD, 0xCE, 0xCF) if value >= 0 else (0xD0, 0xD1, 0xD2, 0xD3)
    kinds |= {width: NUMBERS[width] for width in preferred}
    for lead, layout in kinds.items():
        try:
            return bytes([lead]) + struct.pack(">" + layout, value)
        except struct.error:
            continue
    raise ValueError(f"{value} does not fit 64 bits")


def write_raw(raw: bytes, code: int = 0) -> bytes:
    sizes = {code: SIZED[code][1]} if code in SIZED else {}
    if not sizes and len(raw) < 32:
        return bytes([0xA0 | len(raw)]) + raw
    for lead, width in (sizes | {0xDA: 2, 0xDB: 4}).items():
        if len(raw) < 1 << 8 * width:
            return bytes([lead]) + len(raw).to_bytes(width, "big") + raw
    raise ValueError("more than 4 GiB")


def write_count(count: int, code: int, family: str) -> bytes:
    short, wide = (0x80, (0xDE, 0xDF)) if family == "map" else (0x90, (0xDC, 0xDD))
    if code not in COUNTED and count < 16:
        return bytes([short | count])
    lead = code if code in COUNTED and count < 1 << 8 * COUNTED[code][1] else wide[count > 0xFFFF]
    return bytes([lead]) + count.to_bytes(COUNTED[lead][1], "big")
