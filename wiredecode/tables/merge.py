"""Rows that several processes made of one capture, as the batches that one would have made."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from wiredecode.arrays import Int64s
from wiredecode.dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Places:
    """Of the frames that rows come from, in order: their numbers, rows, and bytes by which batches are limited."""

    numbers: Int64s
    rows: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, frames: list[tuple[int, int, int]]) -> "Places":
        """``frames``: number, rows and bytes of each."""
        return cls(*np.array(frames, np.int64).reshape(-1, 3).T)


class RowMerger:
    """Merges rows of ``count`` processes by the numbers of their frames.

    A batch ends with the frame that brings it to ``most_rows`` or ``most_bytes``.
    """

    def __init__(self, schema: pa.Schema, count: int, most_rows: int, most_bytes: int) -> None:
        self._schema, self._most_rows, self._most_bytes = schema, most_rows, most_bytes
        self._reached = [0.0] * count
        self._parts: dict[int, pa.RecordBatch] = {}
        """Batches with rows that wait, by the order in which they came."""
        self._came = 0
        self._frames = np.empty((5, 0), np.int64)
        """Of each frame that waits: number, rows, bytes, batch, and the first row in it."""

    def reached(self, process: int) -> float:
        """Number of the frame up to which all rows of a process were added."""
        return self._reached[process]

    def add(self, process: int, batch: pa.RecordBatch | None, places: Places, reached: float) -> None:
        """The next rows of a process, which are all of its frames up to number ``reached``."""
        self._reached[process] = reached
        if batch is None or not len(batch):
            return
        self._parts[self._came] = batch
        count = len(places.numbers)
        firsts = np.cumsum(places.rows) - places.rows
        more = np.stack([places.numbers, places.rows, places.sizes, np.full(count, self._came), firsts])
        self._came += 1
        frames = np.concatenate([self._frames, more], axis=1)
        self._frames = frames[:, np.argsort(frames[0], kind="stable")]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Full batches; once all processes have reached the end the last one, too."""
        ready = min(self._reached)
        while True:
            known = int(np.searchsorted(self._frames[0], ready, "right"))
            rows, sizes = np.cumsum(self._frames[1, :known]), np.cumsum(self._frames[2, :known])
            full = np.flatnonzero((rows >= self._most_rows) | (sizes >= self._most_bytes))
            end = int(full[0]) + 1 if len(full) else known if ready == float("inf") else 0
            if not end:
                return
            taken, self._frames = self._frames[:, :end], self._frames[:, end:]
            made = self._made(taken)
            for first in range(0, len(made), self._most_rows):
                yield made.slice(first, self._most_rows)

    def _made(self, frames: Int64s) -> pa.RecordBatch:
        _, rows, _, part, first = frames
        used, which = np.unique(part, return_inverse=True)
        parts = [self._parts[each] for each in used.tolist()]
        before = np.cumsum([0, *map(len, parts)])[which] + first
        starts = np.cumsum(rows) - rows
        order = np.repeat(before - starts, rows) + np.arange(int(rows.sum()))
        waiting = set(self._frames[3].tolist())
        for each in used.tolist():
            if each not in waiting:
                del self._parts[each]
        table = pa.Table.from_batches(parts, self._schema)
        if len(parts) > 1 or len(order) != len(table):
            table = table.take(pa.array(order))
        (made,) = table.combine_chunks().to_batches()
        return made
