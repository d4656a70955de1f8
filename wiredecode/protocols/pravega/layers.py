"""The messages that Pravega's releases speak, as in the specification: connection, appends, reads, segments.

Source: Pravega's wire protocol pages and the encoders of its releases; where these disagree, the encoders: see
docs/protocols/pravega.md. All integers are big-endian; strings are modified UTF-8 with a uint16 length. Newer versions
added fields at the end only: readers tell by the bytes that are left whether they are there. Errors are in ``errors``,
table segments in ``tables``, what old releases wrote differently in ``older``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Array, Boolean, Int8, Int32, Int64, Optional, Rest, Struct, Timestamp, UInt32, Uuid, When
from wiredecode.fields.layer import Layer
from wiredecode.protocols.pravega.layers_base import (
    EVENT_TYPE,
    WireMessage,
    blob,
    control,
    header,
    late,
    late_request_id,
    late_token,
    nullable,
    request_id,
    segment,
    token,
    writer,
)
from wiredecode.protocols.pravega.layers_kinds import NO_VALUE, JavaText, Meaning
from wiredecode.protocols.pravega.names import SCALE_TYPES, UPDATE_TYPES

MAX_VERSION = 1000
"""Newest wire version that is believed; there were 17 in seven years."""
UNKNOWN_WRITER = {NO_VALUE: "none"}


def event_number(name: str = "event_number", doc: str = "number the writer gave its event") -> Meaning:
    return Meaning(name, doc, meanings=UNKNOWN_WRITER)


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


class KeepAlive(WireMessage):
    fields_desc = [*header(100), Optional(Rest("data", "ignored by readers"), When("left"))]
    facts = ("data",)


# Appends


class SetupAppend(WireMessage):
    fields_desc = control(1, writer(), segment(), late_token())
    facts = ("segment",)


class AppendSetup(WireMessage):
    fields_desc = control(
        2, segment(), writer(), event_number("last_event_number", "newest event of the writer in store")
    )
    facts = ("segment", "last_event_number")


class AppendBlock(WireMessage):
    """Whole appends, then perhaps a Padding or a PartialEvent; only AppendBlockEnd tells where the appends end."""

    fields_desc = [*header(3), writer(), Rest("data", "appends and what fills the block")]
    facts = ("data",)


class AppendBlockEnd(WireMessage):
    fields_desc = [
        *header(4),
        writer(),
        Int32("size_of_whole_events", "bytes of the block that are whole appends", unit="bytes"),
        nullable("data", "rest of the append that the block cut"),
        Int32("num_events", "events of the block, a cut one included"),
        event_number("last_event_number", "number of the last of them"),
        late_request_id(),
    ]
    facts = ("num_events", "last_event_number")


class FramedEvent(Layer):
    """An event as segments hold it."""

    fields_desc = [Int32("event_type", "always 0", default=EVENT_TYPE), blob("data", "the event")]


class ConditionalAppend(WireMessage):
    fields_desc = [
        *header(5),
        writer(),
        event_number(),
        Int64("expected_offset", "length the segment must have", unit="bytes"),
        Struct("event", FramedEvent, "the event"),
        late_request_id(),
    ]
    facts = ("event_number", "expected_offset")

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return bool(values["event"]["event_type"] == EVENT_TYPE)


class ConditionalBlockEnd(WireMessage):
    fields_desc = [
        *header(89),
        writer(),
        event_number(),
        Int64("expected_offset", "length the segment must have", unit="bytes"),
        nullable("data", "stored as it is: events, bytes, or a piece of a large event"),
        request_id(),
    ]
    facts = ("event_number", "expected_offset", "data")


class PartialEvent(WireMessage):
    """Only inside an AppendBlock: the first bytes of the append that the block cut."""

    fields_desc = [*header(-2), Rest("data", "first bytes of the append")]
    facts = ("data",)


class Padding(WireMessage):
    """Only inside an AppendBlock: what is left of a block that was closed early."""

    fields_desc = [*header(-1), Rest("zeros", "unused")]


class Event(WireMessage):
    """Only inside append data and segments."""

    fields_desc = [*header(EVENT_TYPE), Rest("data", "the event")]
    facts = ("data",)


class DataAppended(WireMessage):
    """Acknowledges all events after ``previous_event_number`` up to ``event_number``."""

    fields_desc = [
        *header(7),
        writer(),
        event_number("event_number", "newest event that is stored"),
        Optional(
            Meaning("previous_event_number", "event before; wire version 4", meanings=UNKNOWN_WRITER, default=-1),
            When("left >= 8"),
        ),
        late_request_id(),
        late("current_segment_write_offset", "length of the segment now; wire version 9", unit="bytes"),
    ]
    facts = ("event_number", "previous_event_number", "current_segment_write_offset")


class ConditionalCheckFailed(WireMessage):
    fields_desc = [*header(8), writer(), event_number(), late_request_id()]
    facts = ("event_number",)


# Reads


class ReadSegment(WireMessage):
    fields_desc = [
        *header(9),
        segment(),
        Int64("offset", "where to read", unit="bytes"),
        Int32("suggested_length", "how much", unit="bytes"),
        late_token(),
        late_request_id(),
    ]
    facts = ("segment", "offset", "suggested_length")


def segment_bytes() -> list[Any]:
    return [
        segment(),
        Int64("offset", "of the first byte", unit="bytes"),
        Boolean("at_tail", "the end of the segment, for now, was reached"),
        Boolean("end_of_segment", "nothing will ever follow"),
        blob("data", "bytes of the segment"),
    ]


class SegmentRead(WireMessage):
    """Bytes of a segment, cut anywhere: events continue from one reply to the next."""

    fields_desc = [*header(10), *segment_bytes(), late_request_id()]
    facts = ("segment", "offset", "data", "at_tail", "end_of_segment")


# Segments


class GetStreamSegmentInfo(WireMessage):
    fields_desc = control(11, segment("segment_name"), late_token())
    facts = ("segment_name",)


def segment_info() -> list[Any]:
    """What all wire versions tell of a segment."""
    return [
        segment("segment_name"),
        Boolean("exists", "whether there is such a segment"),
        Boolean("is_sealed", "whether it is closed for appends"),
        Boolean("is_deleted", "whether it is gone"),
        Timestamp("last_modified", "time of the last change"),
        Int64("write_offset", "length of the segment", unit="bytes"),
    ]


class StreamSegmentInfo(WireMessage):
    fields_desc = control(
        12,
        *segment_info(),
        late("start_offset", "first offset that can be read; wire version 4", default=0, unit="bytes"),
    )
    facts = ("segment_name", "exists", "is_sealed", "write_offset", "start_offset")


class CreateSegment(WireMessage):
    fields_desc = control(
        20,
        segment(),
        Int32("target_rate", "kB/s or events/s, by scale_type"),
        Int8("scale_type", "what makes the stream scale", names=SCALE_TYPES),
        late_token(),
        late("rollover_size_bytes", "size of a chunk in long-term storage; wire version 14", default=0, unit="bytes"),
    )
    facts = ("segment", "scale_type", "target_rate")


class CreateTransientSegment(WireMessage):
    fields_desc = control(40, writer(), segment("parent_segment", "segment it will be merged into"), token())
    facts = ("parent_segment",)


class SealSegment(WireMessage):
    fields_desc = control(28, segment(), late_token())
    facts = ("segment",)


class DeleteSegment(WireMessage):
    fields_desc = control(30, segment(), late_token())
    facts = ("segment",)


class UpdateSegmentPolicy(WireMessage):
    fields_desc = control(
        32,
        segment(),
        Int32("target_rate", "kB/s or events/s, by scale_type"),
        Int8("scale_type", "what makes the stream scale", names=SCALE_TYPES),
        late_token(),
    )
    facts = ("segment", "scale_type", "target_rate")


class GetSegmentAttribute(WireMessage):
    fields_desc = control(34, segment("segment_name"), Uuid("attribute_id", "which attribute"), late_token())
    facts = ("segment_name",)


class SegmentAttribute(WireMessage):
    fields_desc = control(35, Meaning("value", "value of the attribute", meanings={NO_VALUE: "not set"}))
    facts = ("value",)


class UpdateSegmentAttribute(WireMessage):
    fields_desc = control(
        36,
        segment("segment_name"),
        Uuid("attribute_id", "which attribute"),
        Meaning("new_value", "value to set", meanings={NO_VALUE: "not set"}),
        Meaning("expected_value", "value it must have", meanings={NO_VALUE: "not set"}),
        late_token(),
    )
    facts = ("segment_name", "new_value")


class SegmentAttributeUpdated(WireMessage):
    """Also how a MergeSegments is refused whose attribute conditions do not hold."""

    fields_desc = control(37, Boolean("success", "whether it was done"))
    facts = ("success",)


class TruncateSegment(WireMessage):
    fields_desc = control(
        38, segment(), Int64("truncation_offset", "new start of the segment", unit="bytes"), late_token()
    )
    facts = ("segment", "truncation_offset")


class LocateOffset(WireMessage):
    fields_desc = control(41, segment(), Int64("target_offset", "offset to be found", unit="bytes"), token())
    facts = ("segment", "target_offset")


class OffsetLocated(WireMessage):
    fields_desc = control(42, segment(), Int64("offset", "start of an event", unit="bytes"))
    facts = ("segment", "offset")


class AttributeUpdate(Layer):
    fields_desc = [
        Uuid("attribute_id", "which attribute"),
        Int8("attribute_update_type", "how it changes", names=UPDATE_TYPES, default=1),
        Meaning("new_value", "value to set", meanings={NO_VALUE: "not set"}),
        Meaning("old_value", "value it must have", meanings={NO_VALUE: "not set"}),
    ]


class MergeSegments(WireMessage):
    fields_desc = control(
        58,
        segment("target", "segment that grows"),
        segment("source", "segment that becomes its end"),
        token(),
        Optional(Array("attribute_updates", AttributeUpdate, "conditions and changes; wire version 14"), When("left")),
    )
    facts = ("target", "source")


class SegmentsMerged(WireMessage):
    fields_desc = control(
        59,
        segment("target", "segment that grew"),
        segment("source", "segment that became its end"),
        late("new_target_write_offset", "length of the target now; wire version 9", unit="bytes"),
    )
    facts = ("target", "source", "new_target_write_offset")


class MergeSegmentsBatch(WireMessage):
    fields_desc = control(
        90,
        segment("target_segment_id", "segment that grows"),
        Array("source_segment_ids", JavaText("source_segment_ids"), "segments that become its end"),
        token(),
    )
    facts = ("target_segment_id", "source_segment_ids")


class MergedSource(Layer):
    fields_desc = [segment("source"), Int64("new_target_write_offset", "length of the target after it", unit="bytes")]


class SegmentsBatchMerged(WireMessage):
    fields_desc = control(91, segment("target"), Array("pairs", MergedSource, "sources in order"))
    facts = ("target", "pairs")


def done(code: int, name: str) -> type[WireMessage]:
    """A reply that only repeats the segment."""
    return type(
        name, (WireMessage,), {"fields_desc": control(code, segment()), "facts": ("segment",), "__module__": __name__}
    )


SegmentCreated = done(21, "SegmentCreated")
SegmentSealed = done(29, "SegmentSealed")
SegmentDeleted = done(31, "SegmentDeleted")
SegmentPolicyUpdated = done(33, "SegmentPolicyUpdated")
SegmentTruncated = done(39, "SegmentTruncated")


# Admin gateway


class FlushToStorage(WireMessage):
    fields_desc = [*header(-3), Int32("container_id", "container to flush"), token(), request_id()]
    facts = ("container_id",)


class StorageFlushed(WireMessage):
    fields_desc = control(-4)


class ListStorageChunks(WireMessage):
    fields_desc = [*header(-5), segment(), token(), request_id()]
    facts = ("segment",)


class ChunkInfo(Layer):
    fields_desc = [
        Int64("length_in_metadata", "length as recorded", unit="bytes"),
        Int64("length_in_storage", "length as found", unit="bytes"),
        Int64("start_offset", "where in the segment it starts", unit="bytes"),
        JavaText("chunk_name", "name in long-term storage"),
        Boolean("exists_in_storage", "whether it was found"),
    ]


class StorageChunksListed(WireMessage):
    fields_desc = control(-6, Array("chunks", ChunkInfo, "chunks in long-term storage", count=UInt32))
    facts = ("chunks",)
