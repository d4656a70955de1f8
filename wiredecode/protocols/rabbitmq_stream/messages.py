"""The messages of Publish and Deliver as rows: what of a frame was captured, sub-batches unpacked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Messages, nanoseconds
from wiredecode.protocols.rabbitmq_stream.layers_chunk import CHUNK_MAGIC
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import Opened, opened_of
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import open_sub_batch as open_batch
from wiredecode.protocols.reading import values_of
from wiredecode.protocols.shared.amqp.secrets import blank_credentials


def add_messages(frame: Frame, out: Messages) -> None:
    """See :meth:`Conversation.messages`. The messages of a sub-batch share its publishing id."""
    if frame.layer is None or frame.type not in ("Publish", "Deliver"):
        return
    values: Mapping[str, Any] = frame.values
    if not isinstance(_entries(values), list):
        values = values_of(frame)
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
            bodies if out.secrets else [blank_credentials(body) for body in bodies],
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
    ready = iter(opened)
    for share, entry in enumerate(entries):
        first = entry.get("publishing_id") if offset is None else offset
        batch = entry.get("sub_batch", {})
        if "data" in entry:
            yield None, first, entry["data"], share
            announced = 1
        elif "data" in batch:
            batch_opened = next(ready, None) or open_batch(batch)
            for index, body in enumerate(batch_opened.bodies):
                yield batch_opened.codec, first if offset is None else first + index, body, share
            announced = batch_opened.announced
        else:
            return
        if offset is not None:
            offset += announced
