"""Messages that no consumer reads: moved, misspelt, at an old name, in a partition without a reader, in a circle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wiredecode.check.flows.names import differ
from wiredecode.check.flows.view import (
    FEW,
    MANY,
    MOMENT_NS,
    WHILE_NS,
    FlowView,
    after,
    are_whole,
    began,
    by_label,
    changes,
    ended,
    messages_after,
    names_of,
    space_of,
    total,
    with_messages,
    with_offsets,
)
from wiredecode.flows import Flow
from wiredecode.flows.table import ClientFlow, Topic, grouped, subject_of
from wiredecode.patterns import pattern
from wiredecode.protocols.shared.advertised import host_of
from wiredecode.protocols.shared.problems import MAX_EVIDENCE

MAX_CIRCLE = 4
"""Clients of a circle in which messages go round."""
MAX_TOPICS = 100
"""A client that writes to more topics makes their names, of ids and the like."""
DIGITS = pattern(r"\d+")


def moved(view: FlowView) -> None:
    """A publisher's messages go elsewhere, and do not reach who got the earlier ones, since it came back."""
    written: dict[str, list[Topic]] = {}
    for topic in view.topics:
        for label in by_label(topic.publishers):
            written.setdefault(label, []).append(topic)
    for topic in view.topics:
        for label, now in by_label(topic.publishers).items():
            arrived = [each for each in with_messages(topic.consumers) if each.flow.last_ns >= began(now)]
            if total(now) < FEW or ended(now) - began(now) < MOMENT_NS or not are_whole(now):
                continue
            for other in written[label] if len(written[label]) <= MAX_TOPICS else ():
                before = [each for each in other.publishers if each.party.label == label]
                if other is topic or (arrived and not renamed(now, before, topic, other)):
                    continue
                readers, elsewhere = without(other.consumers, arrived), topic.subject[2] == other.subject[2]
                mistaken = (elsewhere or not arrived) and bool(differ(topic.subject, other.subject))
                if left(now, before, readers, mistaken=mistaken):
                    report_moved(view, topic, now, other, before, with_messages(readers), arrived)
                    break


def left(
    now: Sequence[ClientFlow], before: Sequence[ClientFlow], consumers: Sequence[ClientFlow], *, mistaken: bool
) -> bool:
    """Whether a publisher wrote to a topic before only, and its consumers are still there.

    ``mistaken``: it has the same name elsewhere, or has no consumer and nearly the same name: other publishers may
    still use the old one.
    """
    first_ns = began(now)
    if not before or ended(before) > first_ns + MOMENT_NS:
        return False
    own = {each.party.connection for each in now}
    since_ns = min(each.party.since_ns for each in now)
    if not all(each.party.connection in own or each.party.until_ns <= since_ns + MOMENT_NS for each in before):
        return False  # two instances, each with its topic
    half_ns = (first_ns + ended(now)) // 2
    got = [each for each in with_messages(consumers) if each.flow.first_ns <= first_ns + MOMENT_NS]
    there = any(each.party.is_open or each.party.until_ns >= half_ns for each in got)
    return there and (mistaken or not any(each.flow.last_ns > first_ns + WHILE_NS for each in got))


def report_moved(
    view: FlowView,
    topic: Topic,
    now: Sequence[ClientFlow],
    other: Topic,
    before: Sequence[ClientFlow],
    readers: Sequence[ClientFlow],
    arrived: Sequence[ClientFlow],
) -> None:
    label, who, name, count = now[0].party.label, names_of(readers), topic.subject[2], total(now)
    since = view.report.seconds(began(now))
    where = "" if name == other.subject[2] else f", before to {other.subject[2]}"
    fate = "do not reach all consumers" if arrived else "reach no consumer"
    title = f"{count:,} messages of {label} to {name} since {since} {fate}{where}: {who} got the earlier ones"
    problem = view.add("flow.no-consumer", title, (label, topic.subject), [*now, *before, *readers], count=count)
    change = changes(before[-1].party, now[0].party)
    if where:
        problem.detail(f"{label} published to {other.subject[2]} until {view.report.seconds(before[-1].flow.last_ns)}")
        problem.likely = "the name is wrong: the topic, stream or subject that it publishes to was changed"
    if arrived:
        problem.detail(f"{names_of(arrived)} gets them")
    if change:
        problem.likely = change
    elif arrived:
        problem.likely = "the name was changed, and its consumers do not all know the new one: a filter, a subscription"
    problem.detail(f"{who} is still connected, and got {total(readers):,} messages")
    problem.to_end = view.lasts(ended(now))


def never_began(view: FlowView) -> None:
    """A consumer waits for messages of a name that is nearly the one to which messages are published."""
    waiting = [each for each in view.topics if not each.publishers and not with_messages(each.consumers)]
    for topic in view.topics if waiting else ():
        if total(topic.publishers) < FEW or not are_whole(topic.publishers):
            continue
        first_ns, last_ns = began(topic.publishers), ended(topic.publishers)
        for other in waiting[:MAX_TOPICS] if last_ns - first_ns >= WHILE_NS else ():
            readers = [each for each in other.consumers if min(each.flow.starts)[0] <= (first_ns + last_ns) // 2]
            readers = [each for each in readers if each.party.is_open or each.party.until_ns >= last_ns - WHILE_NS]
            both = {each.party.label for each in readers} & {each.party.label for each in topic.consumers}
            if readers and not both and (how := differ(topic.subject, other.subject)):
                report_apart(view, topic, other, readers, how)
                break


def report_apart(view: FlowView, topic: Topic, other: Topic, readers: Sequence[ClientFlow], how: str) -> None:
    who, reader, others = topic.publishers[0].party, readers[0].party, names_of(topic.consumers)
    name, wanted, count = topic.subject[2], other.subject[2], total(topic.publishers)
    title = f"{reader.label} waits for {wanted} and gets nothing, while {count:,} messages of {who.label} go to {name}"
    severity = "note" if name == wanted else "warning" if others else "error"  # each may have a partner elsewhere
    if name == wanted and others:
        return
    sides = [*readers, *topic.publishers]
    times = {"since_ns": topic.publishers[0].flow.first_ns, "until_ns": topic.publishers[0].flow.last_ns}
    problem = view.add("flow.never-began", title, topic.subject, sides, count=count, severity=severity, **times)
    problem.likely = how
    problem.detail(f"{others} gets them" if others else "no consumer gets them")
    if name == wanted:
        problem.detail(f"{who.label}: {space_of(who)}; {reader.label}: {space_of(reader)}")
    problem.to_end = view.lasts(ended(topic.publishers))


def unread(view: FlowView) -> None:
    """One of the partitions that a publisher writes to has no consumer, and the others have one."""
    hosts: dict[str, set[str]] = {}
    for party in view.parties.values():
        hosts.setdefault(party.server, set()).add(party.host)
    slots = [slot for topic in view.topics for slot in slots_of(topic)]
    for family in grouped(slots, lambda slot: slot.family).values():
        read = [each for each in family if any(has_offsets(side.flow) for side in each.consumers)]
        if len(read) * 2 <= len(family) * (family[0].number is None):
            continue  # no partitions of one topic, and most have no consumer here: they are elsewhere
        readers = Counter(side.party.connection for each in read for side in each.consumers)
        late = any(view.connections[each].initiator is None for each in readers)
        if late and max(readers.values()) == 1:
            continue  # each partition has a connection: those of others may have been silent since the capture began
        writers = {side.party.label for each in read for side in each.publishers}
        for slot in family:
            own = [side for side in slot.publishers if side.party.label in writers and side.party.is_whole]
            servers = {side.party.server for side in own}
            seen = any(len(hosts[each]) > 1 or host_of(each) in hosts[each] for each in servers)
            if not slot.consumers and total(own) >= MANY and ended(own) - began(own) >= WHILE_NS and seen:
                report_unread(view, slot, own, read)


def added(view: FlowView, topic: Topic) -> None:
    """A consumer that names its partitions does not read those that came later, and others do."""
    sent = grouped(topic.publishers, number_of)
    own = [each for each in with_offsets(topic.consumers) if number_of(each) >= 0]
    for (label, group), sides in grouped(own, lambda side: (side.party.label, side.group)).items():
        numbers, since_ns = {*map(number_of, sides)}, began(sides)
        others = {number_of(each) for each in own if each.party.label != label} - numbers
        new = {
            number: flows
            for number, flows in sent.items()
            if number in others and number > max(numbers) and began(flows) >= since_ns + WHILE_NS
        }
        lost = [each for flows in new.values() for each in flows]
        until_ns = min(ended(lost), max(each.party.until_ns for each in sides))
        count = total(lost) - after(lost, until_ns)
        if group or count < MANY or until_ns - began(lost) < WHILE_NS or not are_whole((*sides, *lost)):
            continue  # members of a group divide the partitions among them
        name, known = topic.subject[2], ", ".join(map(str, sorted(numbers)))
        title = f"{label} does not read partitions {', '.join(map(str, sorted(new)))} of {name}, where {count:,} "
        title += f"messages were published since {view.report.seconds(began(lost))}: it reads {known} only"
        how: dict[str, Any] = {"since_ns": began(lost), "until_ns": until_ns, "count": count}
        problem = view.add("flow.unread", title, (label, topic.subject), [*sides, *lost], **how)
        problem.likely = "partitions were added, and it reads a fixed list of them"


def number_of(side: ClientFlow) -> int:
    """The partition; -1: there is none."""
    return -1 if side.flow.key.partition is None else side.flow.key.partition


def report_unread(
    view: FlowView, slot: PartitionFlows, own: Sequence[ClientFlow], read: Sequence[PartitionFlows]
) -> None:
    readers = [side for each in read for side in each.consumers if has_offsets(side.flow)]
    who, names, count = names_of(readers), ", ".join(each.name for each in read[:MAX_EVIDENCE]), total(own)
    title = f"no consumer reads {slot.name}: {count:,} messages of {own[0].party.label} lie there"
    title += f", and {who} {'read' if ',' in who else 'reads'} {names}"
    problem = view.add("flow.unread", title, slot.name, [*own, *readers], until_ns=ended(own), count=count)
    problem.to_end = view.lasts(ended(own))


def left_behind(view: FlowView, topic: Topic) -> None:
    """All consumers of a topic went to another one, and a publisher still writes to it."""
    came = with_messages(topic.consumers)
    if not came or not topic.publishers or not are_whole((*came, *topic.publishers)):
        return
    last_ns = max(ended(came), max(each.party.until_ns for each in came))
    count = after(topic.publishers, last_ns + MOMENT_NS)
    if count < MANY or ended(topic.publishers) < last_ns + WHILE_NS:
        return
    labels, stopped_ns = by_label(came).keys(), min(each.flow.last_ns for each in came)
    for other in view.topics:
        new = [each for each in with_messages(other.consumers) if each.party.label in labels]
        begun = {each.party.label for each in new if each.flow.first_ns > stopped_ns}
        if other is topic or begun != labels or began(new) < stopped_ns:
            continue
        late = [each for each in topic.publishers if messages_after(each.flow, last_ns + MOMENT_NS)]
        name, who = topic.subject[2], names_of(late)
        title = f"{count:,} messages of {who} to {name} reach no consumer: {' and '.join(sorted(labels))} left it"
        title += f" for {other.subject[2]}"
        times = {"since_ns": last_ns, "until_ns": ended(late), "count": count}
        problem = view.add("flow.no-consumer", title, (name, other.subject), late, **times)
        problem.likely = f"{who} still has the old name, {name}"
        return


def loops(view: FlowView) -> None:
    """Clients pass messages on in a circle: each one passes on more than was put in."""
    passing = [each for each in view.sides if each.flow.circling >= FEW or each.flow.rounds >= MANY]
    sent = {topic.subject: total(topic.publishers) for topic in view.topics}
    seen: set[frozenset[int]] = set()
    for circle in circles_of(passing):
        put_in = sum(sent.get(subject_of(each), 0) - each.flow.passed for each in circle)
        members = frozenset(id(each) for each in circle)
        if members in seen or min(each.flow.passed for each in circle) <= max(put_in, 0):
            continue
        seen.add(members)
        ways = (f"{each.party.label} passes {each.flow.key.group} on to {each.flow.key.topic}" for each in circle)
        count, now = sum(each.flow.passed for each in circle), circle[0]
        title = f"messages go round: {', '.join(ways)}, {count:,} times"
        problem = view.add("flow.loop", title, members, circle, since_ns=now.party.since_ns, count=count)
        problem.last_ns = max(each.party.until_ns for each in circle)


class PartitionFlows(NamedTuple):
    """A partition, or one of several streams or subjects that only a number distinguishes."""

    family: tuple[str, ...]
    name: str
    number: int | None
    publishers: list[ClientFlow]
    consumers: list[ClientFlow]


def renamed(now: Sequence[ClientFlow], before: Sequence[ClientFlow], topic: Topic, other: Topic) -> bool:
    """Whether a publisher came back with another name: one that continues the old one, or is nearly the same."""
    (*_, name), (*_, old) = topic.subject, other.subject
    longer, shorter = max(name, old, key=len), min(name, old, key=len)
    goes_on = longer.startswith(shorter) and not longer[len(shorter) : len(shorter) + 1].isalnum()
    own = {each.party.connection for each in before}
    return not any(each.party.connection in own for each in now) and (
        goes_on or bool(differ(topic.subject, other.subject))
    )


def without(consumers: Sequence[ClientFlow], others: Sequence[ClientFlow]) -> list[ClientFlow]:
    """The consumers that are none of the others, by name."""
    known = {each.label for each in others}
    return [each for each in consumers if each.label not in known]


def circles_of(passing: Sequence[ClientFlow]) -> Iterator[list[ClientFlow]]:
    """Ways of messages that end where they begin, of at most :data:`MAX_CIRCLE` clients."""
    by_origin = grouped(passing, lambda side: (*subject_of(side)[:2], side.flow.key.group))
    ways = [[each] for each in passing]
    for way in ways:
        begin, end = (*subject_of(way[0])[:2], way[0].flow.key.group), subject_of(way[-1])
        if begin == end:
            yield way
        elif len(way) < MAX_CIRCLE:
            ways += [[*way, each] for each in by_origin.get(end, ()) if each not in way][:MAX_CIRCLE]


def has_offsets(flow: Flow) -> bool:
    """Whether its messages lie in a log of their own, and it had some."""
    return bool(flow.offsets.begins) and not flow.log


def slots_of(topic: Topic) -> Iterator[PartitionFlows]:
    protocol, space, name = topic.subject
    sent, came = (grouped(sides, lambda side: side.flow.key.partition) for sides in (topic.publishers, topic.consumers))
    for number in sent | came:
        whole = name if number is None else f"{name}[{number}]"
        family = protocol, space, DIGITS.sub("#", name) if number is None else name
        yield PartitionFlows(family, whole, number, sent.get(number, []), came.get(number, []))
