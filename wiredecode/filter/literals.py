"""Converts literals of a filter to the type of the other side."""

import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any

from wiredecode.filter.model import Constant, Type
from wiredecode.filter.values import time_ns
from wiredecode.frames.record import rfc3339

UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "": 10**9}
UNITS |= {"min": 60 * 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
"""Units of durations, in nanoseconds; without one it is seconds."""
NUMBER = re.compile(r"([+-]?)(0[xX][0-9A-Fa-f]+|0b[01]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([A-Za-zµ]*)")
BYTES = re.compile(r"[0-9A-Fa-f]{2}(?:[:.]?[0-9A-Fa-f]{2})*")
MAX_DIGITS = 400
"""Longest number that is read."""
NUMBERS = "a number, as in 5, 0x1f, 017 or 1.5"
EXPECTED = {
    Type.NUMBER: NUMBERS,
    Type.BYTES: 'bytes, as in de:ad:be:ef or "text"',
    Type.BOOLEAN: "true or false",
    Type.TIME: "a time, as in 2026-01-31T12:00:00Z or seconds since 1970",
    Type.DURATION: "a duration, as in 5ms, 2s or 1.5 (seconds)",
    Type.ADDRESS: "an IP address or a network, as in 10.0.0.1, 10.0.0.0/8 or fe80::1",
    Type.STRING: 'text, as in "orders"',
}


class InvalidValue(Exception):
    """The text is no value of the type; the argument names what is expected."""


def number(text: str) -> int | float:
    """A number; octal where it begins with 0."""
    match = NUMBER.fullmatch(text)
    if match is None or match[3] or len(text) > MAX_DIGITS:
        raise InvalidValue(EXPECTED[Type.NUMBER])
    sign = -1 if match[1] == "-" else 1
    digits = match[2]
    try:
        if digits[:2].lower() in ("0x", "0b"):
            return sign * int(digits, 0)
        if digits.isdigit():
            return sign * int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)
        return sign * float(digits)
    except (ValueError, OverflowError):
        raise InvalidValue(EXPECTED[Type.NUMBER]) from None


def duration(text: str) -> int:
    """Nanoseconds."""
    match = NUMBER.fullmatch(text)
    if match is None or match[3] not in UNITS or len(text) > MAX_DIGITS:
        raise InvalidValue(EXPECTED[Type.DURATION])
    value = number(match[1] + (match[2].lstrip("0") or "0" if match[2].isdigit() else match[2]))
    try:
        return value * UNITS[match[3]] if isinstance(value, int) else round(value * UNITS[match[3]])
    except (OverflowError, ValueError):
        raise InvalidValue(EXPECTED[Type.DURATION]) from None


def time(text: str, *, utc: bool) -> int:
    """Nanoseconds since the epoch; ``utc``: where the text names no zone."""
    parsed = time_ns(text.strip(), utc=utc) if "-" in text else None
    if parsed is None:
        try:
            parsed = duration(text)
        except InvalidValue:
            raise InvalidValue(EXPECTED[Type.TIME]) from None
    return parsed


def boolean(text: str) -> bool | int | float:
    """A truth value; other numbers than 0 and 1 stay what they are."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return number(text)
    except InvalidValue:
        raise InvalidValue(EXPECTED[Type.BOOLEAN]) from None


def octets(text: str, quoted: bool) -> bytes:
    """Bytes: the text itself if it is in quotes, else hexadecimal digits."""
    if quoted:
        return text.encode()
    if BYTES.fullmatch(text) is None:
        raise InvalidValue(EXPECTED[Type.BYTES])
    return bytes.fromhex(re.sub(r"[:.]", "", text))


def address(text: str) -> Any:
    """An address, or a network if there is a slash."""
    try:
        return ip_network(text, strict=False) if "/" in text else ip_address(text)
    except ValueError:
        raise InvalidValue(EXPECTED[Type.ADDRESS]) from None


def is_network(value: Any) -> bool:
    return isinstance(value, IPv4Network | IPv6Network)


class AnyValue:
    """Possible values of a text, for fields whose type depends on the traffic; by class of the value found."""

    def __init__(self, constant: Constant) -> None:
        self.meanings: dict[type, Any] = {str: constant.text}
        readers: dict[type, Callable[[str], Any]] = {int: number, bool: boolean}
        readers[bytes] = partial(octets, quoted=constant.quoted)
        for class_, read in readers.items():
            with suppress(InvalidValue, UnicodeEncodeError):
                self.meanings[class_] = read(constant.text)
        if int in self.meanings:
            self.meanings[float] = self.meanings[int]


def value_of(constant: Constant, type_: Type, *, utc: bool) -> Any:
    """The value that a constant has as one of ``type_``; ``utc``: as :func:`time`. Raises :class:`InvalidValue`."""
    text = constant.text
    match type_:
        case Type.ANY:
            return AnyValue(constant)
        case Type.BYTES | Type.PROTOCOL:
            return octets(text, constant.quoted)
        case Type.NUMBER if constant.quoted:
            raise InvalidValue(EXPECTED[Type.NUMBER])
        case Type.TIME:
            return time(text, utc=utc)
    readers = {Type.NUMBER: number, Type.BOOLEAN: boolean, Type.DURATION: duration, Type.ADDRESS: address}
    return readers.get(type_, str)(text)


def literal_of(kind: Type, value: Any) -> str:
    """A value of a frame as a literal that is equal to it."""
    if kind is Type.DURATION:
        return f"{value}ns"
    if kind is Type.TIME:
        return rfc3339(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex(":") if value else '""'
    if isinstance(value, int | float) or kind is Type.ADDRESS:
        return str(value)
    return '"' + "".join(map(_spell, str(value))) + '"'


def _spell(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
