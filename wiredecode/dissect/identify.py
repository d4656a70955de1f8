"""Identifies the protocol of a connection: by the user's choice, the bytes and the port, in that order."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from wiredecode.frames.failure import failure
from wiredecode.net.reassembly import CUT
from wiredecode.net.types import Chunk, Connection, Event, Gap
from wiredecode.protocols.base import Protocol, Rejected, Undecided, Verdict
from wiredecode.protocols.registry import DecodeAs, Known

IDENTIFY_BYTES = 1024 * 1024
"""A connection that has sent this much without being recognised is of another protocol."""

HOLD_BYTES = 256 * 1024
"""Bytes after which a protocol shown by the bytes is believed although that of the port is not ruled out."""
FEW_CUT_BYTES = 12
"""Fewer bytes, what a snapshot length left of a segment in mid-stream, no port makes telling: zeros are everywhere."""
UNANSWERED_BYTES = 16 * 1024
"""Unidentified bytes that one side may send before the other one, which may identify them, sends anything."""

FOREIGN = {
    "TLS": (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03"),
    "HTTP/2": (b"PRI * HTTP/2",),
    "HTTP": (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"HTTP/1.", b"<!DOCTYPE", b"<html"),
    "AMQP": (b"AMQP",),
    "SSH": (b"SSH-",),
}
"""First bytes of protocols that are not decoded here; a user wants to know what it was instead."""

UNKNOWN = "unknown"
LONGEST_BEGINNING = 16
"""Bytes of a side that are kept for this."""


def foreign_name(data: bytes) -> str:
    """Name the likely protocol of bytes of no known protocol."""
    return next((name for name, starts in FOREIGN.items() if data.startswith(starts)), UNKNOWN)


class Candidates:
    """The protocols of one dissection, in the order in which they are tried on a connection."""

    def __init__(self, known: Iterable[Known]) -> None:
        self.all = tuple(map(Candidate, known))

    def order(self, connection: Connection) -> "tuple[Candidate, ...]":
        """Those with a port of the connection first: the others need not be imported where these know their own."""
        return tuple(sorted(self.all, key=lambda one: not one.has_port(connection)))

    def of_capture(self, decode_as: Mapping[int, DecodeAs]) -> dict[int, DecodeAs]:
        """The user's choice, with the protocols that connections of this capture share."""
        own = {one.known.name: one for one in self.all}
        return {
            port: DecodeAs(own[said.protocol.name].protocol, said.dialect) if said.protocol.name in own else said
            for port, said in decode_as.items()
        }


class Candidate:
    """A protocol in one dissection: imported, and given its memory, when it is first held against bytes."""

    def __init__(self, known: Known) -> None:
        self.known = known

    @cached_property
    def protocol(self) -> Protocol:
        return self.known.load().new_session()

    def has_port(self, connection: Connection) -> bool:
        return not set(self.known.ports).isdisjoint(connection.ports)


@dataclass
class Prefix:
    """The contiguous bytes of one direction that are being looked at.

    ``possible`` are the protocols that are left, with the stream offset from which each wants to look again.
    """

    started: bool
    offset: int
    possible: dict[Candidate, int]
    data: bytes = b""


@dataclass
class Identified:
    """A connection whose protocol is known."""

    protocol: Protocol
    dialect: str | None
    ready: int = 0
    """Number of the packet that identified it."""
    verdict: Verdict | None = None
    side: int = 0
    """The direction whose bytes identified it."""
    offset: int = 0
    """Stream offset of the first frame there."""


@dataclass(slots=True)
class PacketBytes:
    """Bytes of one packet to one direction, or a gap (no bytes); ``cut``: by the snapshot length."""

    side: int
    ready: int
    offset: int
    data: bytes | None
    cut: bool = False


def by_packet(events: Iterable[Event]) -> Iterator[PacketBytes]:
    """The events packet by packet, in capture order: a decision must not depend on how the capture was cut."""
    sides: tuple[list[Event], list[Event]] = ([], [])
    for event in events:
        sides[event.direction.side].append(event)
    return heapq.merge(*(_one_side(side) for side in sides), key=lambda piece: piece.ready)


def _one_side(events: list[Event]) -> Iterator[PacketBytes]:
    for event in events:
        side = event.direction.side
        if isinstance(event, Gap):
            yield PacketBytes(side, event.ready, event.offset, None, event.reason == CUT)
        elif isinstance(event, Chunk):
            start = event.offset
            for stop, ready in zip(event.ends, event.ready, strict=True):
                yield PacketBytes(side, int(ready), start, event.data[start - event.offset : stop - event.offset])
                start = int(stop)


@dataclass
class Identifier:
    """Watches a new connection until its protocol is known; keeps its events meanwhile."""

    connection: Connection
    candidates: tuple[Candidate, ...]
    decode_as: Mapping[int, DecodeAs]
    waiting: list[Event] = field(default_factory=list)
    size: int = 0
    last_ready: int = 0
    prefixes: list[Prefix | None] = field(default_factory=lambda: [None, None])
    first_bytes: list[bytes] = field(default_factory=lambda: [b"", b""])
    sure: Candidate | None = None
    """It is this protocol; its dialect is not known yet."""
    held: tuple[Candidate, Identified] | None = None
    """A protocol whose bytes these seem to be, while the protocol of the port may still turn out to be it."""
    held_at: int = 0
    """Bytes seen when it was found."""
    said: Identified | None = None
    """The user's choice, if the bytes are examined all the same: see :attr:`Protocol.may_upgrade`."""
    given_up: bool = False
    """It is nothing that is decoded."""
    failures: list[str] = field(default_factory=list)
    """Mistakes of our own on the way."""

    def forced(self) -> Identified | None:
        """The choice in ``decode_as`` for the ports; the destination of the first packet counts first."""
        for port in reversed(self.connection.ports):
            said = self.decode_as.get(port)
            if said is not None:
                found = Identified(said.protocol, said.dialect)
                if not said.protocol.may_upgrade or self.connection.initiator is not None:
                    return found
                self.said = found
                self.candidates = tuple(one for one in self.candidates if one.known.name == said.protocol.name)
                return None if self.candidates else found
        return None

    def _as_said(self, known: Identified | None) -> Identified | None:
        """Return the user's choice, for any bytes; but they may have switched to another protocol."""
        said = self.said
        if said is None or (known is not None and known.verdict is not None and known.verdict.cutter is not None):
            return known
        return said

    def events(self, events: list[Event]) -> Identified | None:
        """Take the next events of both directions; return the protocol once it is known.

        Packet by packet, also to give up: neither must depend on how many packets are at hand.
        """
        self.waiting.extend(events)
        for piece in by_packet(events):
            known = self._piece(piece) or self._released()
            if known is None and self.hopeless:
                known = self.said or self.by_port()
                self.given_up = known is None
            if known is not None and (known := self._as_said(known)) is not None:
                known.ready = piece.ready
                return known
            if self.given_up:
                break
        return None

    def finish(self) -> Identified | None:
        """Nothing more will come."""
        known = self._as_said(self._interrupt(0) or self._interrupt(1) or (self.held[1] if self.held else None))
        if known is not None:
            known.ready = self.last_ready
        return known

    @property
    def hopeless(self) -> bool:
        """Whether no further bytes can identify it."""
        rejected = [prefix is not None and not prefix.possible for prefix in self.prefixes]
        waiting = [prefix is not None and bool(prefix.possible) for prefix in self.prefixes]
        if self.size > IDENTIFY_BYTES or all(rejected):
            return True
        alone = self.size > UNANSWERED_BYTES or self.foreign() != UNKNOWN
        return any(rejected) and not any(waiting) and alone

    def by_port(self) -> Identified | None:
        """The protocol of the port, if a capture that began in mid-stream showed nothing else for long."""
        if self.foreign() != UNKNOWN:
            return None
        for one in self.candidates:
            undecided = any(
                prefix is not None and not prefix.started and one in prefix.possible for prefix in self.prefixes
            )
            if undecided and one.has_port(self.connection):
                return Identified(one.protocol, None, self.last_ready)
        return None

    def foreign(self) -> str:
        """The likely protocol, if it is not decoded."""
        names = [foreign_name(data) for data in self.first_bytes if data]
        return next((name for name in names if name != UNKNOWN), UNKNOWN)

    def _piece(self, piece: PacketBytes) -> Identified | None:
        self.last_ready = piece.ready
        if piece.data is None:
            return self._interrupt(piece.side, piece.cut)
        prefix = self.prefixes[piece.side]
        if prefix is None:
            started = piece.offset == 0 and self.connection.directions[piece.side].started
            prefix = self.prefixes[piece.side] = Prefix(
                started, piece.offset, dict.fromkeys(self.candidates, piece.offset)
            )
        if len(self.first_bytes[piece.side]) < LONGEST_BEGINNING:
            self.first_bytes[piece.side] += piece.data[:LONGEST_BEGINNING]
        hopeless = self.hopeless
        self.size += len(piece.data)
        if hopeless or not prefix.possible:
            return None
        prefix.data += piece.data
        return self._judge(piece.side, prefix, final=False)

    def _must_wait(self, one: Candidate) -> bool:
        """Whether another protocol comes first, which both sides may be: it is known to be it, or has the port."""
        prefixes = [prefix.possible for prefix in self.prefixes if prefix is not None]
        rivals = set(prefixes[0]).intersection(*prefixes[1:]) - {one} if prefixes else set()
        at_home = one.has_port(self.connection)
        return any(rival is self.sure or (rival.has_port(self.connection) and not at_home) for rival in rivals)

    def _released(self) -> Identified | None:
        """The protocol that had to wait, once it no longer has to, or enough was seen."""
        if self.held is None:
            return None
        candidate, known = self.held
        return known if self.size - self.held_at > HOLD_BYTES or not self._must_wait(candidate) else None

    def _interrupt(self, side: int, cut: bool = False) -> Identified | None:
        """One side ends, at a gap (``cut``: by a snapshot length) or for good: decide on what there is."""
        prefix, self.prefixes[side] = self.prefixes[side], None
        if prefix is None:
            return None
        thin = cut and not prefix.started and len(prefix.data) < FEW_CUT_BYTES
        return self._judge(side, prefix, final=True, thin=thin)

    def _judge(self, side: int, prefix: Prefix, final: bool, thin: bool = False) -> Identified | None:
        """``thin``: the port is not evidence enough, nor does it count at the end against the bytes.

        The protocol whose frames begin first has seen more: another one found a frame inside them.
        """
        thin = thin or (final and self.held is not None)
        first: Identified | None = None
        for one, start in list(prefix.possible.items()):
            data = prefix.data[start - prefix.offset :]
            port = (one.has_port(self.connection) or self.said is not None) and not thin
            try:
                verdict: Any = one.protocol.recognise(data, started=prefix.started, final=final, port=port)
                if not isinstance(verdict, Verdict | Undecided | Rejected):
                    raise TypeError(f"neither Verdict nor Undecided nor Rejected, but {verdict!r}")
            except Exception as error:
                self.failures.append(failure(error, "recognise").message)
                verdict = Rejected()
            if isinstance(verdict, Verdict):
                known = Identified(one.protocol, verdict.dialect, 0, verdict, side, start + verdict.position)
                if not self._must_wait(one):
                    first = known if first is None or known.offset < first.offset else first
                    if first.offset == prefix.offset:
                        return first
                    continue
                if self.held is None:
                    self.held, self.held_at = (one, known), self.size
                del prefix.possible[one]
            elif isinstance(verdict, Undecided):
                prefix.possible[one] = start + verdict.position
                self.sure = one if verdict.sure else self.sure
            else:
                del prefix.possible[one]
                self.sure = None if self.sure is one else self.sure
        if first is not None:
            return first
        end = prefix.offset + len(prefix.data)
        keep = min(prefix.possible.values(), default=end)
        prefix.data = prefix.data[keep - prefix.offset :]
        prefix.offset = keep
        return None
