"""The binary payload of a ReplicationResponse: entries of the partition's log as the leader stored them.

Source: liftbridge server/commitlog (message.go, message_set.go) and server/replicator.go. All integers are big-endian::

    epoch u64 | high watermark i64 | entries to the end
    entry:    offset i64 | timestamp i64 | leader epoch u64 | size u32 | message of that size
    message:  crc u32 | magic i8 | attributes i8 | key | value | header count u16 | headers

Each message has its own CRC-32C, over everything after it.
"""

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import crc32c

from wiredecode import fields
from wiredecode.fields import compiler
from wiredecode.fields.emitter import Emitter
from wiredecode.fields.layer import Layer

CRC_FLAG = 0x01
SHORT_HEADER, LONG_HEADER = 8, 12
"""Header without and with CRC."""


class Hex32(fields.UInt32):
    """A number that people read in hexadecimal."""

    def readable(self, value: Any) -> str:
        return "None" if value is None else f"0x{value:08x}"


def extension(header_length: int, checksum: bool) -> int:
    """Header bytes after the fields that are known."""
    return header_length - (LONG_HEADER if checksum else SHORT_HEADER)


class Extension(fields.Binary):
    """The header bytes up to ``header_length``."""

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[bytes, int]:
        length = extension(layer.fields["header_length"], "crc" in layer.fields)
        stop = fields.take(self.name, position, length, end)
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


ENTRY_HEADER = 28
"""Followers ignore up to this many bytes after the last entry."""
SIZE_AT = 24
CHECKED_FROM = 4
"""The CRC of a message covers it from here on."""
MESSAGE_MAGIC = 1

read_size = struct.Struct(">I").unpack_from
read_size_and_crc = struct.Struct(">II").unpack_from


class MessageHeader(Layer):
    fields_desc = [
        fields.Text("key", "name", length=fields.UInt16),
        fields.Binary("value", "value; null: none", length=fields.Int32, null=-1, named_by="key"),
    ]


def checksum(layer: Layer, following: Mapping[str, bytes]) -> int:
    return int(crc32c.crc32c(b"".join(reversed([*following.values()]))))


class Entry(Layer):
    """A message of the log with the offset it got."""

    fields_desc = [
        fields.Int64("offset", "offset in the partition"),
        fields.TimestampNs("timestamp", "when the leader received it"),
        fields.UInt64("leader_epoch", "epoch of the leader that stored it"),
        fields.UInt32("size", "bytes of the message that follows", unit="bytes", fill=fields.LengthOf()),
        Hex32("crc", "CRC-32C of the message after this field", fill=checksum),
        fields.Int8("magic_byte", "version of the format", default=MESSAGE_MAGIC),
        fields.Int8("attributes", "no bit is assigned"),
        fields.Binary("key", "key; null: none", length=fields.Int32, null=-1, default=None),
        fields.Binary("value", "value; null: none", length=fields.Int32, null=-1, default=None),
        fields.Array("headers", MessageHeader, "headers; the server adds subject and reply", count=fields.UInt16),
        fields.Optional(fields.Rest("surplus", "bytes after the last header", **fields.OPAQUE), fields.When("left")),
    ]


class Entries(fields.Array):
    """Entries to the end of the frame, each within its own size."""

    def __init__(self, name: str, doc: str = "") -> None:
        super().__init__(name, Entry, doc, count=None, bulk=True)

    def read(self, data: bytes, position: int, end: int, layer: Layer) -> tuple[list[Any], int]:
        entries: list[Any] = []
        while end - position > ENTRY_HEADER:
            path = f"{self.name}[{len(entries)}]"
            size = read_size(data, position + SIZE_AT)[0]
            try:
                stop = fields.take("", position + ENTRY_HEADER, size, end)
                entry, position = self.element.read(data, position, stop, layer)
            except fields.Truncated as short:
                if short.partial is not None:
                    entries.append(short.partial)
                inside = short.field.removeprefix(self.name)
                raise fields.Truncated(path + inside, short.needed, short.had, short.start, entries) from None
            entries.append(entry)
        return entries, position

    def emit(self, em: Emitter) -> str:
        em.flush()
        if em.walks:
            em.ended = em.mode == "head"
            count = em.variable("n")
            em.line(f"{count}, p = {em.constant(count_entries)}(b, p, e)")
            return count
        entries, index, end = em.variable("l"), em.variable("n"), em.variable("e")
        em.line(f"{entries} = []")
        em.line(f"{index}, {end} = 0, e")
        size = em.constant(read_size)
        with em.block(f"while {end} - p > {ENTRY_HEADER}:"):
            em.line(f"e = p + {ENTRY_HEADER} + {size}(b, p + {SIZE_AT})[0]")
            em.line(f"if e > {end}: raise DecodeError")
            em.element(self, entries, index)
            em.line(f"{index} += 1")
        em.line(f"e = {end}")
        return entries


def count_entries(b: bytes, p: int, e: int) -> tuple[int, int]:
    """Count the entries by their sizes only; return the number and the position after the last."""
    count = 0
    while e - p > ENTRY_HEADER:
        p += ENTRY_HEADER + read_size(b, p + SIZE_AT)[0]
        if p > e:
            raise compiler.DecodeError
        count += 1
    return count, p


class BadMessage(NamedTuple):
    """A stored message with a bad CRC or of an unknown format."""

    number: int
    position: int
    stored: int
    """The CRC that it carries."""
    actual: int
    """The CRC of its bytes."""
    magic_byte: int


def verify(b: bytes, p: int, e: int) -> tuple[int, list[BadMessage]]:
    """Verify the CRC and the format of every whole entry of ``b[p:e]``: their number, and those that are bad."""
    view, checksum = memoryview(b), crc32c.crc32c
    count, bad = 0, []
    while e - p > ENTRY_HEADER + CHECKED_FROM:
        start = p + ENTRY_HEADER
        size, stored = read_size_and_crc(b, p + SIZE_AT)
        stop = start + size
        if stop > e or size <= CHECKED_FROM:
            break
        actual = checksum(view[start + CHECKED_FROM : stop])
        if actual != stored or b[start + CHECKED_FROM] != MESSAGE_MAGIC:
            bad.append(BadMessage(count, p, stored, actual, b[start + CHECKED_FROM]))
        count += 1
        p = stop
    return count, bad
