"""Changes before a problem: clients that come back with another user, virtual host, account, group, version or
address, and what clients did with topics, queues and groups.

They are facts beside a problem; none of them is one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.types import Connection
from wiredecode.patterns import pattern
from wiredecode.protocols.shared.facts import CHANGED, DELETED, PURGED, UNBOUND
from wiredecode.protocols.shared.gauges import ChangeReader, read_changes
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Problem, Report, Rule

MAX_CLIENTS = 4_096
"""Connections that are compared: the newest."""
SHORTLY_NS = 1_000_000_000
"""A client that comes back may do so this long before its last connection ends, or a problem is noticed."""
BEFORE_NS = 10_000_000_000
"""Changes are of interest for this long before a problem."""
USUAL_NAMES = "rdkafka", "sarama", "producer-1", "consumer-1"
"""Names that libraries give to clients without one."""
MAX_VALUES = 3
"""A fact with more values differs by instance."""
SAID = {
    "user": "logged in as {}, before as {}",
    "virtual_host": "uses virtual host {}, before {}",
    "space": "uses {}, before {}",
    "group": "joined group {}, before {}",
    "product": "runs {}, before {}",
    "server": "is connected to {}, before to {}",
    "host": "runs on {}, before on {}",
    "acks": "publishes with acks={}, before {}",
    "compression": "compresses with {}, before with {}",
    "batch": "publishes about {} messages at a time, before about {}",
    "min_bytes": "fetches when there are {} bytes, before {}",
    "isolation": "reads with isolation.level={}, before {}",
    "max_wait": "waits up to {} ms for records, before {}",
}
"""Facts about a client, and how a change reads."""


DID = {DELETED: "deleted", PURGED: "deleted messages of", UNBOUND: "took a binding of", CHANGED: "changed"}
"""Actions of a client on a topic, and how they read."""
WORD = pattern(r"[\w.@/-]+")
SINCE = attrgetter("since_ns")


class TopicChanges(Rule):
    """Notes the actions of clients on topics, streams, queues and groups; a rule for a protocol."""

    plain = False

    def __init__(self, report: Report, readers: Mapping[str, ChangeReader]) -> None:
        super().__init__(report)
        self._readers = readers

    def frame(self, frame: Frame) -> None:
        reader = self._readers.get(frame.type or "")
        for change in read_changes(reader, frame) if reader is not None else ():
            if change.fact is not None:
                of = (change.key, change.what) if change.what else (change.key,)
                self.report.facts.saw(change.fact, *of, frame=frame, by=short(frame.connection))


def tell_changes(report: Report, problems: Iterable[Problem]) -> None:
    """Add to problems the actions of clients on their topics in the seconds before."""
    found = sorted((each for each in report.facts if each.kind in DID), key=SINCE)
    for problem in problems if found else ():
        text = " ".join((problem.title, *problem.details, problem.likely))
        words, began_ns = {*WORD.findall(text.replace(". ", " "))}, problem.first_ns or 0
        first = bisect_left(found, began_ns - BEFORE_NS, key=SINCE)
        for fact in found[first : bisect_right(found, began_ns + SHORTLY_NS, key=SINCE)]:
            seconds = report.seconds(fact.since_ns)
            if fact.of[0] in words and seconds not in text and len(problem.changed) < MAX_EVIDENCE:
                what, frame = " of ".join((*fact.of[1:], fact.of[0])), fact.places[0].number
                problem.changed.append(f"{fact.by} {DID[fact.kind]} {what}, at {seconds} (frame {frame})")


class Visit(NamedTuple):
    """A connection of a client with a name."""

    name: str
    protocol: str
    connection: int
    since_ns: int
    until_ns: int
    facts: Mapping[str, str]


class PartyChange(NamedTuple):
    """A client came back and differed."""

    time_ns: int
    client: str
    connection: int
    text: str
    """``orders-api logged in as billing, before as orders``"""


class ClientChanges:
    """Gets connections: those that are over, and at the end others."""

    def __init__(self) -> None:
        self._clients: dict[int, Visit] = {}
        """By number of the connection."""

    def __deepcopy__(self, _: object) -> ClientChanges:
        """A copy that shares what nothing changes."""
        copied = ClientChanges()
        copied._clients = dict(self._clients)
        return copied

    def note(self, connection: Connection) -> None:
        """Note who the client of a connection is."""
        who, health = connection.identity, connection.health
        name, product = who.get("name", ""), who.get("product", "")
        if not name or name in USUAL_NAMES or is_of_library(name, product):
            return  # without a name, or with that of its library, clients are not known again
        if len(self._clients) >= MAX_CLIENTS:
            del self._clients[next(iter(self._clients))]
        facts: dict[str, str] = {each: who[each] for each in ("user", "virtual_host", "group") if each in who}
        facts["product"] = f"{product} {who.get('version', '')}".strip()
        facts["host"] = connection.named_endpoints[client_side(connection)].rpartition(":")[0]
        until_ns = connection.first_ns if health is None else health.last_ns
        protocol = next(iter(connection.protocols), "")
        self._clients[connection.number] = Visit(
            name, protocol, connection.number, connection.first_ns, until_ns, facts
        )

    def changes(self, more: Mapping[int, Mapping[str, str]] | None = None) -> list[PartyChange]:
        """All changes, in order of time; ``more``: facts by connection, such as account or cluster and settings."""
        by_client: dict[tuple[str, str], list[Visit]] = {}
        for each in self._clients.values():
            facts = {**each.facts, **(more or {}).get(each.connection, {})}
            if "virtual_host" in facts:
                facts.pop("space", None)
            by_client.setdefault((each.protocol, each.name), []).append(each._replace(facts=facts))
        return sorted(change for some in by_client.values() for change in _compared(some))

    def explain(self, problems: Iterable[Problem], first_ns: int, more: Mapping[int, Mapping[str, str]]) -> None:
        """Add to problems the changes of their clients in the seconds before."""
        by_client: dict[str, list[PartyChange]] = {}
        for each in self.changes(more):
            by_client.setdefault(each.client, []).append(each)
        if not by_client:
            return
        for problem in problems:
            names = {self._clients[number].name for number in problem.members if number in self._clients}
            begin_ns = problem.first_ns
            for change in sorted(change for name in names for change in by_client.get(name, ())):
                near = begin_ns is not None and begin_ns - BEFORE_NS <= change.time_ns <= begin_ns + SHORTLY_NS
                if near and len(problem.changed) < MAX_EVIDENCE:
                    problem.changed.append(f"{change.text}, at +{(change.time_ns - first_ns) / 1e9:.3f} s")


def is_of_library(name: str, product: str) -> bool:
    """Whether the name of a client is only that of its library, which many applications have."""
    return bool(product) and name.lower() in product.lower()


def said(before: Mapping[str, str], now: Mapping[str, str], names: Iterable[str] = SAID) -> list[str]:
    """Differences between the facts of two visits of a client: ``logged in as billing, before as orders``."""
    pairs = ((name, before.get(name), now.get(name)) for name in names)
    return [SAID[name].format(new, old) for name, old, new in pairs if old and new and old != new]


def _compared(clients: list[Visit]) -> Iterator[PartyChange]:
    """Changes of one client, between times at which it is connected: connections that overlap are one such time."""
    values = {name: {each.facts[name] for each in clients if each.facts.get(name)} for name in SAID}
    steady = [name for name, some in values.items() if len(some) <= MAX_VALUES]
    before: dict[str, str] = {}
    now: dict[str, str] = {}
    until_ns = 0
    for client in sorted(clients, key=lambda each: (each.since_ns, each.connection)):
        if client.since_ns >= until_ns - SHORTLY_NS:
            before, now = before | now, {}
        until_ns = max(until_ns, client.until_ns)
        new = {name: value for name, value in client.facts.items() if value and name not in now}
        now |= new
        texts = said(before, new, steady)
        if texts:
            yield PartyChange(client.since_ns, client.name, client.connection, f"{client.name} {'; '.join(texts)}")
