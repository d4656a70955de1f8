"""Messages as Arrow: from what conversations collected to record batches of the messages table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from wiredecode.frames.ids import Int64s
from wiredecode.frames.message import Coded, FrameElements, FrameMessages, Messages, RunMessages
from wiredecode.tables import elements
from wiredecode.tables.confirms import CONFIRM_COLUMNS, told_of
from wiredecode.tables.gather import ByteStrings, Headers, Integers, Texts
from wiredecode.tables.schema import messages_schema

NAMES = ("src", "dst", "sender", "protocol", "type", "operation", "topic", "compression", "outcome", "refusal")
NUMBERS = (
    *("frame", "time", "connection", "index", "partition", "offset", "sequence", "timestamp"),
    *("confirmed_ns", "latency_ns", "confirm_frame", "chunk"),
)
BYTES = ("key", "body")


ENCODED = pa.dictionary(pa.int32(), pa.string())


def encoded_schema(schema: pa.Schema) -> pa.Schema:
    """A schema of messages with texts as dictionaries: for writers that take them as they are."""
    return pa.schema([each.with_type(ENCODED) if each.name in NAMES else each for each in schema], schema.metadata)


class MessageTable:
    """Turns parts of :class:`wiredecode.frames.message.Messages` into a record batch, in the order of frames."""

    def __init__(self) -> None:
        self.schema = messages_schema()
        self.texts = {name: Texts() for name in NAMES}
        self.numbers = {name: Integers(self.schema.field(name).type) for name in NUMBERS}
        self.bytes = {name: ByteStrings() for name in BYTES}
        self.headers = Headers(self.schema.field("headers").type)
        self.rows = 0
        self._order: list[Int64s] = []
        """Numbers of the frames of all rows."""
        self._waiting: list[FrameMessages] = []
        self._elements: dict[elements.Form, list[FrameElements]] = {}
        self._numbered = 0, 0
        """The last frame that was added one by one, and how many messages of it."""

    def add(self, part: FrameMessages | FrameElements | RunMessages) -> None:
        if isinstance(part, FrameMessages):
            self._waiting.append(part)
            self.rows += len(part.bodies)
        elif isinstance(part, FrameElements):
            self._elements.setdefault(elements.form(part), []).append(part)
            self.rows += len(part.starts)
        else:
            self._add_frames()
            self._add_run(part)
            self.rows += len(part.rows)

    def _add_run(self, part: RunMessages) -> None:
        run, rows, columns = part.run, part.rows, part.columns
        count, ends = len(rows), run.connection.endpoints
        kinds = run.kinds[rows].astype(np.int32)
        told: dict[str, Any] = {
            "frame": run.ids[rows],
            "time": run.time_ns[rows],
            "connection": run.connection.id,
            "src": ends[run.side],
            "dst": ends[1 - run.side],
            "sender": run.sender,
            "type": Coded(kinds, list(run.types)),
            "protocol": Coded(kinds, list(run.protocols)) if run.protocols else run.protocol,
            **columns,
        }
        self._order.append(run.numbers[rows])
        for name, collected in self._columns():
            collected.add(told.get(name), count)

    def _add_frames(self) -> None:
        """Add the messages of the frames that wait, all at once: many have few messages."""
        parts, self._waiting = self._waiting, []
        if not parts:
            return
        counts = [len(part.bodies) for part in parts]
        rows = np.repeat(np.arange(len(parts)), counts)
        self._order.append(np.array([part.frame.number for part in parts], np.int64)[rows])
        for name, tell in TOLD_BY_FRAME.items():
            self._texts_or_numbers(name).add_each([tell(part) for part in parts], rows)
        places = self._places(parts, counts)
        firsts = np.concatenate([[0], np.cumsum(counts)[:-1]]) - places
        self._add_told(parts, counts, places)
        self.numbers["index"].add(np.arange(len(rows)) - firsts[rows], len(rows))
        for name, tell in TOLD_BY_MESSAGE.items():
            self._lists(name).add_lists([tell(part) for part in parts], counts)

    def _add_elements(self, parts: list[FrameElements]) -> None:
        """Read and add the messages of frames of one form."""
        found = elements.read(parts)
        one_by_one = Messages()
        for part in found.others:
            part.one_by_one(part.frame, one_by_one)
        for other in one_by_one.take():
            self.add(other)
        parts, rows, index = found.parts, found.rows, found.index
        if not parts:
            return
        self._order.append(np.array([part.frame.number for part in parts], np.int64)[rows])
        for name, tell in TOLD_BY_FRAME.items():
            self._texts_or_numbers(name).add_each([tell(part) for part in parts], rows)
        self.numbers["index"].add(index, len(rows))
        self.numbers["timestamp"].add_each([part.time_ns for part in parts], rows)
        self._add_told(parts, np.bincount(rows).tolist(), [0] * len(parts))
        columns: dict[str, Any] = dict(found.columns)
        if parts[0].first_offset is not None:
            firsts = np.array([part.first_offset for part in parts], np.uint64)
            columns["offset"] = firsts[rows] + index.astype(np.uint64)
        for name in TOLD_BY_MESSAGE.keys() - {"timestamp"}:
            self._lists(name).add(columns.get(name), len(rows))

    def _add_told(self, parts: Sequence[FrameMessages | FrameElements], counts: list[int], firsts: list[int]) -> None:
        """What became of published messages."""
        answers, which = told_of(parts, counts, firsts)
        for name, values in zip(CONFIRM_COLUMNS, zip(*answers, strict=True), strict=True):
            self._texts_or_numbers(name).add_each(values, which)

    def _places(self, parts: list[FrameMessages], counts: list[int]) -> list[int]:
        """The index of the first message of each part in its frame."""
        places = []
        for part, count in zip(parts, counts, strict=True):
            place = self._numbered[1] if self._numbered[0] == part.frame.number else 0
            places.append(place)
            self._numbered = part.frame.number, place + count
        return places

    def _columns(self) -> Iterator[tuple[str, Any]]:
        yield from self.texts.items()
        yield from self.numbers.items()
        yield from self.bytes.items()
        yield "headers", self.headers

    def _texts_or_numbers(self, name: str) -> Texts | Integers:
        return self.texts[name] if name in self.texts else self.numbers[name]

    def _lists(self, name: str) -> Integers | ByteStrings | Headers:
        return self.headers if name == "headers" else self.bytes[name] if name in self.bytes else self.numbers[name]

    def batch(self, *, encoded: bool = False) -> pa.RecordBatch:
        """What was added, as one batch; ``encoded``: texts as dictionaries, which Parquet takes as they are."""
        schema = encoded_schema(self.schema) if encoded else self.schema
        if not self.rows:
            return pa.RecordBatch.from_pylist([], schema=schema)
        for parts in self._elements.values():
            self._add_elements(parts)
        self._add_frames()
        frames = np.concatenate(self._order)
        order = None if bool((frames[1:] >= frames[:-1]).all()) else np.argsort(frames, kind="stable")
        arrays = {name: column.array(order) for name, column in self._columns()}
        arrays["size"] = pa.compute.binary_length(arrays["body"]).cast(pa.int64())
        columns = [
            arrays[field.name] if arrays[field.name].type == field.type else arrays[field.name].cast(field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


TOLD_BY_FRAME: dict[str, Callable[[Any], Any]] = {
    "frame": lambda part: part.frame.id,
    "time": lambda part: part.frame.time_ns,
    "connection": lambda part: part.frame.connection.id,
    "src": lambda part: part.frame.source,
    "dst": lambda part: part.frame.destination,
    "sender": lambda part: part.frame.sender,
    "protocol": lambda part: part.frame.protocol,
    "type": lambda part: part.frame.type,
    "operation": lambda part: part.operation,
    "topic": lambda part: part.topic,
    "compression": lambda part: part.compression,
    "partition": lambda part: part.partition,
    "chunk": lambda part: part.chunk,
}
TOLD_BY_MESSAGE: dict[str, Callable[[FrameMessages], Any]] = {
    "offset": lambda part: part.offsets,
    "sequence": lambda part: part.sequences,
    "timestamp": lambda part: part.times_ns,
    "key": lambda part: part.keys,
    "headers": lambda part: part.headers,
    "body": lambda part: part.bodies,
}
