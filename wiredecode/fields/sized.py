"""Kinds of texts and bytes: those whose length is known before them, the rest of a frame, UUIDs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from wiredecode.fields.kind import AsText, FixedBytes, Kind, Random, octets, take
from wiredecode.fields.numbers import INTEGERS, CompactLength, Integer, UInt16, UInt32

if TYPE_CHECKING:
    from wiredecode.fields.emitter import Emitter
    from wiredecode.fields.layer import Layer

Inner = Callable[[bytes, Any, dict[str, Any]], dict[str, Any] | None]
"""Decoder of the contents of a bytes field: ``(value, Style, record of the structure so far) -> keys, or None``.

The keys are JSON-ready. They join the record of the structure that holds the field, or replace what it has."""
Ranges = Callable[[bytes], list[tuple[int, int]]]
"""Finds the credentials in the contents of a bytes field: first byte and byte after the last of each."""


def text(raw: bytes) -> str:
    """UTF-8, losslessly: bytes that are not become surrogates, as in file names (PEP 383)."""
    return raw.decode("utf-8", "surrogateescape")


def printable(value: str) -> str:
    """The text with bytes that were not UTF-8 spelled as ``\\xNN``, fit for JSON and terminals."""
    if value.isascii():
        return value
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half of a surrogate pair, from a JSON escape
        return value.encode("utf-8", "backslashreplace").decode()


def redact(secret: bytes | str) -> str:
    """Replacement of a secret in every output: its length on the wire."""
    raw = secret.encode("utf-8", "surrogatepass") if isinstance(secret, str) else secret
    return f"<redacted {len(raw)} bytes>"


def everything(raw: bytes) -> list[tuple[int, int]]:
    return [(0, len(raw))]


def mask(value: Any, style: Any, record: dict[str, Any]) -> dict[str, Any] | None:
    """Asterisks in place of bytes, the last value of the record; numbers of unknown fields are shown."""
    hidden = isinstance(value, bytes) and not style.secrets
    return {next(reversed(record)): style.show(b"*" * len(value))} if hidden else None


OPAQUE: dict[str, Any] = {"inner": mask, "credentials": everything}
"""For bytes of no known meaning: they may hold anything."""


class Sized(Kind):
    """Base of values whose length is known before them.

    ``length`` is the kind of an integer in front, the name of an earlier field, or the number of bytes itself.
    ``null`` is the length that means "no value": -1 of signed kinds.
    """

    delimited = True

    def __init__(
        self,
        name: str,
        doc: str = "",
        *,
        length: type[Integer] | str | int = UInt16,
        null: int | None = None,
        **kw: Any,
    ) -> None:
        kw.setdefault("default", self.empty)
        super().__init__(name, doc, **kw)
        self.length = length(name) if isinstance(length, type) else length
        self.null = null

    empty: ClassVar[Any] = b""

    def minimum(self) -> int:
        return self.length.minimum() if isinstance(self.length, INTEGERS) else 0

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        if isinstance(self.length, INTEGERS):
            count, position = self.length.read(data, position, end, layer)
        else:
            count = layer.fields[self.length] if isinstance(self.length, str) else self.length
        if count == self.null:
            return None, position
        stop = take(self.name, position, count, end)
        return self.decode(data[position:stop]), stop

    def write(self, value: Any, layer: Layer) -> bytes:
        raw = b"" if value is None else self.encode(value)
        if not isinstance(self.length, INTEGERS):
            return raw
        count = self.null if value is None and self.null is not None else len(raw)
        return self.length.write(count, layer) + raw

    def emit(self, em: Emitter) -> str:
        value = em.variable(self.name)
        if isinstance(self.length, INTEGERS):
            count = em.number(self.length, checked=False)
        else:
            count = em.reference(self.length) if isinstance(self.length, str) else str(self.length)
            em.flush()
        if self.null is None:
            self.emit_value(em, value, count)
        else:
            with em.block(f"if {count} == {self.null}:"):
                em.require("p")
                em.line(f"{value} = None")
            with em.block("else:"):
                self.emit_value(em, value, count)
        return value

    def emit_value(self, em: Emitter, value: str, count: str) -> None:
        """Generate the reading of ``count`` bytes."""
        signed = isinstance(self.length, INTEGERS) and self.length.signed
        signed = signed and not (isinstance(self.length, CompactLength) and self.null == -1)
        if self.is_stepped_over(em) and not signed:
            em.step(count)
            return
        if signed:  # a negative length leads nowhere
            em.line(f"q = p + {count} if {count} >= 0 else e + 1")
        else:
            em.line(f"q = p + {count}")
        em.require("q")
        if not em.stepping:
            em.line(f"{value} = {self.spell_slice(em)}")
        elif not self.is_stepped_over(em):
            em.line("if q > p: b[p:q].decode()")  # fails if they are not UTF-8
        em.line("p = q")

    def is_stepped_over(self, em: Emitter) -> bool:
        """Whether the bytes are skipped, as their value is not needed."""
        return em.stepping

    def decode(self, raw: bytes) -> Any:
        return raw

    def encode(self, value: Any) -> bytes:
        return bytes(value)

    def spell_slice(self, em: Emitter) -> str:
        return "b[p:q]"


class Text(Sized):
    """A string: length in bytes, then UTF-8. Bytes that are not UTF-8 survive a round trip."""

    column = "string"
    empty = ""

    def decode(self, raw: bytes) -> str:
        return text(raw)

    def encode(self, value: str) -> bytes:
        return value.encode("utf-8", "surrogateescape")

    def spell_slice(self, em: Emitter) -> str:
        return "b[p:q].decode()"

    def is_stepped_over(self, em: Emitter) -> bool:
        return False

    def present(self, value: str | None, show: Callable[[bytes], str]) -> str | None:
        return value if value is None else printable(value)

    # The compiled decoders need no shown(): text that is not UTF-8 they leave to the layer.


class Binary(Sized):
    """Bytes with their length in front; ``inner`` decodes them, ``credentials`` finds what to hide in them."""

    def __init__(
        self, name: str, doc: str = "", *, inner: Inner | None = None, credentials: Ranges | None = None, **kw: Any
    ) -> None:
        kw.setdefault("length", UInt32)
        super().__init__(name, doc, **kw)
        self.inner, self.credentials = inner, credentials

    def present(self, value: bytes | None, show: Callable[[bytes], str]) -> str | None:
        return None if value is None else show(value)

    def spell_present(self, em: Emitter, expression: str) -> str:
        return (
            f"(None if {expression} is None else show({expression}))"
            if self.null is not None
            else f"show({expression})"
        )

    def randval(self) -> Any:
        return octets()

    def readable(self, value: Any) -> str:
        return "null" if value is None else f"{len(value)} bytes"


class Rest(Binary):
    """All bytes that are left in the frame."""

    delimited = False

    def minimum(self) -> int:
        return 0

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        return data[position:end], end

    def write(self, value: bytes, layer: Layer) -> bytes:
        return bytes(value or b"")

    def emit(self, em: Emitter) -> str:
        em.flush()
        value = em.variable(self.name)
        em.line(f"{value} = b[p:e]")
        em.line("p = e")
        return value


class Uuid(AsText, FixedBytes):
    """Sixteen bytes in network order, shown as RFC 9562 text."""

    fixed, column = "16s", "fixed_size_binary[16]"

    @staticmethod
    def spell(value: bytes, /) -> str:
        text = value.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def randval(self) -> Any:
        return Random(lambda: random.randbytes(16))
