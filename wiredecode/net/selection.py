"""Finds the packets of some connections: for a second pass over a capture, after all of it was reassembled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import Limits
from wiredecode.net.segments import ACK, SYN, FlowKey, reverse
from wiredecode.net.types import Connection


class ConnectionPackets:
    """Feed all batches in packet order; ACKs, handshakes and ends are among the packets, repeated segments too.

    ``connections``: out of a reassembly of the same capture to its end, since a connection lasts until the packet
    at which it was forgotten.
    """

    def __init__(self, connections: Iterable[Connection], last: int, limits: Limits) -> None:
        """``last``: the number of the last packet of the capture."""
        self._last = last
        self._begins = {connection.first: connection for connection in connections}
        self._flows: dict[FlowKey, Connection] = {}
        self._reader = HeaderReader(limits, Counter(), Counter())

    def rows(self, batch: PacketBatch) -> Int64s:
        """Places in the batch of the packets that belong to the connections."""
        segments = self._reader.read(batch)
        names = ("source_high", "source_low", "target_high", "target_low", "ports")
        columns = [getattr(segments, name).tolist() for name in names]
        found = set()
        for *key, ready, flags, row in zip(
            *columns, segments.ready.tolist(), segments.flags.tolist(), segments.row.tolist(), strict=True
        ):
            flow: FlowKey = tuple(key)
            if ready in self._begins:
                self._flows[flow] = self._flows[reverse(flow)] = self._begins.pop(ready)
            connection = self._flows.get(flow)
            if connection is not None and self._lasts(connection, ready, flags):
                found.add(row)
        return np.array(sorted(found), np.int64)

    def _lasts(self, connection: Connection, packet: int, flags: int) -> bool:
        """Whether the connection is not over at this packet of its flow; the last of the capture ends it, too."""
        if packet == connection.first or packet < connection.ended:
            return True
        return packet == connection.ended == self._last and flags & (SYN | ACK) != SYN
