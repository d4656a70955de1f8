"""Fields that other frames tell, or that are worked out: their Arrow types and what they mean."""

from __future__ import annotations

from wiredecode.protocols.base import Generated

GENERATED = {
    "pravega.segment": Generated("string", "segment of the writer, from its SetupAppend"),
    "pravega.session_version": Generated("int32", "on the second Hello: the version both sides speak"),
    "pravega.block": Generated("int64", "frame of the AppendBlock (or BeginAppendBlock) that this ends"),
    "pravega.tail": Generated("string", "how the block ends: PartialEvent, Padding"),
    "pravega.append_length": Generated("int64", "bytes the segment gets"),
    "pravega.append": Generated("binary", "these bytes, where they are not framed events"),
    "pravega.framed": Generated("bool", "false: not framed events"),
    "pravega.event_count": Generated("int64", "events that end here"),
    "pravega.events": Generated("list<struct>", "the events that end here"),
    "pravega.events.event_number": Generated("int64", "number the writer gave it"),
    "pravega.events.offset": Generated("int64", "where in the segment its header starts"),
    "pravega.events.data": Generated("binary", "the event"),
    "pravega.unfinished_event_offset": Generated(
        "int64", "where in the segment the event starts that the next reply continues"
    ),
    "pravega.unfinished_event_bytes": Generated("int64", "bytes of it so far, its header included"),
    "pravega.acknowledged_appends": Generated("int64", "how many appends are acknowledged at once"),
    "pravega.requests": Generated("list<int64>", "frames of these appends, the oldest first, where they are several"),
    "pravega.begun_in": Generated("int64", "frame of the first part of the message"),
    "pravega.whole": Generated("json", "the message that the parts make"),
    "pravega.whole_length": Generated("int64", "its length, header included"),
    "pravega.whole_data": Generated("binary", "its bytes, where they make no message"),
    "pravega.at_tail": Generated("bool", "the flag, from either end of the byte"),
    "pravega.end_of_segment": Generated("bool", "the flag, from either end of the byte"),
}
