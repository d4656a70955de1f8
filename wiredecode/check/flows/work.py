"""The work of services: messages that they get, and the results with the same ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations

from wiredecode.check.flows import numbers
from wiredecode.check.flows.ids import (
    UNIQUE,
    Contents,
    Id,
    Made,
    Work,
    companions_of,
    samples_in,
    service_name,
    works_of,
)
from wiredecode.check.flows.view import (
    FEW,
    MANY,
    MOST,
    WHILE_NS,
    FlowView,
    ended,
    names_of,
    total,
)
from wiredecode.flows.table import Topic, grouped
from wiredecode.frames.escape import counted
from wiredecode.protocols.shared.flows import COUNT, FIRST, KEY, STRING

UNLIKELY = 0.001
ISOLATED = 0.2
"""Share of the missing ones between two that were done: more, and the service leaves some out as it likes."""
ACK_WAIT_NS = 30_000_000_000
"""Servers deliver a message again after this time, if nothing else was agreed."""


def judge(view: FlowView) -> None:
    """Messages that a service left out, did twice, or whose results come in another order."""
    contents = Contents(view)
    works = [*works_of(contents)]
    published = grouped(view.sent, lambda side: service_name(side.party))
    for some in grouped(works, lambda work: (work.service, work.topic.subject)).values():
        samples = (sample for each in published[some[0].service] for sample in each.flow.samples)
        values = {value for sample in samples for _, value in view.fields_of(sample)}
        work = max(some, key=lambda work: len(work.sent))
        done = {each.id for each in work.came if each.id[0] is None and each.id[1] in values}
        not_done(view, work, done | {each.id for work in some for each in work.sent})
    for some in grouped(works, lambda work: (work.service, work.results.subject)).values():
        for work in some:
            not_done_before(view, work)
        known = [each for each in some if not each.kind]  # else another kind of messages may have the results
        if not done_for_two(view, known):
            for work in known:
                done_again(view, work)
        for work in known:
            out_of_order(view, work)
            less_for_each(view, work)
    for work in companions_of(contents, works):
        not_done(view, work, {each.id for each in work.sent})
    results = {work.results.subject for work in works}
    for topic in contents.topics:
        if topic.subject not in results:
            done_by_both(contents, topic)
    numbers.overtaken(contents)
    numbers.never_sent(contents)


def not_done(view: FlowView, work: Work, done: set[Id]) -> None:
    """Messages that a service got, and that are missing in all of its results, although later ones are there."""
    if len(work.sent) < MANY:
        return
    came = between(work, done)
    missing = {place for place, each in enumerate(came) if each.id not in done}
    is_clear = since_when(missing, came) or (work.sides and are_together(came, done))
    if not FEW <= len(missing) <= len(came) // 2 or not is_clear:
        return
    lost, rest = [came[place] for place in sorted(missing)], [each for each in came if each.id in done]
    if differ_by_kind(view, lost, rest) or not are_captured(work) or not (all_came(work) or not work.sides):
        return
    results = work.results.subject[2]
    title = f"{work.label} got {len(lost):,} messages of {work.messages} and published nothing to {results} for them, "
    if not work.sides:
        title = f"{work.label} published nothing to {results} for {len(lost):,} messages of {work.messages}, "
    title += f"as it did for {len(rest):,} others: {work.name} {numbers_of(each.id[1] for each in lost)}"
    times = {"since_ns": lost[0].sample.time_ns, "until_ns": rest[-1].sample.time_ns}
    key = work.label, work.topic.subject
    sides = work.sides or [each.side for each in work.sent]
    frames = [each.sample.frame for each in lost]
    problem = view.add("flow.not-done", title, key, sides, count=len(lost), frames=frames, **times)
    connections = {each.party.connection for each in work.sides}
    rejected = sum(each.flow.rejected for each in view.sides if each.party.connection in connections)
    if may_come_again(view, work, lost) or 2 * rejected >= len(lost):
        problem.severity = "note"
        problem.likely = "they were not acknowledged: the server delivers them again later"
        if 2 * rejected >= len(lost):
            problem.likely = f"it rejected {counted(rejected, 'message')}, as dead letters"
        return
    over = {each.side.party.until_ns: each.side.party.label for each in work.sent if not each.side.party.is_open}
    ends = [each for each in sorted(over) if lost[0].sample.time_ns <= each <= rest[-1].sample.time_ns]
    if ends:
        said = ", ".join(f"{over[each]} at {view.report.seconds(each)}" for each in ends[:FEW])
        problem.detail(f"{said} ended, and did not do the work that it had begun")
        if view.stores(work.sides):
            problem.likely = "it commits or acknowledges messages before they are done, or more than are done"


def not_done_before(view: FlowView, work: Work) -> None:
    """A new kind of messages came to a service that did nothing for them, until it came back and did it for all."""
    if not work.kind:
        return
    done = {each.id for each in work.sent}
    first = next((place for place, each in enumerate(work.came) if each.id in done), 0)
    before, since = work.came[:first], [each for each in between(work, done) if each.id in done]
    kind_ns, done_ns = work.came[0].sample.time_ns, work.sent[0].side.party.since_ns
    earlier = sum(each.time_ns < kind_ns for side in work.topic.publishers for each in side.flow.samples)
    had = [each for each in work.sides if each.party.until_ns < work.sent[0].sample.time_ns and each.flow.messages]
    if earlier < MANY or len(before) < FEW or len(since) < MOST * len(between(work, done)) or not had:
        return
    lost = [each for each in before if each.sample.time_ns <= ended(had)]
    if len(lost) < FEW or len(since) < 2 * FEW or done_ns < lost[-1].sample.time_ns or not are_captured(work):
        return
    title = f"{names_of(had)} got {len(lost):,} messages of {work.messages} and published nothing to "
    title += f"{work.results.subject[2]} for them, as it does since it came back at {view.report.seconds(done_ns)}"
    times = {"since_ns": kind_ns, "until_ns": lost[-1].sample.time_ns}
    key, frames = (work.label, work.topic.subject), [each.sample.frame for each in lost]
    problem = view.add("flow.not-done", title, key, had, count=len(lost), frames=frames, **times)
    publisher = lost[0].side.party.label
    problem.likely = f"{publisher} was deployed before it: it publishes these since {view.report.seconds(kind_ns)}"


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


def are_together(came: Sequence[Made], done: set[Id]) -> bool:
    """Whether the missing messages of a partition follow each other: then they are not left out one by one."""
    alone = count = 0
    for some in grouped(came, lambda each: each.side.flow.key.partition).values():
        missing = {place for place, each in enumerate(some) if each.id not in done}
        alone += sum(missing.isdisjoint((place - 1, place + 1)) for place in missing)
        count += len(missing)
    return alone <= ISOLATED * count


def since_when(missing: set[int], came: Sequence[Made]) -> bool:
    """Whether none was missing before the first for longer than an accident lasts."""
    first = min(missing, default=0)
    return first >= MANY and (1 - len(missing) / (len(came) - first)) ** first < UNLIKELY


def may_come_again(view: FlowView, work: Work, lost: Sequence[Made]) -> bool:
    """Whether the messages wait for an acknowledgement that is not overdue."""
    if not any(each.flow.numbers.begins for each in work.sides):
        return False
    acks = sum(each.flow.stores for each in view.stores(work.sides))
    unacknowledged = total(work.sides) - acks >= len(lost) // 2
    return unacknowledged and view.report.last_ns - lost[-1].sample.time_ns < ACK_WAIT_NS


def less_for_each(view: FlowView, work: Work) -> None:
    """A service published a result for each element of a list in a message, and publishes fewer since a time."""
    made = Counter(each.id for each in work.sent)
    came = between(work, {*made})
    for name in sorted({name for each in came for name, _ in view.fields_of(each.sample) if name.endswith(COUNT)}):
        wanted = [(each, dict(view.fields_of(each.sample)).get(name, 0)) for each in came]
        wanted = [(each, count) for each, count in wanted if count > 1]
        less = [place for place, (each, count) in enumerate(wanted) if made[each.id] < count]
        if not less or less[0] < MANY or len(less) < max(MANY, MOST * (len(wanted) - less[0])):
            continue
        if any(made[each.id] != count for each, count in wanted[: less[0]]) or not are_captured(work):
            continue
        at, missing = wanted[less[0]][0], sum(wanted[place][1] - made[wanted[place][0].id] for place in less)
        topic, results, since = work.topic.subject[2], work.results.subject[2], view.report.seconds(at.sample.time_ns)
        title = f"{work.label} publishes fewer results to {results} than messages of {topic} have "
        title += f"{name.removesuffix(COUNT)}, since {since}: {missing:,} are missing, before none was"
        times = {"since_ns": at.sample.time_ns, "until_ns": came[-1].sample.time_ns}
        key = work.label, work.results.subject
        frames = [wanted[place][0].sample.frame for place in less]
        view.add("flow.not-done", title, key, work.sides, count=missing, frames=frames, **times)
        return


def differ_by_kind(view: FlowView, lost: Sequence[Made], rest: Sequence[Made]) -> bool:
    """Whether the missing messages have another publisher or kind than others: then they are left out on purpose."""
    if {each.side.party.label for each in lost}.isdisjoint({each.side.party.label for each in rest}):
        return True
    names = {name for each in lost for name, _ in view.fields_of(each.sample)}
    for name in names:
        values = {value for each in lost for known, value in view.fields_of(each.sample) if known == name}
        others = {value for each in rest for known, value in view.fields_of(each.sample) if known == name}
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
        stored = each.sample.once is None or each.sample.once != known.sample.once
        if stored and known.side.party.connection != each.side.party.connection:
            again.setdefault(each.id, each)
    anew = work.sent[0].id in again and work.sent[0].sample.key is not None  # it writes its state when it starts
    if not FEW <= len(again) <= len(first) // 2 or anew or not are_captured(work):
        return
    name, results = work.topic.subject[2], work.results.subject[2]
    sides = [each.side for each in again.values()]
    title = f"{names_of(sides)} published {len(again):,} results to {results} again, for messages of {name} that "
    title += f"were done before: {work.name} {numbers_of(each[1] for each in again)}"
    times = {"since_ns": next(iter(again.values())).sample.time_ns, "until_ns": ended(sides)}
    key = work.label, work.results.subject
    frames = [made.sample.frame for each in again for made in (first[each], again[each])]
    sides += work.sides
    problem = view.add("flow.sent-again", title, key, sides, count=len(again), frames=frames, **times)
    began = [start for each in work.sides for start in each.flow.starts if start[0] <= times["since_ns"]]
    if began and max(began)[1] == FIRST:
        problem.detail(f"it subscribed to {name} at the first message again, at {view.report.seconds(max(began)[0])}")
    problem.likely = "it came back to messages that it had done, and does not leave them out"


def done_for_two(view: FlowView, works: Sequence[Work]) -> bool:
    """A service that gets the same messages by two topics publishes a result for each."""
    times = Counter(each.id for each in {id(each.sample): each for work in works for each in work.sent}.values())
    for one, other in combinations(works, 2):
        both = {each.id for each in one.came} & {each.id for each in other.came}
        twice = [each for each in one.came if each.id in both and times[each.id] > 1]
        once = [each for each in (*one.came, *other.came) if each.id not in both]
        since_ns = twice[0].sample.time_ns if twice else 0
        since = sum(each.id in both and each.sample.time_ns >= since_ns for each in one.came)
        if len(twice) < MANY or len(twice) < MOST * since or any(times[each.id] > 1 for each in once):
            continue
        names = f"{one.topic.subject[2]} and {other.topic.subject[2]}"
        title = f"{one.label} published a result to {one.results.subject[2]} twice for {len(twice):,} messages: "
        title += f"it gets them by {names}, since {view.report.seconds(twice[0].sample.time_ns)}"
        times_ns = {"since_ns": twice[0].sample.time_ns, "until_ns": ended(one.sides)}
        key = one.service, one.results.subject
        frames, sides = [each.sample.frame for each in twice], [*one.sides, *other.sides]
        problem = view.add("flow.done-twice", title, key, sides, count=len(twice), frames=frames, **times_ns)
        problem.likely = "the messages are published to both topics, as in a migration, and it reads both"
        queues = {each.group for each in sides if each.group}
        if len(queues) == 1 and all(each.group for each in sides):
            problem.likely = f"{queues.pop()} gets both, such as by a binding of an earlier version that is still there"
        return True
    return False


def done_by_both(contents: Contents, topic: Topic) -> None:
    """Two instances of a service publish messages with the same ids at the same time."""
    publishers = [each for each in topic.publishers if each.flow.samples]
    by_client = grouped(publishers, lambda side: (service_name(side.party), side.party.label, side.party.host))
    for (one, first), (other, second) in combinations(by_client.items(), 2):
        ours, theirs = (contents.fields(some) if one[0] == other[0] else {} for some in (first, second))
        for name in (
            each for each in ours if each in theirs and KEY not in each.split()
        ):  # a key is no id of a message
            known, new = ({each.id: each for each in some[name]} for some in (ours, theirs))
            both = [each for each in known if each in new]
            if len(both) < MANY or both == [*known] or (min(known) == min(new) and counts_up(known) and counts_up(new)):
                continue  # each may count what it sends
            near = [each for each in both if abs(known[each].sample.time_ns - new[each].sample.time_ns) < WHILE_NS]
            same = sum(known[each].sample.content == new[each].sample.content for each in near)
            distinct = all(len(some) >= UNIQUE * samples_in(sides) for some, sides in ((known, first), (new, second)))
            if distinct and same < MANY <= len(near) and len(near) >= MOST * len(both):
                report_both(contents.view, topic, name, [(known[each], new[each]) for each in near])
                return


def counts_up(ids: Iterable[Id]) -> bool:
    """Whether ids may be a client's own numbers: few are left out."""
    values = [value for _, value in ids]
    return max(values) - min(values) < 2 * len(values)


def report_both(view: FlowView, topic: Topic, name: str, pairs: Sequence[tuple[Made, Made]]) -> None:
    one, other = pairs[0]
    title = f"{one.side.party.label} and {other.side.party.label} publish messages with the same {name} to "
    title += f"{topic.subject[2]}: {len(pairs):,} times, {numbers_of(each.id[1] for each, _ in pairs)}"
    times = {"since_ns": one.sample.time_ns, "until_ns": pairs[-1][1].sample.time_ns, "count": len(pairs)}
    frames = [made.sample.frame for pair in pairs for made in pair]
    problem = view.add("flow.sent-again", title, topic.subject, [other.side, one.side], frames=frames, **times)
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
    if not numbers.is_turn([number for number, _ in late], len(some)):
        return
    at, count = late[0][1], len(some) - late[0][0]
    results, since = work.results.subject[2], view.report.seconds(at.sample.time_ns)
    title = f"{at.side.party.label} publishes results of one key to {results} in another order than their messages "
    title += f"came, since {since}: {len(late):,} of {count:,}, before 0 of {late[0][0]:,}"
    key, times = (work.label, work.results.subject), {"since_ns": at.sample.time_ns, "until_ns": ended([at.side])}
    frames = [each.sample.frame for _, each in late]
    sides = [at.side, *work.sides]
    problem = view.add("flow.out-of-order", title, key, sides, count=len(late), frames=frames, **times)
    problem.detail(f"the messages of {work.topic.subject[2]} are known again by {work.name}")
