"""Which frame a client published a message in, so that what servers hand on is known as a copy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wiredecode.protocols.shared.pairing import Newest

if TYPE_CHECKING:
    from wiredecode.frames.block import Int64s

Key = tuple[str | None, int, int]
"""Subject, with that of the reply if there is one, size and CRC-32C of the payload."""
MOST_SAME = 16
"""Frames of one key that are remembered."""
PUT_OFF = 10
"""Of runs, so many times what is remembered is put off before it is sorted out."""


@dataclass(slots=True)
class Publications:
    """The last frames by key, of the ``most`` keys published last.

    Runs are only noted: usually nobody asks before most of them are out of date.
    """

    most: int
    known: Newest[Key, tuple[int, ...]] = field(init=False)
    runs: list[tuple[list[str], Int64s, Int64s, Int64s, Int64s]] = field(default_factory=list)
    waiting: int = 0

    def __post_init__(self) -> None:
        self.known = Newest(self.most)

    def __len__(self) -> int:
        self.merge_runs()
        return len(self.known)

    def get(self, key: Key) -> tuple[int, ...]:
        """The last frames of a key, the oldest first."""
        if self.runs:
            self.merge_runs()
        return self.known.get(key, ())

    def add(self, key: Key, number: int) -> None:
        if self.runs:
            self.merge_runs()
        self._put(key, (number,))

    def _put(self, key: Key, numbers: tuple[int, ...]) -> None:
        before = self.known.get(key)
        self.known.put(key, numbers if before is None else (*before, *numbers)[-MOST_SAME:])

    def add_run(self, subjects: list[str], codes: Int64s, sizes: Int64s, checksums: Int64s, numbers: Int64s) -> None:
        """Messages in columns; ``codes`` are places in ``subjects``."""
        self.runs.append((subjects, codes, sizes, checksums, numbers))
        self.waiting += len(codes)
        if self.waiting > PUT_OFF * self.most:
            self.merge_runs()

    def merge_runs(self) -> None:
        """Take over what was noted, the newest first, as far as it counts."""
        if not self.runs:
            return
        fresh: dict[Key, list[int]] = {}
        for subjects, *columns in reversed(self.runs):
            last = [column[::-1][: self.most].tolist() for column in columns]
            rest = [column[::-1][self.most :] for column in columns]
            while last[0]:
                for code, size, checksum, number in zip(*last, strict=True):
                    same = fresh.setdefault((subjects[code], size, checksum), [])
                    if len(same) < MOST_SAME:
                        same.append(number)
                if len(fresh) >= self.most:
                    break
                last = [column[: self.most].tolist() for column in rest]
                rest = [column[self.most :] for column in rest]
            if len(fresh) >= self.most:
                break
        self.runs, self.waiting = [], 0
        newest = list(fresh.items())[: self.most]
        for key, numbers in reversed(newest):
            self._put(key, tuple(reversed(numbers)))
