"""Finds segments that a capture holds twice, as from two interfaces."""

from collections import deque
from typing import Any

import numpy as np

from wiredecode.arrays import Bools, Int64s, UInt64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.segments import Segments

COPY_NS = 20_000_000
"""A copy comes within this time after its packet."""
COMPARED = 8
"""Packets before it with which one is compared: copies come next to each other."""
REMEMBERED = 4096
"""The same, of packets with any key: their times may be equal, or the clock stopped."""

SegmentRow = tuple[Segments, PacketBatch, int, int]
"""A segment: its row among those of a batch; the capture clock at its packet."""


class SegmentCopies:
    """Finds them; ``count``: how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._seen: dict[int, list[SegmentRow]] = {}
        """By key, the latest of the last batches."""
        self._batches: deque[tuple[int, Segments, list[int]]] = deque()
        """By batch: the capture clock at its last segment, and its segments with their keys."""

    def find(self, segments: Segments, batch: PacketBatch, clock: Int64s) -> Bools | None:
        """Return which segments of a batch are copies; None: no copies. Batches come in the order of the capture.

        ``clock``: the capture clock at each packet of the batch, ns.
        """
        if not len(segments):
            return None
        times = clock[segments.row].tolist()
        self._forget(times[0], int(segments.number[0]))
        keys, copied = keys_of(segments).tolist(), set()
        for row, (key, now) in enumerate(zip(keys, times, strict=True)):
            here, same_key = (segments, batch, row, now), self._seen.setdefault(key, [])
            for earlier in reversed(same_key):
                if (earlier[0] is not segments or earlier[2] not in copied) and is_copy(earlier, here):
                    copied.add(row)
                    break
            same_key.append(here)
            if len(same_key) > COMPARED:
                del same_key[0]
        self._batches.append((times[-1], segments, keys))
        self.count += len(copied)
        return np.isin(np.arange(len(segments)), [*copied]) if copied else None

    def _forget(self, now: int, number: int) -> None:
        """Forget the batches that no packet from ``number`` on, with the capture clock at ``now``, is a copy of."""
        while self._batches:
            last, segments, keys = self._batches[0]
            if last >= now - COPY_NS and segments.number[-1] > number - REMEMBERED:
                return
            self._batches.popleft()
            for key in keys:
                same_key = self._seen.get(key, [])
                while same_key and same_key[0][0] is segments:
                    del same_key[0]
                if not same_key:
                    self._seen.pop(key, None)


def keys_of(segments: Segments) -> UInt64s:
    """A number that copies share, and other segments hardly ever."""
    seq, ack = segments.seq.astype(np.uint64), segments.ack.astype(np.uint64)
    mixed: UInt64s = (seq << np.uint64(32)) ^ ack ^ (segments.ports.astype(np.uint64) << np.uint64(13))
    mixed ^= segments.length.astype(np.uint64) << np.uint64(49)
    mixed ^= segments.flags.astype(np.uint64) << np.uint64(57)
    return mixed ^ segments.source_low ^ (segments.target_low << np.uint64(8))


def is_copy(earlier: SegmentRow, here: SegmentRow) -> bool:
    """Whether two segments are the same packet, seen at two places."""
    apart = here[0].number[here[2]] - earlier[0].number[earlier[2]]
    if here[3] - earlier[3] > COPY_NS or apart >= REMEMBERED:
        return False
    (first, before, after), (again, behind, later) = seen_at(*earlier), seen_at(*here)
    return first == again and first is not None and before != behind and abs(later - after) <= COPY_NS


def seen_at(segments: Segments, batch: PacketBatch, row: int, _: int) -> tuple[Any, Any, int]:
    """Return the common properties of copies, where it was seen, and when; none if it came in fragments."""
    header, packet = int(segments.header[row]), int(segments.row[row])
    if header < 0:
        return None, None, 0
    buffer, begin = segments.buffer, int(batch.start[packet])
    size = (buffer[header + 12] >> 4) * 4
    plain_v4 = header - begin >= 20 and buffer[header - 20] == 0x45
    identification = bytes(buffer[header - 16 : header - 14]) if plain_v4 else b""
    names = ("source_high", "source_low", "target_high", "target_low", "length")
    ends = (int(getattr(segments, name)[row]) for name in names)
    common = (*ends, identification, bytes(buffer[header : header + size]))
    where = int(batch.interface[packet]), int(batch.linktype[packet]), bytes(buffer[begin:header])
    return common, where, int(segments.time_ns[row])
