"""Which flows of a batch have segments that acknowledge unseen bytes, not captured before them: as columns.

A quick look that may say yes too often, never no too often; what it names goes segment by segment.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int64s
from wiredecode.net.flows import Flows
from wiredecode.net.segments import ACK, FIN, RST
from wiredecode.net.serial import HALF, MASK

FLOW = 34
"""Bits of a position within its flow: a distance of sequence numbers and a bit more."""

UNKNOWN, NO_WAIT = -1, -2
"""In place of a sequence number."""


def flows_acking_ahead(
    flows: Flows,
    seq: Int64s,
    ack: Int64s,
    length: Int64s,
    flags: Int64s,
    expected: list[int],
    other: list[int],
    opposite: list[int],
    holed: list[int],
) -> list[int]:
    """The flows, if any, with a segment whose ACK is ahead of what came in order on the opposite flow before it.

    ``seq``, ``ack``, ``length`` (of what is part of the stream), ``flags``: of every place in ``flows.rows``. Of
    every flow: ``expected`` is the next sequence number of its stream, ``opposite`` the opposite flow in this batch or
    -1; ``other`` is the next sequence number of the opposite stream where there is no such flow, or `NO_WAIT`. Both
    may be `UNKNOWN`.
    ``holed``: flows whose stream waits for a hole.
    """
    flow_of, begin = flows.flow_of, np.array(flows.begin)
    across = np.array(opposite)
    start_of, start_across = _starts(seq, begin, np.array(expected), np.array(other), across)
    acked = (ack - start_across[flow_of] + HALF & MASK) - HALF
    acking = (acked > 0) & (flags & (ACK | RST) == ACK) & (start_across[flow_of] >= 0)
    acking[1:] &= (ack[1:] != ack[:-1]) | (flow_of[1:] != flow_of[:-1])  # the first to acknowledge is the earliest
    asking = np.flatnonzero(acking)
    if not len(asking):
        return []
    reached = _reached(flows, seq, length + ((flags & (FIN | RST)) == FIN), start_of, holed)
    flow = flow_of[asking]
    target = across[flow]
    place = np.searchsorted(reached, (target << FLOW) + acked[asking])
    place_or_any = np.minimum(place, len(reached) - 1)
    there = (target >= 0) & (place < len(reached)) & (flow_of[place_or_any] == target)
    there &= flows.rows[place_or_any] < flows.rows[asking]
    found: list[int] = np.unique(flow[~there]).tolist()
    return found


def _starts(seq: Int64s, begin: Int64s, expected: Int64s, other: Int64s, across: Int64s) -> tuple[Int64s, Int64s]:
    """Of every flow and of its opposite, the sequence number that positions count from."""
    if len(seq) == 0:
        return expected, other
    has_rows = begin[1:] > begin[:-1]
    first = np.where(has_rows, seq[np.minimum(begin[:-1], len(seq) - 1)], UNKNOWN)
    start = np.where(expected == UNKNOWN, first, expected)
    return start, np.where((other == UNKNOWN) & (across >= 0), start[across], other)


def _reached(flows: Flows, seq: Int64s, length: Int64s, start: Int64s, holed: list[int]) -> Int64s:
    """For every place, (flow, position up to which its flow is there in order); never decreasing."""
    flow_of, begin = flows.flow_of, flows.begin
    floor = flow_of << FLOW
    at = (seq - start[flow_of] + HALF & MASK) - HALF
    reached: Int64s = np.maximum.accumulate(floor + np.maximum(at + length, 0))
    before = floor.copy()
    np.maximum(floor[1:], reached[:-1], out=before[1:])
    gaps: npt.NDArray[np.bool_] = floor + at > before
    done = set(holed)
    for flow in holed:
        reached[begin[flow] : begin[flow + 1]] = flow << FLOW
    if gaps.any():
        for place in np.flatnonzero(gaps).tolist():
            flow = int(flow_of[place])
            if flow not in done:
                done.add(flow)
                reached[place : begin[flow + 1]] = before[place]
    return reached
