"""The messages of table segments: keys and values, both opaque bytes, and the versions that guard them."""

from __future__ import annotations

from wiredecode.fields import Array, Binary, Boolean, Int32, Int64, Kind, LengthOf, Optional, Struct, When
from wiredecode.fields.layer import Layer
from wiredecode.protocols.pravega.layers_base import (
    WireMessage,
    blob,
    control,
    late,
    nullable,
    segment,
    stack_trace,
    token,
)
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE, Meaning

KEY_FIXED = 12
"""What the ``total`` of a key counts besides the bytes."""
VERSIONS = {NO_VALUE: "no version", -1: "does not exist"}


def version() -> Meaning:
    return Meaning("key_version", "version required, or found", meanings=VERSIONS, default=NO_VALUE)


class TableKey(Layer):
    """``total`` counts the version also where an empty key leaves it out."""

    fields_desc = [
        Int32("total", "4 + length + 8, always", unit="bytes", fill=LengthOf("data", plus=KEY_FIXED)),
        Int32("data_length", "length of the key", unit="bytes", default=0),
        Optional(Binary("data", "the key", length="data_length"), When("data_length > 0")),
        Optional(version(), When("data_length > 0")),
    ]


class EagerTableKey(TableKey):
    """As the Rust client would write an empty key: with a version."""

    fields_desc = [*TableKey.fields_desc[:3], version()]


class TableValue(Layer):
    fields_desc = [Int32("total", "4 + length", unit="bytes", fill=LengthOf()), blob("data", "the value")]


class TableEntry(Layer):
    fields_desc = [Struct("key", TableKey, "the key"), Struct("value", TableValue, "the value")]


class EagerTableEntry(Layer):
    fields_desc = [Struct("key", EagerTableKey, "the key"), Struct("value", TableValue, "the value")]


class IteratorArguments(Layer):
    """Where an iteration starts and ends; older versions leave out the last ones."""

    fields_desc = [
        Optional(nullable("continuation_token", "from the reply before; opaque"), When("left >= 4")),
        Optional(nullable("prefix_filter", "empty since wire version 14"), When("left >= 4")),
        Optional(nullable("from_key", "first key"), When("left >= 4")),
        Optional(nullable("to_key", "last key"), When("left >= 4")),
    ]


def keys() -> Kind:
    return Array("keys", TableKey, "keys", bulk=True)


def entries(name: str = "entries") -> Kind:
    return Array(name, TableEntry, "keys with values", bulk=True)


def table_offset() -> Kind:
    meaning = {-1: "any"}
    return Optional(
        Meaning("table_segment_offset", "length the table must have; wire version 10", default=-1, meanings=meaning),
        When("left"),
    )


class GetTableSegmentInfo(WireMessage):
    fields_desc = control(68, segment("segment_name"), token())
    facts = ("segment_name",)


class TableSegmentInfo(WireMessage):
    fields_desc = control(
        69,
        segment("segment_name"),
        Int64("start_offset", "first offset in use", unit="bytes"),
        Int64("length", "length of the segment", unit="bytes"),
        Int64("entry_count", "entries in the table"),
        Int32("key_length", "length of every key; 0: they vary", unit="bytes"),
    )
    facts = ("segment_name", "entry_count", "length")


class CreateTableSegment(WireMessage):
    fields_desc = control(
        70,
        segment(),
        token(),
        Optional(Boolean("sorted_deprecated", "ignored since wire version 14"), When("left >= 1")),
        Optional(Int32("key_length", "length of every key; 0: they vary", unit="bytes"), When("left >= 4")),
        late("rollover_size_bytes", "size of a chunk in long-term storage; wire version 14", default=0, unit="bytes"),
    )
    facts = ("segment", "key_length")


class DeleteTableSegment(WireMessage):
    fields_desc = control(71, segment(), Boolean("must_be_empty", "refuse if it has entries"), token())
    facts = ("segment", "must_be_empty")


class UpdateTableEntries(WireMessage):
    fields_desc = control(74, segment(), token(), entries("table_entries"), table_offset())
    facts = ("segment", "table_entries")


class TableEntriesUpdated(WireMessage):
    fields_desc = control(75, Array("updated_versions", Int64("updated_versions"), "in the order of the request"))
    facts = ("updated_versions",)


class RemoveTableKeys(WireMessage):
    fields_desc = control(76, segment(), token(), keys(), table_offset())
    facts = ("segment", "keys")


class TableKeysRemoved(WireMessage):
    fields_desc = control(77, segment())
    facts = ("segment",)


class ReadTable(WireMessage):
    fields_desc = control(78, segment(), token(), keys())
    facts = ("segment", "keys")


class TableRead(WireMessage):
    fields_desc = control(79, segment(), entries())
    facts = ("segment", "entries")


class ReadTableKeys(WireMessage):
    fields_desc = control(
        83, segment(), token(), Int32("suggested_key_count", "how many"), Struct("args", IteratorArguments, "which")
    )
    facts = ("segment", "suggested_key_count")


class TableKeysRead(WireMessage):
    fields_desc = control(84, segment(), keys(), blob("continuation_token", "for the next request; opaque"))
    facts = ("segment", "keys")


class ReadTableEntries(WireMessage):
    fields_desc = control(
        85, segment(), token(), Int32("suggested_entry_count", "how many"), Struct("args", IteratorArguments, "which")
    )
    facts = ("segment", "suggested_entry_count")


class TableEntriesRead(WireMessage):
    fields_desc = control(86, segment(), entries(), blob("continuation_token", "for the next request; opaque"))
    facts = ("segment", "entries")


class TableEntriesDeltaRead(WireMessage):
    """The reply: its code is below that of its request."""

    fields_desc = control(
        87,
        segment(),
        entries(),
        Boolean("should_clear", "what was read before is void"),
        Boolean("reached_end", "there is no more for now"),
        Int64("last_position", "where to go on"),
    )
    facts = ("segment", "entries")


class ReadTableEntriesDelta(WireMessage):
    fields_desc = control(
        88, segment(), token(), Int64("from_position", "where to start"), Int32("suggested_entry_count", "how many")
    )
    facts = ("segment", "from_position", "suggested_entry_count")


def refusal(code: int, name: str) -> type[WireMessage]:
    """An error of a table; the stack trace was there from the start."""
    fields = control(code, segment(), stack_trace())
    return type(name, (WireMessage,), {"fields_desc": fields, "facts": ("segment",), "__module__": __name__})


TableSegmentNotEmpty = refusal(80, "TableSegmentNotEmpty")
TableKeyDoesNotExist = refusal(81, "TableKeyDoesNotExist")
TableKeyBadVersion = refusal(82, "TableKeyBadVersion")


# Written by the Rust client when a key is empty: tried when the layouts above do not fit.


class UpdateTableEntriesEager(WireMessage):
    type_name = "UpdateTableEntries"
    fields_desc = control(
        74, segment(), token(), Array("table_entries", EagerTableEntry, "keys with values", bulk=True), table_offset()
    )
    facts = ("segment", "table_entries")


class RemoveTableKeysEager(WireMessage):
    type_name = "RemoveTableKeys"
    fields_desc = control(76, segment(), token(), Array("keys", EagerTableKey, "keys", bulk=True), table_offset())
    facts = ("segment", "keys")


class ReadTableEager(WireMessage):
    type_name = "ReadTable"
    fields_desc = control(78, segment(), token(), Array("keys", EagerTableKey, "keys", bulk=True))
    facts = ("segment", "keys")
