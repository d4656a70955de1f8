"""Packets in batches: one buffer and columns of numbers, without an object per packet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int32s, Int64s
from wiredecode.dataclasses import dataclass, field, replace

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

    notes: tuple[Any, ...] = field(default=(), repr=False)
    """Notes of frames that other processes decode (:class:`wiredecode.dissect.following.PacketNotes`)."""

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


NS_PER_SECOND = 1_000_000_000
_TIME_MAX = 2**63 - 1
_TIME_MIN = -(2**63)
_FAST_MAX = 2**62


class Damage(NamedTuple):
    """Why a file cannot be read any further."""

    what: str
    offset: int
    """Offset in the buffer that was being parsed."""
    advice: str = "everything before it has been read"


class Columns(NamedTuple):
    """The columns of a PacketBatch but for the packet number, in its order; interfaces counted within the file."""

    start: Int64s
    captured: Int64s
    original: Int64s
    time_ns: Int64s
    linktype: Int32s
    interface: Int32s


@dataclass(slots=True)
class Parsed:
    """Packets that a format found in a buffer, the position reached, and the bytes needed to continue."""

    columns: Columns | None
    position: int
    """Everything before this offset of the buffer has been dealt with."""
    need: int
    """Bytes that must lie in the buffer from ``position`` on for any progress (at least 1)."""
    damage: Damage | None = None


def gather(buffer: bytes, at: Int64s, dtype: str) -> npt.NDArray[np.int64]:
    """Read an integer of type ``dtype`` at each (unaligned) offset: n offsets give n values."""
    kind = np.dtype(dtype)
    count = len(buffer) - kind.itemsize + 1
    every: npt.NDArray[np.int64] = np.ndarray((max(count, 0),), kind, buffer, strides=(1,))
    return every[at].astype(np.int64)


def to_ns(ticks: npt.NDArray[np.uint64], resolution: int, offset: int = 0) -> Int64s:
    """Nanoseconds from ticks of pcapng's if_tsresol ``resolution`` plus ``offset`` seconds, rounded down.

    Times beyond the 64-bit range become the largest (smallest) representable one.
    """
    exponent = resolution & 0x7F
    binary = bool(resolution & 0x80)
    if not len(ticks):
        return np.zeros(0, np.int64)
    usual = not binary and exponent <= 9 and abs(offset) < 2**32
    if usual and int(ticks.max()) * 10 ** (9 - exponent) < _FAST_MAX:
        return (ticks * np.uint64(10 ** (9 - exponent))).astype(np.int64) + offset * NS_PER_SECOND
    divisor = 2**exponent if binary else 10**exponent
    exact = (tick * NS_PER_SECOND // divisor + offset * NS_PER_SECOND for tick in ticks.tolist())
    return np.fromiter((min(max(time, _TIME_MIN), _TIME_MAX) for time in exact), np.int64, len(ticks))
