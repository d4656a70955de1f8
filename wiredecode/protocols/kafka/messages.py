"""The records of Produce and of the answers to Fetch, as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable, redacted
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, FORWARD, PUBLISH, Messages, nanoseconds
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import Asked, lists_of, number_of, topic_of
from wiredecode.protocols.kafka.layers_records import batches_of, is_secret

CARRIERS = {"ProduceRequest": "topic_data", "FetchResponse": "responses", "ShareFetchResponse": "responses"}


def add_messages(frame: Frame, asked: Asked | None, known: Mapping[bytes, str], out: Messages) -> None:
    """Add the records of a frame that was just decoded; markers of transactions are none."""
    what = operation(frame, asked)
    for topic in frame.values.get(CARRIERS.get(frame.type or "", "")) or ():
        for partition in lists_of(topic):
            place: dict[str, Any] = {"topic": topic_of(topic, known), "partition": number_of(partition)}
            for slot, batch, records in batches_of(partition.get("batches") or b""):
                if not batch.get("control"):
                    codec = names.CODECS.get(slot.codec) if slot.codec else None
                    bodies, columns = [each["value"] for each in records], columns_of(what, batch, records, out.secrets)
                    out.add(frame, what, bodies, compression=codec, **place, **columns)


def operation(frame: Frame, asked: Asked | None) -> str:
    """Whether a client or another broker gets the records."""
    if frame.type == "ProduceRequest":
        return PUBLISH
    values = {} if asked is None else asked.values
    replica = (values.get("replica_state") or values).get("replica_id", -1)
    return FORWARD if replica >= 0 else DELIVER


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
    value = header["value"] or b""
    return printable(header["key"]), value if secrets or not is_secret(header) else redacted(value).encode()
