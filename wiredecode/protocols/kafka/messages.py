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
    topics = frame.values.get(CARRIERS.get(frame.type or "", ""))
    for topic in topics or ():
        for partition in lists_of(topic):
            for slot, batch, records in batches_of(partition.get("batches") or b""):
                if not batch.get("control") and records:
                    add_records(
                        *(frame, operation(frame, asked), topic_of(topic, known), number_of(partition)),
                        *(slot.codec, batch, records, out),
                    )


def operation(frame: Frame, asked: Asked | None) -> str:
    """Whether a client or another broker gets the records."""
    if frame.type == "ProduceRequest":
        return PUBLISH
    values = {} if asked is None else asked.values
    replica = (values.get("replica_state") or values).get("replica_id", -1)
    return FORWARD if replica >= 0 else DELIVER


def header_of(header: Mapping[str, Any], secrets: bool) -> tuple[str, bytes]:
    value = header["value"] or b""
    return printable(header["key"]), value if secrets or not is_secret(header) else redacted(value).encode()


def add_records(
    frame: Frame,
    what: str,
    topic: str | None,
    partition: int | None,
    codec: int,
    batch: Mapping[str, Any],
    records: list[dict[str, Any]],
    out: Messages,
) -> None:
    keys = [each["key"] for each in records]
    headers = [[header_of(header, out.secrets) for header in each["headers"]] or None for each in records]
    first = batch.get("base_sequence", -1)
    out.add(
        *(frame, what, [each["value"] for each in records]),
        topic=topic,
        partition=partition,
        keys=None if keys.count(None) == len(keys) else keys,
        offsets=None if what == PUBLISH else [each["offset"] for each in records],
        sequences=range(first, first + len(records)) if what == PUBLISH and first >= 0 else None,
        times_ns=[
            None if each["time_ms"] is None or each["time_ms"] < 0 else nanoseconds(each["time_ms"]) for each in records
        ],
        headers=None if headers.count(None) == len(headers) else headers,
        compression=names.CODECS.get(codec) if codec else None,
    )
