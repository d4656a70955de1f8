"""MessagePack as hashicorp/raft writes it: maps from field names to values, as layers.

Source: msgpack/spec (spec.md, spec-old.md). The old dialect is what travels here: text and bytes share the "raw" codes
A0-BF, DA and DB, nil is C0. A map or an item is read with the code in front of it, which is kept, so that
building gives the same bytes for any width that the writer chose.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from wiredecode.fields import Array, Boolean, Int64, Kind, Malformed, Rest, Struct, Text, Truncated, printable, text
from wiredecode.fields.layer import Layer, TaggedLayer
from wiredecode.protocols.liftbridge import layers_messagepack_items as items


class Keyed(Kind):
    """Base of all members of a map: ``key`` is the name on the wire. Other values than ``families`` stay undeclared."""

    tagged = True
    families: ClassVar[tuple[str, ...]] = ()

    def __init__(self, key: str, *args: Any, **kw: Any) -> None:
        kw.setdefault("default", None)
        super().__init__(*args, **kw)
        self.key = key

    def fits(self, item: items.Item) -> bool:
        """Whether an item can be the value."""
        return item.family in self.families

    def value_of(self, item: items.Item, data: bytes, end: int, layer: Layer) -> tuple[Any, int]:
        """The value of an item and the position after it."""
        return item.value, item.stop

    def build_value(self, value: Any, code: int) -> bytes:
        """The inverse."""
        raise NotImplementedError


class Integer(Keyed, Int64):
    families = ("number",)

    def build_value(self, value: int, code: int) -> bytes:
        return items.write_number(value, code)


class Truth(Keyed, Boolean):
    families = ("bool",)

    def present(self, value: bool | int, show: Callable[[bytes], str]) -> bool:
        return bool(value)

    def build_value(self, value: bool, code: int) -> bytes:
        return bytes([items.TRUE if value else items.FALSE])


class String(Keyed, Text):
    families = ("raw",)

    def value_of(self, item: items.Item, data: bytes, end: int, layer: Layer) -> tuple[str, int]:
        return text(item.value), item.stop

    def build_value(self, value: str, code: int) -> bytes:
        return items.write_raw(self.encode(value), code)


class Raw(Keyed, Rest):
    """Bytes, or nil."""

    families = ("raw", "nil")

    def build_value(self, value: bytes | None, code: int) -> bytes:
        return bytes([items.NIL]) if value is None else items.write_raw(value, code)


class Maps(Keyed, Array):
    """An array of maps; Go writes an empty one as nil."""

    families = ("array", "nil")

    def __init__(self, key: str, name: str, layer: "type[MapLayer]", doc: str = "") -> None:
        super().__init__(key, name, layer, doc, count=None)

    def value_of(self, item: items.Item, data: bytes, end: int, layer: Layer) -> tuple[list[Any], int]:
        if item.family == "nil":
            return [], item.stop
        if item.value > items.MAX_ELEMENTS:
            raise Malformed(self.name, f"more than {items.MAX_ELEMENTS} elements", item.stop)
        return self.read_elements(data, item.stop, end, layer, item.value)

    def build_value(self, value: Any, code: int) -> bytes:
        if not value and code in (items.NIL, 0):
            return bytes([items.NIL])
        return items.write_count(len(value), code, "array") + b"".join(bytes(element) for element in value)


class PackedMap(Keyed, Struct):
    """A map inside a raw."""

    families = ("raw",)

    def fits(self, item: items.Item) -> bool:
        return super().fits(item) and whole(self.layer, item.value, 0, len(item.value)) is not None

    def value_of(self, item: items.Item, data: bytes, end: int, layer: Layer) -> tuple[Layer, int]:
        return self.layer.within(data, item.stop - len(item.value), item.stop), item.stop

    def build_value(self, value: Any, code: int) -> bytes:
        return items.write_raw(bytes(value), code)


class PackedTexts(Keyed, Array):
    """An array of texts inside a raw; Go writes an empty one as nil."""

    families = ("raw", "nil")

    def __init__(self, key: str, name: str, doc: str = "") -> None:
        super().__init__(key, name, Text(name), doc, count=None)

    def fits(self, item: items.Item) -> bool:
        if item.family != "raw":
            return super().fits(item)
        texts = read_texts(item.value)
        return texts is not None and self.pack(texts) == item.value

    def value_of(self, item: items.Item, data: bytes, end: int, layer: Layer) -> tuple[list[str], int]:
        return (read_texts(item.value) or [] if item.family == "raw" else []), item.stop

    def pack(self, texts: list[str]) -> bytes:
        raws = [items.write_raw(each.encode("utf-8", "surrogateescape")) for each in texts]
        return items.write_count(len(texts), 0, "array") + b"".join(raws)

    def build_value(self, value: Any, code: int) -> bytes:
        if not value and code in (items.NIL, 0):
            return bytes([items.NIL])
        return items.write_raw(self.pack(value), code)


def read_texts(data: bytes) -> list[str] | None:
    """The texts of an array that fills ``data``; None: it is none."""
    try:
        head = items.read_item("array", data, 0, len(data))
        texts, position = [], head.stop
        for _ in range(head.value if head.family == "array" and head.value <= items.MAX_ELEMENTS else 0):
            item = items.read_item("text", data, position, len(data))
            if item.family != "raw":
                return None
            texts.append(text(item.value))
            position = item.stop
    except Truncated:
        return None
    return texts if head.family == "array" and position == len(data) else None


class Interpretation(Struct):
    """The bytes of another field, decoded: read with them, never written."""

    tagged = True
    key = ""


def whole(layer: type[Layer], data: bytes, start: int, stop: int) -> Layer | None:
    """The layer that fills these bytes; None: they are something else."""
    decoded = layer.within(data, start, stop)
    return decoded if decoded.problem is None and decoded.stop == stop else None


class Verbatim(Rest):
    """An undeclared MessagePack value, unchanged."""

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        try:
            return items.to_python(value, show)[0]
        except Truncated:
            return show(value)


class UnknownKey(Layer):
    """A pair of a map that the declaration has no place for."""

    fields_desc = [Text("key", "name"), Verbatim("value", "the value")]


class UnknownKeys(Array):
    tagged = True
    key = ""

    def __init__(self) -> None:
        super().__init__("unknown_fields", UnknownKey, "pairs that are not known, kept as they are", default=None)


def map_fields(*kinds: Kind) -> list[Any]:
    """The ``fields_desc`` of a map: ordinary kinds first, then keyed ones."""
    return [*kinds, UnknownKeys()]


class Pair(NamedTuple):
    """Encoding of one pair."""

    name: str
    at: int
    """Index in the unknown pairs."""
    key_code: int
    code: int


class MapLayer(TaggedLayer):
    """Base of all maps. ``starts_with_error``: before the map is a raw, the error of an RPC or empty."""

    __slots__ = ("codes", "pairs")
    starts_with_error: ClassVar[bool] = False

    def begin(self) -> None:
        self.pairs: list[Pair] = []
        self.codes = [0, 0]
        """Codes of the error and of the map."""
        super().begin()

    @classmethod
    def minimum(cls) -> int:
        return 1

    def read_tagged(self, data: bytes, position: int, end: int) -> int:
        self.pairs, self.codes = [], [0, 0]
        kinds = {kind.key: kind for kind in self.fields_desc if isinstance(kind, Keyed)}
        try:
            if self.starts_with_error:
                position = self._read_error(data, position, end)
            item = items.read_item("map", data, position, end)
            if item.family != "map" or item.value > items.MAX_PAIRS:
                raise Malformed("map", f"not a map of up to {items.MAX_PAIRS} pairs", position)
            position, self.codes[1] = item.stop, item.code
            for _ in range(item.value):
                position = self._read_pair(kinds, data, position, end)
        except Truncated as short:
            self.problem = short
        return position

    def _read_error(self, data: bytes, position: int, end: int) -> int:
        item = items.read_item("error", data, position, end)
        if item.family != "raw":
            raise Malformed("error", "an answer begins with a string", position)
        self.fields["error"], self.codes[0] = text(item.value), item.code
        self.ranges["error"] = (position, item.stop)
        return item.stop

    def _read_pair(self, kinds: dict[str, Keyed], data: bytes, start: int, end: int) -> int:
        key = items.read_item("key", data, start, end)
        if key.family != "raw":
            raise Malformed("key", "a key is a string", start)
        name = text(key.value)
        kind = kinds.get(name)
        if kind is not None and kind.name not in self.fields:
            item = items.read_item(kind.name, data, key.stop, end)
            if kind.fits(item):
                self.pairs.append(Pair(kind.name, 0, key.code, item.code))
                try:
                    self.fields[kind.name], stop = kind.value_of(item, data, end, self)
                except Truncated as short:
                    if short.partial is not None:
                        self.fields[kind.name] = short.partial
                    raise
                self.ranges[kind.name] = (start, stop)
                return stop
        stop, missing = items.skip(data, key.stop, end, 1)
        if missing:
            raise Truncated(f"unknown_fields.{printable(name)}", 1, 0, stop)
        unknown = UnknownKey(key=name, value=data[key.stop : stop])
        unknown.start, unknown.stop = start, stop
        kept = self.fields.setdefault("unknown_fields", [])
        self.pairs.append(Pair("unknown_fields", len(kept), key.code, 0))
        kept.append(unknown)
        self.ranges["unknown_fields"] = (self.ranges.get("unknown_fields", (start, 0))[0], stop)
        return stop

    def build_tagged(self) -> bytes:
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
                    out.append(items.write_raw(value[pair.at].key.encode("utf-8", "surrogateescape"), pair.key_code))
                    out[-1] += value[pair.at].value
            elif kind.key:
                out.append(items.write_raw(kind.key.encode(), pair.key_code) + kind.build_value(value, pair.code))
        error = b""
        if self.starts_with_error:
            error = items.write_raw(self.getfieldval("error").encode("utf-8", "surrogateescape"), self.codes[0])
        return error + items.write_count(len(out), self.codes[1], "map") + b"".join(out)


class ErrorText(Text):
    """Text before the map of a response."""

    tagged = True
    key = ""
