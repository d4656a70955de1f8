"""What a protobuf message holds beyond its declaration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wiredecode.fields.composition import Array
from wiredecode.fields.kind import take
from wiredecode.fields.numbers import UInt8, UInt32, write_varint
from wiredecode.fields.protobuf.wire import FIXED_WIDTHS, LEN, VARINT, WIRE_TYPES, read_varint
from wiredecode.fields.sized import Rest
from wiredecode.fields.tagged import TaggedLayer


class Content(Rest):
    """The value of an unknown field: a number, or bytes."""

    def present(self, value: Any, show: Callable[[bytes], str]) -> Any:
        return value if isinstance(value, int) else show(value)

    def readable(self, value: Any) -> str:
        return str(value) if isinstance(value, int) else super().readable(value)


class UnknownField(TaggedLayer):
    """An occurrence that the declaration has no place for."""

    __slots__ = written = ("tag_width", "width")
    fields_desc = [  # noqa: RUF012 - Scapy wants a list on the class
        UInt32("number", "field number"),
        UInt8("wire_type", "how the value is written", names=WIRE_TYPES),
        Content("value", "the value"),
    ]

    def __init__(self, *args: Any, **kw: Any) -> None:
        self.tag_width = self.width = 0
        super().__init__(*args, **kw)

    @classmethod
    def within(cls, data: bytes, position: int, end: int) -> UnknownField:
        unknown = cls()
        unknown.explicit, unknown.start = 1, position
        tag, start = read_varint("tag", data, position, end)
        unknown.tag_width = start - position
        number, wire = tag >> 3, tag & 7
        name = f"unknown_fields.{number}"
        value: int | bytes
        if wire == VARINT:
            value, stop = read_varint(name, data, start, end)
            unknown.width = stop - start
        else:
            length = FIXED_WIDTHS.get(wire, 0)
            if wire == LEN:
                length, content = read_varint(name, data, start, end)
                unknown.width, start = content - start, content
            stop = take(name, start, length, end)
            value = data[start:stop]
        unknown.fields = {"number": number, "wire_type": wire, "value": value}
        unknown.stop = stop
        return unknown

    def self_build(self) -> bytes:
        number, wire, value = self.number, self.wire_type, self.value
        tag = write_varint(number << 3 | wire, self.tag_width)
        if isinstance(value, int):
            return tag + write_varint(value, self.width)
        length = write_varint(len(value), self.width) if wire == LEN else b""
        return tag + length + bytes(value)


class UnknownFields(Array):
    """What a message holds beyond its declaration; see :func:`message`."""

    tagged = True
    number = 0

    def __init__(self) -> None:
        doc = "fields that are not known, kept as they are"
        super().__init__("unknown_fields", UnknownField, doc, count=None, default=None)
