"""The AMQP 1.0 type system as one table: the type of every constructor byte.

Source: OASIS AMQP 1.0 part 1 (types), sections 1.2 (encodings) and 1.6 (primitive types)::

    value        = constructor payload
    constructor  = format-code | 0x00 descriptor constructor
    payload      = fixed bytes | size bytes | size count items | size count constructor bare-items

The tree reader and the record reader follow ``CONSTRUCTORS``; none of them knows a type of
its own.
"""

import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.fields import Uuid
from wiredecode.fields.numbers import rfc3339_second
from wiredecode.protocols.shared.data import data_of

MAX_DEPTH = 32
"""Compound, array and described values inside one another, the section's own value being the first level."""
MAX_ELEMENTS = 1 << 18
"""Sections, list and map items and array elements in one message."""
MAX_ZERO_WIDTH_ELEMENTS = 256
"""Array elements in one message whose constructor (null, true, uint0 ...) gives them no bytes: however many
are announced, they cost the sender nothing."""

Scalar = None | bool | int | float | str | bytes
Json = Any
"""Input of ``orjson``: None, bool, int, float, str, list, dict with str keys."""
Show = Callable[[bytes], str]
"""Form of bytes (``--bytes``)."""


class NotAmqpError(Exception):
    """The bytes are no AMQP 1.0 message, or beyond a limit. Never leaves the package: readers turn it into None."""


class Category(Enum):
    """The payload's shape (section 1.2)."""

    FIXED = auto()
    VARIABLE = auto()
    LIST = auto()
    MAP = auto()
    ARRAY = auto()
    DESCRIBED = auto()


@dataclass(frozen=True, slots=True)
class Constructor:
    """One format code. ``width``: payload bytes of a fixed type, else bytes of the size (and count) field."""

    code: int
    type: str
    encoding: str
    category: Category
    width: int
    decode: Callable[[bytes], Scalar]
    """Payload (of a fixed or variable type) to value."""
    plain: Callable[[Any, Show], Json] | None = None
    """Value to its form in records, where that is not the value itself."""


def _text(payload: bytes) -> str:
    return payload.decode("utf-8", "backslashreplace")


def _show(value: bytes, show: Show) -> str:
    return show(value)


def _timestamp(value: int, show: Show) -> str | int:
    """RFC 3339 with milliseconds, or the integer where the year is not 1 to 9999."""
    try:
        return f"{rfc3339_second(value // 1000)}{value % 1000:03d}Z"
    except OverflowError:
        return value


def _char(payload: bytes) -> str | int:
    """UTF-32BE; the number where it is no Unicode scalar value."""
    code = int.from_bytes(payload, "big")
    return code if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF else chr(code)


def _float(value: float, show: Show) -> float | str:
    """JSON has no NaN and no infinities."""
    if value - value == 0.0:
        return value
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


_WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}


def _fixed_width(
    code: int,
    type_: str,
    encoding: str,
    decode: Callable[[bytes], Scalar],
    plain: Callable[[Any, Show], Json] | None = None,
) -> Constructor:
    return Constructor(code, type_, encoding, Category.FIXED, _WIDTHS[code >> 4], decode, plain)


def _number(code: int, type_: str, encoding: str, layout: str) -> Constructor:
    unpack = struct.Struct(">" + layout).unpack
    return _fixed_width(code, type_, encoding, lambda payload: unpack(payload)[0], _SHOWN_AS.get(type_))


def _constant(code: int, type_: str, encoding: str, value: Scalar) -> Constructor:
    return _fixed_width(code, type_, encoding, lambda payload: value)


def _opaque(code: int, type_: str, encoding: str) -> Constructor:
    return _fixed_width(code, type_, encoding, bytes, _show)


def _variable_width(code: int, type_: str, encoding: str) -> Constructor:
    """A type with a size field: 1 byte where the code has an even high nibble, else 4."""
    width, category = 4 if code & 0x10 else 1, _COMPOUND.get(type_, Category.VARIABLE)
    if type_ in ("string", "symbol"):
        return Constructor(code, type_, encoding, category, width, _text)
    return Constructor(code, type_, encoding, category, width, bytes, _show)


TABLES = data_of("shared", "amqp.toml")
_COMPOUND = {"list": Category.LIST, "map": Category.MAP, "array": Category.ARRAY}
_SHOWN_AS: dict[str, Callable[[Any, Show], Json]] = {"float": _float, "double": _float, "timestamp": _timestamp}


def _known_constructors() -> list[Constructor]:
    return [
        Constructor(0x00, "described", "described", Category.DESCRIBED, 0, bytes),
        _constant(0x40, "null", "null", None),
        _constant(0x41, "boolean", "true", True),
        _constant(0x42, "boolean", "false", False),
        _constant(0x43, "uint", "uint0", 0),
        _constant(0x44, "ulong", "ulong0", 0),
        Constructor(0x45, "list", "list0", Category.LIST, 0, bytes),
        _fixed_width(0x73, "char", "utf32", _char),
        _fixed_width(0x98, "uuid", "uuid", Uuid.spell),
        *(_number(int(code, 0), *row) for code, row in TABLES["numbers"].items()),
        *(_opaque(int(code, 0), *row) for code, row in TABLES["opaque"].items()),
        *(_variable_width(int(code, 0), *row) for code, row in TABLES["sized"].items()),
    ]


def _unassigned_constructor(code: int) -> Constructor | None:
    """Unassigned codes have a width all the same (section 1.2): the payload stays opaque. None below 0x40."""
    if code < 0x40:
        return None
    if code < 0xA0:
        return _opaque(code, "unknown", f"unknown-{code:02x}")
    return _variable_width(code, "unknown", f"unknown-{code:02x}")


def _table() -> tuple[Constructor | None, ...]:
    assigned = {constructor.code: constructor for constructor in _known_constructors()}
    return tuple(assigned.get(code) or _unassigned_constructor(code) for code in range(256))


CONSTRUCTORS: tuple[Constructor | None, ...] = _table()
"""By format code; None for invalid codes."""


def key_text(plain: Json) -> str:
    """The text of a scalar map key. Compound keys are shown as their bytes instead: text of text may grow."""
    if isinstance(plain, str):
        return plain
    return "null" if plain is None else str(plain).lower() if isinstance(plain, bool) else str(plain)


def unused_key(key: str, index: int, taken: dict[str, Json]) -> str:
    """A key that occurs twice is kept under ``key#index`` (index: number of the pair, from 0)."""
    while key in taken:
        key = f"{key}#{index}"
    return key


BODY = 5
"""Rank of the three kinds of body."""


@dataclass(frozen=True, slots=True)
class Section:
    """One kind of section. ``codes``: constructors its value may have; ``fields``: names of a list's items."""

    descriptor: int
    name: str
    symbol: str
    rank: int
    codes: frozenset[int]
    type: str
    """Its name in records, in a word or two."""
    fields: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    """Types of these items."""
    repeats: bool = False

    def follows(self, previous: "Section | None") -> bool:
        """Whether it may follow that section (None: at the start)."""
        return previous is None or self.rank > previous.rank or (self.repeats and previous is self)


def _section(name: str, descriptor: int, rank: int, kind: str, fields: str = "", repeats: bool = False) -> Section:
    spelled = {"sequence": "amqp-sequence", "value": "amqp-value"}.get(name, name.replace("_", "-"))
    codes = frozenset(row.code for row in CONSTRUCTORS if row and kind in ("*", row.type))
    shown = {"list": "structure" if fields else "array of arrays", "binary": "array of bytes", "*": "any"}
    named = [each.partition(":") for each in fields.split()]
    names, types = tuple(name for name, _, _ in named), tuple(word or "string" for _, _, word in named)
    return Section(
        descriptor, name, f"amqp:{spelled}:{kind}", rank, codes, shown.get(kind, kind), names, types, repeats
    )


SECTIONS = tuple(_section(name, **table) for name, table in TABLES["sections"].items())
BY_DESCRIPTOR: dict[int | str, Section] = {
    key: section for section in SECTIONS for key in (section.descriptor, section.symbol)
}


def field_name(section: Section, index: int) -> str:
    """Name of a list item; items beyond the standard's are kept as ``field_N``."""
    return section.fields[index] if index < len(section.fields) else f"field_{index}"
