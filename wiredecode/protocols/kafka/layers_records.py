"""Records: batches (magic 2) and the older message sets (magic 0 and 1), compressed or not."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from wiredecode.fields import (
    Array,
    Binary,
    Bits,
    Int8,
    Int16,
    Int32,
    Int64,
    LengthOf,
    Optional,
    Rest,
    Text,
    Timestamp,
    UInt32,
    When,
    ZigZag,
    compiler,
    printable,
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
LENGTH_END, LEAST = 12, 14
"""Where the length of a batch ends, and the least that it can be."""
BATCH_MAGIC, CODEC_AT, OLD_CODEC_AT = 2, 22, 17


def checksum(layer: type[Layer], data: bytes) -> int:
    """CRC-32C of what follows it in a batch, CRC-32 of an old message."""
    from crc32c import crc32c

    return int(crc32c(data)) if layer is Batch else zlib.crc32(data)


def filled_checksum(layer: Layer, following: Mapping[str, bytes]) -> int:
    return checksum(type(layer), b"".join(reversed(list(following.values()))))


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


class Batch(Layer):
    """Records that were sent together, each by itself or all compressed as one."""

    fields_desc: ClassVar[Any] = [
        Int64("base_offset", "offset of the first record"),
        Int32("batch_length", "bytes that follow", unit="bytes", fill=LengthOf()),
        Int32("partition_leader_epoch", "epoch of the leader that stored it", default=-1),
        Int8("magic", "format of the batch", default=BATCH_MAGIC),
        UInt32("crc", "CRC-32C of what follows", fill=filled_checksum),
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
        Int32("record_count", "records"),
        Optional(Array("records", Record, "records", count="record_count"), When("compression == 0")),
        Optional(Rest("compressed", "records, compressed"), When("compression > 0")),
    ]


Front = type("Front", (Layer,), {"fields_desc": Batch.fields_desc[:-2]})
"""The fields of a batch before its records."""


class Message(Layer):
    """A message of brokers before 0.11; before 0.10 its magic is 0."""

    fields_desc: ClassVar[Any] = [
        Int64("base_offset", "offset of the message; of compressed ones, of the last"),
        Int32("batch_length", "bytes that follow", unit="bytes", fill=LengthOf()),
        UInt32("crc", "CRC-32 of what follows", fill=filled_checksum),
        Int8("magic", "format of the message", default=1),
        Bits("reserved", 4, "not used"),
        Bits("timestamp_type", 1, "who set the timestamp", names=names.TIMESTAMP_TYPES),
        Bits("compression", 3, "codec", names=names.CODECS),
        Optional(Timestamp("timestamp", "time of the message"), When("magic == 1")),
        Binary("key", "key", length=Int32, null=-1),
        Binary("value", "value, or compressed messages", length=Int32, null=-1),
    ]


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
        if length < LEAST or not 0 <= magic <= BATCH_MAGIC:
            return found, len(raw) - position, f"no batch of magic {magic} has {length} bytes"
        if stop > len(raw):
            break
        layer, codec_at = (Batch, CODEC_AT) if magic == BATCH_MAGIC else (Message, OLD_CODEC_AT)
        found.append(Slot(layer, position, stop, raw[position + codec_at] & 7 if position + codec_at < stop else 0))
        position = stop
    return found, len(raw) - position, ""


def is_intact(raw: bytes, slot: Slot) -> bool:
    """Whether the checksum of a batch is right."""
    at = slot.start + (LENGTH_END if slot.layer is Message else FRONT.size)
    return checksum(slot.layer, raw[at + 4 : slot.stop]) == int.from_bytes(raw[at : at + 4])


def inflate(codec: int, data: bytes, budget: Budget) -> tuple[bytes, str]:
    """Decompressed bytes, and what was wrong."""
    if codec not in names.READERS:
        return b"", f"codec {codec} is not known"
    found = budget.decompress(names.READERS[codec], data)
    return found.data, "" if found.status == Status.OK else found.message


def contents(raw: bytes, slot: Slot, values: Mapping[str, Any], budget: Budget) -> tuple[list[dict[str, Any]], str]:
    """The records of a batch as values with ``offset`` and ``timestamp`` in ms, and why some are missing."""
    if slot.layer is Message:
        return old_contents(slot, values, budget)
    records, problem = values.get("records", []), ""
    if slot.codec:
        plain, problem = inflate(slot.codec, values["compressed"], budget)
        decoded, damage = compiler.readable(Records, plain, 0, len(plain))  # the last record may be cut
        whole = [each for each in decoded.get("records", ()) if "headers" in each]
        records = [each for each in whole if all("value" in header for header in each["headers"])]
        if not problem and (damage or len(records) != values["record_count"]):
            count = f"{values['record_count']} records announced, {len(records)} found"
            problem = "the records are damaged" if damage else count
    base, first = values["base_offset"], values["base_timestamp"]
    appended = values["max_timestamp"] if values["timestamp_type"] else None
    for each in records:
        each["offset"] = base + each["offset_delta"]
        each["timestamp"] = first + each["timestamp_delta"] if appended is None else appended
    return records, problem


def old_contents(slot: Slot, values: Mapping[str, Any], budget: Budget) -> tuple[list[dict[str, Any]], str]:
    """The messages of a message of magic 0 or 1: itself, or those compressed in it."""
    if not slot.codec or values["value"] is None:
        own = {"headers": [], "offset": values["base_offset"], "timestamp": values.get("timestamp")}
        return [{"key": values["key"], "value": values["value"], **own}], ""
    plain, problem = inflate(slot.codec, values["value"], budget)
    inner, rest, reason = slots(plain)
    found: list[dict[str, Any]] = []
    for each in inner:
        if each.layer is Batch or each.codec:
            return found, "compressed messages inside compressed messages"
        message, damage = compiler.readable(Message, plain, each.start, each.stop)
        if damage:
            return found, "the messages are damaged"
        found += old_contents(each, message, budget)[0]
    if found and "timestamp" in values:  # offsets inside count from the first message
        shift = values["base_offset"] - found[-1]["offset"]
        for record in found:
            record["offset"] += shift
    return found, problem or reason or ("a message is cut" if rest else "")


def read_batches(raw: bytes, style: Style, before: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a field with batches, in place of its bytes."""
    budget, (found, partial, problem) = Budget(), slots(raw)
    batches = [batch_record(raw, slot, style, budget) for slot in found]
    more = {"partial_batch_bytes": partial, "batches_problem": problem}
    return {"batches": batches, **{name: value for name, value in more.items() if value}}


def batch_record(raw: bytes, slot: Slot, style: Style, budget: Budget) -> dict[str, Any]:
    values, damage = compiler.readable(slot.layer, raw, slot.start, slot.stop)
    records, problem = ([], f"{damage.field} does not fit") if damage else contents(raw, slot, values, budget)
    if slot.layer is Batch and not problem:
        shown = compiler.record(Front, raw, slot.start, slot.stop, style)[0]
    else:
        replaced = {"records", "value"} if slot.codec and not problem else {"records"}
        shown = slot.layer.present({name: values[name] for name in values if damage or name not in replaced}, style)
    shown["crc_status"] = "good" if is_intact(raw, slot) else "bad"
    more = {} if damage else {"records": [record_shown(each, style) for each in records]}
    return shown | ({"problem": problem} if problem else {}) | more


def record_shown(record: Mapping[str, Any], style: Style) -> dict[str, Any]:
    """One record as people and programs read it."""
    show, time_ms, key, value = style.show, record["timestamp"], record["key"], record["value"]
    shown = {"offset": None, "timestamp": None, **record}
    shown["timestamp"] = None if time_ms is None else rfc3339_ms(time_ms)
    shown["key"], shown["value"] = None if key is None else show(key), None if value is None else show(value)
    if record["headers"]:
        headers = ((printable(each["key"]), harmless(each, style.secrets)) for each in record["headers"])
        shown["headers"] = [{"key": name, "value": show(raw) if type(raw) is bytes else raw} for name, raw in headers]
    return shown


def harmless(header: Mapping[str, Any], secrets: bool) -> bytes | str | None:
    """The value of a header; if it carries a credential, by its name or form, what is shown in its place."""
    value: bytes | None = header["value"]
    if value and not secrets and (is_secret_name(header["key"]) or is_secret_value(text(value))):
        return redacted(value)
    return value


def batches_of(raw: bytes) -> Iterator[tuple[Slot, dict[str, Any], list[dict[str, Any]]]]:
    """The readable batches of a field: place, values, records."""
    budget = Budget()
    for slot in slots(raw)[0]:
        values, damage = compiler.readable(slot.layer, raw, slot.start, slot.stop)
        if not damage:
            yield slot, values, contents(raw, slot, values, budget)[0]
