"""Field tables of AMQP 0-9-1: names and typed values, inside one another, of the types that RabbitMQ has given letters.

https://www.rabbitmq.com/amqp-0-9-1-errata (field types); rabbit_binary_parser.erl. Records show them as objects.
"""

import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from wiredecode.fields import printable, redact, rfc3339_ms, text
from wiredecode.fields.credentials import is_secret_name, is_secret_pair, is_secret_value
from wiredecode.fields.layer import Range, Style
from wiredecode.fields.maps import Map
from wiredecode.protocols.shared.amqp.constructors import unused_key

MAX_DEPTH = 32
"""Tables and arrays inside one another."""
MAX_ENTRIES = 1 << 16
"""Values of one table, those inside included."""
TABLE, ARRAY, STRING, BYTES = b"FASx"
Shown = Callable[..., Any] | None


def decimal_text(scale: int, digits: int) -> str:
    """A decimal: digits after the point, and all digits as an unsigned number."""
    return format(Decimal((0, tuple(map(int, str(digits))), -scale)), "f")


def finite(value: float) -> float | str:
    """JSON has no NaN and no infinities."""
    return value if value - value == 0.0 else str(value)


FORMS: dict[str, tuple[str, Shown]] = {
    **{letter: (code, None) for letter, code in ("t?", "bb", "BB", "Uh", "sh", "uH", "Ii", "iI", "lq", "Lq")},
    "f": ("f", finite),
    "d": ("d", finite),
    "D": ("BI", decimal_text),
    "V": ("", lambda: None),
    "T": ("Q", lambda seconds: rfc3339_ms(seconds * 1000)),
}
"""By letter: layout of a value of fixed size, and its form in records if it is not the number."""
LAYOUTS = {ord(letter): (struct.Struct(">" + code), shown) for letter, (code, shown) in FORMS.items()}
SCALARS = {letter: (form.unpack_from, 1 + form.size, shown) for letter, (form, shown) in LAYOUTS.items()}
SIZES = {letter: size for letter, (_, size, _) in SCALARS.items()}
SIZE = struct.Struct(">I").unpack_from
TOO_LONG = "a value is longer than the table"


class Damaged(Exception):
    """The bytes are no table: why."""


DAMAGE = (Damaged, IndexError, struct.error)


class TableForm(NamedTuple):
    """Form of the values."""

    show: Callable[[bytes], str] = bytes.hex
    hide: bool = False
    """Whether to leave out credentials."""
    spell: Callable[[str], str] = printable


def check(raw: bytes, at: int, end: int, named: bool = True, depth: int = MAX_DEPTH, left: int = MAX_ENTRIES) -> int:
    """Raise :class:`Damaged` or ``IndexError`` if there is no table; return how many entries more are allowed."""
    if not depth:
        raise Damaged(f"nested more than {MAX_DEPTH} deep")
    while at < end:
        left -= 1
        if left < 0:
            raise Damaged(f"more than {MAX_ENTRIES} values")
        if named:
            at += 1 + raw[at]
        letter = raw[at]
        if size := SIZES.get(letter):
            at += size
            continue
        if letter not in (STRING, TABLE, ARRAY, BYTES):
            raise Damaged(f"there are no values of the type {letter:#04x}")
        start = at + 5
        at = start + int.from_bytes(raw[at + 1 : start])
        if letter in (TABLE, ARRAY) and at <= end:
            left = check(raw, start, at, letter == TABLE, depth - 1, left)
    if at != end:
        raise Damaged(TOO_LONG)
    return left


def problem_of(raw: bytes) -> str:
    """Why bytes are no table; "" if they are one."""
    try:
        check(raw, 0, len(raw))
    except Damaged as damage:
        return str(damage)
    except IndexError:
        return TOO_LONG
    return ""


@lru_cache(maxsize=4096)
def name_of(raw: bytes) -> tuple[str, bool]:
    """A name as records show it, and whether its value is a credential. Few names are in many tables."""
    name = text(raw)
    return printable(name), is_secret_name(name)


def read_object(raw: bytes, at: int, end: int, look: TableForm, depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Raise one of :data:`DAMAGE` if there is no table."""
    found: dict[str, Any] = {}
    while at < end:
        begin = at + 1
        at = begin + raw[at]
        key, secret = name_of(raw[begin:at])
        if key in found:
            key = unused_key(key, len(found), found)
        found[key], at = read_value(raw, at, secret, look, depth)
    if at != end:
        raise Damaged(TOO_LONG)
    return found


def read_array(raw: bytes, at: int, end: int, look: TableForm, depth: int) -> list[Any]:
    found = []
    while at < end:
        value, at = read_value(raw, at, False, look, depth)
        found.append(value)
    if at != end:
        raise Damaged(TOO_LONG)
    return found


def read_value(raw: bytes, at: int, secret: bool, look: TableForm, depth: int) -> tuple[Any, int]:
    """The value whose letter is at the place, as records show it, and where it ends."""
    letter = raw[at]
    if letter in SCALARS:
        unpack, size, shown = SCALARS[letter]
        values = unpack(raw, at + 1)
        return values[0] if shown is None else shown(*values), at + size
    start = at + 5
    stop = start + SIZE(raw, at + 1)[0]
    if letter in (STRING, BYTES):
        value = raw[start:stop].decode("utf-8", "surrogateescape")
        if look.hide and value and (secret or is_secret_value(value)):
            return redact(raw[start:stop]), stop
        return look.spell(value) if letter == STRING else look.show(raw[start:stop]), stop
    if letter not in (TABLE, ARRAY) or depth <= 1:
        check(raw, at, stop, False, depth)  # it says why
    if look.hide and secret and start < stop:
        check(raw, start, stop, letter == TABLE, depth - 1)
        return redact(raw[start:stop]), stop
    return (read_object if letter == TABLE else read_array)(raw, start, stop, look, depth - 1), stop


def read_whole(raw: bytes, look: TableForm) -> dict[str, Any]:
    """The values by name. Raises one of :data:`DAMAGE`."""
    if len(raw) > MAX_ENTRIES:  # values take a byte or more
        check(raw, 0, len(raw))
    return read_object(raw, 0, len(raw), look)


def read_table(raw: bytes, look: TableForm = TableForm()) -> dict[str, Any]:  # noqa: B008 (it cannot change)
    """The values by name; none of bytes that are no table."""
    try:
        return read_whole(raw, look)
    except DAMAGE:
        return {}


class Piece(NamedTuple):
    """A name, or a value with its size in front, in a table."""

    name: str
    letter: int
    """Type of the value; 0: it is the name."""
    start: int
    stop: int


def pieces(raw: bytes, at: int, end: int, named: bool = True) -> Iterator[Piece]:
    while at < end:
        name = ""
        if named:
            start = at + 1
            at = start + raw[at]
            name = text(raw[start:at])
            yield Piece(name, 0, start, at)
        letter, start = raw[at], at + 5
        if size := SIZES.get(letter):
            at += size
            continue
        at = start + int.from_bytes(raw[at + 1 : start])
        yield Piece(name, letter, start, at)
        if letter in (TABLE, ARRAY):
            yield from pieces(raw, start, at, letter == TABLE)


def entry_ranges(raw: bytes, at: int, end: int, before: str, named: bool = True) -> Iterator[tuple[str, Range]]:
    """Path and bytes of each value of a table, with its name; then those inside, unless they are a credential."""
    taken: dict[str, Any] = {}
    while at < end:
        begin, path, secret = at, f"{before}[{len(taken)}]", False
        if named:
            at += 1 + raw[at]
            name, secret = name_of(raw[begin + 1 : at])
            path = unused_key(f"{before}.{name}" if before else name, len(taken), taken)
        taken[path] = None
        letter, start = raw[at], at + 5
        at = at + SIZES[letter] if letter in SIZES else start + SIZE(raw, at + 1)[0]
        yield path, (begin, at)
        if letter in (TABLE, ARRAY) and not secret:
            yield from entry_ranges(raw, start, at, path, letter == TABLE)


def is_secret(raw: bytes, piece: Piece) -> bool:
    if piece.letter in (TABLE, ARRAY):
        return is_secret_name(piece.name)
    return is_secret_pair(piece.name, raw[piece.start : piece.stop])


class FieldTable(Map):
    """A field table, its bytes counted by an integer of 32 bits."""

    def read_map(self, raw: bytes, style: Style) -> dict[str, Any] | None:
        try:
            return read_whole(raw, TableForm(style.show, not style.secrets))
        except DAMAGE:
            return None

    def problem(self, raw: bytes) -> str:
        return problem_of(raw)

    def secrets(self, raw: bytes) -> Iterator[Range]:
        for piece in pieces(raw, 0, len(raw)):
            if piece.letter and piece.start < piece.stop and is_secret(raw, piece):
                yield piece.start, piece.stop

    def entries(self, raw: bytes) -> Iterator[tuple[str, Range]]:
        return entry_ranges(raw, 0, len(raw), "")
