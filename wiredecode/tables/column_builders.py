"""Columns that grow piece by piece, out of order, and become Arrow arrays in one step."""

from collections.abc import Sequence
from functools import cache
from itertools import chain, repeat
from operator import is_not
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from wiredecode.arrays import Bools, Int64s
from wiredecode.frames.message import Coded, Column, Header, HeaderLists, Slices

T = TypeVar("T")
Order = Int64s | None
"""Index of each row; None: they are in order."""

SHARED_NULLS = 16_384
INLINE_BYTES = 12
"""Arrow keeps shorter byte strings inside the view itself."""
VIEW = np.dtype([("length", "<i4"), ("prefix", "<i4"), ("buffer", "<i4"), ("offset", "<i4")])


def in_order(pieces: list[npt.NDArray[Any]], order: Order) -> npt.NDArray[Any]:
    column = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    return np.ascontiguousarray(column) if order is None else column[order]


def fixed_width(kind: pa.DataType, values: npt.NDArray[Any], valid: Bools | None) -> pa.Array:
    """An array of fixed width without a copy; ``pa.array`` would import pandas, where that is installed."""
    if valid is not None and not valid.any():
        return nulls(len(values), kind)
    return pa.Array.from_buffers(kind, len(values), [bitmap(valid), pa.py_buffer(values)])


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """All batches share them: many columns have nothing else, and many batches wait for a row group."""
    return _shared_nulls(kind).slice(0, count) if count <= SHARED_NULLS else pa.nulls(count, kind)


@cache
def _shared_nulls(kind: pa.DataType) -> pa.Array:
    return pa.nulls(SHARED_NULLS, kind)


def bitmap(valid: Bools | None) -> pa.Buffer | None:
    if valid is None or valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def string_array(texts: Sequence[str]) -> pa.Array:
    """Texts as they are; see :func:`fixed_width`."""
    data = [text.encode() for text in texts]
    offsets = np.concatenate([[0], np.cumsum([*map(len, data)])]).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(data))])


class Texts:
    """Texts of which few differ: a dictionary that grows, and codes; -1 is null."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.codes: list[npt.NDArray[np.int32]] = []

    def code(self, text: str | None) -> int:
        return -1 if text is None else self.values.setdefault(text, len(self.values))

    def add(self, column: Any, count: int) -> None:
        if isinstance(column, Coded):
            codes = np.array([*map(self.code, column.values), -1], np.int32)
            self.codes.append(codes[column.codes])
        else:
            self.codes.append(np.full(count, self.code(column), np.int32))

    def add_each(self, texts: Sequence[str | None], rows: Int64s) -> None:
        """``texts[rows[i]]`` for row i."""
        codes = {text: self.code(text) for text in dict.fromkeys(texts)}
        self.codes.append(np.fromiter(map(codes.__getitem__, texts), np.int32, len(texts))[rows])

    def array(self, order: Order) -> pa.Array:
        codes = in_order(self.codes, order)
        indices = fixed_width(pa.int32(), codes, codes >= 0)
        return pa.DictionaryArray.from_arrays(indices, string_array([*self.values]))


class Integers:
    """Integers or times, null where they are not valid."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.dtype = np.dtype("int64" if pa.types.is_timestamp(kind) else str(kind))
        self.values: list[npt.NDArray[Any]] = []
        self.valid: list[Bools] = []

    def add(self, column: Column, count: int) -> None:
        if not isinstance(column, np.ndarray):
            assert column is None or isinstance(column, int)
            column, valid = np.full(count, column or 0, self.dtype), np.full(count, column is not None)
        else:
            valid = np.ones(count, np.bool_)
        self.values.append(column.astype(self.dtype, copy=False))
        self.valid.append(valid)

    def add_each(self, numbers: Sequence[int | None], rows: Int64s) -> None:
        """``numbers[rows[i]]`` for row i."""
        values, valid = self.column(numbers)
        self.values.append(values[rows])
        self.valid.append(valid[rows])

    def add_lists(self, lists: Sequence[Sequence[int | None] | None], counts: Sequence[int]) -> None:
        """A number per row, or None for all rows of a frame."""
        there, present = collect_lists(lists, counts)
        values, valid = np.zeros(len(there), self.dtype), there.copy()
        values[there], valid[there] = self.column(present)
        self.values.append(values)
        self.valid.append(valid)

    def column(self, numbers: Sequence[int | None]) -> tuple[npt.NDArray[Any], Bools]:
        """The numbers, and which there are."""
        try:
            return np.array(numbers, self.dtype), np.ones(len(numbers), np.bool_)
        except TypeError:
            return np.array([number or 0 for number in numbers], self.dtype), not_none(numbers)

    def array(self, order: Order) -> pa.Array:
        return fixed_width(self.kind, in_order(self.values, order), in_order(self.valid, order))


class ByteStrings:
    """Byte strings: views into buffers that are copied once, at the end."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []
        self.views: list[npt.NDArray[Any]] = []
        self.valid: list[Bools] = []

    def add(self, column: Slices | None, count: int) -> None:
        if column is None:
            self.views.append(np.zeros(count, VIEW))
            self.valid.append(np.zeros(count, np.bool_))
            return
        lengths = column.stops - column.starts
        views = np.zeros(count, VIEW)
        views["length"], views["buffer"], views["offset"] = lengths, len(self.buffers), column.starts
        self.buffers.append(column.buffer)
        if (short := np.flatnonzero(lengths <= INLINE_BYTES)).size:
            inline(views, column, short)
        self.views.append(views)
        self.valid.append(column.starts >= 0)

    def add_lists(self, lists: Sequence[Sequence[bytes | None] | None], counts: Sequence[int]) -> None:
        """A byte string per row, or None for all rows of a frame."""
        there, present = collect_lists(lists, counts)
        slices = join_slices(present)
        starts, stops = np.full(len(there), -1), np.full(len(there), -1)
        starts[there], stops[there] = slices.starts, slices.stops
        self.add(Slices(slices.buffer, starts, stops), len(there))

    def array(self, order: Order) -> pa.Array:
        views, valid = in_order(self.views, order), in_order(self.valid, order)
        if not valid.any():
            return nulls(len(valid), pa.binary())
        buffers = [bitmap(valid), pa.py_buffer(views), *map(pa.py_buffer, self.buffers)]
        return pa.Array.from_buffers(pa.binary_view(), len(views), buffers).cast(pa.binary())


class NamedValues:
    """Lists of names and values."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self.counts: list[npt.NDArray[Any]] = []
        self.valid: list[Bools] = []
        self.names, self.values = ByteStrings(), ByteStrings()

    def add(self, column: HeaderLists | None, count: int) -> None:
        if column is None:
            self.counts.append(np.zeros(count, np.int64))
            self.valid.append(np.zeros(count, np.bool_))
            return
        self.counts.append(np.diff(column.stops))
        self.valid.append(column.valid)
        self.names.add(column.keys, len(column.keys.starts))
        self.values.add(column.values, len(column.keys.starts))

    def add_lists(self, lists: Sequence[Sequence[list[Header] | None] | None], counts: Sequence[int]) -> None:
        """The headers of each row, or None for all rows of a frame."""
        there, rows = collect_lists(lists, counts)
        sizes, valid = np.zeros(len(there), np.int64), there.copy()
        sizes[there] = np.fromiter((len(row or ()) for row in rows), np.int64, len(rows))
        valid[there] = not_none(rows)
        self.counts.append(sizes)
        self.valid.append(valid)
        pairs = [pair for row in rows for pair in row or ()]
        self.names.add(join_slices([name.encode() for name, _ in pairs]), len(pairs))
        self.values.add(join_slices([value for _, value in pairs]), len(pairs))

    def array(self, order: Order) -> pa.Array:
        counts, valid = np.concatenate(self.counts), np.concatenate(self.valid)
        if not valid.any():
            return nulls(len(valid), self.kind)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        names, values = self.names.array(None).cast(pa.string()), self.values.array(None)
        pairs = pa.StructArray.from_arrays([names, values], fields=[*self.kind.value_type])
        buffers = [bitmap(valid), pa.py_buffer(offsets)]
        lists = pa.Array.from_buffers(self.kind, len(counts), buffers, children=[pairs])
        return lists if order is None else lists.take(fixed_width(pa.int64(), order, None))


def collect_lists(lists: Sequence[Sequence[T] | None], counts: Sequence[int]) -> tuple[Bools, list[T]]:
    """Return which rows belong to frames that have a list, and the contents of these lists."""
    there = np.repeat(not_none(lists), counts)
    return there, [*chain.from_iterable(filter(None, lists))]


def not_none(values: Sequence[Any]) -> Bools:
    return np.fromiter(map(is_not, values, repeat(None)), np.bool_, len(values))


def inline(views: npt.NDArray[Any], slices: Slices, short: Int64s) -> None:
    """Write short byte strings into their views."""
    data = np.frombuffer(slices.buffer, np.uint8)
    whole = np.zeros((len(short), 16), np.uint8)
    starts, lengths = slices.starts[short], (slices.stops - slices.starts)[short]
    whole[:, :4] = lengths.astype("<i4").view(np.uint8).reshape(-1, 4)
    for byte in range(int(lengths.max())):
        longer = np.flatnonzero(lengths > byte)
        whole[longer, 4 + byte] = data[starts[longer] + byte]
    views[short] = whole.view(VIEW).reshape(-1)


def join_slices(texts: Sequence[bytes | None]) -> Slices:
    """Byte strings as slices of one buffer."""
    try:
        whole = b"".join(texts)  # type: ignore[arg-type]
        stops = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))  # type: ignore[arg-type]
        return Slices(whole, np.concatenate([[0], stops[:-1]]) if len(stops) else stops, stops)
    except TypeError:  # some are null
        slices = join_slices([text or b"" for text in texts])
        missing = ~not_none(texts)
        slices.starts[missing] = slices.stops[missing] = -1
        return slices
