"""Facts of single packets with TCP, for filters and fields that ask for them: Wireshark's numbers, per packet.

They are made only where somebody asks for them: ``Network(facts=True)``.
"""

from itertools import islice

from wiredecode.capture.batch import PacketBatch
from wiredecode.net.analysis import UNACKED_SEGMENTS, ConnectionAnalysis, Past, SegmentHeader, after
from wiredecode.net.segments import ACK, FIN, MASK, SYN, SegmentFacts

KEPT = 65_536
"""Packets before the last batch whose facts are kept: a frame is known later than its packets."""
ETHERNET = 1
"""LINKTYPE_ETHERNET."""


class FactsLog:
    """Makes the facts of the packets of a capture; ``by_packet`` holds those of the last ones."""

    def __init__(self) -> None:
        self.by_packet: dict[int, SegmentFacts] = {}
        self._last_ns: int | None = None
        self._of_rows: list[SegmentFacts] = []

    def begin(self) -> None:
        """The next batch comes: forget the oldest packets."""
        for packet in [*islice(self.by_packet, max(len(self.by_packet) - KEPT, 0))]:
            del self.by_packet[packet]

    def next_part(self, part: PacketBatch) -> None:
        """Take the next part of the batch, before its segments."""
        self._of_rows = without_tcp(part, self._last_ns)
        self._last_ns = int(part.time_ns[-1])

    def add(self, analysis: ConnectionAnalysis, side: int, row: int, segment: SegmentHeader) -> None:
        """Make the facts of the next segment, in a row of the part, before its analysis."""
        apart = self._of_rows[row]
        made = _facts(analysis, side, segment)
        self.by_packet[segment.packet] = made._replace(delta_ns=apart.delta_ns, ethernet=apart.ethernet)
        analysis.health.facts = self.by_packet


def without_tcp(part: PacketBatch, last_ns: int | None) -> list[SegmentFacts]:
    """Facts of the next packets that do not need TCP. ``last_ns``: time of the packet before; None: there is none."""
    times = part.time_ns.tolist()
    before = [times[0] if last_ns is None else last_ns, *times]
    deltas = [time - last for last, time in zip(before, times, strict=False)]
    types = (part.linktype == ETHERNET).tolist()
    return [SegmentFacts(delta_ns=delta, ethernet=int(kind) or None) for delta, kind in zip(deltas, types, strict=True)]


def _facts(analysis: ConnectionAnalysis, side: int, segment: SegmentHeader) -> SegmentFacts:
    """The facts of the next packet of a connection."""
    _, now, seq, ack, flags, length, window = segment[:7]
    past = analysis.past
    if past is None:
        past = analysis.past = Past(now, now)
    base = past.bases[side]
    if base is None:
        base = past.bases[side] = seq if flags & SYN else seq - 1 & MASK
    if flags & ACK and past.bases[1 - side] is None:
        past.bases[1 - side] = ack - 1 & MASK
    ack_base, end = past.bases[1 - side], seq + length + bool(flags & (SYN | FIN)) & MASK
    acked = ack - ack_base & MASK if flags & ACK and ack_base is not None else 0
    rtt_ns = _acknowledge(past.sent[1 - side], ack, now) if flags & ACK else None
    if end != seq:
        past.sent[side].setdefault(end, now)
        if len(past.sent[side]) > UNACKED_SEGMENTS:
            del past.sent[side][next(iter(past.sent[side]))]
    last_ns, past.last_ns = past.last_ns, now
    return SegmentFacts(
        *(flags, length, seq - base & MASK, acked, end - base & MASK, seq, ack if flags & ACK else 0),
        *(_scaled(analysis, side, flags, window), window, None, now - last_ns, now - past.first_ns, rtt_ns),
    )


def _acknowledge(sent: dict[int, int], ack: int, now: int) -> int | None:
    """Forget the segments up to ``ack``; return the time since the last of these was first sent, if it is not 0."""
    sent_ns = sent.get(ack)
    while sent and not after(first := next(iter(sent)), ack):
        del sent[first]
    return None if sent_ns is None else now - sent_ns or None


def _scaled(analysis: ConnectionAnalysis, side: int, flags: int, window: int) -> int:
    """The window in bytes: scaled unless a SYN was seen without the option (RFC 7323 section 2.2)."""
    sides = analysis.sides
    plain = any(each.scale is not None and each.health.window_scale is None for each in sides)
    return window if flags & SYN or plain else window << (sides[side].scale or 0)
