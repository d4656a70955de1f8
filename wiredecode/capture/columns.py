"""Shared by the file formats: packet headers as columns, and time stamps as nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Int32s, Int64s

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
