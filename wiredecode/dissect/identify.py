"""Identifies the protocol of a connection: by the user's choice, the bytes and the port, in that order."""

import heapq
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import attrgetter
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import failure
from wiredecode.frames.splitter import Looks
from wiredecode.net.reassembly import TRUNCATED
from wiredecode.net.types import Chunk, Connection, Event, Gap
from wiredecode.protocols.base import Protocol, Rejected, Undecided, Verdict
from wiredecode.protocols.registry import DecodeAs, RegistryEntry

IDENTIFY_BYTES = 1024 * 1024
"""A connection that has sent this much without being recognised is of another protocol."""

HOLD_BYTES = 256 * 1024
"""Bytes after which a recognised protocol is taken although the protocol of the port is not ruled out."""
PATIENT_BYTES = 64 * 1024
"""Bytes of a connection in which only protocols that have its port are tried, unless these are ruled out."""
FEW_CUT_BYTES = 12
"""With fewer bytes of a segment truncated in mid-stream, the port is no evidence: zeros are common."""
UNANSWERED_BYTES = 16 * 1024
"""Unidentified bytes of one side, while the other side sends nothing, after which the protocol is given up."""

BEGINNING_BYTES, BEGINNINGS = 1024, 128
"""Beginnings of connections of which the answer of each protocol is kept: their length, and their number."""

FOREIGN = {
    "TLS": (b"\x14\x03", b"\x15\x03", b"\x16\x03", b"\x17\x03"),
    "HTTP/2": (b"PRI * HTTP/2",),
    "HTTP": (b"GET ", b"POST ", b"PUT ", b"HEAD ", b"HTTP/1.", b"<!DOCTYPE", b"<html"),
    "AMQP": (b"AMQP",),
    "SSH": (b"SSH-",),
}
"""First bytes of protocols that are only named."""

UNKNOWN = "unknown"
LONGEST_BEGINNING = 16
"""Bytes of a side that are compared with these."""


def foreign_name(data: bytes) -> str:
    """Name the likely protocol of bytes of no known protocol."""
    return next((name for name, starts in FOREIGN.items() if data.startswith(starts)), UNKNOWN)


class Candidate:
    """A protocol in one dissection; imported, and given its session, when it is first tried."""

    def __init__(self, entry: RegistryEntry) -> None:
        self.entry = entry
        self._answers: dict[tuple[bytes, bool, bool, bool], Verdict | Undecided | Rejected] = {}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_answers": {}}

    @cached_property
    def protocol(self) -> Protocol:
        return self.entry.load().new_session()

    @cached_property
    def ports(self) -> frozenset[int]:
        return frozenset(self.entry.ports)

    def has_port(self, connection: Connection) -> bool:
        return not self.ports.isdisjoint(connection.ports)

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        """:meth:`Protocol.recognise`; of equal bytes once, as those of equal clients are. Raises what that raises."""
        if len(data) > BEGINNING_BYTES:
            return self._recognise(data, started, final, port)
        answer = self._answers.get((data, started, final, port))
        if answer is None:
            answer = self._recognise(data, started, final, port)
            if not isinstance(answer, Verdict) or answer.splitter is None:  # which may belong to one connection
                if len(self._answers) >= BEGINNINGS:
                    self._answers.clear()
                self._answers[data, started, final, port] = answer
        return answer

    def _recognise(self, data: bytes, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        answer: Any = self.protocol.recognise(data, started=started, final=final, port=port)
        if not isinstance(answer, Verdict | Undecided | Rejected):
            raise TypeError(f"neither Verdict nor Undecided nor Rejected, but {answer!r}")
        return answer


def choices_of(candidates: Iterable[Candidate], decode_as: Mapping[int, DecodeAs]) -> dict[int, DecodeAs]:
    """The user's choices, with the protocols of one dissection."""
    own = {candidate.entry.name: candidate for candidate in candidates}
    return {
        port: DecodeAs(own[given.protocol.name].protocol, given.dialect) if given.protocol.name in own else given
        for port, given in decode_as.items()
    }


@dataclass(slots=True, eq=False)
class Prefix:
    """The contiguous bytes of one direction that are being recognised.

    ``possible``: the protocols that are not rejected, with the stream offset from which each needs the bytes again.
    ``looks``: when it needs them.
    """

    started: bool
    offset: int
    possible: dict[Candidate, int]
    data: bytes = b""
    looks: dict[Candidate, Looks] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Identified:
    """A connection whose protocol is known."""

    protocol: Protocol
    dialect: str | None
    ready: int = 0
    """Logical time of the packet that identified it."""
    verdict: Verdict | None = None
    side: int = 0
    """The direction whose bytes identified it."""
    offset: int = 0
    """Stream offset of the first frame there."""

    @property
    def client(self) -> int | None:
        """The endpoint that is the client, if the verdict shows it."""
        if self.verdict is None or self.verdict.client is None:
            return None
        return self.side if self.verdict.client else 1 - self.side


@dataclass(slots=True)
class PacketBytes:
    """Bytes of one packet of one direction, or a gap (None); ``truncated``: by the snapshot length."""

    side: int
    ready: int
    offset: int
    data: bytes | None
    truncated: bool = False


def by_packet(events: Iterable[Event]) -> Iterator[PacketBytes]:
    """The events by packet, in capture order: so decisions do not depend on batches."""
    sides: tuple[list[Event], list[Event]] = ([], [])
    for event in events:
        sides[event.direction.side].append(event)
    if not (sides[0] and sides[1]):
        return _one_side(sides[0] or sides[1])
    return heapq.merge(*map(_one_side, sides), key=attrgetter("ready"))


def _one_side(events: list[Event]) -> Iterator[PacketBytes]:
    for event in events:
        side = event.direction.side
        if isinstance(event, Gap):
            yield PacketBytes(side, event.ready, event.offset, None, event.reason == TRUNCATED)
        elif isinstance(event, Chunk):
            start = event.offset
            for stop, ready in zip(event.ends.tolist(), event.ready.tolist(), strict=True):
                yield PacketBytes(side, ready, start, event.data[start - event.offset : stop - event.offset])
                start = stop


@dataclass(slots=True, eq=False)
class Identifier:
    """Identifies the protocol of a new connection, and keeps its events until then."""

    connection: Connection
    candidates: tuple[Candidate, ...]
    decode_as: Mapping[int, DecodeAs]
    waiting: list[Event] = field(default_factory=list)
    size: int = 0
    last_ready: int = 0
    prefixes: list[Prefix | None] = field(default_factory=lambda: [None, None])
    first_bytes: list[bytes] = field(default_factory=lambda: [b"", b""])
    sure: Candidate | None = None
    """The protocol, while its dialect is unknown."""
    held: tuple[Candidate, Identified] | None = None
    """A recognised protocol, while the protocol of the port is not rejected."""
    held_at: int = 0
    """Bytes captured when it was recognised."""
    user_choice: Identified | None = None
    """The user's choice, if the bytes are examined all the same: see :attr:`Protocol.may_upgrade`."""
    given_up: bool = False
    """Whether it is no protocol that is decoded."""
    patient: bool = True
    """Whether only protocols that have the port were tried: others come after them in any case."""
    failures: list[str] = field(default_factory=list)
    """Exceptions of protocols, for the totals."""

    def find_forced(self) -> Identified | None:
        """The user's choice for a port of the connection, the destination of the first packet before its source."""
        for port in reversed(self.connection.ports):
            choice = self.decode_as.get(port)
            if choice is not None:
                match = Identified(choice.protocol, choice.dialect)
                if not choice.protocol.may_upgrade or self.connection.initiator is not None:
                    return match
                self.user_choice = match
                self.candidates = tuple(each for each in self.candidates if each.entry.name == choice.protocol.name)
                return None if self.candidates else match
        return None

    def _with_user_choice(self, match: Identified | None) -> Identified | None:
        """Return the user's choice in place of ``match``, unless the bytes show its other transport."""
        choice = self.user_choice
        if choice is None or (match is not None and match.verdict is not None and match.verdict.splitter is not None):
            return match
        return choice

    def feed(self, events: list[Event]) -> Identified | None:
        """Take the next events of both directions; return the protocol once it is known."""
        self.waiting.extend(events)
        for piece in by_packet(events):
            match = self._packet(piece) or self._held_or_none()
            if match is None and self.unidentifiable:
                match = self.user_choice or self.by_port()
                self.given_up = match is None
            if match is not None and (match := self._with_user_choice(match)) is not None:
                match.ready = piece.ready
                return match
            if self.given_up:
                break
        return None

    def finish(self) -> Identified | None:
        """End of the connection: decide on the bytes captured."""
        recognised = self._side_ended(0) or self._side_ended(1) or (self.held[1] if self.held else None)
        match = self._with_user_choice(recognised)
        if match is not None:
            match.ready = self.last_ready
        return match

    @property
    def unidentifiable(self) -> bool:
        """Whether no further bytes can identify it."""
        possible = [bool(prefix.possible) for prefix in self.prefixes if prefix is not None]
        if any(possible) or not possible:
            return self.size > IDENTIFY_BYTES
        alone = len(possible) == 1
        return not alone or self.size > UNANSWERED_BYTES or self.foreign() != UNKNOWN

    def by_port(self) -> Identified | None:
        """The protocol of the port, for a capture that began in mid-stream."""
        if self.foreign() != UNKNOWN:
            return None
        for candidate in self.candidates:
            undecided = any(
                prefix is not None and not prefix.started and candidate in prefix.possible for prefix in self.prefixes
            )
            if undecided and candidate.has_port(self.connection):
                return Identified(candidate.protocol, None, self.last_ready)
        return None

    def foreign(self) -> str:
        """The likely protocol, if it is not decoded."""
        names = [foreign_name(data) for data in self.first_bytes if data]
        return next((name for name in names if name != UNKNOWN), UNKNOWN)

    def _packet(self, piece: PacketBytes) -> Identified | None:
        self.last_ready = piece.ready
        if piece.data is None:
            return self._side_ended(piece.side, piece.truncated)
        prefix = self.prefixes[piece.side]
        if prefix is None:
            started = piece.offset == 0 and self.connection.directions[piece.side].started
            prefix = self.prefixes[piece.side] = Prefix(
                started, piece.offset, dict.fromkeys(self.candidates, piece.offset)
            )
        if len(self.first_bytes[piece.side]) < LONGEST_BEGINNING:
            self.first_bytes[piece.side] += piece.data[:LONGEST_BEGINNING]
        unidentifiable = self.unidentifiable
        self.size += len(piece.data)
        if unidentifiable or not prefix.possible:
            return None
        prefix.data += piece.data
        if not self.patient:
            return self._recognise(piece.side, prefix, final=False)
        match = self._recognise(piece.side, prefix, final=False, at_home=True)
        return match if match is not None or self._has_patience() else self._try_others()

    def _has_patience(self) -> bool:
        """Whether a protocol that has the port, which neither side rejects, may still show."""
        return self.size <= PATIENT_BYTES and any(each.has_port(self.connection) for each in self._unrejected())

    def _try_others(self) -> Identified | None:
        """Try the protocols that do not have the port, on the bytes of both sides."""
        self.patient = False
        waiting = [(side, prefix) for side, prefix in enumerate(self.prefixes) if prefix is not None]
        matches = (self._recognise(side, prefix, final=False, at_home=False) for side, prefix in waiting)
        return next((match for match in matches if match is not None), None)

    def _unrejected(self) -> set[Candidate]:
        """Protocols that neither side rejects."""
        prefixes = [prefix.possible for prefix in self.prefixes if prefix is not None]
        return set(prefixes[0]).intersection(*prefixes[1:]) if prefixes else set()

    def _must_wait(self, candidate: Candidate) -> bool:
        """Whether a protocol that neither side rejects comes first: :attr:`sure`, or it has the port."""
        at_home = candidate.has_port(self.connection)
        if at_home and self.sure in (None, candidate):
            return False
        rivals = self._unrejected() - {candidate}
        return any(rival is self.sure or (rival.has_port(self.connection) and not at_home) for rival in rivals)

    def _is_reversed(self, candidate: Candidate, side: int, by_client: bool | None) -> bool:
        """Whether only the client would have the protocol's port: then a payload looks like a frame."""
        at_home = [port in candidate.entry.ports for port in self.connection.ports]
        return self.connection.initiator is None and sum(at_home) == 1 and at_home[side] is by_client

    def _held_or_none(self) -> Identified | None:
        """The :attr:`held` protocol, once no other comes first or enough bytes were captured."""
        if self.held is None:
            return None
        candidate, match = self.held
        return match if self.size - self.held_at > HOLD_BYTES or not self._must_wait(candidate) else None

    def _side_ended(self, side: int, truncated: bool = False) -> Identified | None:
        """A gap or the end follows the bytes of a side: decide on them. ``truncated``: by the snapshot length."""
        if self.prefixes[side] is None:
            return None
        if self.patient and (match := self._try_others()) is not None:
            return match
        prefix, self.prefixes[side] = self.prefixes[side], None
        assert prefix is not None
        ignore_port = truncated and not prefix.started and len(prefix.data) < FEW_CUT_BYTES
        return self._recognise(side, prefix, final=True, ignore_port=ignore_port)

    def _recognise(
        self, side: int, prefix: Prefix, final: bool, ignore_port: bool = False, at_home: bool | None = None
    ) -> Identified | None:
        """Try all possible protocols; of several that recognise the bytes take the one whose first frame is first.

        ``ignore_port``: the port of the connection is no evidence. ``at_home``: only those that have it, or do not.
        """
        ignore_port = ignore_port or (final and self.held is not None)
        first: Identified | None = None
        end = prefix.offset + len(prefix.data)
        for each, start in list(prefix.possible.items()):
            if at_home is not None and each.has_port(self.connection) is not at_home:
                continue
            looks = prefix.looks.get(each)
            if not (final or looks is None or looks.again(start, end)):  # the first time always
                continue
            data = prefix.data[start - prefix.offset :]
            port = (each.has_port(self.connection) or self.user_choice is not None) and not ignore_port
            try:
                verdict = each.recognise(data, started=prefix.started, final=final, port=port)
            except Exception as error:
                self.failures.append(failure(error, "recognise").message)
                verdict = Rejected()
            if isinstance(verdict, Verdict) and not prefix.started and self._is_reversed(each, side, verdict.client):
                verdict = Rejected() if final else Undecided(verdict.position + 1)
            if isinstance(verdict, Verdict):
                match = Identified(each.protocol, verdict.dialect, 0, verdict, side, start + verdict.position)
                if not self._must_wait(each):
                    first = match if first is None or match.offset < first.offset else first
                    if first.offset == prefix.offset:
                        return first
                    continue
                if self.held is None:
                    self.held, self.held_at = (each, match), self.size
                del prefix.possible[each]
            elif isinstance(verdict, Undecided):
                if looks is None:
                    looks = prefix.looks[each] = Looks()
                    looks.again(start, end)
                prefix.possible[each], looks.need = start + verdict.position, verdict.need
                self.sure = each if verdict.sure else self.sure
            else:
                del prefix.possible[each]
                self.sure = None if self.sure is each else self.sure
        if first is not None:
            return first
        keep = min(prefix.possible.values(), default=end)
        prefix.data = prefix.data[keep - prefix.offset :]
        prefix.offset = keep
        return None
