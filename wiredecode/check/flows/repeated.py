"""Messages that come again, are left out, dropped by their stream, or lost by their broker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wiredecode.check.flows.names import is_library, without_instance
from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    MOMENT_NS,
    MOST,
    WHILE_NS,
    FlowView,
    after,
    are_whole,
    began,
    by_label,
    changes,
    log_and_group,
    names_of,
    total,
    whose,
    with_messages,
    with_offsets,
)
from wiredecode.flows.intervals import Intervals
from wiredecode.flows.table import ClientFlow, Log, Topic, grouped, log_of, offsets_of, skipped, subject_of
from wiredecode.protocols.shared.facts import DELETED, MADE, PURGED
from wiredecode.protocols.shared.flows import FIRST, LATEST
from wiredecode.protocols.shared.problems import Problem

DROPPED = "the stream had dropped them before they were read: its limits, or its retention (interest)"
RETENTION = "retention had deleted them before they were read: it began with the first message there was"


def read_again(view: FlowView, topic: Topic) -> None:
    """A consumer that came back got messages again that it had, though it notes where it is."""
    for sides in by_label(topic.consumers, group=True).values():
        found: list[tuple[ClientFlow, ClientFlow, int]] = []
        for now in (each for each in sides if each.flow.offsets.begins):
            earlier = [each for each in sides if each.party.until_ns <= now.party.since_ns + MOMENT_NS]
            earlier = [each for each in earlier if log_of(each.flow) == log_of(now.flow) and each is not now]
            had = offsets_of(each.flow for each in earlier).get(log_of(now.flow), Intervals())
            count = sum(had.within(begin, end) for begin, end in now.flow.offsets)
            if earlier and count:
                found.append((earlier[-1], now, count))
        count = sum(each for *_, each in found)
        if count < MANY:
            continue
        before, now, _ = found[0]
        stored, known = published_again(view, now)
        if not resumes(view, sides) and (view.name_of(before) != view.name_of(now) or stored < FEW):
            continue
        setting = set_by_another(view, before, now)[:1]
        problem = report_again(view, topic, sides, [now, before, *setting], count)
        for other in setting:
            first, _, at_ns = other.flow.done.entries[-1]
            problem.likely = f"{other.party.label} set the position of group {now.group} to {first:,} at "
            problem.likely += f"{view.report.seconds(at_ns)}, while it was away"
            problem.severity = problem.code.severity if stored >= FEW else "note"
        if stored < FEW <= known:
            problem.severity = "note"
            problem.likely = "it published the results again with the same ids: the server stored none twice"


def report_again(
    view: FlowView, topic: Topic, sides: Sequence[ClientFlow], flows: Sequence[ClientFlow], count: int
) -> Problem:
    """The problem of a consumer with these connections; ``flows``: now, before, and of others."""
    now = flows[0]
    when, label = view.report.seconds(now.flow.first_ns), now.label
    title = f"{label} got {count:,} messages of {topic.subject[2]} again after it came back at {when}"
    problem = view.add("flow.read-again", title, (label, topic.subject), flows, count=count)
    had_to = max(each.flow.offsets.ends[-1] - 1 for each in sides if each.flow.offsets.ends and each is not now)
    problem.detail(f"it had messages up to offset {had_to:,}, and began again at {now.flow.offsets.begins[0]:,}")
    if not view.stores(sides):
        problem.likely = "it never commits or stores where it is: each time it comes back it begins anew"
        if view.asks(now):
            problem.detail("it asked the server for its offset, and had stored none")
        starts = [start for at_ns, start in now.flow.starts if at_ns <= now.flow.first_ns]
        problem.detail(f"it subscribed at {starts[-1]}" if starts and starts[-1] else "")
    blame(view, problem, log_of(now.flow)[0], now.group)
    if max(each.flow.stored for each in sides) >= 0:
        problem.detail(f"the offset that it stored or committed last before: {stored_before(sides, now):,}")
    return problem


def set_by_another(view: FlowView, before: ClientFlow, now: ClientFlow) -> list[ClientFlow]:
    """The flow of another client that noted a position of the group between two connections of a consumer."""
    others = (each for each in view.positions.get(log_and_group(now), ()) if each.party.host != now.party.host)
    others = (each for each in others if log_of(each.flow) == log_of(now.flow) and each.flow.done.entries)
    return [each for each in others if before.flow.last_ns < each.flow.done.entries[-1][2] < now.flow.first_ns]


def published_again(view: FlowView, now: ClientFlow) -> tuple[int, int]:
    """Messages that the service of a consumer published before to the same topic, and again since it came back.

    Those that are stored twice, and those whose server knows them by their ids.
    """
    stored = known = 0
    for own in grouped(view.published.get(whose(now.party)[:2], ()), subject_of).values():
        flows = [each.flow for each in own]
        before = (sample for each in flows if each.first_ns < now.flow.first_ns for sample in each.samples)
        earlier = {each.content: each.once for each in before}
        later = (sample for each in flows if each.first_ns >= now.flow.first_ns for sample in each.samples)
        again = [each for each in later if each.content in earlier]
        same = sum(each.once is not None and each.once == earlier[each.content] for each in again)
        stored, known = stored + len(again) - same, known + same
    return stored, known


def set_back(view: FlowView) -> None:
    """A consumer stores or commits a lower offset than before, again and again."""
    for side in view.sides:
        times, log = side.flow.set_back, log_of(side.flow)
        if times < LIVES:
            continue
        key = side.label, *log
        title = f"{side.label} stores its position in {text_of(log)} with a lower offset than before, {times:,} times"
        ends = {"since_ns": side.party.since_ns, "until_ns": side.party.until_ns}
        problem = view.add("flow.set-back", title, key, [side], count=times, **ends)
        problem.detail(f"it had stored offset {side.flow.stored:,}")


def misplaced(view: FlowView) -> None:
    """A consumer stores positions in a log that it has not reached: those of another log."""
    ends: dict[tuple[str, str, Log], int] = {}
    for side in with_offsets(view.sides):
        place = place_of(side)
        ends[place] = max(side.flow.offsets.ends[-1], ends.get(place, 0))
    notes = (side for sides in view.positions.values() for side in sides)
    for (group, place), sides in grouped(notes, lambda side: (side.group, place_of(side))).items():
        end, stored, log = ends.get(place), max(each.flow.stored for each in sides), place[2]
        came = [each for each in view.came_to(sides, log[0]) if log_of(each.flow) == log]
        count = sum(each.flow.stores for each in sides)
        if end is None or count < LIVES or total(came) < FEW or stored < end + FEW or not are_whole((*sides, *came)):
            continue
        title = f"{names_of(came)} stores offset {stored:,} for {text_of(log)}, and no message with an offset above "
        title += f"{end - 1:,} went to anybody"
        times = {"since_ns": began(came), "until_ns": max(each.party.until_ns for each in sides)}
        problem = view.add("flow.misplaced", title, (log, group), [*came, *sides], count=count, **times)
        near = (other for other, at in ends.items() if 0 <= at - stored <= MANY and other[:2] == place[:2])
        own = [other[2][0] for other in near if other != place and view.came_to(sides, other[2][0])]
        problem.likely = f"it is the position in {own[0]}, which it reads, too" if own else problem.likely


def text_of(log: Log) -> str:
    """``orders``, ``orders[3]``."""
    return log[0] if log[1] is None else f"{log[0]}[{log[1]}]"


def place_of(side: ClientFlow) -> tuple[str, str, Log]:
    """Protocol, space and log of a flow."""
    return side.party.protocol, side.party.space, log_of(side.flow)


def stuck(view: FlowView, topic: Topic) -> None:
    """A consumer goes back to one message again and again: what was written later waits."""
    for side in topic.consumers:
        times, offset = side.flow.stuck
        if times < 2 * FEW:
            continue
        log = log_of(side.flow)
        name = text_of(log)
        title = f"{side.label} goes back to offset {offset:,} of {name} again and again, {times:,} times"
        problem = view.add("flow.stuck", title, (side.label, name, offset), [side], count=times)
        ends = [end for each in topic.publishers if log_of(each.flow) == log for end in each.flow.offsets.ends]
        problem.detail(f"{max(ends) - offset - 1:,} messages were written after it" if ends else "")


def replayed(view: FlowView, topic: Topic) -> None:
    """Each instance of a service that notes where it is does so under its own name, and gets all messages again."""
    known = ((view.name_of(each), each) for each in topic.consumers if each.flow.offsets.begins)
    storing = (
        (name, each)
        for name, each in known
        if without_instance(name) != name and (not each.group or view.stores([each]))
    )
    for (*log, stem), named in grouped(
        storing, lambda each: (*log_and_group(each[1])[:3], without_instance(each[0]))
    ).items():
        ordered = sorted(named, key=lambda each: each[1].party.since_ns)
        found: list[tuple[ClientFlow, ClientFlow, int, str, str]] = []
        for (old, before), (name, now) in pairwise(ordered):
            apart = old != name and before.party.until_ns <= now.party.since_ns + MOMENT_NS
            same = log_of(before.flow) == log_of(now.flow)
            count = sum(before.flow.offsets.within(begin, end) for begin, end in now.flow.offsets)
            if apart and same and count >= max(MANY, MOST * before.flow.messages):
                found.append((before, now, count, old, name))
        if found:
            count, (before, now, _, old, name) = sum(each[2] for each in found), found[-1]
            title = f"{now.party.label} reads {topic.subject[2]} under a new name at each start, now {name}: "
            title += f"it got {count:,} messages again"
            times = {"since_ns": found[0][1].flow.first_ns, "count": count}
            problem = view.add("flow.read-again", title, (stem, *log), [now, before], **times)
            problem.detail(f"before: {old}")
            problem.likely = "the name has that of the instance in it: a position is never found again"


def missed(view: FlowView, topic: Topic) -> None:
    """The only consumer was away while messages were published that no server keeps."""
    everyone = (*topic.publishers, *topic.consumers)
    came = with_messages(topic.consumers)
    if not came or not topic.publishers or any(each.flow.offsets.begins or each.flow.log for each in everyone):
        return
    sent, until_ns = [each for each in topic.publishers if each.party.is_whole], 0
    before = came[0]
    for now in sorted(came, key=lambda side: side.party.since_ns):
        left_ns = before.flow.left_ns or before.party.until_ns
        count = after(sent, left_ns) - after(sent, now.party.since_ns)
        count = min(count, total(sent) - total(came) + sum(each.flow.again for each in came))  # a queue kept the others
        if until_ns and now.party.since_ns - left_ns >= WHILE_NS and count >= 2 * FEW and now.label == before.label:
            away = f"{view.report.seconds(left_ns)} to {view.report.seconds(now.party.since_ns)}"
            title = f"{count:,} messages of {names_of(sent)} to {topic.subject[2]} reached no consumer: "
            title += f"{now.label} was away from {away}, and no server kept them"
            times = {"since_ns": left_ns, "until_ns": now.party.since_ns, "count": count}
            key = now.label, topic.subject
            problem = view.add("flow.skipped", title, key, [now, before], severity="warning", **times)
            problem.likely = "the server keeps no messages for consumers that are away, and there is no second one"
        if now.party.until_ns >= until_ns:
            before, until_ns = now, now.party.until_ns


def resumes(view: FlowView, sides: Sequence[ClientFlow]) -> bool:
    """Whether a consumer means to continue where it was: it notes or asks for its offset, and does not ask for all."""
    if any(map(view.asks, sides)):
        return True
    if any(start == FIRST for each in sides for at_ns, start in each.flow.starts if at_ns > sides[0].party.until_ns):
        again = len({each.party.connection for each in sides if each.flow.again or each.flow.messages >= MANY})
        member = any(each.party.group for each in sides) or any(each.group for each in sides)
        log = log_of(sides[0].flow)[0]
        notes = any(each.flow.stores and log_of(each.flow)[0] == log for each in view.stores(sides))
        return notes or (member and again >= LIVES)
    return any(each.group for each in sides) or any(each.flow.stores for each in view.stores(sides))


def left_out(view: FlowView, topic: Topic) -> None:
    """A consumer never got what was written while it was away."""
    known = (each for each in topic.consumers if each.flow.offsets.begins)
    by_party = grouped(known, lambda side: (side.party.name or side.party.host, side.party.host))
    for (name, _), sides in by_party.items():
        if not are_whole(sides):
            continue  # it may have got what the capture lost
        if len({each.group for each in sides}) > 1 and is_library(sides[0].party):
            continue
        groups = {each.group for each in sides} - {""}
        peers = [each.flow for each in topic.consumers if each.group in groups]
        peers += [each.flow for each in view.sharers(sides, topic.subject[2])]
        holes = skipped([*{id(flow): flow for flow in (*(each.flow for each in sides), *peers)}.values()])
        holes = [(log, begin, end) for log, begin, end in holes if was_written(topic, log, begin, end)]
        count = sum(end - begin for *_, begin, end in holes)
        if count < FEW * 2:
            continue
        log, begin, end = max(holes, key=lambda hole: hole[2] - hole[1])
        own = sorted((each for each in sides if log_of(each.flow) == log), key=lambda each: each.flow.first_ns)
        now = next((each for each in own if each.flow.offsets.begins[0] >= end), own[-1])
        before = [each for each in own if each.flow.offsets.ends[-1] <= begin] or own[:1]
        if before[-1].flow.last_ns > now.flow.first_ns:
            continue  # its log was made anew: offsets began again
        away = f"{view.report.seconds(before[-1].flow.last_ns)} to {view.report.seconds(now.flow.first_ns)}"
        title = f"{name} never got {count:,} messages of {topic.subject[2]}: it got none from {away}"
        meant = now.flow.log or before[-1].group != now.group or view.stores(sides)
        severity = None if meant else "warning"  # it may want the newest only
        view.skipped.add(topic.subject[2])
        key, flows = (name, topic.subject), [now, *before]
        problem = view.add("flow.skipped", title, key, flows, count=count, severity=severity)
        problem.first_ns = before[-1].flow.last_ns
        problem.detail(f"offsets {begin:,} to {end - 1:,} went to none of its connections, later ones did")
        if any(start == LATEST for _, start in now.flow.starts):
            problem.likely = "it began with the newest messages (latest, next), and not where it had stopped"
        elif now.flow.log:
            problem.likely = DROPPED
        elif any(start == FIRST for _, start in now.flow.starts):
            problem.likely = RETENTION
        blame(view, problem, log[0], now.group)
        if before[-1].group != now.group and not changes(before[-1].party, now.party):
            problem.detail(f"it reads in group {now.group}, before {before[-1].group}")


def given_to_others(view: FlowView, topic: Topic) -> None:
    """A consumer that resumes where it was is not given messages between others, and a consumer beside it is."""
    came = [each for each in with_messages(topic.consumers) if each.flow.key.partition is not None]
    if not any(len(each.flow.offsets.begins) > 1 for each in came):
        return
    by_client = grouped(came, lambda each: (each.party.label, each.party.host))
    for client, sides in by_client.items():
        if not resumes(view, sides):
            continue  # it reads all that there is, such as a cache
        resumed = [each for each in sides if not any(start == FIRST for _, start in each.flow.starts)]
        holes = [(log_of(each.flow), *hole) for each in resumed for hole in each.flow.offsets.holes()]
        for other, others in by_client.items() if len(holes) >= 2 and are_whole(sides) else ():
            got = offsets_of(each.flow for each in others)
            count = sum(got[log].within(begin, end) for log, begin, end in holes if log in got)
            if client != other and count >= MANY:
                name = topic.subject[2]
                title = f"{client[0]} is not given {count:,} messages of {name} that {other[0]} got"
                key = client, topic.subject
                problem = view.add("flow.left-out", title, key, [*sides, *others], count=count)
                problem.likely = f"{name} is compacted: later messages with the same keys had replaced them"
                break


def was_written(topic: Topic, log: Log, begin: int, end: int) -> bool:
    """Whether publishers of the capture wrote what is in a hole."""
    sent = [each.flow for each in topic.publishers if log_of(each.flow) == log or not each.flow.offsets.begins]
    if any(each.offsets.begins for each in sent):
        return sum(each.offsets.within(begin, end) for each in sent) * 2 >= end - begin
    return sum(each.confirmed for each in sent) >= end - begin


def dropped(view: FlowView) -> None:
    """A consumer never got messages that its stream had confirmed, though it got later ones on the same subject."""
    consumers = [
        each for topic in view.topics for each in topic.consumers if each.flow.log and each.flow.numbers.begins
    ]
    by_subject = {topic.subject: topic for topic in view.topics}
    for (*log, group), sides in grouped(consumers, log_and_group).items():
        numbers = Intervals()
        for each in sides:
            numbers.update(each.flow.numbers)
        if numbers.holes() or not are_whole(sides):
            continue  # other clients got some, or the capture lost some
        lost = sent = 0
        for name in sorted({each.flow.key.topic for each in sides} - view.skipped):
            one, both = lost_in(by_subject[log[0], log[1], name], log[-1], group)
            lost, sent = lost + one, sent + both
        if lost < MANY or lost * 10 < sent:
            continue
        name = names_of(sides, " and ")
        title = f"{name} never got {lost:,} of {sent:,} messages that {log[-1]} had confirmed, though it got later ones"
        problem = view.add("flow.skipped", title, (group, *log), sides, count=lost)
        problem.likely = "the stream dropped them before they were read: max_msgs_per_subject, max_age or another limit"
        blame(view, problem, log[-1], group)


def lost(view: FlowView, topic: Topic) -> None:
    """Offsets that brokers give go back: what one had confirmed, another one does not have."""
    stored = (each for each in topic.publishers if each.flow.offsets.begins)
    for log, sides in grouped(stored, lambda side: log_of(side.flow)).items():
        for before, now in pairwise(sorted(sides, key=lambda each: each.flow.first_ns)):
            end, begin = before.flow.offsets.ends[-1], now.flow.offsets.begins[0]
            old, new = before.party.server, now.party.server
            apart = before.flow.times.entries and now.flow.times.entries and old != new
            later = apart and now.flow.times.entries[0][2] >= before.flow.times.entries[-1][2]
            made = view.report.facts.whole(DELETED, log[0]) or view.report.facts.whole(MADE, log[0])
            if not later or begin >= end or (made and not begin) or now.flow.offsets.within(begin, end) < FEW:
                continue
            title = f"{end - begin:,} confirmed messages of {text_of(log)} are lost: "
            title += f"{new} confirms offset {begin:,} after {old} had confirmed up to {end - 1:,}"
            view.add("flow.lost", title, (topic.subject, log), [now, before], count=end - begin)


def lost_in(topic: Topic, log: str, group: str) -> tuple[int, int]:
    """Of the messages of a topic between the first and the last one that a group got: those it did not get, and all."""
    got, sent = Intervals(), Intervals()
    for each in topic.consumers:
        if each.group == group:
            got.update(each.flow.offsets)
    for each in topic.publishers:
        if each.flow.log == log:  # others publish to a stream that this one copies
            sent.update(each.flow.offsets)
    if not got.begins:
        return 0, 0
    begin, end = got.begins[0], got.ends[-1]
    both = sum(got.within(max(first, begin), min(last, end)) for first, last in sent if first < end and last > begin)
    return sent.within(begin, end) - both, sent.within(begin, end)


def blame(view: FlowView, problem: Problem, log: str, group: str) -> None:
    """Say who deleted the messages that are missing, or the place where the consumer was."""
    seconds, facts = view.report.seconds, view.report.facts
    for kind, of, what in (
        (PURGED, log, f"messages of {log}"),
        (DELETED, f"{log}, consumer {group}", f"consumer {group} of {log}"),
        (DELETED, f"group {group}", f"group {group}"),
    ):
        if found := facts.of(kind, of):
            last = found[-1]
            problem.likely = f"{last.by} deleted {what} at {seconds(last.since_ns)} (frame {last.places[-1].number})"


def stored_before(sides: Sequence[ClientFlow], now: ClientFlow) -> int:
    """The offset that a consumer had stored before it came back."""
    there = [each.flow.stored for each in sides if each.party.since_ns < now.party.since_ns]
    return max(there, default=-1)
