"""A message type: a Scapy ``Packet`` whose ``fields_desc`` is made of the kinds of :mod:`wiredecode.fields`."""

from __future__ import annotations

import copyreg
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from enum import Enum
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scapy.packet import Packet

from wiredecode.dataclasses import dataclass
from wiredecode.fields.composition import Array, CountOf, LengthOf, Optional, Struct, plain
from wiredecode.fields.credentials import is_secret_pair, is_secret_value, without_secrets
from wiredecode.fields.kind import DecodeError, Fill, Kind, Truncated
from wiredecode.fields.numbers import Number, group_bits
from wiredecode.fields.sized import Binary, Sized, everything, redact

if TYPE_CHECKING:
    from wiredecode.fields.emitter import Emitter

MADE_BY_SCAPY = type(Packet).__module__
put = object.__setattr__  # Scapy's looks for fields first
Range = tuple[int, int]
"""First byte and byte after the last, counted from the start of the frame."""


@dataclass(frozen=True)
class Style:
    """Style of values in records: ``show`` renders bytes, ``secrets`` leaves passwords and tokens readable."""

    show: Callable[[bytes], str] = bytes.hex
    secrets: bool = False


Facts = int | tuple[str, ...]
"""Fields that a line shows: their names, or how many of the first after the header."""


def fact_names(facts: Facts, fields: Sequence[Kind]) -> tuple[str, ...]:
    """The names of the fields that a line shows."""
    return tuple(kind.name for kind in fields[:facts]) if isinstance(facts, int) else facts


class Added(Enum):
    """Additions to a record by the state of a connection, besides ``frame.generated``."""

    ANYTHING = "fields anywhere"
    IN_ELEMENTS = "fields of the elements of arrays"
    NOTHING = "nothing: the record can be had later, from the frame alone"


class Layer(Packet):
    """Base of all message types and structures.

    Dissecting never raises: bytes that end inside a field leave ``problem`` set and the fields before it readable.
    Building always encodes the fields anew (nothing is cached), so a round trip proves the declaration.
    """

    __slots__ = ("filled", "problem", "ranges", "start", "stop")
    ranges: dict[str, Range]
    filled: dict[str, Any]
    problem: Truncated | None
    start: int
    stop: int
    fields_desc: ClassVar[Any]
    filter_name: ClassVar[str] = ""
    """Name of the layer in records and filters."""
    facts: ClassVar[tuple[str, ...]] = ()
    """Fields that a one-line summary shows; dots lead into structures."""
    shown_defaults: ClassVar[frozenset[str]] = frozenset()
    """Fields among these that it shows also if a whole message leaves their default out."""
    added: ClassVar[Added] = Added.ANYTHING
    by_record: ClassVar[tuple[str, ...]] = ()
    """Fields that differ between record and bytes, although nothing is added."""
    verbatim: ClassVar[tuple[str, ...]] = ()
    """Fields whose values are in the frame as they are compared: a value absent from the frame does not match."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """The values of fields that the wire leaves out: they have no byte range."""
    numbered_by: ClassVar[str] = ""
    """Elements of bulk arrays: the field by which later frames refer to an element."""
    marked_by: ClassVar[str] = ""
    """Elements of bulk arrays: the optional field whose presence needs the element itself."""
    remade: ClassVar[tuple[Callable[..., Any], tuple[Any, ...]]]
    """For pickle, if the layer has no name in its module: function and arguments that return it."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.begin()
        super().__init__(*args, **kw)

    def begin(self) -> None:
        """Initialise the attributes that a layer has besides those of a packet."""
        put(self, "ranges", {})
        put(self, "filled", {})
        put(self, "problem", None)
        put(self, "start", 0)
        put(self, "stop", 0)

    @classmethod
    def bare(cls) -> Self:
        """A layer without fields, and without the rest of a packet, which :meth:`__getattr__` makes if asked for."""
        layer = cls.__new__(cls)
        layer.begin()
        put(layer, "fields", {})
        put(layer, "explicit", 1)
        return layer

    def __getattr__(self, attr: str) -> Any:
        """Make the rest of a packet of a :meth:`bare` layer: few of them are used as packets."""
        if attr not in PACKET_SLOTS:
            return super().__getattr__(attr)
        fields, explicit = self.fields, self.explicit
        super().__init__()
        self.fields, self.explicit = fields, explicit
        return object.__getattribute__(self, attr)

    fills: ClassVar[Mapping[str, Fill]] = {}
    """Rules by which lengths, counts and the like fill themselves in on building."""
    tagged_names: ClassVar[frozenset[str]] = frozenset()
    by_name: ClassVar[Mapping[str, Kind]] = {}
    has_bulk: ClassVar[bool] = False
    """Whether it, or a structure inside, has an array that readers of frames count and do not read."""
    in_order: ClassVar[list[Kind]] = []
    """The fields at the front, one after another; `read_tagged` reads the others."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if cls.__module__ == MADE_BY_SCAPY:  # by a call of ``type``: it is of the package that made it
            remade = cls.__dict__.get("remade")
            cls.__module__ = remade[0].__module__ if remade else cls.__bases__[0].__module__
        cls.in_order = [kind for kind in cls.fields_desc if not kind.tagged]
        cls.tagged_names = frozenset(kind.name for kind in cls.fields_desc if kind.tagged)
        for kind in cls.fields_desc:
            if kind.name in RESERVED:
                raise TypeError(f"{cls.__name__}: a field cannot be called {kind.name}, Scapy uses that name")
        before: set[str] = set()
        for kind in cls.in_order:
            needed = counts_of(plain(kind))
            if isinstance(kind, Optional):
                needed |= dict.fromkeys(kind.when.names(), kind.when)
            for name in sorted(needed.keys() - before):
                raise TypeError(f"{cls.__name__}.{kind.name}: no field {name} before it, for {needed[name]}")
            before.add(kind.name)
        cls.by_name = {kind.name: plain(kind) for kind in cls.fields_desc}
        cls.has_bulk = any(map(holds_bulk, cls.by_name.values()))
        group_bits(cls.in_order)
        cls.fills = fills_of(cls.in_order)

    @classmethod
    def declare(
        cls, name: str, *fields: Kind, doc: str | None = None, module: str | None = None, **members: Any
    ) -> type[Self]:
        """Declare a layer by a call, as a ``class`` statement would; ``members``: attributes such as :attr:`facts`."""
        members |= {"fields_desc": [*fields], "__doc__": doc} | ({} if module is None else {"__module__": module})
        return type(name, (cls,), members)

    @classmethod
    def minimum(cls) -> int:
        """The least number of bytes of this structure."""
        return minimum_of(cls)

    @classmethod
    def front(cls) -> struct.Struct:
        """The fields of fixed size that the layer begins with, all in one byte order."""
        kinds = list(takewhile(lambda kind: kind.fixed is not None, cls.in_order))
        little = any(getattr(kind, "little", False) for kind in kinds)
        return struct.Struct("<>"[not little] + "".join(str(kind.fixed) for kind in kinds))

    @classmethod
    def within(cls, data: bytes, position: int, end: int) -> Self:
        """Dissect in place: the structure that starts at ``position``; ``stop`` is the position after it."""
        layer = cls.bare()
        layer.read_fields(data, position, end)
        return layer

    def read_fields(self, data: bytes, position: int, end: int) -> None:
        put(self, "explicit", 1)
        put(self, "start", position)
        fields, ranges = self.fields, self.ranges
        fields.clear()  # Scapy fills lists in
        for kind in self.in_order:
            if isinstance(kind, Optional) and not kind.when.holds(data, position, end, self):
                continue
            start, name = position, kind.name
            try:
                value, position = kind.read(data, start, end, self)
            except Truncated as short:
                put(self, "problem", short.with_traceback(None))
                if short.partial is not None:
                    fields[name] = short.partial
                break
            fields[name] = value
            ranges[name] = (start - kind.back, position)
        if self.problem is None and len(self.in_order) < len(self.fields_desc):
            position = self.read_tagged(data, position, end)
        put(self, "stop", position)

    def read_tagged(self, data: bytes, position: int, end: int) -> int:
        """Read the tagged fields; return the position after them. With :meth:`build_tagged`, :meth:`emit_tagged`."""
        return position

    def build_tagged(self) -> bytes:
        """Encode the tagged fields."""
        return b""

    @classmethod
    def emit_tagged(cls, em: Emitter) -> None:
        """Generate code that reads the tagged fields."""

    frame_end: ClassVar[Any] = None
    """Returns the end of the first frame in some bytes; set if Scapy shall find several in one segment."""

    def do_dissect(self, s: bytes) -> bytes:
        end = len(s) if self.frame_end is None else self.frame_end(s)
        self.read_fields(s, 0, end)
        return s[self.stop :]

    def copy(self) -> Layer:
        return self._keep_spelling(super().copy())

    def clone_with(self, *args: Any, **kw: Any) -> Layer:
        """Scapy builds a clone of a changed packet."""
        return self._keep_spelling(super().clone_with(*args, **kw))

    def _keep_spelling(self, clone: Layer) -> Layer:
        """A clone that also knows how this layer was written: the spelling of its text, the order of its members."""
        for name in type(self).__all_slots__ - Packet.__all_slots__:
            setattr(clone, name, copy(getattr(self, name)))
        return clone

    def build(self) -> bytes:
        """Encode it; a :meth:`bare` layer stays bare."""
        try:
            object.__getattribute__(self, "payload")
        except AttributeError:
            return self.post_build(self.self_build(), b"")
        return super().build()

    def self_build(self) -> bytes:
        """Encode the fields that are set, and required ones with defaults; from the last, as lengths precede data."""
        parts = {"": self.build_tagged()}
        for kind in reversed(self.in_order):
            if kind.name in self.fields or not isinstance(kind, Optional):
                value = self.getfieldval(kind.name)
                if value is None and kind.name in self.fills:
                    value = self.filled[kind.name] = self.fills[kind.name](self, parts)
                parts[kind.name] = kind.write(value, self)
        return b"".join(reversed(parts.values()))

    def encode_field(self, name: str) -> bytes:
        """The bytes of one field, nothing if it is not there."""
        kind = next(kind for kind in self.in_order if kind.name == name)
        if isinstance(kind, Optional) and name not in self.fields:
            return b""
        return kind.write(self.getfieldval(name), self)

    def values(self, *, defaults: bool = True) -> dict[str, Any]:
        """The dissected values as plain data, as compiled decoders return them; ``defaults``: also omitted ones."""
        return {name: _values(value, defaults) for name, value in self.fields.items()}

    def flat_ranges(self, base: int = 0) -> dict[str, Range]:
        """Ranges of all fields by path, as ``messages[0].data``, from ``base`` on; contents before their structure."""
        ranges: dict[str, Range] = {}
        self._add_ranges(ranges, "", base, False)
        return ranges

    def _add_ranges(self, all_ranges: dict[str, Range], prefix: str, base: int, outer_first: bool) -> None:
        tagged, ranges = self.tagged_names, self.ranges
        for name, value in self.fields.items():
            path, first = prefix + name, outer_first or name in tagged
            own = (ranges[name][0] - base, ranges[name][1] - base) if name in ranges else None
            if own is not None and first:
                all_ranges[path] = own
            if isinstance(value, Layer):
                value._add_ranges(all_ranges, path + ".", base, first)
            for index, element in enumerate(value if isinstance(value, list) else ()):
                if isinstance(element, Layer):
                    whole = None if element.problem is not None else (element.start - base, element.stop - base)
                    if whole is not None and first:
                        all_ranges[f"{path}[{index}]"] = whole
                    element._add_ranges(all_ranges, f"{path}[{index}].", base, first)
                    if whole is not None and not first:
                        all_ranges[f"{path}[{index}]"] = whole
            if own is not None and not first:
                all_ranges[path] = own

    @classmethod
    def holds_secrets(cls) -> bool:
        """Whether a field, or one of a structure inside, can be a secret."""
        return bool(secret_names(cls))

    @classmethod
    def may_carry_secrets(cls, values: Mapping[str, Any]) -> bool:
        """Whether a field that can be a secret is among decoded values, or in a record: a check before `secret_ranges`.

        True if bulk arrays, whose elements are not among the values, can hold secrets.
        """
        names = secret_names(cls)
        return bool(names) and (cls.has_bulk or any(map(values.get, names)))

    @classmethod
    def carries_secrets(cls, values: Mapping[str, Any]) -> bool:
        """Whether decoded values hold a secret, those of structures inside included."""
        return any(is_secret(kind, values.get(kind.name), values) for kind in cls.by_name.values())

    def secret_ranges(self) -> Iterator[Range]:
        """The byte ranges of the secrets that were read, those of structures inside included."""
        for kind in map(plain, self.fields_desc):
            value = self.fields.get(kind.name)
            for inner in value if isinstance(value, list) else [value]:
                if isinstance(inner, Layer):
                    yield from inner.secret_ranges()
            free = kind.free and isinstance(value, str) and is_secret_value(value)
            if (free or hides(kind, value, self.fields)) and kind.name in self.ranges:
                start, stop = self.ranges[kind.name]
                yield start + (int(kind.minimum()) if isinstance(kind, Sized) else 0), stop
            elif isinstance(kind, Binary) and kind.credentials is not None and value and kind.name in self.ranges:
                base = self.ranges[kind.name][1] - len(value)
                yield from ((base + start, base + stop) for start, stop in kind.credentials(value))

    @classmethod
    def present(cls, values: Mapping[str, Any], style: Style) -> dict[str, Any]:
        """The record of decoded values, JSON-ready: what the compiled record decoder gives in one go."""
        record: dict[str, Any] = {}
        for name, value in values.items():
            record.update(present_field(cls.by_name[name], value, style, record))
        return record

    @classmethod
    def record_paths(cls, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Keys of the record that are not the names of fields, each with the path of the field that it comes from."""
        return iter(())

    @classmethod
    def complete_record(cls, record: dict[str, Any]) -> None:
        """Add values to a record that follow from its fields, and are in no field: the numbers of its messages."""


PACKET_SLOTS = frozenset(Packet.__slots__) - {"_pkt", "_answered"}  # which Scapy does not set either
RESERVED = frozenset(dir(Layer)) | {"remade"}
"""Names that no field can have."""


def counts_of(kind: Kind) -> dict[str, Any]:
    """Return the earlier fields that contain its length, count or size, with the meaning of each."""
    named = [(getattr(kind, word, None), word) for word in ("length", "count", "size")]
    return {name: f"its {word}" for name, word in named if isinstance(name, str)}


def fills_of(kinds: Iterable[Kind]) -> dict[str, Fill]:
    """Return the fields that fill themselves in: those declared so, and the lengths and counts of other fields."""
    fills: dict[str, Fill] = {}
    byname = {kind.name: kind for kind in kinds}
    counted: dict[str, list[str]] = {}
    for kind in map(plain, kinds):
        if isinstance(kind, Sized) and isinstance(kind.length, str):
            fills[kind.length] = LengthOf(kind.name, null=kind.null)
        if isinstance(kind, Array):
            for name, fill in ((kind.count, CountOf), (kind.size, LengthOf)):
                if isinstance(name, str):
                    counted.setdefault(name, []).append(kind.name)
                    fills[name] = fill(*counted[name], null=kind.null)
    for name in fills:
        if byname[name].default == 0:
            byname[name].default = None
    return fills | {name: kind.fill for name, kind in byname.items() if kind.fill is not None}


def _reduce(layer: type[Packet]) -> str | tuple[Any, ...]:
    """State of a layer for pickle: its name, as for other classes, or the way to make it; subclasses are others."""
    return layer.__dict__.get("remade") or layer.__qualname__


copyreg.pickle(type(Packet), _reduce)


def present_field(kind: Kind, value: Any, style: Style, before: dict[str, Any]) -> dict[str, Any]:
    """Keys of one field in a record: itself, the number of an enumeration, its contents. ``before``: earlier keys."""
    if kind.hidden:
        return {}
    if not style.secrets and hides(kind, value, before):
        return {kind.name: redact(value)}
    if kind.free and isinstance(value, str) and not style.secrets:
        value = without_secrets(value, redact)
    if isinstance(kind, Struct):
        return {kind.name: None if value is None else kind.layer.present(value, style)}
    if isinstance(kind, Array):
        if value is not None and isinstance(kind.element, Struct):
            return {kind.name: [kind.element.layer.present(element, style) for element in value]}
        return {kind.name: kind.present(value, style.show)}
    record = {kind.name: kind.present(value, style.show)}
    if isinstance(kind, Number) and kind.code_name:
        record[kind.code_name] = value
    if isinstance(kind, Binary) and kind.inner is not None and value is not None:
        record.update(kind.inner(value, style, {**before, **record}) or {})
    return record


def holds_bulk(kind: Kind) -> bool:
    inner = kind.element if isinstance(kind, Array) else kind
    return (isinstance(kind, Array) and kind.bulk) or (isinstance(inner, Struct) and inner.layer.has_bulk)


def may_hide(kind: Kind) -> bool:
    """Whether a field is, or can hold, a secret."""
    kind = plain(kind)
    inner = kind.element if isinstance(kind, Array) else kind
    carries = isinstance(kind, Binary) and kind.credentials is not None
    hides = kind.secret or carries or bool(kind.named_by)
    return hides or (isinstance(inner, Struct) and inner.layer.holds_secrets())


@cache
def minimum_of(layer: type[Layer]) -> int:
    """See :meth:`Layer.minimum`."""
    return sum(int(kind.minimum()) for kind in layer.in_order)


@cache
def secret_names(layer: type[Layer]) -> frozenset[str]:
    """Names of the fields that are, or can hold, a secret."""
    return frozenset(plain(kind).name for kind in layer.fields_desc if may_hide(kind))


def hides(kind: Kind, value: Any, beside: Mapping[str, Any]) -> bool:
    """Whether a field is secret, or its value a credential, also by the name in an earlier field ``beside`` it."""
    named = bool(kind.named_by) and is_secret_pair(beside.get(kind.named_by), value)
    return value is not None and (kind.secret or named)


def is_secret(kind: Kind, value: Any, beside: Mapping[str, Any]) -> bool:
    """Whether the decoded value of a field is, or holds, a secret; ``beside``: all values of its structure."""
    inner = kind.element if isinstance(kind, Array) else kind
    if not value or hides(kind, value, beside):
        return bool(value)
    if isinstance(inner, Struct):
        return any(map(inner.layer.carries_secrets, value if inner is not kind else (value,)))
    if isinstance(value, str):
        return kind.free and is_secret_value(value)
    search = kind.credentials if isinstance(kind, Binary) else None
    return search not in (None, everything) and bool(search(value))


def _values(value: Any, defaults: bool) -> Any:
    if isinstance(value, Layer):
        return value.values(defaults=defaults)
    if isinstance(value, list):
        return [_values(element, defaults) for element in value]
    return value


class TaggedLayer(Layer):
    """Base of layers with tagged fields: a subclass defines ``read_tagged`` and ``build_tagged``."""

    @classmethod
    def emit_tagged(cls, em: Emitter) -> None:
        target = "{}" if em.stepping else em.scopes[-1].target
        em.line(f"p = {em.constant(cls.read_plainly)}(b, p, e, {target}, {em.constant(em.style)})")

    @classmethod
    def read_plainly(cls, b: bytes, p: int, e: int, target: dict[str, Any], style: Style | None) -> int:
        """Read the fields without generated code."""
        reader = cls.bare()
        stop = reader.read_tagged(b, p, e)
        if reader.problem is not None:
            raise DecodeError
        target.update(reader.values() if style is None else cls.present(reader.values(), style))
        return stop
