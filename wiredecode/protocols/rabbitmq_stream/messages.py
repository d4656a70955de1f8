"""The messages of Publish and Deliver as rows: what of a frame was captured, sub-batches unpacked."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from wiredecode.fields import Array, plain
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.message import DELIVER, PUBLISH, FrameElements, Messages, nanoseconds
from wiredecode.protocols.rabbitmq_stream.layers_chunk import CHUNK_MAGIC, Chunk, chunk_start
from wiredecode.protocols.rabbitmq_stream.layers_sub_batches import HEADER, Opened, opened_of, read
from wiredecode.protocols.shared.compression import Budget

SIZE, NUMBER, COUNT = struct.Struct(">I"), struct.Struct(">Q"), struct.Struct(">I")
PUBLISH_HEADER = 13
FILTER_NULL = 0xFFFF


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
    out.add_part(part)


@cache
def element_of(layer: type[Layer]) -> type[Layer]:
    """What messages are in a Publish, or in the chunk of a Deliver."""
    array: Any = layer.fields_desc[-1]
    if not isinstance(array, Array):
        array = next(plain(kind) for kind in array.layer.fields_desc if kind.name == "entries")
    element: type[Layer] = array.element.layer
    return element


@dataclass(slots=True)
class Entries:
    """Messages of one frame, in columns; ``numbers`` are publishing ids or offsets."""

    opened: Mapping[int, Opened]
    """Sub-batches that were opened already."""
    bodies: list[bytes] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)
    compressions: list[str | None] = field(default_factory=list)
    budget: Budget = field(default_factory=Budget)
    shares: list[int] = field(default_factory=list)
    """Which entry of the frame each is in."""
    chunk: int | None = None
    count: int = 0
    """Entries."""

    def entry(self, data: bytes, position: int, number: int) -> tuple[int, int]:
        """Read a message or sub-batch; return the position behind it and how many messages it announces."""
        self.count += 1
        if data[position] >= 0x80:
            return self._sub_batch(data, position, number)
        start = position + SIZE.size
        stop = start + SIZE.unpack_from(data, position)[0]
        if stop > len(data):
            raise struct.error
        self.bodies.append(data[start:stop])
        self.numbers.append(number)
        self.compressions.append(None)
        self.shares.append(self.count - 1)
        return stop, 1

    def _sub_batch(self, data: bytes, position: int, number: int) -> tuple[int, int]:
        found = self.opened.get(position) or read(data, position, self.budget)
        bodies = found.bodies
        self.bodies += bodies
        self.numbers += [number] * len(bodies)
        self.compressions += [found.codec] * len(bodies)
        self.shares += [self.count - 1] * len(bodies)
        return position + HEADER.size + HEADER.unpack_from(data, position)[3], found.announced

    def add(self, frame: Frame, out: Messages, operation: str, time_ns: int | None = None) -> None:
        """Hand the messages on, stretch by stretch of equal compression."""
        numbers = self.numbers
        topic = frame.generated.get("stream")
        low = 0
        for high in range(1, len(numbers) + 1):
            if high < len(numbers) and self.compressions[high] == self.compressions[low]:
                continue
            out.add(
                frame,
                operation,
                self.bodies[low:high],
                topic=topic,
                sequences=numbers[low:high] if operation == PUBLISH else None,
                offsets=numbers[low:high] if operation == DELIVER else None,
                times_ns=None if time_ns is None else [time_ns] * (high - low),
                compression=self.compressions[low],
                shares=self.shares[low:high] if operation == PUBLISH else None,
                chunk=self.chunk,
            )
            low = high


def add_messages(frame: Frame, out: Messages) -> None:
    """See :meth:`Conversation.messages`. The messages of a sub-batch share its publishing id."""
    if frame.type == "Publish":
        published(frame).add(frame, out, PUBLISH)
    elif frame.type == "Deliver" and "version" in frame.values:
        data = frame.data
        start = chunk_start(frame.values["version"])
        if len(data) >= start + Chunk.HEADER_LENGTH and data[start] == CHUNK_MAGIC and data[start + 1] == 0:
            time_ns = nanoseconds(Chunk.HEADER.unpack_from(data, start)[4])
            delivered(data, start, opened_of(frame)).add(frame, out, DELIVER, time_ns)


def published(frame: Frame) -> Entries:
    entries, data, position = Entries(opened_of(frame)), frame.data, PUBLISH_HEADER
    if len(data) < position:
        return entries
    filtered = frame.values.get("version") == 2
    try:
        for _ in range(COUNT.unpack_from(data, position - COUNT.size)[0]):
            number = NUMBER.unpack_from(data, position)[0]
            position += NUMBER.size
            if filtered:
                size = int.from_bytes(data[position : position + 2], "big")
                position += 2 + (0 if size == FILTER_NULL else size)
            position, _ = entries.entry(data, position, number)
    except (struct.error, IndexError):
        pass  # the rest was not captured, or does not fit: the frame says so
    return entries


def delivered(data: bytes, start: int, opened: Mapping[int, Opened]) -> Entries:
    entries = Entries(opened)
    header = Chunk.HEADER.unpack_from(data, start)
    position = start + Chunk.HEADER_LENGTH
    data = data[: position + header[8]]
    offset = entries.chunk = header[6]
    try:
        for _ in range(header[2]):
            before = len(entries.numbers)
            position, count = entries.entry(data, position, offset)
            found = len(entries.numbers) - before
            entries.numbers[before:] = range(offset, offset + found)
            offset += count
    except (struct.error, IndexError):
        pass  # as in published()
    return entries
