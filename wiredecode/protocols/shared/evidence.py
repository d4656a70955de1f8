"""Evidence that bytes are a frame, and frames in a row: for recognising a protocol, and for searching after a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

BAD, CUT, EMPTY, WEAK, GOOD, SURE = -2, -1, 0, 1, 2, 3
"""Cannot be a frame; more bytes are needed; says nothing; might be chance; would rarely be chance; cannot be chance."""


@dataclass(slots=True)
class Evidence:
    """Evidence of the bytes at a position, read as a frame."""

    level: int
    """One of the above. The beginning of a frame may be enough for it."""
    end: int = 0
    """Where the frame ends, as far as known; it may be beyond the bytes that are there."""
    client: bool | None = None
    """Whether its sender is the client; None: unknown."""


class Chain:
    """The frames that follow one another from a position, as far as they are needed to believe in them."""

    most: ClassVar[int]
    """Frames that are looked at."""

    def __init__(self, data: bytes, position: int) -> None:
        self.start = self.end = position
        """Where the frames start, and where the last whole one ends."""
        self.whole = 0
        """Whole frames."""
        self.best, self.score = BAD, 0
        """Highest level of a frame, and the sum of all."""
        self.client: bool | None = None
        self.last = Evidence(CUT)
        while self.whole < self.most and not self.enough():
            seen = self.last = self.judge(data, self.end)
            if self.client is None and seen.level != BAD:
                self.client = seen.client
            if seen.level < EMPTY:
                return
            self.best = max(self.best, seen.level)
            self.score += seen.level
            if seen.end > len(data):
                return
            self.whole += 1
            self.add(data, seen)
            self.end = seen.end

    def judge(self, data: bytes, position: int) -> Evidence:
        """Judge the bytes at a position; costs little, for any length in them."""
        raise NotImplementedError

    def add(self, data: bytes, seen: Evidence) -> None:
        """Take a whole frame, which starts at :attr:`end`, into account."""

    def enough(self) -> bool:
        """Whether further frames would not change the answer."""
        return self.best == SURE
