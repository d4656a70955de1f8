"""Connections dealt out to several processes: each reads the whole capture, and keeps the segments of its own.

All of them deal alike, for they see the same headers. So nothing has to be agreed upon, and no process has to hand
packets to another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from wiredecode.net.segments import COLUMNS, Segments

Uint64s = npt.NDArray[np.uint64]
Int64s = npt.NDArray[np.int64]

PORT_GROUPS = 1021
"""Ports are told apart modulo this: what a byte costs depends on its protocol, so each port is dealt evenly."""
PORT_WEIGHT = 2
"""Bytes of the same port count so many times more: that all have the same bytes in total matters less."""
CONNECTION_BYTES = 4096
"""A connection counts as so many bytes more than it has sent: one that was just opened will send some."""
MAX_FLOWS = 1 << 18
"""Pairs of endpoints remembered; those that come later are dealt by their hash, whatever they send."""

FACTORS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)


class Share:
    """The connections of process ``index`` of ``count``; those with one of the ports ``together`` have one owner."""

    def __init__(self, index: int, count: int, together: Collection[int] = ()) -> None:
        self.index, self.count = index, count
        self._together = np.array(sorted(together), np.int64)
        self._keys = np.empty(0, np.uint64)
        """Hashes of pairs of endpoints, sorted."""
        self._owners = np.empty(0, np.int64)
        self._loads = np.zeros((PORT_GROUPS, count), np.int64)
        """Bytes by port and owner."""
        self._keeper: int | None = None
        """Who has ``together``."""

    def foresee(self, parts: Sequence[Segments]) -> None:
        """Deal the connections of the first packets by what they send in all of them; before any are kept.

        The very first may have one packet each: that says little of who will send most.
        """
        if parts:
            columns = ((pairs(part), part.ports, part.length) for part in parts)
            self._deal(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def keep(self, segments: Segments) -> Segments:
        """The segments of its own connections; call it with all segments of the capture, in order."""
        if not len(segments):
            return segments
        keys, group = pairs(segments), groups(segments.ports)
        self._deal(keys, segments.ports, segments.length)
        owners = self._owners_of(keys)
        slots = group * self.count + owners
        sent = np.bincount(slots, segments.length, PORT_GROUPS * self.count)
        self._loads += sent.astype(np.int64).reshape(PORT_GROUPS, self.count)
        return chosen(segments, owners == self.index)

    def _owners_of(self, keys: Uint64s) -> Int64s:
        if not len(self._keys):
            return (keys % np.uint64(self.count)).astype(np.int64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        owners = self._owners[places]
        if len(self._keys) >= MAX_FLOWS:
            unknown = self._keys[places] != keys
            owners[unknown] = (keys[unknown] % np.uint64(self.count)).astype(np.int64)
        return owners

    def _deal(self, keys: Uint64s, ports: Int64s, length: Int64s) -> None:
        """Give those that were not seen before to whoever has least to do, the largest first."""
        if len(self._keys):
            places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            new = np.flatnonzero(self._keys[places] != keys)
        else:
            new = np.arange(len(keys))
        room = MAX_FLOWS - len(self._keys)
        if not len(new) or room <= 0:
            return
        found, first, inverse = np.unique(keys[new], return_index=True, return_inverse=True)
        sent = np.bincount(inverse, length[new]).astype(np.int64) + CONNECTION_BYTES
        rows = new[first]
        ports = ports[rows]
        bound = np.isin(ports >> 16 & 0xFFFF, self._together) | np.isin(ports & 0xFFFF, self._together)
        group = groups(ports).tolist()
        order = np.lexsort((first, -sent, ~bound))[:room]
        owners = np.empty(len(found), np.int64)
        loads, total = self._loads.copy(), self._loads.sum(axis=0)
        for each in order.tolist():
            port = group[each]
            owner = self._owner(total, loads[port], bound=bool(bound[each]))
            owners[each] = owner
            loads[port, owner] += sent[each]
            total[owner] += sent[each]
        for each in order.tolist():
            self._loads[group[each], owners[each]] += CONNECTION_BYTES
        keys = np.concatenate([self._keys, found[order]])
        sorting = np.argsort(keys)
        self._keys, self._owners = keys[sorting], np.concatenate([self._owners, owners[order]])[sorting]

    def _owner(self, total: Int64s, of_port: Int64s, *, bound: bool) -> int:
        if bound and self._keeper is not None:
            return self._keeper
        owner = int(np.argmin(total + PORT_WEIGHT * of_port))
        if bound:
            self._keeper = owner
        return owner


def groups(ports: Int64s) -> Int64s:
    """The port group of each pair of ports: of the lower one, most often the server's."""
    found: Int64s = np.minimum(ports >> 16 & 0xFFFF, ports & 0xFFFF) % PORT_GROUPS
    return found


def pairs(segments: Segments) -> Uint64s:
    """A hash of both endpoints, the same in both directions. If two pairs have the same, they have one owner."""
    ports = segments.ports
    source = _endpoint(segments.source_high, segments.source_low, (ports >> 16 & 0xFFFF).astype(np.uint64))
    target = _endpoint(segments.target_high, segments.target_low, (ports & 0xFFFF).astype(np.uint64))
    return source + target


def _endpoint(high: Uint64s, low: Uint64s, port: Uint64s) -> Uint64s:
    first, second, third, fourth = map(np.uint64, FACTORS)
    mixed = (low * first) ^ (port * second)
    if high.any():
        mixed ^= high * third
    spread: Uint64s = (mixed ^ mixed >> np.uint64(29)) * fourth
    return spread


def chosen(segments: Segments, mask: npt.NDArray[np.bool_]) -> Segments:
    if mask.all():
        return segments
    rows = np.flatnonzero(mask)
    columns: dict[str, Any] = {name: getattr(segments, name)[rows] for name in COLUMNS}
    if segments.ready is segments.number:  # no fragments, and quickly seen
        columns |= {"ready": columns["number"], "ready_ns": columns["time_ns"]}
    return Segments(segments.buffer, extra=segments.extra, **columns)
