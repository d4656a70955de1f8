"""The records of Produce and of the answers to Fetch, as rows."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import redact
from wiredecode.fields.credentials import is_token
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, FORWARD, MAX_MILLISECONDS, PUBLISH, Messages, header_of
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import Produced, partitions
from wiredecode.protocols.kafka.layers_records import BatchContents, batches_of
from wiredecode.protocols.shared.pairing import Request


def add_messages(frame: Frame, out: Messages, produced: Mapping[Produced, Request]) -> None:
    """Add the records of a frame that was just decoded; markers of transactions are none."""
    operation = FORWARD if frame.asked and frame.asked.copies else DELIVER
    operation = PUBLISH if frame.type == "ProduceRequest" else operation
    for topic, number, partition in partitions(frame.values):
        raw = partition.get("batches") or b""
        for slot, batch, contents in batches_of(raw):
            published = produced.get((topic, number, raw[slot.crc])) if operation == DELIVER else None
            if not batch.get("control"):
                out.add(
                    frame,
                    operation,
                    [shown(each["value"], out.secrets) for each in contents.records],
                    topic=topic or None,
                    partition=number,
                    published_ns=published.time_ns if published else None,
                    compression=names.CODECS.get(slot.codec) if slot.codec else None,
                    **columns_of(operation, batch, contents, out.secrets),
                )


def shown(body: bytes | None, secrets: bool) -> bytes | None:
    """A body, hidden if it is a JWT."""
    return redact(body).encode() if body and not secrets and is_token(body) else body


def columns_of(operation: str, batch: Mapping[str, Any], contents: BatchContents, secrets: bool) -> dict[str, Any]:
    keys = [shown(each["key"], secrets) for each in contents.records]
    pairs = [[(each["key"], each["value"] or b"") for each in record["headers"]] for record in contents.records]
    headers = [[header_of(*each, secrets) for each in record] or None for record in pairs]
    first, count = batch.get("base_sequence", -1), len(keys)
    return {
        "keys": None if keys.count(None) == count else keys,
        "offsets": None if operation == PUBLISH else [offset if offset >= 0 else None for offset in contents.offsets],
        "sequences": range(first, first + count) if operation == PUBLISH and first >= 0 else None,
        "times_ns": [
            time_ms * 1_000_000 if time_ms is not None and 0 <= time_ms < MAX_MILLISECONDS else None
            for time_ms in contents.times_ms
        ],
        "headers": None if headers.count(None) == count else headers,
    }
