"""Problems between Cursus clients and brokers: groups of consumers, publishing without acks; and changes."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import times
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.types import Connection
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.flows import COMMITS, GroupFlows, commits_of
from wiredecode.protocols.shared import refusals
from wiredecode.protocols.shared.advertised import AdvertisedHost, host_of
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import GROUP, POSITION, STREAM, Change, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, FrameRef, Publishing, Rule, ref_of
from wiredecode.protocols.shared.rebalances import Rebalances

CODES = codes_of("cursus")

# For the timeline.


def membership(frame: Frame) -> Iterator[Change]:
    """The names in ``generated`` are printable."""
    facts = frame.generated
    did = "joins" if frame.type == "JOIN_GROUP" else "leaves"
    yield Change(GROUP, f"{facts['member']} {facts['group']}", f"{facts['member']} {did} group {facts['group']}")


def new_generation(frame: Frame) -> Iterator[Change]:
    facts = frame.generated
    yield Change(GROUP, facts["group"], f"group {facts['group']} is in generation {facts['generation']}")


def topic_request(frame: Frame) -> Iterator[Change]:
    did = "create" if frame.type == "CREATE" else "delete"
    yield Change(STREAM, frame.generated["topic"], f"a client asks to {did} topic {frame.generated['topic']}")


# For plots.


class Commits(Gauge):
    """Offsets from which groups continue, from the answer on that accepts them."""

    types = frozenset({"OK"})

    def read(self, frame: Frame) -> Iterator[Measurement]:
        if frame.asked is not None and frame.asked.type in COMMITS:
            yield from _committed_offsets(frame.asked.facts)


def _committed_offsets(facts: Mapping[str, Any]) -> Iterator[Measurement]:
    """Offsets that a commit requests."""
    topic, group = str(facts["topic"]), facts["group"]
    for partition, offset in commits_of(facts):
        yield Measurement(POSITION, f"{topic}[{partition}], group {group}", offset, (topic, partition, offset - 1))


# Rules.

MANY_REFUSALS, MANY_REBALANCES = 3, 5
"""Refusals, and rebalances, from which on there is a warning ..."""
PATIENCE_NS = 5_000_000_000
"""... refusals of a member if they last at least this long."""
FENCED = frozenset({"GEN_MISMATCH", "NOT_OWNER", "STALE_LEADER_EPOCH"})
READING = frozenset({"STREAM", "CONSUME"})
GROUP_COMMANDS = names.WORDS["group-commands"]


@dataclass(slots=True)
class GroupMember:
    """A member of a group."""

    joined: bool = False
    has_left: bool = False
    last_frame_ns: int = 0
    """Time at which the broker last accepted one of its requests."""
    refused: int = 0
    """Refusals for its generation in a row ..."""
    since_ns: int = 0
    """... and when they began."""
    ended: Connection | None = None
    """The last connection on which it consumed, if its client ended it."""


@dataclass(eq=False)
class Groups(Rule):
    """Rebalances, members with a stale generation, and members that timed out."""

    types = READING | {"OK", "ERROR"}
    _members: Newest[tuple[str, str], GroupMember] = field(default_factory=Newest)
    _generations: Newest[str, int] = field(default_factory=Newest)
    _reading: Newest[int, tuple[str, str]] = field(default_factory=Newest)
    """By connection: the group and the member that consumes."""

    def __post_init__(self) -> None:
        self._groups = Rebalances(self.report, CODES["rebalance"])

    def frame(self, frame: Frame) -> None:
        facts = frame.generated
        if frame.type == "OK":
            self._accepted(frame, facts)
        elif frame.type == "ERROR":
            self._refused(frame, facts)
        elif "group" in facts and "member" in facts:
            self._reading.put(frame.connection.number, (str(facts["group"]), str(facts["member"])))

    def _accepted(self, frame: Frame, facts: Mapping[str, Any]) -> None:
        request = asked_of_group(frame)
        if request is None:
            return
        command, group, name = request
        if command == "FETCH_OFFSET":
            partition = str(facts.get("topic")), facts.get("partition")
            self._groups.began(group, partition, facts.get("offset", -1))
            return
        member = self._members.get_or_make(
            (group, str(facts.get("member", name))), GroupMember
        )  # JOIN_GROUP appends digits
        member.last_frame_ns, member.refused = frame.time_ns, 0
        if command == "LEAVE_GROUP":
            member.has_left = True
        elif command == "JOIN_GROUP":
            member.joined, member.has_left = True, False
            self._generation(frame, group, str(facts.get("member", name)), facts.get("generation"))

    def _generation(self, frame: Frame, group: str, name: str, generation: object) -> None:
        if not isinstance(generation, int):
            return
        latest = self._generations.get(group)
        self._generations.put(group, max(generation, latest or 0))
        if latest is None or generation <= latest:
            return
        problem = self.report.add(CODES["rebalance"], "", group, frame=frame)
        problem.title = f"group {group} was rebalanced {times(problem.count)}"
        problem.detail(f"generation {generation} at {self.report.seconds(frame.time_ns)}, when {name} joined")
        if problem.count >= MANY_REBALANCES:
            problem.severity = "warning"

    def _refused(self, frame: Frame, facts: Mapping[str, Any]) -> None:
        code = frame.values.get("error_code", "")
        request = asked_of_group(frame)
        if request is None:
            return
        command, group, name = request
        member = self._members.get_or_make((group, name), GroupMember)
        if code in FENCED:
            self._fenced(frame, member, f"{name} of group {group}", f"{command}: {code}", facts)
        elif code == "member_not_found" and not member.has_left:
            self._expired(frame, member, group, name)

    def _fenced(self, frame: Frame, member: GroupMember, who: str, why: str, facts: Mapping[str, Any]) -> None:
        if "GEN_MISMATCH" in why:
            member.refused += 1
            member.since_ns = frame.time_ns if member.refused == 1 else member.since_ns
        problem = self.report.add(CODES["stale-generation"], f"{who} works with an old generation", who, frame=frame)
        ours, current = facts.get("requested"), facts.get("current")
        if ours is not None and current is not None:
            problem.title = f"{who} works with generation {ours}, the group is at {current}"
        problem.detail(f"{why}, at {self.report.seconds(frame.time_ns)}")
        if member.refused >= MANY_REFUSALS and frame.time_ns - member.since_ns >= PATIENCE_NS:
            problem.severity = "warning"

    def _expired(self, frame: Frame, member: GroupMember, group: str, name: str) -> None:
        title = f"the broker no longer knows {name} of group {group}"
        severity = None if member.joined else "note"
        problem = self.report.add(CODES["session-timeout"], title, (group, name), frame=frame, severity=severity)
        if member.last_frame_ns:
            problem.detail(f"it was accepted last {(frame.time_ns - member.last_frame_ns) / 1e9:.3f} s before")

    def ended(self, connection: Connection) -> None:
        key, end = self._reading.pop(connection.number, None), connection.first_end
        member = None if key is None else self._members.get(key)
        if member is not None and end is not None and end.side == client_side(connection):
            member.ended = connection

    def finish(self) -> None:
        for (group, _), member in self._members.items():
            health = None if member.has_left or member.ended is None else member.ended.health
            if member.ended and health and health.end and health.end.time_ns > member.last_frame_ns:
                self._groups.crashed(group, member.ended)
        self._groups.finish()


def asked_of_group(frame: Frame) -> tuple[str, str, str] | None:
    """Command, group and member of the request that a frame answers; None: it is about no group."""
    asked, facts = frame.asked, frame.asked.facts if frame.asked is not None else {}
    if "group" in facts and asked.type == "FETCH_OFFSET":
        return asked.type, str(facts["group"]), ""
    member = "group" in facts and "member" in facts and asked.type in GROUP_COMMANDS
    return (asked.type, str(facts["group"]), str(facts["member"])) if member else None


@dataclass(eq=False)
class CursusRefusals(refusals.Refusals):
    """Clients that were not let in, may not do what they asked for, or asked the wrong broker."""

    types = frozenset({"AUTH", "ERROR"})
    protocol, table = "cursus", refusals.refusals_of("cursus")
    _principals: Newest[int, str] = field(default_factory=Newest)
    """By connection: who it said it is."""

    def frame(self, frame: Frame) -> None:
        if frame.type == "AUTH":
            self._principals.put(frame.connection.number, str(frame.generated.get("principal", "")))
        else:
            super().frame(frame)

    def errors(self, frame: Frame) -> list[str]:
        """The code, or its class, and what the reason begins with."""
        code, reason = str(frame.values.get("error_code", "")), str(frame.generated.get("reason", ""))
        limit = [names.LIMIT_REACHED] if reason.startswith(names.LIMIT_REACHED) else []
        return [*limit, code if code in names.NOT_LET_IN | names.ELSEWHERE else names.error_class(code)]

    def facts(self, frame: Frame, errors: Collection[Any]) -> dict[str, Any]:
        facts, leader = frame.generated, frame.generated.get("leader") or frame.generated.get("host")
        return {
            "client": short(frame.connection),
            "user": self._principals.get(frame.connection.number) or "(none)",
            "server": frame.source,
            "type": facts.get("in_reply_to", "a command"),
            "to": f" to {facts['topic']}" if "topic" in facts else "",
            "error": frame.values.get("error_code", ""),
            "reason": printable(str(facts.get("reason", ""))),
            "leader": f", it is {leader}" if leader else "",
        }


class SkippingBatch(NamedTuple):
    """A batch that begins above the number that was to come."""

    last: int
    first: int
    ref: FrameRef


@dataclass(eq=False)
class Producers(Rule):
    """Producers that leave sequence numbers out, and instances that fence each other."""

    types = frozenset({"Batch", "AckResponse", "OK", "ERROR"})
    _last: Newest[tuple[int, str, Any], int] = field(default_factory=Newest)
    """By connection, topic and partition: the last sequence number."""
    _gaps: Newest[int, tuple[tuple[int, str, Any], SkippingBatch]] = field(default_factory=Newest)
    """By frame, until it is confirmed."""
    _owners: Newest[str, Connection] = field(default_factory=Newest)
    """By transactional id: the connection that began with it last."""

    def frame(self, frame: Frame) -> None:
        values, facts = frame.values, frame.generated
        if frame.type == "Batch":
            self._batch(frame, values)
        elif frame.type == "AckResponse" and frame.refusal is None:
            self._gaps.pop(frame.request or 0, None)
        elif frame.type == "OK" and facts.get("in_reply_to") == "INIT_PRODUCER_ID":
            self._owners.put(str(facts.get("transactional_id", "")), frame.connection)
        elif frame.type == "ERROR" and str(facts.get("reason", "")).startswith("producer fenced"):
            self._fenced(frame, str(facts["reason"]))

    def _batch(self, frame: Frame, values: Mapping[str, Any]) -> None:
        first, last = values.get("seq_start", 0), values.get("seq_end", 0)
        if not values.get("idempotent") or not first:
            return
        producer = frame.connection.number, printable(str(values.get("topic", ""))), values.get("partition")
        before = self._last.get(producer)
        if before is not None and first > before + 1:
            self._gaps.put(frame.id, (producer, SkippingBatch(before, first, ref_of(frame))))
        else:
            self._last.put(producer, last)

    def _fenced(self, frame: Frame, reason: str) -> None:
        name = reason.partition("transactional_id=")[2].partition(" ")[0]
        owner, who = self._owners.get(name), short(frame.connection)
        problem = self.report.add(CODES["fenced"], "", (frame.connection.number, name), frame=frame)
        by = f" by {short(owner)}" if owner is not None and owner is not frame.connection else ""
        problem.title = f"{who} was fenced{by}, which uses transactional id {printable(name)}, too: " if by else ""
        problem.title = problem.title or f"{who} was fenced at transactional id {printable(name)}: "
        problem.title += f"{problem.count:,} of its requests were refused"
        if len(problem.details) < 2:
            problem.detail(printable(reason))
        if len(problem.details) > 1:  # each took over from the other
            problem.severity = "error"
        if owner is not None:
            self.report.concerns(problem, owner)

    def finish(self) -> None:
        for (number, topic, partition), gap in self._gaps.values():
            missing = (
                f"{gap.last + 1:,} to {gap.first - 1:,} are" if gap.first - gap.last > 2 else f"{gap.last + 1:,} is"
            )
            to = f"{topic}[{partition}]"
            title = (
                f"{short(gap.ref.connection)} sent sequence {gap.first:,} to {to} after {gap.last:,}: {missing} missing"
            )
            problem = self.report.add(CODES["sequence-gap"], title, (number, to), frame=gap.ref)
            end = gap.ref.connection.first_end
            if end is not None and end.side != gap.ref.side:
                after = f"{(end.time_ns - gap.ref.time_ns) / 1e6:.3f} ms later"
                problem.detail(f"the broker ended the connection {after}, without an answer")


@dataclass(eq=False)
class PartitionBrokers(AdvertisedHost):
    """The brokers that METADATA names for partitions."""

    types = READING | {"OK", "Batch", "PUBLISH", "CREATE"}
    codes, code = CODES, "advertised-host"
    working, asks, speaks = READING | {"Batch", "PUBLISH"}, "", ""
    works_elsewhere = True
    _created: Newest[str, None] = field(default_factory=Newest)
    """Hosts that created a topic, as publishers do first, and have not published yet."""

    def frame(self, frame: Frame) -> None:
        host = host_of(frame.source)
        if frame.type == "CREATE":
            self._created.put(host, None)
        elif frame.type not in READING or host not in self._created:  # a reader there falls back to the first broker
            if frame.type in self.working:
                self._created.pop(host, None)
            super().frame(frame)

    def addresses(self, frame: Frame) -> Iterator[tuple[str, int]]:
        for each in dict.fromkeys(str(frame.generated.get("leaders", "")).split(",")):
            host, _, port = each.rpartition(":")
            if port.isdigit():
                yield host, int(port)


CHECKS = Checks(
    changes={
        **dict.fromkeys(("JOIN_GROUP", "LEAVE_GROUP"), membership),
        "SYNC_GROUP": new_generation,
        **dict.fromkeys(("CREATE", "DELETE"), topic_request),
    },
    gauges=(Commits,),
    flows=(GroupFlows,),
    codes=CODES,
    rules=(Groups, CursusRefusals, Producers, PartitionBrokers),
    waits=READING,
    expected=frozenset({"exists"}),
    publishes={
        "Batch": Publishing(("topic",), "messages", refusals=True, traits=("compression",)),
        "PUBLISH": Publishing(("topic",), refusals=True),
    },
)
