"""Messages as Arrow: from what conversations collected to record batches of the messages table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.message import Coded, Column, FrameMessages, Header, HeaderLists, RunMessages, Slices, Valid
from wiredecode.tables.schema import messages_schema

Int64s = npt.NDArray[np.int64]

INLINE_BYTES = 12
"""Arrow keeps shorter byte strings inside the view itself."""
VIEW = np.dtype([("length", "<i4"), ("start", "V12")])
LONG = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])

NAMES = ("src", "dst", "sender", "protocol", "type", "operation", "topic", "compression")
NUMBERS = ("index", "partition", "offset", "sequence", "timestamp")
BYTES = ("key", "body")


ENCODED = pa.dictionary(pa.int32(), pa.string())


def encoded_schema(schema: pa.Schema) -> pa.Schema:
    """A schema of messages with texts as dictionaries: for writers that take them as they are."""
    return pa.schema([each.with_type(ENCODED) if each.name in NAMES else each for each in schema], schema.metadata)


class Texts:
    """A column of texts of which few differ: a dictionary that grows, and codes."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.codes: list[npt.NDArray[np.int32]] = []

    def code(self, text: str | None) -> int:
        return -1 if text is None else self.values.setdefault(text, len(self.values))

    def add(self, column: Any, count: int) -> None:
        if isinstance(column, Coded):
            known = np.array([*map(self.code, column.values), -1], np.int32)
            self.codes.append(known[column.codes])
        elif isinstance(column, Slices):
            texts = [
                None if start < 0 else column.buffer[start:stop].decode("utf-8", "backslashreplace")
                for start, stop in zip(column.starts.tolist(), column.stops.tolist(), strict=True)
            ]
            self.codes.append(np.fromiter(map(self.code, texts), np.int32, count))
        else:
            self.codes.append(np.full(count, self.code(column), np.int32))

    def array(self, order: Int64s | None) -> pa.Array:
        codes = _ordered(np.concatenate(self.codes), order)
        nulls = codes < 0
        indices = pa.array(codes, pa.int32(), mask=nulls if nulls.any() else None)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(self.values), pa.string()))


class Integers:
    """A column of integers, null where ``valid`` is not."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.dtype: Any = np.dtype("int64") if pa.types.is_timestamp(kind) else np.dtype(kind.to_pandas_dtype())
        self.values: list[npt.NDArray[Any]] = []
        self.valid: list[npt.NDArray[np.bool_]] = []

    def add(self, column: Column | Sequence[int | None], count: int) -> None:
        if isinstance(column, Valid):
            values, valid = column.values, column.valid
        elif isinstance(column, np.ndarray):
            values, valid = column, np.ones(count, np.bool_)
        else:
            assert column is None or isinstance(column, int)
            values, valid = np.full(count, column or 0, self.dtype), np.full(count, column is not None)
        self.values.append(values.astype(self.dtype, copy=False))
        self.valid.append(valid)

    def array(self, order: Int64s | None) -> pa.Array:
        values, valid = _ordered(np.concatenate(self.values), order), _ordered(np.concatenate(self.valid), order)
        if pa.types.is_timestamp(self.kind):
            values = values.view("datetime64[ns]")
        return pa.array(values, self.kind, mask=None if valid.all() else ~valid)


class ByteStrings:
    """A column of byte strings: views into buffers that are copied once, at the end."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.views: list[npt.NDArray[Any]] = []
        self.valid: list[npt.NDArray[np.bool_]] = []

    def add(self, column: Any, count: int) -> None:
        if column is None:
            self.views.append(np.zeros(count, LONG))
            self.valid.append(np.zeros(count, np.bool_))
            return
        slices = column if isinstance(column, Slices) else joined(column)
        lengths = slices.stops - slices.starts
        views = np.empty(count, LONG)
        views["length"], views["prefix"] = lengths, 0
        views["buffer"], views["offset"] = len(self.buffers), slices.starts
        self.buffers.append(slices.buffer)
        valid = slices.starts >= 0
        if (short := np.flatnonzero(lengths <= INLINE_BYTES)).size:
            inline(views, slices, short)
        self.views.append(views)
        self.valid.append(valid)

    def array(self, order: Int64s | None) -> pa.Array:
        views, valid = _ordered(np.concatenate(self.views), order), _ordered(np.concatenate(self.valid), order)
        bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
        buffers = [bitmap, pa.py_buffer(np.ascontiguousarray(views)), *map(pa.py_buffer, self.buffers)]
        return pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.binary())


class Headers:
    """A column of lists of names and values."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.counts: list[npt.NDArray[Any]] = []
        self.valid: list[npt.NDArray[np.bool_]] = []
        self.names, self.values = ByteStrings(), ByteStrings()

    def add(self, column: HeaderLists | Sequence[list[Header] | None] | None, count: int) -> None:
        if isinstance(column, HeaderLists):
            self.counts.append(np.diff(column.stops))
            self.valid.append(column.valid)
            self._add_pairs(column.keys, column.values, len(column.keys.starts))
            return
        rows = column or [None] * count
        self.counts.append(np.fromiter((len(row or ()) for row in rows), np.int64, count))
        self.valid.append(np.fromiter((row is not None for row in rows), np.bool_, count))
        pairs = [pair for row in rows for pair in row or ()]
        if pairs:
            self._add_pairs([name.encode() for name, _ in pairs], [value for _, value in pairs], len(pairs))

    def _add_pairs(self, names: Any, values: Any, count: int) -> None:
        self.names.add(names, count)
        self.values.add(values, count)

    def array(self, order: Int64s | None) -> pa.Array:
        counts, valid = np.concatenate(self.counts), np.concatenate(self.valid)
        if not valid.any():
            return pa.nulls(len(valid), self.kind)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        members = [pa.nulls(0, pa.binary())] * 2
        if self.names.views:
            members = [self.names.array(None), self.values.array(None)]
        pairs = pa.StructArray.from_arrays([members[0].cast(pa.string()), members[1]], fields=[*self.kind.value_type])
        lists = pa.ListArray.from_arrays(offsets, pairs, type=self.kind, mask=pa.array(~valid))
        return lists if order is None else lists.take(pa.array(order))


def inline(views: npt.NDArray[Any], slices: Slices, short: Int64s) -> None:
    """Write short byte strings into their views."""
    data = np.frombuffer(slices.buffer, np.uint8)
    whole = np.zeros((len(short), 16), np.uint8)
    starts, lengths = slices.starts[short], (slices.stops - slices.starts)[short]
    whole[:, :4] = lengths.astype("<i4").view(np.uint8).reshape(-1, 4)
    for byte in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > byte)
        whole[longer, 4 + byte] = data[starts[longer] + byte]
    views[short] = whole.view(LONG).reshape(-1)


def joined(texts: Sequence[bytes | None]) -> Slices:
    """Byte strings as slices of one buffer."""
    lengths = np.fromiter((0 if text is None else len(text) for text in texts), np.int64, len(texts))
    stops = np.cumsum(lengths)
    starts = stops - lengths
    missing = [index for index, text in enumerate(texts) if text is None]
    if missing:
        starts[missing] = stops[missing] = -1
    return Slices(b"".join(text for text in texts if text is not None), starts, stops)


def _ordered(column: npt.NDArray[Any], order: Int64s | None) -> npt.NDArray[Any]:
    return column if order is None else column[order]


class MessageTable:
    """Turns parts of :class:`wiredecode.message.Messages` into a record batch, in the order of frames."""

    def __init__(self) -> None:
        self.schema = messages_schema()
        self.frame = Integers(pa.int64())
        self.time = Integers(self.schema.field("time").type)
        self.connection = Integers(pa.int64())
        self.texts = {name: Texts() for name in NAMES}
        self.numbers = {name: Integers(self.schema.field(name).type) for name in NUMBERS}
        self.bytes = {name: ByteStrings() for name in BYTES}
        self.headers = Headers(self.schema.field("headers").type)
        self.rows = 0
        self._numbered = 0, 0
        """The last frame that was added one by one, and how many messages of it."""

    def add(self, part: FrameMessages | RunMessages) -> None:
        if isinstance(part, RunMessages):
            self._add_run(part)
        else:
            self._add_frame(part)

    def _add_run(self, part: RunMessages) -> None:
        run, rows, columns = part.run, part.rows, part.columns
        count = len(rows)
        self.frame.add(run.numbers[rows], count)
        self.time.add(run.time_ns[rows], count)
        self.connection.add(run.connection.number, count)
        ends = run.connection.endpoints
        kinds = Coded(run.kinds[rows].astype(np.int32), list(run.types))
        told: dict[str, Any] = {
            "src": ends[run.side],
            "dst": ends[1 - run.side],
            "sender": run.sender,
            "type": kinds,
            "protocol": Coded(kinds.codes, list(run.protocols)) if run.protocols else run.protocol,
            **columns,
        }
        self._add_told(told, count)

    def _add_frame(self, part: FrameMessages) -> None:
        frame, count = part.frame, len(part.bodies)
        first = self._numbered[1] if self._numbered[0] == frame.number else 0
        self._numbered = frame.number, first + count
        self.frame.add(frame.number, count)
        self.time.add(frame.time_ns, count)
        self.connection.add(frame.connection.number, count)
        self._add_told(
            {
                "src": frame.source,
                "dst": frame.destination,
                "sender": frame.sender,
                "protocol": frame.protocol,
                "type": frame.type,
                "operation": part.operation,
                "topic": part.topic,
                "compression": part.compression,
                "index": np.arange(first, first + count),
                "partition": part.partition,
                "offset": _unsigned(part.offsets),
                "sequence": _unsigned(part.sequences),
                "timestamp": _signed(part.times_ns),
                "key": part.keys,
                "body": part.bodies,
                "headers": part.headers,
            },
            count,
        )

    def _add_told(self, told: dict[str, Any], count: int) -> None:
        for name, texts in self.texts.items():
            texts.add(told.get(name), count)
        for name, integers in self.numbers.items():
            integers.add(told.get(name), count)
        for name, strings in self.bytes.items():
            strings.add(told.get(name), count)
        self.headers.add(told.get("headers"), count)
        self.rows += count

    def batch(self, *, encoded: bool = False) -> pa.RecordBatch:
        """What was added, as one batch; ``encoded``: texts as dictionaries, which Parquet takes as they are."""
        if not self.rows:
            return pa.RecordBatch.from_pylist([], schema=encoded_schema(self.schema) if encoded else self.schema)
        frames = np.concatenate(self.frame.values)
        order = None if bool((frames[1:] >= frames[:-1]).all()) else np.argsort(frames, kind="stable")
        arrays: dict[str, pa.Array] = {
            "frame": self.frame.array(order),
            "time": self.time.array(order),
            "connection": self.connection.array(order),
        }
        for columns in (self.texts, self.numbers, self.bytes):
            arrays |= {name: column.array(order) for name, column in columns.items()}
        body = arrays["body"]
        arrays["size"] = pa.compute.binary_length(body).cast(pa.int64())
        arrays["headers"] = self.headers.array(order)
        if encoded:
            return pa.RecordBatch.from_arrays(
                [arrays[name] for name in self.schema.names], schema=encoded_schema(self.schema)
            )
        plain = [arrays[field.name].cast(field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(plain, schema=self.schema)


def _unsigned(values: Sequence[int | None] | None) -> Valid | None:
    return _with_nulls(values, np.dtype("uint64"))


def _signed(values: Sequence[int | None] | None) -> Valid | None:
    return _with_nulls(values, np.dtype("int64"))


def _with_nulls(values: Sequence[int | None] | None, dtype: Any) -> Valid | None:
    if values is None:
        return None
    try:
        return Valid(np.array(values, dtype), np.ones(len(values), np.bool_))
    except TypeError:
        valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
        return Valid(np.array([value or 0 for value in values], dtype), valid)
