"""TCP segments of a batch as columns, from the header stage to reassembly; sequence numbers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from wiredecode.arrays import Int64s, UInt64s
from wiredecode.dataclasses import dataclass, field, fields

MASK = (1 << 32) - 1
HALF = 1 << 31


def advance(seq: int, count: int) -> int:
    """The sequence number ``count`` bytes after ``seq``."""
    return (seq + count) & MASK


def distance(start: int, seq: int) -> int:
    """Distance of ``seq`` after ``start``: in [-2**31, 2**31), negative if it lies before."""
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
    """Payload bytes on the wire; more than ``captured`` if the snapshot length truncated it."""
    number: Int64s
    time_ns: Int64s
    """Number and time of the packet that carried the bytes."""
    completed_by: Int64s
    completed_ns: Int64s
    """Number and time of the packet that completed them: another one for fragments of a datagram."""
    window: Int64s
    """Window in the header, not scaled."""
    header: Int64s
    """Where the TCP header starts in ``buffer``, up to ``start`` as far as captured; -1 in a datagram of fragments."""
    extra: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.seq)

    def flows(self) -> "Iterator[FlowKey]":
        """The flow of each row."""
        return zip(*(getattr(self, name).tolist() for name in FLOW), strict=True)


FLOW = ("source_high", "source_low", "target_high", "target_low", "ports")
"""The columns of a :data:`FlowKey`."""
COLUMNS = tuple(each.name for each in fields(Segments))[1:-1]

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


class SegmentFacts(NamedTuple):
    """Facts of one packet; None: not known. Times are ns."""

    flags: int | None = None
    length: int | None = None
    """Payload bytes on the wire."""
    seq: int | None = None
    ack: int | None = None
    next_seq: int | None = None
    """Numbers since the beginning of the connection: those of the first byte are 1."""
    seq_raw: int | None = None
    ack_raw: int | None = None
    window: int | None = None
    """Bytes: scaled, if the SYN was captured."""
    window_raw: int | None = None
    delta_ns: int | None = None
    """Since the packet before in the capture, ..."""
    stream_delta_ns: int | None = None
    """... since the one before of the connection, ..."""
    stream_ns: int | None = None
    """... since its first one."""
    rtt_ns: int | None = None
    """Of an ACK: since the segment that it acknowledges was first sent."""
    ethernet: int | None = None
    """1 in Ethernet frames."""


NO_FACTS = SegmentFacts()
