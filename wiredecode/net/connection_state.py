"""State of one TCP connection: its two streams, and the order between them.

Capture queues reorder packets of the two directions. The acknowledgment number (RFC 9293 section 3.4) shows which bytes
the sender had received: they precede the segment. A segment that acknowledges bytes not yet captured is held until they
are, or for `Limits.gap_seconds`.
"""

from collections import OrderedDict
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.net.analysis import ConnectionAnalysis
from wiredecode.net.limits import SILENT_NS
from wiredecode.net.logical_time import Clock, WaitEnds, packet_of
from wiredecode.net.reassembly import Reassembler, ReassemblyContext
from wiredecode.net.reorder import AckHistory, Arrival, Origin, ending
from wiredecode.net.segments import ACK, FIN, MASK, RST, FlowKey, advance, distance
from wiredecode.net.types import Connection, Event

BOTH = 3
"""Both sides, as bits of `ConnectionState.closed_sides`."""
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

    def __lt__(self, other: "HeldSegment") -> bool:
        return (self.awaited, self.order) < (other.awaited, other.order)


@dataclass(slots=True, eq=False)
class ConnectionState:
    """A connection, its two streams, and the flow of side 0."""

    connection: Connection
    streams: tuple[Reassembler, Reassembler]
    key: FlowKey
    clock: Clock
    """The connection clock: advances with its own packets. It may be ahead of the packet being processed."""
    shared: ReassemblyContext
    analysis: ConnectionAnalysis | None = None
    """TCP analysis, where it is wanted."""
    hold: "AckHold | None" = None
    wait_ends: WaitEnds = field(default_factory=WaitEnds)
    acks: list[int] = field(default_factory=lambda: [-1, -1])
    """The last acknowledgment number of each side; -1: none was seen."""
    closed_sides: int = 0
    """Sides that sent FIN, as bits; `BOTH`: the connection is closed or reset."""
    last_ns: int = 0
    """The connection clock at its last packet; within a batch at least at the first one."""
    last_capture_ns: int = 0
    """The capture clock at that packet."""

    def deliver(self, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
        """Pass a segment to its stream."""
        stream = self.streams[side]
        seq, ack, flags, data, length = segment
        if flags & RST:
            # RFC 9293 section 3.5.3: data in a reset explains its cause, it is not part of the stream.
            if data:
                stream.ignore(len(data), origin, "reset-cause", "data inside a reset", out)
            stream.reset(seq, origin, out)
            if flags & ACK:
                self.streams[1 - side].reset_ack = ack
            return
        if length:
            stream.segment(seq, data, length, origin, out)
        if flags & FIN:
            stream.fin((seq + length) & MASK, origin, out)

    def arrive(self, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
        """Deliver a segment, or hold it; segments of both sides must come in packet order.

        Afterwards the caller flushes its stream, and the other one if there is a `hold`.
        """
        if segment.flags & (FIN | RST):
            self.note_end(side, segment.flags)
        self.expire(origin.clock, packet_of(origin.ready), out)
        hold, stream, peer = self.hold, self.streams[side], self.streams[1 - side]
        awaited = _awaited_position(peer, segment)
        if hold is not None and hold.held and segment.flags & (FIN | RST):
            awaited = max(awaited, hold.last_awaited(side))  # an end stays after the data it follows
        if awaited > (peer.reach if hold is None else hold.reach(1 - side)):
            if hold is None:
                hold = self.hold = AckHold(self)
            hold.add(awaited, side, segment, origin, out)
            return
        self.deliver(side, segment, origin, out)
        if hold is not None and hold.held:
            hold.release(origin, out)
        if stream.has_gap:  # its ACK may have been captured long before
            self.expire(origin.clock, packet_of(origin.ready) + 1, out, past=True)

    def note_end(self, side: int, flags: int) -> None:
        """``side`` sent a FIN or RST."""
        if flags & RST:
            self.closed_sides = BOTH
            self.connection.closed = "RST"
        else:
            self.closed_sides |= 1 << side
            self.connection.closed = self.connection.closed or "FIN"

    @property
    def waits(self) -> bool:
        """Whether a segment waits for a gap to be filled, or for the other direction."""
        return any(stream.has_gap for stream in self.streams) or (self.hold is not None and self.hold.held > 0)

    def clock_at(self, capture_ns: int) -> int:
        """The connection clock when the capture clock is at ``capture_ns``, after its last packet."""
        return self.last_ns + capture_ns - self.last_capture_ns

    def end_of_wait(self, due: int, number: int, past: bool = False) -> Origin:
        """The end of a wait that expires before packet ``number``, when the connection clock is at ``due``.

        The next packet of the connection ends the wait, or one of another connection that is `SILENT_NS` later than
        ``due``. ``past``: the wait had expired when it began.
        """
        due = max(due, self.wait_ends.clock)  # one end can cause another
        if not past:
            number = min(number, self.shared.number_after(self.last_capture_ns + due - self.last_ns + SILENT_NS))
        return ending(self.wait_ends.after(due, number), due)

    def expire(self, clock: float, number: int, out: list[Event], past: bool = False) -> None:
        """End the waits that expire before the connection clock is at ``clock``, ns, and before packet ``number``.

        The earliest first, as one end can cause another. ``past``: see `end_of_wait`.
        """
        if not self.shared.with_gap:
            return
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
        """End the oldest wait of ``holder``, a stream or the ACK hold, because of ``cause``."""
        holder.give_up(cause, out)
        if self.hold is not None:
            self.hold.release(cause, out)
        for stream in self.streams:
            stream.flush(out)

    def finish(self, cause: Origin, out: list[Event]) -> None:
        """End of the connection: end every wait, first those with a known deadline."""
        if self.shared.with_gap:
            self.expire(inf, self.shared.until, out)
        for stream in self.streams:
            stream.finish(cause, out)


Owner = tuple[ConnectionState, int]
"""A connection, and one of its sides."""


def _awaited_position(peer: Reassembler, segment: Segment) -> int:
    """Position in the ``peer`` stream up to which a segment acknowledges; 0 if it need not wait.

    A reset need not wait: its acknowledgment number can be arbitrary.
    """
    if segment.flags & (ACK | RST) != ACK or peer.base is None or not peer.has_sent:
        return 0
    ahead = distance(advance(peer.base, peer.offset), segment.ack)
    return peer.offset + ahead if 0 < ahead <= peer.limits.window_bytes else 0


class AckHold:
    """Segments of both sides of a connection that wait for the bytes they acknowledge."""

    __slots__ = ("_arrivals", "_awaiting", "_furthest", "_heaps", "_order", "_state", "held", "streams")

    def __init__(self, state: ConnectionState) -> None:
        self.held = 0
        """Segments that wait."""
        self._awaiting = [0, 0]  # those that wait for bytes of each side
        self._state, self.streams = state, state.streams
        self._arrivals: OrderedDict[HeldSegment, None] = OrderedDict()  # those that wait, in packet order
        self._heaps: tuple[list[HeldSegment], list[HeldSegment]] = ([], [])  # by side and position waited for
        self._furthest = [0, 0]  # by side: the last of these positions
        self._order = 0

    def reach(self, side: int) -> int:
        """Position before which the stream of ``side`` is complete, or missing bytes are no longer awaited."""
        stream = self.streams[side]
        return max(stream.reach, stream.given_up)

    def oldest(self) -> Arrival | None:
        """The segment that has waited longest."""
        first = next(iter(self._arrivals), None)
        return None if first is None else Arrival(first.awaited, first.origin)

    def last_awaited(self, side: int) -> int:
        """The furthest position that segments of ``side`` wait for."""
        return self._furthest[side] if self._awaiting[1 - side] else 0

    def add(self, awaited: int, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
        """Hold a segment; over the limits of its direction, release those that wait for the fewest bytes."""
        stream, peer = self.streams[side], self.streams[1 - side]
        each = HeldSegment(awaited, self._order, side, segment, origin)
        self._order += 1
        self._furthest[side] = max(self.last_awaited(side), awaited)
        self._arrivals[each] = None
        heappush(self._heaps[side], each)
        stream.hold(len(segment.data))
        peer.ack_history = peer.ack_history or AckHistory()
        peer.ack_history.add(awaited, origin.ready_ns, peer.offset)
        if not self._awaiting[1 - side]:
            peer.direction.awaited.open(origin.at, self._state.shared.first)
        self._awaiting[1 - side] += 1
        self.held += 1
        while stream.held_segments and (name := stream.over_budget()) is not None:
            stream.limit_reached(name, origin, out, NO_LONGER)
            self._deliver_without(self._heaps[side][0], ending(origin.at, origin.clock), out)

    def release(self, cause: Origin, out: list[Event]) -> None:
        """Deliver the segments whose acknowledged bytes are there because of ``cause``."""
        while self.held:
            for side, heap in enumerate(self._heaps):
                if heap and heap[0].awaited <= self.reach(1 - side):
                    self._deliver(heap[0], cause, out)
                    break
            else:
                return

    def limit_reached(self, name: str, origin: Origin, out: list[Event]) -> None:
        """Note that the oldest segment no longer waits because limit ``name`` was reached."""
        self.streams[next(iter(self._arrivals)).side].limit_reached(name, origin, out, NO_LONGER)

    def give_up(self, cause: Origin, out: list[Event]) -> None:
        """Deliver the oldest segment without the bytes that it acknowledges, because of ``cause``."""
        self._deliver_without(next(iter(self._arrivals)), cause, out)

    def _deliver_without(self, each: HeldSegment, cause: Origin, out: list[Event]) -> None:
        peer = 1 - each.side
        stream = self.streams[peer]
        stream.given_up = max(stream.given_up, each.awaited)
        stream.direction.lose(each.origin.at, stream.offset, each.origin.ready_ns, cause.at, self._state.shared.first)
        self._deliver(each, cause, out)
        self.release(cause, out)

    def _deliver(self, each: HeldSegment, cause: Origin, out: list[Event]) -> None:
        """Deliver a segment: it is ready when ``cause`` and the acknowledged bytes of the other stream are."""
        stream, peer = self.streams[each.side], self.streams[1 - each.side]
        del self._arrivals[each]
        self.held -= 1
        stream.release_held(len(each.segment.data))
        peer.flush(out)  # acknowledged bytes come first, also if both are ready with the same packet
        origin = peer.origin_after(each.origin, cause, each.awaited)
        self._awaiting[1 - each.side] -= 1
        heap = self._heaps[each.side]
        while heap and heap[0] not in self._arrivals:
            heappop(heap)
        if not self._awaiting[1 - each.side]:
            peer.direction.awaited.close(origin.at)
        self._state.deliver(each.side, each.segment, origin, out)
