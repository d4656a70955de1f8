"""The clock that a capture's times are of: steps back, and leaps that the senders' own clocks did not see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from wiredecode.capture.batch import PacketBatch
from wiredecode.check.codes import CODES
from wiredecode.net.analysis import TIMESTAMPS, each_option
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.segments import distance
from wiredecode.protocols.shared.problems import Report, Rule

BACK_NS = 1_000_000_000
"""Packets of several queues or interfaces are written out of order by less."""
STAYS = 5
"""Packets after a step back that are all earlier than the one before it: one alone is only late."""
AHEAD_NS = 10_000_000_000
"""A pause this long is examined."""
SLOWEST_TICK_NS = 100_000_000
"""No clock of TCP timestamps that is in use ticks more slowly (RFC 7323 section 5.4 allows 1 s)."""
AROUND = 64
"""Packets before and after a pause in which both sides' clocks are looked for."""
MOST_STEPS = 1000


class Jump(NamedTuple):
    """The capture's clock went another way than time."""

    packet: int
    time_ns: int
    what: str


class ClockRule(Rule):
    """Sees the packets before they are decoded; reports at the end."""

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._jumps: list[Jump] = []
        self._before: PacketBatch | None = None
        """The last packets of the batch before."""

    def look(self, batch: PacketBatch) -> None:
        """The next packets."""
        if not len(batch):
            return
        before, times = self._before, batch.time_ns
        last = times[0] if before is None else before.time_ns[-1]
        gaps = np.diff(times, prepend=last)
        for place in np.flatnonzero((gaps <= -BACK_NS) | (gaps >= AHEAD_NS)).tolist()[:MOST_STEPS]:
            earlier = batch.part(max(place - AROUND, 0), place) if place else before
            if earlier is not None and len(self._jumps) < MOST_STEPS:
                self._judge(earlier, batch.part(place, place + AROUND), int(gaps[place]))
        self._before = batch.part(max(len(batch) - AROUND, 0), len(batch))

    def _judge(self, earlier: PacketBatch, later: PacketBatch, gap_ns: int) -> None:
        what = ""
        if gap_ns < 0:
            if (later.time_ns[:STAYS] < earlier.time_ns[-1]).all():
                what = f"the time goes back by {-gap_ns / 1e9:.3f} s"
        else:
            counted_ns = senders_time(earlier, later)
            if counted_ns is not None and counted_ns * 2 < gap_ns:
                what = f"the time leaps ahead by {gap_ns / 1e9:.3f} s, which no sender's TCP timestamps show"
        if what:
            self._jumps.append(Jump(int(later.number[0]), int(later.time_ns[0]), what))

    def finish(self) -> None:
        for step in self._jumps:
            self.report.add(CODES["capture.clock"], step.what, step.what, packet=step.packet, time_ns=step.time_ns)


def senders_time(earlier: PacketBatch, later: PacketBatch) -> int | None:
    """Most time, ns, that can have passed by TCP timestamps of hosts that sent before and after, if known."""
    before = dict(timestamps(earlier))
    ticks = [distance(before[flow], value) for flow, value in timestamps(later) if flow in before]
    return max(ticks) * SLOWEST_TICK_NS if ticks else None


def timestamps(batch: PacketBatch) -> Iterator[tuple[tuple[int, ...], int]]:
    """``(flow, TSval)`` of the segments that have one."""
    segments = HeaderReader(Limits(), Counter(), Counter()).read(batch)
    flows = zip(
        *(column.tolist() for column in (segments.source_high, segments.source_low, segments.target_high)),
        *(column.tolist() for column in (segments.target_low, segments.ports, segments.header, segments.start)),
        strict=True,
    )
    for *flow, header, payload in flows:
        for kind, value in each_option(segments.buffer[header:payload]) if 0 <= header <= payload - 20 else ():
            if kind == TIMESTAMPS and len(value) == 8:
                yield tuple(flow), int.from_bytes(value[:4])
