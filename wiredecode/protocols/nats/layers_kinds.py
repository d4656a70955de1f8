"""Field kinds that only NATS has: the header block, and the marks ``+`` and ``|`` of server links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wiredecode.fields import Array, Binary, Malformed, When, take
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer, Range
from wiredecode.fields.textfields import Decimal, Piece, TextLayer, Until
from wiredecode.protocols.nats.names import is_secret_header

VERSION = b"NATS/1.0"
BLOCK = re.compile(rb"NATS/1\.0[^\r\n]*+\r\n(?:[^:\r\n]*+:[^\r\n]*+\r\n)*+\r\n")
"""A header block: version line, header lines, empty line."""
STATUS = re.compile(rb"[ \t]*([0-9]{3})(?![^ \t\r\n])")
COUNT, BLOCK_END = "header_size", "block end"
TOO_SMALL = "the total size is smaller than that of the header block"


def block_end(position: int, layer: Layer) -> int:
    """Where the header block ends, when the version line begins at ``position``."""
    return int(position + layer.fields[COUNT])


def block_next(data: bytes, position: int, end: int, size: int) -> bool:
    """Whether a header block in the usual form comes next."""
    stop = position + size
    return size > 0 and stop <= end and BLOCK.fullmatch(data, position, stop) is not None


HAS_BLOCK = When(f"block_next({COUNT})", block_next=block_next)
HAS_OTHER_BLOCK = When(f"not has(version) and {COUNT} > 0")
HAS_STATUS = When(f"has(version) and matches({STATUS.pattern!r})")
HAS_DESCRIPTION = When(r"has(version) and matches(rb'[^\r]*?[^\r \t]')")


class Version(Piece):
    """The version that begins a header block; what follows reads up to the end of the block."""

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        stop = position + len(VERSION)
        return position, stop, stop

    def emit(self, em: Emitter) -> str:
        stop = em.variable("h")
        em.line(f"{stop} = p + {em.reference(COUNT)}")
        em.scopes[-1].variables[BLOCK_END] = stop
        return super().emit(em)


class Status(Decimal):
    """Three digits, with or without blanks before them."""

    def scan(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int, int]:
        found = STATUS.match(data, position, end)
        if found is None:
            raise Malformed(self.name, "no status of three digits", position)
        start, stop = found.span(1)
        return start, stop, stop

    def encode(self, value: Any) -> bytes:
        return b"%03d" % value


class Header(TextLayer):
    """``name: value CRLF``"""

    fields_desc = [
        Until("key", "name; case counts", stop=b":"),
        Until("value", "value, without the blanks before it", stop=b"\r\n", skip=b" \t", before=b" "),
    ]

    @classmethod
    def holds_secrets(cls) -> bool:
        return True

    def secret_ranges(self) -> Iterator[Range]:
        if "value" in self.ranges and is_secret_header(self.fields["key"], self.fields["value"]):
            stop = self.ranges["value"][1] - len(b"\r\n")
            yield stop - len(self.fields["value"].encode("utf-8", "surrogateescape")), stop


class Headers(Array):
    """The header lines of the block that the version line began."""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, Header, doc, count=None, **kw)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        # The empty line that ends the block is a separate field.
        return super().read(data, position, block_end(layer.ranges["version"][0], layer) - 2, layer)

    def emit(self, em: Emitter) -> str:
        em.flush()
        whole = em.variable("z")
        em.line(f"{whole}, e = e, {em.scopes[-1].variables[BLOCK_END]} - 2")
        value = super().emit(em)
        em.line(f"e = {whole}")
        return value


class Remainder(Binary):
    """The payload of an operation with headers: what the header block leaves of the total."""

    def __init__(self, name: str, doc: str = "", **kw: Any) -> None:
        super().__init__(name, doc, length="size", **kw)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        size = layer.fields["size"] - layer.fields[COUNT]
        if size < 0:
            raise Malformed(self.name, TOO_SMALL, position)
        stop = take(self.name, position, size, end)
        return data[position:stop], stop

    def emit(self, em: Emitter) -> str:
        value, count = em.variable(self.name), em.variable("c")
        em.line(f"{count} = {em.reference('size')} - {em.reference(COUNT)}")
        em.line(f"if {count} < 0: raise TruncatedField")
        self.emit_value(em, value, count)
        return value
