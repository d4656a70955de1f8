"""Field tables: names and typed values, inside one another, with the types that RabbitMQ has given to the letters.

https://www.rabbitmq.com/amqp-0-9-1-errata (field types); rabbit_binary_parser.erl. Records show them as objects.
"""

import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, NamedTuple

from wiredecode.fields import Binary, UInt32, printable, redact, rfc3339_ms, text
from wiredecode.fields.credentials import is_secret_name, is_secret_pair, is_secret_value
from wiredecode.fields.layer import Style
from wiredecode.fields.sized import everything, mask
from wiredecode.protocols.shared.amqp.constructors import unused_key

MAX_DEPTH = 32
"""Tables and arrays inside one another."""
MAX_ENTRIES = 1 << 16
"""Values of one table, those inside included."""
REMEMBERED = 512
"""Bytes of tables that are read once, as many messages have the same."""

NUMBERS = {
    letter: struct.Struct(">" + code)
    for letter, code in zip(
        b"tbBUsuIilLfdT", ["?", "b", "B", "h", "h", "H", "i", "I", "q", "q", "f", "d", "Q"], strict=True
    )
}
TABLE, ARRAY, STRING, BYTES, VOID, DECIMAL, TIME = b"FASxVDT"


class Entry(NamedTuple):
    """A value; those of arrays have no name."""

    name: str
    type: int
    value: Any
    """Of tables and arrays the entries."""
    start: int
    """Where its bytes begin in the outermost table, and where they end."""
    stop: int


class Damaged(Exception):
    """The bytes are no table: why, and where."""


@lru_cache(maxsize=1024)
def _remembered(raw: bytes) -> "tuple[list[Entry], str]":
    return _read(raw)


def read_table(raw: bytes) -> tuple[list[Entry], str]:
    """The entries, and why there are not more: "" for a whole table."""
    return _remembered(raw) if len(raw) <= REMEMBERED else _read(raw)


def _read(raw: bytes) -> tuple[list[Entry], str]:
    entries: list[Entry] = []
    try:
        _entries(raw, 0, len(raw), True, MAX_DEPTH, [MAX_ENTRIES], entries)
    except Damaged as damage:
        return entries, str(damage)
    except (IndexError, struct.error):
        return entries, "a value is longer than the table"
    return entries, ""


def _entries(raw: bytes, at: int, end: int, named: bool, depth: int, left: list[int], out: list[Entry]) -> None:
    """Read the entries between two places."""
    if not depth:
        raise Damaged(f"nested more than {MAX_DEPTH} deep")
    name = ""
    while at < end:
        left[0] -= 1
        if left[0] < 0:
            raise Damaged(f"more than {MAX_ENTRIES} values")
        if named:
            begin = at + 1
            at = begin + raw[at]
            name = text(raw[begin:at])
        value, stop = _value(raw, at, end, depth, left)
        if stop > end:
            raise Damaged("a value is longer than the table")
        out.append(Entry(name, raw[at], value, at + 1, stop))
        at = stop


def _value(raw: bytes, at: int, end: int, depth: int, left: list[int]) -> tuple[Any, int]:
    letter = raw[at]
    number = NUMBERS.get(letter)
    if number is not None:
        return number.unpack_from(raw, at + 1)[0], at + 1 + number.size
    if letter == VOID:
        return None, at + 1
    if letter == DECIMAL:
        scale, digits = struct.unpack_from(">BI", raw, at + 1)
        return format(Decimal((0, tuple(map(int, str(digits))), -scale)), "f"), at + 6
    if letter not in (TABLE, ARRAY, STRING, BYTES):
        raise Damaged(f"there are no values of the type {letter:#04x}")
    start = at + 5
    stop = start + int.from_bytes(raw[at + 1 : start])
    if start > end or stop > end:
        raise Damaged("a value is longer than the table")
    if letter in (STRING, BYTES):
        return raw[start:stop], stop
    inner: list[Entry] = []
    _entries(raw, start, stop, letter == TABLE, depth - 1, left, inner)
    return inner, stop


def plain(entry: Entry, show: Callable[[bytes], str] = bytes.hex) -> Any:
    """The value as records show it."""
    kind, value = entry.type, entry.value
    if kind == TABLE:
        return as_object(value, lambda inner: plain(inner, show))
    if kind == ARRAY:
        return [plain(inner, show) for inner in value]
    if kind == STRING:
        return printable(text(value))
    if kind == BYTES:
        return show(value)
    if kind == TIME:
        return rfc3339_ms(value * 1000)
    if isinstance(value, float) and value - value != 0.0:
        return str(value)
    return value


def as_object(entries: list[Entry], shown: Callable[[Entry], Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for index, entry in enumerate(entries):
        made[unused_key(printable(entry.name), index, made)] = shown(entry)
    return made


def secret(entry: Entry) -> bool:
    """Whether the whole of an entry carries credentials."""
    if isinstance(entry.value, bytes):
        return bool(entry.value) and is_secret_pair(entry.name, entry.value)
    return isinstance(entry.value, list) and bool(entry.value) and is_secret_name(entry.name)


def without_secrets(entry: Entry, show: Callable[[bytes], str]) -> Any:
    """:func:`plain`, with credentials hidden."""
    if secret(entry):
        return redact(entry.value) if isinstance(entry.value, bytes) else redact(bytes(entry.stop - entry.start))
    if entry.type == TABLE:
        return as_object(entry.value, lambda inner: without_secrets(inner, show))
    if entry.type == ARRAY:
        return [without_secrets(inner, show) for inner in entry.value]
    return plain(entry, show)


def show_table(name: str, raw: bytes, style: Style, record: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a table, in place of its bytes; bytes that are no table may hold anything."""
    entries, problem = read_table(raw)
    if problem:
        return mask(raw, style, record)
    return {name: as_object(entries, lambda each: (plain if style.secrets else without_secrets)(each, style.show))}


def secret_ranges(raw: bytes) -> list[tuple[int, int]]:
    """The credentials in a table."""
    entries, problem = read_table(raw)
    return everything(raw) if problem else [*_secrets(entries)]


def _secrets(entries: list[Entry]) -> Iterator[tuple[int, int]]:
    for entry in entries:
        if secret(entry):
            yield entry.start + 4, entry.stop
        elif isinstance(entry.value, list):
            yield from _secrets(entry.value)


def texts(raw: bytes) -> dict[str, str]:
    """The strings of a table that are no credentials, by name."""
    entries, _ = read_table(raw)
    strings = ((each.name, text(each.value)) for each in entries if each.type == STRING)
    return {name: value for name, value in strings if not is_secret_value(value) and not is_secret_name(name)}


def field_table(name: str, doc: str) -> Binary:
    return Binary(name, doc, length=UInt32, inner=partial(show_table, name), credentials=secret_ranges)
