"""The messages of batches, and those that are published or delivered one by one as text, as rows."""

import re
from collections.abc import Mapping
from typing import Any

from wiredecode.fields import compiler, printable, redact
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, FORWARD, PUBLISH, Messages
from wiredecode.protocols.cursus.layers_batch import PARTITION_TEXT

PUBLISHED = re.compile(r"PUBLISH:[^:]*:(?P<topic>[^:]*):")
IDEMPOTENT = re.compile(r"IDEMPOTENT:[^:]*:[^:]*:(?P<number>[0-9]{1,20}):[^:]*:")
"""Beginnings of publishes of 2025-11, in an envelope; any other text there was a message as a whole."""
MAX_PARTITION, MAX_NUMBER = 1 << 31, 1 << 64
"""Partitions and sequence numbers are below these."""
OLDEST = (None, "seed")
"""Dialects of connections that may be of that time."""


def add_batch(frame: Frame, compression: str | None, out: Messages) -> None:
    """Add the messages of a batch, or of the batch inside a frame."""
    layer, data, start, stop = frame.layer, frame.buffer, frame.start, frame.stop
    if frame.inner:
        layer, data = frame.inner[-1].layer, frame.inner[-1].data
        start, stop = 0, len(data)
    if layer is None or layer.fields_desc[-1].name != "messages":
        return
    values = compiler.readable(layer, data, start, stop)[0]
    last = layer.fields_desc[-1].element.layer.fields_desc[-1].name
    messages = [each for each in values.get("messages", ()) if last in each or "secret_data" in each]
    if messages:  # whole ones
        _add_rows(frame, values, messages, compression, out)


def _add_rows(
    frame: Frame, values: Mapping[str, Any], messages: list[dict[str, Any]], compression: str | None, out: Messages
) -> None:
    offsets = [each["offset"] for each in messages] if "offset" in messages[0] else None
    secrets = (each.get("secret_data") for each in messages)
    bodies = [
        each["data"] if secret is None else redact(secret).encode()
        for each, secret in zip(messages, secrets, strict=True)
    ]
    placed = offsets is not None and any(offsets)
    delivered = frame.sender == "server" or (frame.sender is None and placed)
    partition = values["partition"]
    if isinstance(partition, str):
        partition = int(partition) if PARTITION_TEXT.match(partition) else -1
        partition = number_below(partition, MAX_PARTITION)
    keys = [each["key"].encode("utf-8", "surrogateescape") for each in messages] if "key" in messages[0] else None
    out.add(
        frame,
        DELIVER if delivered else operation_of(frame),
        bodies,
        topic=printable(values["topic"]),
        partition=partition,
        keys=keys,
        offsets=offsets if placed or delivered else None,  # clients write 0
        sequences=[each["seq"] for each in messages],
        compression=compression,
    )


# Messages as text.


def add_published(frame: Frame, named: Mapping[str, Any], out: Messages) -> None:
    """Add the message of a command that publishes one: PUBLISH, TXN_PUBLISH, APPEND_STREAM, PUBLISH_IDEMPOTENT."""
    if "message" not in named or frame.is_partial:
        return
    body = _raw(frame.values.get("tail", {}), "message", named["message"])
    key, number = named.get("key"), number_below(named.get("seq_num"), MAX_NUMBER)
    out.add(
        frame,
        operation_of(frame),
        [body],
        topic=named.get("topic"),
        partition=number_below(named.get("partition"), MAX_PARTITION),
        keys=None if key is None else [str(key).encode()],
        sequences=None if number is None else [number],
        compression=named.get("compression"),
    )


def operation_of(frame: Frame) -> str:
    return FORWARD if "forwarded" in frame.generated else PUBLISH


def add_envelope(frame: Frame, named: Mapping[str, Any], out: Messages) -> None:
    """Add the message of an envelope: what 2025-11 published."""
    if frame.is_partial or frame.inner or not frame.values.get("envelope_topic"):
        return
    text: str = named["text"]
    topic = printable(frame.values["envelope_topic"])
    head = PUBLISHED.match(text) or IDEMPOTENT.match(text)
    if head is None and frame.dialect not in OLDEST:
        return
    parts = head.groupdict() if head else {}
    body, number = _raw(frame.values, "text", text), number_below(int(parts.get("number", -1)), MAX_NUMBER)
    out.add(
        frame,
        PUBLISH,
        [body[len(head[0].encode()) :] if head else body],
        topic=parts.get("topic") or topic,
        sequences=None if number is None else [number],
    )


def add_delivered(frame: Frame, named: Mapping[str, Any], topic: Any, partition: Any, out: Messages) -> None:
    """Add the message of a text that answers a CONSUME: how 2025-11 delivered."""
    if frame.is_partial or frame.inner:
        return
    out.add(
        frame,
        DELIVER,
        [_raw(frame.values, "text", named["text"])],
        topic=topic if isinstance(topic, str) else None,
        partition=number_below(partition, MAX_PARTITION),
    )


def number_below(value: Any, limit: int) -> int | None:
    """A number that a command names, if it is one that can be meant: -1 leaves the choice to the broker."""
    return value if isinstance(value, int) and 0 <= value < limit else None


def _raw(values: Mapping[str, Any], name: str, shown: str) -> bytes:
    """A text as its bytes on the wire; as it is shown, where it holds a secret."""
    text = values.get(name)
    return (shown if text is None else text).encode("utf-8", "surrogateescape")
