"""Records: batches (magic 2) and the older message sets (magic 0 and 1), compressed or not."""

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from wiredecode import fields
from wiredecode.budget import TOO_MANY
from wiredecode.fields import compiler
from wiredecode.fields.credentials import is_secret_pair, is_token
from wiredecode.fields.layer import Layer, Style
from wiredecode.protocols.kafka import names
from wiredecode.protocols.shared.compression import Status, decompress_in_frame

FRONT = struct.Struct(">qi4xb")
"""Offset, length and magic of a batch or an old message."""
LENGTH_END, MIN_LENGTH = 12, 14
"""Where the length of a batch ends, and the least that it can be."""
MIN_RECORD_LENGTH = 6
"""Bytes of a record without key, value and headers after its length."""
BATCH_MAGIC, CODEC_AT, OLD_CODEC_AT = 2, 22, 17


def checksum(layer: type[Layer], data: bytes) -> int:
    """CRC-32C of what follows it in a batch, CRC-32 of an old message."""
    from crc32c import crc32c

    return zlib.crc32(data) if layer is Message else int(crc32c(data))


def filled_checksum(layer: Layer, following: Mapping[str, bytes]) -> int:
    return checksum(type(layer), b"".join(reversed(list(following.values()))))


class Header(Layer):
    """A header of a record."""

    fields_desc: ClassVar[Any] = [
        fields.Text("key", "name of the header", length=fields.ZigZag),
        fields.Binary("value", "its value", length=fields.ZigZag, null=-1, named_by="key"),
    ]


class RecordLength(fields.ZigZag):
    """The length of a record, which is never empty."""

    def read(self, data: bytes, position: int, end: int, layer: Any) -> tuple[int, int]:
        value, stop = super().read(data, position, end, layer)
        if value < MIN_RECORD_LENGTH:
            raise fields.Malformed(self.name, f"a record of {value} bytes", position)
        return value, stop

    def emit(self, em: Any) -> str:
        value = super().emit(em)
        em.line(f"if {value} < {MIN_RECORD_LENGTH}: raise DecodeError")
        return value


def hide_token(value: bytes, style: Style, record: dict[str, Any]) -> dict[str, Any] | None:
    """Redacted bytes in place of a JWT, the last value of the record."""
    return {next(reversed(record)): fields.redact(value)} if not style.secrets and is_token(value) else None


def token_ranges(value: bytes) -> list[tuple[int, int]]:
    return [(0, len(value))] if is_token(value) else []


TOKENS: dict[str, Any] = {"inner": hide_token, "credentials": token_ranges}


class Record(Layer):
    """A record of a batch."""

    fields_desc: ClassVar[Any] = [
        RecordLength("length", "bytes that follow", unit="bytes", default=None, fill=fields.LengthOf()),
        fields.Int8("attributes", "not used"),
        fields.ZigZag("timestamp_delta", "time since that of the batch", unit="ms"),
        fields.ZigZag("offset_delta", "offset from that of the batch"),
        fields.Binary("key", "key", length=fields.ZigZag, null=-1, **TOKENS),
        fields.Binary("value", "value; null deletes the key", length=fields.ZigZag, null=-1, **TOKENS),
        fields.Array("headers", Header, "headers", count=fields.ZigZag),
    ]


class Records(Layer):
    """The records of a batch, decompressed, after their number."""

    fields_desc: ClassVar[Any] = [
        fields.Int32("record_count", "records"),
        fields.Array("records", Record, "records", count="record_count"),
    ]


class Batch(Layer):
    """Records that were sent together, each by itself or all compressed as one."""

    fields_desc: ClassVar[Any] = [
        fields.Int64("base_offset", "offset of the first record"),
        fields.Int32("batch_length", "bytes that follow", unit="bytes", fill=fields.LengthOf()),
        fields.Int32("partition_leader_epoch", "epoch of the leader that stored it", default=-1),
        fields.Int8("magic", "format of the batch", default=BATCH_MAGIC),
        fields.UInt32("crc", "CRC-32C of what follows", fill=filled_checksum),
        fields.Bits("reserved", 9, "not used"),
        fields.Bits("delete_horizon", 1, "the base timestamp is when markers may be deleted"),
        fields.Bits("control", 1, "records are markers of transactions"),
        fields.Bits("transactional", 1, "records belong to a transaction"),
        fields.Bits("timestamp_type", 1, "who set the timestamps", names=names.TIMESTAMP_TYPES),
        fields.Bits("compression", 3, "codec", names=names.CODECS),
        fields.Int32("last_offset_delta", "offset of the last record from that of the first"),
        fields.Timestamp("base_timestamp", "time of the first record"),
        fields.Timestamp("max_timestamp", "latest time of a record"),
        fields.Int64("producer_id", "idempotent producer; -1: none", default=-1),
        fields.Int16("producer_epoch", "epoch of the producer", default=-1),
        fields.Int32("base_sequence", "sequence number of the first record; -1: none", default=-1),
        fields.Int32("record_count", "records"),
        fields.Optional(
            fields.Array("records", Record, "records", count="record_count"), fields.When("compression == 0")
        ),
        fields.Optional(fields.Rest("compressed", "records, compressed"), fields.When("compression > 0")),
    ]


Front = Layer.declare("Front", *Batch.fields_desc[:-2])
"""The fields of a batch before its records."""
FRONT_BYTES = Front.minimum()
COUNT_BYTES = 4


class Message(Layer):
    """A message of brokers before 0.11; before 0.10 its magic is 0."""

    fields_desc: ClassVar[Any] = [
        fields.Int64("base_offset", "offset of the message; of compressed ones, of the last"),
        fields.Int32("batch_length", "bytes that follow", unit="bytes", fill=fields.LengthOf()),
        fields.UInt32("crc", "CRC-32 of what follows", fill=filled_checksum),
        fields.Int8("magic", "format of the message", default=1),
        fields.Bits("reserved", 4, "not used"),
        fields.Bits("timestamp_type", 1, "who set the timestamp", names=names.TIMESTAMP_TYPES),
        fields.Bits("compression", 3, "codec", names=names.CODECS),
        fields.Optional(fields.Timestamp("timestamp", "time of the message"), fields.When("magic == 1")),
        fields.Binary("key", "key", length=fields.Int32, null=-1, **TOKENS),
        fields.Binary("value", "value, or compressed messages", length=fields.Int32, null=-1, **TOKENS),
    ]


class Slot(NamedTuple):
    """Where a batch is; ``layer``: its fields before the records, Front or Message."""

    layer: type[Layer]
    start: int
    stop: int
    codec: int
    crc: slice


def slots(raw: bytes) -> tuple[list[Slot], int, str]:
    """The whole batches of a field, the bytes of a partial one after them, and why the rest cannot be read."""
    batches: list[Slot] = []
    position = 0
    while position + FRONT.size <= len(raw):
        _, length, magic = FRONT.unpack_from(raw, position)
        stop = position + LENGTH_END + length
        if length < MIN_LENGTH or not 0 <= magic <= BATCH_MAGIC:
            return batches, len(raw) - position, f"no batch of magic {magic} has {length} bytes"
        if stop > len(raw):
            break
        layer, at, crc = (Front, CODEC_AT, FRONT.size) if magic == BATCH_MAGIC else (Message, OLD_CODEC_AT, LENGTH_END)
        codec = raw[position + at] & 7 if position + at < stop else 0
        batches.append(Slot(layer, position, stop, codec, slice(position + crc, position + crc + 4)))
        position = stop
    return batches, len(raw) - position, ""


def message_count(raw: bytes, slot: Slot) -> int:
    """Number of messages in a batch, as it says itself."""
    if slot.layer is Front:
        return int.from_bytes(raw[slot.start + FRONT_BYTES - 4 : slot.start + FRONT_BYTES])
    return sum(len(contents.records) for _, _, contents in batches_of(raw[slot.start : slot.stop]))


def is_intact(raw: bytes, slot: Slot) -> bool:
    """Whether the checksum of a batch is right."""
    return checksum(slot.layer, raw[slot.crc.stop : slot.stop]) == int.from_bytes(raw[slot.crc])


def inflate(codec: int, data: bytes) -> tuple[bytes, str]:
    """Decompressed bytes, and the problem."""
    if codec not in names.READERS:
        return b"", f"codec {codec} is not known"
    inflated = decompress_in_frame(names.READERS[codec], data)
    return inflated.data, "" if inflated.status == Status.OK else inflated.message


Decode = Callable[[bytes], tuple[list[dict[str, Any]], str]]
"""Decodes :class:`Records`; the second value says why some are missing."""


class BatchContents(NamedTuple):
    """The records of a batch, their offsets and times in ms, and why some are missing."""

    records: list[dict[str, Any]]
    offsets: list[int]
    times_ms: list[int | None]
    problem: str


def contents(raw: bytes, slot: Slot, values: Mapping[str, Any], decode: Decode) -> BatchContents:
    """Contents of the batch with these values; ``decode``: decodes records of the new format."""
    if slot.layer is Message:
        return old_contents(slot, values)
    plain, problem = raw[slot.start + FRONT_BYTES : slot.stop], ""
    if slot.codec:
        plain, problem = inflate(slot.codec, plain)
    records, missing = decode(raw[slot.start + FRONT_BYTES - COUNT_BYTES : slot.start + FRONT_BYTES] + plain)
    problem = problem or missing
    base, first, last = values["base_offset"], values["base_timestamp"], values["max_timestamp"]
    times_ms = [last if values["timestamp_type"] else first + each["timestamp_delta"] for each in records]
    return BatchContents(records, [base + each["offset_delta"] for each in records], times_ms, problem)


def old_contents(slot: Slot, values: Mapping[str, Any]) -> BatchContents:
    """The messages of a message of magic 0 or 1: itself, or those compressed in it."""
    messages, problem, shift = [values], "", 0
    if slot.codec and values["value"] is not None:
        plain, problem = inflate(slot.codec, values["value"])
        inner, rest, reason = slots(plain)
        messages, problem = [], problem or reason or ("a message is truncated" if rest else "")
        for each in inner:
            message, damage = compiler.readable(each.layer, plain, each.start, each.stop)
            if damage or each.layer is Front or each.codec:
                problem = "the messages are damaged" if damage else "compressed messages inside compressed messages"
                break
            messages.append(message)
        if messages and "timestamp" in values:  # offsets inside count from the first message
            shift = values["base_offset"] - messages[-1]["base_offset"]
    records = [{"key": each["key"], "value": each["value"], "headers": []} for each in messages]
    offsets = [each["base_offset"] + shift for each in messages]
    return BatchContents(records, offsets, [each.get("timestamp") for each in messages], problem)


def decode_records(counted: bytes) -> tuple[list[dict[str, Any]], str]:
    """The whole ones of :class:`Records`, and why some are missing: the last one may be truncated."""
    try:
        values, reached = compiler.decoder(Records, "values")(counted, 0, len(counted))
        return values["records"], surplus(values["record_count"], len(counted) - reached)
    except compiler.FAILED:
        decoded = compiler.careful(Records, counted, 0, len(counted))
    records, damage = decoded.values.get("records", []), decoded.problem
    if damage is None:
        return records, surplus(decoded.values["record_count"], len(counted) - decoded.stop)
    whole = [each for each in records if "headers" in each]
    records = [each for each in whole if all("value" in header for header in each["headers"])]
    if damage.reason == TOO_MANY:
        return records, damage.reason
    if damage.field == f"records[{len(records)}].length" and damage.start == len(counted):
        return records, f"{decoded.values['record_count']} records announced, {len(records)} found"
    return records, "the records are damaged"


def surplus(count: int, size: int) -> str:
    """Why bytes after the last record of a batch are no records."""
    return f"{size} bytes after the last of {count} records" if size else ""


def batch_record(raw: bytes, slot: Slot, style: Style, decode: Decode) -> dict[str, Any]:
    values, damage = compiler.readable(slot.layer, raw, slot.start, slot.stop)
    if damage:
        problem, shown, more = f"{damage.field} does not fit", slot.layer.present(values, style), {}
    else:
        records, offsets, times_ms, problem = contents(raw, slot, values, decode)
        shown = compiler.record(slot.layer, raw, slot.start, slot.stop, style)[0]
        if slot.layer is Message:
            records = [Record.present(each, style) for each in records]
        if slot.codec and slot.layer is Message and not problem:
            del shown["value"]
        elif slot.codec and slot.layer is Front and problem:
            shown["compressed"] = style.show(raw[slot.start + FRONT_BYTES : slot.stop])
        times = [None if time_ms is None else fields.rfc3339_ms(time_ms) for time_ms in times_ms]
        rows = zip(offsets, times, records, strict=True)
        more = {"records": [{"offset": offset, "timestamp": time, **each} for offset, time, each in rows]}
    shown["crc_status"] = "good" if is_intact(raw, slot) else "bad"
    return shown | ({"problem": problem} if problem else {}) | more


def batches_of(raw: bytes) -> Iterator[tuple[Slot, dict[str, Any], BatchContents]]:
    """The readable batches of a field: place, values, records."""
    for slot in slots(raw)[0]:
        values, damage = compiler.readable(slot.layer, raw, slot.start, slot.stop)
        if not damage:
            yield slot, values, contents(raw, slot, values, decode_records)


def carries_secret(record: Mapping[str, Any]) -> bool:
    """Whether a record is, or has a header that is, a credential."""
    if is_token(record["value"] or b"") or is_token(record["key"] or b""):
        return True
    return any(is_secret_pair(*each.values()) for each in record["headers"])


def secret_ranges(raw: bytes) -> list[tuple[int, int]]:
    """Headers that carry credentials, or all records if they are compressed; also unreadable records, which may."""
    batches, rest, _ = slots(raw)
    hidden = [(len(raw) - rest + FRONT.size, len(raw))] if rest > FRONT.size else []
    for slot in batches:
        values, damage = compiler.readable(slot.layer, raw, slot.start, slot.stop)
        inside = None if damage else contents(raw, slot, values, decode_records)
        if inside is None or inside.problem:
            hidden.append((min(slot.start + FRONT_BYTES, slot.stop), slot.stop))
        elif any(map(carries_secret, inside.records)):
            layer = Batch.within(raw, slot.start, slot.stop)
            hidden += [layer.ranges["compressed"]] if slot.codec else layer.secret_ranges()
    return hidden
