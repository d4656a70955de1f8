"""A sample of the files: it shows the sizes of connections, and where those that know of each other are.

Connections are dealt to buckets, and buckets to tasks, by size, the largest first. Connections that the sample does
not have, or that are small, go to buckets by their hash. Nothing here needs Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int32s
from wiredecode.capture import CaptureError, PacketBatch
from wiredecode.dataclasses import replace
from wiredecode.dissect.dissector import Dissector
from wiredecode.net.buckets import LINKED, PACKET_BYTES, SLOTS, Buckets
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.segments import Segments
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.parcels import File
from wiredecode.spark.splits import FileSplit, packets, splits

PLACES, SAMPLE_BYTES = 16, 16 << 20
"""Places in all files where the sample is taken, and about its size: it is taken in less time than small tasks need."""
SMALL = 16
"""Connections below this part of a bucket are spread by hash."""
SHOWN_BYTES, PORTS = 64 << 10, 16
"""Bytes of a port, at each place, by which its protocol is identified; and of how many ports, if each has them."""
Floats = npt.NDArray[np.float64]


class SampledPlace(NamedTuple):
    """Packets of one place in the files of a source, an example for ``size`` bytes."""

    source: str
    size: float
    read: list[tuple[PacketBatch, Segments]]


def places(parts: Iterable[tuple[FileSplit, int]]) -> Iterator[tuple[FileSplit, float]]:
    """Where the files of parts may be sampled: splits without an end, and for how many bytes each is an example."""
    files: dict[str, File] = {}
    of_files = Counter[str]()
    for split, size in parts:
        files.setdefault(split.file.name, split.file)
        of_files[split.file.name] += size
    step = max(of_files.total() // PLACES, SAMPLE_BYTES // 2)
    for name, file in files.items():
        some = splits(file, of_files[name], step)
        for split in some:
            yield replace(split, step=split.size, high=split.high and split.size), of_files[name] / len(some)


def take(parts: Iterable[tuple[FileSplit, int]], limits: Limits) -> list[SampledPlace]:
    """Read some places of parts, given with their sizes in bytes."""
    every = [*places(parts)]
    chosen = every[:: -(-len(every) // PLACES) or 1]
    with ThreadPoolExecutor() as pool:
        return [*pool.map(lambda each: _read(each[0], each[1], limits, SAMPLE_BYTES // len(chosen)), chosen)]


def _read(split: FileSplit, size: float, limits: Limits, most_bytes: int) -> SampledPlace:
    place, headers = SampledPlace(split.file.source, size, []), HeaderReader(limits, Counter(), Counter())
    with suppress(CaptureError, OSError):  # the task that reads it will report that
        for batch in packets(split):
            if len(batch):
                place.read.append((batch, headers.read(batch)))
            most_bytes -= len(batch.buffer)
            if most_bytes <= 0:
                break
    return place


def session_ports(taken: Iterable[SampledPlace], demand: TableDemand) -> dict[int, str]:
    """Further ports, as :attr:`TableDemand.sessions`, that the sample shows."""
    found: dict[int, str] = {}
    for place in taken:
        dissector = Dissector(demand.scan)
        for _ in dissector.frames_and_blocks(_beginnings(place, Buckets(1, {**demand.sessions, **found}))):
            pass
        found |= {port: name for name, port in dissector.accounts.sessions}
    return found


def _beginnings(place: SampledPlace, known: Buckets) -> Iterator[PacketBatch]:
    """The first packets of each port that is not known, the lower one of a connection: as a rule the server's."""
    sizes, left = np.zeros(1 << 16), PORTS * SHOWN_BYTES
    for batch, segments in place.read:
        rows = np.flatnonzero(~known.have_session(segments))
        ports = np.minimum(segments.ports[rows] >> 16 & 0xFFFF, segments.ports[rows] & 0xFFFF)
        order = np.argsort(ports, kind="stable")
        rows, ports = rows[order], ports[order]
        size = segments.captured + PACKET_BYTES
        before = np.cumsum(size[rows]) - size[rows]
        shown = np.sort(rows[before - before[np.searchsorted(ports, ports)] + sizes[ports] < SHOWN_BYTES])
        shown = shown[np.cumsum(size[shown]) <= left]
        sizes += np.bincount(ports, size[rows], minlength=len(sizes))
        left -= int(size[shown].sum())
        yield batch.select(np.unique(segments.row[shown]))


def connection_sizes(taken: Iterable[SampledPlace], buckets: Buckets) -> dict[str, Floats]:
    """Bytes of connections by source and key."""
    found: dict[str, Floats] = {}
    for source, size, read in taken:
        sizes: Floats = np.zeros(2 * SLOTS)
        for _, segments in read:
            sizes += np.bincount(buckets.keys(segments), segments.length + PACKET_BYTES, minlength=len(sizes))
        found[source] = found.get(source, 0.0) + sizes * (size / max(sizes.sum(), 1.0))
    return found


def large_connections(sizes: Floats, count: int, size: float) -> tuple[dict[int, int], Floats]:
    """The buckets of large connections, by key, and the bytes of each of ``count`` buckets.

    ``sizes``: of connections in the sample; ``size``: bytes of all.
    """
    large: dict[int, int] = {}
    loads: Floats = np.zeros(count)
    order = np.argsort(-sizes, kind="stable")
    for key in order[: np.count_nonzero(sizes * count * SMALL > sizes.sum())].tolist():
        bucket = large[key] = int(np.argmin(loads[:LINKED] if key % 2 else loads))
        loads[bucket] += sizes[key]
    loads *= size / max(sizes.sum(), 1.0)
    return large, loads + (size - loads.sum()) / count


def deal(sizes: Floats, count: int) -> Int32s:
    """One of ``count`` tasks for each size: the largest first, to the task that has least. Task 0 has most."""
    loads, tasks = np.zeros(count), np.zeros(len(sizes), np.int32)
    for each in np.argsort(-sizes, kind="stable").tolist():
        tasks[each] = int(np.argmin(loads))
        loads[tasks[each]] += sizes[each]
    ranks = np.empty(count, np.int32)
    ranks[np.argsort(-loads, kind="stable")] = np.arange(count)
    return ranks[tasks]
