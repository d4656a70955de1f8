"""Rows of one table from several processes, in the order of the capture (``--jobs``).

All send their rows after the same frames of the capture: the rows between are a *window*. Columns without values are
not sent: of a thousand columns of frames few have some.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from wiredecode.arrays import Int64s
from wiredecode.tables.column_builders import SHARED_NULLS, nulls
from wiredecode.tables.schema import ORDER

WINDOW_FRAMES = 16_384
WINDOW_BYTES = 4 * 1024 * 1024
"""Frames of a window and their bytes, for each process."""
Shape = Callable[[pa.RecordBatch], pa.RecordBatch]


class Processes(Protocol):
    """The other processes."""

    count: int
    """All processes."""

    def gather(self, content: Any) -> list[Any]:
        """Send content to the first process, which gets that of all; others get nothing."""
        ...


class OrderedRows(NamedTuple):
    """Some rows of a process, and their order; columns without values are left out."""

    order: Int64s
    rows: pa.RecordBatch

    def __reduce__(self) -> tuple[Any, ...]:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rows.schema) as stream:
            stream.write_batch(self.rows)
        return _read, (self.order, sink.getvalue().to_pybytes())

    def split(self, number: int) -> tuple["OrderedRows", "OrderedRows"]:
        """The rows of frames up to a number, and the others."""
        at = int(np.searchsorted(self.order, number, "right"))
        return OrderedRows(self.order[:at], self.rows.slice(0, at)), OrderedRows(self.order[at:], self.rows.slice(at))


def _read(order: Int64s, data: bytes) -> OrderedRows:
    return OrderedRows(order, pa.ipc.open_stream(data).read_next_batch())


class Windows:
    """Takes the rows of this process window by window; in the first one it returns those of all.

    ``shape``: each process does it with its rows; ``schema``: of the rows then.
    """

    def __init__(self, exchange: Processes, schema: pa.Schema, shape: Shape | None = None) -> None:
        self.exchange, self._schema = exchange, schema
        self.shape = shape or (lambda rows: rows.select(schema.names))
        self._waiting: list[OrderedRows] = []
        """Rows of frames after some of other processes."""
        self._last = self._size = 0
        """Frames up to the last window, and their bytes."""

    def due(self, last: int, size: int) -> bool:
        """Whether a window ends after frame number ``last``; ``size``: bytes of all frames up to it."""
        count = self.exchange.count
        if last - self._last < WINDOW_FRAMES * count and size - self._size < WINDOW_BYTES * count:
            return False
        self._last, self._size = last, size
        return True

    def rows(self, batches: Sequence[pa.RecordBatch], reached: int) -> Iterator[pa.RecordBatch]:
        """End a window: further rows of this process are of frames after number ``reached``."""
        own = [
            OrderedRows(each.column(ORDER.name).to_numpy(), narrow(self.shape(each))) for each in batches if len(each)
        ]
        every = self.exchange.gather((reached, own))
        parts = self._waiting + [part for _, parts in every for part in parts]
        ready, self._waiting = _split(parts, min((number for number, _ in every), default=0))
        while ready:
            order = np.sort(np.concatenate([each.order for each in ready]))
            now, ready = _split(ready, int(order[min(SHARED_NULLS, len(order)) - 1]))
            yield self._joined(now)

    def _joined(self, parts: list[OrderedRows]) -> pa.RecordBatch:
        numbers = np.concatenate([each.order for each in parts])
        in_order = bool((numbers[1:] >= numbers[:-1]).all())
        order = None if in_order else pa.array(np.argsort(numbers, kind="stable"))
        whole = _join(pa.struct([*self._schema]), [each.rows.to_struct_array() for each in parts], order)
        return pa.RecordBatch.from_arrays(whole.flatten(), schema=self._schema)


def _split(parts: list[OrderedRows], number: int) -> tuple[list[OrderedRows], list[OrderedRows]]:
    both = [each.split(number) for each in parts]
    return [first for first, _ in both if len(first.order)], [rest for _, rest in both if len(rest.order)]


def narrow(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns, and members of structures, that have values."""
    return pa.RecordBatch.from_struct_array(_narrow(rows.to_struct_array()))


def _narrow(column: pa.StructArray) -> pa.StructArray:
    members = {field.name: column.field(at) for at, field in enumerate(column.type)}
    given = {name: each for name, each in members.items() if each.null_count < len(each)} or dict(
        [*members.items()][:1]
    )
    made = [_narrow(each) if pa.types.is_struct(each.type) else each for each in given.values()]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(made, [*given], mask=mask)


def _join(kind: pa.DataType, arrays: list[Any], order: pa.Array | None) -> pa.Array:
    """Arrays, or those of a length that are null, one after the other and then in an order."""
    if not any(isinstance(each, pa.Array) for each in arrays):
        return nulls(sum(arrays), kind)
    if not pa.types.is_struct(kind):
        return _taken([each if isinstance(each, pa.Array) else nulls(each, kind) for each in arrays], order)
    members = [_join(field.type, [_member(each, field.name) for each in arrays], order) for field in kind]
    masks = [each.is_null() if isinstance(each, pa.Array) else pa.repeat(True, each) for each in arrays]
    mask = _taken(masks, order) if any(each.true_count for each in masks) else None
    return pa.StructArray.from_arrays(members, fields=[*kind], mask=mask)


def _member(column: Any, name: str) -> Any:
    """A member of a structure; the number of its rows: it is null."""
    if not isinstance(column, pa.Array):
        return column
    at = column.type.get_field_index(name)
    return len(column) if at < 0 else column.field(at)


def _taken(arrays: list[pa.Array], order: pa.Array | None) -> pa.Array:
    whole = pa.concat_arrays(arrays)
    return whole if order is None else whole.take(order)
