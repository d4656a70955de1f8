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


def distances(start: Int64s, seq: Int64s) -> Int64s:
    """The same of columns."""
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


class ByConnection:
    """The segments of a batch, by connection and in packet order within each; a place is an index of these columns."""

    def __init__(self, segments: Segments) -> None:
        every, starts = _by_flow(segments)
        names = segments.source_high, segments.source_low, segments.target_high, segments.target_low, segments.ports
        first = every[starts]
        self.keys: list[FlowKey] = list(zip(*(column[first].tolist() for column in names), strict=True))
        """The flows with segments here."""
        flows = {key: flow for flow, key in enumerate(self.keys)}
        other = [flows.get(reverse(key), -1) for key in self.keys]
        for flow in range(len(other)):
            if other[flow] < 0:
                other[flow] = len(other)
                other.append(flow)
        self.other = np.array(other, np.int64)
        """By flow, the opposite one; those without segments here come after all others."""
        flow_of = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(every))))
        owner = np.minimum(flow_of, self.other[flow_of])
        order = np.argsort(owner * len(every) + every)
        self.row = every[order]
        self.flow = flow_of[order]
        self.conn = owner[order]
        """Of each place its connection: the lower one of its flows."""
        self.lower = self.flow == self.conn
        self.first = np.flatnonzero(np.append(True, self.conn[1:] != self.conn[:-1]))
        """Of each connection its first place."""
        self.sizes = np.diff(np.append(self.first, len(order)))
        self.begin = np.repeat(self.first, self.sizes)
        """Of each place the first one of its connection."""

    def sent(self, length: Int64s) -> tuple[Int64s, Int64s]:
        """Of each place the sums of ``length`` over the places before it, of its own side and of the other one."""
        sums = []
        for which in (self.lower, ~self.lower):
            own = np.where(which, length, 0)
            before = np.cumsum(own) - own
            sums.append(before - before[self.begin])
        return np.where(self.lower, *sums), np.where(self.lower, *sums[::-1])


def _by_flow(segments: Segments) -> tuple[Int64s, Int64s]:
    """All rows by 4-tuple, in packet order within each, and where each begins.

    One stable sort of a hash, checked, for equal hashes of two flows must do no harm.
    """
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
    return order, np.flatnonzero(change)


def _changes(keys: tuple[npt.NDArray[np.uint64], ...], order: Int64s) -> Bools:
    change = np.ones(len(order), bool)
    change[1:] = False
    for key in keys:
        ordered = key[order]
        change[1:] |= ordered[1:] != ordered[:-1]
    return change
