"""Connections dealt out to parts of a cluster, which see only the packets that are sent to them.

Both directions of a connection, and all its incarnations, are in one bucket: it follows from the two endpoints alone.
Connections that know of each other (docs/how-it-works.md, "Map and reduce") are linked by notes, or in one bucket too,
by their ports.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from wiredecode.arrays import Bools, Int32s, Int64s, UInt64s
from wiredecode.net.segments import COLUMNS, Segments

LINKED = 64
"""Most buckets of linked connections: each gets the notes of all others."""
SLOTS = 4096
PACKET_BYTES = 500
"""Added to the length of each packet."""
FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class Buckets:
    """``count`` buckets. ``sessions``: ports whose connections know of each other, and their protocol.

    ``linked``: notes link the connections of one protocol (:mod:`wiredecode.dissect.following`), which are in up to
    :data:`LINKED` buckets; else they are in one. ``large``: buckets of large connections, by :meth:`keys`; hashes
    decide on others.
    """

    def __init__(
        self,
        count: int,
        sessions: Mapping[int, str],
        *,
        linked: bool = False,
        large: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        self.count = count
        self._linked = min(count, LINKED) if linked else None
        self._sessions = tuple(sessions.items())
        self._large = np.full(2 * SLOTS, -1, np.int32) if large else None
        if self._large is not None:
            self._large[[*large]] = [*large.values()]

    def of(self, segments: Segments) -> Int32s:
        spread, names = self._spread(segments)
        buckets = (spread % np.uint64(self.count)).astype(np.int32)
        if self._linked is not None:
            rows = np.flatnonzero(names)
            buckets[rows] = spread[rows] % np.uint64(self._linked)
        if self._large is not None:
            found = self._large[_keys(spread, names)]
            buckets = np.where(found < 0, buckets, found)
        return buckets

    def keys(self, segments: Segments) -> Int64s:
        """A number per connection below ``2 * SLOTS``; odd if it may know of others, the same if they are together."""
        return _keys(*self._spread(segments))

    def have_session(self, segments: Segments) -> Bools:
        """Whether each segment is of a connection that may know of others, by its ports."""
        return _names(segments, self._sessions) > 0

    def _spread(self, segments: Segments) -> tuple[UInt64s, UInt64s]:
        """A hash per connection, the same of those that are together; and that of its protocol, 0 without a session."""
        spread, names = pairs(segments), _names(segments, self._sessions)
        return (spread if self._linked else np.where(names > 0, names, spread)), names


class Bucket:
    """One bucket: what :class:`wiredecode.net.network.Network` keeps of a capture."""

    def __init__(self, buckets: Buckets, number: int, *, sessions_only: bool = False) -> None:
        self._buckets, self.number, self._sessions_only = buckets, number, sessions_only

    def keep(self, segments: Segments) -> Segments:
        """Its own segments: IP fragments are sent to all buckets."""
        own = self._buckets.of(segments) == self.number
        return select(segments, own & self._buckets.have_session(segments) if self._sessions_only else own)


class Dealt:
    """The connections of one of several processes, which all see the same packets.

    A new connection goes to the process that has least to do: bytes until then and connections count alike, as their
    beginnings say little. ``speeds``: how much each process does, relative to others. ``together``: ports of
    connections that one process gets, by protocol.
    """

    def __init__(
        self, number: int, speeds: Sequence[float], together: Mapping[int, str] = MappingProxyType({})
    ) -> None:
        self._together = tuple(together.items())
        self.number, self._speeds = number, np.array(speeds)
        self._loads, self._counts = np.zeros(len(speeds)), np.zeros(len(speeds))
        """Bytes and connections of each process, by its speed."""
        self._owners = np.full(SLOTS, -1, np.int64)
        """The process of each slot; a connection has the slot of its endpoints."""

    def keep(self, segments: Segments) -> Segments:
        """Its own segments."""
        names = _names(segments, self._together)
        slots = _slots(np.where(names > 0, names, pairs(segments)))
        some, index = np.unique(slots, return_inverse=True)
        sizes = np.bincount(index, segments.length + PACKET_BYTES)
        new = np.flatnonzero(self._owners[some] < 0)
        for each in new[np.argsort(-sizes[new], kind="stable")].tolist():
            busy = self._loads / max(self._loads.sum(), 1.0) + self._counts / max(self._counts.sum(), 1.0)
            owner = self._owners[some[each]] = int(np.argmin(busy))
            self._loads[owner] += sizes[each] / self._speeds[owner]
            self._counts[owner] += 1 / self._speeds[owner]
            sizes[each] = 0
        owners = self._owners[some]
        self._loads += np.bincount(owners, sizes, minlength=len(self._speeds)) / self._speeds
        return select(segments, owners[index] == self.number)


@lru_cache(maxsize=8)
def _by_port(sessions: Iterable[tuple[int, str]]) -> UInt64s:
    names: UInt64s = np.zeros(1 << 16, np.uint64)
    for port, name in sessions:
        names[port] = crc32(name.encode())
    return names


def _names(segments: Segments, sessions: tuple[tuple[int, str], ...]) -> UInt64s:
    """A hash of the protocol whose connections know of each other, by the ports of each segment; 0: none."""
    by_port = _by_port(sessions)
    names: UInt64s = np.maximum(by_port[segments.ports >> 16 & 0xFFFF], by_port[segments.ports & 0xFFFF])
    return names


def _keys(spread: UInt64s, names: UInt64s) -> Int64s:
    return _slots(spread) * 2 + (names > 0)


def _slots(spread: UInt64s) -> Int64s:
    slots: Int64s = (spread >> np.uint64(20)).astype(np.int64) % SLOTS
    return slots


def pairs(segments: Segments) -> UInt64s:
    """A hash of both endpoints, the same in both directions. If two pairs have the same, they have one bucket."""
    ports = segments.ports
    source = _endpoint(segments.source_high, segments.source_low, (ports >> 16 & 0xFFFF).astype(np.uint64))
    target = _endpoint(segments.target_high, segments.target_low, (ports & 0xFFFF).astype(np.uint64))
    return source + target


def _endpoint(high: UInt64s, low: UInt64s, port: UInt64s) -> UInt64s:
    first, second, third, fourth = map(np.uint64, FACTORS)
    mixed = (low * first) ^ (port * second)
    if high.any():
        mixed ^= high * third
    spread: UInt64s = (mixed ^ mixed >> np.uint64(29)) * fourth
    return spread


def select(segments: Segments, mask: npt.NDArray[np.bool_]) -> Segments:
    """The segments where ``mask`` is true."""
    if mask.all():
        return segments
    rows = np.flatnonzero(mask)
    columns: dict[str, Any] = {name: getattr(segments, name)[rows] for name in COLUMNS}
    if segments.completed_by is segments.number:  # no fragments, and quickly seen
        columns |= {"completed_by": columns["number"], "completed_ns": columns["time_ns"]}
    return Segments(segments.buffer, extra=segments.extra, **columns)
