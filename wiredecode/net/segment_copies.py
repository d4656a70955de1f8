"""Finds segments that a capture holds twice, as from two interfaces."""

from collections import deque
from typing import Any

import numpy as np

from wiredecode.arrays import Bools, UInt64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.segments import Segments

COPY_NS = 20_000_000
"""A copy comes within this time after its packet."""
COMPARED = 8
"""Packets before it with which one is compared: copies come next to each other."""

SegmentRow = tuple[Segments, PacketBatch, int]
"""A segment: its row among those of a batch."""


class Copies:
    """Finds them; ``count``: how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._seen: dict[int, list[SegmentRow]] = {}
        """By key, of the last batches."""
        self._batches: deque[tuple[int, list[int]]] = deque()
        """By batch: time of its last segment, and the keys of all its segments."""

    def find(self, segments: Segments, batch: PacketBatch) -> Bools | None:
        """Return which segments of a batch are copies; None: no copies. Batches come in the order of the capture."""
        if not len(segments):
            return None
        self._forget(int(segments.time_ns[0]))
        keys, copied = keys_of(segments).tolist(), set()
        for row, key in enumerate(keys):
            here, same_key = (segments, batch, row), self._seen.setdefault(key, [])
            for earlier in reversed(same_key[-COMPARED:]):
                if (earlier[0] is not segments or earlier[2] not in copied) and is_copy(earlier, here):
                    copied.add(row)
                    break
            same_key.append(here)
        self._batches.append((int(segments.time_ns[-1]), keys))
        self.count += len(copied)
        return np.isin(np.arange(len(segments)), [*copied]) if copied else None

    def _forget(self, now: int) -> None:
        while self._batches and self._batches[0][0] < now - COPY_NS:
            for key in self._batches.popleft()[1]:
                if len(self._seen[key]) > 1:
                    del self._seen[key][0]
                else:
                    del self._seen[key]


def keys_of(segments: Segments) -> UInt64s:
    """A number that copies share, and other segments hardly ever."""
    seq, ack = segments.seq.astype(np.uint64), segments.ack.astype(np.uint64)
    mixed: UInt64s = (seq << np.uint64(32)) ^ ack ^ (segments.ports.astype(np.uint64) << np.uint64(13))
    mixed ^= segments.length.astype(np.uint64) << np.uint64(49)
    mixed ^= segments.flags.astype(np.uint64) << np.uint64(57)
    return mixed ^ segments.source_low ^ (segments.target_low << np.uint64(8))


def is_copy(earlier: SegmentRow, here: SegmentRow) -> bool:
    """Whether two segments are the same packet, seen at two places."""
    (first, before, after), (again, behind, later) = seen_at(*earlier), seen_at(*here)
    return first == again and first is not None and before != behind and abs(later - after) <= COPY_NS


def seen_at(segments: Segments, batch: PacketBatch, row: int) -> tuple[Any, Any, int]:
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
