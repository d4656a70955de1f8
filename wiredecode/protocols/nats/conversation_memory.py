"""State of NATS: of each side of a connection, and shared by all connections of a capture.

A request is a message with a reply subject; messages on that subject are its replies. Both pass several connections:
from the requester to a server, perhaps between servers, and to the responder.

Any other delivered message is a copy of a published one with the same subject and contents. If several were published,
the order decides: NATS delivers messages of one publisher in the order in which they were published. If that is not
enough, no copy is reported.

JetStream in ordinary messages, acks of publishes, errors, keys of buckets and objects of stores: nats-server,
jetstream_api.go and stream.go (``JSPubAckResponse``); ADR-8 (key-value), ADR-20 (object store).
"""

import re
from base64 import urlsafe_b64decode
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

import orjson
from crc32c import crc32c

from wiredecode.data import storable
from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import ALL, Confirmation, Frame
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation_acks import (
    Acknowledged,
    AckPolicies,
    parse_ack_subject,
    read_ack,
)
from wiredecode.protocols.registry import carried_by
from wiredecode.protocols.shared.carried import CarriedSessions
from wiredecode.protocols.shared.pairing import Hop, Newest, Request, hop_of_answer, link

OWN = "$JS."
"""Subjects of JetStream itself."""
STREAM, SEQUENCE, DUPLICATE = "stream", "stream_sequence", "duplicate"
"""Generated fields of the reply to a publish."""
BEGINNINGS = (b'{"stream":', b'{"error":', b'{"type":"io.nats.jetstream.')
"""First bytes of replies to publishes and to requests of the API."""
MAX_ANSWER_BYTES = 64 * 1024
KEY = re.compile(r"(\$JS\.(?:[^.]+\.)?API\.DIRECT\.GET\.KV_[^.]+\.)?\$KV\.([^.]+)\.(.+)")
OBJECT = re.compile(r"\$O\.([^.]+)\.([CM])\.(.+)")
"""Bucket, chunk or metadata, and id of the object or its name in base64."""


def read_answer(frame: Frame, subject: str, data: bytes, consumers: AckPolicies) -> tuple[str, int] | None:
    """Read a reply of JetStream: return stream and sequence of the stored message, or add a finding with the error."""
    if not data.startswith(BEGINNINGS) or len(data) > MAX_ANSWER_BYTES:
        return None
    try:
        answer = orjson.loads(data)
    except ValueError:
        return None
    error, stream, sequence = answer.get("error"), answer.get("stream"), answer.get("seq")
    if isinstance(error, dict):
        number, api = error.get("err_code"), subject.startswith(OWN)
        if isinstance(number, int) or api:  # others are errors of services
            if not api:
                frame.generate(STREAM, printable(str(stream or "")))
            text = printable(str(error.get("description") or "no description"))
            frame.refuse(f"{text} ({error.get('code')}, err_code {number})", "data", "jetstream")
        return None
    if "config" in answer:
        consumers.learn(frame, answer)
    if not isinstance(stream, str) or not isinstance(sequence, int):
        return None
    frame.generate(STREAM, printable(stream))
    frame.generate(SEQUENCE, sequence)
    if answer.get("duplicate"):
        frame.generate(DUPLICATE, True)
        return None
    return stream, sequence


def add_stored_name(frame: Frame, values: Mapping[str, Any]) -> None:
    """Add generated fields: bucket and key (key-value), or bucket and object (object store)."""
    subject = values["subject"]
    if key := KEY.fullmatch(subject):
        operation = next((each["value"] for each in values.get("headers", ()) if each["key"] == "KV-Operation"), "PUT")
        frame.generate("bucket", printable(key[2]))
        frame.generate("key", printable(key[3]))
        frame.generate("kv_operation", printable("GET" if key[1] else operation))
    elif match := OBJECT.fullmatch(subject):
        frame.generate("bucket", printable(match[1]))
        frame.generate("object", printable(match[3]) if match[2] == "C" else object_name(match[3]))


def object_name(coded: str) -> str:
    try:
        return printable(urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode())
    except ValueError:
        return printable(coded)


MAX_CONTENTS = 4_096
"""Different messages remembered: at least this many of the newest, at most twice as many."""
MAX_SAME = 4_096
"""Messages of one publisher with the same contents; at most twice as many."""
MAX_PUBLISHERS = 16
"""Publishers of the same contents."""
MAX_LAST = 1_024
"""Publishers whose last message is remembered per receiver."""
MAX_AMBIGUOUS = 1_024
"""Contents delivered without a captured publish, and subjects with repeated contents, that are remembered."""

PRIVATE = re.compile(r"_|\$(?:SYS|JS)|.*\._")
"""Inboxes and subjects of the system account and of JetStream: requests are answered there."""
Key = tuple[str, int]
"""Subject, and CRC-32C of the payload."""
Passage = tuple[int, int, int]
"""Number and id of a frame; its time, ns, or 0 if a server forwarded the message."""


@dataclass(slots=True, eq=False)
class NatsPublisher:
    """A side of a connection that publishes, or forwards messages of others; and the server at the other side."""

    server: str = ""


@dataclass(slots=True, eq=False)
class Receiver:
    """A receiver of ordered messages: a subscription, or a server."""

    since: int = 0
    """Number of the frame that subscribed; 0: it was not captured."""
    server: str = ""
    gets_all: bool = False
    """Whether it gets every message of its subjects, without a queue group."""
    forwards_as: NatsPublisher | None = None
    """Between servers: the publisher as which it forwards messages that were not captured before."""
    last: dict[NatsPublisher, int] = field(default_factory=dict)
    """Number of the last message received of each publisher."""
    ambiguous: Newest[Key, None] = field(default_factory=lambda: Newest(MAX_AMBIGUOUS))
    """Contents delivered without a captured publish: these cannot be matched by counting."""

    def mark_ambiguous(self, key: Key) -> None:
        self.gets_all = False
        self.ambiguous.put(key, None)


MAX_WAITING = 1_024
"""PINGs, verbose operations and publishes that are remembered until they are answered."""
MAX_RECEIVERS = 1_024
"""Subscriptions whose beginning was not captured."""


@dataclass(slots=True)
class NatsSubscription:
    """A subscription; ``generated``: fields of its messages."""

    subject: str
    queue: str | None
    generated: dict[str, Any]
    most: int = 0
    """Ends after this many deliveries; 0: never."""
    delivered: int = 0
    ended: bool = False
    receiver: Receiver = field(default_factory=Receiver, compare=False)


@dataclass(slots=True)
class NatsSide:
    """State of one side of a connection."""

    reached: int = 0
    """Stream offset after its last frame."""
    whole: bool = True
    """False once bytes were lost."""
    upgraded: bool = False
    """Whether it sent the HTTP head before WebSocket frames."""
    pings: deque[Request] = field(default_factory=lambda: deque(maxlen=MAX_WAITING))
    ponged_ns: int = 0
    """Time of its last PONG. Where one side waited for bytes, it may come before its PING."""
    publisher: NatsPublisher = field(default_factory=NatsPublisher, compare=False)
    receivers: Newest[str | None, Receiver] = field(default_factory=lambda: Newest(MAX_RECEIVERS), compare=False)
    """By sid: subscriptions that were not captured; by None: the server at the other side."""
    options: dict[str, Any] = field(default_factory=dict)
    """Members of its INFO and CONNECT, by name."""

    def receiver(self, sid: str | None, subscriptions: Mapping[str, NatsSubscription]) -> Receiver:
        """The receiver of its messages: a subscription, or without ``sid`` the server at the other side."""
        subscription = subscriptions.get(sid) if sid is not None else None
        if subscription is not None:
            return subscription.receiver
        remembered = self.receivers.get(sid)
        if remembered is None:
            remembered = Receiver(forwards_as=self.publisher if sid is None else None)
            self.receivers.put(sid, remembered)
        return remembered


class Repeated:
    """Messages with the same contents, by publisher."""

    def __init__(self, publisher: NatsPublisher, passage: Passage) -> None:
        self.passages: dict[NatsPublisher, list[Passage]] = {publisher: [passage]}
        self.forgotten = 0
        """Frame number of the last one that was dropped."""

    def add(self, publisher: NatsPublisher, passage: Passage) -> None:
        if len(self.passages) >= MAX_PUBLISHERS and publisher not in self.passages:
            self.forgotten = passage[0]
            return
        passages = self.passages.setdefault(publisher, [])
        passages.append(passage)
        if len(passages) > 2 * MAX_SAME:
            self.forgotten = max(self.forgotten, passages[MAX_SAME - 1][0])
            del passages[:MAX_SAME]

    def next(self, receiver: Receiver, key: Key) -> tuple[NatsPublisher, Passage] | None:
        """The publisher and message that a receiver gets next; None: ambiguous."""
        candidates: list[tuple[Passage, NatsPublisher]] = []
        count, exact = 0, receiver.gets_all
        for publisher, passages in self.passages.items():
            before = receiver.last.get(publisher, receiver.since)
            at = bisect_right(passages, before, key=itemgetter(0))
            if at < len(passages):
                candidates.append((passages[at], publisher))
                count += len(passages) - at
                captured = publisher in receiver.last or (receiver.since and receiver.server == publisher.server)
                exact = exact and bool(captured) and before >= self.forgotten
        if not candidates:
            receiver.ambiguous.put(key, None)
        if not candidates or not (exact or (count == 1 and not self.forgotten)):
            return None
        passage, publisher = min(candidates, key=itemgetter(0))
        return publisher, passage


class Copies:
    """Published messages of a capture, and their copies; bounded."""

    def __init__(self) -> None:
        self._contents: dict[Key, tuple[NatsPublisher, Passage] | Repeated] = {}
        """Messages published once."""
        self._before: dict[Key, tuple[NatsPublisher, Passage] | Repeated] = {}
        """The same, of older contents."""
        self.lossy = False
        self._margin = 0
        """Messages minus gaps: below 0 most messages were not captured."""
        self._repeating: Newest[str, None] = Newest(MAX_AMBIGUOUS)
        """Subjects with contents that were published again."""

    def note_loss(self) -> None:
        """Messages may be missing, so equal ones can no longer be counted."""
        self.lossy = True
        self._margin -= 1

    def publish(self, key: Key, publisher: NatsPublisher, passage: Passage) -> None:
        """Remember a published message, or a forwarded one that was not captured before."""
        self._margin += 1
        earlier = self._contents.get(key) or self._before.get(key)
        if earlier is None:
            self._contents[key] = publisher, passage
        else:
            self._contents[key] = earlier = earlier if isinstance(earlier, Repeated) else Repeated(*earlier)
            earlier.add(publisher, passage)
            self._repeating.put(key[0], None)
        if len(self._contents) >= MAX_CONTENTS:
            self._before, self._contents = self._contents, {}

    def deliver(self, key: Key, receiver: Receiver, passage: Passage) -> Passage | None:
        """The publish of a delivered message; None: unknown."""
        if self._margin < 0:
            return None
        earlier = self._contents.get(key) or self._before.get(key)
        if earlier is None and receiver.forwards_as is not None:
            self.publish(key, receiver.forwards_as, passage)
        elif receiver.ambiguous and key in receiver.ambiguous:
            return None
        elif isinstance(earlier, Repeated):
            earlier = None if self.lossy else earlier.next(receiver, key)
            if earlier is None:
                receiver.gets_all = False  # its messages can no longer be counted
                return None
        elif self.lossy and key[0] in self._repeating:
            return None  # an equal publish may be lost
        if earlier is None:
            receiver.mark_ambiguous(key)
            return None
        publisher, original = earlier
        last = receiver.last
        if original[0] <= last.get(publisher, receiver.since):
            receiver.mark_ambiguous(key)
            return None
        if len(last) >= MAX_LAST:
            last.clear()
            receiver.gets_all = False
        last[publisher] = original[0]
        return original


MAX_REQUESTS = 20_000
"""Reply subjects remembered; beyond it the oldest is forgotten."""
MAX_HOPS = 16
"""Connections on which one request was seen."""
REQUEST_SECONDS = 30
"""A message on the reply subject within this time is a reply."""
GATEWAY_PREFIX = re.compile(r"_GR_\.[^.]{6}\.[^.]{6}\.|\$GR\.[^.]{4}\.")
"""Prefixes of reply subjects by gateways, in the new and the old form."""


@dataclass(slots=True)
class RequestHops:
    """A request and the connections on which it was seen."""

    subject: str
    digest: int
    """CRC of the payload, the same in every process."""
    hops: list[Hop]
    published_ns: int | None
    """When its client sent it, ns; None: the first captured hop is a later one."""
    answer: tuple[int, int] | None = None
    """First frame and digest of the last reply."""


@storable
def plain_subject(subject: str) -> str:
    """The subject without the prefix of a gateway."""
    if subject.startswith(("_GR_.", "$GR.")):
        return GATEWAY_PREFIX.sub("", subject, count=1)
    return subject


def digest_of(values: Mapping[str, Any]) -> int:
    """CRC-32C of a payload; of one that was not captured as of none."""
    return values["digest"] if "digest" in values else crc32c(values.get("data") or b"")


@dataclass(slots=True)
class NatsMemory:
    """Shared by all connections of a capture; bounded."""

    requests: Newest[str, RequestHops] = field(default_factory=lambda: Newest(MAX_REQUESTS))
    copies: Copies = field(default_factory=Copies)
    stored: Newest[tuple[str, int], RequestHops] = field(default_factory=lambda: Newest(MAX_REQUESTS))
    """Publishes by JetStream's stream and sequence."""
    consumers: AckPolicies = field(default_factory=AckPolicies)
    carried: CarriedSessions = field(default_factory=lambda: CarriedSessions(carried_by("nats"), plain_subject))
    """State of the protocols inside payloads."""

    def ask(self, frame: Frame, values: Mapping[str, Any], *, first: bool) -> int | None:
        """Take a request, or a hop of one; ``first``: it comes from a client. Return its publish time, ns, if known."""
        reply, digest = plain_subject(values["reply"]), digest_of(values)
        hop = Hop(frame.id, frame.time_ns, frame.connection.number, frame.side)
        frame.expects_response = True
        acked = parse_ack_subject(reply)
        published_ns = self._find_publish(frame, acked, values["subject"], digest) if acked else None
        request = self.requests.get(reply)
        same = request is not None and request.subject == values["subject"] and request.digest == digest
        if same and request is not None and self.copies.lossy:  # its publish may be lost
            same = not any((each.connection, each.side) == (hop.connection, hop.side) for each in request.hops)
        if request is not None and same and not first and is_recent(request.hops[-1], frame):
            if "copy_of" not in frame.generated:
                frame.generate("copy_of", request.hops[0].frame)
            if len(request.hops) < MAX_HOPS:
                request.hops.append(hop)
            published_ns = request.published_ns or published_ns
        else:
            request = RequestHops(values["subject"], digest, [hop], frame.time_ns if first else None)
            self.requests.put(reply, request)
        if acked and not first:
            self.consumers.deliver(frame, acked, request)
        return published_ns

    def _find_publish(self, frame: Frame, acked: Acknowledged, subject: str, digest: int) -> int | None:
        """Find the publish of a delivery by JetStream, by stream and sequence in its reply subject; return its time."""
        stored = self.stored.get((acked.stream, acked.sequence))
        if stored is None or (stored.subject, stored.digest) != (subject, digest):
            return None
        frame.generate("copy_of", stored.hops[0].frame)
        return stored.published_ns if acked.delivered == 1 else None

    def refuse(self, frame: Frame, subject: str) -> None:
        """-ERR refuses a publish to ``subject``: link the oldest one without a reply."""
        oldest: RequestHops | None = None
        for request in islice(reversed(self.requests.values()), MAX_WAITING):
            hop = request.hops[0]
            if request.subject == subject and hop.connection == frame.connection.number and request.answer is None:
                oldest = request
        if oldest is not None and oldest.hops[0].time_ns <= frame.time_ns and is_recent(oldest.hops[0], frame):
            oldest.answer = frame.id, 0
            link(frame, oldest.hops[0])

    def answer(self, frame: Frame, values: Mapping[str, Any], *, first: bool, between: bool = False) -> None:
        """Link a message with the request that it replies to, if any. ``between``: sent from server to server."""
        subject = values["subject"]
        request = self.requests.get(subject) or self.requests.get(plain_subject(subject))
        if request is None:
            return
        hop = hop_of_answer(request.hops, frame)
        if frame.time_ns < hop.time_ns or not is_recent(hop, frame):
            return  # if packets were lost, an older request may wait after a gap
        if values.get("status") == names.NO_RESPONDERS:
            frame.generate("request_subject", printable(request.subject))
        data, digest = values.get("data") or b"", digest_of(values)
        if (stored := read_answer(frame, request.subject, data, self.consumers)) is not None:
            self.stored.put(stored, request)
        if first or request.answer is None or request.answer[1] != digest:
            request.answer = frame.id, digest
        else:
            frame.generate("copy_of", request.answer[0])
            if between and hop.connection != frame.connection.number:
                return  # on its way: the requester gets another copy
        link(frame, hop)
        if (acked := parse_ack_subject(plain_subject(subject))) is not None:
            refusal, final = read_ack(frame)
            frame.confirmations = [Confirmation(hop.frame, 0, 0 if final is None else ALL, refusal, final)]
            for earlier in self.consumers.acknowledge(frame, acked, final):
                if earlier is not request:
                    answered = hop_of_answer(earlier.hops, frame).frame
                    frame.confirmations.append(Confirmation(answered, 0, ALL, None, final))
        asking = frame.connection.directions[1 - frame.side]
        if hop.connection == frame.connection.number and asking.lost_between(hop.time_ns, frame.time_ns, frame.ready):
            frame.latency_ns = None  # it may answer a later pull, not captured


def is_recent(hop: Hop, frame: Frame) -> bool:
    return frame.time_ns - hop.time_ns <= REQUEST_SECONDS * 1_000_000_000
