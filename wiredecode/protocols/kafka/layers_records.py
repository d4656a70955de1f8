"""Records: batches (magic 2) and the older message sets (magic 0 and 1), compressed or not."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

from wiredecode.fields import (
    Array,
    Binary,
    Bits,
    CountOf,
    Int8,
    Int16,
    Int32,
    Int64,
    LengthOf,
    Rest,
    Text,
    Timestamp,
    UInt32,
    ZigZag,
    compiler,
    redacted,
    rfc3339_ms,
    text,
)
from wiredecode.fields.credentials import is_secret_name, is_secret_value
from wiredecode.fields.layer import Layer, Style
from wiredecode.protocols.kafka import names
from wiredecode.protocols.shared.compression import Budget, Status

FRONT = struct.Struct(">qi4xb")
"""Offset, length and magic of a batch or an old message."""
LENGTH_END, CRC_END, CODEC_AT = 12, 21, 22
"""Of a batch: where the length ends, and the checksum, and the byte with the codec."""
TIMES, RECORDS_AT = struct.Struct(">q13xH4xqq14xi"), 61
"""Base offset, attributes, first and latest time, and number of records of a batch; where its records begin."""
APPEND_TIME = 8
"""Attribute: the latest time is that of all records."""
LEAST = 14
MAX_MAGIC = 2


def checksum(layer: Layer, following: Mapping[str, bytes]) -> int:
    """CRC-32C of all that follows it."""
    from crc32c import crc32c

    return int(crc32c(b"".join(reversed(list(following.values())))))


def old_checksum(layer: Layer, following: Mapping[str, bytes]) -> int:
    return zlib.crc32(b"".join(reversed(list(following.values()))))


class Header(Layer):
    """A header of a record."""

    fields_desc: ClassVar[Any] = [
        Text("key", "name of the header", length=ZigZag),
        Binary("value", "its value", length=ZigZag, null=-1),
    ]


class Record(Layer):
    """A record of a batch."""

    fields_desc: ClassVar[Any] = [
        ZigZag("length", "bytes that follow", unit="bytes", default=None, fill=LengthOf()),
        Int8("attributes", "not used"),
        ZigZag("timestamp_delta", "time since that of the batch", unit="ms"),
        ZigZag("offset_delta", "offset from that of the batch"),
        Binary("key", "key", length=ZigZag, null=-1),
        Binary("value", "value; null deletes the key", length=ZigZag, null=-1),
        Array("headers", Header, "headers", count=ZigZag),
    ]


class Records(Layer):
    """The records of a compressed batch."""

    fields_desc: ClassVar[Any] = [Array("records", Record, "records", count=None)]


def batch(*contents: Any, records: Any) -> list[Any]:
    """The fields of a batch."""
    return [
        Int64("base_offset", "offset of the first record"),
        Int32("batch_length", "bytes that follow", unit="bytes", fill=LengthOf()),
        Int32("partition_leader_epoch", "epoch of the leader that stored it", default=-1),
        Int8("magic", "format of the batch", default=2),
        UInt32("crc", "CRC-32C of what follows", fill=checksum),
        Bits("reserved", 9, "not used"),
        Bits("delete_horizon", 1, "the base timestamp is when markers may be deleted"),
        Bits("control", 1, "records are markers of transactions"),
        Bits("transactional", 1, "records belong to a transaction"),
        Bits("timestamp_type", 1, "who set the timestamps", names=names.TIMESTAMP_TYPES),
        Bits("compression", 3, "codec", names=names.CODECS),
        Int32("last_offset_delta", "offset of the last record from that of the first"),
        Timestamp("base_timestamp", "time of the first record"),
        Timestamp("max_timestamp", "latest time of a record"),
        Int64("producer_id", "idempotent producer; -1: none", default=-1),
        Int16("producer_epoch", "epoch of the producer", default=-1),
        Int32("base_sequence", "sequence number of the first record; -1: none", default=-1),
        Int32("record_count", "records", fill=records),
        *contents,
    ]


class RecordBatch(Layer):
    """Records that are not compressed."""

    fields_desc: ClassVar[Any] = batch(
        Array("records", Record, "records", count="record_count"), records=CountOf("records")
    )


class CompressedBatch(Layer):
    """Records that are compressed together."""

    fields_desc: ClassVar[Any] = batch(Rest("compressed", "records, compressed"), records=None)


def old_message(magic: int, *more: Any) -> list[Any]:
    return [
        Int64("base_offset", "offset of the message; of compressed ones, of the last"),
        Int32("batch_length", "bytes that follow", unit="bytes", fill=LengthOf()),
        UInt32("crc", "CRC-32 of what follows", fill=old_checksum),
        Int8("magic", "format of the message", default=magic),
        Bits("reserved", 4, "not used"),
        Bits("timestamp_type", 1, "who set the timestamp", names=names.TIMESTAMP_TYPES),
        Bits("compression", 3, "codec", names=names.CODECS),
        *more,
        Binary("key", "key", length=Int32, null=-1),
        Binary("value", "value, or compressed messages", length=Int32, null=-1),
    ]


class MessageV0(Layer):
    """A message of brokers before 0.10."""

    fields_desc: ClassVar[Any] = old_message(0)


class MessageV1(Layer):
    """A message of brokers before 0.11."""

    fields_desc: ClassVar[Any] = old_message(1, Timestamp("timestamp", "time of the message"))


class Slot(NamedTuple):
    """Where a batch is."""

    layer: type[Layer]
    start: int
    stop: int
    codec: int


def slots(raw: bytes) -> tuple[list[Slot], int, str]:
    """The whole batches of a field, the bytes of a partial one after them, and why the rest cannot be read."""
    found: list[Slot] = []
    position = 0
    while position + FRONT.size <= len(raw):
        _, length, magic = FRONT.unpack_from(raw, position)
        stop = position + LENGTH_END + length
        if length < LEAST or not 0 <= magic <= MAX_MAGIC:
            return found, len(raw) - position, f"no batch of magic {magic} has {length} bytes"
        if stop > len(raw):
            break
        if magic == MAX_MAGIC:
            codec = raw[position + CODEC_AT] & 7 if length > CODEC_AT else 0
            found.append(Slot(CompressedBatch if codec else RecordBatch, position, stop, codec))
        else:
            found.append(Slot(MessageV1 if magic else MessageV0, position, stop, raw[position + 17] & 7))
        position = stop
    return found, len(raw) - position, ""


def is_intact(raw: bytes, slot: Slot) -> bool:
    """Whether the checksum of a batch is right."""
    if slot.layer in (MessageV0, MessageV1):
        return zlib.crc32(raw[slot.start + 16 : slot.stop]) == int.from_bytes(raw[slot.start + 12 : slot.start + 16])
    from crc32c import crc32c

    at = slot.start + CRC_END
    return bool(crc32c(raw[at : slot.stop]) == int.from_bytes(raw[at - 4 : at]))


def inflate(codec: int, data: bytes, budget: Budget) -> tuple[bytes, str]:
    """Decompressed bytes, and what was wrong."""
    if codec not in names.READERS:
        return b"", f"codec {codec} is not known"
    found = budget.decompress(names.READERS[codec], data)
    return found.data, "" if found.status == Status.OK else found.message


def contents(raw: bytes, slot: Slot, values: Mapping[str, Any], budget: Budget) -> tuple[list[dict[str, Any]], str]:
    """The records of a batch as values with ``offset`` and ``time_ms``, and why some are missing."""
    problem = ""
    if slot.layer in (MessageV0, MessageV1):
        return old_contents(slot, values, budget)
    records = values.get("records", [])
    if slot.codec:
        plain, problem = inflate(slot.codec, values["compressed"], budget)
        decoded = compiler.careful(Records, plain, 0, len(plain)) if problem else None
        try:
            records = compiler.values(Records, plain, 0, len(plain))["records"] if decoded is None else []
        except compiler.FAILED:
            decoded = compiler.careful(Records, plain, 0, len(plain))
        if decoded is not None:
            records = [each for each in decoded.values.get("records", ()) if is_whole(each)]
            problem = problem or "the records are damaged"
        if not problem and len(records) != values["record_count"]:
            problem = f"{values['record_count']} records announced, {len(records)} found"
    base, first = values["base_offset"], values["base_timestamp"]
    appended = values["max_timestamp"] if values["timestamp_type"] == names.LOG_APPEND_TIME else None
    for each in records:
        each["offset"] = base + each["offset_delta"]
        each["time_ms"] = first + each["timestamp_delta"] if appended is None else appended
    return records, problem


def is_whole(record: Mapping[str, Any]) -> bool:
    """Whether a record of a damaged batch, which ends where it cannot be read, has all of its fields."""
    return "headers" in record and all("value" in header for header in record["headers"])


def old_contents(slot: Slot, values: Mapping[str, Any], budget: Budget) -> tuple[list[dict[str, Any]], str]:
    """The messages of a message of magic 0 or 1: itself, or those compressed in it."""
    if not slot.codec or values["value"] is None:
        own = {"offset": values["base_offset"], "time_ms": values.get("timestamp"), "headers": []}
        return [{"key": values["key"], "value": values["value"], **own}], ""
    plain, problem = inflate(slot.codec, values["value"], budget)
    inner, rest, reason = slots(plain)
    found: list[dict[str, Any]] = []
    for each in inner:
        if each.layer not in (MessageV0, MessageV1) or each.codec:
            return found, "compressed messages inside compressed messages"
        try:
            found += old_contents(each, compiler.values(each.layer, plain, each.start, each.stop), budget)[0]
        except compiler.FAILED:
            return found, "the messages are damaged"
    if found and slot.layer is MessageV1:  # offsets inside count from the first message
        shift = values["base_offset"] - found[-1]["offset"]
        for message in found:
            message["offset"] += shift
    return found, problem or reason or ("a message is cut" if rest else "")


def read_batches(raw: bytes, style: Style, before: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a field with batches, in place of its bytes."""
    budget = Budget()
    found, partial, problem = slots(raw)
    record: dict[str, Any] = {"batches": [batch_record(raw, slot, style, budget) for slot in found]}
    if partial:
        record["partial_batch_bytes"] = partial
    if problem:
        record["batches_problem"] = problem
    return record


def whole_batch(raw: bytes, slot: Slot, style: Style, budget: Budget) -> dict[str, Any]:
    """The record of a batch of format 2 by compiled decoders; raises one of ``compiler.FAILED`` if it is damaged."""
    shown, _ = compiler.record(slot.layer, raw, slot.start, slot.stop, style)
    base, flags, first, latest, count = TIMES.unpack_from(raw, slot.start)
    layer, data, start, stop = slot.layer, raw, slot.start, slot.stop
    if slot.codec:
        data, problem = inflate(slot.codec, raw[slot.start + RECORDS_AT : slot.stop], budget)
        layer, start, stop = Records, 0, len(data)
        del shown["compressed"]
        shown["records"] = compiler.record(Records, data, 0, stop, style)[0]["records"]
        if problem or len(shown["records"]) != count:
            raise compiler.TruncatedField
    appended = latest if flags & APPEND_TIME else None
    records = shown.pop("records")
    if not style.secrets and any(each["headers"] for each in records):
        for each, read in zip(records, compiler.values(layer, data, start, stop)["records"], strict=True):
            hide(each["headers"], read["headers"])
    shown["crc_status"] = "good" if is_intact(raw, slot) else "bad"
    shown["records"] = [
        {
            "offset": base + each["offset_delta"],
            "timestamp": rfc3339_ms(first + each["timestamp_delta"] if appended is None else appended),
            **each,
        }
        for each in records
    ]
    return shown


def batch_record(raw: bytes, slot: Slot, style: Style, budget: Budget) -> dict[str, Any]:
    if slot.layer in (RecordBatch, CompressedBatch):
        with suppress(*compiler.FAILED):
            return whole_batch(raw, slot, style, budget)
    decoded = compiler.careful(slot.layer, raw, slot.start, slot.stop)
    shown = slot.layer.present(decoded.values, style)
    shown["crc_status"] = "good" if is_intact(raw, slot) else "bad"
    if decoded.problem is not None:
        return {**shown, "problem": f"{decoded.problem.field} does not fit"}
    shown.pop("records", None)
    records, problem = contents(raw, slot, decoded.values, budget)
    if problem:
        shown["problem"] = problem
    elif slot.layer is CompressedBatch:
        del shown["compressed"]
    elif slot.codec:
        del shown["value"]
    shown["records"] = [record_shown(each, style) for each in records]
    return shown


def record_shown(each: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """One record as people and programs read it."""
    values = {name: value for name, value in each.items() if name in RECORD_NAMES}
    shown = Record.present(values, style)
    if not style.secrets:
        hide(shown["headers"], each["headers"])
    time_ms = each["time_ms"]
    return {"offset": each["offset"], "timestamp": None if time_ms is None else rfc3339_ms(time_ms), **shown}


def hide(shown: list[dict[str, Any]], headers: list[dict[str, Any]]) -> None:
    """Hide the values of headers that carry credentials."""
    for header, read in zip(shown, headers, strict=False):
        if is_secret(read):
            header["value"] = redacted(read["value"])


def is_secret(header: Mapping[str, Any]) -> bool:
    """Whether a header carries a credential, by its name or value."""
    value = header["value"] or b""
    return bool(value) and (is_secret_name(header["key"]) or is_secret_value(text(value)))


RECORD_NAMES = frozenset(kind.name for kind in Record.fields_desc)


def batches_of(raw: bytes) -> Iterator[tuple[Slot, dict[str, Any], list[dict[str, Any]]]]:
    """The readable batches of a field: place, values, records."""
    budget = Budget()
    for slot in slots(raw)[0]:
        try:
            values = compiler.values(slot.layer, raw, slot.start, slot.stop)
        except compiler.FAILED:
            continue
        yield slot, values, contents(raw, slot, values, budget)[0]
