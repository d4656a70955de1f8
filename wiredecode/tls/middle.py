"""A connection that begins before the capture: which session of the key log it is, and how many records went before.

Only TLS 1.3 can be found so. The keys of TLS 1.2 need the random of the server, which stands in its ServerHello alone.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from wiredecode.net.types import Chunk, Event, Note
from wiredecode.tls.half import HEADER, LEAST_RECORD, MOST_RECORD
from wiredecode.tls.keylog import KeyLog

START = b"\x17\x03\x03"
"""So begins every record of TLS 1.3 after the handshake."""
MOST_GUESSES = 1 << 17
"""Keys and numbers that are tried for a connection: less than a second."""
MOST_GUESSES_IN_ALL = 1 << 20
"""The same for a capture."""
PIECES, HELD_PIECES = 8, 64
"""Packets of a connection in which a record is looked for, and that may wait until it is whole."""
TLS_1_3_SUITES = 0x13
"""First byte of their numbers."""


class Session(NamedTuple):
    """What opened a record."""

    random: bytes
    suite: int
    secret: bytes
    from_client: bool
    sequence: int
    """Number of the record."""


class Found(NamedTuple):
    """A record that may be tried, and the packet with which it is whole."""

    side: int
    data: bytes
    ready: int


def first_record(events: list[Event]) -> Found | int | None:
    """The first record that stands at the front of a packet, whole; the packet by which there is none.

    None: more may come.
    """
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
            found = _record(events, side, start)
            if found is not None:
                return found
            return ready if len(pieces) > HELD_PIECES else None
    return pieces[PIECES - 1][0] if len(pieces) >= PIECES else None


def _record(events: list[Event], side: int, start: int) -> Found | None:
    """The record at an offset, if it is whole."""
    data, ends, readies = b"", [], []
    for event in events:
        if isinstance(event, Chunk) and event.direction.side == side and event.offset + len(event.data) > start:
            if event.offset > start + len(data):
                break
            data += event.data[max(start - event.offset, 0) :]
            ends += event.ends.tolist()
            readies += event.ready.tolist()
    size = HEADER + int.from_bytes(data[3:HEADER])
    if not LEAST_RECORD <= size <= min(MOST_RECORD + HEADER, len(data)):
        return None
    return Found(side, data[:size], readies[bisect_left(ends, start + size)])


def guess(keys: KeyLog, record: bytes, most: int) -> tuple[Session | None, int]:
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
                session = Session(random, number, secret, label.startswith("CLIENT"), 0)
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
    """The same events, none of which could be told before a packet."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, Chunk):
            event = replace(event, ready=np.maximum(event.ready, packet))
        elif not isinstance(event, Note):
            event = replace(event, ready=max(event.ready, packet))
        found.append(event)
    return found
