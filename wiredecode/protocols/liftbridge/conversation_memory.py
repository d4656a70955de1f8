"""What is remembered of Liftbridge in a capture: requests, publishes, acks, and the meanings of subjects.

A request and its response usually travel on different NATS connections, and each message is seen once per hop.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import crc32c
import numpy as np

from wiredecode.fields import printable
from wiredecode.fields.numbers import write_varint
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge import names
from wiredecode.protocols.liftbridge.conversation_raft_streams import RaftStreams
from wiredecode.protocols.liftbridge.names import DEFAULT_NAMESPACE, RAFT_MARK
from wiredecode.protocols.shared.carried import CarriedMessage, CarriedSession
from wiredecode.protocols.shared.pairing import Newest, link

if TYPE_CHECKING:
    from wiredecode.arrays import Int64s
    from wiredecode.frames.block import FrameBlock

MAX_KEY_CHARACTERS = 1024
"""Longest subject or id by which something is remembered: NATS servers take control lines of 4096 bytes."""
NO_FACTS: dict[str, Any] = {}
ONE_BYTE = [bytes([size]) for size in range(128)]


class Hop(NamedTuple):
    """A request or a publish as it was seen on one connection."""

    frame: int
    time_ns: int
    connection: int
    side: int
    message_type: int
    facts: dict[str, Any]
    """What it tells about its response."""


make_hop = partial(tuple.__new__, Hop)
"""Of a tuple: twice as fast as ``Hop._make``."""


def ack_key(inbox: str, correlation_id: str) -> bytes:
    """What a published message and its ack have in common, as protobuf writes the one after the other."""
    raw = inbox.encode("utf-8", "surrogateescape")
    if not correlation_id:
        return raw
    rest = correlation_id.encode("utf-8", "surrogateescape")
    size = len(rest)
    return b"%bZ%b%b" % (raw, ONE_BYTE[size] if size < 128 else write_varint(size), rest)  # Z: the tag


def own_hop(hops: list[Hop], connection: int, side: int) -> Hop:
    """The one that the other side of the connection sent, or else the first."""
    for hop in hops:
        if hop.connection == connection and hop.side != side:
            return hop
    return hops[0]


@dataclass(slots=True, eq=False)
class Acks:
    """Published messages that ask for an ack, and acks, in any order.

    They come from frames and from runs; :func:`ack_key` says what ties them together.
    """

    items: list[Frame | FrameBlock] = field(default_factory=list)
    numbers: list[Sequence[int] | Int64s] = field(default_factory=list)
    """Of frames of each item."""
    keys: list[bytes] = field(default_factory=list)
    """One of each frame."""
    asks: list[Hop | None] = field(default_factory=list)
    """What it asks; None: it is an ack."""
    fresh: set[bytes] = field(default_factory=set)
    """Keys that the memory does not have yet, while it counts them."""

    def add(
        self, item: Frame | FrameBlock, numbers: Sequence[int] | Int64s, keys: list[bytes], asks: Iterable[Any]
    ) -> None:
        """Frames of one item: their numbers, keys, and what they ask; None: they are acks."""
        self.items.append(item)
        self.numbers.append(numbers)
        self.keys += keys
        self.asks += islice(asks, len(keys))

    def link(self, memory: Memory) -> None:
        """Tie each ack to the publish that was sent before it, in the order of the capture."""
        if not self.items:
            return
        sizes = [len(each) for each in self.numbers]
        numbers = np.concatenate([np.asarray(each, np.int64) for each in self.numbers])
        sides = [(item.connection.number, item.side) for item in self.items]
        of_item = np.repeat(np.arange(len(sizes)), sizes).tolist()
        keys, asks, remember, known = self.keys, self.asks, memory.remember, memory.exchanges.get
        found: list[Hop | None] = [None] * len(keys)
        for at in np.argsort(numbers, kind="stable").tolist():
            publication, key = asks[at], keys[at]
            if publication is not None:
                remember(key, publication)
            elif hops := known(key):
                found[at] = own_hop(hops, *sides[of_item[at]])
        first = 0
        for item, own, size in zip(self.items, self.numbers, sizes, strict=True):
            answered = found[first : first + size]
            first += size
            if not isinstance(item, Frame):
                if item.requests is not None and asks[first - 1] is None:
                    rows = np.searchsorted(item.numbers, own)
                    item.requests[rows] = [0 if hop is None else hop.frame for hop in answered]
            elif answered[0] is not None and item.request is None:
                link(item, answered[0])


PublicationKey = tuple[str | None, int, int]
"""Subject, with that of the reply if there is one, size and CRC-32C of the payload."""
MOST_SAME = 16
"""Frames of one key that are remembered."""
PUT_OFF = 10
"""Of runs, so many times what is remembered is put off before it is sorted out."""


@dataclass(slots=True)
class PublishedFrames:
    """The last frames by key, of the ``most`` keys published last.

    Runs are only noted: usually nobody asks before most of them are out of date.
    """

    most: int
    known: Newest[PublicationKey, tuple[int, ...]] = field(init=False)
    runs: list[tuple[list[str], Int64s, Int64s, Int64s, Int64s]] = field(default_factory=list)
    waiting: int = 0

    def __post_init__(self) -> None:
        self.known = Newest(self.most)

    def __len__(self) -> int:
        self.merge_runs()
        return len(self.known)

    def get(self, key: PublicationKey) -> tuple[int, ...]:
        """The last frames of a key, the oldest first."""
        if self.runs:
            self.merge_runs()
        return self.known.get(key, ())

    def add(self, key: PublicationKey, number: int) -> None:
        if self.runs:
            self.merge_runs()
        self._put(key, (number,))

    def _put(self, key: PublicationKey, numbers: tuple[int, ...]) -> None:
        before = self.known.get(key)
        self.known.put(key, numbers if before is None else (*before, *numbers)[-MOST_SAME:])

    def add_run(self, subjects: list[str], codes: Int64s, sizes: Int64s, checksums: Int64s, numbers: Int64s) -> None:
        """Messages in columns; ``codes`` are places in ``subjects``."""
        self.runs.append((subjects, codes, sizes, checksums, numbers))
        self.waiting += len(codes)
        if self.waiting > PUT_OFF * self.most:
            self.merge_runs()

    def merge_runs(self) -> None:
        """Take over what was noted, the newest first, as far as it counts."""
        if not self.runs:
            return
        fresh: dict[PublicationKey, list[int]] = {}
        for subjects, *columns in reversed(self.runs):
            last = [column[::-1][: self.most].tolist() for column in columns]
            rest = [column[::-1][self.most :] for column in columns]
            while last[0]:
                for code, size, checksum, number in zip(*last, strict=True):
                    same = fresh.setdefault((subjects[code], size, checksum), [])
                    if len(same) < MOST_SAME:
                        same.append(number)
                if len(fresh) >= self.most:
                    break
                last = [column[: self.most].tolist() for column in rest]
                rest = [column[self.most :] for column in rest]
            if len(fresh) >= self.most:
                break
        self.runs, self.waiting = [], 0
        newest = list(fresh.items())[: self.most]
        for key, numbers in reversed(newest):
            self._put(key, tuple(reversed(numbers)))


MAX_EXCHANGES = 10_000
"""Requests and publishes remembered until they are answered; the oldest are forgotten."""
MAX_HOPS = 16
"""Copies of one request that are remembered."""
UNCOUNTED = -1
"""In place of a frame: whose turn it is cannot be known any more."""
MAX_SUBJECTS = 4096
"""Subjects whose meaning is remembered."""
MAX_NAMESPACES = 64
MAX_SERVERS = 4096
"""Connections of servers whose namespace is remembered."""

RAFT_SUBJECTS = {"join": 4, "propagate": 8, "info": 10, "status": 12, "fetch": 11}
"""Message types by the token after the mark."""
OWN_SUBJECTS = {"notify": 14, "ack": 1, "activity": 0, "cursors": 0}
"""Message types by the token after the namespace."""
PARTITION_SUBJECTS = {"replicate": 2, "offset": 6}
"""Message types by the last token of ``<namespace>.<stream>.<partition>.<token>``."""
ACK_INBOX = re.compile(r"(.+)\.ack\.[0-9A-Za-z]{22}\Z")
"""Subject for acks that a server made: its namespace, and a NUID."""
NAMESPACE_BEFORE = {
    2: re.compile(r"([^.]+)\.[^.]+\.[0-9]+\.replicate\Z"),
    6: re.compile(r"([^.]+)\.[^.]+\.[0-9]+\.offset\Z"),
    14: re.compile(r"(.+)\.notify\.[^.]+\Z"),
}
"""The namespace in subjects of messages that only servers send, by message type: the capture may begin late."""

Key = tuple[str, ...] | bytes
"""Of requests: what its subject is for, and the reply subject; of published messages see :func:`ack_key`."""


class Meaning(NamedTuple):
    """What a subject says: the message type to expect, and the stream and partition it names."""

    message_type: int | None = None
    namespace: str | None = None
    """Of the cluster; None: the subject does not tell."""
    facts: dict[str, Any] = {}
    tail: str = ""
    """The subject within the namespace."""
    numbered: bool = True
    """Whether messages on it may be of another partition than the first: only the stream's metadata tells."""


@dataclass(eq=False)
class Memory(CarriedSession):
    """What messages of one capture say that others need; bounded. Decoding is added in :mod:`.conversation`."""

    exchanges: Newest[Key, list[Hop]] = field(default_factory=lambda: Newest(MAX_EXCHANGES))
    forgets: bool = False
    """More requests came than are remembered."""
    acks: Acks = field(default_factory=Acks)
    """What asks for an ack, and acks, where that comes later."""
    publications: PublishedFrames = field(default_factory=lambda: PublishedFrames(MAX_EXCHANGES))
    got: Newest[tuple[Any, ...], int] = field(default_factory=lambda: Newest(MAX_EXCHANGES))
    """The last publication of each key that a subscription got; or :data:`UNCOUNTED`."""
    repeating: Newest[str | None, None] = field(default_factory=lambda: Newest(MAX_SUBJECTS))
    """Subjects of which the same contents were published again."""
    lossy: bool = False
    """Messages may be missing: those of the same contents cannot be told apart any more."""
    """What clients published: what servers hand on is its copy."""
    raft: RaftStreams = field(default_factory=RaftStreams)
    namespaces: dict[str, None] = field(default_factory=lambda: {DEFAULT_NAMESPACE: None})
    servers: Newest[int, str] = field(default_factory=lambda: Newest(MAX_SERVERS))
    """Namespaces of servers, by connection."""
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
        before, mark, rest = subject.partition(RAFT_MARK)
        if mark:
            return Meaning(RAFT_SUBJECTS.get(rest.partition(".")[0]), before)
        found = [namespace for namespace in self.namespaces if subject.startswith(namespace + ".")]
        if not found:
            return Meaning(namespace=acked_in(subject))
        namespace = max(found, key=len)
        tail = subject[len(namespace) + 1 :]
        stream, _, last = tail.rpartition(".")
        stream, _, partition = stream.rpartition(".")
        if last in PARTITION_SUBJECTS and partition.isdecimal() and stream:
            facts = {"stream": printable(stream), "partition": int(partition[:10])}
            return Meaning(PARTITION_SUBJECTS[last], namespace, facts, tail)
        own = OWN_SUBJECTS.get(tail.partition(".")[0])
        return Meaning(own, None if own is None else namespace, {}, tail)

    def learn_from(self, frame: Frame, shape: re.Pattern[str], subject: str) -> None:
        """Learn namespaces from a message that only servers send: that of its subject, and of the client's server."""
        namespace = self.meaning(subject).namespace
        if namespace is None and (found := shape.match(subject)):
            namespace = found[1]
            self.learn_namespace(namespace)
        if namespace is not None and frame.sender == "client" and frame.connection.number not in self.servers:
            self.servers.put(frame.connection.number, namespace)

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

    def copy_of(self, frame: Frame, message: CarriedMessage) -> int | None:
        """The frame in which a client sent what a server hands on, or else in which it was seen first."""
        subject, payload, between = message.subject, message.payload, message.between
        place = subject if message.reply is None else f"{subject} {self.plain_subject(message.reply)}"
        key = place, len(payload), crc32c.crc32c(payload)
        original = frame.sender == "client" and not between
        known = None if original else self._published(frame, key, message.subscription)
        if known is None and (original or between) and len(subject or "") <= MAX_KEY_CHARACTERS:
            self.publications.add(key, frame.id)
        return known

    def _published(self, frame: Frame, key: PublicationKey, subscription: str | None) -> int | None:
        """What a subscription gets: of messages with the same contents the next one, where none were lost.

        Once it got one before the publish was captured, or more than that were published, they cannot be counted.
        """
        numbers = self.publications.get(key)
        who = key, frame.connection.number, frame.side, subscription
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


def acked_in(inbox: str) -> str | None:
    """The namespace in a subject for acks that a server made."""
    found = ACK_INBOX.match(inbox)
    return None if found is None else found[1]


NUMBERED = re.compile(r"\.[1-9][0-9]*\Z")


def numbered(subject: str | None) -> bool:
    """Whether a subject is that of a partition from 1 on, or of a stream that is called so, or not known."""
    return not subject or NUMBERED.search(subject) is not None
