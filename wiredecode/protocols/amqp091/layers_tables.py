"""Field tables: names and typed values, inside one another, with the types that RabbitMQ has given to the letters.

https://www.rabbitmq.com/amqp-0-9-1-errata (field types); rabbit_binary_parser.erl. Records show them as objects.
"""

import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from wiredecode.fields import Binary, UInt32, printable, redact, rfc3339_ms, text
from wiredecode.fields.credentials import is_secret_name, is_secret_pair
from wiredecode.fields.layer import Style
from wiredecode.fields.sized import everything, mask
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
SCALARS = {ord(letter): (struct.Struct(">" + code), shown) for letter, (code, shown) in FORMS.items()}
SIZES = {letter: 1 + form.size for letter, (form, _) in SCALARS.items()}


class Damaged(Exception):
    """The bytes are no table: why."""


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
        raise Damaged("a value is longer than the table")
    return left


def problem_of(raw: bytes) -> str:
    """Why bytes are no table; "" if they are one."""
    try:
        check(raw, 0, len(raw))
    except Damaged as damage:
        return str(damage)
    except IndexError:
        return "a value is longer than the table"
    return ""


# The bytes were checked.


def read_object(raw: bytes, at: int, end: int, look: TableForm) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while at < end:
        begin = at + 1
        at = begin + raw[at]
        name = text(raw[begin:at])
        key = printable(name)
        if key in found:
            key = unused_key(key, len(found), found)
        found[key], at = read_value(raw, at, name, look)
    return found


def read_array(raw: bytes, at: int, end: int, look: TableForm) -> list[Any]:
    found = []
    while at < end:
        value, at = read_value(raw, at, "", look)
        found.append(value)
    return found


def read_value(raw: bytes, at: int, name: str, look: TableForm) -> tuple[Any, int]:
    """The value whose letter is at the place, as records show it, and where it ends."""
    letter = raw[at]
    scalar = SCALARS.get(letter)
    if scalar is not None:
        form, shown = scalar
        values = form.unpack_from(raw, at + 1)
        return values[0] if shown is None else shown(*values), at + 1 + form.size
    start = at + 5
    stop = start + int.from_bytes(raw[at + 1 : start])
    if letter in (TABLE, ARRAY):
        if look.hide and start < stop and is_secret_name(name):
            return redact(bytes(stop - start)), stop
        return (read_object if letter == TABLE else read_array)(raw, start, stop, look), stop
    value = raw[start:stop]
    if look.hide and value and is_secret_pair(name, value):
        return redact(value), stop
    return look.spell(text(value)) if letter == STRING else look.show(value), stop


def read_table(raw: bytes, look: TableForm = TableForm()) -> dict[str, Any]:  # noqa: B008 (it cannot change)
    """The values by name; none of bytes that are no table."""
    return {} if problem_of(raw) else read_object(raw, 0, len(raw), look)


def show_table(name: str, raw: bytes, style: Style, record: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a table, in place of its bytes; bytes that are no table may hold anything."""
    if problem_of(raw):
        return mask(raw, style, record)
    return {name: read_object(raw, 0, len(raw), TableForm(style.show, not style.secrets))}


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


def secret_ranges(raw: bytes) -> list[tuple[int, int]]:
    """The credentials in a table."""
    if problem_of(raw):
        return everything(raw)
    valued = [each for each in pieces(raw, 0, len(raw)) if each.letter and each.start < each.stop]
    return [(each.start, each.stop) for each in valued if is_secret(raw, each)]


def is_secret(raw: bytes, piece: Piece) -> bool:
    if piece.letter in (TABLE, ARRAY):
        return is_secret_name(piece.name)
    return is_secret_pair(piece.name, raw[piece.start : piece.stop])


def field_table(name: str, doc: str) -> Binary:
    return Binary(name, doc, length=UInt32, inner=partial(show_table, name), credentials=secret_ranges)
