"""Contents of Publish and Deliver: entries, sub-batches and Osiris chunks (rabbitmq/osiris, src/osiris_log.erl)."""

import zlib
from collections.abc import Mapping
from typing import Any

from wiredecode.fields import (
    Array,
    Binary,
    Optional,
    Struct,
    Text,
    Timestamp,
    UInt8,
    UInt16,
    UInt24,
    UInt32,
    UInt64,
    When,
)
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import OK, Frame
from wiredecode.protocols.rabbitmq_stream import layers_sub_batches as sub_batches
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import SubBatch, message
from wiredecode.protocols.rabbitmq_stream.names import CHUNK_TYPES, TRACKING_TYPES
from wiredecode.protocols.shared.amqp.secrets import secret_ranges

CHUNK_MAGIC = 0x50


def entry_fields() -> list[Any]:
    """A simple message or a sub-batch: the top bit of the next byte decides."""
    return [
        Optional(Struct("sub_batch", SubBatch, "several messages as one entry"), When("peek(1) & 0x80 == 0x80")),
        Optional(Binary("data", "the message", inner=message, credentials=secret_ranges), When("not has(sub_batch)")),
    ]


class ChunkEntry(Layer):
    """An entry of a user chunk."""

    marked_by = "sub_batch"
    fields_desc = entry_fields()

    @classmethod
    def minimum(cls) -> int:
        return 4


class TrackingRecord(Layer):
    """State in a stream besides messages: publisher sequences and consumer offsets."""

    fields_desc = [
        UInt8("tracking_type", "what is tracked", names=TRACKING_TYPES),
        Text("reference", "publisher or consumer reference", length=UInt8),
        UInt64("value", "sequence, offset or timestamp (ms)"),
    ]


class SnapshotRecord(Layer):
    """A tracking record in a snapshot chunk: sequences come with the chunk in which they were seen."""

    fields_desc = [
        UInt8("tracking_type", "what is tracked", names=TRACKING_TYPES),
        Text("reference", "publisher or consumer reference", length=UInt8),
        Optional(UInt64("chunk_id", "chunk of the sequence"), When("tracking_type == 0")),
        UInt64("value", "sequence, offset or timestamp (ms)"),
    ]


class TrackingEntry(Layer):
    """The entry of a tracking delta chunk."""

    fields_desc = [
        UInt32("entry_length", "size of the records", unit="bytes"),
        Array("records", TrackingRecord, count=None, size="entry_length"),
    ]


class SnapshotEntry(Layer):
    """The entry of a tracking snapshot chunk."""

    fields_desc = [
        UInt32("entry_length", "size of the records", unit="bytes"),
        Array("records", SnapshotRecord, count=None, size="entry_length"),
    ]


DATA = ("entries", "tracking", "snapshot")
"""Possible contents of the data section."""


def message_count(layer: Layer, following: Mapping[str, bytes]) -> int:
    """Messages of the entries; what else a chunk holds counts as one each."""
    entries = [entry for name in DATA for entry in layer.fields.get(name, ())]
    return sum(entry.sub_batch.record_count if "sub_batch" in entry.fields else 1 for entry in entries)


def checksum(layer: Layer, following: Mapping[str, bytes]) -> int:
    return zlib.crc32(b"".join(following.get(name, b"") for name in DATA))


class Chunk(Layer):
    """An Osiris chunk as a client sees it.

    The header (48 bytes) is the one of the log file. The bloom filter that it announces is never sent, the trailer
    only to subscribers with ``chunk_selector`` = ``all``: both lengths may name bytes that are not there::

         0      1          2              4             8           16      24         32    36           40
        +------+----------+--------------+-------------+-----------+-------+----------+-----+------------+---------
        |0x50  |chunk_type|num_entries 2 |num_records 4|timestamp 8|epoch 8|chunk_id 8|crc 4|data_length |trailer
        +------+----------+--------------+-------------+-----------+-------+----------+-----+------------+---------
        44 bloom_size 1   45 reserved 3   48 data (entries)   48 + data_length: trailer
    """

    fields_desc = [
        UInt8("magic_version", "magic 5, version 0", default=CHUNK_MAGIC),
        UInt8("chunk_type", "what the entries are", names=CHUNK_TYPES),
        UInt16("num_entries", "entries; a sub-batch counts once"),
        UInt32("num_records", "messages: offsets consumed", fill=message_count),
        Timestamp("timestamp", "broker clock"),
        UInt64("epoch", "leader epoch"),
        UInt64("chunk_id", "offset of the first message"),
        UInt32("crc", "CRC-32 of the data section", fill=checksum),
        UInt32("data_length", "size of the entries", unit="bytes"),
        UInt32("trailer_length", "size of the trailer in the log", unit="bytes"),
        UInt8("bloom_size", "size of the filter in the log, never sent", unit="bytes"),
        UInt24("reserved"),
        Optional(
            Array("entries", ChunkEntry, "messages", count="num_entries", size="data_length", bulk=True),
            When("chunk_type == 0"),
        ),
        Optional(
            Array("tracking", TrackingEntry, "tracking delta", count="num_entries", size="data_length"),
            When("chunk_type == 1"),
        ),
        Optional(
            Array("snapshot", SnapshotEntry, "tracking snapshot", count="num_entries", size="data_length"),
            When("chunk_type == 2"),
        ),
        Optional(
            Array("trailer", TrackingRecord, "tracking trailer", count=None, size="trailer_length"),
            When("0 < left == trailer_length"),
        ),
    ]


def number_offsets(chunk: dict[str, Any]) -> int:
    """Give every message of a chunk's record its stream offset (generated); return how many there are."""
    first = offset = chunk.get("chunk_id", 0)
    for entry in chunk.get("entries", ()):
        sub_batch = entry.get("sub_batch")
        if not entry:
            break  # nothing of it was captured: it may be a sub-batch, whose messages have the offsets
        if sub_batch is None:
            entry["offset"] = offset
            offset += 1
            continue
        for index, inner in enumerate(sub_batch.get("messages", ())):
            inner["offset"] = offset + index
        offset += sub_batch.get("record_count", 0)
    count: int = offset - first + len(chunk.get("tracking", ())) + len(chunk.get("snapshot", ()))
    return count


def check_entries(frame: Frame, chunk: Mapping[str, Any], record: Mapping[str, Any] | None) -> None:
    """Verify that the entries hold as many messages as the chunk says, and that its sub-batches can be opened."""
    seen = sub_batches.look_at(frame, "entries", chunk, record)
    if frame.status == OK:
        held = chunk if record is None else record
        entries = held.get("entries", 0)
        single = (entries if isinstance(entries, int) else len(entries)) - len(seen)
        count = single + sum(each.announced for each in seen)
        count += len(held.get("tracking", ())) + len(held.get("snapshot", ()))
        if count != chunk["num_records"]:
            message = f"the entries hold {count} messages, the chunk says {chunk['num_records']}"
            frame.find("warning", "malformed", "chunk-records", message, "chunk.num_records")
    sub_batches.report(frame, seen)


def check_chunk(frame: Frame, chunk: dict[str, Any]) -> None:
    """Verify what a chunk says about itself: magic, CRC-32 of the data, lengths."""
    assert frame.layer is not None
    data_start = frame.layer.minimum()
    start = data_start - Chunk.minimum()
    data_stop = data_start + chunk["data_length"]
    if chunk["magic_version"] != CHUNK_MAGIC:
        message = f"magic and version are {chunk['magic_version']:#04x}, not {CHUNK_MAGIC:#04x}"
        frame.find("error", "malformed", "chunk-magic", message, "chunk.magic_version", (start, start + 1))
    crc = zlib.crc32(memoryview(frame.buffer)[frame.start + data_start : min(frame.start + data_stop, frame.stop)])
    good = crc == chunk["crc"]
    frame.generate("crc_status", "good" if good else "bad")
    if not good:
        message = f"CRC-32 of the data is {crc:#010x}, the chunk says {chunk['crc']:#010x}"
        frame.find("error", "checksum", "chunk-crc", message, "chunk.crc", (start + 32, start + 36))
