"""Equal work for tasks: connections are dealt to buckets, and buckets to tasks, by size, the largest first.

Sizes are those in a sample of the files. Connections that it does not have, or that are small, go to buckets by their
hash. Nothing here needs Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int32s, Int64s
from wiredecode.capture import CaptureError
from wiredecode.dataclasses import replace
from wiredecode.net.buckets import LINKED, PACKET_BYTES, SLOTS, Buckets, pairs
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.segments import Segments
from wiredecode.spark.parcels import File
from wiredecode.spark.splits import FileSplit, packets, splits

PLACES, SAMPLE_BYTES = 16, 16 << 20
"""Places in all files where the sample is taken, and about its size: it is taken in less time than small tasks need."""
SMALL = 16
"""Connections below this part of a bucket are spread by hash."""
Floats = npt.NDArray[np.float64]


class SizedBuckets(Buckets):
    """As :class:`Buckets`, but large connections are in the buckets that ``large`` names, by :meth:`keys`."""

    def __init__(
        self,
        count: int,
        sessions: Mapping[int, str],
        *,
        linked: bool = False,
        large: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(count, sessions, linked=linked)
        self._is_linked = linked
        self._buckets = np.full(2 * SLOTS, -1, np.int32)
        self._buckets[[*large]] = [*large.values()]

    def keys(self, segments: Segments) -> Int64s:
        """A number per connection below ``2 * SLOTS``; odd if it may know of others, the same if they are together."""
        slots = (pairs(segments) >> np.uint64(20)).astype(np.int64) % SLOTS
        have_session = self.have_session(segments)
        if not self._is_linked:
            slots[have_session] = super().of(segments)[have_session] % SLOTS
        return slots * 2 + have_session

    def of(self, segments: Segments) -> Int32s:
        found = self._buckets[self.keys(segments)]
        return np.where(found < 0, super().of(segments), found)

    def sizes(self, split: FileSplit, limits: Limits, most_bytes: int) -> Floats:
        """Bytes by key in the first ``most_bytes`` of a part, in proportion: their sum is 1, or 0 without any."""
        sizes: Floats = np.zeros(2 * SLOTS)
        headers = HeaderReader(limits, Counter(), Counter())
        with suppress(CaptureError, OSError):  # the task that reads it will report that
            for batch in packets(split):
                if len(batch):
                    segments = headers.read(batch)
                    sizes += np.bincount(self.keys(segments), segments.length + PACKET_BYTES, minlength=len(sizes))
                most_bytes -= len(batch.buffer)
                if most_bytes <= 0:
                    break
        sizes /= max(sizes.sum(), 1.0)
        return sizes


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


def sample(parts: Iterable[tuple[FileSplit, int]], buckets: SizedBuckets, limits: Limits) -> dict[str, Floats]:
    """Bytes of connections by source and key, from parts and their sizes in bytes."""
    every = [*places(parts)]
    chosen = every[:: -(-len(every) // PLACES) or 1]
    found: dict[str, Floats] = defaultdict(lambda: np.zeros(2 * SLOTS))
    with ThreadPoolExecutor() as pool:
        shares = pool.map(lambda place: buckets.sizes(place[0], limits, SAMPLE_BYTES // len(chosen)), chosen)
        for (split, size), share in zip(chosen, shares, strict=True):
            found[split.file.source] += share * size
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
