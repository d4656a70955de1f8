"""The queue of segments after a gap, and the ACKs that limit how long it waits."""

from bisect import bisect_left, bisect_right
from collections import deque
from typing import NamedTuple

from wiredecode.dataclasses import dataclass
from wiredecode.net.limits import Limits
from wiredecode.net.segments import distance


class Origin(NamedTuple):
    """The packet that carried a segment, and the one that completed it (another one only for IP fragments)."""

    number: int
    time_ns: int
    ready: int
    """Logical time of the packet that completed it (logical_time.py)."""
    ready_ns: int
    """Time of that packet."""
    clock: int
    """Connection clock at that packet, ns."""
    ended: int = 0
    """Logical time at which missing bytes before it were given up; 0: none were."""

    @property
    def at(self) -> int:
        """Its logical time among packets and ends of waits."""
        return max(self.ready, self.ended)


def ending(ended: int, clock: int = 0) -> Origin:
    """The origin of an end of a wait, which has no packet."""
    return Origin(0, 0, 0, 0, clock, ended)


class Buffered(NamedTuple):
    """Stream bytes [start, end) after a gap; ``data`` is shorter if the snapshot length truncated it."""

    start: int
    end: int
    data: bytes
    origin: Origin


class Arrival(NamedTuple):
    """Arrival of a segment after a gap: its position and packet."""

    position: int
    origin: Origin


@dataclass(slots=True)
class PastGap:
    """A gap that was given up, remembered to distinguish late bytes from duplicates."""

    start: int
    end: int
    noted: bool = False


class Overlap(NamedTuple):
    """Retransmitted bytes at ``position``, and the first copy as far as it was captured."""

    position: int
    first: bytes
    again: bytes


class ReorderQueue:
    """Segments after gaps: sorted, disjoint; of retransmitted bytes the first copy.

    Adding bisects and moves at most `Limits.buffered_segments` pointers; removing from the front is free.
    """

    __slots__ = ("_arrivals", "_head", "_segments", "_starts", "size")

    def __init__(self) -> None:
        self.size = 0
        """Payload bytes in the queue."""
        self._starts: list[int] = []
        self._segments: list[Buffered] = []
        self._head = 0  # index of the first one; those before were removed
        self._arrivals: deque[Arrival] = deque()  # in order of time; those before the stream's offset no longer wait

    def __len__(self) -> int:
        return len(self._segments) - self._head

    @property
    def first(self) -> Buffered | None:
        """The segment after the first gap."""
        return self._segments[self._head] if self._head < len(self._segments) else None

    def oldest(self, offset: int) -> Arrival | None:
        """The segment that has waited longest beyond stream ``offset``."""
        arrivals = self._arrivals
        while arrivals and arrivals[0].position <= offset:
            arrivals.popleft()
        return arrivals[0] if arrivals else None

    def mark(self, position: int, origin: Origin, offset: int) -> None:
        """Note that a segment or FIN at ``position`` waits; ``offset``: next byte of the stream."""
        if len(self._arrivals) > 2 * len(self) + 64:
            self._arrivals = deque(arrival for arrival in self._arrivals if arrival.position > offset)
        self._arrivals.append(Arrival(position, origin))

    def add(self, start: int, end: int, data: bytes, origin: Origin, offset: int) -> list[Overlap]:
        """Add the new bytes of [start, end); return the others. ``offset``: next byte of the stream."""
        starts, segments = self._starts, self._segments
        at = bisect_right(starts, start, self._head)
        if at > self._head and segments[at - 1].end > start:
            at -= 1
        overlaps = []
        cursor = start
        while cursor < end:
            existing = segments[at] if at < len(segments) else None
            if existing is not None and existing.start <= cursor:
                stop = min(end, existing.end)
                again = data[cursor - start : stop - start]
                skip = cursor - existing.start
                overlaps.append(Overlap(cursor, existing.data[skip : skip + len(again)], again))
            else:
                stop = end if existing is None else min(end, existing.start)
                piece = Buffered(cursor, stop, data[cursor - start : stop - start], origin)
                starts.insert(at, cursor)
                segments.insert(at, piece)
                self.size += len(piece.data)
                self.mark(cursor, origin, offset)
            cursor = stop
            at += 1
        return overlaps

    def pop(self, offset: int) -> Buffered | None:
        """Remove and return the segment that starts at ``offset``, if there is one."""
        first = self.first
        if first is None or first.start != offset:
            return None
        self.size -= len(first.data)
        self._head += 1
        if self._head * 2 >= len(self._segments):  # the move costs at most as much as the taking
            del self._segments[: self._head]
            del self._starts[: self._head]
            self._head = 0
        return first


def tail(front: bytes, parts: list[bytes], size: int) -> bytes:
    """The last ``size`` bytes of ``front`` and ``parts``, or as many as there are."""
    taken: list[bytes] = []
    have = 0
    for part in reversed(parts):
        if have >= size:
            break
        taken.append(part)
        have += len(part)
    if have < size:
        taken.append(front)
    last = b"".join(reversed(taken))
    return last[max(len(last) - size, 0) :]


PAST_ALL = 1 << 62
"""A position, and a time, after every other."""


class Acks:
    """Positions in a stream, and the connection clock at which each was acknowledged; both rise."""

    __slots__ = ("_acked", "_base", "_grain", "_window")

    def __init__(self, base: int, offset: int, limits: Limits) -> None:
        """``base``: sequence number of stream offset 0; ACKs before ``offset`` are ignored."""
        self._base = base
        self._grain, self._window = int(limits.gap_seconds * 1e6), limits.window_bytes
        self._acked = [(offset, 0)]

    def add(self, ack: int, clock: int) -> None:
        """Add an ACK: the bytes before sequence number ``ack`` were received by ``clock``."""
        acked = self._acked
        last = acked[-1][0]
        if last == PAST_ALL:
            return
        ahead = distance((self._base + last) & 0xFFFFFFFF, ack)
        if not 0 < ahead <= self._window:
            return
        if clock - acked[-1][1] < self._grain:  # a thousandth of the wait: bounds their number
            clock = acked.pop()[1]
        acked.append((last + ahead, clock))

    def end(self, clock: int) -> None:
        """The connection was reset: missing bytes are neither acknowledged nor sent again."""
        acked = self._acked
        while len(acked) > 1 and acked[-1][1] > clock:
            acked.pop()
        if acked[-1][0] != PAST_ALL:
            acked.append((PAST_ALL, clock))

    def since(self, position: int) -> int | None:
        """The connection clock when all bytes before ``position`` were acknowledged; None: not yet."""
        acked = self._acked
        at = bisect_left(acked, (position, 0), 1)
        return acked[at][1] if at < len(acked) else None

    def forget(self, offset: int) -> None:
        """Drop ACKs before ``offset``."""
        if len(self._acked) > 64:
            del self._acked[1 : bisect_left(self._acked, (offset, 0), 1)]


class AckHistory:
    """ACKs of bytes that were not captured yet: stream position and time, ns."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: list[tuple[int, int]] = []

    def add(self, position: int, time_ns: int, offset: int) -> None:
        """Add an ACK of the bytes before ``position``, at ``time_ns``; forget those before ``offset``."""
        del self._since[: bisect_right(self._since, (offset, PAST_ALL))]
        if not self._since or position > self._since[-1][0]:
            self._since.append((position, time_ns))

    def since(self, offset: int, at_most: int) -> int:
        """Return the time of the first ACK of bytes from ``offset`` on, at most ``at_most``."""
        index = bisect_right(self._since, (offset, PAST_ALL))
        return min(self._since[index][1], at_most) if index < len(self._since) else at_most
