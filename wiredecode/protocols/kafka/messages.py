"""The records of Produce and of the answers to Fetch, as rows."""

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, FORWARD, PUBLISH, Messages, nanoseconds
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import Asked, partitions
from wiredecode.protocols.kafka.layers_records import batches_of, harmless


def add_messages(frame: Frame, asked: Asked | None, out: Messages) -> None:
    """Add the records of a frame that was just decoded; markers of transactions are none."""
    what = PUBLISH if frame.type == "ProduceRequest" else FORWARD if asked and asked.copies else DELIVER
    for topic, number, partition in partitions(frame.values):
        for slot, batch, records in batches_of(partition.get("batches") or b""):
            if not batch.get("control"):
                out.add(
                    *(frame, what, [each["value"] for each in records]),
                    topic=topic or None,
                    partition=number,
                    compression=names.CODECS.get(slot.codec) if slot.codec else None,
                    **columns_of(what, batch, records, out.secrets),
                )


def columns_of(what: str, batch: Mapping[str, Any], records: list[dict[str, Any]], secrets: bool) -> dict[str, Any]:
    keys = [each["key"] for each in records]
    headers = [[header_of(header, secrets) for header in each["headers"]] or None for each in records]
    times_ms = [each["timestamp"] for each in records]
    first = batch.get("base_sequence", -1)
    return {
        "keys": None if keys.count(None) == len(keys) else keys,
        "offsets": None if what == PUBLISH else [each["offset"] if each["offset"] >= 0 else None for each in records],
        "sequences": range(first, first + len(records)) if what == PUBLISH and first >= 0 else None,
        "times_ns": [None if time_ms is None or time_ms < 0 else nanoseconds(time_ms) for time_ms in times_ms],
        "headers": None if headers.count(None) == len(headers) else headers,
    }


def header_of(header: Mapping[str, Any], secrets: bool) -> tuple[str, bytes]:
    value = harmless(header, secrets) or b""
    return printable(header["key"]), value.encode() if isinstance(value, str) else value
