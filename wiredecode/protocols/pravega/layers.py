"""The messages that Pravega's releases speak: connection, appends, reads, segments, errors, table segments.

Source: Pravega's wire protocol pages and the encoders of its releases; where these disagree, the encoders: see
docs/protocols/pravega.md. All integers are big-endian; strings are modified UTF-8 with a uint16 length. Newer versions
added fields at the end only: the bytes left show whether they are there. Different layouts of old releases
are in ``layers_older``. Every message begins::

    message_type int32 | message_length uint32 | message_length bytes
"""

import struct
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from wiredecode.fields import (
    OPAQUE,
    Array,
    Binary,
    Boolean,
    Int8,
    Int32,
    Int64,
    Kind,
    LengthOf,
    Optional,
    Rest,
    Struct,
    Timestamp,
    UInt32,
    Uuid,
    When,
)
from wiredecode.fields.layer import Added, Facts, Layer, fact_names
from wiredecode.protocols.pravega import NAME
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE, JavaText, Meaning, RequestId
from wiredecode.protocols.pravega.names import AUTH_ERRORS, ERRORS, SCALE_TYPES, TYPES, UPDATE_TYPES

HEADER = struct.Struct(">iI")
"""Type and length of a message; an event in a segment has the same header, with type 0."""
EVENT_TYPE = 0
NULL = 0xFFFFFFFF
MAX_VERSION = 1000
"""Newest wire version that is believed; there were 17 in seven years."""
KEY_FIXED = 12
"""Bytes that the ``total`` of a key counts besides the key."""
UNKNOWN_WRITER = {NO_VALUE: "none"}
NOT_SET = {NO_VALUE: "not set"}
VERSIONS = {NO_VALUE: "no version", -1: "does not exist"}


class WireMessage(Layer):
    """Base of all messages: fills in ``message_length`` when building."""

    filter_name = NAME
    added = Added.IN_ELEMENTS
    type_name: ClassVar[str]
    """Name of the message, the same for the layouts it had over time."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "type_name" not in cls.__dict__:
            cls.type_name = cls.__name__

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        """Whether values that fit this layout can be meant by it: older layouts may fit by chance."""
        return True


def header(code: int, names: Mapping[int, str] = TYPES) -> list[Any]:
    return [
        Int32("message_type", "what the message is", names=names, default=code),
        UInt32("message_length", "bytes that follow the header", unit="bytes", fill=LengthOf()),
    ]


def bare(
    code: int,
    *fields: Kind,
    facts: Facts = 1,
    doc: str | None = None,
    suffix: str = "",
    names: Mapping[int, str] = TYPES,
    **members: Any,
) -> type[WireMessage]:
    """A message without request id."""
    members |= {"facts": fact_names(facts, fields), "type_name": names[code]}
    return WireMessage.declare(names[code] + suffix, *header(code, names), *fields, doc=doc, **members)


def message(code: int, *fields: Kind, facts: Facts = 1, **members: Any) -> type[WireMessage]:
    """A message that begins with its request id."""
    return bare(code, request_id(), *fields, facts=fact_names(facts, fields), **members)


structure = partial(Layer.declare, module=__name__)


# Fields of many messages.


def request_id() -> Kind:
    return RequestId("request_id", "ties a reply to its request")


def late_request_id() -> Kind:
    """At the end of the messages that had none before wire version 8."""
    return Optional(RequestId("request_id", "ties a reply to its request", default=-1), When("left >= 8"))


def segment(name: str = "segment", doc: str = "name of the segment") -> Kind:
    return JavaText(name, doc)


def writer() -> Kind:
    return Uuid("writer_id", "writer, chosen by the client")


def token() -> Kind:
    """The delegation token, normally a JWT."""
    return JavaText("delegation_token", "proves that the client may do this", secret=True)


def late_token() -> Kind:
    """The token at the end of requests that had none before wire version 5."""
    return Optional(token(), When("left"))


def stack_trace() -> Kind:
    """Since wire version 6, and only if the server sends them."""
    return Optional(
        JavaText("server_stack_trace", "where in the server it failed; wire version 6", free=True), When("left")
    )


def late(name: str, doc: str, default: int = -1, unit: str = "") -> Kind:
    """An int64 that newer versions added at the end."""
    return Optional(Int64(name, doc, default=default, unit=unit), When("left >= 8"))


def offset(name: str, doc: str) -> Kind:
    return Int64(name, doc, unit="bytes")


def blob(name: str, doc: str) -> Kind:
    return Binary(name, doc, length=UInt32)


def nullable(name: str, doc: str) -> Kind:
    """Bytes whose length may also be -1; Pravega reads that as empty."""
    return Binary(name, doc, length=UInt32, null=NULL)


def event_number(name: str = "event_number", doc: str = "number the writer gave its event") -> Meaning:
    return Meaning(name, doc, meanings=UNKNOWN_WRITER)


def attribute(name: str, doc: str) -> Meaning:
    return Meaning(name, doc, meanings=NOT_SET)


def attribute_id() -> Kind:
    return Uuid("attribute_id", "which attribute")


def scaling() -> list[Any]:
    return [
        Int32("target_rate", "kB/s or events/s, by scale_type"),
        Int8("scale_type", "what makes the stream scale", names=SCALE_TYPES),
        late_token(),
    ]


def rollover() -> Kind:
    return late("rollover_size_bytes", "size of a chunk in long-term storage; wire version 14", default=0, unit="bytes")


class Unknown(WireMessage):
    """A type this package does not know: the length still delimits it."""

    fields_desc = [*header(0), Rest("body", "everything after the header", secret=True)]
    facts = ("message_type",)


# Connection


class Hello(WireMessage):
    """First in both directions: the newest and the oldest version the sender understands, in this order."""

    fields_desc = [
        *header(-127),
        Int32("high_version", "newest wire version the sender speaks"),
        Int32("low_version", "oldest wire version it understands"),
    ]
    facts = ("high_version", "low_version")

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return bool(1 <= values["low_version"] <= values["high_version"] <= MAX_VERSION)


KeepAlive = bare(100, Optional(Rest("data", "ignored by readers", **OPAQUE), When("left")))

# Appends

SetupAppend = message(1, writer(), segment(), late_token(), facts=("segment",))
last_event = event_number("last_event_number", "newest event of the writer in store")
AppendSetup = message(2, segment(), writer(), last_event, facts=("segment", "last_event_number"))
AppendBlock = bare(
    3,
    writer(),
    Rest("data", "appends and what fills the block"),
    facts=("data",),
    doc="Whole appends, then perhaps a Padding or a PartialEvent; only AppendBlockEnd contains where the appends end.",
)
AppendBlockEnd = bare(
    4,
    writer(),
    Int32("size_of_whole_events", "bytes of the block that are whole appends", unit="bytes"),
    nullable("data", "rest of the append that the block cut"),
    Int32("num_events", "events of the block, a cut one included"),
    event_number("last_event_number", "number of the last one"),
    late_request_id(),
    facts=("num_events", "last_event_number"),
)


class FramedEvent(Layer):
    """An event as segments hold it."""

    fields_desc = [Int32("event_type", "always 0", default=EVENT_TYPE), blob("data", "the event")]


class ConditionalAppend(WireMessage):
    fields_desc = [
        *header(5),
        writer(),
        event_number(),
        offset("expected_offset", "length the segment must have"),
        Struct("event", FramedEvent, "the event"),
        late_request_id(),
    ]
    facts = ("event_number", "expected_offset")

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return bool(values["event"]["event_type"] == EVENT_TYPE)


ConditionalBlockEnd = bare(
    89,
    writer(),
    event_number(),
    offset("expected_offset", "length the segment must have"),
    nullable("data", "stored as it is: events, bytes, or a piece of a large event"),
    request_id(),
    facts=("event_number", "expected_offset", "data"),
)
PartialEvent = bare(
    -2,
    Rest("data", "first bytes of the append"),
    doc="Only inside an AppendBlock: the first bytes of the append that the block cut.",
)
Padding = bare(
    -1,
    Rest("zeros", "unused"),
    facts=0,
    doc="Only inside an AppendBlock: what is left of a block that was closed early.",
)
Event = bare(EVENT_TYPE, Rest("data", "the event"), doc="Only inside append data and segments.")
DataAppended = bare(
    7,
    writer(),
    event_number("event_number", "newest event that is stored"),
    Optional(
        Meaning("previous_event_number", "event before; wire version 4", meanings=UNKNOWN_WRITER, default=-1),
        When("left >= 8"),
    ),
    late_request_id(),
    late("current_segment_write_offset", "length of the segment now; wire version 9", unit="bytes"),
    facts=("event_number", "previous_event_number", "current_segment_write_offset"),
    doc="Acknowledges all events after ``previous_event_number`` up to ``event_number``.",
)
ConditionalCheckFailed = bare(8, writer(), event_number(), late_request_id(), facts=("event_number",))

# Reads

ReadSegment = bare(
    9,
    segment(),
    offset("offset", "where to read"),
    Int32("suggested_length", "how much", unit="bytes"),
    late_token(),
    late_request_id(),
    facts=3,
)


def segment_bytes() -> list[Any]:
    return [
        segment(),
        offset("offset", "of the first byte"),
        Boolean("at_tail", "the end of the segment, for now, was reached"),
        Boolean("end_of_segment", "nothing will ever follow"),
        blob("data", "bytes of the segment"),
    ]


SegmentRead = bare(
    10,
    *segment_bytes(),
    late_request_id(),
    facts=("segment", "offset", "data", "at_tail", "end_of_segment"),
    doc="Bytes of a segment, cut anywhere: events continue from one reply to the next.",
)

# Segments

GetStreamSegmentInfo = message(11, segment("segment_name"), late_token())


def segment_info() -> list[Any]:
    """Fields of a segment in all wire versions."""
    return [
        segment("segment_name"),
        Boolean("exists", "whether there is such a segment"),
        Boolean("is_sealed", "whether it is closed for appends"),
        Boolean("is_deleted", "whether it is gone"),
        Timestamp("last_modified", "time of the last change"),
        offset("write_offset", "length of the segment"),
    ]


StreamSegmentInfo = message(
    12,
    *segment_info(),
    late("start_offset", "first offset that can be read; wire version 4", default=0, unit="bytes"),
    facts=("segment_name", "exists", "is_sealed", "write_offset", "start_offset"),
)
CreateSegment = message(20, segment(), *scaling(), rollover(), facts=("segment", "scale_type", "target_rate"))
CreateTransientSegment = message(
    40, writer(), segment("parent_segment", "segment it will be merged into"), token(), facts=("parent_segment",)
)
SealSegment = message(28, segment(), late_token())
DeleteSegment = message(30, segment(), late_token())
UpdateSegmentPolicy = message(32, segment(), *scaling(), facts=("segment", "scale_type", "target_rate"))
GetSegmentAttribute = message(34, segment("segment_name"), attribute_id(), late_token())
SegmentAttribute = message(35, attribute("value", "value of the attribute"))
UpdateSegmentAttribute = message(
    36,
    segment("segment_name"),
    attribute_id(),
    attribute("new_value", "value to set"),
    attribute("expected_value", "value it must have"),
    late_token(),
    facts=("segment_name", "new_value"),
)
SegmentAttributeUpdated = message(
    37,
    Boolean("success", "whether it was done"),
    doc="Also how a MergeSegments is refused whose attribute conditions do not hold.",
)
TruncateSegment = message(38, segment(), offset("truncation_offset", "new start of the segment"), late_token(), facts=2)
LocateOffset = message(41, segment(), offset("target_offset", "offset to be found"), token(), facts=2)
OffsetLocated = message(42, segment(), offset("offset", "start of an event"), facts=2)
AttributeUpdate = structure(
    "AttributeUpdate",
    attribute_id(),
    Int8("attribute_update_type", "how it changes", names=UPDATE_TYPES, default=1),
    attribute("new_value", "value to set"),
    attribute("old_value", "value it must have"),
)
MergeSegments = message(
    58,
    segment("target", "segment that grows"),
    segment("source", "segment that becomes its end"),
    token(),
    Optional(Array("attribute_updates", AttributeUpdate, "conditions and changes; wire version 14"), When("left")),
    facts=2,
)
SegmentsMerged = message(
    59,
    segment("target", "segment that grew"),
    segment("source", "segment that became its end"),
    late("new_target_write_offset", "length of the target now; wire version 9", unit="bytes"),
    facts=3,
)
MergeSegmentsBatch = message(
    90,
    segment("target_segment_id", "segment that grows"),
    Array("source_segment_ids", JavaText("source_segment_ids"), "segments that become its end"),
    token(),
    facts=2,
)
MergedSource = structure(
    "MergedSource", segment("source"), offset("new_target_write_offset", "length of the target after it")
)
SegmentsBatchMerged = message(91, segment("target"), Array("pairs", MergedSource, "sources in order"), facts=2)
SegmentCreated = message(21, segment())
SegmentSealed = message(29, segment())
SegmentDeleted = message(31, segment())
SegmentPolicyUpdated = message(33, segment())
SegmentTruncated = message(39, segment())

# Admin gateway

FlushToStorage = bare(-3, Int32("container_id", "container to flush"), token(), request_id())
StorageFlushed = message(-4)
ListStorageChunks = bare(-5, segment(), token(), request_id())
ChunkInfo = structure(
    "ChunkInfo",
    offset("length_in_metadata", "length as recorded"),
    offset("length_in_storage", "length as found"),
    offset("start_offset", "where in the segment it starts"),
    JavaText("chunk_name", "name in long-term storage"),
    Boolean("exists_in_storage", "whether it was found"),
)
StorageChunksListed = message(-6, Array("chunks", ChunkInfo, "chunks in long-term storage", count=UInt32))

# Replies that mean no

WrongHost = message(50, segment(), JavaText("correct_host", "who serves the segment"), stack_trace(), facts=2)
SegmentIsSealed = message(
    51,
    segment(),
    stack_trace(),
    late("offset", "offset or event number; wire version 8"),
    facts=("segment", "offset"),
    doc="``offset`` is an event number when this answers an append.",
)
SegmentAlreadyExists = message(52, segment(), stack_trace())
NoSuchSegment = message(
    53, segment(), stack_trace(), late("offset", "offset asked for; wire version 8"), facts=("segment", "offset")
)


class InvalidEventNumber(WireMessage):
    """Since wire version 16 the event number is last; before, it was at the place of the request id."""

    fields_desc = [
        *header(55),
        writer(),
        request_id(),
        stack_trace(),
        late("event_number", "number that was refused; wire version 16"),
    ]
    facts = ("event_number",)

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return "event_number" in values


SegmentIsTruncated = message(
    56,
    segment(),
    offset("start_offset", "first offset that can be read"),
    stack_trace(),
    late("offset", "offset asked for; wire version 8", unit="bytes"),
    facts=("segment", "start_offset", "offset"),
)
OperationUnsupported = message(57, JavaText("operation_name", "what is not supported"), stack_trace())
AuthTokenCheckFailed = message(
    60,
    stack_trace(),
    Optional(Int32("error_code", "why; wire version 9", names=AUTH_ERRORS, default=-1), When("left >= 4")),
    facts=("error_code",),
    doc="The answer to a refused read carries the read's offset for its request id.",
)
ErrorMessage = message(
    61,
    segment(),
    JavaText("message", "what went wrong"),
    Int32("error_code", "kind", names=ERRORS, default=-1),
    facts=3,
)

# Table segments: keys and values, both opaque bytes, and the versions that guard them


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


TableValue = structure(
    "TableValue", Int32("total", "4 + length", unit="bytes", fill=LengthOf()), blob("data", "the value")
)
TableEntry = structure("TableEntry", Struct("key", TableKey, "the key"), Struct("value", TableValue, "the value"))
EagerTableEntry = structure(
    "EagerTableEntry", Struct("key", EagerTableKey, "the key"), Struct("value", TableValue, "the value")
)


class IteratorArguments(Layer):
    """Where an iteration starts and ends; older versions leave out the last ones."""

    fields_desc = [
        Optional(nullable("continuation_token", "from the reply before; opaque"), When("left >= 4")),
        Optional(nullable("prefix_filter", "empty since wire version 14"), When("left >= 4")),
        Optional(nullable("from_key", "first key"), When("left >= 4")),
        Optional(nullable("to_key", "last key"), When("left >= 4")),
    ]


def keys(key: type[Layer] = TableKey) -> Kind:
    return Array("keys", key, "keys", bulk=True)


def entries(name: str = "entries", entry: type[Layer] = TableEntry) -> Kind:
    return Array(name, entry, "keys with values", bulk=True)


def table_offset() -> Kind:
    meaning = {-1: "any"}
    return Optional(
        Meaning("table_segment_offset", "length the table must have; wire version 10", default=-1, meanings=meaning),
        When("left"),
    )


def key_length() -> Kind:
    return Int32("key_length", "length of every key; 0: they vary", unit="bytes")


def continuation() -> Kind:
    return blob("continuation_token", "for the next request; opaque")


def arguments() -> Kind:
    return Struct("args", IteratorArguments, "which")


GetTableSegmentInfo = message(68, segment("segment_name"), token())
TableSegmentInfo = message(
    69,
    segment("segment_name"),
    offset("start_offset", "first offset in use"),
    offset("length", "length of the segment"),
    Int64("entry_count", "entries in the table"),
    key_length(),
    facts=("segment_name", "entry_count", "length"),
)
CreateTableSegment = message(
    70,
    segment(),
    token(),
    Optional(Boolean("sorted_deprecated", "ignored since wire version 14"), When("left >= 1")),
    Optional(key_length(), When("left >= 4")),
    rollover(),
    facts=("segment", "key_length"),
)
DeleteTableSegment = message(71, segment(), Boolean("must_be_empty", "refuse if it has entries"), token(), facts=2)
UpdateTableEntries = message(
    74, segment(), token(), entries("table_entries"), table_offset(), facts=("segment", "table_entries")
)
TableEntriesUpdated = message(75, Array("updated_versions", Int64("updated_versions"), "in the order of the request"))
RemoveTableKeys = message(76, segment(), token(), keys(), table_offset(), facts=("segment", "keys"))
TableKeysRemoved = message(77, segment())
ReadTable = message(78, segment(), token(), keys(), facts=("segment", "keys"))
TableRead = message(79, segment(), entries(), facts=2)
ReadTableKeys = message(
    83,
    segment(),
    token(),
    Int32("suggested_key_count", "how many"),
    arguments(),
    facts=("segment", "suggested_key_count"),
)
TableKeysRead = message(84, segment(), keys(), continuation(), facts=2)
ReadTableEntries = message(
    85,
    segment(),
    token(),
    Int32("suggested_entry_count", "how many"),
    arguments(),
    facts=("segment", "suggested_entry_count"),
)
TableEntriesRead = message(86, segment(), entries(), continuation(), facts=2)
TableEntriesDeltaRead = message(
    87,
    segment(),
    entries(),
    Boolean("should_clear", "what was read before is void"),
    Boolean("reached_end", "there is no more for now"),
    Int64("last_position", "where to continue"),
    facts=2,
    doc="The reply: its code is below that of its request.",
)
ReadTableEntriesDelta = message(
    88,
    segment(),
    token(),
    Int64("from_position", "where to start"),
    Int32("suggested_entry_count", "how many"),
    facts=("segment", "from_position", "suggested_entry_count"),
)
TableSegmentNotEmpty = message(80, segment(), stack_trace())
TableKeyDoesNotExist = message(81, segment(), stack_trace())
TableKeyBadVersion = message(82, segment(), stack_trace())

# Written by the Rust client when a key is empty: tried when the layouts above do not fit.

UpdateTableEntriesEager = message(
    74,
    segment(),
    token(),
    entries("table_entries", EagerTableEntry),
    table_offset(),
    facts=("segment", "table_entries"),
    suffix="Eager",
)
RemoveTableKeysEager = message(
    76, segment(), token(), keys(EagerTableKey), table_offset(), facts=("segment", "keys"), suffix="Eager"
)
ReadTableEager = message(78, segment(), token(), keys(EagerTableKey), facts=("segment", "keys"), suffix="Eager")
