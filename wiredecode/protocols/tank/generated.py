"""Fields that other frames tell, or that are worked out: their Arrow types and what they mean."""

from __future__ import annotations

from wiredecode.protocols.base import Generated

GENERATED = {
    "tank.targets": Generated(
        "string", "the first partitions that the frame is about; where it is one, tank.topic and tank.partition"
    ),
    "tank.messages": Generated("int64", "messages in the frame"),
    "tank.first_sequence_number": Generated(
        "uint64", "lowest number of the messages in the frame, where they are of one partition"
    ),
    "tank.last_sequence_number": Generated("uint64", "highest number of the messages in the frame"),
    "tank.sequence_number": Generated("uint64", "number that all partitions of a Consume begin with"),
    "tank.topics.partitions.start": Generated("string", "what a reserved sequence number means"),
    "tank.topics.partitions.requested_sequence_number": Generated("uint64", "what the request asked for"),
    "tank.topics.partitions.requested_fetch_size": Generated("uint32", "what the request asked for"),
    "tank.topics.partitions.requested_start": Generated(
        "string", "what the reserved sequence number of the request means"
    ),
    "tank.partitions.partition": Generated("uint16", "partition that the record is about, by the request"),
    "tank.results.topic": Generated("string", "topic that the result is for, by the request"),
    "tank.results.partition": Generated("uint16", "partition that the result is for, by the request"),
    "tank.results.partitions": Generated(
        "list<uint16>", "partitions that the result is for, where it stands for a whole topic"
    ),
    "tank.chunks.topic": Generated("string", "topic of the chunk, by the header"),
    "tank.chunks.partition": Generated("uint16", "partition of the chunk, by the header"),
    "tank.chunks.partial_bundle.present_bytes": Generated("int64", "bytes that are there of the bundle that is cut"),
    "tank.chunks.partial_bundle.missing_bytes": Generated("int64", "bytes that are missing of it"),
    **{
        f"tank.{bundle}.{name}": field
        for bundle in ("topics.partitions.bundle", "chunks.bundles.bundle", "chunks.partial_bundle")
        for name, field in {
            "codec": Generated("string", "compression of the messages, by the flags"),
            "sparse": Generated("bool", "whether the flags say that sequence numbers have gaps"),
            "uncompressed_length": Generated("int64", "size of the messages, decompressed"),
            "problem": Generated("string", "why the messages could not be decompressed"),
            "messages.sequence_number": Generated("uint64", "number of the message in its partition"),
            "messages.below_requested": Generated("bool", "before what was asked for: clients drop it"),
            "messages.above_high_water_mark": Generated("bool", "not committed: clients drop it"),
        }.items()
    },
}

COLUMN_TYPES = {"tank.topic": "string", "tank.partition": "uint16"}
"""Fields of some messages that others have too, by what they are about."""
