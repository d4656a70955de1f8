"""The messages of Publish and Deliver as rows: what of a frame was captured, sub-batches unpacked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
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
    for compression, numbers, bodies, shares in _runs(_entries(values) or (), chunk.get("chunk_id"), opened_of(frame)):
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


Run = tuple[str | None, Sequence[int | None], Sequence[bytes], Sequence[int]]
"""Messages that follow each other: their compression, publishing ids or offsets, contents and entries."""


def _runs(entries: Iterable[Any], offset: int | None, opened: Sequence[Opened]) -> Iterator[Run]:
    """The messages that were captured whole. ``offset``: of the first; None: they are published."""
    ready, share = iter(opened), 0
    for simple, some in groupby(entries, lambda entry: "data" in entry):
        run = list(some)
        if simple:
            bodies = [entry["data"] for entry in run]
            numbers = [entry.get("publishing_id") for entry in run] if offset is None else _following(offset, bodies)
            yield None, numbers, bodies, range(share, share + len(run))
            offset = None if offset is None else offset + len(run)
        for place, entry in enumerate(() if simple else run, share):
            batch = entry.get("sub_batch", {})
            if "data" not in batch:
                return
            announced, codec, bodies, _ = next(ready, None) or open_batch(batch)
            same = [entry.get("publishing_id")] * len(bodies)
            yield codec, same if offset is None else _following(offset, bodies), bodies, [place] * len(bodies)
            offset = None if offset is None else offset + announced
        share += len(run)


def _following(offset: int, bodies: Sequence[bytes]) -> range:
    return range(offset, offset + len(bodies))
