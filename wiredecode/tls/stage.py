"""The stage between reassembly and dissection: events of connections in TLS whose secrets are known, in clear."""

from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.net.types import Chunk, Connection, End, Event, Gap, Note
from wiredecode.tls.connection import MAX_GUESSES, RecordKeys, TlsConnection
from wiredecode.tls.half import HEADER, MAX_RECORD, MIN_RECORD, Half, Record
from wiredecode.tls.keylog import KeyLog

START = b"\x17\x03\x03"
"""So begins every record of TLS 1.3 after the handshake."""
MAX_GUESSES_IN_ALL = 1 << 20
"""Secrets that are tried for a capture, where its handshakes were not captured."""
PIECES, HELD_PIECES = 8, 64
"""Packets of a connection in which a record is looked for, and that may wait until it is whole."""
TLS_1_3_SUITES = 0x13
"""First byte of their numbers."""


class TriedRecord(NamedTuple):
    """A record that may be tried, and the packet with which it is whole."""

    side: int
    data: bytes
    ready: int


def first_record(events: list[Event]) -> TriedRecord | int | None:
    """The first whole record at the start of a packet; or logical time by which there is none; None: undecided."""
    pieces: list[tuple[int, int, int, Chunk]] = []
    for event in events:
        if isinstance(event, Chunk):
            starts = [event.offset, *event.ends.tolist()]
            pieces += (
                (ready, event.direction.side, starts[at], event) for at, ready in enumerate(event.ready.tolist())
            )
    pieces.sort(key=lambda piece: piece[:3])
    for ready, side, start, chunk in pieces[:PIECES]:
        if chunk.data.startswith(START, start - chunk.offset):
            record = _record(events, side, start)
            if record is not None:
                return record
            return ready if len(pieces) > HELD_PIECES else None
    return pieces[PIECES - 1][0] if len(pieces) >= PIECES else None


def _record(events: list[Event], side: int, start: int) -> TriedRecord | None:
    data, ends, readies = b"", [], []
    for event in events:
        if isinstance(event, Chunk) and event.direction.side == side and event.offset + len(event.data) > start:
            if event.offset > start + len(data):
                break
            data += event.data[max(start - event.offset, 0) :]
            ends += event.ends.tolist()
            readies += event.ready.tolist()
    size = HEADER + int.from_bytes(data[3:HEADER])
    if not MIN_RECORD <= size <= min(MAX_RECORD + HEADER, len(data)):
        return None
    return TriedRecord(side, data[:size], readies[bisect_left(ends, start + size)])


def guess(keys: KeyLog, record: bytes, most: int) -> tuple[RecordKeys | None, int]:
    """The session that opens a record, by trying; and how often that was done, at most ``most`` times."""
    traffic = keys.traffic()
    if not traffic:
        return None, 0
    from cryptography.exceptions import InvalidTag

    from wiredecode.tls.ciphers import SUITES, opener_1_3

    header, body = record[:HEADER], record[HEADER:]
    likely = []
    for label, random, secret in traffic:
        for number, suite in SUITES.items():
            if number >> 8 == TLS_1_3_SUITES and suite.prf().digest_size == len(secret):
                session = RecordKeys(random, number, secret, label.startswith("CLIENT"), 0)
                likely.append((opener_1_3(suite, secret).open, session))
    tried = 0
    for sequence in range(most // len(likely) if likely else 0):
        for attempt, session in likely:
            tried += 1
            try:
                attempt(sequence, header, body)
            except (InvalidTag, ValueError):
                continue
            return session._replace(sequence=sequence), tried
    return None, tried


def known_at(events: list[Event], packet: int) -> list[Event]:
    """Events with ``ready`` at logical time ``packet`` or later."""
    delayed: list[Event] = []
    for event in events:
        if isinstance(event, Chunk):
            event = replace(event, ready=np.maximum(event.ready, packet))
        elif not isinstance(event, Note):
            event = replace(event, ready=max(event.ready, packet))
        delayed.append(event)
    return delayed


RECORD = b"\x16\x03"
"""A handshake record begins so."""
ANSWERS = (b"", RECORD[:1], RECORD, b"\x15", b"\x15\x03")
"""So begins what answers a ClientHello, as far as it is there: a handshake, or an alert."""
MAX_HELD = 64
"""Events that wait for secrets that may still be written."""
HELLO = 43
"""Bytes up to the end of the client's random: record header 5, message header 4, version 2, random 32."""


@dataclass(slots=True, eq=False)
class MaybeTls:
    """A connection that may turn out to speak TLS."""

    ends: list[int] = field(default_factory=lambda: [0, 0])
    """Stream offset up to which each direction was seen."""
    held: list[Event] = field(default_factory=list)
    """Bytes that may begin a ClientHello, and the bytes after them."""
    over: bool = False
    """Nothing more will come."""


class Decryption:
    """Opens what it has the secrets of; everything else passes unchanged, and what of it is in clear is read."""

    def __init__(self, keys: KeyLog) -> None:
        self.keys = keys
        self._states: dict[Connection, TlsConnection | MaybeTls | None] = {}
        self._records: list[Record] = []
        self._guesses = MAX_GUESSES_IN_ALL

    def open(self, events: list[Event]) -> list[Event]:
        """Events as reassembly hands them on, and as dissection takes them."""
        out: list[Event] = []
        by_connection: dict[Connection, list[Event]] = {}
        states = self._states
        for event in events:
            connection = event.direction.connection
            if connection not in states:
                states[connection] = MaybeTls()
            if states[connection] is None or isinstance(event, Note):
                out.append(event)
            else:
                by_connection.setdefault(connection, []).append(event)
        for connection, own in by_connection.items():
            state = states[connection]
            if isinstance(state, MaybeTls):
                self._decide(connection, state, own, out)
            elif state is not None:
                self._feed(connection, state, own, out)
        return out

    def pop_records(self) -> list[Record]:
        """Records of handshakes, and alerts, since the last call."""
        records, self._records = self._records, []
        return records

    def forget(self, connection: Connection) -> list[Event]:
        """Forget a connection; return its held events, as no more come."""
        out: list[Event] = []
        state = self._states.get(connection)
        if isinstance(state, MaybeTls) and state.held:
            state.over = True
            self._decide(connection, state, [], out)
        state = self._states.pop(connection, None)
        for half in state.halves if isinstance(state, TlsConnection) else ():
            half.drop(half.available() + half.waiting())
        return out

    def _decide(self, connection: Connection, state: MaybeTls, events: list[Event], out: list[Event]) -> None:
        events, state.held = state.held + events, []
        first, second = connection.directions
        if self._guesses and not (first.started or second.started) and self.keys.traffic():
            self._look_inside(connection, state, events, out)
            return
        starts = [b"", b""]
        for event in events:
            side = event.direction.side
            if isinstance(event, Chunk) and event.offset == len(starts[side]) < HELLO:
                starts[side] += event.data[: HELLO - len(starts[side])]
        for side, start in enumerate(starts):
            if start[:2] != RECORD[: len(start)] or not start:
                continue
            if len(start) < HELLO and not state.over:
                state.held = events
                return
            if start[5:6] == b"\1" and len(start) == HELLO:
                self._begin(connection, state, side, starts, events, out)
                return
        out += events
        _pass(state, events)
        if all(state.ends):
            self._states[connection] = None

    def _look_inside(self, connection: Connection, state: MaybeTls, events: list[Event], out: list[Event]) -> None:
        """The handshake was not captured: try the sessions whose secrets are known."""
        record = first_record(events)
        if record is None and not state.over:
            state.held = events
            return
        connection.waited = True
        if isinstance(record, TriedRecord):
            session, tried = guess(self.keys, record.data, min(MAX_GUESSES, self._guesses))
            self._guesses -= tried
            if session is not None:
                first, second = (Half(each, 0) for each in connection.directions)
                client = record.side if session.from_client else 1 - record.side
                tls = self._states[connection] = TlsConnection(self.keys, client, session.random, (first, second))
                tls.resume(record.side, session, record.ready)
                self._feed(connection, tls, events, out)
                return
        packet = record.ready if isinstance(record, TriedRecord) else record or 0
        out += known_at(events, packet)
        self._states[connection] = None

    def _begin(
        self,
        connection: Connection,
        state: MaybeTls,
        side: int,
        starts: list[bytes],
        events: list[Event],
        out: list[Event],
    ) -> None:
        """``side`` begins with a ClientHello; ``starts``: what both begin with, as far as it is there."""
        random, answer = starts[side][11:], _first_answer(events, side)
        keys = self.keys if self.keys.knows(random) else None
        if keys is None and self.keys.grows and not (starts[1 - side] or state.over) and len(events) < MAX_HELD:
            state.held = events  # clients write their secrets when they were answered
            return
        if keys is None and (state.ends[1 - side] or answer[:2] not in ANSWERS):
            out += events  # an upgrade: the protocol that was spoken before knows what to do
            self._states[connection] = None
            return
        first, second = (Half(each, state.ends[each.side], only_read=keys is None) for each in connection.directions)
        tls = self._states[connection] = TlsConnection(keys, side, random, (first, second))
        self._feed(connection, tls, events, out)

    def _feed(self, connection: Connection, tls: TlsConnection, events: list[Event], out: list[Event]) -> None:
        for event in events:
            if isinstance(event, Chunk | Gap):
                tls.halves[event.direction.side].queue.append(event)
        if tls.keys is None:
            out += events
            tls.pump([])
            if all(half.dead for half in tls.halves):
                self._states[connection] = None
        else:
            tls.pump(out)
            for event in events:
                if isinstance(event, End):
                    out.append(replace(event, offset=tls.halves[event.direction.side].offset))
        self._records += tls.records
        tls.records = []


def _first_answer(events: list[Event], side: int) -> bytes:
    """First bytes of the other side at the time of the ClientHello of ``side``."""
    own = [event for event in events if isinstance(event, Chunk) and event.direction.side == side]
    ready = next(int(each.ready[np.searchsorted(each.ends, HELLO)]) for each in own if int(each.ends[-1]) >= HELLO)
    for event in events:
        if isinstance(event, Chunk) and event.direction.side != side and not event.offset:
            size = int(event.ends[np.searchsorted(event.ready, ready, "right") - 1]) if event.ready[0] <= ready else 0
            return event.data[:size]
    return b""


def _pass(state: MaybeTls, events: list[Event]) -> None:
    for event in events:
        if isinstance(event, Chunk):
            state.ends[event.direction.side] = event.offset + len(event.data)
        elif isinstance(event, Gap):
            state.ends[event.direction.side] = event.offset + event.length
