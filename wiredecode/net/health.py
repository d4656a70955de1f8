"""TCP health: what happened to the segments of a connection, as counts and times, per direction."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wiredecode.dataclasses import Lazy, dataclass, field
from wiredecode.net.distribution import Distribution
from wiredecode.net.segments import SegmentFacts

KINDS = (
    *("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order", "lost_segment"),
    *("ack_lost_segment", "duplicate_ack", "keep_alive", "keep_alive_ack", "zero_window", "zero_window_probe"),
    *("zero_window_probe_ack", "window_update", "window_full"),
)
"""Kinds of segments, by bit (``tcp.analysis`` of Wireshark). Fast and spurious retransmissions have both bits."""
BITS = [1 << bit for bit in range(len(KINDS))]
RETRANSMISSION, FAST_RETRANSMISSION, SPURIOUS_RETRANSMISSION, OUT_OF_ORDER, LOST, ACK_LOST, DUPLICATE_ACK = BITS[:7]
KEEP_ALIVE, KEEP_ALIVE_ACK, ZERO_WINDOW, ZERO_WINDOW_PROBE, ZERO_WINDOW_PROBE_ACK, WINDOW_UPDATE, WINDOW_FULL = BITS[7:]

REMEMBERED = 65_536
"""Segments of a direction of which the kinds are remembered; the oldest are forgotten first, counts stay."""
INTERVALS = 1024
"""Intervals with a closed window that are remembered per direction."""
MAX_RTT = 1024
"""Different round trip times of a direction that are remembered."""
MIN_QUIET_NS = 1_000_000_000
"""Times without packets of a direction that are remembered are this long."""
NONE: dict[int, int] = {}
"""Shared by all directions without segments of any kind; it never changes."""
MIN_OUTAGE = 3
"""Retransmissions in an outage, at least, and ..."""
MIN_OUTAGE_NS = 2_000_000_000
"""... its duration, at least, when it is reported."""


class Stillness(NamedTuple):
    """A time of at least :data:`MIN_QUIET_NS` without new payload of a side."""

    since_ns: int
    until_ns: int
    peer_moves: int
    peer_moved_ns: int
    """Number of times that the other side sent new payload meanwhile, and the first time."""


def was_still(still: Iterable[Stillness], since_ns: int, until_ns: int) -> bool:
    """Whether nothing new was sent between both times, as far as sequence numbers show."""
    return any(each.since_ns <= since_ns and until_ns <= each.until_ns for each in still)


class FirstEnd(NamedTuple):
    """The first FIN or RST of a connection."""

    how: str
    """``"FIN"`` or ``"RST"``."""
    side: int
    packet: int
    time_ns: int
    unacknowledged: int
    """Bytes that ``side`` had sent and the other had not acknowledged."""
    unread: int
    """Bytes that the other had sent and ``side`` had not acknowledged."""
    is_known: bool
    """It has ACK: who does not know a connection answers its segments by RST without it (RFC 9293 3.10.7.1)."""
    acknowledged: int | None = None
    """Sequence number up to which ``side`` had received everything; None: unknown."""

    def after_fin(self) -> "FirstEnd":
        """The end, now that this reset acknowledges a FIN of the other side."""
        return FirstEnd("FIN", 1 - self.side, self.packet, self.time_ns, 0, 0, True)


@dataclass(slots=True)
class Outage:
    """A time in which a side retransmitted payload, and the other side acknowledged nothing."""

    heard_ns: int
    """Time of the other side's last acknowledgment before it."""
    since_ns: int
    """The later of that time and the first transmission of the segment."""
    until_ns: int
    """Time of the last retransmission."""
    packet: int
    """The first retransmission."""
    length: int
    """Length of its payload."""
    alive: bool
    """The other side acknowledged something after the first transmission: others arrived, this segment did not."""
    times: int = 1

    def overlaps(self, since_ns: int, until_ns: int) -> bool:
        return self.since_ns < until_ns and self.until_ns > since_ns


@dataclass(slots=True, eq=False)
class DirectionHealth(Lazy):
    """One direction; counts are of segments."""

    made = {  # noqa: RUF012 - of the class
        **dict.fromkeys(("zero_intervals", "quiet", "still", "outages"), list),
        "needless": set,
        "rtt": lambda: Distribution(MAX_RTT),
    }
    packets: int = 0
    payload: int = 0
    """Payload bytes on the wire, repeated ones too."""
    first_ns: int = 0
    mss: int | None = None
    window_scale: int | None = None
    counts: dict[int, int] = field(default_factory=lambda: NONE)
    """By bit of :data:`KINDS`."""
    kinds: dict[int, int] = field(default_factory=lambda: NONE)
    """Packet number to kinds, of the last :data:`REMEMBERED` segments that have any."""
    needless: set[int] = field(init=False)
    """Packets of retransmissions that a D-SACK shows to be spurious, and those captured again or out of order."""
    repeated_ns: tuple[int, int] = (0, 0)
    """Times of the first and the last retransmission."""
    rtt: Distribution = field(init=False)
    """From a segment of this direction to the ACK that covers it; repeated segments do not count."""
    unacknowledged: int = 0
    """Bytes of this side that the other had not acknowledged at the end."""
    zero_windows: int = 0
    """Number of times that this side closed its window."""
    zero_window_ns: int = 0
    """Total time that the window was closed."""
    zero_intervals: list[tuple[int, int]] = field(init=False)
    """Its first :data:`INTERVALS` times: from, to."""

    last_ns: int = 0
    """Time of its last packet."""
    quiet: list[tuple[int, int]] = field(init=False)
    """Its first :data:`INTERVALS` times of at least :data:`MIN_QUIET_NS` without a packet: from, to."""
    moves: int = 0
    """Packets that show new payload: its own, or ACKs of it if it was not captured itself."""
    moved_ns: int = 0
    """Time of the last packet that shows new payload."""
    peer_moves: int = 0
    peer_moved_ns: int = 0
    """Moves of the other side since then, and the time of the first."""
    still: list[Stillness] = field(init=False)
    """Its first :data:`INTERVALS` times of stillness; the last one may not have ended."""
    outages: list[Outage] = field(init=False)
    """The last may have fewer than :data:`MIN_OUTAGE` retransmissions; at most :data:`INTERVALS`."""

    def timeout(self, heard_ns: int, now: int, packet: int, length: int, first_ns: int) -> None:
        """Count a retransmission at ``now`` of a sender whose timer ran out.

        ``first_ns``: time of the first transmission, 0 if unknown; ``heard_ns``: of the last ACK of the other side.
        """
        outages = self.outages
        if outages and outages[-1].heard_ns == heard_ns:
            outages[-1].until_ns, outages[-1].times = now, outages[-1].times + 1
            return
        if outages and outages[-1].times < MIN_OUTAGE:
            outages.pop()
        if len(outages) < INTERVALS:
            since_ns = max(heard_ns, first_ns or now)
            outages.append(Outage(heard_ns, since_ns, now, packet, length, 0 < first_ns < heard_ns))

    def was_closed(self, since_ns: int, until_ns: int) -> bool:
        """Whether the window of this side was closed at any time between both."""
        return any(begin < until_ns and end > since_ns for begin, end in self.zero_intervals)

    def long_outages(self) -> list[Outage]:
        """Return the outages that are long enough to report."""
        return [
            each for each in self.outages if each.times >= MIN_OUTAGE and each.until_ns - each.since_ns >= MIN_OUTAGE_NS
        ]

    def count(self, kinds: int, packet: int) -> None:
        """Count a segment that is of some kinds."""
        counts, of_packets = self.counts, self.kinds = self.counts or {}, self.kinds or {}
        remaining = kinds
        while remaining:
            bit = remaining & -remaining
            counts[bit] = counts.get(bit, 0) + 1
            remaining ^= bit
        of_packets[packet] = kinds
        if len(of_packets) > REMEMBERED:
            del of_packets[next(iter(of_packets))]

    def heard(self, since_ns: int, until_ns: int) -> bool:
        """Whether a packet was captured in that time; False if it is no longer known."""
        if until_ns - since_ns < MIN_QUIET_NS or len(self.quiet) == INTERVALS or self.last_ns < since_ns:
            return False
        return not any(begin < since_ns and end > until_ns for begin, end in self.quiet)

    def kept_sending(self, since_ns: int, until_ns: int) -> bool:
        """Whether new payload was sent all the time between both, with pauses below :data:`MIN_QUIET_NS`."""
        rested = any(each.since_ns < until_ns and each.until_ns > since_ns for each in self.still)
        return not rested and self.moved_ns > until_ns - MIN_QUIET_NS

    def move(self, now: int, peer: "DirectionHealth") -> None:
        """New payload was sent, which ``peer`` may answer."""
        if now - self.moved_ns >= MIN_QUIET_NS:
            self.rest(now, peer)
        self.peer_moves, self.moved_ns = 0, now
        self.moves += 1
        if not peer.peer_moves:
            peer.peer_moved_ns = now
        peer.peer_moves += 1

    def rest(self, now: int, peer: "DirectionHealth") -> None:
        """It sent nothing new until ``now``; ``peer`` was perhaps heard before it."""
        since_ns = self.moved_ns or peer.first_ns or now
        if now - since_ns >= MIN_QUIET_NS and len(self.still) < INTERVALS:
            self.still.append(Stillness(since_ns, now, self.peer_moves, self.peer_moved_ns))

    def pause(self, begin_ns: int, end_ns: int) -> None:
        """No packet came between these times."""
        if len(self.quiet) < INTERVALS:
            self.quiet.append((begin_ns, end_ns))

    def closed_window(self, begin_ns: int, end_ns: int) -> None:
        """The window of this side was closed for that long."""
        self.zero_window_ns += max(end_ns - begin_ns, 0)
        if len(self.zero_intervals) < INTERVALS:
            self.zero_intervals.append((begin_ns, end_ns))

    def number_of(self, kind: int) -> int:
        """Segments of a kind, a bit of :data:`KINDS`."""
        return self.counts.get(kind, 0)

    @property
    def timeouts(self) -> int:
        """Retransmissions that are neither fast nor spurious: the sender's timer ran out."""
        counts = self.counts
        repeated = counts.get(RETRANSMISSION, 0)
        return repeated - counts.get(FAST_RETRANSMISSION, 0) - counts.get(SPURIOUS_RETRANSMISSION, 0)

    @property
    def needed_retransmissions(self) -> int:
        """Retransmissions of lost segments, as far as known."""
        return self.timeouts + self.number_of(FAST_RETRANSMISSION) - len(self.needless)


@dataclass(slots=True, eq=False)
class ConnectionHealth:
    """A connection: both directions, by side, and the facts common to both."""

    directions: tuple[DirectionHealth, DirectionHealth] = field(
        default_factory=lambda: (DirectionHealth(), DirectionHealth())
    )
    syns: int = 0
    """SYNs without ACK that were seen."""
    accepted: bool = False
    """A SYN/ACK was seen."""
    refused: bool = False
    """A RST answered the SYN."""
    handshake_ns: int | None = None
    """From the SYN to the ACK that ends the handshake; None: it was not captured whole."""
    end: FirstEnd | None = None
    last_ns: int = 0
    """Time of the last packet."""
    payload_ns: int = 0
    """Time of the last payload before the first end."""
    longest_idle_ns: int = 0
    """The longest time without payload of either side."""
    facts: Mapping[int, SegmentFacts] | None = None
    """Facts of the last packets of the capture by their numbers, where they are wanted."""

    @property
    def unanswered(self) -> bool:
        """SYNs were sent, and nothing came back; a side that sends more got an answer that was not captured."""
        packets = sum(each.packets for each in self.directions)
        return packets == self.syns > 0 and not self.refused

    def active(self, time_ns: int) -> None:
        """Payload came; some come after the other side's FIN, in vain."""
        since_ns = self.payload_ns
        if since_ns and time_ns - since_ns > self.longest_idle_ns:
            self.longest_idle_ns = time_ns - since_ns
        if self.end is None and time_ns > since_ns:
            self.payload_ns = time_ns
