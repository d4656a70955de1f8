"""Credentials in the sections of AMQP 1.0 messages, outside of their bodies."""

import re
from collections.abc import Iterable, Iterator

from wiredecode.fields.credentials import NAME, is_secret_name, is_secret_value
from wiredecode.protocols.shared.amqp.constructors import BODY, SECTIONS, Category, Json
from wiredecode.protocols.shared.amqp.reader import AmqpNode, message, record

BODIES = frozenset(section.name for section in SECTIONS if section.rank == BODY)
BEGINS = re.compile(rb"\x00(?:S[p-x]|[\x80\xa3\xb3])")
"""The descriptor of the first section: a small ulong, another ulong, or a symbol."""
DATA, SHORT = b"\x00Su", 0xA0
"""A section of data, and the constructor of bytes with one byte of length."""
SHORT_DATA = DATA + bytes((SHORT,))


def blank_credentials(data: bytes) -> bytes:
    """The message with asterisks in place of credentials. Its body stays, as all bytes that are no AMQP message."""
    if data[:4] == SHORT_DATA and len(data) > 4 and data[4] == len(data) - 5:  # most are: nothing else to look at
        return data
    ranges = secret_ranges(data)
    return without(data, ranges) if ranges else data


def without(data: bytes, ranges: Iterable[tuple[int, int]]) -> bytes:
    """The bytes with asterisks in these ranges."""
    out = bytearray(data)
    for start, stop in ranges:
        out[start:stop] = b"*" * (stop - start)
    return bytes(out)


def secret_ranges(data: bytes) -> list[tuple[int, int]]:
    """First byte and byte after the last of each credential; the whole of a malformed message that may hold some."""
    if not BEGINS.match(data) or _is_only_data(data):
        return []
    sections = record(data, _latin)
    if sections is None:
        text = _latin(data)
        return [(0, len(data))] if NAME.search(text) or is_secret_value(text) else []
    if not any(_is_secret(value) for name, value in sections.items() if name not in BODIES):
        return []
    parts = [section for section in message(data) or () if section.name not in BODIES]
    return [each for section in parts for each in _ranges(data, section.children[1], False, 1)]


def _is_only_data(data: bytes) -> bool:
    if data[:3] != DATA or len(data) < 8:
        return False
    return data[4] == len(data) - 5 if data[3] == SHORT else int.from_bytes(data[4:8], "big") == len(data) - 8


def _latin(data: bytes) -> str:
    return data.decode("latin-1")


def _is_secret(value: Json) -> bool:
    if isinstance(value, dict):
        return any(is_secret_name(name) or is_secret_value(name) or _is_secret(each) for name, each in value.items())
    if isinstance(value, list):
        return any(map(_is_secret, value))
    return isinstance(value, str) and is_secret_value(value)


def _ranges(data: bytes, node: AmqpNode, hidden: bool, before: int) -> Iterator[tuple[int, int]]:
    """The credentials in a value whose constructor takes ``before`` bytes; all texts and bytes if ``hidden``."""
    row = node.constructor
    if row.category is Category.VARIABLE:
        start = node.start + before + row.width
        if hidden or is_secret_value(_latin(data[start : node.end])):
            yield start, node.end
    inside = 0 if row.category is Category.ARRAY else 1
    for child in node.children:
        named = child.name != "key" and (hidden or is_secret_name(child.name))
        if child.name != "constructor":
            yield from _ranges(data, child, named, inside)
