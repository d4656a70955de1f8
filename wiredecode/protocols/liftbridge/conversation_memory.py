"""State of Liftbridge in a capture: requests, publishes, acks, namespaces and subjects.

A request and its response usually travel on different NATS connections, and each message is seen once per hop.
"""

import re
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge.conversation_raft_streams import RaftStreams
from wiredecode.protocols.liftbridge.names import DEFAULT_NAMESPACE, RAFT_MARK
from wiredecode.protocols.shared.carried import CarriedSession
from wiredecode.protocols.shared.pairing import Hop, Newest, hop_of_answer

MAX_KEY_CHARACTERS = 1024
"""Longest subject or id by which something is remembered: NATS servers take control lines of 4096 bytes."""
NO_FACTS: dict[str, Any] = {}

Key = tuple[str, ...]
"""Common key of a request and its response: the reply subject, or inbox and correlation id of an ack."""


@dataclass(slots=True)
class RequestHop(Hop):
    """A request or a publish on one connection."""

    message_type: int
    facts: dict[str, Any]
    """Facts about its response."""


MAX_EXCHANGES = 10_000
"""Requests and publishes remembered until they are answered; the oldest are forgotten."""
MAX_HOPS = 16
"""Copies of one request that are remembered."""
MAX_SUBJECTS = 4096
"""Subjects whose facts are remembered."""
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


class SubjectFacts(NamedTuple):
    """Facts in a subject: the message type to expect, and the stream and partition it names."""

    message_type: int | None = None
    namespace: str | None = None
    """Namespace of the cluster; None: not in the subject."""
    facts: dict[str, Any] = {}
    tail: str = ""
    """The subject within the namespace."""
    numbered: bool = True
    """Whether messages on it may be of another partition than the first: only the stream's metadata shows it."""


@dataclass(eq=False)
class LiftbridgeMemory(CarriedSession):
    """State from messages of one capture that others need; bounded. Decoding is added in :mod:`.conversation`."""

    exchanges: Newest[Key, list[RequestHop]] = field(default_factory=lambda: Newest(MAX_EXCHANGES))
    forgets: bool = False
    """True after more requests than are remembered."""
    raft: RaftStreams = field(default_factory=RaftStreams)
    namespaces: dict[str, None] = field(default_factory=lambda: {DEFAULT_NAMESPACE: None})
    servers: Newest[int, str] = field(default_factory=lambda: Newest(MAX_SERVERS))
    """Namespaces of servers, by connection."""
    known_subjects: dict[str | None, SubjectFacts] = field(default_factory=dict)

    def learn_namespace(self, namespace: str) -> None:
        if namespace not in self.namespaces and len(self.namespaces) < MAX_NAMESPACES:
            self.namespaces[namespace] = None
            self.known_subjects.clear()

    def subject_facts(self, subject: str | None) -> SubjectFacts:
        facts = self.known_subjects.get(subject)
        if facts is None:
            if subject is None or len(subject) > MAX_KEY_CHARACTERS:
                return SubjectFacts(numbered=may_be_stream(subject))
            if len(self.known_subjects) >= MAX_SUBJECTS:
                self.known_subjects.clear()
            if RAFT_MARK in subject:
                self.learn_namespace(subject.partition(RAFT_MARK)[0])
            facts = self.known_subjects[subject] = self._subject_facts(subject)._replace(
                numbered=may_be_stream(subject)
            )
        return facts

    def _subject_facts(self, subject: str) -> SubjectFacts:
        before, mark, rest = subject.partition(RAFT_MARK)
        if mark:
            return SubjectFacts(RAFT_SUBJECTS.get(rest.partition(".")[0]), before)
        namespaces = [namespace for namespace in self.namespaces if subject.startswith(namespace + ".")]
        if not namespaces:
            return SubjectFacts(namespace=ack_namespace(subject))
        namespace = max(namespaces, key=len)
        tail = subject[len(namespace) + 1 :]
        stream, _, last = tail.rpartition(".")
        stream, _, partition = stream.rpartition(".")
        if last in PARTITION_SUBJECTS and partition.isdecimal() and stream:
            facts = {"stream": printable(stream), "partition": int(partition[:10])}
            return SubjectFacts(PARTITION_SUBJECTS[last], namespace, facts, tail)
        own = OWN_SUBJECTS.get(tail.partition(".")[0])
        return SubjectFacts(own, None if own is None else namespace, {}, tail)

    def learn_from(self, frame: Frame, shape: re.Pattern[str], subject: str) -> None:
        """Learn namespaces from a message that only servers send: that of its subject, and of the client's server."""
        namespace = self.subject_facts(subject).namespace
        if namespace is None and (match := shape.match(subject)):
            namespace = match[1]
            self.learn_namespace(namespace)
        if namespace is not None and frame.sender == "client" and frame.connection.number not in self.servers:
            self.servers.put(frame.connection.number, namespace)

    def ask(self, key: Key, frame: Frame, message_type: int, facts: dict[str, Any]) -> None:
        if max(map(len, (*key, facts.get("replica_id", "")))) > MAX_KEY_CHARACTERS:
            return
        hops = self.exchanges.get(key)
        if not self.forgets and hops is None and len(self.exchanges) >= MAX_EXCHANGES:
            self.forgets = True
            message = f"more than {MAX_EXCHANGES} requests: from here on the oldest is forgotten"
            frame.find("note", "limit", "outstanding", message)
        hop = RequestHop(frame.id, frame.time_ns, frame.connection.number, frame.side, message_type, facts)
        if hops is None:
            self.exchanges.put(key, [hop])
        elif len(hops) < MAX_HOPS:
            hops.append(hop)

    def answer(self, key: Key, frame: Frame) -> RequestHop | None:
        """The request of a response, if it is remembered."""
        hops = self.exchanges.get(key)
        return hop_of_answer(hops, frame) if hops else None


def ack_namespace(inbox: str) -> str | None:
    """The namespace in a server's subject for acks."""
    match = ACK_INBOX.match(inbox)
    return None if match is None else match[1]


NUMBERED = re.compile(r"\.[1-9][0-9]*\Z")


def may_be_stream(subject: str | None) -> bool:
    """Whether a subject ends with a partition number from 1 on, as a stream's name can, or is not known."""
    return not subject or NUMBERED.search(subject) is not None
