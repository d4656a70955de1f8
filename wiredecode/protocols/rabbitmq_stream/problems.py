"""Problems between RabbitMQ Stream clients and brokers, changes, and gauges of credit and lag."""

from collections.abc import Collection, Iterator
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.health import ACK_LOST
from wiredecode.net.types import Connection
from wiredecode.patterns import pattern
from wiredecode.protocols.rabbitmq_stream import names
from wiredecode.protocols.rabbitmq_stream.flows import StreamFlows
from wiredecode.protocols.rabbitmq_stream.problems_consumers import CrashLoop, Flapping, NoActive, Offsets, StartTimes
from wiredecode.protocols.rabbitmq_stream.problems_credit import Credits
from wiredecode.protocols.reading import values_of
from wiredecode.protocols.shared import gauges, problems, refusals
from wiredecode.protocols.shared.advertised import AdvertisedHost
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import DELETED
from wiredecode.protocols.shared.heartbeats import MissedHeartbeats
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.times import without_times

VARYING = pattern(rb"(?s)\x00Su(?:\xa0.|\xb0.{4})|\x83.{8}")
"""Of AMQP 1.0: sizes of the body, which vary with the length of a time in it, and timestamps."""
CODES = codes_of("rabbitmq_stream")

# For the timeline.


def offset_changes(frame: Frame) -> Iterator[gauges.Change]:
    stream, code = printable(frame.values["stream"]), frame.values["response_code"]
    yield gauges.Change(gauges.STREAM, stream, f"the broker says of {stream}: {names.outcome(code)}")


def made_changes(frame: Frame) -> Iterator[gauges.Change]:
    stream = printable(frame.values.get("stream") or frame.values.get("super_stream") or frame.values["name"])
    makes = frame.type is not None and frame.type.startswith("Create")
    text = f"a client asks to {'create' if makes else 'delete'} {stream}"
    yield gauges.Change(gauges.STREAM, stream, text, None if makes else DELETED)


def active(frame: Frame) -> Iterator[gauges.Change]:
    """Single active consumers."""
    facts = frame.generated
    of = f"{facts.get('reference', 'a consumer')} on {facts.get('stream', 'a stream')}"
    role = "the active consumer" if frame.values["active"] else "no longer active"
    yield gauges.Change(gauges.GROUP, of, f"#{frame.connection.number} is {role} of {of}")


# For plots.


class CreditGauge(gauges.Gauge):
    """Number of chunks that the broker may still send, from Subscribe on; unknown if that was not captured."""

    types = frozenset({"Subscribe", "Credit", "Deliver", "Unsubscribe"})

    def __init__(self) -> None:
        self._subscriptions: dict[tuple[int, int], tuple[str, int]] = {}
        """By connection and subscription."""

    def read(self, frame: Frame) -> Iterator[gauges.Measurement]:
        key = frame.connection.number, frame.values.get("subscription_id", -1)
        if frame.type == "Subscribe" and len(self._subscriptions) < gauges.MAX_KNOWN:
            self._subscriptions[key] = name_of(frame), 0
        subscription = self._subscriptions.pop(key, None)
        if subscription is None or frame.type == "Unsubscribe":
            return
        name, credit = subscription
        credit += -1 if frame.type == "Deliver" else frame.values.get("credit", 0)
        self._subscriptions[key] = name, credit
        yield gauges.Measurement(gauges.CREDIT, name, credit)


class LagGauge(gauges.Gauge):
    """Offsets between a consumer's chunk and the last one committed; only version 2 of Deliver contains it."""

    types = frozenset({"Deliver"})

    def read(self, frame: Frame) -> Iterator[gauges.Measurement]:
        committed, chunk = frame.values.get("committed_chunk_id"), frame.values.get("chunk")
        if committed is not None and isinstance(chunk, dict) and "chunk_id" in chunk:
            yield gauges.Measurement(gauges.LAG, name_of(frame), max(committed - chunk["chunk_id"], 0))


class StoredOffsets(gauges.Gauge):
    """Offsets that consumers store under their name: that of the last message they are done with."""

    types = frozenset({"StoreOffset"})

    def read(self, frame: Frame) -> Iterator[gauges.Measurement]:
        stream, offset = frame.values["stream"], frame.values["offset"]
        of = f"{printable(stream)}, consumer {printable(frame.values['reference'])}"
        yield gauges.Measurement(gauges.POSITION, of, offset, (stream, None, offset))


def name_of(frame: Frame) -> str:
    """``orders, subscription 1 of #3``."""
    stream = frame.values.get("stream") or frame.generated.get("stream") or "unknown stream"
    return f"{stream}, subscription {frame.values.get('subscription_id')} of #{frame.connection.id}"


# Rules.

WORKING = frozenset({"DeclarePublisher", "Subscribe", "Create", "Delete", "StreamStats", "QueryOffset", "StoreOffset"})
"""Commands of a client that did not only look for a stream."""
MAX_LOOKED = 10_000
"""Publish frames whose ids are read: that takes time."""
MAX_NAMES = 1000
MAX_RESENT = 100_000
"""Messages that wait for confirms, at most: a publisher that connects again sends these again."""
FIRST_ID, MIN_STORED = 1, 20
"""The highest first id of a publisher that numbers from the start; with fewer messages it may have no confirm yet."""
MAX_IDS = 200_000
"""Messages of publishers with a name that are compared with later ones of the same id."""


class StreamBrokers(AdvertisedHost):
    """The brokers that Metadata names for streams."""

    types = frozenset({"MetadataResponse", "PeerProperties", "PeerPropertiesResponse", *WORKING})
    codes, code = CODES, "advertised-host"
    working, asks, speaks = WORKING, "PeerProperties", "PeerPropertiesResponse"

    def addresses(self, frame: Frame) -> Iterator[tuple[str, int]]:
        values = values_of(frame)
        brokers = {broker["reference"]: broker for broker in values.get("brokers", ()) if len(broker) == 3}
        used = {stream.get("leader_reference") for stream in values.get("streams", ())}
        yield from ((broker["host"], broker["port"]) for reference, broker in brokers.items() if reference in used)


@dataclass(eq=False)
class DuplicateIds(problems.Rule):
    """Publishing ids of publishers with a name that do not go up: the broker confirms these messages and drops them."""

    types = frozenset({"Publish", "Create", "Delete", "QueryPublisherSequenceResponse"})
    _told: Newest[tuple[str, str], tuple[int, problems.FrameRef]] = field(default_factory=lambda: Newest(MAX_NAMES))
    """The id up to which the broker has messages, and the answer that says so."""
    _highest: dict[tuple[str, str], int] = field(default_factory=dict)
    _bodies: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    """By stream and name: hashes of the messages by id."""
    _first: dict[tuple[str, str], int] = field(default_factory=dict)
    """The first id of the capture: of later ones it is known whether they were used."""
    _lost: dict[tuple[str, str], int] = field(default_factory=dict)
    """The first id that was used for another message, or came after a higher one."""
    _looked: int = 0
    _known: int = 0

    def frame(self, frame: Frame) -> None:
        if frame.type == "QueryPublisherSequenceResponse":
            self._sequence(frame)
            return
        if frame.type != "Publish":
            for key in [key for key in self._highest if key[0] == frame.values.get("stream")]:
                del self._highest[key]
                self._known -= len(self._bodies.pop(key, ()))
            return
        name = frame.generated.get("reference")
        if name is None or self._looked >= MAX_LOOKED:
            return
        self._looked += 1
        key = frame.generated["stream"], name
        messages = [each for each in values_of(frame).get("messages", ()) if "publishing_id" in each]
        if not messages or (key not in self._highest and len(self._highest) >= MAX_NAMES):
            return
        highest, bodies = self._highest.get(key, -1), self._bodies.setdefault(key, {})
        lost, again = list[int](), list[int]()
        known_id, answer = self._told.get(key) or (-1, None)
        if highest < 0 and key not in self._lost and (known_id < MIN_STORED or messages[0]["publishing_id"] > FIRST_ID):
            self._told.pop(key, None)  # it continues, or repeats messages without a confirm
            known_id = -1
        is_lossy, overtaken = any(each.lossy for each in frame.connection.directions), 0
        for each in messages:
            number, body = each["publishing_id"], hash(VARYING.sub(b"", without_times(bytes(each.get("data") or b""))))
            if highest < number <= known_id:
                lost.append(number)
            elif number > highest:
                highest = number
                self._first.setdefault(key, number)
                if self._known < MAX_IDS:
                    self._known += 1
                    bodies[number] = body
            else:
                unseen = number < self._first[key] or is_lossy or self._known >= MAX_IDS
                expected = bodies.get(number, body if unseen and highest - number < MAX_RESENT else None)
                (again if expected == body else lost).append(number)
                overtaken += expected is None and not unseen
        if lost:
            problem = self.report.add(CODES["messages-dropped"], "", key, frame=frame, count=len(lost))
            first, problem.weight = self._lost.setdefault(key, lost[0]), problem.count
            did = f"{problem.count:,} new messages of {name} to {key[0]} were confirmed and dropped"
            problem.title = f"{did}: ids from {first:,} on were used before"
            if overtaken:
                problem.title = f"{did}: they came after messages with higher ids, {first:,} first"
                problem.likely = "several threads take ids, and send their messages in another order"
            if answer is not None and first <= known_id:
                problem.detail(f"the broker said in frame {answer.number} that it has ids up to {known_id:,}")
                self.report.cite(problem, answer)
        elif again:
            title = f"{name} published ids to {key[0]} again, {again[0]:,} first: they were up to {highest:,} already"
            self.report.add(CODES["duplicate-ids"], title, key, frame=frame, count=len(again))
        self._highest[key] = highest

    def _sequence(self, frame: Frame) -> None:
        """The broker says up to which id it has the messages of a publisher."""
        if frame.asked is not None and frame.values.get("sequence"):
            stream, name = (printable(frame.asked.values.get(each, "")) for each in ("stream", "publisher_reference"))
            self._told.put((stream, name), (frame.values["sequence"], problems.ref_of(frame)))


MAX_MISSING = 1000
MANY_ROUTES = 3
"""Questions that name no stream: at least this number is a warning."""
RESPONSES = frozenset(names.KEYS[key] for key in names.RESPONSES)


@dataclass(eq=False)
class Admission(refusals.Refusals):
    """Clients that were refused, and connections that ended with or without Close; ``tcp.reset`` reports a RST."""

    types = frozenset({"SaslAuthenticate", "Open", "Close", *RESPONSES})
    protocol, table = "rabbitmq_stream", refusals.refusals_of("rabbitmq_stream")
    _said: dict[int, set[str]] = field(default_factory=dict)
    """By connection: what explains its end."""

    def frame(self, frame: Frame) -> None:
        said = self._said.setdefault(frame.connection.number, {"seen"})
        kind, code = frame.type, frame.values.get("response_code", names.OK)
        if kind == "Close":
            said.add("close")
            if frame.sender == "server":
                reason = printable(frame.values.get("closing_reason", ""))
                title = f"the broker closed {short(frame.connection)}: {reason}"
                self.report.add(CODES["closed-by-server"], title, reason, frame=frame)
        elif kind in ("SaslAuthenticateResponse", "OpenResponse") and code not in (names.OK, names.SASL_CHALLENGE):
            said.add("refused")
        if kind in RESPONSES:
            super().frame(frame)

    def errors(self, frame: Frame) -> tuple[int, ...]:
        code = frame.values.get("response_code", names.OK)
        return () if code in (names.OK, names.SASL_CHALLENGE) else (code,)

    def facts(self, frame: Frame, errors: Collection[int]) -> dict[str, Any]:
        (code,), identity, who = errors, frame.connection.identity, short(frame.connection)
        return {
            "client": who,
            "whom": f"user {identity['user']}" if "user" in identity else who,
            "user": identity.get("user", "unknown"),
            "virtual_host": identity.get("virtual_host", ""),
            "server": frame.destination,
            "type": (frame.type or "").removesuffix("Response"),
            "to": f" to {frame.generated['stream']}" if "stream" in frame.generated else "",
            "error": names.outcome(code),
        }

    def ended(self, connection: Connection) -> None:
        said = self._said.pop(connection.number, set())
        health = connection.health
        if not said or said & {"close", "refused"} or health is None or health.end is None or health.end.how == "RST":
            return
        if not problems.farewell_captured(connection):
            return
        by_client = connection.initiator is None or health.end.side == connection.initiator
        who = "client" if by_client else "broker"
        end = health.end
        answers = health.directions[end.side].kinds.get(end.packet, 0) & ACK_LOST  # a FIN that comes later in the file
        severity = "note" if by_client or answers else "warning"
        title = f"the {who} ended {short(connection)} without Close"
        at = problems.Moment(connection, end.time_ns, end.packet)
        problem = self.report.add(CODES["no-close"], title, who, frame=at, severity=severity)
        if problem.count > 1:
            problem.title = f"the {who} ended {problem.count:,} connections without Close, {short(connection)} last"
        if not by_client:
            problem.likely = "the broker was stopped or killed, or an operator or a proxy closed the connection"


@dataclass(slots=True)
class Deletion:
    """A stream that was deleted."""

    ref: problems.FrameRef
    users: list[problems.FrameRef] = field(default_factory=list)
    """Other users of the stream."""
    refused: int = 0
    """Messages and requests that were refused afterwards."""


@dataclass(eq=False)
class MissingStreams(problems.Rule):
    """Streams that were asked for and did not appear later, and those that others still used when they were deleted."""

    types = frozenset(names.NAMES["types"]["missing-streams"])
    _missing: dict[tuple[str, str], problems.FrameRef] = field(default_factory=dict)
    """By name and virtual host."""
    _deleted: dict[tuple[str, str], Deletion] = field(default_factory=dict)
    _gone: dict[tuple[str, str], problems.Problem] = field(default_factory=dict)
    """Those that became unavailable, though no client deleted them, and that none found again."""

    def frame(self, frame: Frame) -> None:
        where = frame.connection.identity.get("virtual_host", "")
        if frame.type == "MetadataResponse":
            self._described(frame, where)
            return
        if frame.type in ("PublishError", "DeclarePublisherResponse", "SubscribeResponse"):
            key = frame.generated.get("stream", ""), where
            deleted = self._deletion(*key)
            if frame.values.get("response_code") == names.OK:
                self._gone.pop(key, None)
            if deleted is not None and deleted.users and frame.values.get("response_code", 0) != names.OK:
                deleted.refused += len(frame.values.get("errors") or (frame,))
            return
        key = frame.values.get("stream", ""), where
        deleted = self._deletion(*key)
        if frame.type == "MetadataUpdate":
            is_user = deleted is not None and deleted.ref.connection is not frame.connection
            if deleted is not None and is_user and len(deleted.users) < problems.MAX_EVIDENCE:
                deleted.users.append(problems.ref_of(frame))
            if deleted is None and len(self._gone) < MAX_MISSING:
                title = f"{frame.source} said that stream {key[0]} is unavailable"
                code, key_of_problem = CODES["stream-unavailable"], (frame.source, key)
                self._gone[key] = problem = self.report.add(code, title, key_of_problem, frame=frame, severity="note")
                problem.weight = problem.count
            return
        missing = self._missing.pop(key, None)
        if frame.type == "Delete" and len(self._deleted) < MAX_MISSING:
            self._deleted.setdefault(key, Deletion(problems.ref_of(frame))).ref = problems.ref_of(frame)
        elif frame.type == "Create" and deleted is not None:
            if deleted.users and (deleted.refused or missing):
                self._deleted_in_use(key, deleted, missing)
            self._deleted.pop(key, None)

    def _deletion(self, stream: str, where: str) -> Deletion | None:
        """The last one of a stream; the virtual host of a connection whose beginning was not captured is not known."""
        alike = (each for key, each in self._deleted.items() if key[0] == stream and not (key[1] and where))
        return self._deleted.get((stream, where)) or next(alike, None)

    def _described(self, frame: Frame, where: str) -> None:
        """Facts about streams in Metadata."""
        for each in values_of(frame).get("streams") or ():
            key = each.get("stream", ""), where
            if each.get("response_code") != names.UNKNOWN_STREAM:
                self._missing.pop(key, None)
                if each.get("response_code") == names.OK:
                    self._gone.pop(key, None)
            elif self._in_vain(frame, key) and len(self._missing) < MAX_MISSING:
                self._missing.setdefault(key, problems.ref_of(frame))

    def _in_vain(self, frame: Frame, key: tuple[str, str]) -> bool:
        """Whether who asks for a stream may not know that it is gone: who deleted it looks whether it is."""
        deleted = self._deletion(*key)
        return deleted is None or (bool(deleted.users) and deleted.ref.connection is not frame.connection)

    def finish(self) -> None:
        for key, ref in self._missing.items():
            stream, where = key
            if key in self._deleted and self._deleted[key].users:
                continue
            host = f" on virtual host {where}" if where else ""
            title = f"{short(ref.connection)} asked for stream {stream}{host}: it does not exist"
            self.report.add(CODES["no-stream"], title, key, frame=ref)
        for key, problem in self._gone.items():
            if (deleted := self._deletion(*key)) is not None and deleted.ref.time_ns <= (problem.first_ns or 0):
                continue  # it came out later, after a gap
            if problem.count > 1 and self.report.last_ns - (problem.last_ns or 0) >= problems.FAREWELL_NS:
                problem.title += ", and no client found it again"
                problem.severity = problem.code.severity
        for key, deletion in self._deleted.items():
            if deletion.users:
                self._deleted_in_use(key, deletion, self._missing.get(key))

    def _deleted_in_use(self, key: tuple[str, str], deletion: Deletion, after: problems.FrameRef | None) -> None:
        deleted, users, refused = deletion.ref, deletion.users, deletion.refused
        clients = ", ".join(dict.fromkeys(short(each.connection) for each in users))
        title = f"{short(deleted.connection)} deleted stream {key[0]}, which others still used: {clients}"
        severity = None if refused else "note" if after is None else "warning"
        problem = self.report.add(CODES["stream-deleted"], title, key, frame=deleted, severity=severity)
        for ref in (*users, *([after] if after is not None else ())):
            self.report.cite(problem, ref)
            self.report.concerns(problem, ref.connection)
        problem.detail(f"Delete is frame {deleted.number}, at {self.report.seconds(deleted.time_ns)}")
        if refused:
            problem.detail(f"{refused:,} messages and requests of its users were refused afterwards")
        if after is not None:
            problem.detail(f"{short(after.connection)} asked for it at {self.report.seconds(after.time_ns)}, in vain")


@dataclass(eq=False)
class Routes(problems.Rule):
    """Routing keys and super streams that lead to no stream: what is published there is not sent."""

    types = frozenset({"RouteResponse", "PartitionsResponse"})

    def frame(self, frame: Frame) -> None:
        if frame.asked is not None and frame.values.get("streams") in (0, []) and not frame.is_partial:
            asked = frame.asked.values
            key = f" for routing key {printable(asked['routing_key'])}" if "routing_key" in asked else ""
            name = f"{printable(asked.get('super_stream', ''))} has no stream{key}"
            problem = self.report.add(CODES["no-route"], f"super stream {name}", name, frame=frame, severity="note")
            if problem.count >= MANY_ROUTES:
                problem.severity = problem.code.severity


class Heartbeats(MissedHeartbeats):
    """Sides that were silent although heartbeats were agreed."""

    types = frozenset(names.KEYS.values())
    code = CODES["heartbeat"]

    def agreed(self, frame: Frame) -> int | None:
        return frame.generated.get("negotiated_heartbeat")


CHECKS = problems.Checks(
    changes={
        "MetadataUpdate": offset_changes,
        "ConsumerUpdate": active,
        **dict.fromkeys(("Create", "Delete", "CreateSuperStream", "DeleteSuperStream"), made_changes),
    },
    pushes=frozenset({"Deliver", "Credit", "StoreOffset"}),
    gauges=(CreditGauge, LagGauge, StoredOffsets),
    flows=(StreamFlows,),
    space="virtual host",
    codes=CODES,
    rules=(
        *(StreamBrokers, Credits, Admission, MissingStreams, Heartbeats),
        *(Routes, DuplicateIds, Flapping, NoActive, Offsets, StartTimes, CrashLoop),
    ),
    covered=frozenset({"closed"}),
    expected=frozenset({"already exists", "No offset"}),
    publishes={"Publish": problems.Publishing(("stream",), "messages", refusals=True)},
    holds="flow control or an alarm (disk, memory) of the broker, or replicas that do not answer",
)
