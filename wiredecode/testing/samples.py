"""Frames without a capture: made from the declaration, their integers different in every byte.

Captured ids are small: a reader that takes another of their zero bytes is right by chance. So :func:`samples` fills
every field of a layer with values of which no two bytes are equal, and :func:`distinct` changes the frames of real
conversations in the same way.
"""

import ast
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from wiredecode.fields import Array, Flags, Kind, Number, Optional, Sized, Struct, Time, Varint, When, plain
from wiredecode.fields.layer import Layer

Values = Callable[[random.Random], Any]
"""Makes a value of a field."""
ATTEMPTS, WANTED = 60, 12
"""Attempts per layer, and frames wanted; after that many attempts in a row without a new field the search ends."""
PATTERN = bytes((0x13, 0x25, 0x37, 0x49, 0x5B, 0x6D, 0x7F, 0x91))
CANNOT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, struct.error)
"""Exceptions of kinds for values that they cannot write."""


def build(layer: type[Layer], values: Mapping[str, Any]) -> Layer:
    """The layer with these plain values; structures inside become layers, too."""
    fields: dict[str, Any] = {}
    for kind in map(plain, layer.fields_desc):
        if kind.name not in values:
            continue
        value = values[kind.name]
        if isinstance(kind, Struct):
            value = None if value is None else build(kind.layer, value)
        elif value is not None and isinstance(kind, Array) and isinstance(kind.element, Struct):
            value = [build(kind.element.layer, element) for element in value]
        fields[kind.name] = value
    return layer(**fields)


def samples(layer: type[Layer], values: Mapping[str, Values] | None = None, wanted: int = WANTED) -> list[bytes]:
    """Well-formed frames of a layer, the first ones each with fields that those before had not.

    ``values`` makes those of fields that cannot be guessed: by name of the field, or of the class of its kind.
    """
    chance = random.Random(f"{layer.__name__} 1")
    frames: list[bytes] = []
    seen: set[str] = set()
    attempts_without_new = 0
    for _ in range(ATTEMPTS):
        if attempts_without_new == wanted:
            break
        maker = Maker(chance, values or {})
        try:
            raw = bytes(maker.layer(layer))
        except CANNOT:
            continue
        read = layer.within(raw, 0, len(raw))
        if read.problem is not None or read.stop != len(raw):
            continue
        paths = set(map(general, read.flat_ranges()))
        if not paths <= seen or len(frames) < wanted:
            frames.append(raw)
            seen |= paths
            attempts_without_new = 0
        else:
            attempts_without_new += 1
    return frames


@cache
def general(path: str) -> str:
    """The path of a field without the numbers of elements."""
    name, *indexes = path.split("[")
    return name + "".join("[]" + part.partition("]")[2] for part in indexes)


@cache
def conditions(layer: type[Layer]) -> list[When]:
    """The conditions of the optional fields of a layer that compare integers."""
    whens = (kind.when for kind in layer.fields_desc if isinstance(kind, Optional))
    return [when for when in whens if when.fields and numbers_of(when)]


@cache
def numbers_of(when: When) -> list[int]:
    """The integers in a condition."""
    values = (node.value for node in ast.walk(when.root) if isinstance(node, ast.Constant))
    return [value for value in values if isinstance(value, int)]


def asks_for_bytes(when: When) -> bool:
    """Whether a condition needs more than earlier fields."""
    names = {node.id for node in ast.walk(when.root) if isinstance(node, ast.Name)}
    return not names <= when.names() | {"has"}


class Maker:
    """Makes layers with values in all fields that may be present."""

    def __init__(self, chance: random.Random, values: Mapping[str, Values]) -> None:
        self.chance, self.values = chance, values

    def layer(self, layer: type[Layer], depth: int = 0) -> Layer:
        built = layer.bare()
        wanted = conditions(layer)
        for kind in layer.fields_desc:
            if isinstance(kind, Optional) and not self._there(kind, built):
                continue
            if isinstance(kind, Struct) and depth > 3:
                continue
            inner = plain(kind)
            chosen = [when for when in wanted if inner.name in when.fields]
            if chosen and self.chance.random() < 0.8:
                value = self.chance.choice(numbers_of(self.chance.choice(chosen)))
            else:
                value = self.value(inner, depth)
            if value is not None:
                built.fields[inner.name] = value
        self._lengths(layer, built)
        return built

    def _there(self, kind: Optional, built: Layer) -> bool:
        """Whether to write an optional field: as its condition says, or by chance if bytes decide."""
        if not asks_for_bytes(kind.when):
            return bool(kind.when.holds(b"", 0, 0, built))
        return self.chance.random() < 0.7

    def _lengths(self, layer: type[Layer], built: Layer) -> None:
        for kind in map(plain, layer.fields_desc):
            value = built.fields.get(kind.name)
            if isinstance(kind, Array) and value is not None:
                if isinstance(kind.count, str):
                    built.fields[kind.count] = len(value)
                if kind.size:
                    built.fields[kind.size] = len(kind.write(value, built))
            if isinstance(kind, Sized) and isinstance(kind.length, str):
                built.fields[kind.length] = len(kind.write(value, built))

    def value(self, kind: Kind, depth: int) -> Any:
        """A value that the kind can write; None: the kind is left to its default."""
        for name in (kind.name, *(base.__name__ for base in type(kind).__mro__)) if self.values else ():
            if name in self.values:
                return self.values[name](self.chance)
        if isinstance(kind, Struct):
            return self.layer(kind.layer, depth + 1)
        if isinstance(kind, Array):
            return self._elements(kind, depth)
        if isinstance(kind, Number):
            return self._number(kind)
        return self._plain(kind)

    def _elements(self, kind: Array, depth: int) -> list[Any]:
        count = self.chance.choice((0, 1, 2, 3)) if depth < 3 else 0
        elements = (self.value(kind.element, depth + 1) for _ in range(count))
        return [element for element in elements if element is not None]

    def _number(self, kind: Number) -> int | None:
        if kind.default is None:  # filled in when the layer is built
            return None
        if kind.column == "bool":
            return self.chance.randrange(2)
        if isinstance(kind, Time):
            return self.chance.randrange(1 << 40) if self.chance.random() < 0.8 else self.integer(8, signed=True)
        if kind.names and not isinstance(kind, Flags) and self.chance.random() < 0.8:
            return self.chance.choice(sorted(kind.names))
        width = kind.width or int(kind.column.strip("uint")) // 8
        return self.integer(width, signed=kind.signed or kind.column.startswith("int"))

    def integer(self, width: int, *, signed: bool) -> int:
        """An integer of which no two bytes are equal, and none is zero."""
        return int.from_bytes(bytes(self.chance.sample(range(1, 256), width)), "big", signed=signed)

    def _plain(self, kind: Kind) -> Any:
        column = kind.column
        if kind.default:  # a word that is always there
            return None
        if kind.fixed and kind.fixed.endswith("s"):
            return self.chance.randbytes(struct.calcsize(kind.fixed))
        if isinstance(kind, Varint) or column.startswith("uint"):
            bits = self.chance.choice((3, 7, 8, 14, 31, int(column.removeprefix("uint"))))
            return self.chance.getrandbits(bits)
        if column.startswith(("int", "timestamp")):
            return self.chance.getrandbits(self.chance.choice((6, 15, 31)))
        if column == "bool":
            return bool(self.chance.randrange(2))
        if isinstance(kind, Sized) and isinstance(kind.length, int):
            return self.chance.randbytes(kind.length)
        if column == "string":
            return "".join(self.chance.choice("abcdefghijkmnopqrstuvwxyz") for _ in range(self.chance.randrange(1, 12)))
        if column == "binary" or column.startswith("fixed"):
            null = getattr(kind, "null", None) is not None and self.chance.random() < 0.2
            return None if null else self.chance.randbytes(self.chance.randrange(1, 12))
        return None


# The integers of real frames.


def integers(layer: type[Layer], raw: bytes) -> Iterator[tuple[str, int, int]]:
    """``(general path, start, stop)`` of every integer of two bytes and more that is no time and no enumeration."""
    yield from _integers(layer(raw), "")


def _integers(packet: Layer, prefix: str) -> Iterator[tuple[str, int, int]]:
    for kind in map(plain, packet.fields_desc):
        path, value = prefix + kind.name, packet.fields.get(kind.name)
        if isinstance(value, Layer):
            yield from _integers(value, path + ".")
        elif isinstance(value, list) and kind.name in packet.ranges:
            for element in value:
                if isinstance(element, Layer):
                    yield from _integers(element, path + "[].")
            element = kind.element if isinstance(kind, Array) else None
            if _is_wide(element):
                stop = packet.ranges[kind.name][1]
                first = stop - len(value) * element.width  # type: ignore[union-attr]
                for start in range(first, stop, element.width):  # type: ignore[union-attr]
                    yield path + "[]", start, start + element.width  # type: ignore[union-attr]
        elif _is_wide(kind) and kind.name in packet.ranges:
            start, stop = packet.ranges[kind.name]
            if stop - start == kind.width:  # type: ignore[attr-defined]
                yield path, start, stop


def _is_wide(kind: Kind | None) -> bool:
    return (
        isinstance(kind, Number) and bool(kind.fixed) and kind.width > 1 and not (kind.names or isinstance(kind, Time))
    )


def distinct(raw: bytes, ranges: list[tuple[int, int]]) -> bytes:
    """Integers turned by a pattern: small ones then differ in every byte, and equal ones stay equal."""
    out = bytearray(raw)
    for start, stop in ranges:
        for position in range(start, stop):
            out[position] ^= PATTERN[8 - (stop - position)]
    return bytes(out)


Mutation = Callable[[bytes, random.Random], bytes]
BOUNDARIES = (0, 1, 0x08, 0x7F, 0x80, 0xC0, 0xFC, 0xFF, 0x0A, 0x0D, 0x20, 0x39, 0x7B)
"""Bytes at the boundaries of numbers, varints, texts and lines."""


def bit_flips(raw: bytes, chance: random.Random) -> bytes:
    """One or three bits are flipped."""
    out = bytearray(raw)
    for _ in range(chance.choice([1, 1, 3])):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def other_bytes(raw: bytes, chance: random.Random) -> bytes:
    """One to three bytes are replaced."""
    out = bytearray(raw)
    for _ in range(chance.randint(1, 3)):
        out[chance.randrange(len(out))] = chance.choice((*BOUNDARIES, chance.randrange(256)))
    return bytes(out)


def truncation(raw: bytes, chance: random.Random) -> bytes:
    """The end is missing."""
    return raw[: chance.randrange(1, max(2, len(raw)))]


def tampered_length(raw: bytes, chance: random.Random) -> bytes:
    """Two or four bytes become a length that is almost right, or far too large."""
    width: int = chance.choice([2, 4])
    position = chance.randrange(min(4, len(raw)), max(5, len(raw) - width))
    after = len(raw) - position - width
    far = [0, 1, 256**width - 1, 256**width // 2]
    value: int = chance.choice([*far, max(0, after), max(0, after + 1), max(0, after - 1)])
    if chance.random() < 0.3:
        return raw[:position] + value.to_bytes(width, "little") + raw[position + width :]
    return raw[:position] + value.to_bytes(width, "big") + raw[position + width :]


def insertion(raw: bytes, chance: random.Random) -> bytes:
    """One to five bytes inserted between others."""
    position = chance.randrange(min(4, len(raw)), len(raw) + 1)
    return raw[:position] + chance.randbytes(chance.randint(1, 5)) + raw[position:]


def deletion(raw: bytes, chance: random.Random) -> bytes:
    """One to five bytes are missing in the middle."""
    position = chance.randrange(len(raw))
    return raw[:position] + raw[position + chance.randint(1, 5) :]


MUTATIONS: tuple[Mutation, ...] = (bit_flips, other_bytes, truncation, tampered_length, insertion, deletion)
