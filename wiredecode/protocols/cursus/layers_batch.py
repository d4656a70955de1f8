"""Batches: messages with a header, in today's layout, the older document's, and five that were shipped before."""

import re
from functools import cache
from typing import Any

from wiredecode.data import storable
from wiredecode.fields import (
    Array,
    Binary,
    Boolean,
    Int32,
    Int64,
    Kind,
    Optional,
    Text,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    When,
    compiler,
)
from wiredecode.fields.layer import Layer
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.layers import CursusFrame, frame
from wiredecode.protocols.cursus.layers_kinds import TOKEN, DecimalText, Sequence

MAX_MESSAGES = 100_000
"""Most messages a broker takes in a batch."""
MAX_ACKS_BYTES = 16
MAGIC_NUMBER = 0xBA7C
TIE_MASK, TIE_VALUE = 0xFFFF00FF, 0x00010000
"""A partition that, read as a number, is a one-digit text of the older document with its length in front."""

LABELS: dict[str, str] = names.NAMES["dialects"]
"""The dialects, in the order in which they are tried."""

SHORT = ("nokey", "first")
"""The dialects whose messages have neither an offset nor a key."""


def payload_holds_token(data: bytes, position: int, end: int) -> bool:
    """Whether the payload that comes next holds a token."""
    stop = min(end, position + 4 + int.from_bytes(data[position : position + 4], "big"))
    return data.find(TOKEN, position, stop) >= 0


def payload(guarded: bool) -> list[Any]:
    """The message itself; in guarded layers hidden where a client put its token into it."""
    plain = Binary("data", "the message", length=UInt32)
    if not guarded:
        return [plain]
    hidden = Binary("secret_data", "the message, which holds a token", length=UInt32, secret=True)
    return [
        Optional(hidden, When("payload_holds_token()", payload_holds_token=payload_holds_token)),
        Optional(plain, When("not has(secret_data)")),
    ]


def header(dialect: str) -> list[Any]:
    seed = dialect == "seed"
    fields: list[Kind] = [
        UInt16("magic", "constant", default=MAGIC_NUMBER),
        Text("topic", "name of the topic, or the pattern of a CONSUME"),
        DecimalText("partition", "partition, as text") if seed else Int32("partition", "partition"),
    ]
    if dialect not in ("noacks", "nokey"):
        acks = "confirmation asked for: 0, 1, -1 or all"
        fields.append(Text("acks", acks, length=UInt16 if seed else UInt8, default="1"))
    if dialect in ("cur", "seed", "noes"):
        fields.append(Boolean("idempotent", "whether sequence numbers are checked"))
    return [
        *fields,
        UInt64("seq_start", "sequence number of the first message"),
        Sequence("seq_end", "sequence number of the last message; -1: none"),
    ]


def message_fields(dialect: str, guarded: bool) -> list[Any]:
    fields: list[Kind] = []
    if dialect not in SHORT:
        fields.append(UInt64("offset", "offset in the log; 0 from clients"))
    fields.append(UInt64("seq", "sequence number given by the producer"))
    if dialect != "first":
        fields.append(Text("producer_id", "producer"))
    if dialect not in SHORT:
        fields.append(Text("key", "key, or aggregate of an event"))
    if dialect != "first":
        fields.append(Int64("epoch", "epoch of the producer"))
    fields += payload(guarded)
    if dialect in ("cur", "seed"):
        fields += [
            Text("event_type", "type of an event; empty for plain messages"),
            UInt32("schema_version", "schema of the event"),
            UInt64("aggregate_version", "version of the aggregate after the event"),
            Text("metadata", "metadata of the event"),
        ]
    return fields


@storable
@cache
def batch_layer(dialect: str, guarded: bool, /) -> type[CursusFrame]:
    """The layer of a dialect; ``guarded`` hides payloads that hold a token, and is slower."""
    suffix = dialect.capitalize() + ("Guarded" if guarded else "")
    doc, members = f"A message, {LABELS[dialect]}.", {}
    if guarded:
        plain = batch_layer(dialect, False).fields_desc[-1].element.layer
        members["minimum"] = classmethod(lambda cls: plain.minimum())
    fields = message_fields(dialect, guarded)
    element = Layer.declare(f"BatchMessage{suffix}", *fields, doc=doc, module=__name__, **members)
    return frame(
        f"Batch{suffix}",
        f"Messages of one topic and partition, {LABELS[dialect]}.",
        *header(dialect),
        Array("messages", element, "messages", count=UInt32, bulk=True),
        remade=(batch_layer, (dialect, guarded)),
        facts=("topic", "partition", "acks", "messages"),
    )


BATCHES = {dialect: batch_layer(dialect, False) for dialect in LABELS}
Batch, SeedBatch = BATCHES["cur"], BATCHES["seed"]

PARTITION_TEXT = re.compile(r"-?[0-9]{1,10}\Z")
PRINTABLE = re.compile(r"[ -~]*\Z")


def sound(dialect: str, values: dict[str, Any]) -> bool:
    """Whether the header of a batch is one that a client or broker would write."""
    acks = values.get("acks", "")
    return (
        len(acks) <= MAX_ACKS_BYTES
        and PRINTABLE.match(acks) is not None
        and values.get("idempotent", 0) <= 1
        and 0 <= values["messages"] <= MAX_MESSAGES
        and (dialect != "seed" or PARTITION_TEXT.match(values["partition"]) is not None)
    )


def fit(dialect: str, data: bytes, start: int, stop: int) -> dict[str, Any] | None:
    """The values of ``data[start:stop]`` if it is a whole batch of this dialect; UTF-8 messages are only counted."""
    layer = BATCHES[dialect]
    try:
        values, reached = compiler.decoder(layer, "walk")(data, start, stop)
        count = values["messages"]
    except UnicodeDecodeError:
        read = compiler.careful(layer, data, start, stop)
        if read.problem is not None:
            return None
        values, reached, count = read.values, start + read.stop, len(read.values["messages"])
    except compiler.DecodeError:
        return None
    return values if reached == stop and sound(dialect, values | {"messages": count}) else None


def may_be_seed(data: bytes, start: int, stop: int) -> bool:
    """Whether the partition could be text: a length of 1 to 11 and a digit or a sign."""
    at = start + 8 + int.from_bytes(data[start + 6 : start + 8], "big")
    return at + 3 <= stop and data[at] == 0 and 1 <= data[at + 1] <= 11 and data[at + 2] in b"-0123456789"


def tie(data: bytes, start: int) -> bool:
    """Whether a frame that fits both layouts is of the older one: partitions 0 to 9 occur, 77824, 78080 ... do not."""
    at = start + 8 + int.from_bytes(data[start + 6 : start + 8], "big")
    partition = int.from_bytes(data[at : at + 4], "big")
    return partition & TIE_MASK == TIE_VALUE and partition >> 8 & 0xFF in b"0123456789"


def choose(data: bytes, start: int, stop: int) -> tuple[str | None, dict[str, Any] | None, bool]:
    """The dialect of the batch at ``data[start:stop]`` and its values, or None, and whether two fitted."""
    current = fit("cur", data, start, stop)
    seed = fit("seed", data, start, stop) if may_be_seed(data, start, stop) else None
    if seed is not None and (current is None or tie(data, start)):
        return "seed", seed, current is not None
    if current is not None:
        return "cur", current, seed is not None
    for dialect in LABELS:
        if dialect not in ("cur", "seed") and (historic := fit(dialect, data, start, stop)) is not None:
            return dialect, historic, False
    return None, None, False
