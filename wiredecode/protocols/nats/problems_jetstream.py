"""Publishes that JetStream did not store although it answered, and requests to it that are not taken or answered."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from crc32c import crc32c

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.protocols.nats.conversation_acks import parse_ack_subject
from wiredecode.protocols.nats.conversation_memory import DUPLICATE, OWN, SEQUENCE, STREAM
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import CHANGED, DELETED, DELIVERED, MADE, PURGED, STORED
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, FrameRef, Problem, Report, Rule, ref_of, whole
from wiredecode.protocols.shared.times import without_times

CODES = codes_of("nats")
PUBLISHED = ("PUB", "HPUB")
MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-"
"""Beginning of the other headers that only publishes to JetStream have."""
DELETE, DELETE_CONSUMER, NEXT = ".API.STREAM.DELETE.", ".API.CONSUMER.DELETE.", ".API.CONSUMER.MSG.NEXT."
PURGE, UPDATE, CREATE = ".API.STREAM.PURGE.", ".API.STREAM.UPDATE.", ".API.STREAM.CREATE."
CREATE_CONSUMER = ".API.CONSUMER.CREATE."
"""Parts of subjects; the last one is that of a pull, which waits for messages."""
UNJUDGED = (".MSG.", ".DIRECT.", ".DELETE")
"""Parts of the subjects of requests that are often refused: lookups of messages, and removals."""
MANY_REFUSED, MIN_REFUSED_NS = 3, 1_000_000_000
"""Refusals about one stream or consumer that are worth a warning, and the time between the first and the last."""
MAX_IDS = 65_536
"""Message ids remembered with a digest of the contents published with them."""
MAX_KNOWN = 1024
"""Subjects, deleted streams, consumers."""
MANY_PULLS = 2
"""This many pulls in a row without answer are an error."""
STORES = "KV_", "OBJ_"
"""Beginnings of streams that are key-value and object stores: to look at all their keys a client makes a consumer."""
MANY_AGAIN, SOON_NS = 20, 300_000_000
"""Consumers or messages of one client that show a habit; a message is published again because the first time failed."""
LATE_NS = 500_000_000
"""A server answers a pull this long after it expired, at the latest."""


class Publish(NamedTuple):
    """A message whose headers say that JetStream shall store it."""

    id: str | None
    digest: int


def publish_of(values: Mapping[str, Any]) -> Publish | None:
    """None: its headers say nothing of JetStream."""
    if "headers" not in values:
        return None
    keys = {each["key"]: each["value"] for each in values["headers"] if "key" in each and "value" in each}
    message_id = keys.get(MESSAGE_ID)
    if message_id is None and not any(key.startswith(EXPECTED) for key in keys):
        return None
    return Publish(message_id, crc32c(without_times(bytes(values.get("data", b"")))))


@dataclass(slots=True)
class Mistaken:
    """Messages of one connection that a stream took for duplicates, or for new ones, and are not."""

    first: FrameRef
    frames: list[FrameRef] = field(default_factory=list)
    messages: int = 0
    last_ns: int = 0
    least_ns: int = 0
    """The shortest time since the message of the same id."""

    def add(self, published: FrameRef, after_ns: int) -> None:
        self.messages += 1
        self.last_ns, self.least_ns = published.time_ns, min(after_ns, self.least_ns or after_ns)
        if len(self.frames) < MAX_EVIDENCE:
            self.frames.append(published)


def asked_for(subject: str) -> str:
    """``stream`` or ``stream, consumer name`` of the subject of a request to JetStream."""
    kind, _, rest = subject.partition(".API.")[2].partition(".")
    _, *names = rest.removeprefix("DURABLE.").removeprefix("MSG.").split(".")
    return printable(", consumer ".join(names[: 2 if kind == "CONSUMER" else 1]))


class Pull(NamedTuple):
    """A request for messages of a consumer, until a time at which the server answers in any case."""

    of: str
    """The consumer."""
    ref: FrameRef
    until_ns: int


@dataclass(eq=False)
class Pulls(Rule):
    """Pulls without an answer: their consumer is gone."""

    plain = False
    types = frozenset({"PUB", "HPUB", "MSG", "HMSG"})
    _open: Newest[str, list[Pull]] = field(default_factory=lambda: Newest(MAX_IDS))
    """By reply subject, which many share: the newest since the last answer to it."""
    _answered: Newest[str, int] = field(default_factory=lambda: Newest(MAX_KNOWN))
    """Time of the last answer, by consumer."""

    def frame(self, frame: Frame) -> None:
        subject, reply = frame.values.get("subject", ""), frame.values.get("reply")
        if frame.type not in PUBLISHED:
            if self._open:
                self._answer(frame)
        elif reply is None or not subject.startswith(OWN):
            return
        elif NEXT in subject:
            try:
                expires_ns = orjson.loads(bytes(frame.values.get("data", b"")))["expires"]
                until_ns = frame.time_ns + int(expires_ns) + LATE_NS
            except (LookupError, TypeError, ValueError):
                return
            pulls = self._open.get_or_make(reply, list)
            pulls.append(Pull(asked_for(subject), ref_of(frame), until_ns))
            del pulls[:-MAX_EVIDENCE]

    def _answer(self, frame: Frame) -> None:
        """The server sent a message of a consumer, or a status to who pulls."""
        values = frame.values
        pulls, why = self._open.pop(values.get("subject", ""), None), printable(values.get("description", ""))
        pull = pulls[0] if pulls else None
        if pull is not None and why.startswith("Exceeded"):
            title = f"{short(pull.ref.connection)} pulls from {pull.of} in vain: {why}"
            self.report.add(CODES["pull-refused"], title, title, frame=pull.ref, until_ns=frame.time_ns).alike = why
        for answered in (pull, parse_ack_subject(values.get("reply", ""))):
            if answered is not None:
                self._answered.put(answered.of, frame.time_ns)

    def finish(self) -> None:
        unanswered: dict[str, list[Pull]] = {}
        for pull in (each for pulls in self._open.values() for each in pulls):
            connection = pull.ref.connection
            end_ns = min(self.report.last_ns, connection.health.last_ns if connection.health else self.report.last_ns)
            waits = pull.ref.time_ns > (self._answered.get(pull.of) or 0)
            if waits and pull.until_ns <= end_ns and whole(pull.ref.connection):
                unanswered.setdefault(pull.of, []).append(pull)
        for consumer, pulls in unanswered.items():
            if len(pulls) >= MANY_PULLS:
                self._report(consumer, pulls)

    def _report(self, consumer: str, pulls: list[Pull]) -> None:
        refs = [pull.ref for pull in pulls]
        title = f"{short(refs[0].connection)} pulls from {consumer}, and JetStream answers nothing"
        explain_consumer(self.report, self.report.about(CODES["consumer-gone"], title, consumer, refs), consumer)


@dataclass(slots=True)
class HabitOfClient:
    """What a client did again and again."""

    refs: list[FrameRef] = field(default_factory=list)
    """The first times, and the last one."""
    times: int = 0
    different: int = 0
    """Messages that were published several times in a row."""
    digest: int = 0
    at_ns: int = 0
    again: bool = False
    """The last message: its contents, when it was published, and whether it was so before."""

    def add(self, frame: Frame) -> None:
        self.times += 1
        del self.refs[MAX_EVIDENCE - 1 :]
        self.refs.append(ref_of(frame))

    def publish(self, frame: Frame) -> None:
        digest, before_ns = hash(frame.values.get("data", b"")), self.at_ns
        self.at_ns = frame.time_ns
        if digest != self.digest:
            self.digest, self.again = digest, False
        elif frame.time_ns - before_ns < SOON_NS:
            self.different += not self.again
            self.again = True
            self.add(frame)


@dataclass(eq=False)
class Repeats(Rule):
    """Consumers that a client makes anew all the time, and messages that it lets a stream store several times."""

    plain = False
    types = frozenset({"PUB", "HPUB"})
    _made: Newest[tuple[int, str], HabitOfClient] = field(default_factory=lambda: Newest(MAX_KNOWN))
    """By connection and stream."""
    _published: Newest[tuple[int, str], HabitOfClient] = field(default_factory=lambda: Newest(MAX_KNOWN))
    """By connection and subject."""

    def frame(self, frame: Frame) -> None:
        subject, number = frame.values.get("subject", ""), frame.connection.number
        if subject.startswith(OWN):
            if CREATE_CONSUMER in subject and not (stream := asked_for(subject).partition(",")[0]).startswith(STORES):
                self._made.get_or_make((number, stream), HabitOfClient).add(frame)
        elif frame.expects_response and publish_of(frame.values) is None:
            self._published.get_or_make((number, subject), HabitOfClient).publish(frame)

    def finish(self) -> None:
        for (_, stream), made in self._made.items():
            span_ns = made.refs[-1].time_ns - made.refs[0].time_ns
            if made.times >= MANY_AGAIN and span_ns < made.times * MIN_REFUSED_NS:
                who = short(made.refs[0].connection)
                title = f"{who} made {made.times:,} consumers of {stream} in {span_ns / 1e9:.1f} s"
                self.report.about(CODES["consumer-churn"], title, (who, stream), made.refs, count=made.times)
        for (_, subject), sent in self._published.items():
            if sent.different >= MANY_AGAIN and self.report.facts.of(STORED, subject):
                title = (
                    f"{short(sent.refs[0].connection)} published {sent.different:,} messages to {printable(subject)} "
                )
                title += f"several times: {sent.times:,} of the publishes are repeats"
                self.report.about(CODES["stored-twice"], title, (title, subject), sent.refs, count=sent.times)


def explain(report: Report, problem: Problem, resource: str) -> None:
    """Say who deleted the stream or consumer."""
    if deleted := report.facts.of(DELETED, resource):
        kind, place = "" if ", " in resource else "stream ", deleted[-1].places[-1]
        at = report.seconds(place.time_ns)
        problem.likely = f"{deleted[-1].by} deleted {kind}{resource} at {at} (frame {place.number})"


def explain_consumer(report: Report, problem: Problem, consumer: str) -> None:
    """Say who deleted the consumer, or its stream."""
    explain(report, problem, consumer if report.facts.of(DELETED, consumer) else consumer.partition(",")[0])


class StoredMessage(NamedTuple):
    """A message that a stream has stored."""

    digest: int
    sequence: int
    time_ns: int
    """When it was published."""
    answered_ns: int


class Stored:
    """Outcomes of publishes to JetStream, by their answers."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._digests: Newest[tuple[str, str, str], StoredMessage] = Newest(MAX_IDS)
        """The first message with an id, by user, stream and id: each account has its own streams."""
        self._streams: Newest[str, str] = Newest(MAX_KNOWN)
        """Stream that stored a subject."""
        self._dropped: dict[tuple[int, str], Mistaken] = {}
        self._forgotten: dict[tuple[int, str], Mistaken] = {}
        """Messages that were stored again under the same id."""
        self._refused: Newest[str, tuple[list[FrameRef], str]] = Newest(MAX_KNOWN)
        """Requests about a stream or consumer that were refused since the last one that was granted, and why."""
        self._away: Newest[str, Problem] = Newest(MAX_KNOWN)
        """Problems of publishes that were not stored, by subject, until one is stored."""
        self._gone: Newest[str, Problem] = Newest(MAX_KNOWN)
        """Problems of consumers that do not exist."""
        self._unstored: Newest[tuple[str, Publish], Problem] = Newest(MAX_IDS)
        """These publishes, by subject and contents, until they are stored."""
        self._repeated: Counter[Problem] = Counter()
        """Number of its publishes that were stored later."""

    def stream_of(self, subject: str) -> str:
        """The stream that stored a subject, if one did."""
        return self._streams.get(subject) or ""

    def request(self, frame: Frame, subject: str) -> None:
        """A client asks for something."""
        if subject.startswith(OWN):
            kinds = (PURGED, PURGE), (DELETED, DELETE), (DELETED, DELETE_CONSUMER), (MADE, CREATE)
            if kind := next((kind for kind, part in kinds if part in subject), None):
                self.report.facts.saw(kind, asked_for(subject), frame=frame, by=short(frame.connection))
            elif UPDATE in subject:
                of = asked_for(subject), "settings"
                self.report.facts.saw(CHANGED, *of, frame=frame, by=short(frame.connection))

    def answer(self, frame: Frame, subject: str, published: FrameRef, publish: Publish | None) -> None:
        """JetStream answered a publish to ``subject``."""
        if subject.startswith(OWN) and not any(each in subject for each in UNJUDGED):
            self._api_answered(frame, asked_for(subject), published)
        stream = frame.generated.get(STREAM)
        if not stream or SEQUENCE not in frame.generated:
            return
        if subject not in self._streams:
            self.report.facts.saw(STORED, subject, frame=frame, by=stream)
        self._streams.put(subject, stream)
        if (problem := self._away.pop(subject, None)) is not None:
            problem.severity = "warning"
            problem.likely = "it had no leader for a moment: an election, a step-down or a restart"
            problem.detail(f"it stored the subject again from {self.report.seconds(frame.time_ns)} on")
        if publish is None or publish.id is None:
            return
        if (problem := self._unstored.pop((subject, publish), None)) is not None:
            self._repeated[problem] += 1
        key = frame.connection.identity.get("user", ""), stream, publish.id
        message = StoredMessage(publish.digest, frame.generated[SEQUENCE], published.time_ns, frame.time_ns)
        first = self._digests.get_or_make(key, lambda: message)
        is_known, is_same = DUPLICATE in frame.generated, first.digest == message.digest
        if is_known and not is_same and published.time_ns > first.answered_ns:  # before, it is tried again
            self._mistake(self._dropped, stream, published, first.time_ns)
        elif is_same and not is_known and message.sequence > first.sequence:
            self._mistake(self._forgotten, stream, published, first.time_ns)

    def _mistake(self, found: dict[tuple[int, str], Mistaken], stream: str, published: FrameRef, first_ns: int) -> None:
        key = published.connection.number, stream
        if key in found or len(found) < MAX_KNOWN:
            found.setdefault(key, Mistaken(published)).add(published, published.time_ns - first_ns)

    def not_taken(self, frame: Frame, subject: str, publish: Publish | None) -> bool:
        """``subject`` has no subscriber; return whether that is known to concern JetStream, and was reported."""
        who = short(frame.connection)
        stream = self._streams.get(subject)
        reported = self.report.own(CODES["no-jetstream"], frame.connection.number)
        if subject.startswith(OWN) and NEXT in subject and not reported:
            consumer = asked_for(subject)
            title = f"{who} pulls from {consumer}, which does not exist"
            problem = self.report.add(CODES["consumer-gone"], title, consumer, frame=frame)
            self._gone.put(consumer, problem)
            explain_consumer(self.report, problem, consumer)
        elif subject.startswith(OWN):
            title = f"JetStream does not answer requests of {who}"
            self.report.add(CODES["no-jetstream"], title, frame.connection.number, frame=frame).detail(subject)
        elif stream is not None or publish is not None:
            gone = stream is None or self.report.facts.of(DELETED, stream)
            why = "no stream takes the subject" if gone else f"stream {stream} is away"
            title = f"publishes of {who} to {subject} were not stored: {why}"
            key = frame.connection.number, subject
            problem = self.report.add(CODES["not-stored"], title, key, frame=frame)
            problem.weight, problem.severity = problem.count, problem.code.severity
            self._away.put(subject, problem)
            if publish is not None and publish.id is not None:
                self._unstored.put((subject, publish), problem)
            if stream is not None:
                problem.detail(f"stream {stream} stored the subject before")
                problem.likely = "its servers are down or without a leader, or it was deleted elsewhere"
                explain(self.report, problem, stream)
        else:
            return False
        return True

    def _api_answered(self, frame: Frame, resource: str, request: FrameRef) -> None:
        """Remember refusals of requests about a stream or consumer until one is granted."""
        why = next((each.message for each in frame.findings if each.code == "jetstream"), "")
        if not why:
            self._refused.pop(resource, None)
            return
        refusals, _ = self._refused.get(resource) or ([], "")
        self._refused.put(resource, ([*refusals[: MAX_EVIDENCE - 1], request], why))

    def finish(self) -> None:
        lost = {*self._unstored.values()}
        for problem, repeated in self._repeated.items():
            problem.detail(f"{counted(repeated, 'message')} of these were published again, and stored")
            if problem not in lost:
                problem.severity = "note"
        for consumer, problem in self._gone.items():
            delivered = self.report.facts.of(DELIVERED, consumer)
            if delivered and delivered[-1].until_ns > (problem.last_ns or 0):
                problem.severity = "note"
                problem.detail("it was there again later")
        for resource, (refs, why) in self._refused.items():
            if len(refs) >= MANY_REFUSED and refs[-1].time_ns - refs[0].time_ns >= MIN_REFUSED_NS:
                said = f"{short(refs[-1].connection)} asks JetStream for {resource} in vain: {why}"
                problem = self.report.about(CODES["api-refused"], said, resource, refs)
                problem.alike, problem.likely = why, problem.code.cause_of(why)
        for (_, stream), dropped in self._dropped.items():
            who = short(dropped.first.connection)
            title = f"{dropped.messages:,} new messages of {who} to stream {stream} were confirmed and dropped"
            key = dropped.first.connection.number, stream
            refs = [dropped.first, *dropped.frames]
            problem = self.report.about(CODES["messages-dropped"], title, key, refs, count=dropped.messages)
            problem.last_ns = dropped.last_ns
            problem.detail(f"their {MESSAGE_ID} was used before, with other contents")
        for (number, stream), again in self._forgotten.items():
            if again.messages >= MANY_AGAIN:
                title = (
                    f"{stream} stored {again.messages:,} messages of {short(again.first.connection)} a second time, "
                )
                title += f"{again.least_ns / 1e9:.1f} s and more after the first: they have the same {MESSAGE_ID}"
                refs = [again.first, *again.frames]
                problem = self.report.about(CODES["stored-twice"], title, (number, stream), refs, count=again.messages)
                problem.last_ns = again.last_ns
                problem.likely = "the stream had forgotten the ids: its duplicate_window is shorter than that"
