"""The field kinds that only TANK needs: its endpoints, the header of answers to Consume, truncated structures."""

from ipaddress import IPv4Address
from typing import Any

from wiredecode import fields
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer


class U16(fields.UInt16):
    """16 bits, little-endian as all numbers of TANK."""

    little = True


class U32(fields.UInt32):
    """32 bits, little-endian."""

    little = True


class U64(fields.UInt64):
    """64 bits, little-endian."""

    little = True


class Milliseconds(fields.AsText, U64):
    """A time, by convention in ms since 1970; RFC 3339 in records, other conventions as the number they are."""

    column = "timestamp[ms, UTC]"
    spell = staticmethod(fields.rfc3339_ms)


class Seconds(fields.AsText, U32):
    """A time in seconds since 1970; RFC 3339 in records."""

    column = "timestamp[s, UTC]"

    @staticmethod
    def spell(value: int, /) -> str | int:
        return fields.rfc3339_ms(value * 1000)


class Endpoint(fields.AsText, fields.FixedBytes):
    """An IPv4 address in network order and a port, little-endian; shown as ``address:port``."""

    fixed, column = "6s", "string"

    @staticmethod
    def spell(value: bytes, /) -> str:
        return f"{IPv4Address(value[:4])}:{int.from_bytes(value[4:], 'little')}"

    def write(self, value: bytes | str | None, layer: Layer) -> bytes:
        if isinstance(value, str):
            address, _, port = value.partition(":")
            return IPv4Address(address).packed + int(port).to_bytes(2, "little")
        return super().write(value, layer)


# The header of the answers to Consume, which follows its length.

HEADER_LENGTH = "header_length"
"""The field that says how many bytes follow it up to the chunks."""


class InHeader(fields.Kind):
    """Mixed into a kind that must not read beyond the header."""

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Any, int]:
        header_end = layer.ranges[HEADER_LENGTH][1] + layer.fields[HEADER_LENGTH]
        stop = max(position, min(end, header_end))
        return super().read(data, position, stop, layer)

    def emit(self, em: Emitter) -> str:
        with em.limit_to(f"max(p, min(e, {em.reach(HEADER_LENGTH)}))"):
            return super().emit(em)


class HeaderArray(InHeader, fields.Array):
    """An array inside the header."""


class HeaderRest(InHeader, fields.Rest):
    """The rest of the header."""


# Structures that may be truncated.


class Tail(fields.Struct):
    """A structure that may be truncated: its readable part, and as ``cut`` the bytes of the next field."""

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[Layer, int]:
        inner = self.layer.within(data, position, end)
        if inner.problem is not None:
            inner.problem = None
            if inner.stop < end:
                inner.fields["cut"], inner.ranges["cut"] = data[inner.stop : end], (inner.stop, end)
            inner.stop = end
        return inner, end

    def emit(self, em: Emitter) -> str:
        em.flush()
        target = em.variable("d")
        em.line(f"{target} = {{}}")
        with em.block("try:"):
            em.scope(self.layer, target, created=True)
        with em.block("except DecodeError:"), em.block("if p < e:"):
            em.line(f"{target}['cut'] = {'show(b[p:e])' if em.mode == 'record' else 'b[p:e]'}")
            em.line("p = e")
        return target
