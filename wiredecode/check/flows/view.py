"""The flows of a capture that is over, as rules look at them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import Any

from wiredecode.check.changes import said
from wiredecode.check.codes import CODES
from wiredecode.check.flows.names import service_of
from wiredecode.flows import Flow, Flows, Party
from wiredecode.flows.accounts import parties_of
from wiredecode.flows.table import ClientFlow, Item, Subject, grouped, sides_of, topics_of
from wiredecode.frames.identity import client_side
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.shared.flows import fields_of
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Moment, Problem, Report

FEW, MANY, LIVES = 5, 20, 3
"""Messages, connections or times that are enough to be meant, and that are many; times that a client came, from this
number on it is no accident."""
MOMENT_NS, WHILE_NS = 1_000_000_000, 2_000_000_000
"""Times of both ends that differ by less are the same; how long something lasts that is no accident."""
MOST = 0.8
"""Share of the messages that is nearly all."""


OFFSET = "offset "
"""Beginning of the text of a start at an offset."""
SINCE = attrgetter("party.since_ns")
MAX_NEAR = 16
"""Flows with named positions that are looked at, the latest first, for the one of a consumer."""


class FlowView:
    """The flows of a capture, and the report that rules add to."""

    def __init__(self, flows: Flows, report: Report, silent: Sequence[Party] = ()) -> None:
        self.report, self.connections = report, flows.connections
        self.silent = grouped(silent, named)
        """Clients whose connections carried no flow."""
        self.sides = sides_of(flows)
        self.topics = topics_of(self.sides)
        self.sent = [side for topic in self.topics for side in topic.publishers]
        self.parties = parties_of(flows)
        clients = grouped(self.parties.values(), lambda party: (party.name, party.host))
        self.until = {client: max(each.until_ns for each in some) for client, some in clients.items()}
        """By name and host of a client: when its last connection ended."""
        consumers = [side for side in self.sides if side.flow.key.delivers]
        self.consumers = grouped(consumers, lambda side: (side.party.connection, side.flow.key.group))
        """Flows to clients by connection and group, also those without messages."""
        self.came = grouped(with_messages(consumers), lambda side: whose(side.party))
        """Flows that brought messages to clients, by protocol, service and host."""
        self.storing: dict[tuple[str, str], list[ClientFlow]] = {}
        """Flows of clients that note where they are, by host, and by name and by group."""
        for side in (each for each in consumers if each.flow.stores):
            for name in {side.party.name, side.flow.key.group} - {""}:
                self.storing.setdefault((name, side.party.host), []).append(side)
        asking = (side for side in consumers if side.flow.lookups)
        self._asking = {(side.flow.key.group, side.party.host, side.flow.key.topic) for side in asking}
        """Names under which clients ask for the position that they stored in a log, and their hosts."""
        self.positions = grouped((side for side in consumers if side.flow.stores), log_and_group)
        """The same by log and group."""
        self.names: dict[tuple[str, str, str], list[ClientFlow]] = {}
        """These flows by protocol, service and host, in order of time, if their positions have names."""
        for side in sorted(consumers, key=SINCE):
            if side.flow.stores and side.group:
                self.names.setdefault(whose(side.party), []).append(side)
        self.noted = {(who, log_and_group(each)[2]) for who, named in self.names.items() for each in named}
        """The same services, and the logs in which they note their positions."""
        self.fields_of = cache(fields_of)
        """Of samples: each is read once."""
        self.skipped: set[str] = set()
        """Topics of which a consumer left messages out, as a rule has reported."""

    @cached_property
    def published(self) -> dict[tuple[str, str], list[ClientFlow]]:
        """Flows of publishers by protocol and service."""
        return grouped(with_messages(self.sent), lambda side: whose(side.party)[:2])

    @cached_property
    def consumed(self) -> set[Subject]:
        """Topics of which consumers got messages."""
        return {topic.subject for topic in self.topics if with_messages(topic.consumers)}

    @cached_property
    def arrivals(self) -> dict[int, list[tuple[Subject, int]]]:
        """By contents: the topics by which a message came to consumers, and when."""
        found: dict[int, list[tuple[Subject, int]]] = {}
        for topic in self.topics:
            for sample in (each for side in topic.consumers for each in side.flow.samples):
                found.setdefault(sample.content, []).append((topic.subject, sample.time_ns))
        return found

    def add(self, code: str, title: str, key: Any, sides: Sequence[ClientFlow], **how: Any) -> Problem:
        """A problem of these flows; the first one is the one that it is about. ``frames``: evidence, else its own."""
        since_ns, until_ns = how.pop("since_ns", sides[0].flow.first_ns), how.pop("until_ns", sides[0].flow.last_ns)
        frames: Iterable[int] = how.pop("frames", sides[0].flow.frames)
        at = Moment(self.connections[sides[0].party.connection], since_ns)
        problem = self.report.add(CODES[code], title, key, frame=at, until_ns=until_ns, **how)
        for side in sides[:MAX_EVIDENCE]:
            self.report.concerns(problem, self.connections[side.party.connection])
        for number in frames:
            if len(problem.frames) < MAX_EVIDENCE and number not in problem.frames:
                problem.frames.append(number)
        problem.weight, problem.alike = max(problem.weight, problem.count), sides[0].party.label
        return problem

    def asks(self, side: ClientFlow) -> bool:
        """Whether a consumer asks its server for the position that it stored."""
        log = side.flow.log or side.flow.key.topic
        return any((name, side.party.host, log) in self._asking for name in (side.party.name, side.group))

    def cut_ns(self, party: Party) -> int:
        """When the server ended the connection of a client; 0: it did not."""
        connection = self.connections[party.connection]
        end = connection.health.end if connection.health is not None else None
        return end.time_ns if end is not None and end.side != client_side(connection) else 0

    def lasts(self, time_ns: int) -> bool:
        """Whether something that happened last at this time lasts to the end of the capture."""
        return time_ns >= self.report.last_ns - WHILE_NS

    def all_of(self, sides: Sequence[ClientFlow]) -> list[ClientFlow]:
        """The flows of the same consumers, also without messages."""
        keys = {(each.party.connection, each.flow.key.group) for each in sides}
        return [side for key in keys for side in self.consumers[key]]

    def came_to(self, sides: Iterable[ClientFlow], topic: str) -> list[ClientFlow]:
        """The messages of a topic or log that came to the services of some flows, on any connection of their hosts."""
        services = dict.fromkeys(whose(each.party) for each in sides)
        came = (each for who in services for each in self.came.get(who, ()))
        return [each for each in came if topic in (each.flow.key.topic, each.flow.log)]

    def sharers(self, sides: Sequence[ClientFlow], topic: str) -> list[ClientFlow]:
        """The messages of a topic that came to clients which note their positions under the names that these use."""
        services = dict.fromkeys(whose(each.party) for each in sides)
        names = dict.fromkeys(log_and_group(each) for who in services for each in self.names.get(who, ()))
        return self.came_to((each for name in names for each in self.positions[name]), topic)

    def name_of(self, side: ClientFlow) -> str:
        """The group of a consumer, or the name under which it notes its position."""
        if side.group:
            return side.group
        named = self.names.get(whose(side.party), [])
        last = bisect_right(named, side.party.until_ns, key=SINCE)
        for each in reversed(named[max(last - MAX_NEAR, 0) : last]):
            if overlaps(each.party, side.party) and log_and_group(each)[2] in (side.flow.key.topic, side.flow.log):
                return each.group
        return ""

    def stores(self, sides: Sequence[ClientFlow]) -> list[ClientFlow]:
        """The flows of the same clients that note where they are, on any of their connections, or under their name."""
        named = ((name, each.party.host) for each in sides for name in (each.party.name, each.group) if name)
        who = dict.fromkeys(named)
        return [*{id(side): side for one in who for side in self.storing.get(one, ())}.values()]


def began(sides: Iterable[ClientFlow]) -> int:
    """When the first message of some flows came; 0: there are none."""
    return min((each.flow.first_ns for each in sides), default=0)


def ended(sides: Iterable[ClientFlow]) -> int:
    """When their last message came; 0: there are none."""
    return max((each.flow.last_ns for each in sides), default=0)


def total(sides: Iterable[ClientFlow]) -> int:
    """Their messages."""
    return sum(each.flow.messages for each in sides)


def with_messages(sides: Iterable[ClientFlow]) -> list[ClientFlow]:
    return [each for each in sides if each.flow.messages]


def are_whole(sides: Iterable[ClientFlow]) -> bool:
    """Whether both directions of all connections were captured, without loss."""
    return all(each.party.is_whole for each in sides)


def after(sides: Iterable[ClientFlow], time_ns: int) -> int:
    """Their messages later than a time."""
    return sum(messages_after(each.flow, time_ns) for each in sides)


def messages_after(flow: Flow, time_ns: int) -> int:
    """Messages of a flow later than a time, as far as the times of some of them show."""
    entries = flow.times.entries or flow.unnumbered.entries
    if not entries:
        return flow.messages if flow.first_ns > time_ns else 0
    late = sum(at_ns > time_ns for *_, at_ns in entries)
    return flow.messages * late // len(entries)


def by_label(sides: Iterable[ClientFlow], *, group: bool = False) -> dict[str, list[ClientFlow]]:
    """Flows by their client's name; ``group``: and its group."""
    return grouped(sides, lambda side: side.label if group else side.party.label)


def by_life(sides: Iterable[ClientFlow]) -> dict[tuple[str, int], list[ClientFlow]]:
    """Flows by client and life, in order of time."""
    found = {}
    for label, some in by_label(sides, group=True).items():
        for life, its in enumerate(lives_of(some, attrgetter("party"))):
            found[label, life] = its
    return found


def lives_of(items: Iterable[Item], party_of: Callable[[Item], Party]) -> list[list[Item]]:
    """What belongs to one client, by its lives, in order of time: connections that overlap are one life."""
    lives: list[list[Item]] = []
    until_ns = 0
    for each in sorted(items, key=lambda item: party_of(item).since_ns):
        if not lives or party_of(each).since_ns > until_ns:
            lives.append([])
        lives[-1].append(each)
        until_ns = max(until_ns, party_of(each).until_ns)
    return lives


def with_offsets(sides: Iterable[ClientFlow]) -> list[ClientFlow]:
    return [each for each in sides if each.flow.offsets.begins]


def names_of(sides: Iterable[ClientFlow], between: str = ", ") -> str:
    """Their clients, each once."""
    return between.join(by_label(sides))


def log_and_group(side: ClientFlow) -> tuple[str, str, str, str]:
    """Protocol, space, log and group of a consumer."""
    return side.party.protocol, side.party.space, side.flow.log or side.flow.key.topic, side.group


def named(party: Party) -> tuple[str, str]:
    """Name and host of a client."""
    return party.label, party.host


def is_followed(before: ClientFlow, now: ClientFlow) -> bool:
    """Whether one connection was over when another one of the client began."""
    return before.party.until_ns <= now.party.since_ns + MOMENT_NS


def asked_offset(start: str) -> int | None:
    """The offset from which a consumer asked for messages, by the text of its start; None: it named none."""
    return int(start.removeprefix(OFFSET)) if start.startswith(OFFSET) and start[len(OFFSET) :].isdigit() else None


def whose(party: Party) -> tuple[str, str, str]:
    """Protocol, service and host of a client: its connections have one name, or differ by their roles."""
    return party.protocol, service_of(party.name), party.host


def overlaps(one: Party, other: Party) -> bool:
    """Whether two clients were connected at one time."""
    return one.since_ns <= other.until_ns and other.since_ns <= one.until_ns


def space_of(party: Party) -> str:
    """``account ORD``, in the words of its protocol."""
    return f"{checks_of(party.protocol).space} {party.space}" if party.space else ""


def changes(before: Party, now: Party) -> str:
    """Changes of a client: ``it logged in as billing, before as orders``; empty: nothing is known."""
    texts = said(facts_of(before), facts_of(now))
    return f"it {'; '.join(texts[:2])}" if texts else ""


def facts_of(party: Party) -> dict[str, str]:
    """Facts about a client, by the names of :data:`wiredecode.check.changes.SAID`."""
    return {**party._asdict(), **party.settings, "space": space_of(party), "server": party.server.rpartition(":")[0]}
