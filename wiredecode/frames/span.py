"""Stretches of a stream that are no plain frame: bytes are missing, nothing decodes them, or nobody will see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from wiredecode.frames.frame import Finding
from wiredecode.frames.provenance import Provenance
from wiredecode.net.types import Connection

UNDECODED_SPAN = 1024 * 1024
"""Longest span reported as one undecoded record."""
UNDECODED_SHOWN = 4096
"""Bytes of it that are kept to be looked at."""


@dataclass(slots=True, eq=False)
class Skipped:
    """Whole frames that nobody will see, already counted: only their places in the capture order matter."""

    connection: Connection
    ready: list[int]

    def __len__(self) -> int:
        return len(self.ready)


@dataclass(slots=True)
class Span:
    """A stretch of a stream that becomes one record: a frame with holes, or bytes that could not be decoded."""

    offset: int
    data: bytes = b""
    captured: int = 0
    missing: int = 0
    left: int = 0
    """Of a frame: bytes still to come."""
    packets: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """Where in the stream what each of them carries begins."""
    ready: int = 0
    time_ns: int = 0
    first_ns: int | None = None
    findings: list[Finding] = field(default_factory=list)

    def add(self, pieces: Provenance, offset: int, size: int) -> None:
        """Add ``size`` captured bytes at a stream offset: their packets and times."""
        low = pieces.holding(offset)
        high = pieces.holding(offset + size - 1, low)
        carriers = pieces.packet[low : high + 1]
        begins = [offset, *pieces.ends[low:high]]
        if self.packets and carriers[0] == self.packets[-1]:
            del carriers[0], begins[0]
        self.begins += begins
        self.packets.extend(carriers)
        if self.first_ns is None:
            self.first_ns = pieces.time_ns[low]
        self.ready, self.time_ns = pieces.ready[high], pieces.ready_ns[high]
        self.captured += size
