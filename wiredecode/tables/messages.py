"""Messages as Arrow: from what conversations collected to record batches of the messages table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from wiredecode.arrays import Int64s
from wiredecode.frames.block import BlockMessages
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Coded, FrameMessages, MessagePart, Messages
from wiredecode.frames.record import BYTES
from wiredecode.tables.column_builders import ByteStrings, Headers, Integers, Texts
from wiredecode.tables.confirms import CONFIRM_COLUMNS, confirms_of
from wiredecode.tables.frames import Builder, FrameTable, ignore
from wiredecode.tables.schema import RAW, messages_schema, select

NAMES = (
    *("src", "dst", "sender", "protocol", "type", "operation", "topic", "compression", "outcome", "refusal"),
    "namespace",
)
NUMBERS = (
    *("frame", "time", "connection", "index", "partition", "offset", "sequence", "timestamp"),
    *("confirmed_ns", "latency_ns", "confirm_frame", "chunk"),
)
BYTE_COLUMNS = ("key", "body")


def collector(name: str) -> Texts | Integers | ByteStrings | Headers:
    """Builder of a column of the table."""
    if name in NAMES:
        return Texts()
    if name in BYTE_COLUMNS:
        return ByteStrings()
    kind = messages_schema().field(name).type
    return Integers(kind) if name in NUMBERS else Headers(kind)


class MessageTable:
    """Turns parts of :class:`wiredecode.frames.message.Messages` into a record batch, in the order of frames.

    ``columns``: the batch has these only, in the order of the table; None: all.
    """

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        self.schema = select(messages_schema(), columns)
        wanted = ["body" if name == "size" else name for name in self.schema.names]
        self._columns: dict[str, Any] = {name: collector(name) for name in wanted}
        self.rows = 0
        self._order: list[Int64s] = []
        """Numbers of the frames of all rows."""
        self._waiting: list[FrameMessages] = []
        self._numbered = 0, 0
        """The last frame that was added singly, and its number of messages."""

    def add(self, part: MessagePart) -> None:
        if isinstance(part, FrameMessages):
            self._waiting.append(part)
            self.rows += len(part.bodies)
        elif isinstance(part, BlockMessages):
            self._add_frames()
            self._add_block(part)
            self.rows += len(part.rows)

    def _add_block(self, part: BlockMessages) -> None:
        block, rows, columns = part.block, part.rows, part.columns
        count, ends = len(rows), block.connection.endpoints
        kinds = block.kinds[rows].astype(np.int32)
        values: dict[str, Any] = {
            "frame": block.ids[rows],
            "time": block.time_ns[rows],
            "connection": block.connection.id,
            "src": ends[block.side],
            "dst": ends[1 - block.side],
            "sender": block.sender,
            "type": Coded(kinds, list(block.types)),
            "protocol": block.protocol,
            **columns,
        }
        self._order.append(block.numbers[rows])
        for name, collected in self._columns.items():
            collected.add(values.get(name), count)

    def _add_frames(self) -> None:
        """Add the messages of the waiting frames together: most have few messages."""
        parts, self._waiting = self._waiting, []
        if not parts:
            return
        counts = [len(part.bodies) for part in parts]
        rows = np.repeat(np.arange(len(parts)), counts)
        firsts = self._places(parts, counts)
        self._order.append(np.array([part.frame.number for part in parts], np.int64)[rows])
        for name in self._columns.keys() & FRAME_VALUES.keys():
            self._columns[name].add_each([*map(FRAME_VALUES[name], parts)], rows)
        for name in self._columns.keys() & MESSAGE_VALUES.keys():
            self._columns[name].add_lists([*map(MESSAGE_VALUES[name], parts)], counts)
        if "index" in self._columns:
            moved = np.cumsum(counts) - counts - np.array(firsts, np.int64)
            self._columns["index"].add(np.arange(len(rows)) - moved[rows], len(rows))
        if not self._columns.keys().isdisjoint(CONFIRM_COLUMNS):
            answers, which = confirms_of(parts, counts, firsts)
            for name, values in zip(CONFIRM_COLUMNS, zip(*answers, strict=True), strict=True):
                if name in self._columns:
                    self._columns[name].add_each(values, which)

    def _places(self, parts: list[FrameMessages], counts: list[int]) -> list[int]:
        """The index of the first message of each part in its frame."""
        places = []
        for part, count in zip(parts, counts, strict=True):
            place = self._numbered[1] if self._numbered[0] == part.frame.number else 0
            places.append(place)
            self._numbered = part.frame.number, place + count
        return places

    def batch(self) -> pa.RecordBatch:
        """The added messages, as one batch."""
        schema = self.schema
        if not self.rows:
            return pa.RecordBatch.from_pylist([], schema=schema)
        self._add_frames()
        frames = np.concatenate(self._order)
        order = None if bool((frames[1:] >= frames[:-1]).all()) else np.argsort(frames, kind="stable")
        arrays = {name: column.array(order) for name, column in self._columns.items()}
        if "size" in schema.names:
            arrays["size"] = pa.compute.binary_length(arrays["body"]).cast(pa.int64())
        columns = [
            arrays[field.name] if arrays[field.name].type == field.type else arrays[field.name].cast(field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


FRAME_VALUES: dict[str, Callable[[Any], Any]] = {
    **{name: attrgetter(f"frame.{name}") for name in ("sender", "protocol", "type")},
    **{name: attrgetter(name) for name in ("operation", "topic", "compression", "partition", "chunk", "namespace")},
    "frame": attrgetter("frame.id"),
    "time": attrgetter("frame.time_ns"),
    "connection": attrgetter("frame.connection.id"),
    "src": attrgetter("frame.source"),
    "dst": attrgetter("frame.destination"),
}
MESSAGE_VALUES: dict[str, Callable[[FrameMessages], Any]] = {
    "offset": attrgetter("offsets"),
    "sequence": attrgetter("sequences"),
    "timestamp": attrgetter("times_ns"),
    "key": attrgetter("keys"),
    "headers": attrgetter("headers"),
    "body": attrgetter("bodies"),
}


BATCH_ROWS = 16_384
"""Most rows of a batch."""
BATCH_BYTES = 32 * 1024 * 1024
"""About this many bytes of message bodies make a batch; a frame that has more is a separate batch."""
FRAME_ROWS = 16_384
FRAME_BYTES = 4 * 1024 * 1024
"""The same of frames, for until their batch is made they are Python objects, some 20 times their size on the wire."""
ROW_BYTES = 256
"""Added to the length of each frame for what else is in its row."""


class FrameBatches:
    """Frames until they make a batch."""

    def __init__(self, schema: pa.Schema, bytes_choice: str, failures: Counter[str]) -> None:
        self._table = FrameTable(schema, bytes_choice, failures=failures)
        self._frames: list[Frame] = []
        self._size = 0

    def add(self, frame: Frame) -> bool:
        """Whether it is time to take a batch."""
        self._frames.append(frame)
        self._size += ROW_BYTES + frame.length + sum(len(inner.data) for inner in frame.inner)
        return len(self._frames) == FRAME_ROWS or self._size >= FRAME_BYTES

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Return the added rows."""
        frames, self._frames, self._size = self._frames, [], 0
        if frames:
            yield self._table.batch(frames)


class MessageBatches:
    """The messages of frames until they make a batch; ``messages`` are those that were collected."""

    def __init__(self, messages: Messages, schema: pa.Schema, bytes_choice: str) -> None:
        self._messages, self._schema = messages, schema
        self._show = None if bytes_choice == RAW else Builder(BYTES[bytes_choice])
        self._table = MessageTable(schema.names)
        self._size = 0

    def add(self, frame: Frame) -> bool:
        """Whether it is time to take batches."""
        full = False
        for part in self._messages.of(frame):
            full = self._add(part)
        return full

    def add_parts(self, parts: list[MessagePart]) -> Iterator[pa.RecordBatch]:
        """Add messages, which are taken out of ``parts``; yield the batches that they make."""
        number, blocks = attrgetter("frame.number"), any(isinstance(part, BlockMessages) for part in parts)
        if not blocks:
            parts.sort(key=number)
        parts.reverse()
        while parts:
            full = self._add(part := parts.pop())  # what was added is not kept until the last one is
            if full and (not parts or (not blocks and number(part) != number(parts[-1]))):
                yield from self.drain()

    def _add(self, part: MessagePart) -> bool:
        """Whether it is time to take batches."""
        self._table.add(part)
        self._size += part.size
        return self._table.rows >= BATCH_ROWS or self._size >= BATCH_BYTES

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Return the added rows; one frame may have more messages than a batch has rows."""
        table, self._table, self._size = self._table, MessageTable(self._schema.names), 0
        if table.rows:
            batch = table.batch()
            for first in range(0, len(batch), BATCH_ROWS):
                yield self._shown(batch.slice(first, BATCH_ROWS))

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bytes as text, where text was asked for."""
        if self._show is None:
            return batch
        columns = [
            column if column.type == field.type else self._show.array(field, column.to_pylist(), ignore)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        return pa.record_batch(columns, schema=self._schema)
