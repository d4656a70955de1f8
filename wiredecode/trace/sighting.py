"""Sightings of messages in frames: which are wanted, and which are of the same message."""

import hashlib
import re
from collections.abc import Container, Iterable, Sequence
from fnmatch import fnmatchcase

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.escape import escape, shorten
from wiredecode.frames.frame import REFUSED, Frame
from wiredecode.frames.message import FORWARD, PUBLISH, FrameMessages, Header
from wiredecode.net.types import Connection

ACKNOWLEDGED, NOT_ACKNOWLEDGED = "acknowledged", "not acknowledged"
"""Types of what a consumer answers to a delivery."""
STORED = "stored"
"""Type of a consumer storing its position."""
SHOWN = 200
"""Bytes of a body that are kept to be shown."""
SOON_NS = 1_000_000_000
"""If only the body identifies a message, a broker passes it on within this time."""

SEARCHED = 4096
"""Bytes of a body in which a trace context is looked for."""
TRACEPARENT = re.compile(rb"traceparent.{1,5}?([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})", re.DOTALL)

LogPosition = tuple[str | None, str | None, int | None, int]
"""Namespace, topic, partition, offset."""


@dataclass(slots=True, eq=False)
class InFrame:
    """Where and when something was seen."""

    frame: int
    packets: list[int]
    time_ns: int
    connection: Connection
    side: int
    protocol: str
    type: str | None


def facts(frame: Frame) -> tuple[int, list[int], int, Connection, int, str, str | None]:
    """Return the arguments of :class:`InFrame`."""
    where = frame.connection, frame.side, frame.protocol, frame.type
    return frame.number, frame.packets[:1], frame.time_ns, *where


@dataclass(slots=True, eq=False)
class Reply(InFrame):
    """A frame that answers a sighting: a confirm, an ack, a reply."""

    word: str
    """``confirmed``, ``refused``, ``answered``; of a consumer ``acknowledged``, ``not acknowledged``, ``stored``."""
    rests_on: str
    """Evidence that it is the answer."""
    sequence: int | None = None
    """Number that the broker gave the message."""
    why: str = ""
    """The reason of a refusal."""


@dataclass(slots=True, eq=False)
class Sighting(InFrame):
    """One message in one frame. ``digest``: of its body; None where that is empty or was not captured."""

    index: int
    operation: str
    topic: str | None
    partition: int | None
    offset: int | None
    sequence: int | None
    key: bytes | None
    size: int | None
    digest: bytes | None
    body: bytes
    """First bytes of the message."""
    publisher: int | None = None
    """Publisher on its connection, where numbers of messages are per publisher."""
    share: int = 0
    """Index of its share in the confirms of its frame."""
    subscription: str | None = None
    copy_of: int | None = None
    """Frame of the first sighting, if the protocol contains it."""
    outcome: str | None = None
    namespace: str | None = None
    """Namespace of the cluster, if several share a network."""
    traceparent: str | None = None
    """W3C trace context that it carries, in a header or near its start (AMQP properties, CloudEvents)."""
    rests_on: str = ""
    """Evidence that it is the same message as in the sightings before."""
    is_duplicate: bool = False
    """Whether its publisher used the number before, so that the broker drops it."""
    answers: list[Reply] = field(default_factory=list)

    @property
    def log_position(self) -> LogPosition | None:
        return None if self.offset is None else (self.namespace, self.topic, self.partition, self.offset)


def digest_of(body: bytes | None) -> bytes | None:
    return hashlib.blake2b(body, digest_size=16).digest() if body else None


def sighting(part: FrameMessages, index: int, before: int) -> Sighting:
    """Return message ``index`` of a part of a frame that has ``before`` other messages in front of it."""
    frame, body = part.frame, part.bodies[index]
    publisher = frame.values.get("publisher_id")
    subscription = frame.generated.get("subscription")
    return Sighting(
        *facts(frame),
        before + index,
        part.operation,
        part.topic,
        part.partition,
        _of(part.offsets, index),
        _of(part.sequences, index),
        None if part.keys is None else part.keys[index],
        None if body is None else len(body),
        digest_of(body),
        (body or b"")[:SHOWN],
        publisher if isinstance(publisher, int) else None,
        before + index if part.shares is None else part.shares[index],
        None if subscription is None else str(subscription),
        frame.generated.get("copy_of"),
        namespace=part.namespace,
        traceparent=traceparent_of(None if part.headers is None else part.headers[index], body),
    )


def traceparent_of(headers: list[Header] | None, body: bytes | None) -> str | None:
    """The trace context of a message."""
    named = next((value for name, value in headers or () if name.lower() == "traceparent"), None)
    if named is None and (match := TRACEPARENT.search(body or b"", 0, SEARCHED)):
        named = match[1]
    return None if named is None else named.decode("latin-1")


def _of(values: Sequence[int | None] | None, index: int) -> int | None:
    return None if values is None else values[index]


@dataclass(frozen=True, slots=True)
class Criteria:
    """Criteria for a message: all given ones have to fit. ``contents``: bytes that its body holds."""

    frame: int | None = None
    index: int | None = None
    id: str | None = None
    """Publishing id, sequence, offset, correlation id, or the value of a header whose name ends in ``id``."""
    topic: str | None = None
    key: bytes | None = None
    contents: tuple[bytes, ...] = ()

    def described(self) -> str:
        """The criteria in words: ``with the id 7 on orders``."""
        wanted = [f"the id {self.id}"] if self.id is not None else []
        wanted += [f"the key {_shown(self.key)}"] if self.key is not None else []
        wanted += [f"{_shown(each)} in its body" for each in self.contents]
        topic = f" on {escape(self.topic)}" if self.topic is not None else ""
        return f"with {' and '.join(wanted)}{topic}" if wanted else f"fits{topic}"

    def fits(self, part: FrameMessages, before: int) -> list[int]:
        """Return the wanted messages of a part of a frame, which has ``before`` messages in front of this part."""
        if self.frame not in (None, part.frame.number) or self.topic not in (None, part.topic):
            return []
        everywhere = self.id is None or self._is_correlated(part.frame)
        return [
            index
            for index, body in enumerate(part.bodies)
            if (self.index is None or before + index == self.index)
            and (self.key is None or (part.keys is not None and part.keys[index] == self.key))
            and all(body is not None and some in body for some in self.contents)
            and (everywhere or self._has_number(part, index))
        ]

    def _is_correlated(self, frame: Frame) -> bool:
        """An answer has the correlation id of its request, so it is not examined."""
        if frame.request is not None:
            return False
        layers = [frame.values, *(inner.values or {} for inner in frame.inner)]
        return any(str(values["correlation_id"]) == self.id for values in layers if "correlation_id" in values)

    def _has_number(self, part: FrameMessages, index: int) -> bool:
        numbers = {str(_of(part.sequences, index)), str(_of(part.offsets, index))}
        if self.id in numbers:
            return True
        criteria = (self.id or "").encode(errors="surrogateescape")
        headers = (None if part.headers is None else part.headers[index]) or []
        return any(name.lower().endswith("id") and value == criteria for name, value in headers)


@dataclass(slots=True, eq=False)
class SightedMessage:
    """One message and its sightings, in order of time."""

    sightings: list[Sighting] = field(default_factory=list)

    @property
    def first(self) -> Sighting:
        return self.sightings[0]

    @property
    def offset(self) -> int | None:
        return next((each.offset for each in self.sightings if each.offset is not None), None)

    def is_at(self, sighting: Sighting) -> bool:
        """Whether it is known to lie where ``sighting`` says."""
        return any(
            each.offset == sighting.offset and each.partition == sighting.partition and same_topic(each, sighting)
            for each in self.sightings
            if each.offset is not None and each.namespace == sighting.namespace
        )

    def may_be_in(self, namespace: str | None) -> bool:
        """Whether it may pass a cluster: clusters that share a network do not share messages."""
        namespaces = {each.namespace for each in self.sightings} - {None}
        return namespace is None or not namespaces or namespace in namespaces

    def add(self, sighting: Sighting, rests_on: str) -> None:
        sighting.rests_on = rests_on
        self.sightings.append(sighting)


def group(sightings: Iterable[Sighting]) -> list[SightedMessage]:
    """The messages that sightings, in order, are of."""
    messages: list[SightedMessage] = []
    bodies: dict[bytes | None, list[SightedMessage]] = {}
    for each in sightings:
        same_bodies = bodies.setdefault(each.digest, [])
        message, rests_on = _find_message(each, same_bodies)
        if message is None:
            message, rests_on = SightedMessage(), ""
            messages.append(message)
            same_bodies.append(message)
        message.add(each, rests_on)
    return messages


def _find_message(sighting: Sighting, messages: list[SightedMessage]) -> tuple[SightedMessage | None, str]:
    """Return the message of ``sighting``, among those with its body, and the evidence."""
    for message in messages:
        if (
            sighting.copy_of is not None
            and sighting.operation != FORWARD
            and any(each.frame == sighting.copy_of and each.index == sighting.index for each in message.sightings)
        ):
            return message, f"a copy of frame {sighting.copy_of}"
        if sighting.offset is not None and message.is_at(sighting):
            return message, f"offset {sighting.offset}"
        if _again(sighting, message.first):
            return message, f"sequence {sighting.sequence}, sent again"
    if sighting.digest is None:
        return None, ""
    if sighting.operation == PUBLISH and sighting.offset is None:
        refused = next((each for each in messages if _was_refused(each, sighting)), None)
        return refused, "" if refused is None else "the same body, published again after it was refused"
    return _same_body(sighting, messages)


def _was_refused(message: SightedMessage, sighting: Sighting) -> bool:
    """Whether every publish of a message had been refused before ``sighting``."""
    published = [each for each in message.sightings if each.operation == PUBLISH]
    return bool(published) and all(
        each.outcome == REFUSED
        and each.protocol == sighting.protocol
        and max([each.frame, *(answer.frame for answer in each.answers)]) < sighting.frame
        for each in published
    )


def _again(sighting: Sighting, first: Sighting) -> bool:
    """Whether a publisher sends the same number twice."""
    return (
        sighting.operation == first.operation == PUBLISH
        and sighting.sequence is not None
        and sighting.offset is None
        and (sighting.sequence, sighting.publisher) == (first.sequence, first.publisher)
        and sighting.connection is first.connection
        and sighting.frame != first.frame
        and same_topic(sighting, first)
    )


def _same_body(sighting: Sighting, messages: list[SightedMessage]) -> tuple[SightedMessage | None, str]:
    """Find the first published message of the topic with the same body that was not seen here yet."""
    published = [
        each
        for each in messages
        if each.first.operation == PUBLISH and same_topic(sighting, each.first) and each.may_be_in(sighting.namespace)
    ]
    if sighting.offset is not None:
        numbered = [each for each in published if each.offset is None and _same_number(each.first, sighting)]
        message = numbered[0] if numbered else None
    else:
        fresh = [
            each
            for each in published
            if sighting.time_ns - each.first.time_ns <= SOON_NS
            and not any(
                (seen.connection, seen.side, seen.subscription)
                == (sighting.connection, sighting.side, sighting.subscription)
                for seen in each.sightings
            )
        ]
        message = fresh[0] if fresh else published[-1] if published else None
    if message is None:
        return None, ""
    several = f", the next in order of {len(published)} with it" if len(published) > 1 else ""
    return message, f"the same body{several}"


def _same_number(first: Sighting, sighting: Sighting) -> bool:
    if first.partition is not None and sighting.partition is not None and first.partition != sighting.partition:
        return False
    return first.sequence is None or sighting.sequence is None or first.sequence == sighting.sequence


def same_topic(one: Sighting, other: Sighting) -> bool:
    """Whether two sightings may be of one topic; consumers may name it by a pattern."""
    a, b = one.topic, other.topic
    return a is None or b is None or a == b or fnmatchcase(a, b) or fnmatchcase(b, a)


def drop_answers(messages: list[SightedMessage], wanted: Container[tuple[int, int]]) -> list[SightedMessage]:
    """The messages with a wanted sighting, by its frame and index: without answers to others, which are their hops."""
    several = [message for message in messages if any((each.frame, each.index) in wanted for each in message.sightings)]
    answers = {answer.frame for message in several for each in message.sightings for answer in each.answers}
    return [message for message in several if message.first.frame not in answers]


def _shown(data: bytes) -> str:
    return repr(shorten(escape(data.decode("utf-8", "backslashreplace")), SHOWN))
