"""What only the envelope needs: a header whose own length field says where the payload starts."""

from __future__ import annotations

from typing import Any

from wiredecode.fields import Binary, UInt32, take
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer

CRC_FLAG = 0x01
SHORT_HEADER, LONG_HEADER = 8, 12
"""Header without and with CRC."""


class Hex32(UInt32):
    """A number that people read in hexadecimal."""

    def readable(self, value: Any) -> str:
        return "None" if value is None else f"0x{value:08x}"


def extension(header_length: int, checksum: bool) -> int:
    """Header bytes after the fields that are known."""
    return header_length - (LONG_HEADER if checksum else SHORT_HEADER)


class Extension(Binary):
    """The header bytes up to ``header_length``."""

    asks = ("crc",)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        length = extension(layer.fields["header_length"], "crc" in layer.fields)
        stop = take(self.name, position, length, end)
        return data[position:stop], stop

    def write(self, value: bytes, layer: Layer) -> bytes:
        return bytes(value)

    def minimum(self) -> int:
        return 0

    def emit(self, em: Emitter) -> str:
        value, length = em.variable(self.name), em.variable("n")
        header = em.reference("header_length")
        em.line(f"{length} = {em.constant(extension)}({header}, {em.presence('crc')})")
        self.emit_value(em, value, length)
        return value
