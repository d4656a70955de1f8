"""IP fragments put together (RFC 791 section 3.2, RFC 8200 section 4.5); the first copy of a byte wins."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from wiredecode.net.limits import Limits
from wiredecode.net.names import FRAGMENT_INCOMPLETE

MALFORMED_FRAGMENT = "malformed IP fragment"
MAX_DATAGRAM = 65535


@dataclass(slots=True)
class FragmentPiece:
    """What one fragment gives to a datagram: wire bytes [start, end), of which ``data`` was captured."""

    start: int
    end: int
    data: bytes
    number: int
    time_ns: int


@dataclass(slots=True)
class Datagram:
    """An IP datagram that is not complete yet."""

    clock: int
    """Capture time of its first fragment, ns."""
    pieces: list[FragmentPiece] = field(default_factory=list)
    """Sorted, not overlapping."""
    total: int | None = None
    """Length on the wire, known from the last fragment."""
    covered: int = 0
    buffered: int = 0
    packets: int = 0

    def add(self, piece: FragmentPiece) -> None:
        """Insert what of ``piece`` is not there yet."""
        at = bisect_left(self.pieces, piece.start, key=lambda known: known.end)
        cursor = piece.start
        while cursor < piece.end:
            known = self.pieces[at] if at < len(self.pieces) else None
            if known is not None and known.start <= cursor:
                cursor = known.end
            else:
                end = piece.end if known is None else min(piece.end, known.start)
                data = piece.data[cursor - piece.start : end - piece.start]
                self.pieces.insert(at, FragmentPiece(cursor, end, data, piece.number, piece.time_ns))
                self.covered += end - cursor
                self.buffered += len(data)
                cursor = end
            at += 1

    @property
    def malformed(self) -> bool:
        """Bytes behind the last fragment, or more than a datagram can hold."""
        end = self.pieces[-1].end if self.pieces else 0
        return end > MAX_DATAGRAM or (self.total is not None and end > self.total)


class Fragments:
    """The incomplete datagrams of a capture, bounded in number, bytes and time."""

    def __init__(self, limits: Limits, not_decoded: Counter[str], limits_hit: Counter[str]) -> None:
        self._limits = limits
        self._not_decoded = not_decoded
        self._limits_hit = limits_hit
        self._datagrams: dict[Hashable, Datagram] = {}
        self._buffered = 0

    def __contains__(self, key: Hashable) -> bool:
        """Whether a datagram is being put together."""
        return key in self._datagrams

    def add(self, key: Hashable, piece: FragmentPiece, more: bool, clock: int) -> Datagram | None:
        """Take one fragment; the datagram it belongs to when that is complete now."""
        self._expire(clock)
        datagram = self._datagrams.setdefault(key, Datagram(clock))
        before = datagram.buffered
        datagram.packets += 1
        datagram.add(piece)
        self._buffered += datagram.buffered - before
        if not more and datagram.total is None:
            datagram.total = piece.end
        if datagram.malformed:
            self._drop(key, MALFORMED_FRAGMENT)
        elif datagram.covered == datagram.total:
            del self._datagrams[key]
            self._buffered -= datagram.buffered
            return datagram
        else:
            self._bound()
        return None

    def finish(self) -> None:
        """End of the capture: what is incomplete stays so."""
        for key in list(self._datagrams):
            self._drop(key, FRAGMENT_INCOMPLETE)

    def _expire(self, clock: int) -> None:
        oldest = clock - int(self._limits.fragment_seconds * 1e9)
        while self._datagrams:
            key, datagram = next(iter(self._datagrams.items()))
            if datagram.clock >= oldest:
                break
            self._drop(key, FRAGMENT_INCOMPLETE)

    def _bound(self) -> None:
        limits = self._limits
        while len(self._datagrams) > limits.fragmented_datagrams or self._buffered > limits.fragment_bytes:
            name = "fragment_bytes" if self._buffered > limits.fragment_bytes else "fragmented_datagrams"
            self._limits_hit[name] += 1
            self._drop(next(iter(self._datagrams)), FRAGMENT_INCOMPLETE)

    def _drop(self, key: Hashable, reason: str) -> None:
        datagram = self._datagrams.pop(key)
        self._buffered -= datagram.buffered
        self._not_decoded[reason] += datagram.packets
