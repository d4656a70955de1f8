"""What is shuffled: packets of one bucket and file, many to a row (docs/spark.md, "How it works").

A row of its own for each packet costs more than everything else in Java. So a reading task gathers what goes to a
bucket, and the decoding task puts the packets of all parcels of a bucket in order again. Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from wiredecode.arrays import Int64s
from wiredecode.spark.decode import pieces
from wiredecode.spark.packets import ORDER, PACKETS, REPORT, SECRETS, WITHIN, no_packets

OUTER = ("source", "bucket", "file_ns", "file")
"""What all packets of a parcel have in common; the others are columns in ``data``."""
INNER = pa.schema([field for field in PACKETS if field.name not in OUTER])
PARCELS = pa.schema([field for field in PACKETS if field.name in (*ORDER, "linktype", "data")])
"""``clock`` and ``place`` are those of the first packet, ``linktype`` is that of what is no packet."""
PARCEL_BYTES, WAITING_BYTES = 2 << 20, 32 << 20
"""A parcel of the first size is sent, and all of a task when they have the second one together."""


class Gathered(NamedTuple):
    """What waits for a parcel to be sent."""

    parts: list[pa.RecordBatch]
    size: int


def parcels(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of packets (:data:`PACKETS`) of one file, as parcels; what is no packet stays what it is."""
    waiting: dict[int | None, Gathered] = {}
    total = 0
    for batch in batches:
        if len(batch) and batch.column("linktype")[0].as_py() in (REPORT, SECRETS):
            yield batch.select(PARCELS.names)
            continue
        for (_, bucket), part in pieces(batch):
            size = part.nbytes
            before = waiting.pop(bucket, Gathered([], 0))
            found = Gathered([*before.parts, part], before.size + size)
            total += size
            if found.size >= PARCEL_BYTES:
                total -= found.size
                yield parcel(found.parts)
            else:
                waiting[bucket] = found
        if total >= WAITING_BYTES:
            yield from (parcel(each.parts) for each in waiting.values())
            waiting.clear()
            total = 0
    yield from (parcel(each.parts) for each in waiting.values())


def parcel(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """One row of :data:`PARCELS`."""
    first, whole = parts[0].slice(0, 1), pa.Table.from_batches(parts).select(INNER.names).combine_chunks()
    data = whole.to_batches()[0].serialize().to_pybytes()
    columns = [
        pa.array([data], pa.binary()) if name == "data" else pa.concat_arrays([first.column(name)])
        for name in PARCELS.names
    ]
    return pa.record_batch(columns, schema=PARCELS)


# Behind the shuffle.


class Opened(NamedTuple):
    """Packets of a parcel that wait for their turn."""

    rows: pa.RecordBatch
    clock: Int64s
    file: tuple[int, int]
    """Time and id of the file."""
    place: Int64s

    def before(self, other: Opened) -> int:
        """How many packets come before the first one of another parcel."""
        clock = other.clock[0]
        if self.file == other.file:  # in the order of the file
            return int(np.searchsorted(self.place, other.place[0]))
        return int(np.searchsorted(self.clock, clock, "right" if self.file < other.file else "left"))

    def part(self, low: int, high: int) -> Opened:
        return Opened(self.rows.slice(low, high - low), self.clock[low:high], self.file, self.place[low:high])


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of packets in the order of :data:`ORDER`, of parcels that are sorted by it."""
    held: list[Opened] = []
    bucket: tuple[str, int] | None = None
    for batch in batches:
        for number in range(len(batch)):
            row = batch.slice(number, 1)
            key = row.column("source")[0].as_py(), row.column("bucket")[0].as_py()
            if key != bucket:
                yield from _all(held)
                held, bucket = [], key
            if row.column("linktype")[0].as_py() in (REPORT, SECRETS):
                yield no_packets([{name: row.column(name)[0].as_py() for name in PARCELS.names}])
                continue
            found = _open(row)
            counts = [each.before(found) for each in held]
            yield from _all([each.part(0, count) for each, count in zip(held, counts, strict=True)])
            rest = zip(held, counts, strict=True)
            held = [each.part(count, len(each.clock)) for each, count in rest if count < len(each.clock)]
            held.append(found)
    yield from _all(held)


def _open(row: pa.RecordBatch) -> Opened:
    inner = pa.ipc.read_record_batch(pa.py_buffer(row.column("data")[0].as_buffer()), INNER)
    file = row.column("file_ns")[0].as_py(), row.column("file")[0].as_py()
    common = {name: row.column(name)[0].as_py() for name in OUTER}
    columns = [
        pa.repeat(pa.scalar(common[field.name], field.type), len(inner))
        if field.name in common
        else inner.column(field.name)
        for field in PACKETS
    ]
    rows = pa.record_batch(columns, schema=PACKETS)
    return Opened(rows, inner.column("clock").to_numpy(), file, inner.column("place").to_numpy())


def _all(parts: Iterable[Opened]) -> Iterator[pa.RecordBatch]:
    """Packets of several parcels as one batch in order."""
    some = [each for each in parts if len(each.clock)]
    if not some:
        return
    if len(some) == 1:
        yield some[0].rows
        return
    table = pa.Table.from_batches([each.rows for each in some]).combine_chunks()
    order = np.lexsort([table[name].to_numpy() for name in reversed(WITHIN)])
    yield from table.take(order).combine_chunks().to_batches()
