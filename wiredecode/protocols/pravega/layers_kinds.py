"""Field kinds that only Pravega has: modified UTF-8, numbers with a "no value", presence by remaining length."""

from collections.abc import Callable, Mapping
from typing import Any

from wiredecode.fields import Int64, Text
from wiredecode.fields.emitter import Emitter

NO_VALUE = -(2**63)
"""Upstream's value for: attribute not set, writer unknown, key without version."""


class JavaString(str):
    """Text whose bytes are not what an encoder would write; ``flaw`` says what is wrong with them, if anything."""

    __slots__ = ("flaw", "raw")
    raw: bytes
    flaw: str | None

    @classmethod
    def of(cls, text: str, raw: bytes, flaw: str | None = None) -> "JavaString":
        value = cls(text)
        value.raw, value.flaw = raw, flaw
        return value


def encode_java(text: str) -> bytes:
    """Modified UTF-8 (java.io.DataOutput): NUL as two bytes, each UTF-16 unit on its own."""
    if isinstance(text, JavaString):
        return text.raw
    if text.isascii() and "\0" not in text:
        return text.encode()
    return b"".join(_encode_character(character) for character in text)


def _encode_character(character: str) -> bytes:
    if character == "\0":
        return b"\xc0\x80"
    if character <= "\uffff":
        return character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be")
    return b"".join(chr(int.from_bytes(units[at : at + 2])).encode("utf-8", "surrogatepass") for at in (0, 2))


def strict_java(raw: bytes) -> str:
    """Decode modified UTF-8 as the JDK's reader does. Raises UnicodeDecodeError where that refuses."""
    if raw.isascii():
        text = raw.decode()
        return JavaString.of(text, raw) if "\0" in text else text
    units, position = bytearray(), 0
    while position < len(raw):
        lead = raw[position]
        width = 1 if lead < 0x80 else 2 if 0xC0 <= lead < 0xE0 else 3 if 0xE0 <= lead < 0xF0 else 0
        continuation = raw[position + 1 : position + width]
        if not width or len(continuation) != width - 1 or any(byte & 0xC0 != 0x80 for byte in continuation):
            raise UnicodeDecodeError("modified UTF-8", raw, position, position + 1, "not modified UTF-8")
        unit = lead if width == 1 else lead & (0x1F if width == 2 else 0x0F)
        for byte in continuation:
            unit = unit << 6 | byte & 0x3F
        units += unit.to_bytes(2)
        position += width
    text = units.decode("utf-16-be", "surrogatepass")
    return text if encode_java(text) == raw else JavaString.of(text, raw)


def lenient_java(raw: bytes) -> str:
    """Decode anything: text that is not modified UTF-8 is tried as UTF-8, else its odd bytes become ``\\xNN``."""
    try:
        return strict_java(raw)
    except UnicodeDecodeError:
        pass
    try:
        return JavaString.of(raw.decode(), raw, "plain UTF-8 instead of modified UTF-8")
    except UnicodeDecodeError:
        return JavaString.of(raw.decode("utf-8", "backslashreplace"), raw, "not modified UTF-8")


def escape_surrogates(text: str) -> str:
    """The text fit for JSON: surrogates without their other half are spelled out."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class JavaText(Text):
    """A string: uint16 number of bytes, then modified UTF-8. All bytes survive a round trip."""

    def decode(self, raw: bytes) -> str:
        return lenient_java(raw)

    def encode(self, value: str) -> bytes:
        return encode_java(value)

    def spell_slice(self, em: Emitter) -> str:
        return f"{em.constant(strict_java)}(b[p:q])"

    def present(self, value: str | None, show: Callable[[bytes], str]) -> str | None:
        return value if value is None else escape_surrogates(str(value))

    def spell_present(self, em: Emitter, expression: str) -> str:
        return f"{em.constant(escape_surrogates)}({expression})"


class Meaning(Int64):
    """A number with special values: ``meanings`` describes them, to readers of trees."""

    def __init__(self, name: str, doc: str = "", *, meanings: Mapping[int, str] | None = None, **kw: Any) -> None:
        super().__init__(name, doc, **kw)
        self.meanings = meanings or {}

    def readable(self, value: Any) -> str:
        return self.meanings[value] if value in self.meanings else super().readable(value)


class RequestId(Int64):
    """Chosen by the client: Java clients put a flow into the upper half and count in the lower."""

    def readable(self, value: Any) -> str:
        if not value or value < 1 << 32:
            return str(value)
        return f"{value:#x} (flow {value >> 32}, sequence {value & 0xFFFFFFFF})"
