"""Collects decoded rows until they make a batch of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from operator import attrgetter

import pyarrow as pa

from wiredecode.frames.block import BlockMessages
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import MessagePart, Messages
from wiredecode.frames.record import BYTES
from wiredecode.tables.frames import Builder, FrameTable, ignore
from wiredecode.tables.messages import MessageTable
from wiredecode.tables.schema import RAW

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
