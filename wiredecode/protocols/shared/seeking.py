"""Recognises a protocol in bytes, and finds its next frame after a gap.

A protocol declares where a frame may start, how much one there is worth as evidence (:meth:`Chain.judge`), and how many
must follow each other to be believed (:attr:`Chain.needed`)::

    candidate ▶ frame ▶ frame ▶ frame ▶ end of the bytes      as many as needed: found
    candidate ▶ frame ▶ no frame                              the next candidate
    candidate ▶ frame ▶ cut by the end of the bytes           more bytes are needed
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

from wiredecode.dataclasses import dataclass
from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import Allowance, Found, Rejected, Undecided, Verdict

BAD, SHORT, EMPTY, WEAK, GOOD, SURE = -2, -1, 0, 1, 2, 3
"""Levels of evidence: no frame; more bytes are needed; none; may be chance; rarely chance; never chance."""

START, START_HOME, LATE, LATE_HOME, KNOWN = range(5)
"""Places of bytes: first of a connection; the same on the protocol's port; first captured ones of a connection that
began before; the same on its port; after a gap, where the protocol is known."""

FEW = 3
"""Weak frames of a late start after which another one is not looked at."""
MOST = 32
"""Frames of a chain that are judged."""
SEARCH_BYTES = 256 * 1024
"""While searching, no longer frame is waited for."""
DECIDE_BYTES = 16 * 1024
"""Bytes of a recognised protocol within which its dialect must show."""


def layer_end(layer: type[Layer], data: bytes, position: int, end: int, *, any_text: bool = False) -> int | None:
    """Where a layer at ``position`` ends; None when it does not fit. ``any_text``: texts need not be UTF-8."""
    try:
        return compiler.walk(layer, data, position, end)[1]
    except UnicodeDecodeError:
        read = compiler.careful(layer, data, position, end)
        return position + read.stop if any_text and read.problem is None else None
    except compiler.FAILED:
        return None


@dataclass(slots=True)
class Evidence:
    """Evidence of the bytes at a position, read as a frame."""

    level: int
    """One of :data:`BAD` to :data:`SURE`."""
    end: int = 0
    """Where the frame ends, if known; it may be beyond the captured bytes."""
    client: bool | None = None
    """Whether its sender is the client; None: unknown."""
    need: int = 0
    """``SHORT``: position up to which bytes are needed to judge it otherwise; 0: any may do."""


class Chain:
    """Consecutive frames from a position on, as many as are needed for a decision.

    ``final``: a gap or the end follows the bytes.
    """

    needed: ClassVar[Mapping[int, Mapping[int, int]]]
    """By place and best level among the frames: how many are believed. The end of the bytes counts as one if a frame
    ends there, or one whose header is there is cut by it; empty frames do not.
    Level :data:`SHORT`: a cut frame alone."""
    fills: ClassVar[int] = 2
    """Frames that are believed where they are all the captured bytes of one that is at home there."""
    looks: ClassVar[int] = SEARCH_BYTES
    """Most bytes of a frame that are read to judge it."""
    dialect: str | None = None

    def __init__(self, data: bytes, position: int, place: int, final: bool) -> None:
        self.start = self.end = position
        """Where the frames start, and where the last whole one ends."""
        self.place, self.final = place, final
        self.whole, self.counted, self.size = 0, 0, len(data)
        self.best = BAD
        """Highest level of a frame."""
        self.client: bool | None = None
        self.last = Evidence(SHORT)
        while self.whole < MOST and not (self.whole and self.enough()):
            seen = self.last = self.judge(data, self.end)
            if self.client is None and seen.level != BAD:
                self.client = seen.client
            if seen.level < EMPTY:
                return
            self.best = max(self.best, seen.level)
            if seen.end > self.size:
                return
            self.whole += 1
            self.counted += seen.level > EMPTY
            self.add(data, seen)
            self.end = seen.end
            if place == LATE and self.whole >= FEW and self.best < GOOD:
                return  # a better frame after weak ones has its own candidate

    def judge(self, data: bytes, position: int) -> Evidence:
        """Judge the bytes at a position; cheap for any length they declare."""
        raise NotImplementedError

    def add(self, data: bytes, seen: Evidence) -> None:
        """Add a whole frame, which starts at :attr:`end`."""

    def enough(self) -> bool:
        """Whether further frames would not change the answer."""
        return self.counted >= self._needed(self.best) and (self.place == KNOWN or self.client is not None)

    def _needed(self, best: int) -> int:
        """Frames of this level that are believed."""
        least, fewest = SHORT if self.whole == 0 else WEAK, MOST
        for level, number in self.needed[self.place].items():
            if least <= level <= best and number < fewest:
                fewest = number
        return fewest

    @property
    def is_cut(self) -> bool:
        """Whether the bytes end inside a frame."""
        return self.last.level == SHORT or (self.last.end > self.size and self.last.level != BAD)

    @property
    def filled(self) -> bool:
        """Whether all bytes are whole frames."""
        return self.start == 0 < self.whole and self.end == self.size

    @property
    def is_believed(self) -> bool:
        """Whether this is the protocol."""
        cut, best, last = self.is_cut, self.best, self.last
        near = last.level >= GOOD or last.end - self.start <= SEARCH_BYTES
        if cut and self.final and last.end > self.size:
            if self.place == KNOWN and last.level >= GOOD:
                return True
            best = max(best, SHORT if self.start == 0 else BAD)
        ends = self.whole > 0 and self.end == self.size
        tail = ends or (cut and near and (self.final or last.end > self.size))
        at_home = self.place in (START_HOME, LATE_HOME) or (self.place == KNOWN and self.final)
        fills = at_home and self.filled and (self.final or self.whole >= self.fills)
        return fills or self.counted + tail >= self._needed(best)

    @property
    def is_open(self) -> bool:
        """Whether more bytes may show the dialect."""
        return False

    @property
    def may_grow(self) -> bool:
        """Whether more bytes are worth waiting for."""
        near = self.place <= START_HOME or self.last.end - self.start <= SEARCH_BYTES
        return not self.final and self.is_cut and near

    @property
    def read(self) -> int:
        """Bytes that were read: of its whole frames, and of the bad one at its end."""
        size = (self.last.end if self.end < self.last.end <= self.size else self.end) - self.start
        return min(size, self.looks * (self.whole + 1))

    @property
    def need(self) -> int:
        """Bytes without which it stays as it is; 0: any may do."""
        last = self.last
        reach = last.end if last.level != SHORT and last.end > self.size else last.need
        return max(reach - self.start, 0)


@dataclass(frozen=True)
class Seeker:
    """Recognises a protocol and finds its frames by chains."""

    candidate: re.Pattern[bytes]
    """Where frames may start after other bytes."""
    header: int
    """Bytes without which a candidate is not seen."""
    chains: tuple[type[Chain], ...]
    hopeless: Callable[[bytes, int], bool] | None = None
    """Whether a candidate is not worth a look."""

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        """:meth:`Protocol.recognise`."""
        if started:
            place, positions = START_HOME if port else START, iter((0,))
        else:
            place, positions = LATE_HOME if port else LATE, self._positions(data, 0)
        answer = self._seek(data, positions, place, final)
        if isinstance(answer, Chain):
            if answer.is_open and not final and answer.end - answer.start < DECIDE_BYTES:
                return Undecided(answer.start, sure=True)
            return Verdict(answer.start, answer.client, answer.dialect)
        if final or (started and answer.position):
            return Rejected()
        return Undecided(answer.position, need=answer.need)

    def search(self, data: bytes, *, final: bool) -> Found:
        """:meth:`Protocol.search`."""
        answer = self._seek(data, self._positions(data), KNOWN, final)
        return Found(answer.start, True) if isinstance(answer, Chain) else answer

    def begin(self, data: bytes, *, final: bool) -> Found:
        """:meth:`Protocol.begin`: frames that fill the bytes are believed."""
        filled = any(chain(data, 0, LATE_HOME, True).filled for chain in self.chains)
        return Found(0, True) if filled else self.search(data, final=final)

    def _positions(self, data: bytes, *first: int) -> Iterator[int]:
        yield from first
        for match in self.candidate.finditer(data, len(first)):
            if self.hopeless is None or not self.hopeless(data, match.start()):
                yield match.start()

    def _seek(self, data: bytes, positions: Iterator[int], place: int, final: bool) -> Chain | Found:
        """The first believed chain; else the position to search from when more bytes came."""
        allowance = Allowance(data)
        for position in positions:
            chains = [kind(data, position, place, final) for kind in self.chains if place in kind.needed]
            alive = [chain for chain in chains if chain.whole or chain.last.level != BAD]  # most begin with no frame
            for chain in alive:
                if chain.is_believed:
                    return chain
            waiting = [chain for chain in alive if chain.may_grow]
            if waiting:
                return Found(position, False, min(chain.need for chain in waiting))
            if not allowance.spend(max(chain.read for chain in chains)):
                break
        return Found(max(0, len(data) - self.header + 1) if place > START_HOME else len(data), False)
