"""Segments of a batch grouped by flow (one direction of a 4-tuple), without a look at each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools, Int64s
from wiredecode.net.segments import FIN, IPV6_FLOW, RST, Segments

FlowKey = tuple[int, int, int, int, int]
"""One direction of a 4-tuple: halves of source and destination address, ports, as in `segments.Segments`."""


def reverse(key: FlowKey) -> FlowKey:
    """The flow of the other direction."""
    source_high, source_low, target_high, target_low, ports = key
    swapped = (ports & 0xFFFF) << 16 | (ports >> 16) & 0xFFFF | ports & IPV6_FLOW
    return target_high, target_low, source_high, source_low, swapped


@dataclass(slots=True)
class Flows:
    """Segments of a batch grouped by flow: flow f has the places ``begin[f] : begin[f + 1]`` of ``rows``."""

    keys: list[FlowKey]
    first: list[int]
    last: list[int]
    """First and last row of each flow, pure ACKs included."""
    rows: Int64s
    """Rows with payload, FIN or RST, in packet order within a flow."""
    begin: list[int]
    flow_of: Int64s
    """Flow of every place in ``rows``."""
    every: Int64s
    """All rows, pure ACKs included, by flow and in packet order: flow f has ``starts[f] : starts[f + 1]``."""
    starts: Int64s


def group_by_flow(segments: Segments) -> Flows:
    """Group by 4-tuple: one stable sort of a hash, checked, for equal hashes of two flows must do no harm."""
    keys = (
        segments.source_low,
        segments.target_low,
        segments.ports.astype(np.uint64),
        segments.source_high,
        segments.target_high,
    )
    hashed = keys[0] * np.uint64(0x9E3779B97F4A7C15) ^ keys[1] * np.uint64(0xC2B2AE3D27D4EB4F)
    hashed = (hashed ^ hashed >> np.uint64(29)) * np.uint64(0x165667B19E3779F9) + keys[2] * np.uint64(
        0x27D4EB2F165667C5
    )
    hashed ^= keys[3] * np.uint64(0xFF51AFD7ED558CCD) + keys[4] * np.uint64(0xC4CEB9FE1A85EC53)
    order = np.argsort(hashed, kind="stable")
    change = _changes(keys, order)
    if np.count_nonzero(change) != 1 + np.count_nonzero(np.diff(hashed[order])):
        order = np.lexsort(keys)
        change = _changes(keys, order)
    starts = np.flatnonzero(change)
    first, last = order[starts], order[np.append(starts[1:], len(order)) - 1]
    needed = (segments.length > 0) | (segments.flags & (FIN | RST) != 0)
    flow_of = np.cumsum(change) - 1
    kept = needed[order]
    flow_of = flow_of[kept]
    names = (
        segments.source_high,
        segments.source_low,
        segments.target_high,
        segments.target_low,
        segments.ports,
    )
    return Flows(
        keys=list(zip(*(column[first].tolist() for column in names), strict=True)),
        first=first.tolist(),
        last=last.tolist(),
        rows=order[kept],
        begin=np.searchsorted(flow_of, np.arange(len(starts) + 1)).tolist(),
        flow_of=flow_of,
        every=order,
        starts=np.append(starts, len(order)),
    )


def _changes(keys: tuple[npt.NDArray[np.uint64], ...], order: Int64s) -> Bools:
    """Where, in sorted order, another flow begins."""
    change = np.ones(len(order), bool)
    change[1:] = False
    for key in keys:
        ordered = key[order]
        change[1:] |= ordered[1:] != ordered[:-1]
    return change
