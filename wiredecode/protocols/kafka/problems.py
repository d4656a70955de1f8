"""Problems between Kafka clients and brokers."""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import errors_in, lists_of, partitions, partitions_of, topic_of
from wiredecode.protocols.kafka.flows import RecordFlows
from wiredecode.protocols.kafka.layers_table import APIS, ERRORS, MESSAGES, RESPONSES
from wiredecode.protocols.kafka.problems_groups import CODES, AbortedReads, Blocked, CommittedLags, Members
from wiredecode.protocols.kafka.problems_sessions import (
    WRONG,
    WRONG_BROKER,
    FetchSessions,
    OneAddress,
    RecordTimes,
    Sequences,
    TransactionalIds,
)
from wiredecode.protocols.kafka.problems_subscriptions import Subscriptions
from wiredecode.protocols.shared import refusals
from wiredecode.protocols.shared.advertised import AdvertisedHost, host_of
from wiredecode.protocols.shared.facts import CHANGED, DELETED, MADE, MOVES, PURGED
from wiredecode.protocols.shared.gauges import STREAM, Change
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, FrameRef, Problem, Publishing, Rule, ref_of

ALL_RESPONSES = frozenset(message.name for message in RESPONSES.values())
MOVED = "coordinator-moved"
SETTINGS = {
    "CreateAclsResponse": "ACLs",
    "DeleteAclsResponse": "ACLs",
    "AlterConfigsResponse": "settings",
    "IncrementalAlterConfigsResponse": "settings",
    "CreatePartitionsResponse": "the number of partitions",
}
SOON_NS = 1_000_000_000
"""A broker that ends a connection within this time after a request refuses that request."""

MAX_NAMED = 4
"""Topics that a title names."""
LASTING_NS, PAUSE_NS = 2_000_000_000, 10_000_000_000
"""A refusal lasts if a client gets it again after the first time, with shorter pauses than the second."""


def made(frame: Frame) -> Iterator[Change]:
    """A client made topics."""
    for topic, _ in partitions_of(frame.values):
        yield Change(STREAM, topic, f"{short(frame.connection)} made topic {topic}", MADE)


def deleted(frame: Frame) -> Iterator[Change]:
    """A client deleted topics or groups."""
    for each in lists_of(frame.values):
        name = printable(each.get("topic") or (f"group {each['group_id']}" if each.get("group_id") else ""))
        if each.get("error") == 0 and name:
            yield Change(STREAM, name, f"{short(frame.connection)} deleted {name}", DELETED)


def purged(frame: Frame) -> Iterator[Change]:
    """A client deleted records."""
    for topic, number, each in partitions(frame.values):
        if each.get("error") == 0:
            text = f"{short(frame.connection)} deleted records of {printable(topic)}[{number}]"
            yield Change(STREAM, printable(topic), text, PURGED)


def settings(frame: Frame) -> Iterator[Change]:
    """A client changed settings or rights of topics, groups or brokers."""
    for each in lists_of(frame.asked.values) if frame.asked is not None and not any(errors_in(frame.values)) else ():
        name = next((each[name] for name in ("topic", "resource_name", "resource_name_filter") if each.get(name)), "")
        names = ", ".join(printable(one["config_name"]) for one in each.get("configs") or ())
        what = names or SETTINGS[frame.type or ""]
        yield Change(
            STREAM, printable(name), f"{short(frame.connection)} changed {what} of {printable(name)}", CHANGED, what
        )


TRIED = frozenset(names.NAMES["refusals"]["unsupported-question"]["types"])
"""Answers to questions of tools that ask older ones if they are refused."""


@dataclass(eq=False)
class KafkaRefusals(refusals.Refusals):
    """Error codes of responses that are problems of their own."""

    types = ALL_RESPONSES - {"ApiVersionsResponse"} | {"ProduceRequest", "InitProducerIdRequest"}
    protocol, table = "kafka", refusals.refusals_of("kafka")
    _coordinated: Newest[int, bool] = field(default_factory=Newest)
    """Connections on which a coordinator has worked."""
    _lasting: Newest[tuple[str, str], tuple[int, int]] = field(default_factory=Newest)
    """First and latest time of passing refusals, by client and title."""

    def __post_init__(self) -> None:
        self._sequences, self._transactional = Sequences(), TransactionalIds()

    def frame(self, frame: Frame) -> None:
        if frame.type == "ProduceRequest":
            self._sequences.request(frame)
            return
        if frame.type == "InitProducerIdRequest":
            self._transactional.request(frame)
            return
        super().frame(frame)

    def errors(self, frame: Frame) -> set[Any]:
        errors = set[Any](errors_in(frame.values))
        if not errors and frame.type == "ProduceResponse":
            self._sequences.answered(frame)
        if errors & WRONG:
            self.report.facts.saw(WRONG_BROKER, frame.source, frame=frame)
        if not errors and frame.type in self.table[MOVED].types:
            self._coordinated.put(frame.connection.number, True)
        refusal = frame.refusal if frame.type == "SaslAuthenticateResponse" else None
        return errors or ({refusal} if refusal else errors)

    def facts(self, frame: Frame, errors: Collection[Any]) -> dict[str, Any]:
        error, topics = ERRORS.get(min(errors), str(min(errors))), self._topics(frame, errors)
        who = frame.connection.identity
        return {
            "client": short(frame.connection),
            "name": who.get("name", "a client"),
            "who": f"user {who['user']}" if "user" in who else error,
            "server": frame.source,
            "topics": " ".join([*topics][:MAX_NAMED]) + (" ..." if len(topics) > MAX_NAMED else ""),
            "type": (frame.type or "").removesuffix("Response"),
            "error": error,
            "message": printable(frame.values.get("error_message") or error),
        }

    @staticmethod
    def _topics(frame: Frame, errors: Collection[Any]) -> dict[str, None]:
        """The topics that were refused, or else all that were asked for."""
        refused = (topic_of(each) for each in lists_of(frame.values) if not set(errors).isdisjoint(errors_in(each)))
        named = (each.partition("[")[0] for each in frame.generated.get("topics_named", "").split())
        return dict.fromkeys(filter(None, refused)) or dict.fromkeys(named)

    def refused(self, frame: Frame, refusal: refusals.Refusal, errors: Collection[Any]) -> Problem | None:
        if refusal.problem == MOVED and frame.connection.number not in self._coordinated:
            return None
        problem = super().refused(frame, refusal, errors)
        if problem is None:
            return None
        if refusal.moves:
            self.report.facts.saw(MOVES, frame.source, frame=frame)
        if refusal.passing and frame.type not in TRIED and self._lasts(frame, problem.title):
            problem.severity = problem.code.severity
        for text, lost in self._sequences.explain(frame) if refusal.problem == "out-of-order" else ():
            problem.detail(text)
            problem.likely = "a batch got no answer, and the producer gave it up and sent the next one"
            problem.first_ns = min(problem.first_ns or lost.time_ns, lost.time_ns)
            self.report.cite(problem, lost)
            self.report.concerns(problem, lost.connection)
        if refusal.problem == "fenced" and (later := self._transactional.explain(frame)) is not None:
            chosen, ref = later
            problem.alike, since = chosen, self.report.seconds(ref.time_ns)
            problem.likely = f"{short(ref.connection)} began with the same transactional id, {chosen}, at {since}"
            self.report.concerns(problem, ref.connection)
        for topic in self._topics(frame, errors) if refusal.problem == "unknown-topic" else ():
            if deleted := self.report.facts.of(DELETED, topic):
                at, place = self.report.seconds(deleted[-1].since_ns), deleted[-1].places[-1]
                problem.detail(f"{deleted[-1].by} deleted it at {at}: frame {place.number}")
                problem.likely = "the topic was deleted while it was used"
        return problem

    def _lasts(self, frame: Frame, title: str) -> bool:
        broker_and_title = host_of(frame.destination), title
        first, latest = self._lasting.get(broker_and_title, (frame.time_ns, frame.time_ns))
        first = frame.time_ns if frame.time_ns - latest > PAUSE_NS else first
        self._lasting.put(broker_and_title, (first, frame.time_ns))
        return frame.time_ns - first >= LASTING_NS


@dataclass(eq=False)
class Throttled(Rule):
    """Clients that a broker slows down because of a quota."""

    types = ALL_RESPONSES
    _longest: Newest[int, int] = field(default_factory=Newest)
    """Longest wait, by connection."""

    def frame(self, frame: Frame) -> None:
        waits, number = frame.values.get("throttle_time_ms", 0), frame.connection.number
        if waits > 0:
            self._longest.put(number, longest := max(waits, self._longest.get(number, 0)))
            problem = self.report.add(CODES["throttled"], "", number, frame=frame)
            problem.weight += waits
            times = f"up to {longest / 1000:.3f} s, {problem.weight / 1000:.3f} s in all"
            problem.title = f"{frame.source} throttled {short(frame.connection)}: {times}"


class Sent(NamedTuple):
    """The first request of a connection after the last response, or the last one with acks=0."""

    ref: FrameRef
    key: int
    version: int
    topics: str
    acks: int


@dataclass(eq=False)
class Closed(Rule):
    """Brokers that answer a request by closing the connection."""

    types = frozenset(MESSAGES)
    _sent: Newest[int, Sent] = field(default_factory=Newest)
    _served: Newest[Any, bool] = field(default_factory=Newest)
    """Connections on which a broker answered more than the question for its versions, and brokers without logins."""
    _offers: Newest[str, dict[int, tuple[int, int]]] = field(default_factory=Newest)
    """By broker the versions of its APIs."""

    def frame(self, frame: Frame) -> None:
        number, values = frame.connection.number, frame.values
        if frame.sender == "client" and frame.code is not None:
            topics, acks = frame.generated.get("topics_named", ""), values.get("acks", 1)
            if number not in self._sent or self._sent[number].acks == 0:
                self._sent.put(number, Sent(ref_of(frame), frame.code, values.get("api_version", 0), topics, acks))
        elif frame.sender == "server":
            self._sent.pop(number, None)
            if frame.type == "ApiVersionsResponse":
                apis = [each for each in values.get("api_keys") or () if len(each) >= 3]
                offered = {each["api_key"]: (each["min_version"], each["max_version"]) for each in apis}
                self._offers.put(frame.source, offered)
            else:
                if number not in self._served and not (frame.type or "").startswith("Sasl"):
                    self._served.put(frame.source, True)
                self._served.put(number, True)

    def ended(self, connection: Connection) -> None:
        sent, served = self._sent.pop(connection.number, None), self._served.pop(connection.number, False)
        end = connection.first_end
        if sent is None or end is None or end.side == sent.ref.side or connection.directions[end.side].lossy:
            return
        if end.time_ns - sent.ref.time_ns <= SOON_NS:
            self._report(sent, connection.endpoints[end.side], end.how, served)

    def _report(self, sent: Sent, broker: str, how: str, served: bool) -> None:
        who, api = short(sent.ref.connection), APIS.get(sent.key, sent.key)
        offered = self._offers.get(broker, {}).get(sent.key)
        if offered is not None and sent.key == names.PRODUCE and offered[1] >= names.NEW_PRODUCE:
            offered = names.MIN_PRODUCE, offered[1]
        client = sent.ref.connection.identity.get("name")
        if offered is not None and not offered[0] <= sent.version <= offered[1]:
            has = f"it has {offered[0]} to {offered[1]}"
            title = f"{broker} closed the connection of {who}, which asked for {api} version {sent.version}: {has}"
            self.report.add(CODES["unsupported-version"], title, (broker, client, api), frame=sent.ref)
        elif sent.acks == 0:
            title = f"{broker} ended the connection of {who} ({how}) after records for {sent.topics} with acks=0"
            self.report.add(CODES["acks-none-lost"], title, (broker, client, sent.topics), frame=sent.ref)
        elif (
            sent.ref.connection.initiator is not None
            and not served
            and broker not in self._served
            and sent.key not in names.LOGIN
        ):
            title = f"{broker} closed the connection of {who}, which did not log in, at its first request ({api})"
            self.report.add(CODES["not-logged-in"], title, (broker, client), frame=sent.ref)


@dataclass(eq=False)
class AdvertisedLeaders(AdvertisedHost):
    """Leaders of topics that a client asked for by name or that moved (KIP-951), and coordinators."""

    types = names.TYPES["advertised"] | names.TYPES["working"]
    codes, code = CODES, "advertised-listener"
    working, leaves = names.TYPES["working"], False
    asks, speaks = "ApiVersionsRequest", "ApiVersionsResponse"

    def addresses(self, frame: Frame) -> Iterator[tuple[str, int]]:
        values = frame.values
        brokers = [each for each in values.get("brokers") or () if "port" in each]  # the last may be truncated
        if "node_endpoints" in values:
            yield from ((each["host"], each["port"]) for each in values["node_endpoints"] if "port" in each)
        elif frame.type == "FindCoordinatorResponse":
            for each in [values, *(values.get("coordinators") or ())]:
                if each.get("error") == 0 and "host" in each and "port" in each:
                    yield each["host"], each["port"]
        elif frame.asked is None or not frame.asked.values.get("topics"):  # it only looked around
            named = {(each["host"], each["port"], host_of(frame.destination)) for each in brokers}
            yield from (key[:2] for key in named & self._advertised.keys())
        else:
            leaders = {each.get("leader_id") for _, _, each in partitions(values)}
            yield from ((each["host"], each["port"]) for each in brokers if each["node_id"] in leaders)


CHECKS = Checks(
    codes=CODES,
    rules=(
        KafkaRefusals,
        Throttled,
        Closed,
        AdvertisedLeaders,
        OneAddress,
        FetchSessions,
        RecordTimes,
        Members,
        Blocked,
        AbortedReads,
        Subscriptions,
    ),
    waits=names.TYPES["waits"],
    expected=frozenset({"ALREADY_EXISTS", "MEMBER_ID_REQUIRED"}),
    tried=TRIED,
    longest_wait="max_wait_ms",
    pulled=True,
    gauges=(CommittedLags,),
    flows=(RecordFlows,),
    changes={
        "CreateTopicsResponse": made,
        **dict.fromkeys(("DeleteTopicsResponse", "DeleteGroupsResponse"), deleted),
        "DeleteRecordsResponse": purged,
        **dict.fromkeys(SETTINGS, settings),
    },
    space="cluster",
    publishes={"ProduceRequest": Publishing(("topics_named",))},
    topic="group_id",
)
