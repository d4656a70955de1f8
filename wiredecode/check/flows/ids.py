"""Messages that are known again by their ids, and services that pass these on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from wiredecode.check.flows.names import service_of
from wiredecode.check.flows.view import FEW, MANY, WHILE_NS, FlowView, names_of, total, with_messages
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.flows import Party
from wiredecode.flows.table import ClientFlow, Topic, grouped
from wiredecode.protocols.shared.flows import KEY, MessageSample, text_of

UNIQUE = 0.98
"""Share of the messages whose ids are different, if it is an id."""
MAX_TOPICS, MAX_KINDS = 16, 8
END = 1 << 63
"""Later than all times."""
Id = tuple[int | None, int]
"""The key of a message, if ids are different within keys only; and the value."""
Fields = dict[str, "Values"]


class Made(NamedTuple):
    """A message with an id, and its flow."""

    id: Id
    sample: MessageSample
    side: ClientFlow


class Values(list[Made]):
    """The values of a field, in order of time."""

    @cached_property
    def times(self) -> dict[Id, int]:
        """When each id came first."""
        return {each.id: each.sample.time_ns for each in reversed(self)}


@dataclass(slots=True)
class Work:
    """A service gets messages of one topic, and publishes others with their ids."""

    topic: Topic
    results: Topic
    name: str
    """The field."""
    came: list[Made]
    """The messages, in order of time."""
    sent: list[Made]
    """The results, in order of time."""
    service: str = ""
    sides: list[ClientFlow] = field(default_factory=list)
    """The flows to the service."""
    kind: str = ""
    """The field that all these messages have with one value, if others of the topic have another one."""

    @property
    def messages(self) -> str:
        """``orders``, or ``events with type order.cancelled``."""
        name = self.topic.subject[2]
        return f"{name} with {self.kind} {text_of(self.came[0].sample, self.kind)}" if self.kind else name

    @property
    def label(self) -> str:
        return names_of(self.sides or (each.side for each in self.sent))


class Contents:
    """The samples of messages by their fields, in order of time; of topics of which most messages are known."""

    def __init__(self, view: FlowView) -> None:
        self.view = view
        self.topics = [
            each for each in view.topics if samples_in(each.publishers) >= max(FEW, total(each.publishers) / 2)
        ]
        self._fields: dict[tuple[int, ...], Fields] = {}

    def fields(self, sides: Sequence[ClientFlow]) -> Fields:
        """By the fields that most messages have; of messages with a key also by the key and each field."""
        key = tuple(map(id, sides))
        if key not in self._fields:
            self._fields[key] = self._read(sides)
        return self._fields[key]

    def _read(self, sides: Sequence[ClientFlow]) -> Fields:
        samples = [(sample, side) for side in sides for sample in side.flow.samples]
        plain: Fields = {}
        keyed: Fields = {}
        for sample, side in sorted(samples, key=lambda each: each[0].time_ns):
            for name, value in self.view.fields_of(sample):
                plain.setdefault(name, Values()).append(Made((None, value), sample, side))
                if sample.key is not None:
                    keyed.setdefault(f"key and {name}", Values()).append(Made((sample.key, value), sample, side))
        return {name: some for name, some in (plain | keyed).items() if 2 * len(some) >= len(samples)}


def works_of(contents: Contents) -> Iterator[Work]:
    """The services that pass the ids of messages on: one per topic of results and topic of messages."""
    came: dict[str, list[Topic]] = {}
    for topic in contents.topics:
        for service in {service_name(each.party) for each in with_messages(topic.consumers)}:
            came.setdefault(service, []).append(topic)
    for results in contents.topics:
        for service, made in grouped(results.publishers, lambda side: service_name(side.party)).items():
            topics = [each for each in came.get(service, ()) if each is not results]
            for topic in topics[:MAX_TOPICS] if samples_in(made) >= FEW else ():
                others = [each for each in topic.publishers if service_name(each.party) != service]
                sides = [each for each in with_messages(topic.consumers) if service_name(each.party) == service]
                messages, sent = contents.fields(others), contents.fields(made)
                work = work_of(topic, results, messages, sent) or work_of_kind(topic, results, messages, sent)
                if work is not None:
                    yield replace(work, service=service, sides=sides)


def companions_of(contents: Contents, works: Sequence[Work]) -> Iterator[Work]:
    """Topics that have the ids of another topic, though no service reads that one for them here."""
    sampled = [topic for topic in contents.topics if samples_in(topic.publishers) >= 2 * MANY][:MAX_TOPICS]
    derived = {work.results.subject for work in works}
    for topic, results in permutations(sampled, 2):
        if topic.subject[:2] != results.subject[:2]:
            continue
        one, other = ({service_name(each.party) for each in some.publishers} for some in (topic, results))
        if one.isdisjoint(other) and results.subject not in derived:
            came, sent = contents.fields(topic.publishers), contents.fields(results.publishers)
            work = work_of(topic, results, came, sent, WHILE_NS)
            if work is not None and len(work.sent) >= UNIQUE * samples_in(results.publishers):
                yield work


def samples_in(sides: Iterable[ClientFlow]) -> int:
    return sum(len(each.flow.samples) for each in sides)


def service_name(party: Party) -> str:
    """The name that instances of a service share."""
    return service_of(party.name) or party.label


def work_of(topic: Topic, results: Topic, messages: Fields, made: Fields, leeway_ns: int = 0) -> Work | None:
    """The work of a service, by the fields that most results have in common with messages before them.

    ``leeway_ns``: results may come this long before their messages.
    """
    best: Work | None = None
    for name, came in messages.items():
        times = came.times
        if len(came) < MANY or len(times) < UNIQUE * len(came):
            continue
        for other in (name, *made):  # of equal ones that of the same name
            sent, least = made.get(other, Values()), FEW if best is None else len(best.sent) + 1
            if len(sent) < least or times.keys().isdisjoint(sent.times):
                continue
            found = [each for each in sent if times.get(each.id, END) <= each.sample.time_ns + leeway_ns]
            if len({each.id for each in found}) >= least:
                best = Work(topic, results, name, came, found)
    return best


def work_of_kind(topic: Topic, results: Topic, messages: Fields, made: Fields) -> Work | None:
    """The work of a service that publishes these results for one kind of messages, whose ids others have, too."""
    found: list[Work] = []
    for name, some in messages.items():
        kinds = grouped(some, lambda each: each.id)
        if not 1 < len(kinds) <= MAX_KINDS or KEY in name.split():
            continue
        for of_kind in kinds.values():
            samples = {id(each.sample) for each in of_kind}
            fields = {
                other: Values(each for each in them if id(each.sample) in samples) for other, them in messages.items()
            }
            work = work_of(topic, results, fields, made)
            if work is not None:
                found.append(replace(work, kind=name))
    return max(found, key=lambda work: len(work.sent) / len(work.came), default=None)
