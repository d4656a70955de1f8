"""The messages of Publish and Deliver as rows: what of a frame was captured, sub-batches unpacked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from wiredecode.fields import Array, compiler, plain
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.message import DELIVER, PUBLISH, FrameElements, Messages, nanoseconds
from wiredecode.protocols.rabbitmq_stream.layers_chunk import CHUNK_MAGIC
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import Opened, opened_of
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import opened as open_batch
from wiredecode.protocols.shared import amqp
from wiredecode.protocols.shared.compression import Budget


def add_elements(frame: Frame, out: Messages) -> None:
    """Add the messages of a frame that was read with rows by where they start; of others one by one."""
    chunk: dict[str, Any] = frame.values.get("chunk", {})
    values: Any = chunk or frame.values
    name = "entries" if chunk else "messages"
    starts = values.get(name)
    if frame.layer is None or not isinstance(starts, list) or frame.status != OK:
        add_messages(frame, out)
        return
    values[name] = len(starts)
    if opened_of(frame):
        add_messages(frame, out)
        return
    element = element_of(frame.layer)
    if not chunk:
        columns = {"sequence": "publishing_id", "body": "data"}
        part = FrameElements(frame, PUBLISH, element, starts, columns, add_messages)
    else:
        columns = {"body": "data"}
        part = FrameElements(frame, DELIVER, element, starts, columns, add_messages)
        part.first_offset, part.time_ns = chunk["chunk_id"], nanoseconds(chunk["timestamp"])
        part.chunk = part.first_offset
    part.topic = frame.generated.get("stream")
    part.holding_secrets = None if out.secrets else amqp.holding_rows
    out.add_part(part)


@cache
def element_of(layer: type[Layer]) -> type[Layer]:
    """What messages are in a Publish, or in the chunk of a Deliver."""
    array: Any = layer.fields_desc[-1]
    if not isinstance(array, Array):
        array = next(plain(kind) for kind in array.layer.fields_desc if kind.name == "entries")
    element: type[Layer] = array.element.layer
    return element


def add_messages(frame: Frame, out: Messages) -> None:
    """See :meth:`Conversation.messages`. The messages of a sub-batch share its publishing id."""
    if frame.layer is None or frame.type not in ("Publish", "Deliver"):
        return
    values: Mapping[str, Any] = frame.values
    if not isinstance(_entries(values), list):
        values = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop).values
    chunk = values.get("chunk", {})
    operation, time_ns = PUBLISH, None
    if frame.type == "Deliver":
        if chunk.get("magic_version") != CHUNK_MAGIC:
            return
        operation, time_ns = DELIVER, nanoseconds(chunk["timestamp"])
    rows = _rows(_entries(values) or (), chunk.get("chunk_id"), opened_of(frame))
    for compression, some in groupby(rows, itemgetter(0)):
        _, numbers, bodies, shares = zip(*some, strict=True)
        out.add(
            frame,
            operation,
            bodies if out.secrets else [amqp.blanked(body) for body in bodies],
            topic=frame.generated.get("stream"),
            sequences=numbers if operation == PUBLISH else None,
            offsets=numbers if operation == DELIVER else None,
            times_ns=None if time_ns is None else [time_ns] * len(bodies),
            compression=compression,
            shares=shares if operation == PUBLISH else None,
            chunk=chunk.get("chunk_id"),
        )


def _entries(values: Mapping[str, Any]) -> Any:
    return values.get("chunk", {}).get("entries", values.get("messages"))


def _rows(entries: Iterable[Any], offset: int | None, opened: Sequence[Opened]) -> Iterator[tuple[Any, ...]]:
    """``(compression, publishing id or offset, message, entry)`` of each message that was captured whole."""
    budget, ready = Budget(), iter(opened)
    for share, entry in enumerate(entries):
        batch = entry.get("sub_batch", {})
        if "data" in entry:
            found = Opened(1, None, [entry["data"]], None)
        elif "data" in batch:
            found = next(ready, None) or open_batch(batch, budget)
        else:
            return
        for index, body in enumerate(found.bodies):
            yield found.codec, entry["publishing_id"] if offset is None else offset + index, body, share
        if offset is not None:
            offset += found.announced
