"""TCP analysis of a capture: which connection each segment belongs to, and the analysis of each connection."""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.analysis import ConnectionAnalysis, SegmentHeader, options
from wiredecode.net.causality import Tracked
from wiredecode.net.segments import ACK, SYN, Segments

NEEDED = ("number", "time_ns", "seq", "ack", "flags", "length", "window", "header")
"""Columns of `Segments`."""


class Analyser:
    """Analyses the connections of a capture: each gets a `ConnectionHealth`, which grows packet by packet."""

    def __init__(self) -> None:
        self.over: list[ConnectionAnalysis] = []
        """Of connections of which nothing more comes after the next `analyse`; then `finish` completes them."""
        self.kinds: dict[int, int] = {}
        """Packet number to kinds, of the packets since `begin` that are of any."""
        self.connections: dict[int, int] | None = None
        """Packet number to number of its connection, of those packets; None: not wanted."""

    def begin(self) -> None:
        """The next packets come."""
        self.kinds = {}
        if self.connections is not None:
            self.connections = {}

    def analyse(self, segments: Segments, owners: list[tuple[Tracked, int]], copies: Bools | None = None) -> None:
        """Analyse the segments of the next packets, in packet order; ``owners``: connection and side of each.

        ``copies`` are packets that were seen before: nothing that TCP did.
        """
        buffer, columns = segments.buffer, (getattr(segments, name).tolist() for name in NEEDED)
        again = repeat(False, len(owners)) if copies is None else copies.tolist()
        for (tracked, side), copied, *row, header in zip(owners, again, *columns, strict=True):
            conversation, flags = tracked.analysis, row[4]
            assert conversation is not None
            if self.connections is not None:
                self.connections[row[0]] = conversation.number
            if copied:
                continue
            offered = options(buffer[header : header + 60]) if flags & SYN and header >= 0 else ()
            if conversation.sides[1 - side].repeated and flags & ACK and header >= 0:
                conversation.acknowledges(side, row[1], row[3], buffer[header : header + 60])
            kinds = conversation.analyse(side, SegmentHeader(*row, *offered))
            if kinds:
                self.kinds[row[0]] = kinds

    def finish(self) -> None:
        """Complete the connections that are over."""
        for conversation in self.over:
            conversation.finish()
        self.over.clear()


COPY_NS = 20_000_000
"""A copy comes within this time after its packet."""
COMPARED = 8
"""Packets before it with which one is compared: copies come next to each other."""

Keys = npt.NDArray[np.uint64]


class Copies:
    """Finds them; ``count``: how many there were."""

    def __init__(self) -> None:
        self.count = 0
        self._recent: deque[tuple[Segments, PacketBatch, Keys]] = deque()

    def find(self, segments: Segments, batch: PacketBatch) -> Bools | None:
        """Return which segments of a batch are copies; None: no copies. Batches come in the order of the capture."""
        if not len(segments):
            return None
        keys = keys_of(segments)
        self._forget(int(segments.time_ns[0]))
        found = self._compare(segments, batch, keys)
        self._recent.append((segments, batch, keys))
        if not found:
            return None
        self.count += len(found)
        copies = np.zeros(len(segments), np.bool_)
        copies[found] = True
        return copies

    def _forget(self, now: int) -> None:
        while self._recent and int(self._recent[0][0].time_ns[-1]) < now - COPY_NS:
            self._recent.popleft()

    def _compare(self, segments: Segments, batch: PacketBatch, keys: Keys) -> list[int]:
        every = np.concatenate([*(recent[2] for recent in self._recent), keys])
        ordered = np.sort(every)
        if not (ordered[1:] == ordered[:-1]).any():  # nearly always, and found at a third of the cost
            return []
        order = np.argsort(every, kind="stable")
        same = np.flatnonzero(every[order[1:]] == every[order[:-1]])
        sources = [*self._recent, (segments, batch, keys)]
        edges = np.cumsum([0, *(len(each[2]) for each in sources)])
        first, found, copied = int(edges[-2]), [], set()
        for place in same.tolist():  # order[place + 1] has the key of those before it
            row = int(order[place + 1])
            if row < first:
                continue
            for back in range(place, max(-1, place - COMPARED), -1):
                other = int(order[back])
                if every[other] != every[row]:
                    break
                if other not in copied and is_copy(sources, edges, other, row):
                    found.append(row - first)
                    copied.add(row)
                    break
        return found


def keys_of(segments: Segments) -> Keys:
    """A number that copies share, and other segments hardly ever."""
    seq, ack = segments.seq.astype(np.uint64), segments.ack.astype(np.uint64)
    mixed: Keys = (seq << np.uint64(32)) ^ ack ^ (segments.ports.astype(np.uint64) << np.uint64(13))
    mixed ^= segments.length.astype(np.uint64) << np.uint64(49)
    mixed ^= segments.flags.astype(np.uint64) << np.uint64(57)
    return mixed


def is_copy(sources: list[Any], edges: Any, one: int, other: int) -> bool:
    """Whether the segments at two places are the same packet, seen at two places."""
    (first, before, after), (again, behind, later) = (seen_at(sources, edges, place) for place in (one, other))
    return first == again and first is not None and before != behind and abs(later - after) <= COPY_NS


def seen_at(sources: list[Any], edges: Any, place: int) -> tuple[Any, Any, int]:
    """Return the common properties of copies, where it was seen, and when; none if it came in fragments."""
    which = int(np.searchsorted(edges, place, "right")) - 1
    segments, batch, _ = sources[which]
    row = place - int(edges[which])
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
