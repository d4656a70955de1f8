"""What was acknowledged came first: a segment waits for the bytes of the other side that its ACK covers.

Capture queues reorder packets of the two directions. The acknowledgment number (RFC 9293 section 3.4) tells what
the sender had received, whatever the order in the file: such bytes precede the segment. A segment that
acknowledges bytes not yet captured is kept aside, as if it had not arrived, until they are there; or, when they
were never captured, for `Limits.hole_seconds`.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from wiredecode.net.acks import Shared, Shown, moment
from wiredecode.net.backlog import Arrival, Origin
from wiredecode.net.reassembly import Reassembler
from wiredecode.net.segments import ACK, FIN, RST
from wiredecode.net.serial import MASK, advance, distance
from wiredecode.net.types import Connection, Event

if TYPE_CHECKING:
    from wiredecode.net.connections import Tracked

NO_LONGER = "acknowledged bytes no longer waited for"


class Segment(NamedTuple):
    """A TCP segment; ``seq`` is the number of its first payload byte, ``length`` that of the wire."""

    seq: int
    ack: int
    flags: int
    data: bytes
    length: int


class Delayed:
    """A segment of ``side`` that waits until the other stream has reached position ``awaited``."""

    __slots__ = ("awaited", "delivered", "order", "origin", "segment", "side")

    def __init__(self, awaited: int, order: int, side: int, segment: Segment, origin: Origin) -> None:
        self.awaited = awaited
        self.order = order
        self.side = side
        self.segment = segment
        self.origin = origin
        self.delivered = False

    def __lt__(self, other: Delayed) -> bool:
        return (self.awaited, self.order) < (other.awaited, other.order)


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

    Its stream, and the other one if `Tracked.waiting`, may have something to `Reassembler.flush` afterwards.
    """
    if segment.flags & (FIN | RST):
        tracked.note_end(side, segment.flags)
    expire(tracked, origin.clock, out)
    waiting, other = tracked.waiting, tracked.streams[1 - side]
    awaited = _awaited(other, segment)
    if waiting is not None and waiting.delayed and segment.flags & (FIN | RST):
        awaited = max(awaited, waiting.last_awaited(side))  # an end stays behind the data it follows
    if awaited > (other.reach if waiting is None else waiting.reach(1 - side)):
        if waiting is None:
            waiting = tracked.waiting = Waiting(tracked)
        waiting.delay(awaited, side, segment, origin, out)
        return
    deliver(tracked, side, segment, origin, out)
    if waiting is not None and waiting.delayed:
        waiting.release(origin, out)


def expire(tracked: Tracked, clock: int, out: list[Event]) -> None:
    """End what of a connection has waited long enough at ``clock``, ns."""
    waiting = tracked.waiting
    if waiting is not None and waiting.delayed:
        waiting.expire(clock, out)
    for stream in tracked.streams:
        if stream.has_hole:
            stream.expire(clock, out)
            stream.flush(out)


def _awaited(other: Reassembler, segment: Segment) -> int:
    """The position in the ``other`` stream that a segment waits for; 0 when it does not wait.

    A reset never waits for its own sake: its acknowledgment number need not mean anything.
    """
    if segment.flags & (ACK | RST) != ACK or other.base is None or not other.has_sent:
        return 0
    ahead = distance(advance(other.base, other.offset), segment.ack)
    return other.offset + ahead if 0 < ahead <= other.limits.window_bytes else 0


class Waiting:
    """The segments of one connection, of both sides, that wait for what they acknowledge."""

    __slots__ = ("_arrivals", "_heaps", "_order", "_tracked", "delayed")

    def __init__(self, tracked: Tracked) -> None:
        self.delayed = 0
        """Segments that wait."""
        self._tracked = tracked
        self._arrivals: deque[Delayed] = deque()  # in packet order
        self._heaps: tuple[list[Delayed], list[Delayed]] = ([], [])  # by position waited for
        self._order = 0

    @property
    def streams(self) -> tuple[Reassembler, Reassembler]:
        """Both directions."""
        return self._tracked.streams

    @property
    def connection(self) -> Connection:
        """The connection."""
        return self._tracked.connection

    def reach(self, side: int) -> int:
        """Up to which position the stream of ``side`` is there, or no longer waited for."""
        stream = self.streams[side]
        return max(stream.reach, stream.missed)

    def oldest(self) -> Arrival | None:
        """What has waited longest."""
        arrivals = self._arrivals
        while arrivals and arrivals[0].delivered:
            arrivals.popleft()
        return Arrival(arrivals[0].awaited, arrivals[0].origin) if arrivals else None

    @property
    def shared(self) -> Shared:
        """What all streams share."""
        return self._tracked.shared

    def last_awaited(self, side: int) -> int:
        """The furthest position that segments of ``side`` wait for."""
        return max((delayed.awaited for delayed in self._heaps[side] if not delayed.delivered), default=0)

    def delay(self, awaited: int, side: int, segment: Segment, origin: Origin, out: list[Event]) -> None:
        """Keep a segment aside, within the budgets of its direction."""
        stream = self.streams[side]
        delayed = Delayed(awaited, self._order, side, segment, origin)
        self._order += 1
        self._arrivals.append(delayed)
        heappush(self._heaps[side], delayed)
        stream.hold(len(segment.data))
        other = self.streams[1 - side]
        other.shown = other.shown or Shown()
        other.shown.add(awaited, origin.ready_ns, other.offset)
        self.delayed += 1
        self._tracked.registry[self] = None
        while stream.held_segments and (name := stream.over_budget()) is not None:
            first = next(each for each in self._arrivals if each.side == side and not each.delivered)
            stream.limit_reached(name, origin, out, NO_LONGER)
            self._miss(first, moment(origin.at, origin.clock), out)

    def release(self, cause: Origin, out: list[Event]) -> None:
        """Take what ``cause`` made possible: each segment once the other stream has what it acknowledges."""
        while self.delayed:
            for side, heap in enumerate(self._heaps):
                while heap and heap[0].delivered:
                    heappop(heap)
                if heap and heap[0].awaited <= self.reach(1 - side):
                    self._deliver(heappop(heap), cause, out)
                    break
            else:
                return

    def expire(self, clock: int, out: list[Event]) -> None:
        """Give up, in order of time, the holes and the waits of both sides that are over at ``clock``, ns.

        In order, for one may end another: so it does not matter how often this is called.
        """
        self._give_up_expired(clock, out)
        for stream in self.streams:
            stream.expire(clock, out)
            stream.flush(out)

    def finish(self, last: Origin, out: list[Event]) -> None:
        """Nothing more will come, as packet ``last`` tells: give up all holes and waits.

        In the order in which they would have ended, so that it does not matter how long the capture goes on.
        """
        end = moment(last.at, 0)  # its time belongs to packets of others
        while self.delayed:
            self._give_up_expired(inf, out)
            for stream in self.streams:
                if stream.has_hole:
                    stream.give_up(end, out)
                    self.release(end, out)
                    break

    def _give_up_expired(self, clock: float, out: list[Event]) -> None:
        """While segments wait, give up in order of time what is over at ``clock``."""
        while (first := self.oldest()) is not None:
            due = first.origin.clock + self.streams[0].hole_ns
            chosen: Reassembler | None = None
            for stream in self.streams:
                deadline = stream.deadline()
                if deadline is not None and deadline <= due:
                    due, chosen = deadline, stream
            if clock <= due:
                break
            cause = self.shared.after(due)
            if chosen is None:
                self.give_up(cause, out)
            else:
                chosen.give_up(cause, out)
                self.release(cause, out)

    def limit_reached(self, name: str, origin: Origin, out: list[Event]) -> None:
        """Say that the oldest waits no longer because limit ``name`` was reached."""
        self.streams[self._arrivals[0].side].limit_reached(name, origin, out, NO_LONGER)

    def give_up(self, cause: Origin, out: list[Event]) -> None:
        """The oldest (there must be one: `oldest`) waits no longer, from the packet ``cause`` on."""
        self._miss(self._arrivals[0], cause, out)

    def _miss(self, delayed: Delayed, cause: Origin, out: list[Event]) -> None:
        """What ``delayed`` waited for is not in this capture."""
        other = 1 - delayed.side
        stream = self.streams[other]
        stream.missed = max(stream.missed, delayed.awaited)
        stream.direction.lose(delayed.origin.at, stream.offset, delayed.origin.ready_ns, cause.at)
        self._deliver(delayed, cause, out)
        self.release(cause, out)

    def _deliver(self, delayed: Delayed, cause: Origin, out: list[Event]) -> None:
        """Put a segment into its stream: ready when ``cause`` and what it acknowledges of the other stream are."""
        stream, other = self.streams[delayed.side], self.streams[1 - delayed.side]
        delayed.delivered = True
        self.delayed -= 1
        if not self.delayed:
            self._tracked.registry.pop(self)
        stream.unhold(len(delayed.segment.data))
        other.flush(out)  # what is ready with the same packet comes after what it acknowledges
        origin = other.follow(delayed.origin, cause, delayed.awaited)
        deliver(self._tracked, delayed.side, delayed.segment, origin, out)
