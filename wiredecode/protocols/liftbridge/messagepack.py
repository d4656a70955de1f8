"""MessagePack as hashicorp/raft writes it: maps from field names to values, as layers.

Source: msgpack/spec (spec.md, spec-old.md). The old dialect is what travels here: text and bytes share the "raw" codes
A0-BF, DA and DB, nil is C0. A map or an item is read with the code that stood in front of it, which is kept, so that
building gives the same bytes whatever width the writer chose.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from wiredecode.fields import Array, Boolean, Int64, Kind, Rest, Short, Struct, Text, Unfit, printable, take, text
from wiredecode.fields.layer import Layer
from wiredecode.fields.tails import TailLayer, moved

MAX_DEPTH = 32
"""Deepest nesting of a value that is not declared."""
MAX_PAIRS = 1000
"""Most pairs of one map: Raft's have a dozen."""
MAX_ELEMENTS = 10_000
"""Most elements of one array: Raft sends at most 64 log entries at once."""

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
    """Of arrays and maps the count of members, of raws and extensions the bytes (with the type in front)."""
    code: int
    stop: int


def read_item(field: str, data: bytes | bytearray, position: int, end: int) -> Item:
    """The item at ``position``; raises :class:`Short`."""
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
    raise Unfit(field, f"{code:#04x} begins no MessagePack item", position)


def skip(data: bytes | bytearray, position: int, end: int, count: int) -> tuple[int, int]:
    """Step over ``count`` items with all their members; return the position and how many are still to come.

    Stops in front of the first item that is not whole, so that more bytes can be stepped over from there on.
    """
    while count:
        try:
            item = read_item("item", data, position, end)
        except Unfit:
            raise
        except Short:
            break
        count += -1 + (item.value if item.family == "array" else 2 * item.value if item.family == "map" else 0)
        position = item.stop
    return position, count


def to_python(data: bytes, show: Callable[[bytes], str], position: int = 0, depth: int = 0) -> tuple[Any, int]:
    """A whole value, JSON-ready: raws that are text as text, others as ``show`` renders bytes."""
    item = read_item("value", data, position, len(data))
    if item.family in ("array", "map") and depth >= MAX_DEPTH:
        raise Unfit("value", f"nested deeper than {MAX_DEPTH}", position)
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


# The kinds: a field of a map, found by its key.


class Keyed(Kind):
    """Base of all: ``key`` is the name on the wire. Values of another family than ``families`` stay undeclared."""

    tagged = True
    families: ClassVar[tuple[str, ...]] = ()

    def __init__(self, key: str, *args: Any, **kw: Any) -> None:
        kw.setdefault("default", None)
        super().__init__(*args, **kw)
        self.key = key

    def fits(self, item: Item) -> bool:
        """Whether an item can be the value."""
        return item.family in self.families

    def value_of(self, item: Item, data: bytes, end: int, layer: Layer) -> tuple[Any, int]:
        """The value of an item and the position after it."""
        return item.value, item.stop

    def written(self, value: Any, code: int) -> bytes:
        """The inverse."""
        raise NotImplementedError


class Integer(Keyed, Int64):
    families = ("number",)

    def written(self, value: int, code: int) -> bytes:
        return write_number(value, code)


class Truth(Keyed, Boolean):
    families = ("bool",)

    def present(self, value: bool | int, show: Callable[[bytes], str]) -> bool:
        return bool(value)

    def written(self, value: bool, code: int) -> bytes:
        return bytes([TRUE if value else FALSE])


class String(Keyed, Text):
    families = ("raw",)

    def value_of(self, item: Item, data: bytes, end: int, layer: Layer) -> tuple[str, int]:
        return text(item.value), item.stop

    def written(self, value: str, code: int) -> bytes:
        return write_raw(self.encode(value), code)


class Raw(Keyed, Rest):
    """Bytes, or nil."""

    families = ("raw", "nil")

    def written(self, value: bytes | None, code: int) -> bytes:
        return bytes([NIL]) if value is None else write_raw(value, code)


class Maps(Keyed, Array):
    """An array of maps; Go writes an empty one as nil."""

    families = ("array", "nil")

    def __init__(self, key: str, name: str, layer: type[MapLayer], doc: str = "") -> None:
        super().__init__(key, name, layer, doc, count=None)

    def value_of(self, item: Item, data: bytes, end: int, layer: Layer) -> tuple[list[Any], int]:
        if item.family == "nil":
            return [], item.stop
        if item.value > MAX_ELEMENTS:
            raise Unfit(self.name, f"more than {MAX_ELEMENTS} elements", item.stop)
        values: list[Any] = []
        position = item.stop
        for index in range(item.value):
            try:
                value, position = self.element.read(data, position, end, layer)
            except Short as short:
                if short.partial is not None:
                    values.append(short.partial)
                problem = moved(short, f"{self.name}[{index}]{short.field.removeprefix(self.name)}", short.start)
                problem.partial = values
                raise problem from None
            values.append(value)
        return values, position

    def written(self, value: Any, code: int) -> bytes:
        if not value and code in (NIL, 0):
            return bytes([NIL])
        return write_count(len(value), code, "array") + b"".join(bytes(element) for element in value)


class PackedMap(Keyed, Struct):
    """A map inside a raw."""

    families = ("raw",)

    def fits(self, item: Item) -> bool:
        return super().fits(item) and whole(self.layer, item.value, 0, len(item.value)) is not None

    def value_of(self, item: Item, data: bytes, end: int, layer: Layer) -> tuple[Layer, int]:
        return self.layer.within(data, item.stop - len(item.value), item.stop), item.stop

    def written(self, value: Any, code: int) -> bytes:
        return write_raw(bytes(value), code)


class PackedTexts(Keyed, Array):
    """An array of texts inside a raw; Go writes an empty one as nil."""

    families = ("raw", "nil")

    def __init__(self, key: str, name: str, doc: str = "") -> None:
        super().__init__(key, name, Text(name), doc, count=None)

    def fits(self, item: Item) -> bool:
        if item.family != "raw":
            return super().fits(item)
        texts = read_texts(item.value)
        return texts is not None and self.packed(texts) == item.value

    def value_of(self, item: Item, data: bytes, end: int, layer: Layer) -> tuple[list[str], int]:
        return (read_texts(item.value) or [] if item.family == "raw" else []), item.stop

    def packed(self, texts: list[str]) -> bytes:
        raws = [write_raw(each.encode("utf-8", "surrogateescape")) for each in texts]
        return write_count(len(texts), 0, "array") + b"".join(raws)

    def written(self, value: Any, code: int) -> bytes:
        return bytes([NIL]) if not value and code in (NIL, 0) else write_raw(self.packed(value), code)


def read_texts(data: bytes) -> list[str] | None:
    """The texts of an array that fills ``data``; None: it is none."""
    try:
        head = read_item("array", data, 0, len(data))
        found, position = [], head.stop
        for _ in range(head.value if head.family == "array" and head.value <= MAX_ELEMENTS else 0):
            item = read_item("text", data, position, len(data))
            if item.family != "raw":
                return None
            found.append(text(item.value))
            position = item.stop
    except Short:
        return None
    return found if head.family == "array" and position == len(data) else None


class Meaning(Struct):
    """What the bytes of another field say: read with them, never written."""

    tagged = True
    key = ""


def whole(layer: type[Layer], data: bytes, start: int, stop: int) -> Layer | None:
    """The layer that fills these bytes; None: they are something else."""
    found = layer.within(data, start, stop)
    return found if found.problem is None and found.stop == stop else None


class Verbatim(Rest):
    """A MessagePack value that is not declared, as it stands on the wire."""

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        try:
            return to_python(value, show)[0]
        except Short:
            return show(value)


class UnknownKey(Layer):
    """A pair of a map that the declaration has no place for."""

    fields_desc = [Text("key", "name"), Verbatim("value", "the value")]


class UnknownKeys(Array):
    tagged = True
    key = ""

    def __init__(self) -> None:
        super().__init__("unknown_fields", UnknownKey, "pairs that are not known, kept as they are", default=None)


def keyed(*kinds: Kind) -> list[Any]:
    """The ``fields_desc`` of a map: ordinary kinds first, then keyed ones."""
    return [*kinds, UnknownKeys()]


class Pair(NamedTuple):
    """How one pair was written."""

    name: str
    at: int
    """Which of the unknown pairs."""
    key_code: int
    code: int


class MapLayer(TailLayer):
    """Base of all maps. With ``answer`` a raw stands before the map: the error of an RPC, empty if there is none."""

    __slots__ = written = ("codes", "pairs")
    answer: ClassVar[bool] = False

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.pairs: list[Pair] = []
        self.codes = [0, 0]
        """Of the error and of the map."""
        super().__init__(*args, **kw)

    @classmethod
    def minimum(cls) -> int:
        return 1

    def read_tail(self, data: bytes, position: int, end: int) -> int:
        self.pairs, self.codes = [], [0, 0]
        kinds = {kind.key: kind for kind in self.fields_desc if isinstance(kind, Keyed)}
        try:
            if self.answer:
                position = self._read_error(data, position, end)
            item = read_item("map", data, position, end)
            if item.family != "map" or item.value > MAX_PAIRS:
                raise Unfit("map", f"not a map of up to {MAX_PAIRS} pairs", position)
            position, self.codes[1] = item.stop, item.code
            for _ in range(item.value):
                position = self._read_pair(kinds, data, position, end)
        except Short as short:
            self.problem = short
        return position

    def _read_error(self, data: bytes, position: int, end: int) -> int:
        item = read_item("error", data, position, end)
        if item.family != "raw":
            raise Unfit("error", "an answer begins with a string", position)
        self.fields["error"], self.codes[0] = text(item.value), item.code
        self.ranges["error"] = (position, item.stop)
        return item.stop

    def _read_pair(self, kinds: dict[str, Keyed], data: bytes, start: int, end: int) -> int:
        key = read_item("key", data, start, end)
        if key.family != "raw":
            raise Unfit("key", "a key is a string", start)
        name = text(key.value)
        kind = kinds.get(name)
        if kind is not None and kind.name not in self.fields:
            item = read_item(kind.name, data, key.stop, end)
            if kind.fits(item):
                self.pairs.append(Pair(kind.name, 0, key.code, item.code))
                try:
                    self.fields[kind.name], stop = kind.value_of(item, data, end, self)
                except Short as short:
                    if short.partial is not None:
                        self.fields[kind.name] = short.partial
                    raise
                self.ranges[kind.name] = (start, stop)
                return stop
        stop, missing = skip(data, key.stop, end, 1)
        if missing:
            raise Short(f"unknown_fields.{printable(name)}", 1, 0, stop)
        unknown = UnknownKey(key=name, value=data[key.stop : stop])
        unknown.start, unknown.stop = start, stop
        kept = self.fields.setdefault("unknown_fields", [])
        self.pairs.append(Pair("unknown_fields", len(kept), key.code, 0))
        kept.append(unknown)
        self.ranges["unknown_fields"] = (self.ranges.get("unknown_fields", (start, 0))[0], stop)
        return stop

    def build_tail(self) -> bytes:
        kinds: dict[str, Any] = {kind.name: kind for kind in self.fields_desc if kind.tagged}
        out: list[bytes] = []
        written = {pair.name for pair in self.pairs}
        new = [Pair(name, 0, 0, 0) for name in sorted(kinds, key=lambda name: kinds[name].key) if name not in written]
        for pair in [*self.pairs, *new]:
            if pair.name not in self.fields:
                continue
            kind, value = kinds[pair.name], self.fields[pair.name]
            if isinstance(kind, UnknownKeys):
                if pair.at < len(value):
                    out.append(write_raw(value[pair.at].key.encode("utf-8", "surrogateescape"), pair.key_code))
                    out[-1] += value[pair.at].value
            elif kind.key:
                out.append(write_raw(kind.key.encode(), pair.key_code) + kind.written(value, pair.code))
        error = b""
        if self.answer:
            error = write_raw(self.getfieldval("error").encode("utf-8", "surrogateescape"), self.codes[0])
        return error + write_count(len(out), self.codes[1], "map") + b"".join(out)


class ErrorText(Text):
    """What stands before the map of an answer."""

    tagged = True
    key = ""
