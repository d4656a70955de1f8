"""Flows as rows: publishers, topic, consumer, numbers of messages and their fate."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flow, Flows, Party
from wiredecode.flows.accounts import parties_of
from wiredecode.flows.intervals import Intervals
from wiredecode.protocols.checks import ByProtocol

TOPIC, PARTITION, CLIENT, SECOND = "topic", "partition", "client", "second"
BY = (TOPIC, PARTITION, CLIENT, SECOND)
NONE = "(none)"
NOT_CAPTURED = "(not captured)"

Subject = tuple[str, str, str]
"""Protocol, space and topic."""


class ClientFlow(NamedTuple):
    """A flow with its client."""

    flow: Flow
    party: Party
    group: str
    """The flow's group, or that of the client's other connection (Kafka)."""

    @property
    def label(self) -> str:
        """``billing``, ``billing in group app``."""
        name = self.party.label
        return f"{name} in {self.group}" if self.group and self.group != name else name


SHARES = ByProtocol(lambda checks: checks.shares)
LABEL = attrgetter("label")
BEGAN, SINCE = attrgetter("flow.first_ns", "label"), attrgetter("since_ns", "group")
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Topic(NamedTuple):
    """All that happens on a topic."""

    subject: Subject
    publishers: list[ClientFlow]
    consumers: list[ClientFlow]


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by key, in order of the first ones."""
    found: dict[Key, list[Item]] = {}
    for each in items:
        found.setdefault(key(each), []).append(each)
    return found


def sides_of(flows: Flows) -> list[ClientFlow]:
    """All flows, with their clients."""
    parties = parties_of(flows)
    named = sorted((each for each in parties.values() if each.group), key=SINCE)
    groups = grouped(named, lambda party: (party.name, party.host))
    made = []
    for key, flow in flows.flows.items():
        party = parties[key.connection]
        made.append(ClientFlow(flow, party, key.group or group_of(party, groups)))
    return made


def topics_of(sides: Iterable[ClientFlow]) -> list[Topic]:
    """The topics that carried messages, or to which somebody subscribed by their name.

    Those of two protocols of one server are one if both have it: a queue of RabbitMQ that is a stream.
    """
    topics: dict[Subject, Topic] = {}
    for side in sides:
        flow, key = side.flow, side.flow.key
        if not (flow.messages or flow.confirmed or flow.refused or (flow.starts and flow.log != key.topic)):
            continue  # or messages of the log come on their subjects
        subject = subject_of(side)
        topic = topics.setdefault(subject, Topic(subject, [], []))
        (topic.consumers if key.delivers else topic.publishers).append(side)
    for subject in [*topics]:
        other = topics.get((SHARES[subject[0]], subject[1], subject[2]))
        if other is not None:
            topic = topics.pop(subject)
            other.publishers.extend(topic.publishers)
            other.consumers.extend(topic.consumers)
    return [topics[subject] for subject in sorted(topics)]


def subject_of(side: ClientFlow) -> Subject:
    return side.party.protocol, side.party.space, side.flow.key.topic


def group_of(party: Party, groups: Mapping[tuple[str, str], list[Party]]) -> str:
    """The group of a client, also if another connection of the same time names it.

    ``groups``: by name and host of clients, their connections that name one.
    """
    if party.group:
        return party.group
    there = groups.get((party.name, party.host), ())
    return next(
        (each.group for each in there if each.since_ns <= party.until_ns >= party.since_ns <= each.until_ns), ""
    )


@dataclass(slots=True)
class Row:
    """One line of ``flows``; times in ns."""

    protocol: str
    space: str
    topic: str
    partition: int | None
    publishers: list[str]
    consumer: str
    """The consumer of the messages, or :data:`NONE`."""
    published: int = 0
    confirmed: int = 0
    refused: int = 0
    delivered: int = 0
    again: int = 0
    skipped: int = 0
    """Messages between two times at which a consumer was there, which none of its connections got."""
    lag: int | None = None
    worst_lag: int | None = None
    worst_ns: int | None = None
    latencies: list[int] = field(default_factory=list)
    began_ns: int = 0
    """Of the first message; without messages of the subscription or connection."""
    first_ns: int = 0
    last_ns: int = 0
    second_ns: int | None = None
    connections: list[int] = field(default_factory=list)
    servers: list[str] = field(default_factory=list)
    frames: list[int] = field(default_factory=list)
    """Some of its frames: the first ones."""

    def percentile(self, hundredth: int) -> float | None:
        """From publish to delivery, ms; None: not known."""
        times = sorted(self.latencies)
        return times[min(len(times) * hundredth // 100, len(times) - 1)] / 1e6 if times else None

    def record(self) -> dict[str, Any]:
        """JSON-ready, the columns of the table."""
        return {
            "protocol": self.protocol,
            "space": self.space or None,
            "from": self.publishers,
            "topic": self.topic,
            "partition": self.partition,
            "to": None if self.consumer == NONE else self.consumer,
            "published": self.published,
            "confirmed": self.confirmed,
            "refused": self.refused,
            "delivered": self.delivered,
            "again": self.again,
            "skipped": self.skipped,
            "lag": self.lag,
            "worst_lag": self.worst_lag,
            "worst_lag_time_ns": self.worst_ns,
            "p50_ms": self.percentile(50),
            "p99_ms": self.percentile(99),
            "first_time_ns": self.first_ns or None,
            "last_time_ns": self.last_ns or None,
            "second_time_ns": self.second_ns,
            "connections": self.connections,
            "servers": self.servers,
        }


def rows(flows: Flows, by: str = TOPIC) -> list[Row]:
    """The rows, those with most messages first; by second in order of time."""
    made = [row for topic in topics_of(sides_of(flows)) for row in rows_of(topic, by)]
    if by == SECOND:
        return sorted(made, key=lambda row: (row.second_ns or 0, row.topic, row.consumer))
    return sorted(
        made, key=lambda row: (-max(row.published, row.delivered), row.topic, row.partition or 0, row.consumer)
    )


def rows_of(topic: Topic, by: str) -> Iterator[Row]:
    if by == CLIENT:
        for side in topic.publishers:
            yield row_of(topic, [side], [], None)
        for consumers in grouped(topic.consumers, LABEL).values():
            yield row_of(topic, [], consumers, None)
        return
    if by == SECOND:
        yield from by_seconds(topic)
        return
    numbers = {each.flow.key.partition for each in (*topic.publishers, *topic.consumers)}
    for number in sorted(numbers, key=lambda each: -1 if each is None else each) if by == PARTITION else [None]:
        chosen = [
            [each for each in sides if by == TOPIC or each.flow.key.partition == number]
            for sides in (topic.publishers, topic.consumers)
        ]
        labels = grouped(chosen[1], LABEL)
        for consumers in labels.values():
            yield row_of(topic, chosen[0], consumers, number)
        if not labels and chosen[0]:
            yield row_of(topic, chosen[0], [], number)


def row_of(
    topic: Topic, publishers: Sequence[ClientFlow], consumers: Sequence[ClientFlow], partition: int | None
) -> Row:
    """The row of these flows of a topic; ``consumers``: those of one consumer."""
    protocol, space, name = topic.subject
    names = [*dict.fromkeys(each.label for each in sorted(publishers, key=BEGAN))]
    consumer = consumers[0].label if consumers else NONE
    row = Row(protocol, space, name, partition, names, consumer)
    sent, came = [each.flow for each in publishers], [each.flow for each in consumers]
    row.published, row.confirmed = sum(each.messages for each in sent), sum(each.confirmed for each in sent)
    row.refused, row.delivered = sum(each.refused for each in sent), sum(each.messages for each in came)
    times = [each for each in (*sent, *came) if each.messages]
    row.first_ns = min((each.first_ns for each in times), default=0)
    row.last_ns = max((each.last_ns for each in times), default=0)
    starts = [each.flow.starts[0][0] if each.flow.starts else each.party.since_ns for each in (*publishers, *consumers)]
    row.began_ns = row.first_ns or min(starts)
    row.servers = sorted({each.party.server for each in (*publishers, *consumers)})
    row.frames = sorted({number for each in (*sent, *came) for number in each.frames})
    row.connections = sorted({each.key.connection for each in (*sent, *came)})
    if came:
        row.again, row.skipped = again(came), sum(end - begin for *_, begin, end in skipped(came))
        row.latencies = [ns for each in came for ns in each.latencies] or latencies(sent, came)
        row.lag, row.worst_lag, row.worst_ns = lags(sent, came)
    return row


def by_seconds(topic: Topic) -> Iterator[Row]:
    """A row for each second and consumer in which something happened."""
    published = seconds_of(topic.publishers)
    protocol, space, name = topic.subject
    names = [*dict.fromkeys(each.label for each in topic.publishers)]
    for label, sides in (grouped(topic.consumers, LABEL) or {NONE: []}).items():
        delivered = seconds_of(sides)
        for second in sorted(published.keys() | delivered.keys()):
            row = Row(protocol, space, name, None, names, label, second_ns=second * 1_000_000_000)
            row.published, row.delivered = published[second], delivered[second]
            row.began_ns = row.first_ns = row.last_ns = second * 1_000_000_000
            yield row


def seconds_of(sides: Iterable[ClientFlow]) -> Counter[int]:
    """Messages by second since the epoch."""
    messages = Counter[int]()
    for each in sides:
        messages.update(each.flow.seconds)
    return messages


Log = tuple[str, int | None]


def log_of(flow: Flow) -> Log:
    """The log in which the offsets of a flow count."""
    return flow.log or flow.key.topic, flow.key.partition


def offsets_of(flows: Iterable[Flow]) -> dict[Log, Intervals]:
    """All offsets of some flows, by log."""
    found: dict[Log, Intervals] = {}
    for flow in flows:
        found.setdefault(log_of(flow), Intervals()).update(flow.offsets)
    return found


def again(came: Sequence[Flow]) -> int:
    """Messages that a consumer got more than once, on one connection or on several."""
    total = sum(each.again for each in came)
    seen: dict[Log, Intervals] = {}
    for flow in sorted(came, key=lambda each: each.first_ns):
        there = seen.setdefault(log_of(flow), Intervals())
        total += sum(there.add(begin, end) for begin, end in flow.offsets)
    return total


def skipped(came: Sequence[Flow]) -> list[tuple[Log, int, int]]:
    """Offsets between two times at which a consumer was there: holes inside one connection are those of the log."""
    found = []
    for log, offsets in offsets_of(came).items():
        own = [each.offsets for each in came if log_of(each) == log and each.offsets.begins]
        for begin, end in offsets.holes():
            if not any(each.begins[0] < begin and end < each.ends[-1] for each in own):
                found.append((log, begin, end))
    return found


def lags(sent: Sequence[Flow], came: Sequence[Flow]) -> tuple[int | None, int | None, int | None]:
    """Messages that a consumer has not got at the end, most of them at any time, and when."""
    written, got = offsets_of(sent), offsets_of(came)
    known = [
        max(written[log].ends[-1] - offsets.ends[-1], 0)
        for log, offsets in got.items()
        if offsets.ends and log in written and written[log].ends
    ]
    worst = max(((each.worst_lag, each.worst_ns) for each in came), default=(0, 0))
    if not known and not any(each.worst_lag for each in came):
        return None, None, None
    now = sum(known) if known else sum(each.lag for each in came)
    return now, max(now, worst[0]), worst[1] or None


class Backlog(NamedTuple):
    """A consumer group, or a consumer without one, at a topic."""

    subject: Subject
    group: str
    delivered: int
    lag: int | None
    """Messages that it has not got; None: not known."""
    age_ns: int | None
    """Time since the oldest of these was published; 0: there is none."""


def backlogs(flows: Flows, now_ns: int) -> list[Backlog]:
    """All consumer groups, at a time."""
    found = []
    for topic in topics_of(sides_of(flows)):
        sent = [each.flow for each in topic.publishers]
        for group, sides in grouped(topic.consumers, lambda side: side.group or side.party.label).items():
            came = [each.flow for each in sides]
            lag, since_ns = lags(sent, came)[0], oldest(sent, came)
            age_ns = None if lag is None or (lag and since_ns is None) else max(now_ns - (since_ns or now_ns), 0)
            delivered = sum(each.messages for each in came)
            found.append(Backlog(topic.subject, group, delivered, lag, age_ns))
    return found


def oldest(sent: Sequence[Flow], came: Sequence[Flow]) -> int | None:
    """The time of the first publish whose messages consumers have not got, as far as offsets show it."""
    got = offsets_of(came)
    return min(
        (
            time_ns
            for flow in sent
            if (offsets := got.get(log_of(flow))) and offsets.ends
            for first, count, time_ns in flow.times.entries
            if first + count > offsets.ends[-1]
        ),
        default=None,
    )


def latencies(sent: Sequence[Flow], came: Sequence[Flow]) -> list[int]:
    """Times from publish to delivery, ns, of messages whose offset both ends show."""
    found: list[int] = []
    for log in {log_of(each) for each in came}:
        published = sorted(entry for each in sent if log_of(each) == log for entry in each.times.entries)
        if not published:
            continue
        firsts = [first for first, *_ in published]
        for first, count, time_ns in (entry for each in came if log_of(each) == log for entry in each.times.entries):
            begin, many, sent_ns = published[max(bisect_right(firsts, first + count - 1) - 1, 0)]
            if begin <= first + count - 1 < begin + many and time_ns >= sent_ns:
                found.append(time_ns - sent_ns)
    return found
