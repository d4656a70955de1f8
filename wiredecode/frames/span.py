"""Which packet carried which bytes; stretches of a stream that are no plain frame, as bytes are missing or unknown."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from wiredecode.frames.frame import Finding
from wiredecode.net.types import Chunk

COLUMNS = ("ends", "packet", "time_ns", "ready", "ready_ns")


class PacketMap:
    """Which packet carried which bytes of the unread part of a stream: the columns of its chunks, joined.

    A piece is what one packet carried.
    """

    __slots__ = COLUMNS

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.ends: list[int] = []
        self.packet: list[int] = []
        self.time_ns: list[int] = []
        self.ready: list[int] = []
        self.ready_ns: list[int] = []

    def add(self, chunk: Chunk) -> None:
        self.ends += chunk.ends.tolist()
        self.packet += chunk.packet.tolist()
        self.time_ns += chunk.time_ns.tolist()
        self.ready += chunk.ready.tolist()
        self.ready_ns += chunk.ready_ns.tolist()

    def holding(self, offset: int, low: int = 0) -> int:
        """Index of the piece that holds a stream offset."""
        return bisect_right(self.ends, offset, low)

    def drop(self, offset: int) -> None:
        """Forget the pieces that end at or before a stream offset."""
        ends = self.ends
        if ends and ends[-1] <= offset:
            self.clear()
            return
        index = bisect_right(ends, offset)
        if index:
            for name in COLUMNS:
                del getattr(self, name)[:index]


UNDECODED_SPAN = 1024 * 1024
"""Longest span reported as one undecoded record."""
UNDECODED_SHOWN = 4096
"""Bytes of it that are kept to be looked at."""


@dataclass(slots=True)
class Span:
    """A stretch of a stream that becomes one record: a frame with holes, or bytes that could not be decoded."""

    offset: int
    data: bytes = b""
    captured: int = 0
    missing: int = 0
    left: int = 0
    """Of a frame: bytes still to come."""
    packets: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Where in the stream what each of them carries begins."""
    ready: int = 0
    time_ns: int = 0
    first_ns: int | None = None
    findings: list[Finding] = field(default_factory=list)

    def add(self, pieces: PacketMap, offset: int, size: int) -> None:
        """Add ``size`` captured bytes at a stream offset: their packets and times."""
        low = pieces.holding(offset)
        high = pieces.holding(offset + size - 1, low)
        carriers = pieces.packet[low : high + 1]
        begins = [offset, *pieces.ends[low:high]]
        if self.packets and carriers[0] == self.packets[-1]:
            del carriers[0], begins[0]
        self.begins += begins
        self.packets.extend(carriers)
        if self.first_ns is None:
            self.first_ns = pieces.time_ns[low]
        self.ready, self.time_ns = pieces.ready[high], pieces.ready_ns[high]
        self.captured += size
