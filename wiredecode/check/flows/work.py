"""What services make of the messages that they get: by a field that messages and results have in common, an id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

from wiredecode.check.flows.names import service_of
from wiredecode.check.flows.view import FEW, MANY, MOST, WHILE_NS, FlowView, ended, names_of, total, with_messages
from wiredecode.dataclasses import dataclass
from wiredecode.flows import Party
from wiredecode.flows.table import ClientFlow, Topic, grouped
from wiredecode.frames.escape import counted
from wiredecode.protocols.shared.flows import STRING, MessageSample
from wiredecode.protocols.shared.problems import MAX_EVIDENCE

UNIQUE = 0.98
"""Share of the messages whose ids are different, if it is an id."""
ISOLATED = 0.2
"""Share of the missing ones between two that were done: more, and the service leaves some out as it likes."""
ACK_WAIT_NS = 30_000_000_000
"""Servers deliver a message again after this time, if nothing else was agreed."""
END = 1 << 63
"""Later than all times."""
Id = tuple[int | None, int]
"""The key of a message, if ids are different within keys only; and the value."""


class Made(NamedTuple):
    """A message with an id, and its flow."""

    id: Id
    sample: MessageSample
    side: ClientFlow


@dataclass(slots=True)
class Work:
    """A service gets messages of one topic, and publishes others with their ids."""

    topic: Topic
    results: Topic
    field: str
    came: list[Made]
    """The messages, in order of time."""
    sent: list[Made]
    """The results, in order of time."""
    sides: list[ClientFlow]
    """The flows to the service."""

    @property
    def label(self) -> str:
        return names_of(self.sides)


def judge(view: FlowView) -> None:
    """Messages that a service left out, did twice, or whose results come in another order."""
    for work in works_of(view):
        for rule in (not_done, done_again, out_of_order):
            rule(view, work)


def works_of(view: FlowView) -> Iterator[Work]:
    """The services that pass the ids of messages on: one per topic of results and topic of messages."""
    sampled = [topic for topic in view.topics if samples_in(topic.publishers) >= MANY]
    came: dict[str, list[Topic]] = {}
    for topic in sampled:
        for service in {service_name(each.party) for each in with_messages(topic.consumers)}:
            came.setdefault(service, []).append(topic)
    for results in sampled:
        for service, made in grouped(results.publishers, lambda side: service_name(side.party)).items():
            topics = [each for each in came.get(service, ()) if each is not results]
            for topic in topics if samples_in(made) >= MANY else ():
                others = [each for each in topic.publishers if service_name(each.party) != service]
                sides = [each for each in with_messages(topic.consumers) if service_name(each.party) == service]
                work = work_of(topic, results, others, made, sides)
                if work is not None:
                    yield work


def samples_in(sides: Iterable[ClientFlow]) -> int:
    return sum(len(each.flow.samples) for each in sides)


def service_name(party: Party) -> str:
    """What instances of a service have in common."""
    return service_of(party.name) or party.label


def work_of(
    topic: Topic,
    results: Topic,
    publishers: Sequence[ClientFlow],
    made: Sequence[ClientFlow],
    sides: list[ClientFlow],
) -> Work | None:
    """The work of a service, by the fields that most results have in common with messages before them."""
    best: Work | None = None
    there = names_in(made)
    for name, keyed in product(names_in(publishers), (False, True)):
        came = with_id(publishers, name, keyed)
        times: dict[Id, int] = {}
        for each in came:
            times.setdefault(each.id, each.sample.time_ns)
        if len(came) < MANY or len(times) < UNIQUE * len(came):
            continue
        for other in (name, *there):  # of equal ones that of the same name
            sent = [each for each in with_id(made, other, keyed) if times.get(each.id, END) <= each.sample.time_ns]
            if len({each.id for each in sent}) >= (MANY if best is None else len(best.sent) + 1):
                best = Work(topic, results, f"{'key and ' * keyed}{name}", came, sent, sides)
    return best


def names_in(sides: Iterable[ClientFlow]) -> list[str]:
    """The fields of most messages."""
    samples = [sample for each in sides for sample in each.flow.samples]
    names = Counter(name for sample in samples for name, _ in sample.fields)
    return [name for name, count in names.most_common() if 2 * count >= len(samples)]


def with_id(sides: Iterable[ClientFlow], name: str, keyed: bool) -> list[Made]:
    """The messages that have a field, in order of time; ``keyed``: and a key."""
    found = [
        Made((sample.key if keyed else None, value), sample, side)
        for side in sides
        for sample in side.flow.samples
        if not (keyed and sample.key is None)
        for field, value in sample.fields
        if field == name
    ]
    return sorted(found, key=lambda each: each.sample.time_ns)


def not_done(view: FlowView, work: Work) -> None:
    """Messages that a service got, and that are missing in its results, although it went on to later ones."""
    done = {each.id for each in work.sent}
    came = between(work, done)
    missing = {place for place, each in enumerate(came) if each.id not in done}
    alone = sum(missing.isdisjoint((place - 1, place + 1)) for place in missing)
    if not FEW <= len(missing) <= len(came) // 2 or alone > ISOLATED * len(missing):
        return
    lost, rest = [came[place] for place in sorted(missing)], [each for each in came if each.id in done]
    if differ_by_kind(lost, rest) or not are_captured(work) or not all_came(work):
        return
    name, results = work.topic.subject[2], work.results.subject[2]
    title = f"{work.label} got {len(lost):,} messages of {name} and published nothing to {results} for them, "
    title += f"as it did for {len(rest):,} others: {work.field} {numbers_of(each.id[1] for each in lost)}"
    times = {"since_ns": lost[0].sample.time_ns, "until_ns": rest[-1].sample.time_ns}
    key = work.label, work.topic.subject
    problem = view.add("flow.not-done", title, key, work.sides, count=len(lost), **times)
    problem.frames[:] = [each.sample.frame for each in lost][:MAX_EVIDENCE]
    if may_come_again(view, work, lost):
        problem.severity = "note"
        problem.likely = "they were not acknowledged: the server delivers them again later"
        return
    over = {each.side.party.until_ns: each.side.party.label for each in work.sent if not each.side.party.is_open}
    ends = [each for each in sorted(over) if lost[0].sample.time_ns <= each <= rest[-1].sample.time_ns]
    if ends:
        said = ", ".join(f"{over[each]} at {view.report.seconds(each)}" for each in ends[:FEW])
        problem.detail(f"{said} ended, and did not do the work that it had begun")
        if view.stores(work.sides):
            problem.likely = "it commits or acknowledges messages before they are done, or more than are done"


def between(work: Work, done: set[Id]) -> list[Made]:
    """The messages from the first that was done to the last, without those whose result may still come."""
    times = {each.id: each.sample.time_ns for each in work.came}
    wait_ns = max(each.sample.time_ns - times[each.id] for each in work.sent)
    flows = dict.fromkeys(each.side.flow for each in work.sent)
    cut = [flow for flow in flows if flow.messages > len(flow.samples)]
    end_ns = min([work.sent[-1].sample.time_ns, *(flow.samples[-1].time_ns for flow in cut)]) - wait_ns
    came = [each for each in work.came if each.sample.time_ns <= end_ns]
    places = [place for place, each in enumerate(came) if each.id in done]
    return came[places[0] : places[-1] + 1] if places else []


def may_come_again(view: FlowView, work: Work, lost: Sequence[Made]) -> bool:
    """Whether the messages wait for an acknowledgement that is not overdue."""
    if not any(each.flow.numbers.begins for each in work.sides):
        return False
    acks = sum(each.flow.stores for each in view.stores(work.sides))
    unacknowledged = total(work.sides) - acks >= len(lost) // 2
    return unacknowledged and view.report.last_ns - lost[-1].sample.time_ns < ACK_WAIT_NS


def differ_by_kind(lost: Sequence[Made], rest: Sequence[Made]) -> bool:
    """Whether a field or the publisher tells the missing messages from others: then they are left out on purpose."""
    if {each.side.party.label for each in lost}.isdisjoint({each.side.party.label for each in rest}):
        return True
    names = {name for each in lost for name, _ in each.sample.fields}
    for name in names:
        values = {value for each in lost for field, value in each.sample.fields if field == name}
        others = {value for each in rest for field, value in each.sample.fields if field == name}
        if len(values) <= max(1, len(lost) // FEW) and values.isdisjoint(others):
            return True
    return False


def are_captured(work: Work) -> bool:
    """Whether no loss may hide results."""
    return all(each.side.party.is_whole for each in (*work.sent, *work.came))


def all_came(work: Work) -> bool:
    """Whether the service got about all messages: else others were lost before it."""
    return total(work.sides) - sum(each.flow.again for each in work.sides) >= UNIQUE * len(work.came)


def numbers_of(values: Iterable[int]) -> str:
    """``3, 7 to 12 and 4 more``; of texts only how many."""
    numbers = sorted(set(values))
    if any(each >= STRING for each in numbers):
        return f"({counted(len(numbers), 'value')})"
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][-1] + 1:
            runs[-1][1:] = [each]
        else:
            runs.append([each])
    texts = [" to ".join(map(str, run)) for run in runs]
    more = f" and {len(texts) - FEW} more" if len(texts) > FEW else ""
    return f"{', '.join(texts[:FEW])}{more}"


def done_again(view: FlowView, work: Work) -> None:
    """Results that a service published twice, from different connections, for messages that came once."""
    first: dict[Id, Made] = {}
    again: dict[Id, Made] = {}
    for each in work.sent:
        known = first.setdefault(each.id, each)
        if known is not each and known.side.party.connection != each.side.party.connection:
            again.setdefault(each.id, each)
    began = work.sent[0].id in again
    if not FEW <= len(again) <= len(first) // 2 or began or not are_captured(work):
        return
    name, results = work.topic.subject[2], work.results.subject[2]
    sides = [each.side for each in again.values()]
    title = f"{names_of(sides)} published {len(again):,} results to {results} again, for messages of {name} that "
    title += f"were done before: {work.field} {numbers_of(each[1] for each in again)}"
    times = {"since_ns": next(iter(again.values())).sample.time_ns, "until_ns": ended(sides)}
    key = work.label, work.results.subject
    problem = view.add("flow.sent-again", title, key, [*sides, *work.sides], count=len(again), **times)
    pairs = ((first[each].sample.frame, again[each].sample.frame) for each in again)
    problem.frames[:] = [number for pair in pairs for number in pair][:MAX_EVIDENCE]
    problem.likely = "it came back to messages that it had done, and does not leave them out"


def done_by_both(view: FlowView) -> None:
    """Two instances of a service publish results with the same ids at the same time."""
    for topic in view.topics:
        publishers = [each for each in topic.publishers if each.flow.samples]
        by_client = grouped(publishers, lambda side: (service_name(side.party), side.party.label, side.party.host))
        for (one, first), (other, second) in combinations(by_client.items(), 2):
            if one[0] != other[0]:
                continue
            for name in names_in((*first, *second)):
                known, new = ({each.id: each for each in with_id(some, name, keyed=False)} for some in (first, second))
                both = [each for each in known if each in new]
                if len(both) < MANY or both[0] == next(iter(known)) == next(iter(new)):
                    continue  # each may count what it sends
                near = [each for each in both if abs(known[each].sample.time_ns - new[each].sample.time_ns) < WHILE_NS]
                same = sum(known[each].sample.content == new[each].sample.content for each in near)
                distinct = all(len(some) >= UNIQUE * total(sides) for some, sides in ((known, first), (new, second)))
                if distinct and same < MANY <= len(near) and len(near) >= MOST * len(both):
                    report_both(view, topic, name, [(known[each], new[each]) for each in near])
                    break


def report_both(view: FlowView, topic: Topic, name: str, pairs: Sequence[tuple[Made, Made]]) -> None:
    one, other = pairs[0]
    title = f"{one.side.party.label} and {other.side.party.label} publish messages with the same {name} to "
    title += f"{topic.subject[2]}: {len(pairs):,} times, {numbers_of(each.id[1] for each, _ in pairs)}"
    times = {"since_ns": one.sample.time_ns, "until_ns": pairs[-1][1].sample.time_ns, "count": len(pairs)}
    problem = view.add("flow.sent-again", title, topic.subject, [other.side, one.side], **times)
    problem.frames[:] = [made.sample.frame for pair in pairs for made in pair][:MAX_EVIDENCE]
    problem.likely = "nothing divides the work between both, or each of both believes that it leads"


def out_of_order(view: FlowView, work: Work) -> None:
    """A service publishes the results of one key in another order than their messages came, and did not before."""
    places = {each.id: place for place, each in enumerate(work.came)}
    latest: dict[int | None, int] = {}
    late: list[tuple[int, Made]] = []
    seen: set[Id] = set()
    some = [each for each in work.sent if each.sample.key is not None and each.id in places]
    for number, each in enumerate(some):
        place = places[each.id]
        if each.id in seen:
            continue
        seen.add(each.id)
        if place < latest.get(each.sample.key, -1):
            late.append((number, each))
        latest[each.sample.key] = max(place, latest.get(each.sample.key, -1))
    if len(late) < FEW or late[0][0] < MANY or len(late) * MANY < len(some) - late[0][0]:
        return
    at, count = late[0][1], len(some) - late[0][0]
    results, since = work.results.subject[2], view.report.seconds(at.sample.time_ns)
    title = f"{at.side.party.label} publishes results of one key to {results} in another order than their messages "
    title += f"came, since {since}: {len(late):,} of {count:,}, before 0 of {late[0][0]:,}"
    key, times = (work.label, work.results.subject), {"since_ns": at.sample.time_ns, "until_ns": ended([at.side])}
    problem = view.add("flow.out-of-order", title, key, [at.side, *work.sides], count=len(late), **times)
    problem.frames[:] = [each.sample.frame for _, each in late][:MAX_EVIDENCE]
    problem.detail(f"the messages of {work.topic.subject[2]} are known again by {work.field}")
