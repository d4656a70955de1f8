"""TCP segments of a batch as columns: what the header stage hands to reassembly."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools, Int64s, UInt64s

MASK = (1 << 32) - 1
HALF = 1 << 31


def advance(seq: int, count: int) -> int:
    """The sequence number ``count`` bytes after ``seq``."""
    return (seq + count) & MASK


def distance(start: int, seq: int) -> int:
    """How far ``seq`` lies after ``start``: in [-2**31, 2**31), negative when it lies before."""
    return ((seq - start + HALF) & MASK) - HALF


FIN, SYN, RST, ACK = 1, 2, 4, 16

IPV6_FLOW = 1 << 32
"""Set in the ``ports`` column of an IPv6 segment: ::a.b.c.d is not a.b.c.d."""


@dataclass(slots=True)
class Segments:
    """One row per TCP segment, in packet order; a segment of a fragmented datagram has one row per fragment.

    The payload is ``buffer[start : start + captured]`` when ``start >= 0``, else ``extra[~start]``.
    """

    buffer: bytes
    row: Int64s
    """Row of the batch that made the segment complete."""
    source_high: UInt64s
    source_low: UInt64s
    """IP address as two halves; an IPv4 address is in the lower one."""
    target_high: UInt64s
    target_low: UInt64s
    ports: Int64s
    """Source port << 16 | destination port, plus `IPV6_FLOW`."""
    seq: Int64s
    ack: Int64s
    flags: Int64s
    start: Int64s
    captured: Int64s
    """Payload bytes captured."""
    length: Int64s
    """Payload bytes on the wire; more than ``captured`` when the snapshot length cut it."""
    number: Int64s
    time_ns: Int64s
    """Packet that carried the bytes."""
    ready: Int64s
    ready_ns: Int64s
    """Packet that made them available: the same, but for fragments the one that completed the datagram."""
    window: Int64s
    """Window as it stands in the header, not scaled."""
    header: Int64s
    """Where the TCP header starts in ``buffer``; -1 in a datagram of fragments."""
    extra: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seq)

    def payload(self, index: int) -> bytes:
        """The captured payload of row ``index``."""
        start = int(self.start[index])
        return self.buffer[start : start + int(self.captured[index])] if start >= 0 else self.extra[~start]


COLUMNS = tuple(each.name for each in fields(Segments))[1:-1]
"""The columns of `Segments` in order."""

Row = tuple[int, ...]
"""One row of `Segments`, in the order of `COLUMNS`."""

UNSIGNED = frozenset(("source_high", "source_low", "target_high", "target_low"))
"""Columns that need all 64 bits."""


def from_rows(buffer: bytes, rows: list[Row], extra: list[bytes]) -> Segments:
    """Columns of rows that were decoded one by one."""
    values = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    columns: dict[str, Any] = {
        name: np.array(value, np.uint64 if name in UNSIGNED else np.int64)
        for name, value in zip(COLUMNS, values, strict=True)
    }
    return Segments(buffer, extra=extra, **columns)


def merge(parts: list[Segments]) -> Segments:
    """Several sets of segments of one batch as one, in packet order."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.row for part in parts]), kind="stable")
    columns = {name: np.concatenate([getattr(part, name) for part in parts])[order] for name in COLUMNS}
    return Segments(parts[0].buffer, extra=[data for part in parts for data in part.extra], **columns)


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

    def rows_of(self, flow: int) -> Int64s:
        """All rows of a flow, in packet order."""
        return self.every[self.starts[flow] : self.starts[flow + 1]]


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
    names = segments.source_high, segments.source_low, segments.target_high, segments.target_low, segments.ports
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
    change = np.ones(len(order), bool)
    change[1:] = False
    for key in keys:
        ordered = key[order]
        change[1:] |= ordered[1:] != ordered[:-1]
    return change
