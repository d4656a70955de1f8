"""TCP analysis of a capture: which connection each segment belongs to, and the analysis of each connection."""

from __future__ import annotations

from typing import Any

from wiredecode.arrays import Bools
from wiredecode.net.analysis import ConnectionAnalysis, SegmentHeader, options
from wiredecode.net.bulk_analysis import COLUMNS_PAY_FROM, BulkAnalysis
from wiredecode.net.flows import FlowKey, Flows, reverse
from wiredecode.net.health import ConnectionHealth
from wiredecode.net.segments import ACK, SYN, Segments
from wiredecode.net.types import Connection

NEEDED = (
    *("source_high", "source_low", "target_high", "target_low", "ports", "number", "time_ns", "seq", "ack", "flags"),
    *("length", "window", "ready", "header"),
)
"""Columns of `Segments`."""
OWNED = NEEDED[:6]
"""The key of the flow, and the packet."""


class Analyser:
    """Analyses the connections of a capture: each gets a `ConnectionHealth`, which grows packet by packet."""

    def __init__(self) -> None:
        self._flows: dict[FlowKey, tuple[ConnectionAnalysis, int]] = {}
        self._opened: dict[int, tuple[ConnectionAnalysis, FlowKey]] = {}
        """By number of their first packet: connections whose packets come with the next `analyse`."""
        self._closed: list[tuple[ConnectionAnalysis, FlowKey]] = []
        self.kinds: dict[int, int] = {}
        """Packet number to kinds, of the packets since `begin` that are of any."""
        self.connections: dict[int, int] | None = None
        """Packet number to number of its connection, of those packets; None: nobody wants to know."""

    def begin(self) -> None:
        """The next packets come."""
        self.kinds = {}
        if self.connections is not None:
            self.connections = {}

    def open(self, connection: Connection, key: FlowKey) -> None:
        """A connection begins; its first packet was sent on flow ``key``."""
        connection.health = ConnectionHealth()
        self._opened[connection.first] = ConnectionAnalysis(connection.health, connection.number), key

    def close(self, connection: Connection, key: FlowKey) -> None:
        """Nothing more of it comes after the next `analyse`."""
        found = self._opened.get(connection.first) or self._flows.get(key)
        if found is not None and found[0].health is connection.health:
            self._closed.append((found[0], key))

    def analyse(self, segments: Segments, by_flow: Flows | None = None, copies: Bools | None = None) -> None:
        """Analyse the segments of the next packets, in packet order; many of them as columns where they are grouped.

        ``copies`` are packets that were seen before: nothing that TCP did.
        """
        flows, opened, buffer = self._flows, self._opened, segments.buffer
        left: Any = slice(None)
        if copies is not None:
            left = ~copies
        elif by_flow is not None and len(segments) >= COLUMNS_PAY_FROM:
            bulk = BulkAnalysis(segments, by_flow, flows)
            left = bulk.analyse({key for _, key in opened.values()})
            self.kinds.update(bulk.kinds)
            if self.connections is not None:
                self.connections.update(bulk.owners(~left))
        columns = (getattr(segments, name)[left].tolist() for name in NEEDED)
        for high, low, other_high, other_low, ports, *row, ready, header in zip(*columns, strict=True):
            key = high, low, other_high, other_low, ports
            if ready in opened and opened[ready][1] == key:
                conversation, _ = opened.pop(ready)
                flows[reverse(key)] = conversation, 1
                flows[key] = conversation, 0
            conversation, side = flows[key]
            flags = row[4]
            offered = options(buffer[header : header + 60]) if flags & SYN and header >= 0 else ()
            if self.connections is not None:
                self.connections[row[0]] = conversation.number
            if conversation.sides[1 - side].repeated and flags & ACK and header >= 0:
                conversation.acknowledges(side, row[1], row[3], buffer[header : header + 60])
            kinds = conversation.analyse(side, SegmentHeader(*row, *offered))
            if kinds:
                self.kinds[row[0]] = kinds
        if copies is not None and self.connections is not None:
            self._own(segments, copies)
        self.finish()

    def _own(self, segments: Segments, copies: Bools) -> None:
        """Copies are packets of their connections, too."""
        assert self.connections is not None
        for *key, packet in zip(*(getattr(segments, name)[copies].tolist() for name in OWNED), strict=True):
            owner = self._flows.get(tuple(key))
            if owner is not None:
                self.connections[packet] = owner[0].number

    def finish(self) -> None:
        """Let go of the connections that are over."""
        flows = self._flows
        for conversation, key in self._closed:
            conversation.finish()
            if flows.get(key, (None, 0))[0] is conversation:
                del flows[key]
                flows.pop(reverse(key), None)
        self._closed.clear()
