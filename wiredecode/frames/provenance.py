"""Which packet carried which bytes of a stream, and when."""

from __future__ import annotations

from bisect import bisect_right

from wiredecode.net.types import Chunk

COLUMNS = ("ends", "packet", "time_ns", "ready", "ready_ns")


class Provenance:
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
