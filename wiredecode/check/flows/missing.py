"""Messages that are left out, dropped by their stream, or lost by their broker."""

from __future__ import annotations

from itertools import pairwise

from wiredecode.check.flows.names import is_library
from wiredecode.check.flows.repeated import blame, resumes, text_of
from wiredecode.check.flows.view import (
    FEW,
    MANY,
    WHILE_NS,
    FlowView,
    after,
    are_whole,
    began,
    changes,
    log_and_group,
    names_of,
    total,
    with_messages,
    with_offsets,
)
from wiredecode.flows.intervals import Intervals
from wiredecode.flows.table import Log, Topic, grouped, log_of, offsets_of, skipped
from wiredecode.protocols.shared.facts import DELETED, MADE
from wiredecode.protocols.shared.flows import FIRST, LATEST

DROPPED = "the stream had dropped them before they were read: its limits, or its retention (interest)"
RETENTION = "retention had deleted them before they were read: it began with the first message there was"


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


def missed_alone(view: FlowView, topic: Topic) -> None:
    """A consumer that shares with no other was cut off while messages were published, which others got."""
    alone = [each for each in with_messages(topic.consumers) if not (each.group or each.flow.log or each.flow.offsets)]
    sent = [each for each in topic.publishers if each.party.is_whole]
    for sides in grouped(alone, lambda side: (side.party.protocol, side.party.host)).values():
        for before, now in pairwise(sorted(sides, key=lambda side: side.party.since_ns)):
            cut_ns, back_ns = view.cut_ns(before.party), now.flow.first_ns
            same = not before.party.name or before.party.name == now.party.name
            count = after(sent, cut_ns) - after(sent, now.party.since_ns)
            others = [each for each in topic.consumers if each.flow.last_ns > back_ns > cut_ns > each.flow.first_ns]
            others = [each for each in others if each.party.host != now.party.host and each.party.is_open]
            if not (cut_ns and same and others) or back_ns - cut_ns < WHILE_NS or count < 2 * FEW:
                continue
            away = f"{view.report.seconds(cut_ns)} to {view.report.seconds(now.party.since_ns)}"
            title = (
                f"{now.label} never got about {count:,} messages of {topic.subject[2]}, which {names_of(others)} got: "
            )
            title += f"its connection was ended, and it was away from {away}"
            times = {"since_ns": cut_ns, "until_ns": back_ns, "count": count, "severity": "warning"}
            problem = view.add("flow.skipped", title, (now.label, topic.subject), [now, before], **times)
            problem.likely = "the server keeps no messages for consumers that are away"


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


def too_late(view: FlowView, topic: Topic) -> None:
    """A consumer that asks for all messages begins after confirmed ones, which no other one got: they are gone."""
    for now in with_offsets(topic.consumers):
        log, begin = log_of(now.flow), now.flow.offsets.begins[0]
        starts = [at for each in view.all_of([now]) for at in each.flow.starts if at[0] <= now.flow.first_ns]
        sent = [each for each in topic.publishers if log_of(each.flow) == log]
        times = (at for each in sent for at in each.flow.times.entries)
        since_ns, asked = max(starts, default=(0, ""))
        before = max((first + count for first, count, at_ns in times if at_ns < since_ns), default=0)
        others = (each for each in topic.consumers if log_of(each.flow) == log)
        got = any(each.flow.offsets.within(0, begin) for each in others)
        count = 0 if got else sum(each.flow.offsets.within(0, begin) for each in sent)
        if asked != FIRST or not before or begin < before or count < FEW * 2 or not are_whole((now, *sent)):
            continue  # or some are left: the stream keeps the last ones only
        at, name = view.report.seconds(since_ns), topic.subject[2]
        title = f"{count:,} confirmed messages of {name} came to no consumer: they were gone when {now.label} began "
        title += f"with the first message there was, at {at}"
        ends = {"since_ns": began(sent), "until_ns": now.flow.first_ns, "count": count}
        problem = view.add("flow.skipped", title, (log, "gone"), [now, *sent], **ends)
        problem.likely = DROPPED if now.flow.log else RETENTION
        problem.detail(f"offsets up to {before - 1:,} were confirmed before, it got {begin:,} first")
        blame(view, problem, log[0], now.group)


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
