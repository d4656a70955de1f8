"""TCP analysis as in Wireshark: each segment compared with the earlier ones of its connection.

The rules are those of Wireshark's ``tcp.analysis`` fields, in their order, so that both count the same. A
:class:`ConnectionAnalysis` takes the segments of one connection in packet order, pure ACKs included.
"""

from typing import NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.net.health import (
    ACK_LOST,
    DUPLICATE_ACK,
    FAST_RETRANSMISSION,
    KEEP_ALIVE,
    KEEP_ALIVE_ACK,
    LOST,
    MIN_QUIET_NS,
    OUT_OF_ORDER,
    REMEMBERED,
    RETRANSMISSION,
    SPURIOUS_RETRANSMISSION,
    WINDOW_FULL,
    WINDOW_UPDATE,
    ZERO_WINDOW,
    ZERO_WINDOW_PROBE,
    ZERO_WINDOW_PROBE_ACK,
    ConnectionHealth,
    DirectionHealth,
    FirstEnd,
)
from wiredecode.net.segments import ACK, FIN, HALF, MASK, RST, SYN, distance

CONTROL = SYN | FIN | RST
TIMED_OUT = RETRANSMISSION | FAST_RETRANSMISSION | SPURIOUS_RETRANSMISSION
"""Of these only the first: the sender's timer ran out."""
FAST_NS = 20_000_000
"""A retransmission within this time after the second duplicate ACK is a fast one (as Wireshark)."""
COPY_NS, FASTEST_NS = 200_000, 20_000
"""A segment within this time after itself, or a later one, is a copy or out of order: timers and ACKs take longer."""
REORDERED_NS = 3_000_000
"""A segment within this time after a later one is out of order, if the handshake does not give the round trip."""


class SegmentHeader(NamedTuple):
    """The header of one TCP segment; ``length`` is the payload's on the wire, ``window`` as it is in the header."""

    packet: int
    time_ns: int
    seq: int
    ack: int
    flags: int
    length: int
    window: int
    scale: int | None = None
    """Window scale of a SYN that has this option."""
    mss: int | None = None
    """Maximum segment size of a SYN that has this option."""
    is_cut: bool = False
    """Whether not all of a SYN's options were captured."""


NO_OPERATION, MSS, WINDOW_SCALE, SACK, TIMESTAMPS = 1, 2, 3, 5, 8
"""TCP options (RFC 9293 section 3.2, RFC 7323 sections 2 and 3, RFC 2018 section 3)."""
MAX_REPEATED, REPEATED_NS = 64, 1_000_000_000
"""Limits of retransmissions that a receiver may still acknowledge: their number, and their age."""


def each_option(header: bytes) -> list[tuple[int, bytes]]:
    """Kind and value of the options of a TCP header but for padding, as far as it was captured."""
    found: list[tuple[int, bytes]] = []
    at, end = 20, min((header[12] >> 4) * 4, len(header))
    while at + 1 < end and (kind := header[at]):
        if kind == NO_OPERATION:
            at += 1
            continue
        size = header[at + 1]
        if size < 1 or at + size > end:
            break
        found.append((kind, header[at + 2 : at + size]))
        at += size
    return found


def options(header: bytes) -> tuple[int | None, int | None, bool]:
    """Window scale and maximum segment size, where a header has these options, and whether it is truncated."""
    scale = mss = None
    for kind, value in each_option(header):
        if kind == MSS and len(value) == 2:
            mss = int.from_bytes(value)
        elif kind == WINDOW_SCALE and len(value) == 1:
            scale = value[0]
    return scale, mss, len(header) < (header[12] >> 4) * 4


def received_twice(header: bytes, ack: int) -> int | None:
    """Sequence number of a segment that arrived twice: a first SACK block below the ACK (RFC 2883 section 4)."""
    for kind, value in each_option(header):
        if kind == SACK and len(value) >= 8 and not after(int.from_bytes(value[4:8]), ack):
            return int.from_bytes(value[:4])
    return None


def after(one: int, other: int) -> bool:
    """Whether sequence number ``one`` lies after ``other`` (RFC 1982)."""
    return 0 < (one - other & MASK) < HALF


SMALL = 256
"""A sender may wait for a larger window than this many bytes (RFC 9293 section 3.8.6.2.1): it is as good as closed."""
UNACKED_SEGMENTS = 4096
"""Segments remembered per direction to measure round trips."""


@dataclass(slots=True, eq=False)
class SenderState:
    """State of one direction."""

    health: DirectionHealth
    next: int | None = None
    """The highest sequence number sent up to now, and its time."""
    next_ns: int = 0
    to_be_acked: int | None = None
    """Up to where the segments follow each other."""
    ack: int | None = None
    ack_ns: int = 0
    answered_ns: int = 0
    """When it last acknowledged something new, or sent an ACK alone: then it heard the other side."""
    window: int = -1
    scale: int | None = None
    """Window scale; None: not known, as no SYN was seen, or not its options."""
    duplicate_acks: int = 0
    last_kinds: int = 0
    zero_since: int | None = None
    repeated: dict[int, tuple[int, int]] | None = None
    """Sequence number to packet and time of the last retransmissions; None: there are none."""
    unacked: list[tuple[int, int]] = field(default_factory=list)
    """End and time of segments that wait for their ACK, at most :data:`UNACKED_SEGMENTS`; time 0: sent more than
    once."""

    def repeats(self, now: int) -> bool:
        """Whether the receiver may still say that it had a segment twice."""
        return any(now - time_ns <= REPEATED_NS for _, time_ns in (self.repeated or {}).values())


@dataclass(slots=True, eq=False)
class Past:
    """Facts of later packets of a connection depend on this; lists are by side."""

    first_ns: int
    last_ns: int
    bases: list[int | None] = field(default_factory=lambda: [None, None])
    """Sequence numbers that count as 0."""
    sent: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    """Ends of segments that wait for their ACK, and the times at which they were first sent."""


class ConnectionAnalysis:
    """The state of one connection. ``analyse`` says which kinds (bits of `health.KINDS`) a segment is of."""

    __slots__ = ("_syn_ns", "health", "number", "past", "sides")

    def __init__(self, health: ConnectionHealth, number: int = 0) -> None:
        self.health, self.number = health, number
        self.sides = SenderState(health.directions[0]), SenderState(health.directions[1])
        self._syn_ns: int | None = None
        self.past: Past | None = None
        """For the facts of single packets, where they are wanted."""

    def analyse(self, side: int, segment: SegmentHeader) -> int:
        """Analyse the next segment, sent by ``side``."""
        forward, backward = self.sides[side], self.sides[1 - side]
        if segment.flags & CONTROL:
            self._control(side, segment, forward, backward)
        kinds = _window_kinds(segment, forward, backward)
        if segment.ack != forward.ack:
            forward.duplicate_acks = 0
        elif kinds & DUPLICATE_ACK:
            forward.duplicate_acks += 1
        news = segment.flags & ACK and segment.ack != forward.ack
        if news and backward.to_be_acked is not None and after(segment.ack, backward.to_be_acked):
            kinds |= ACK_LOST
            backward.to_be_acked = backward.next
        if segment.length or segment.flags & (SYN | FIN):
            kinds |= _repeat_kind(segment, forward, backward, kinds, self.health.handshake_ns)
        copied = False
        if kinds and kinds & TIMED_OUT in (RETRANSMISSION, RETRANSMISSION | FAST_RETRANSMISSION):
            end, now = segment.seq + segment.length & MASK, segment.time_ns
            first_ns = next((time_ns for at, time_ns in forward.unacked if at == end), None)
            again_ns = (forward.repeated or {}).get(segment.seq, (0, 0))[1]
            sent_ns = again_ns or (forward.next_ns if first_ns is None else first_ns)
            copied = now - sent_ns < (FASTEST_NS if kinds & FAST_RETRANSMISSION else COPY_NS)
            if copied and len(forward.health.needless) < REMEMBERED:
                forward.health.needless.add(segment.packet)
            elif not copied and kinds & TIMED_OUT == RETRANSMISSION and segment.length > (not backward.answered_ns):
                heard_ns = backward.answered_ns or forward.next_ns  # never heard: one byte may probe a closed window
                forward.health.timeout(heard_ns, now, segment.packet, segment.length, first_ns or 0)
        self._measure(segment, forward, backward, 0 if copied else kinds, copied=copied)
        over = self.health.end
        if over is not None and over.unacknowledged and side != over.side and segment.flags & ACK:
            left = _unacknowledged(backward, segment.ack)  # an ACK that crossed the end
            self.health.end = over._replace(unacknowledged=min(left, over.unacknowledged))
        _remember(segment, forward, kinds)
        if kinds:
            forward.health.count(kinds, segment.packet)
            if kinds & RETRANSMISSION and not copied and not kinds & SPURIOUS_RETRANSMISSION:
                repeated = forward.repeated = forward.repeated or {}
                repeated[segment.seq] = segment.packet, segment.time_ns
                if len(repeated) > MAX_REPEATED:
                    del repeated[next(iter(repeated))]
        return kinds

    def acknowledges(self, side: int, now: int, ack: int, header: bytes) -> None:
        """``side`` may say that what was sent again was not needed."""
        sender = self.sides[1 - side]
        if sender.repeated is None or not sender.repeats(now):
            sender.repeated = None
        elif (seq := received_twice(header, ack)) is not None:
            packet, time_ns = sender.repeated.pop(seq, (0, 0))
            if packet and now - time_ns <= REPEATED_NS and len(sender.health.needless) < REMEMBERED:
                sender.health.needless.add(packet)

    def _control(self, side: int, segment: SegmentHeader, forward: SenderState, backward: SenderState) -> None:
        """SYN, FIN and RST: how the connection began and how it ends."""
        health, flags = self.health, segment.flags
        if flags & SYN:
            forward.scale = None if segment.is_cut and segment.scale is None else segment.scale or 0
            forward.health.window_scale, forward.health.mss = segment.scale, segment.mss
            if flags & ACK:
                health.accepted = True
            else:
                health.syns += 1
                if self._syn_ns is None:
                    self._syn_ns = segment.time_ns
        if flags & RST and backward.health.packets == health.syns and not (forward.health.packets or health.accepted):
            # Only an answer to a SYN, captured or not, has the sequence number 0 (RFC 9293 section 3.10.7.1).
            health.refused = bool(health.syns or (flags & ACK and not segment.seq))
        if flags & (FIN | RST):
            self._end(side, segment, forward, backward)

    def _end(self, side: int, segment: SegmentHeader, forward: SenderState, backward: SenderState) -> None:
        """FIN and RST: how the connection ends."""
        health, flags, over = self.health, segment.flags, self.health.end
        end = segment.seq + segment.length + 1 & MASK
        if over is None:
            how, known = "RST" if flags & RST else "FIN", bool(flags & ACK)
            last = segment.ack if known else forward.ack
            in_flight = _unacknowledged(forward, backward.ack), _unacknowledged(backward, last)
            over = health.end = FirstEnd(how, side, segment.packet, segment.time_ns, *in_flight, known, last)
            before = backward.next if backward.health.packets else forward.ack
            if how == "RST" and None not in (before, last) and distance(before or 0, last or 0) == 1:
                health.end = over.after_fin()
        elif flags & FIN and (over.how, over.side, over.acknowledged) == ("RST", 1 - side, end):
            health.end = over.after_fin()  # the reset has overtaken it

    def _measure(
        self, segment: SegmentHeader, forward: SenderState, backward: SenderState, kinds: int, *, copied: bool
    ) -> None:
        """Round trips, idle times, and how long a window was closed."""
        _, now, _, ack, flags, length, window = segment[:7]
        health = forward.health
        if now > self.health.last_ns:
            self.health.last_ns = now
        if not health.packets:
            health.first_ns = now
        elif now - health.last_ns >= MIN_QUIET_NS:
            health.pause(health.last_ns, now)
        health.last_ns = now
        health.packets += 1
        if length:
            health.payload += length
            self.health.active(now)
            if kinds & RETRANSMISSION:
                health.repeated_ns = health.repeated_ns[0] or now, now
            if kinds & (RETRANSMISSION | OUT_OF_ORDER):
                forward.unacked = [(at, 0) for at, _ in forward.unacked]
            elif not copied and not kinds & (KEEP_ALIVE | ZERO_WINDOW_PROBE):
                forward.unacked.append((segment.seq + length & MASK, now))
                if len(forward.unacked) > UNACKED_SEGMENTS:
                    del forward.unacked[0]
                health.move(now, backward.health)
                if backward.zero_since is not None and backward.window > 0:  # it does not wait for more
                    backward.health.closed_window(backward.zero_since, now)
                    backward.zero_since = None
        if flags & ACK:
            sent, covered = 0, 0
            if backward.next is None and forward.ack is not None and after(ack, forward.ack):
                backward.health.move(now, health)  # only one side was captured
            for end, sent_ns in backward.unacked:
                if 0 < (end - ack & MASK) < HALF:  # `after`, for each packet
                    break
                sent, covered = sent_ns, covered + 1
            if covered:
                del backward.unacked[:covered]
            if sent:
                backward.health.rtt.add(max(now - sent, 0))
            if self._syn_ns is not None and self.health.handshake_ns is None and not flags & SYN:
                self.health.handshake_ns = now - self._syn_ns
        if kinds & ZERO_WINDOW and (forward.window or forward.zero_since is None):
            health.zero_windows += 1
        scale = forward.scale
        if not flags & CONTROL and (not window if scale is None else window << scale < SMALL):
            forward.zero_since = forward.zero_since or now
        elif forward.zero_since is not None and window:
            health.closed_window(forward.zero_since, now)
            forward.zero_since = None

    def finish(self) -> None:
        """Nothing more comes: a window that is still closed stays so up to the last packet."""
        for side, backward in (self.sides, self.sides[::-1]):
            side.health.unacknowledged = _unacknowledged(side, backward.ack)
            side.health.rest(self.health.last_ns, backward.health)
            if side.zero_since is not None:
                side.health.closed_window(side.zero_since, self.health.last_ns)
                side.zero_since = None


def _unacknowledged(sender: SenderState, ack: int | None) -> int:
    """Bytes that ``sender`` has sent and the last ACK of the other side does not cover, as far as both are known."""
    return 0 if sender.next is None or ack is None else max(distance(ack, sender.next), 0)


def _window_kinds(segment: SegmentHeader, forward: SenderState, backward: SenderState) -> int:
    """Return the kinds given by sequence number, ACK and window, as long as nothing is repeated."""
    seq, ack, flags, length, window = segment[2:7]
    if length == 1 and seq == forward.next and backward.window == 0:
        return ZERO_WINDOW_PROBE
    plain = not flags & CONTROL
    kinds = ZERO_WINDOW if plain and window == 0 else 0
    if seq != forward.next and forward.next is not None and not flags & RST and after(seq, forward.next):
        kinds |= LOST
    if not plain:
        return kinds
    if length <= 1 and forward.next is not None and seq == forward.next - 1 & MASK:
        kinds |= KEEP_ALIVE
    if length:
        if backward.ack is not None and backward.scale is not None:
            edge = backward.ack + (backward.window << backward.scale) & MASK
            if seq + length & MASK == edge:
                kinds |= WINDOW_FULL
        return kinds
    if seq != forward.next:
        return kinds
    if ack == forward.ack and window != forward.window:
        return kinds | WINDOW_UPDATE if window else kinds
    if window != forward.window or forward.ack is None:
        return kinds
    if window and ack == forward.ack:
        return kinds | (KEEP_ALIVE_ACK if backward.last_kinds & KEEP_ALIVE else DUPLICATE_ACK)
    probed = not window and backward.last_kinds & ZERO_WINDOW_PROBE
    if probed and ack in (forward.ack, forward.ack + 1 & MASK):
        kinds |= ZERO_WINDOW_PROBE_ACK
    return kinds


def _repeat_kind(
    segment: SegmentHeader, forward: SenderState, backward: SenderState, kinds: int, handshake_ns: int | None
) -> int:
    """Return the kind of repetition of a segment with payload, SYN or FIN, if it is one."""
    _, now, seq, _, _, length = segment[:6]
    if kinds & KEEP_ALIVE:
        return 0
    repeats = seq != forward.next and forward.next is not None and after(forward.next, seq)
    if forward.next is not None and length > 1 and seq == forward.next - 1 & MASK:
        repeats = False  # perhaps the byte before was a window probe
    end = seq + length & MASK
    if length and backward.ack is not None and not after(end, backward.ack):
        return RETRANSMISSION | SPURIOUS_RETRANSMISSION
    if not repeats:
        return 0
    if backward.duplicate_acks >= 2 and backward.ack == seq and now - backward.ack_ns < FAST_NS:
        return RETRANSMISSION | FAST_RETRANSMISSION
    if now - forward.next_ns < (handshake_ns or REORDERED_NS) and forward.next != end:
        return OUT_OF_ORDER
    return RETRANSMISSION


def _remember(segment: SegmentHeader, forward: SenderState, kinds: int) -> None:
    _, now, seq, ack, flags, length, forward.window = segment[:7]
    end = seq + length + bool(flags & (SYN | FIN)) & MASK
    if not kinds & ZERO_WINDOW_PROBE:
        if forward.next is None or 0 < (end - forward.next & MASK) < HALF:  # `after`, for each packet
            forward.next, forward.next_ns = end, now
        if forward.to_be_acked is None or seq == forward.to_be_acked:
            forward.to_be_acked = forward.next
    forward.last_kinds = kinds
    if flags & ACK:
        if not length or ack != forward.ack:
            forward.answered_ns = now
        forward.ack, forward.ack_ns = ack, now
