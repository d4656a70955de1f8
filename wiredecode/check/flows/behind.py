"""Members of a group that lag, while others have nothing to do."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    MOST,
    FlowView,
    after,
    are_whole,
    log_and_group,
    names_of,
    total,
    with_messages,
)
from wiredecode.flows import Flow
from wiredecode.flows.table import ClientFlow, Topic, grouped
from wiredecode.frames.escape import counted
from wiredecode.protocols.shared.facts import IDLE
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Problem

LAGGING = 5
"""A group lags if this part of the messages is not done: a fifth."""
PARTITIONS = 3
"""Fewer partitions are seldom even."""
LATE_NS, TIMES = 3_000_000_000, 4
"""Time by which the messages of one partition wait longer than before, and times longer than those of others."""


class Behind(NamedTuple):
    """The position of a consumer in a partition, when it says so."""

    time_ns: int
    done: int
    """The offset up to which it is done."""
    messages: int
    """Messages that were published and are not done."""
    age_ns: int
    """Time since the first of these was published."""


def uneven(view: FlowView, topic: Topic) -> None:
    """Most messages go to one partition, and its consumer lags while others have nothing to do."""
    parts: dict[int, int] = {}  # also those that get none
    for each in (*topic.consumers, *topic.publishers):
        if (number := each.flow.key.partition) is not None:
            parts[number] = parts.get(number, 0) + (0 if each.flow.key.delivers else each.flow.messages)
    sent = sum(parts.values())
    if len(parts) < PARTITIONS or sent < 100 or max(parts.values()) < MOST * sent:
        return
    hot = max(parts, key=lambda number: parts[number])
    lags = {number: lag_of(view, topic, number) for number in parts}
    worst, others = lags[hot], max((lag for number, lag in lags.items() if number != hot), default=0)
    consumers = [each for each in with_messages(topic.consumers) if each.flow.key.partition == hot]
    if not consumers or worst < max(MANY, parts[hot] // 10) or worst < 4 * max(others, 1):
        return
    name, publishers = topic.subject[2], [each for each in topic.publishers if each.flow.key.partition == hot]
    title = f"{parts[hot]:,} of {sent:,} messages of {name} go to partition {hot}: {consumers[0].party.label} is "
    title += f"{worst:,} messages late there, and other members have nothing to do"
    problem = view.add("flow.uneven", title, topic.subject, [*publishers, *consumers], count=parts[hot])
    problem.detail(", ".join(f"{name}[{number}]: {count:,}" for number, count in sorted(parts.items())[:MAX_EVIDENCE]))
    blame_key(problem, publishers, problem.first_ns or 0)


def idle(view: FlowView, topic: Topic) -> None:
    """A group lags, and has members without a partition."""
    for group, sides in grouped(with_messages(topic.consumers), lambda side: side.group).items():
        unused = sorted({each.by for each in view.report.facts.each(IDLE) if each.of[0] == group})
        parts = (each.flow.key.partition for each in topic.publishers)
        numbers = {number for number in parts if number is not None}
        lag = sum(lag_of(view, topic, number) for number in numbers) if unused and are_whole(topic.publishers) else 0
        if lag < max(MANY, total(topic.publishers) // LAGGING):
            continue
        name, most = topic.subject[2], f"{len(unused)} members of group {group} have no partition"
        title = f"{most}, and the group is {lag:,} of {total(topic.publishers):,} messages of {name} late"
        problem = view.add("flow.uneven", title, (group, topic.subject), sides, count=lag)
        problem.likely = f"{name} has {counted(len(numbers), 'partition')}: more members than that do not help"
        problem.detail(f"without a partition: {', '.join(unused[:MAX_EVIDENCE])}")


def lag_of(view: FlowView, topic: Topic, partition: int) -> int:
    """Messages of a partition that a group has not committed at the end, or not fetched if it commits nothing."""
    written = [each.flow.offsets.ends[-1] for each in topic.publishers if ends(each.flow, partition)]
    stored = [each.flow.stored for each in view.stores(topic.consumers) if stores_in(each.flow, topic, partition)]
    fetched = [each.flow.offsets.ends[-1] for each in topic.consumers if ends(each.flow, partition)]
    done = stored or fetched
    return max(max(written) - max(done), 0) if written and done else 0


def one_behind(view: FlowView, topic: Topic) -> None:
    """The messages of one partition wait ever longer, though their consumer works; those of others do not."""
    noting = [each for each in view.stores(topic.consumers) if each.group and each.flow.key.topic == topic.subject[2]]
    for group, sides in grouped(noting, lambda side: side.group).items():
        by_partition = grouped(sides, lambda side: side.flow.key.partition)
        courses = {number: course_of(topic, number, some) for number, some in by_partition.items()}
        rises = {number: rise for number, course in courses.items() if (rise := rise_of(course))}
        if not rises or len(courses) < 2 or not are_whole((*topic.publishers, *topic.consumers)):
            continue
        hot = max(rises, key=lambda number: rises[number][-1].age_ns)
        since_ns, until_ns = rises[hot][0].time_ns, rises[hot][-1].time_ns
        others = (each for number, course in courses.items() if number != hot for each in course)
        ages = [each.age_ns for each in others if since_ns <= each.time_ns <= until_ns]
        if ages and max(ages) * TIMES <= rises[hot][-1].age_ns:
            report_behind(view, topic, (group, hot), rises[hot], max(ages))


def report_behind(
    view: FlowView, topic: Topic, at: tuple[str, int | None], rise: Sequence[Behind], others_ns: int
) -> None:
    group, hot = at
    first, worst, most = rise[0], rise[-1], max(each.messages for each in rise)
    own = [each for each in (*with_messages(topic.consumers), *topic.publishers) if each.flow.key.partition == hot]
    consumers = [each for each in own if each.flow.key.delivers and each.group == group]
    sent = [each for each in own if not each.flow.key.delivers]
    title = f"{names_of(consumers)} is up to {most:,} messages and {worst.age_ns / 1e9:.1f} s late with "
    title += f"{topic.subject[2]}[{hot}], since {view.report.seconds(first.time_ns)}: others of its group are at most "
    title += f"{others_ns / 1e9:.1f} s late"
    times = {"since_ns": first.time_ns, "until_ns": worst.time_ns, "count": most}
    problem = view.add("flow.uneven", title, (group, topic.subject, hot), [*consumers, *sent], **times)
    if blame_key(problem, sent, first.time_ns - first.age_ns):
        return
    parts = Counter({each.flow.key.partition: 0 for each in topic.publishers})
    for each in topic.publishers:
        parts[each.flow.key.partition] += after([each], first.time_ns) - after([each], worst.time_ns)
    if parts[hot] * len(parts) < 2 * parts.total():
        problem.likely = "it works more slowly than others: they have as many messages"


def blame_key(problem: Problem, sent: Iterable[ClientFlow], since_ns: int) -> bool:
    """Whether most messages of a partition have one key: then say so."""
    samples = ((sample, each.party.label) for each in sent for sample in each.flow.samples)
    keys = [(sample.key, who) for sample, who in samples if sample.time_ns >= since_ns]
    (key, who), count = Counter(keys).most_common(1)[0] if keys else ((None, ""), 0)
    if key is None or 2 * count < len(keys):
        return False
    problem.likely = "one key has most messages: the others in its partition wait for them"
    problem.detail(f"{count:,} of {len(keys):,} messages of this partition since then have one key, from {who}")
    return True


def course_of(topic: Topic, partition: int | None, noting: Iterable[ClientFlow]) -> list[Behind]:
    """The positions of a group in a partition, each time that it said so."""
    sent = [each.flow for each in topic.publishers if each.flow.key.partition == partition]
    published = sorted((first + count, time_ns) for each in sent for first, count, time_ns in each.times.entries)
    ends = [end for end, _ in published]
    latest = [*accumulate((time_ns for _, time_ns in published), max)]
    course = []
    for done, _, time_ns in sorted(
        (entry for each in noting for entry in each.flow.done.entries), key=lambda at: at[2]
    ):
        place, last = bisect_right(ends, done), bisect_right(latest, time_ns)
        if last > place:
            course.append(Behind(time_ns, done, ends[last - 1] - done, time_ns - published[place][1]))
        elif published:
            course.append(Behind(time_ns, done, 0, 0))
    return course


def rise_of(course: Sequence[Behind]) -> list[Behind]:
    """The part in which a consumer works, and is ever later; empty: there is none that lasts."""
    best: list[Behind] = []
    some: list[Behind] = []
    for each in course:
        if some and (each.age_ns < some[-1].age_ns * 9 // 10 or each.done <= some[-1].done):
            some = []
        some.append(each)
        while len(some) > 1 and not some[0].messages and not some[1].messages:
            del some[0]
        if not best or each.age_ns - some[0].age_ns > best[-1].age_ns - best[0].age_ns:
            best = [*some]
    is_late = len(best) >= LIVES and best[-1].age_ns - best[0].age_ns >= LATE_NS
    return best if is_late and max(each.messages for each in best) >= MANY else []


def ends(flow: Flow, partition: int) -> bool:
    return flow.key.partition == partition and bool(flow.offsets.ends)


def stores_in(flow: Flow, topic: Topic, partition: int) -> bool:
    return flow.key.topic == topic.subject[2] and flow.key.partition == partition


def hoards(view: FlowView) -> None:
    """One consumer has messages that wait for it, though others that share them have nothing to do."""
    acks = (each for each in view.sides if each.flow.held.entries or (each.flow.log and each.flow.done.entries))
    for (*log, group), sides in grouped(acks, log_and_group).items():
        held = {id(side): waits for side in sides if len(waits := waits_of(view, side)) >= FEW}
        if len(held) < 2 or not are_whole(sides):
            continue
        side = max((each for each in sides if id(each) in held), key=lambda each: max(held[id(each)]))
        (wait_ns, since_ns, until_ns), most = max(held[id(side)]), together(held[id(side)])
        others = [each for other, some in held.items() if other != id(side) for each in some]
        times = [each_ns for each_ns, _, done_ns in others if since_ns <= done_ns <= until_ns]
        if most < MANY or wait_ns < LATE_NS or len(times) < FEW or max(times) * TIMES > wait_ns:
            continue
        title = f"{side.party.label} has up to {most:,} messages of {log[-1]} that wait {wait_ns / 1e9:.1f} s for it, "
        title += f"while others of {group} are done with theirs within {max(times) / 1e9:.1f} s"
        how: Any = {"since_ns": since_ns, "until_ns": until_ns, "count": most}
        problem = view.add("flow.uneven", title, (group, *log, "held"), [side, *sides], **how)
        problem.likely = "it takes more messages in advance than it can do: large pulls, or no limit"


def together(waits: Sequence[tuple[int, int, int]]) -> int:
    """The most messages that a consumer had at a time."""
    events = sorted([(since_ns, 1) for _, since_ns, _ in waits] + [(until_ns, -1) for *_, until_ns in waits])
    return max(accumulate(change for _, change in events))


def waits_of(view: FlowView, side: ClientFlow) -> list[tuple[int, int, int]]:
    """Of messages that a consumer acknowledged: how long it had them, from when to when, ns."""
    if side.flow.held.entries:
        return [(held_ns, at_ns - held_ns, at_ns) for held_ns, _, at_ns in side.flow.held.entries]
    own = view.consumers[side.party.connection, side.flow.key.group]
    came = {first: at_ns for each in own for first, _, at_ns in each.flow.times.entries}
    done = ((first, at_ns) for first, _, at_ns in side.flow.done.entries)
    return [(at_ns - came[first], came[first], at_ns) for first, at_ns in done if first in came]
