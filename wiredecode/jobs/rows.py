"""What a process makes of its frames: rows as record batches, each with the number of its frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pyarrow as pa

from wiredecode.frames.frame import Frame
from wiredecode.frames.run import Run
from wiredecode.tables.reader import FrameBatches, MessageBatches

FRAME = "frame"
LINE_BYTES = 4 * 1024 * 1024
"""So many bytes of lines make a batch."""
LINES = pa.schema([pa.field(FRAME, pa.int64(), nullable=False), pa.field("line", pa.binary(), nullable=False)])


class Rows(Protocol):
    """Takes frames and runs in order, gives rows; each batch has a column ``frame``."""

    def add(self, item: Frame | Run) -> bool:
        """Whether it is time to take batches."""
        ...

    def take(self) -> Iterator[pa.RecordBatch]:
        """The rows of what was added."""
        ...


class MessageRows:
    """Messages; conversations collect them."""

    def __init__(self, batches: MessageBatches) -> None:
        self._batches = batches

    def add(self, item: Frame | Run) -> bool:
        return False  # what is ready together comes in no order

    def take(self) -> Iterator[pa.RecordBatch]:
        self._batches.gather()
        return self._batches.take()


class FrameRows:
    """Frames as a table."""

    def __init__(self, batches: FrameBatches) -> None:
        self._batches = batches

    def add(self, item: Frame | Run) -> bool:
        assert isinstance(item, Frame)
        return self._batches.add(item)

    def take(self) -> Iterator[pa.RecordBatch]:
        return self._batches.take()


class LineRows:
    """A line of text per frame; none for a frame whose line is empty."""

    def __init__(self, line: Callable[[Frame], bytes]) -> None:
        self._line = line
        self._numbers: list[int] = []
        self._lines: list[bytes] = []
        self._size = 0

    def add(self, item: Frame | Run) -> bool:
        assert isinstance(item, Frame)
        line = self._line(item)
        if not line:
            return False
        self._numbers.append(item.number)
        self._lines.append(line)
        self._size += len(line)
        return self._size >= LINE_BYTES

    def take(self) -> Iterator[pa.RecordBatch]:
        numbers, lines, self._numbers, self._lines, self._size = self._numbers, self._lines, [], [], 0
        if numbers:
            yield pa.record_batch([pa.array(numbers, pa.int64()), pa.array(lines, pa.binary())], schema=LINES)
