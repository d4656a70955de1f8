"""Output of net/: the bytes of one direction of one TCP connection, in order, with gaps as values."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from wiredecode.arrays import Int64s
from wiredecode.dataclasses import Lazy, dataclass, field
from wiredecode.net.headers import Outer
from wiredecode.net.health import ConnectionHealth, FirstEnd
from wiredecode.net.logical_time import END

MAX_LOSSES = 4096
"""Latest losses of one direction that are remembered, besides those of the packets being processed."""
DISORDER = 64
"""Number of losses that are searched for one between two times: their times may be out of order."""


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
    end_packet: int = 0
    """Number of the packet at which it was forgotten, 0 before: its successor's SYN, the first packet after its time,
    the one that exceeded the limit of connections, or the last of the capture. It does not depend on batches."""
    ended_at: int = 0
    """Logical time at which it was forgotten (net/logical_time.py)."""
    end_reason: str = ""
    first: int = 0
    """Number of its first packet: no two connections of a capture have the same."""
    first_ns: int = 0
    """Time of that packet."""
    capture_ns: int = 0
    """Time of the first packet of the capture."""
    hosts: tuple[str | None, str | None] | None = None
    """Names of the endpoints' addresses, if they are wanted and in the capture."""
    outer: Outer | None = None
    """The tunnels that it came through."""
    health: ConnectionHealth | None = None
    """Results of TCP analysis, if wanted."""

    # Of the floors above, which read its bytes.
    waited: bool = False
    """Whether TLS decryption held its first bytes back: then their times give the order."""
    stable_id: int | None = None
    process: int | None = None
    """The process that decodes its frames, if there are several and it is known (:mod:`wiredecode.dissect.share`)."""
    client: int | None = None
    """The endpoint that is the client by its protocol, known at its end."""
    protocols: dict[str, None] = field(default_factory=dict)
    """Protocols of its frames, in the order in which they were found."""
    identity: dict[str, str] = field(default_factory=dict)
    """Identities of its endpoints, learned from frames: see :mod:`wiredecode.frames.identity`."""
    directions: tuple[Direction, Direction] = field(init=False)
    """The bytes that each endpoint sends."""

    def __post_init__(self) -> None:
        self.directions = (Direction(self, 0), Direction(self, 1))

    def part(self) -> None:
        """No event comes any more: its directions no longer refer to it, so that it is freed when the last user is."""
        for direction in self.directions:
            del direction.connection

    def __deepcopy__(self, _: object) -> Connection:
        """A copy of what refers to a connection refers to the same one."""
        return self

    @property
    def first_end(self) -> FirstEnd | None:
        """Its first FIN or RST, by TCP analysis; None: it had none, or there is no analysis."""
        return None if self.health is None else self.health.end

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
        """Tunnels of the packets of a side, outermost first; source and destination of the outermost IP header."""
        outer = self.outer
        return (None, None, None) if outer is None else (outer.tunnel, outer.ends[side], outer.ends[1 - side])

    @property
    def id(self) -> int:
        """Its id in records: its number, or its stable id if there is one."""
        return self.number if self.stable_id is None else self.stable_id


class OpenTimes(Lazy):
    """Intervals of logical time, such as those with a gap. Only the latest closed ones are kept."""

    __slots__ = ("_begins", "_ends")
    made = {"_begins": list, "_ends": list}  # noqa: RUF012 - of the class

    _begins: list[int]
    _ends: list[int]
    """Each at least the one before, so that both rise."""

    def open(self, time: int, first: int) -> None:
        """Begin an interval at ``time``, not before the last one; those that ended before ``first`` are not needed."""
        over = bisect_left(self._ends, first)
        del self._begins[:over], self._ends[:over]
        self._begins.append(time)
        self._ends.append(END)

    def close(self, time: int) -> None:
        """End the last interval at ``time``."""
        self._ends[-1] = max([time, *self._ends[-2:-1]])

    def at(self, time: int) -> bool:
        """Whether an interval is open at ``time``."""
        last = bisect_right(self._begins, time) - 1
        return last >= 0 and time < self._ends[last]


@dataclass(slots=True, eq=False)
class Direction(Lazy):
    """One of the two byte streams of a connection; ``side`` is the endpoint that sends it.

    Logical times are those of net/logical_time.py.
    """

    made = {"losses": list, "gaps": OpenTimes, "awaited": OpenTimes}  # noqa: RUF012 - of the class

    connection: Connection = field(repr=False)  # it may have parted
    side: int
    started: bool = False
    """Whether stream offset 0 is the first byte of the connection, known from a SYN."""
    started_at: int = 0
    """Logical time of the packet that showed it."""
    captured: int = 0
    """TCP payload bytes captured, with any outcome."""
    duplicate: int = 0
    """Captured bytes dropped because they had been seen before (retransmission, overlap, keep-alive)."""
    late: int = 0
    """Captured bytes that came after their gap had been given up, or are from before the start of the stream."""
    ignored: int = 0
    """Captured bytes that do not belong to the stream: far out of window, inside a reset, or overhead of TLS.

    Every captured byte is in a Chunk, duplicate, late, ignored, or (until the end) after a gap.
    """
    missing: int = 0
    """Bytes of gaps and :attr:`acked_beyond`: known to have been sent, never captured."""
    first_gap: int | None = None
    """Logical time at which the first gap was given up."""
    lost_from: int | None = None
    """Logical time from which on bytes are missing for good."""
    acked_beyond: int = 0
    """Bytes after the last captured one that the other side acknowledged before the connection was over."""
    losses: list[tuple[int, int, int, int]] = field(init=False)
    """Gaps: logical time at which each was given up, rising; time, ns, of the first packet that shows that the bytes
    were sent; stream offset; the latest of these times until then. Only the newest are remembered ..."""
    earlier_losses: int = 0
    """... and this number of older ones is not."""
    gaps: OpenTimes = field(init=False)
    """When a gap was open."""
    awaited: OpenTimes = field(init=False)
    """When bytes were missing that the other side had acknowledged already."""

    # Of dissection: the framer, the accounts, and the pairing of requests.
    first_ns: int | None = None
    """Time of the first byte that was framed."""
    first_at: int = 0
    """Logical time of that byte; 0: none yet."""
    frames: int = 0
    """Number of its frames until now."""
    unlinked_ns: int = -1
    """Time of its last response whose request is unknown."""

    @property
    def lossy(self) -> bool:
        """Whether bytes were lost; at the end of a connection only acknowledgments show it."""
        return bool(self.missing) or self.lost_from is not None

    def incomplete(self, time: int) -> bool:
        """Whether bytes sent before logical ``time`` are missing, for good or until then; also of a late start.

        The answer does not depend on what is captured later.
        """
        if not self.started or self.started_at > time or self.lost_before(time):
            return True
        return self.gaps.at(time) or self.awaited.at(time)

    def lost_before(self, time: int) -> bool:
        """Whether bytes sent before logical ``time`` are missing for good, but for those of a late start."""
        return self.lost_from is not None and self.lost_from <= time

    def lose(self, time: int, offset: int, time_ns: int | None = None, given_up: int = 0, first: int = 0) -> None:
        """Note lost bytes that were sent before logical ``time`` and ``time_ns`` (None: truncated by the snapshot).

        ``first``: logical time of the packets being processed: of the losses known before, the last ones are kept.
        """
        self.lost_from = time if self.lost_from is None else min(self.lost_from, time)
        if time_ns is None:
            return
        losses = self.losses
        if len(losses) > MAX_LOSSES and (known := bisect_left(losses, (first,))) > MAX_LOSSES:
            del losses[: known - MAX_LOSSES]
            self.earlier_losses += known - MAX_LOSSES
        last, _, _, latest_ns = losses[-1] if losses else (0, 0, 0, time_ns)
        losses.append((max(time, given_up, last), time_ns, offset, max(time_ns, latest_ns)))

    def lost_between(self, start_ns: int, stop_ns: int, known_at: int) -> bool:
        """Whether bytes were lost between two times, as far as is known at a logical time."""
        begin = bisect_left(self.losses, start_ns, key=itemgetter(3))
        end = bisect_right(self.losses, known_at, begin, key=itemgetter(0))
        return any(start_ns <= shown <= stop_ns for _, shown, *_ in self.losses[begin : min(end, begin + DISORDER)])


@dataclass(slots=True, eq=False)
class Chunk:
    """The next contiguous bytes of a direction, and for every byte the packet that carried it.

    A piece is the part that one packet carried: piece k ends (exclusive) at stream offset ``ends[k]`` and came in
    packet ``packet[k]`` at ``time_ns[k]``. It waits if bytes before it are missing: ``ready[k]`` is the logical time
    (net/logical_time.py) at which that gap was filled or given up; it never decreases along a stream. ``ready_ns[k]``
    is when TCP could deliver the piece: the time of the packet that filled the gap, or of its own packet if the gap was
    given up. ``offset + len(data) == ends[-1]``. Offsets count from the first byte after the SYN, or the first byte
    captured, and include gaps.
    """

    direction: Direction
    """The stream that it is part of."""
    offset: int
    """Stream offset of its first byte."""
    data: bytes
    ends: Int64s
    """Stream offset at which each piece ends (exclusive)."""
    packet: Int64s
    """Number of the packet that carried each piece."""
    time_ns: Int64s
    """Time of that packet."""
    ready: Int64s
    """Logical time at which each piece was available in order."""
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
    """Logical time at which the gap was given up: its place between chunks."""
    ready_ns: int
    """Time of the bytes after it."""


@dataclass(slots=True, eq=False)
class End:
    """The sender closed its side at stream ``offset``. A Note reports later bytes."""

    direction: Direction
    offset: int
    how: str
    """``"FIN"`` or ``"RST"``."""
    ready: int
    """Logical time of the packet that showed it, or at which missing bytes before it were given up."""
    ready_ns: int
    """Time of that packet."""
    beyond: int = 0
    """Bytes after ``offset`` that were sent but not captured, by the sequence number of the reset."""


@dataclass(slots=True, eq=False)
class Note:
    """An observation of reassembly at stream ``offset``, known at logical time ``ready``.

    It becomes a Finding of the first frame of the direction that is ready then or later, because the frame at
    ``offset`` may be written already.
    """

    direction: Direction
    offset: int
    ready: int
    code: str
    """``"overlap-differs"``, ``"late-data"``, ``"limit-reached"``, ``"data-after-reset"`` ..."""
    message: str


Event = Chunk | Gap | End | Note
"""Events of reassembly, per direction in stream order."""
