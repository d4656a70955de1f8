"""What is remembered of Liftbridge in a capture: it has no connections of its own.

A request and its response usually travel on different NATS connections, and each message is seen once per hop.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import crc32c

from wiredecode.fields import printable
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge import conversation_envelopes, conversation_rpcs, names
from wiredecode.protocols.liftbridge.conversation_acks import MAX_KEY_CHARACTERS, NO_FACTS, Acks, Hop, make_hop, own_hop
from wiredecode.protocols.liftbridge.conversation_publications import Key as PublicationKey
from wiredecode.protocols.liftbridge.conversation_publications import Publications
from wiredecode.protocols.liftbridge.conversation_raft_streams import RaftStreams
from wiredecode.protocols.liftbridge.names import RAFT_MARK
from wiredecode.protocols.nats.conversation_memory import plain_subject
from wiredecode.protocols.nats.names import CLIENT
from wiredecode.protocols.shared.carried import CarriedSession
from wiredecode.protocols.shared.pairing import Newest

if TYPE_CHECKING:
    from wiredecode.frames.block import FrameBlock, Int64s
    from wiredecode.frames.message import Messages

MAX_EXCHANGES = 10_000
"""Requests and publishes remembered until they are answered; the oldest are forgotten."""
MAX_HOPS = 16
"""Copies of one request that are remembered."""
UNCOUNTED = -1
"""In place of a frame: whose turn it is cannot be known any more."""
MAX_SUBJECTS = 4096
"""Subjects whose meaning is remembered."""
MAX_NAMESPACES = 64

DEFAULT_NAMESPACE = "liftbridge-default"
RAFT_SUBJECTS = {"join": 4, "propagate": 8, "info": 10, "status": 12, "fetch": 11}
"""Message types by the token after the mark."""
OWN_SUBJECTS = {"notify": 14, "ack": 1, "activity": 0, "cursors": 0}
"""Message types by the token after the namespace."""
PARTITION_SUBJECTS = {"replicate": 2, "offset": 6}
"""Message types by the last token of ``<namespace>.<stream>.<partition>.<token>``."""

Key = tuple[str, ...] | bytes
"""Of requests: what its subject is for, and the reply subject; of published messages see :func:`ack_key`."""


class Meaning(NamedTuple):
    """What a subject says: the message type to expect, and the stream and partition it names."""

    message_type: int | None = None
    facts: dict[str, Any] = {}
    tail: str = ""
    """The subject within the namespace."""
    numbered: bool = True
    """Whether messages on it may be of another partition than the first: only the stream's metadata tells."""


@dataclass(eq=False)
class Session(CarriedSession):
    """Everything in it is bounded."""

    exchanges: Newest[Key, list[Hop]] = field(default_factory=lambda: Newest(MAX_EXCHANGES))
    forgets: bool = False
    """More requests came than are remembered."""
    acks: Acks = field(default_factory=Acks)
    """What asks for an ack, and acks, where that comes later."""
    publications: Publications = field(default_factory=lambda: Publications(MAX_EXCHANGES))
    got: Newest[tuple[Any, ...], int] = field(default_factory=lambda: Newest(MAX_EXCHANGES))
    """The last publication of each key that a subscription got; or :data:`UNCOUNTED`."""
    repeating: Newest[str | None, None] = field(default_factory=lambda: Newest(MAX_SUBJECTS))
    """Subjects of which the same contents were published again."""
    lossy: bool = False
    """Messages may be missing: those of the same contents cannot be told apart any more."""
    """What clients published: what servers hand on is its copy."""
    raft: RaftStreams = field(default_factory=RaftStreams)
    namespaces: dict[str, None] = field(default_factory=lambda: {DEFAULT_NAMESPACE: None})
    meanings: dict[str | None, Meaning] = field(default_factory=dict)

    def learn_namespace(self, namespace: str) -> None:
        if namespace not in self.namespaces and len(self.namespaces) < MAX_NAMESPACES:
            self.namespaces[namespace] = None
            self.meanings.clear()

    def meaning(self, subject: str | None) -> Meaning:
        known = self.meanings.get(subject)
        if known is None:
            if subject is None or len(subject) > MAX_KEY_CHARACTERS:
                return Meaning(numbered=numbered(subject))
            if len(self.meanings) >= MAX_SUBJECTS:
                self.meanings.clear()
            if RAFT_MARK in subject:
                self.learn_namespace(subject.partition(RAFT_MARK)[0])
            known = self.meanings[subject] = self._meaning(subject)._replace(numbered=numbered(subject))
        return known

    def _meaning(self, subject: str) -> Meaning:
        _, mark, rest = subject.partition(RAFT_MARK)
        if mark:
            return Meaning(RAFT_SUBJECTS.get(rest.partition(".")[0]))
        for namespace in self.namespaces:
            if subject.startswith(namespace + "."):
                tail = subject[len(namespace) + 1 :]
                stream, _, last = tail.rpartition(".")
                stream, _, partition = stream.rpartition(".")
                if last in PARTITION_SUBJECTS and partition.isdecimal() and stream:
                    facts = {"stream": printable(stream), "partition": int(partition[:10])}
                    return Meaning(PARTITION_SUBJECTS[last], facts, tail)
                return Meaning(OWN_SUBJECTS.get(tail.partition(".")[0]), {}, tail)
        return Meaning()

    def ask(self, key: Key, frame: Frame, message_type: int, facts: dict[str, Any]) -> None:
        longest = len(key) if isinstance(key, bytes) else max(map(len, (*key, facts.get("replica_id", ""))))
        if longest > MAX_KEY_CHARACTERS:
            return
        hop = make_hop((frame.id, frame.time_ns, frame.connection.number, frame.side, message_type, facts))
        if not self.forgets and key not in self.exchanges and key not in self.acks.fresh and not self.has_room(1):
            self.forgets = True
            message = f"more than {MAX_EXCHANGES} requests: from here on the oldest is forgotten"
            frame.find("note", "limit", "outstanding", message)
        if self.links_later and isinstance(key, bytes):
            self.acks.add(frame, [frame.number], [key], [hop])
            self._expect([key])
        else:
            self.remember(key, hop)

    def remember(self, key: Key, hop: Hop) -> None:
        hops = self.exchanges.get(key)
        if hops is None:
            self.exchanges.put(key, [hop])
        elif len(hops) < MAX_HOPS:
            hops.append(hop)

    def has_room(self, count: int) -> bool:
        """Whether so many requests can come without a remark."""
        return self.forgets or len(self.exchanges) + len(self.acks.fresh) + count <= MAX_EXCHANGES

    def _expect(self, keys: list[bytes]) -> None:
        if not self.forgets:
            self.acks.fresh.update(key for key in keys if key not in self.exchanges)

    def add_requests(self, run: FrameBlock, rows: Int64s, keys: list[bytes]) -> None:
        """As :meth:`ask` for published messages of a run; ``keys`` as :func:`ack_key` makes them."""
        shared = run.connection.number, run.side, names.PUBLISH, NO_FACTS
        columns = zip(run.ids[rows].tolist(), run.time_ns[rows].tolist(), *map(repeat, shared), strict=False)
        self.acks.add(run, run.numbers[rows], keys, map(make_hop, columns))
        self._expect(keys)

    def ack(self, key: bytes, frame: Frame) -> Hop | None:
        """The publish that a frame acknowledges; None also where :meth:`link` will tell."""
        if not self.links_later:
            return self.answer(key, frame)
        self.acks.add(frame, [frame.number], [key], repeat(None))
        return None

    def answer(self, key: Key, frame: Frame) -> Hop | None:
        """The request of a response: the one the other side of the connection sent, or else the first seen."""
        hops = self.exchanges.get(key)
        return own_hop(hops, frame.connection.number, frame.side) if hops else None

    def link(self) -> None:
        acks, self.acks = self.acks, Acks()
        acks.link(self)

    def copy_of(self, frame: Frame, subject: str | None, payload: bytes) -> int | None:
        """The frame in which a client sent what a server hands on, or else in which it was seen first."""
        reply = frame.values.get("reply")
        place = subject if reply is None else f"{subject} {plain_subject(reply)}"
        key = place, len(payload), crc32c.crc32c(payload)
        between = frame.dialect not in (None, CLIENT)  # there both ends are servers, also the one that dialled
        original = frame.sender == "client" and not between
        known = None if original else self._published(frame, key)
        if known is None and (original or between) and len(subject or "") <= MAX_KEY_CHARACTERS:
            self.publications.add(key, frame.id)
        return known

    def _published(self, frame: Frame, key: PublicationKey) -> int | None:
        """What a subscription gets: of messages with the same contents the next one, where none were lost.

        Once it got one before the publish was captured, or more than that were published, they cannot be counted.
        """
        numbers = self.publications.get(key)
        who = key, frame.connection.number, frame.side, frame.values.get("sid")
        before = self.got.get(who)
        if before == UNCOUNTED:
            return None
        if len(numbers) > 1 or (numbers and before == numbers[-1]):
            self.repeating.put(key[0], None)
        if before in numbers[:-1]:
            found = numbers[numbers.index(before) + 1]
        else:
            found = numbers[0] if len(numbers) == 1 and before is None else UNCOUNTED
        if self.lossy and (frame.code != names.PUBLISH or key[0] in self.repeating):
            found = UNCOUNTED  # what servers say to each other is often the same
        self.got.put(who, found)
        return None if found == UNCOUNTED else found

    # Asked by NATS.

    @property
    def subjects(self) -> Container[str]:  # type: ignore[override]
        return self.raft.dials

    def decode(self, frame: Frame, subject: str | None, payload: bytes, start: int, style: Style | None) -> None:
        if payload[:4] == names.MAGIC:
            conversation_envelopes.decode(frame, subject, payload, start, style, self)
        elif subject is not None:
            conversation_rpcs.decode(frame, subject, payload, start, style, self)

    def client_named(self, name: str) -> Mapping[str, str]:
        """``LIFT.<namespace>.<server>.<purpose>`` of Liftbridge's servers."""
        parts = name.split(".")
        if len(parts) < 4:
            return {}
        namespace = ".".join(parts[1:-2])
        self.learn_namespace(namespace)
        return {"namespace": namespace, "server": parts[-2], "purpose": parts[-1]}

    def interrupt(self, connection: int, side: int) -> None:
        self.lossy = True
        self.raft.interrupt(connection, side)

    def messages(self, frame: Frame, operation: str, subject: str, out: Messages) -> bool:
        from wiredecode.protocols.liftbridge.messages import add_messages

        return bool(frame.inner) and add_messages(frame, operation, subject, out)


NUMBERED = re.compile(r"\.[1-9][0-9]*\Z")


def numbered(subject: str | None) -> bool:
    """Whether a subject is that of a partition from 1 on, or of a stream that is called so, or not known."""
    return not subject or NUMBERED.search(subject) is not None
