"""Output of net/: the bytes of one direction of one TCP connection, in order, with gaps as values."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter

from wiredecode.arrays import Int64s
from wiredecode.net.headers import Outer
from wiredecode.net.health import ConnectionHealth

MOST_LOSSES = 4096
"""Losses of one direction whose packets are remembered."""
LAST_LOSSES = 64
"""Latest losses that are searched for one between two times."""


@dataclass(slots=True, eq=False)
class Connection:
    """One TCP connection: one incarnation of a 4-tuple, from its SYN (or first packet) to the next SYN."""

    number: int
    """1, 2, 3 ... in order of first packet."""
    endpoints: tuple[str, str]
    """``address:port`` (IPv6 in brackets); index 0 sent the first packet that was seen."""
    ports: tuple[int, int]
    """TCP ports of the endpoints."""
    initiator: int | None = None
    """The endpoint that opened it (0 or 1), known from a SYN or SYN/ACK; None if neither was seen."""
    closed: str | None = None
    """``"FIN"`` or ``"RST"`` once seen."""
    ended: int = 0
    """Number of the packet at which it was forgotten, 0 before: of its successor's SYN, of the first packet after
    its time was over, of the one that made it one too many, or of the last of the capture. It does not depend on
    how the capture was cut into batches."""
    over: int = 0
    """The moment at which it was forgotten (see moments.py)."""
    end: str = ""
    """Reason of its end, for people."""
    first: int = 0
    """Number of its first packet: no two connections of a capture have the same."""
    first_ns: int = 0
    """Time of that packet."""
    stable_id: int | None = None
    """Its stable id, where such are wanted."""
    hosts: tuple[str | None, str | None] | None = None
    """Names of the endpoints' addresses, if they are wanted and in the capture."""
    outer: Outer | None = None
    """The tunnels that it came through."""
    waited: bool = False
    """Its first bytes waited until its protocol was known: their times give the order."""
    health: ConnectionHealth | None = None
    """Results of TCP analysis, if wanted."""
    client: int | None = None
    """The endpoint that is the client, as its protocol shows when it is over."""
    protocols: dict[str, None] = field(default_factory=dict)
    """Protocols of its frames, in the order in which they were found."""
    identity: dict[str, str] = field(default_factory=dict)
    """Identities of its endpoints, learned from frames: see :mod:`wiredecode.frames.identity`."""
    directions: tuple[Direction, Direction] = field(init=False)
    """The bytes that each endpoint sends."""

    def __post_init__(self) -> None:
        self.directions = (Direction(self, 0), Direction(self, 1))

    def __deepcopy__(self, _: object) -> Connection:
        """A copy of what refers to a connection refers to the same one."""
        return self

    @property
    def named_endpoints(self) -> tuple[str, str]:
        """The endpoints, with host names in place of addresses if the capture has them."""
        if self.hosts is None:
            return self.endpoints
        first, second = (
            end if name is None else f"{name}:{port}"
            for end, name, port in zip(self.endpoints, self.hosts, self.ports, strict=True)
        )
        return first, second

    def tunnel_columns(self, side: int) -> tuple[str | None, str | None, str | None]:
        """Of the packets of a side: tunnels from the outside in, then both ends of the outermost IP header."""
        outer = self.outer
        return (None, None, None) if outer is None else (outer.tunnel, outer.ends[side], outer.ends[1 - side])

    @property
    def id(self) -> int:
        """Its id in records: its number, or its stable id."""
        return self.number if self.stable_id is None else self.stable_id


class OpenTimes:
    """Intervals between two moments, such as those of gaps. Of the closed ones only the latest are kept."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: list[tuple[int, int]] = []  # closed at 0: it still is

    def open(self, moment: int, first: int) -> None:
        """It opens at ``moment``; moments before ``first`` are no longer needed."""
        if self._times and self._times[0][1] < first:
            self._times = [each for each in self._times if each[1] >= first]
        self._times.append((moment, 0))

    def close(self, moment: int) -> None:
        """The last opened interval is closed at ``moment``."""
        self._times[-1] = self._times[-1][0], moment

    def at(self, moment: int) -> bool:
        """Whether it is open at ``moment``."""
        return any(opened <= moment and not 0 < closed <= moment for opened, closed in self._times)


@dataclass(slots=True, eq=False)
class Direction:
    """One of the two byte streams of a connection; ``side`` is the endpoint that sends it."""

    connection: Connection
    side: int
    frames: int = 0
    """Number of its frames until now."""
    started: bool = False
    """Whether stream offset 0 is the first byte of the connection, known from a SYN."""
    started_at: int = 0
    """The moment of the packet that showed it (see moments.py)."""
    captured: int = 0
    """TCP payload bytes captured, with any outcome."""
    duplicate: int = 0
    """Captured bytes dropped because they had been seen before (retransmission, overlap, keep-alive)."""
    late: int = 0
    """Captured bytes that came after their gap had been given up, or lie before the start of the stream."""
    ignored: int = 0
    """Captured bytes that are no part of the stream: far out of window, inside a reset, or overhead of TLS.

    Every captured byte is in a Chunk, duplicate, late, ignored, or (until the end) after a gap.
    """
    missing: int = 0
    """Bytes of gaps: known to have been sent, never captured."""
    first_ns: int | None = None
    """Time of the first byte that was passed on, and ..."""
    first_at: int = 0
    """... the moment at which it was; 0: none was yet."""
    first_gap: int | None = None
    """The moment at which a gap was given up first."""
    lost_from: int | None = None
    """The moment from which on bytes are missing for good."""
    acked_beyond: int = 0
    """Bytes after the last captured one that the other side acknowledged before the connection was over."""
    unlinked_ns: int = -1
    """Time of its last answer whose request is unknown."""
    losses: list[tuple[int, int, int]] = field(default_factory=list)
    """Of bytes that were not captured: the moment at which they were given up, rising, the time from which on it shows
    that they were sent, and their stream offset. Of very many the first."""
    gaps: OpenTimes = field(default_factory=lambda: OpenTimes())
    """When bytes were missing that other bytes of it waited for."""
    awaited: OpenTimes = field(default_factory=lambda: OpenTimes())
    """When bytes were missing that the other side had acknowledged."""

    @property
    def lossy(self) -> bool:
        """Whether bytes were lost; at the end of a connection only acknowledgments show it."""
        return bool(self.missing) or self.lost_from is not None

    def incomplete(self, moment: int) -> bool:
        """Whether bytes that are missing here, for good or up to now, were sent before ``moment`` as far as is known.

        So is a direction whose first bytes were not captured. It does not depend on what was read after that moment.
        """
        if not self.started or self.started_at > moment or (self.lost_from is not None and self.lost_from <= moment):
            return True
        return self.gaps.at(moment) or self.awaited.at(moment)

    def lose(self, moment: int, offset: int, time_ns: int | None = None, given_up: int = 0) -> None:
        """Bytes are lost, which were sent before ``moment`` and ``time_ns`` (None: they were cut)."""
        self.lost_from = moment if self.lost_from is None else min(self.lost_from, moment)
        if time_ns is not None and len(self.losses) < MOST_LOSSES:
            last = self.losses[-1][0] if self.losses else 0
            self.losses.append((max(moment, given_up, last), time_ns, offset))

    def lost_between(self, start_ns: int, stop_ns: int, moment: int) -> bool:
        """Whether lost bytes show between two times, as is known at ``moment``; of very many losses the last."""
        known = bisect_right(self.losses, moment, key=itemgetter(0))
        return any(start_ns <= shown <= stop_ns for _, shown, _ in self.losses[max(0, known - LAST_LOSSES) : known])


@dataclass(slots=True, eq=False)
class Chunk:
    """The next contiguous bytes of a direction, and for every byte the packet that carried it.

    Piece k of the chunk ends (exclusive) at stream offset ``ends[k]`` and came in packet ``packet[k]`` at
    ``time_ns[k]``. ``ready[k]`` is the moment (see moments.py) that made the piece available in order: later than
    packet ``packet[k]`` when it waited for a gap to be filled, or until that was given up. It never decreases along a
    stream. ``ready_ns[k]`` is when TCP could deliver it: the time of the packet that filled the gap; bytes
    after a gap that was given up have the time of their own packets, as TCP did not wait for them.
    ``offset + len(data) == ends[-1]``. Offsets count from the first byte after the SYN, or the first byte
    seen; a Gap takes its length.
    """

    direction: Direction
    """The stream that it is part of."""
    offset: int
    """Stream offset of its first byte."""
    data: bytes
    """The bytes."""
    ends: Int64s
    """Stream offset at which each piece ends (exclusive)."""
    packet: Int64s
    """Number of the packet that carried each piece."""
    time_ns: Int64s
    """Time of that packet."""
    ready: Int64s
    """The moment that made each piece available in order."""
    ready_ns: Int64s
    """When TCP could deliver it to the application."""


@dataclass(slots=True, eq=False)
class Gap:
    """``length`` missing bytes at stream ``offset``: not captured, or truncated."""

    direction: Direction
    """The stream in which bytes are missing."""
    offset: int
    """Stream offset of the first missing byte."""
    length: int
    """Number of missing bytes."""
    reason: str
    """``"not captured"`` or ``"cut by snapshot length"``."""
    ready: int
    """The moment at which the gap was given up; orders the gap between chunks."""
    ready_ns: int
    """Time of the bytes after it."""


@dataclass(slots=True, eq=False)
class End:
    """The sender closed its side: no more bytes should come after stream ``offset``. If some do, they are reported."""

    direction: Direction
    offset: int
    how: str
    """``"FIN"`` or ``"RST"``."""
    ready: int
    """The moment of the packet that showed it, or at which earlier missing bytes were given up."""
    ready_ns: int
    """Time of that packet."""
    beyond: int = 0
    """Bytes from ``offset`` on that were sent all the same, by the sequence number of the reset."""


@dataclass(slots=True, eq=False)
class Note:
    """An observation of reassembly at stream ``offset``; ``ready`` is the moment that made it known.

    It becomes a Finding of the first frame of the direction that is ready then or later: the frame at ``offset`` may
    be written already, and which frame comes next does not depend on batches.
    """

    direction: Direction
    offset: int
    ready: int
    code: str
    """``"overlap-differs"``, ``"late-data"``, ``"limit-reached"``, ``"data-after-reset"`` ..."""
    message: str


Event = Chunk | Gap | End | Note
"""Events of reassembly, per direction in stream order."""
