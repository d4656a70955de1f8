"""Splits a byte stream into frames that carry their length, and rates how much bytes look like a frame."""

import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

from wiredecode.dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Split:
    """The frames at the front of a buffer."""

    ends: list[int]
    """Where each whole frame ends; the next one starts there."""
    need: int = 0
    """Size of the frame after the last whole one, if its header contains it; 0: not enough bytes to know."""
    bad: str | None = None
    """Why the bytes after the last whole frame cannot be a frame."""
    known_at: Sequence[tuple[int, int]] = ()
    """Frames whose end only later bytes show: index in ``ends``, and the position up to which bytes are needed; the
    index after the last one: that these are all, and what follows is ``bad``."""
    then: "Splitter | None" = None
    """Splits the bytes after the last whole frame, if that switched to another protocol."""


@dataclass(slots=True, frozen=True)
class Found:
    """Result of a search for the next frame: it is at ``position``, or (``found`` false) not before it."""

    position: int
    found: bool
    need: int = 0
    """Bytes from there on without which another search finds no more; 0: any may do."""


@dataclass(slots=True, frozen=True)
class Verdict:
    """The bytes at the start of a direction, or after a gap, are of the protocol."""

    position: int
    """Where the first frame starts."""
    client: bool | None = None
    """Whether the sender is the client; None: the bytes do not show it."""
    dialect: str | None = None
    splitter: "Splitter | None" = None
    """Splits both directions in place of the protocol, if they switched to another transport before."""


@dataclass(slots=True, frozen=True)
class Undecided:
    """More bytes may decide; those before ``position`` need not be looked at again."""

    position: int = 0
    sure: bool = False
    """Whether it is certainly this protocol, of an unknown dialect."""
    need: int = 0
    """Bytes from ``position`` on without which the answer is the same; 0: any may decide."""


@dataclass(slots=True, frozen=True)
class Rejected:
    """The bytes are of another protocol."""


LOOKS = 8
"""Number of times that a byte may be searched, on average."""
FEW_BYTES = 64 * 1024
"""Bytes that may be searched more often."""


class Looks:
    """Decides when the bytes that a search kept are searched again with those that came since.

    A search that kept many waits until as many came that the work stays in proportion to them.
    """

    __slots__ = ("_allowed", "_end", "need")

    def __init__(self) -> None:
        self.need = 0
        """:attr:`Found.need` of the last search."""
        self._allowed, self._end = FEW_BYTES, 0

    def again(self, begin: int, end: int) -> bool:
        """Whether to search the bytes between these stream offsets now."""
        size = end - begin
        self._allowed = min(self._allowed + LOOKS * (end - self._end), max(size, FEW_BYTES))
        self._end = end
        if size < self.need or size > self._allowed:
            return False
        self._allowed -= size
        return True


class Allowance:
    """Bytes that one search may read to judge what may be frames: some more than it searches."""

    __slots__ = ("left",)

    def __init__(self, data: bytes) -> None:
        self.left = LOOKS * len(data) + 1024

    def spend(self, size: int) -> bool:
        """Note bytes that were read; whether more may be read."""
        self.left -= size
        return self.left > 0


class Splitter(Protocol):
    """Divides the bytes of a direction into frames: a protocol, or the transport that its connections switch to."""

    @property
    def name(self) -> str: ...

    def split(self, data: bytes) -> Split: ...

    def split_first(self, data: bytes) -> Split: ...

    def search(self, data: bytes, *, final: bool) -> Found: ...

    def begin(self, data: bytes, *, final: bool) -> Found: ...


class Unreadable:
    """Replaces a splitter ``name`` that raised an exception: all further bytes belong to no frame."""

    def __init__(self, name: str) -> None:
        self.name = name

    def split(self, data: bytes) -> Split:
        return Split([], bad="no longer read")

    split_first = split

    def search(self, data: bytes, *, final: bool) -> Found:
        return Found(len(data), False)

    begin = search


@dataclass(frozen=True)
class Number:
    """An integer in the header of a frame, and its valid range."""

    at: int
    """Its first byte, counted from the start of the frame."""
    width: int
    """In bytes: 1, 2, 4 or 8."""
    least: int
    most: int
    bad: str = "a length of {value} is out of bounds ({least} to {most})"
    """Error text if the ``{value}`` is out of range."""
    little: bool = False
    signed: bool = False

    @cached_property
    def reader(self) -> struct.Struct:
        """Reads the integer, from the start of the frame."""
        code = {1: "B", 2: "H", 4: "I", 8: "Q"}[self.width]
        return struct.Struct(f"{'<' if self.little else '>'}{self.at}x{code.lower() if self.signed else code}")

    def unfit(self, data: bytes, position: int) -> str:
        """Error text of the value in the frame at ``position``."""
        return self.bad.format(value=self.reader.unpack_from(data, position)[0], least=self.least, most=self.most)


@dataclass(frozen=True)
class LengthPrefix:
    """Frames with their length in a header of fixed size.

    A frame is ``after`` + the value of ``length`` bytes long. ``header`` bytes are needed to know the length.
    """

    length: Number
    after: int
    """Bytes at the front of a frame that its length does not count."""
    header: int
    held: tuple[Number, ...] = ()
    """Further integers of the header that must be in range."""
    mark: int | None = None
    """The last byte of every frame, which is after all that the length counts."""

    @cached_property
    def _checks(self) -> list[tuple[Number, Callable[..., tuple[int]], int, int]]:
        return [(number, number.reader.unpack_from, number.least, number.most) for number in self.held]

    def split(self, data: bytes, position: int = 0) -> Split:
        """Split ``data``, with a frame at ``position``, into frames."""
        ends: list[int] = []
        end, last, after, mark = len(data), len(data) - self.header, self.after, self.mark
        least, most = self.length.least, self.length.most
        unpack, append = self.length.reader.unpack_from, ends.append
        held = self._checks
        while position <= last:
            size = unpack(data, position)[0]
            if not least <= size <= most:
                return Split(ends, bad=self.length.unfit(data, position))
            for number, read, low, high in held:
                if not low <= read(data, position)[0] <= high:
                    return Split(ends, bad=number.unfit(data, position))
            stop = position + after + size
            if stop > end:
                return Split(ends, need=stop - position)
            if mark is not None and data[stop - 1] != mark:
                bad = f"a frame of {stop - position} bytes does not end with {mark:#04x}"
                return Split(ends, bad=bad, known_at=((len(ends), stop),))
            append(stop)
            position = stop
        return Split(ends)
