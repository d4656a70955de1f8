"""Order of both directions: a segment waits for the bytes of the other side that its ACK covers.

Capture queues reorder packets of the two directions. The acknowledgment number (RFC 9293 section 3.4) shows how much
the sender had received, in any order of the file: such bytes precede the segment. A segment that
acknowledges bytes not yet captured is kept aside, as if it had not arrived, until they are there; or, when they
were never captured, for `Limits.gap_seconds`.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from wiredecode.net.analysis import ConnectionAnalysis
from wiredecode.net.limits import SILENT_NS
from wiredecode.net.moments import Clock, WaitEnds, at_packet, place
from wiredecode.net.reassembly import Reassembler, ReassemblyContext
from wiredecode.net.reorder import AckHistory, Arrival, Origin, ending
from wiredecode.net.segments import ACK, FIN, MASK, RST, FlowKey, advance, distance
from wiredecode.net.types import Connection, Event

BOTH = 3
"""Both sides, as bits of `Tracked.ends`."""
NO_LONGER = "acknowledged bytes no longer waited for"


class Segment(NamedTuple):
    """A TCP segment; ``seq`` is the number of its first payload byte, ``length`` that of the wire."""

    seq: int
    ack: int
    flags: int
    data: bytes
    length: int


@dataclass(slots=True, eq=False)
class HeldSegment:
    """A segment of ``side`` that waits until the other stream has reached position ``awaited``."""

    awaited: int
    order: int
    side: int
    segment: Segment
    origin: Origin
    delivered: bool = False

    def __lt__(self, other: "HeldSegment") -> bool:
        return (self.awaited, self.order) < (other.awaited, other.order)


@dataclass(slots=True, eq=False)
class Tracked:
    """A connection, its two streams, and the flow of side 0."""

    connection: Connection
    streams: tuple[Reassembler, Reassembler]
    key: FlowKey
    clock: Clock
    """Advances with its own packets; it is after those being processed."""
    shared: ReassemblyContext
    analysis: ConnectionAnalysis | None = None
    """TCP analysis, where it is wanted."""
    hold: "AckHold | None" = None
    moments: WaitEnds = field(default_factory=WaitEnds)
    acks: list[int] = field(default_factory=lambda: [-1, -1])
    """The last acknowledgment number of each side; -1: none was seen."""
    ends: int = 0
    """Sides that have ended, as bits; `BOTH`: the connection is closed."""
    last: int = 0
    """Its own clock at its last packet, ns; within a batch at least at the first one."""
    seen: int = 0
    """That of the capture."""

    def note_end(self, side: int, flags: int) -> None:
        """``side`` sent a FIN or RST."""
        if flags & RST:
            self.ends = BOTH
            self.connection.closed = "RST"
        else:
            self.ends |= 1 << side
            self.connection.closed = self.connection.closed or "FIN"

    @property
    def waits(self) -> bool:
        """Whether a segment waits for a gap to be filled, or for the other direction."""
        return any(stream.has_gap for stream in self.streams) or (self.hold is not None and self.hold.held > 0)

    def now(self, clock: int) -> int:
        """Its own time when it is ``clock`` for the capture, after its last packet."""
        return self.last + clock - self.seen

    def end_of_wait(self, due: int, number: int, past: bool = False) -> Origin:
        """The end at its own time ``due`` of a wait that is over before packet ``number``.

        Its first packet after that time shows it, or an earlier one of another connection, so much later that none is
        expected any more. ``past``: the wait began after its time.
        """
        last, seen = self.last, self.seen
        due = max(due, self.moments.clock)  # an end that another one brings
        if not past:
            number = min(number, self.shared.number_after(seen + due - last + SILENT_NS))
        return ending(self.moments.after(due, number), due)

    def expire(self, clock: float, number: int, out: list[Event], past: bool = False) -> None:
        """End what has waited long enough at its own time ``clock``, ns, before packet ``number``; see `end_of_wait`.

        In order of time, for one end may bring another.
        """
        hold, (first, second) = self.hold, self.streams
        while True:
            due: float = clock
            chosen: Reassembler | AckHold | None = None
            for stream in (first, second):
                if stream.may_expire(due) and (deadline := stream.deadline()) is not None and deadline < due:
                    due, chosen = deadline, stream
            oldest = hold.oldest() if hold is not None and hold.held else None
            if oldest is not None and oldest.origin.clock + first.gap_ns < due:
                due, chosen = oldest.origin.clock + first.gap_ns, hold
            if chosen is None:
                return
            self.give_up(chosen, self.end_of_wait(int(due), number, past), out)

    def give_up(self, holder: "Reassembler | AckHold", cause: Origin, out: list[Event]) -> None:
        """End what has waited longest in ``holder``, one of its streams or its hold, at ``cause``."""
        holder.give_up(cause, out)
        if self.hold is not None:
            self.hold.release(cause, out)
        for stream in self.streams:
            stream.flush(out)

    def finish(self, cause: Origin, out: list[Event]) -> None:
        """Nothing more will come after ``cause``: end every wait, those first whose time is known."""
        self.expire(inf, self.shared.until, out)
        for stream in self.streams:
            stream.finish(cause, out)


def deliver(tracked: Tracked, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
    """Put any segment into its stream."""
    stream = tracked.streams[side]
    seq, _, flags, data, length = segment
    if flags & RST:
        # RFC 9293 section 3.5.3: data in a reset explains its cause, it is not part of the stream.
        if data:
            stream.ignore(len(data), origin, "reset-cause", "data inside a reset", out)
        stream.reset(seq, origin, out)
        return
    if length:
        stream.segment(seq, data, length, origin, out)
    if flags & FIN:
        stream.fin((seq + length) & MASK, origin, out)


def arrive(tracked: Tracked, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
    """Take a segment, or let it wait; segments of both sides must come in packet order.

    Its stream, and the other one if `Tracked.hold`, may have something to `Reassembler.flush` afterwards.
    """
    if segment.flags & (FIN | RST):
        tracked.note_end(side, segment.flags)
    tracked.expire(origin.clock, place(origin.ready), out)
    hold, stream, other = tracked.hold, tracked.streams[side], tracked.streams[1 - side]
    awaited = _awaited(other, segment)
    if hold is not None and hold.held and segment.flags & (FIN | RST):
        awaited = max(awaited, hold.last_awaited(side))  # an end stays after the data it follows
    if awaited > (other.reach if hold is None else hold.reach(1 - side)):
        if hold is None:
            hold = tracked.hold = AckHold(tracked)
        hold.add(awaited, side, segment, origin, out)
        return
    deliver(tracked, side, segment, origin, out)
    if hold is not None and hold.held:
        hold.release(origin, out)
    if stream.has_gap:  # which may have been acknowledged for long
        tracked.expire(origin.clock, place(origin.ready) + 1, out, past=True)


def _awaited(other: Reassembler, segment: Segment) -> int:
    """The position in the ``other`` stream that a segment waits for; 0 when it does not wait.

    A reset never waits for its own sake: its acknowledgment number need not mean anything.
    """
    if segment.flags & (ACK | RST) != ACK or other.base is None or not other.has_sent:
        return 0
    ahead = distance(advance(other.base, other.offset), segment.ack)
    return other.offset + ahead if 0 < ahead <= other.limits.window_bytes else 0


class AckHold:
    """The segments of one connection, of both sides, that wait for the bytes that they acknowledge."""

    __slots__ = ("_arrivals", "_awaiting", "_heaps", "_order", "_tracked", "held", "streams")

    def __init__(self, tracked: Tracked) -> None:
        self.held = 0
        """Segments that wait."""
        self._awaiting = [0, 0]  # those that wait for bytes of each side
        self._tracked, self.streams = tracked, tracked.streams
        self._arrivals: deque[HeldSegment] = deque()  # in packet order
        self._heaps: tuple[list[HeldSegment], list[HeldSegment]] = ([], [])  # by position waited for
        self._order = 0

    def reach(self, side: int) -> int:
        """Position before which the stream of ``side`` is complete, or no longer waits for missing bytes."""
        stream = self.streams[side]
        return max(stream.reach, stream.missed)

    def oldest(self) -> Arrival | None:
        """The segment that has waited longest."""
        arrivals = self._arrivals
        while arrivals and arrivals[0].delivered:
            arrivals.popleft()
        return Arrival(arrivals[0].awaited, arrivals[0].origin) if arrivals else None

    def last_awaited(self, side: int) -> int:
        """The furthest position that segments of ``side`` wait for."""
        return max((each.awaited for each in self._heaps[side] if not each.delivered), default=0)

    def add(self, awaited: int, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
        """Keep a segment aside, within the budgets of its direction."""
        stream, other = self.streams[side], self.streams[1 - side]
        each = HeldSegment(awaited, self._order, side, segment, origin)
        self._order += 1
        self._arrivals.append(each)
        heappush(self._heaps[side], each)
        stream.hold(len(segment.data))
        other.ack_history = other.ack_history or AckHistory()
        other.ack_history.add(awaited, origin.ready_ns, other.offset)
        if not self._awaiting[1 - side]:
            other.direction.awaited.open(origin.at, at_packet(int(self._tracked.shared.number[0])))
        self._awaiting[1 - side] += 1
        self.held += 1
        while stream.held_segments and (name := stream.over_budget()) is not None:
            first = next(each for each in self._arrivals if each.side == side and not each.delivered)
            stream.limit_reached(name, origin, out, NO_LONGER)
            self._miss(first, ending(origin.at, origin.clock), out)

    def release(self, cause: Origin, out: list[Event]) -> None:
        """Deliver the segments whose acknowledged bytes the other stream has since ``cause``."""
        while self.held:
            for side, heap in enumerate(self._heaps):
                while heap and heap[0].delivered:
                    heappop(heap)
                if heap and heap[0].awaited <= self.reach(1 - side):
                    self._deliver(heappop(heap), cause, out)
                    break
            else:
                return

    def limit_reached(self, name: str, origin: Origin, out: list[Event]) -> None:
        """Note that the oldest segment no longer waits because limit ``name`` was reached."""
        self.streams[self._arrivals[0].side].limit_reached(name, origin, out, NO_LONGER)

    def give_up(self, cause: Origin, out: list[Event]) -> None:
        """Release the segment that has waited longest, at the moment of ``cause``."""
        self._miss(self._arrivals[0], cause, out)

    def _miss(self, each: HeldSegment, cause: Origin, out: list[Event]) -> None:
        other = 1 - each.side
        stream = self.streams[other]
        stream.missed = max(stream.missed, each.awaited)
        stream.direction.lose(each.origin.at, stream.offset, each.origin.ready_ns, cause.at)
        self._deliver(each, cause, out)
        self.release(cause, out)

    def _deliver(self, each: HeldSegment, cause: Origin, out: list[Event]) -> None:
        """Put a segment into its stream: ready when ``cause`` and the acknowledged bytes of the other stream are."""
        stream, other = self.streams[each.side], self.streams[1 - each.side]
        each.delivered = True
        self.held -= 1
        stream.unhold(len(each.segment.data))
        other.flush(out)  # what is ready with the same packet comes after what it acknowledges
        origin = other.follow(each.origin, cause, each.awaited)
        self._awaiting[1 - each.side] -= 1
        if not self._awaiting[1 - each.side]:
            other.direction.awaited.close(origin.at)
        deliver(self._tracked, each.side, each.segment, origin, out)
