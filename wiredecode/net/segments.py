"""TCP segments of a batch as columns: what the header stage hands to reassembly."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wiredecode.arrays import Int64s, UInt64s

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


COLUMNS = (
    "row",
    "source_high",
    "source_low",
    "target_high",
    "target_low",
    "ports",
    "seq",
    "ack",
    "flags",
    "start",
    "captured",
    "length",
    "number",
    "time_ns",
    "ready",
    "ready_ns",
    "window",
    "header",
)
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
