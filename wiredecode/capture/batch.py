"""The unit in which packets travel: a buffer and its columns, never an object per packet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from wiredecode.arrays import Int32s, Int64s

COLUMNS = ("start", "captured", "original", "time_ns", "linktype", "interface", "number")
"""The columns of a batch, in order."""


@dataclass(slots=True, frozen=True)
class PacketBatch:
    """Consecutive packets of a capture: one read-only buffer and one column per property.

    All columns have the same length n. Packet i lies at
    ``buffer[start[i] : start[i] + captured[i]]``, link layer header first.
    """

    buffer: bytes
    start: Int64s
    """Offset of the packet's first captured byte in ``buffer``."""
    captured: Int64s
    """Bytes of the packet that are in ``buffer`` (the snapshot length may have cut it)."""
    original: Int64s
    """Bytes of the packet on the wire."""
    time_ns: Int64s
    """Nanoseconds since the Unix epoch, UTC."""
    linktype: Int32s
    """LINKTYPE_ value (https://www.tcpdump.org/linktypes.html)."""
    interface: Int32s
    """Interface index, counted over all files and sections of the capture."""
    number: Int64s
    """1, 2, 3 ... over the whole capture, as Wireshark numbers frames."""
    origin: int | None = None
    """Where ``buffer`` begins in its file; None: it is compressed, or not of one file."""
    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    """TLS key logs that the capture contained up to now, with the first batch after them."""

    names: tuple[tuple[str, str], ...] = ()
    """Addresses and their names, of name-resolution blocks, passed on in the same way."""

    def __len__(self) -> int:
        return len(self.start)

    def part(self, begin: int, end: int) -> PacketBatch:
        """Packets ``begin`` up to ``end``, over the same buffer."""
        return self.select(slice(begin, end))

    def select(self, chosen: slice | Int64s) -> PacketBatch:
        """The packets at some places, over the same buffer."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in COLUMNS})

    @classmethod
    def from_packets(
        cls,
        packets: Iterable[tuple[int, bytes]],
        linktype: int = 1,
        first_number: int = 1,
        original: Iterable[int] | None = None,
    ) -> PacketBatch:
        """Make a batch of ``(time_ns, bytes)`` pairs, as tests and live sources need it."""
        pairs = list(packets)
        data = [packet for _, packet in pairs]
        captured = np.fromiter((len(packet) for packet in data), np.int64, len(data))
        count = len(data)
        return cls(
            buffer=b"".join(data),
            start=np.concatenate([[0], np.cumsum(captured)[:-1]]).astype(np.int64) if count else captured,
            captured=captured,
            original=captured if original is None else np.fromiter(original, np.int64, count),
            time_ns=np.fromiter((time for time, _ in pairs), np.int64, count),
            linktype=np.full(count, linktype, np.int32),
            interface=np.zeros(count, np.int32),
            number=np.arange(first_number, first_number + count, dtype=np.int64),
        )
