"""Messages and their confirms or acks, which conversations collect, as Arrow record batches."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from wiredecode.arrays import Int64s
from wiredecode.dissect.ledger import Ledger, UnlinkedFrames
from wiredecode.dissect.share import DecodingStep
from wiredecode.frames.block import BlockMessages, FrameBlock
from wiredecode.frames.followed import FollowedFrame
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import PUBLISH, Coded, FrameMessages, MessagePart, Messages
from wiredecode.frames.record import BYTES
from wiredecode.tables.column_builders import ByteStrings, Integers, NamedValues, Texts, fixed_width
from wiredecode.tables.frames import ArrayBuilder, FrameTable, ignore
from wiredecode.tables.schema import ORDER, RAW, declared_schema, select

CONFIRM_COLUMNS = ("confirmed_time_ns", "latency_ns", "outcome", "refusal", "confirm_frame")

ConfirmRow = tuple[int | None, int | None, str | None, str | None, int | None]
"""The values of these columns for a message."""
NO_CONFIRM: ConfirmRow = (None,) * 5


def confirms_of(
    parts: Sequence[FrameMessages], counts: Sequence[int], firsts: Sequence[int]
) -> tuple[list[ConfirmRow], Int64s]:
    """Distinct responses to the messages of parts, and the index of the response of each message.

    ``counts``: messages of each part; ``firsts``: number of messages of its frame before it.
    """
    answers: list[ConfirmRow] = []
    starts: list[int] = []
    different: list[tuple[int, Int64s]] = []
    for index, (part, count, first) in enumerate(zip(parts, counts, firsts, strict=True)):
        rows = _answer_rows(part)
        if len(rows) > 1:
            different.append((index, _answer_indexes(part, count, first)))
        starts.append(len(answers))
        answers += rows
    which = np.repeat(np.array(starts, np.int64), counts)
    ends = np.cumsum(counts)
    for index, added in different:
        which[ends[index] - counts[index] : ends[index]] += added
    return answers, which


def _answer_rows(part: FrameMessages) -> list[ConfirmRow]:
    """The row of messages without an answer, then each answer; one row if it holds for all."""
    frame = part.frame
    if part.operation != PUBLISH and frame.acks is None:
        return [NO_CONFIRM]
    rows: list[ConfirmRow] = []
    for confirmation, number, at_ns in frame.answers:
        latency_ns = at_ns - frame.time_ns if at_ns >= frame.time_ns else None  # else it was refused before it was sent
        rows.append((at_ns, latency_ns, confirmation.outcome, confirmation.refusal, number))
    if len(rows) == 1 and frame.answers[0].confirmation.final is not None:
        return rows
    return [(None, None, frame.outcome or None, None, None), *rows]


def _answer_indexes(part: FrameMessages, count: int, first: int) -> Int64s:
    """For each message of a part the last answer that names it; 0 for none."""
    shares = np.arange(first, first + count)
    if part.shares is not None:
        shares = np.array(part.shares, np.int64)
    indexes = np.zeros(count, np.int64)
    for index, answer in enumerate(part.frame.answers, 1):
        low = answer.confirmation.first
        indexes[(shares >= low) & (shares < low + answer.confirmation.length)] = index
    return indexes


class HeldMessages:
    """Holds the messages of frames and blocks back until their outcome is known, within bounds."""

    def __init__(self, messages: Messages, *, in_order: bool) -> None:
        self._messages = messages
        self._ledger = Ledger(in_order=in_order)
        self._held: deque[tuple[int, list[MessagePart]]] = deque()
        """Number of the last frame, and the messages, of what came together."""
        self._overtaken: dict[int, list[MessagePart]] = {}
        """Messages of requests that later frames have overtaken, by id of the frame."""

    def add(self, items: Iterable[Frame | FrameBlock], step: DecodingStep | None = None) -> None:
        """Add the items of :meth:`Dissector.frames_and_blocks`; its messages were collected.

        ``step``: that of the items, with several processes.
        """
        ledger = self._ledger
        frames = [item for item in items if isinstance(item, Frame)]
        blocks = [item for item in items if not isinstance(item, Frame)]
        if not frames and not blocks and step is None:
            return
        linked = [frame.number for frame in frames if frame.request is not None or frame.expects_response]
        ordered: list[Frame | UnlinkedFrames] = [*frames]
        for block in blocks:
            ordered += unlinked_frames(block, sorted(linked))
        for item in sorted(ordered, key=attrgetter("number")):
            if step is not None:
                count, size = (1, 0) if isinstance(item, Frame) else (item.frames, item.bytes)
                ledger.skip_others(item.number - count, step.before.get(item.number, 0) - size)
            if isinstance(item, FollowedFrame):
                ledger.follow(item)
            elif isinstance(item, Frame):
                ledger.frame(item)
            else:
                ledger.add_unlinked(item)
        self._held.append((ledger.seen, self._messages.drain()))
        if step is not None:
            ledger.skip_others(step.last, step.size)

    def first_held(self, otherwise: int) -> int:
        """The number of the first frame whose messages are held back."""
        parts: Iterator[Any] = (part for _, parts in self._held for part in parts)
        firsts = (
            part.frame.number if isinstance(part, FrameMessages) else int(part.block.numbers[0]) for part in parts
        )
        return min(firsts, default=otherwise)

    def finish(self, last_ns: int) -> int:
        """End of the frames; ``last_ns``: time of the last packet. Return :attr:`Ledger.missed`."""
        self._ledger.finish(last_ns)
        return self._ledger.missed

    def release(self) -> list[MessagePart]:
        """Take the messages whose outcome is known."""
        released: list[MessagePart] = []
        ready = self._ledger.seen - self._ledger.waiting
        while self._held and self._held[0][0] <= ready:
            released += self._held.popleft()[1]
        if self._held:
            last, parts = self._held[0]
            single = [part for part in parts if isinstance(part, FrameMessages)]
            if len(single) == len(parts):  # else the messages of blocks wait together
                released += [part for part in single if part.frame.number <= ready]
                self._held[0] = last, [part for part in single if part.frame.number > ready]
        if self._ledger.overtaken:
            released = [part for part in released if not self._is_overtaken(part)]
        for frame in self._ledger.take_settled():
            released += self._overtaken.pop(frame.id, ())
        return released

    def _is_overtaken(self, part: MessagePart) -> bool:
        """Whether later messages overtake a part, which is kept then."""
        if not isinstance(part, FrameMessages) or part.frame.id not in self._ledger.overtaken:
            return False
        self._overtaken.setdefault(part.frame.id, []).append(part)
        return True


def unlinked_frames(block: FrameBlock, linked: list[int]) -> Iterator[UnlinkedFrames]:
    """The frames of a block, in stretches that no frame with one of the numbers ``linked`` divides."""
    edges = np.unique([0, *np.searchsorted(block.numbers, linked).tolist(), len(block)])
    lasts = edges[1:] - 1
    sums = np.concatenate([[0], np.cumsum(block.stops - block.starts)])[edges]
    columns = (block.numbers[lasts], np.diff(edges), np.diff(sums), block.time_ns[lasts])
    for each in zip(*(column.tolist() for column in columns), strict=True):
        yield UnlinkedFrames(block.connection, *each)


def column_builder(name: str) -> Texts | Integers | ByteStrings | NamedValues:
    kind = declared_schema("messages").field(name).type
    if pa.types.is_string(kind):
        return Texts()
    if pa.types.is_binary(kind):
        return ByteStrings()
    return NamedValues(kind) if pa.types.is_list(kind) else Integers(kind)


class MessageTable:
    """Turns parts of :class:`wiredecode.frames.message.Messages` into a record batch, in the order of frames.

    ``columns``: the batch has these only, in the order of the table; None: all.
    """

    def __init__(self, columns: Sequence[str] | None = None) -> None:
        self.schema = select(declared_schema("messages").append(ORDER), columns or declared_schema("messages").names)
        wanted = ["body" if name == "size" else name for name in self.schema.names if name != ORDER.name]
        self._columns: dict[str, Any] = {name: column_builder(name) for name in wanted}
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
            "type": Coded(kinds, list(block.bulk.types)),
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
        firsts = []
        for part, count in zip(parts, counts, strict=True):
            first = self._numbered[1] if self._numbered[0] == part.frame.number else 0
            firsts.append(first)
            self._numbered = part.frame.number, first + count
        return firsts

    def batch(self) -> pa.RecordBatch:
        """The added messages, as one batch."""
        schema = self.schema
        if not self.rows:
            return pa.RecordBatch.from_pylist([], schema=schema)
        self._add_frames()
        frames = np.concatenate(self._order)
        order = None if bool((frames[1:] >= frames[:-1]).all()) else np.argsort(frames, kind="stable")
        arrays = {name: column.array(order) for name, column in self._columns.items()}
        arrays[ORDER.name] = fixed_width(ORDER.type, frames if order is None else frames[order], None)
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
BATCH_BYTES = 32 * 1024 * 1024
"""About this many bytes of message bodies make a batch; a frame that has more is a separate batch."""
FRAME_ROWS = 16_384
FRAME_BYTES = 4 * 1024 * 1024
"""Bytes of frames per batch: until then frames are Python objects, some 20 times as large."""
ROW_BYTES = 256
"""Added to the length of each frame for what else is in its row."""


class FrameBatches:
    """Frames until they make a batch; ``tables``: the number of those that hold the same frames."""

    def __init__(self, schema: pa.Schema, bytes_choice: str, failures: Counter[str], tables: int) -> None:
        self._table, self._most_bytes = FrameTable(schema, bytes_choice, failures=failures), FRAME_BYTES // tables
        self._frames: list[Frame] = []
        self._size = 0

    def add(self, frame: Frame, _: Sequence[FrameMessages] = ()) -> bool:
        """Add a frame; return whether a batch is full."""
        self._frames.append(frame)
        self._size += ROW_BYTES + frame.weight + sum(len(inner.data) for inner in frame.inner)
        return len(self._frames) == FRAME_ROWS or self._size >= self._most_bytes

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Return the added rows."""
        frames, self._frames, self._size = self._frames, [], 0
        if frames:
            yield self._table.batch(frames)


class MessageBatches:
    """The messages of frames until they make a batch."""

    def __init__(self, schema: pa.Schema, bytes_choice: str, most_bytes: int = BATCH_BYTES) -> None:
        self._schema, self._most_bytes = schema, most_bytes
        self._show = None if bytes_choice == RAW else ArrayBuilder(BYTES[bytes_choice])
        self._table = MessageTable(schema.names)
        self._size = 0

    def add(self, _: Frame, parts: Sequence[FrameMessages]) -> bool:
        """Add the messages of a frame; return whether a batch is full."""
        full = False
        for part in parts:
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
        """Add messages; return whether a batch is full."""
        self._table.add(part)
        self._size += part.size
        return self._table.rows >= BATCH_ROWS or self._size >= self._most_bytes

    def drain(self) -> Iterator[pa.RecordBatch]:
        """Return the added rows; one frame may have more messages than a batch has rows."""
        table, self._table, self._size = self._table, MessageTable(self._schema.names), 0
        if table.rows:
            batch = table.batch()
            for first in range(0, len(batch), BATCH_ROWS):
                yield self._show_bytes(batch.slice(first, BATCH_ROWS))

    def _show_bytes(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bytes as text, if text was asked for."""
        if self._show is None:
            return batch
        columns = [
            column if column.type == field.type else self._show.array(field, column.to_pylist(), ignore)
            for column, field in zip(batch.columns, self._schema, strict=True)
        ]
        return pa.record_batch(columns, schema=self._schema)
