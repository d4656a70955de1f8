"""The stage between reassembly and dissection: events of connections in TLS whose secrets are known, in clear."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from wiredecode.net.types import Chunk, Connection, End, Event, Gap, Note
from wiredecode.tls.connection import TlsConnection
from wiredecode.tls.half import Half
from wiredecode.tls.keylog import KeyLog

HELLO = 43
"""Bytes up to the end of the client's random: record header 5, message header 4, version 2, random 32."""


@dataclass(slots=True, eq=False)
class Undecided:
    """A connection that may turn out to speak TLS."""

    ends: list[int] = field(default_factory=lambda: [0, 0])
    """Stream offset up to which each direction was seen."""
    held: list[Event] = field(default_factory=list)
    """What may be the beginning of a ClientHello, and what came behind it."""


class Decryption:
    """Opens what it has the secrets of; everything else passes unchanged."""

    def __init__(self, keys: KeyLog) -> None:
        self.keys = keys
        self._known: dict[Connection, TlsConnection | Undecided | None] = {}

    def open(self, events: list[Event]) -> list[Event]:
        """Events as reassembly hands them on, and as dissection takes them."""
        out: list[Event] = []
        by_connection: dict[Connection, list[Event]] = {}
        for event in events:
            known = self._known.setdefault(event.direction.connection, Undecided())
            if known is None or isinstance(event, Note):
                out.append(event)
            else:
                by_connection.setdefault(event.direction.connection, []).append(event)
        for connection, own in by_connection.items():
            known = self._known[connection]
            if isinstance(known, Undecided):
                self._decide(connection, known, own, out)
            elif known is not None:
                _feed(known, own, out)
        return out

    def forget(self, connection: Connection) -> list[Event]:
        """Nothing more comes of a connection: what was held of it."""
        known = self._known.pop(connection, None)
        if isinstance(known, Undecided):
            return known.held
        for half in known.halves if known is not None else ():
            rest = half.available() + sum(len(item.data) for item in half.queue if isinstance(item, Chunk))
            half.drop(rest)
        return []

    def _decide(self, connection: Connection, state: Undecided, events: list[Event], out: list[Event]) -> None:
        events = state.held + events
        state.held = []
        starts = [b"", b""]
        for event in events:
            side = event.direction.side
            if isinstance(event, Chunk) and event.offset == len(starts[side]) < HELLO:
                starts[side] += event.data[: HELLO - len(starts[side])]
        for side, start in enumerate(starts):
            if start[:2] != b"\x16\x03"[: len(start)] or not start:
                continue
            if len(start) < HELLO:
                state.held = events
                return
            if start[5] == 1 and self.keys.knows(start[11:43]):
                self._known[connection] = self._begin(connection, side, start[11:43], state.ends, events, out)
                return
            break
        out += events
        for event in events:
            if isinstance(event, Chunk):
                state.ends[event.direction.side] = event.offset + len(event.data)
            elif isinstance(event, Gap):
                state.ends[event.direction.side] = event.offset + event.length
        if all(state.ends):
            self._known[connection] = None

    def _begin(
        self, connection: Connection, side: int, random: bytes, ends: list[int], events: list[Event], out: list[Event]
    ) -> TlsConnection:
        first, second = (Half(each, ends[each.side]) for each in connection.directions)
        found = TlsConnection(self.keys, side, random, (first, second))
        _feed(found, events, out)
        return found


def _feed(tls: TlsConnection, events: list[Event], out: list[Event]) -> None:
    """Hand on the events of one connection, in order of each direction."""
    for event in events:
        if isinstance(event, Chunk | Gap):
            tls.halves[event.direction.side].queue.append(event)
    tls.pump(out)
    for event in events:
        if isinstance(event, End):
            half = tls.halves[event.direction.side]
            out.append(replace(event, offset=half.offset))
