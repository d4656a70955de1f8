"""Messages of queues that come to no consumer: their server lost or dropped them, or they wait for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wiredecode.check.flows.contents import samples_of
from wiredecode.check.flows.view import (
    FEW,
    MANY,
    MOST,
    WHILE_NS,
    FlowView,
    are_whole,
    began,
    ended,
    total,
    whose,
    with_messages,
)
from wiredecode.flows.table import ClientFlow, Topic, grouped, subject_of
from wiredecode.protocols.shared.facts import ENDED, LIMITED, PURGED, REFUSED
from wiredecode.protocols.shared.flows import MessageSample

AUTO_DELETE = "auto_delete"
PRIORITY = "priority"
"""Header of messages that overtake others."""


def undelivered(view: FlowView, topic: Topic) -> None:
    """Messages of a queue came to no consumer, though later ones did: its server lost or dropped them."""
    sent = [each for each in topic.publishers if each.flow.messages]
    published = sorted(samples_of(sent), key=lambda each: each.time_ns)
    if len(published) < MOST * total(sent) or len({dict(each.headers).get(PRIORITY) for each in published}) > 1:
        return
    for group, sides in grouped(with_messages(topic.consumers), lambda side: side.group).items():
        got = [each for side in sides for each in side.flow.samples]
        known = {each.content for each in got}
        places = [place for place, each in enumerate(published) if each.content in known]
        if len(got) < total(sides) or not group or not places or not are_whole((*sent, *sides)):
            continue
        between = published[places[0] : places[-1]]
        missing = {place for place, each in enumerate(between) if each.content not in known}
        missing = {place for place in missing if not came_by_another(view, topic, between[place])}
        alone = sum(missing.isdisjoint((place - 1, place + 1)) for place in missing)
        if len(missing) >= FEW and min(missing) >= MANY and alone * FEW <= len(missing):
            lost = [between[place] for place in sorted(missing)]
            report_undelivered(view, topic, group, [*sent, *sides], lost)


def came_by_another(view: FlowView, topic: Topic, message: MessageSample) -> bool:
    """Whether a message came by another topic, such as a dead letter."""
    return any(subject != topic.subject for subject, _ in view.arrivals.get(message.content, ()))


def report_undelivered(
    view: FlowView, topic: Topic, group: str, sides: list[ClientFlow], lost: list[MessageSample]
) -> None:
    count, name = len(lost), topic.subject[2]
    title = f"{count:,} messages of {name} came to no consumer of {group}, though later ones did: they were published "
    title += f"from {view.report.seconds(lost[0].time_ns)} to {view.report.seconds(lost[-1].time_ns)}"
    times = {"since_ns": lost[0].time_ns, "until_ns": lost[-1].time_ns, "frames": [each.frame for each in lost]}
    problem = view.add("flow.undelivered", title, (group, topic.subject), sides, count=count, **times)
    problem.alike = group
    facts, server = view.report.facts, sides[0].party.server
    ends = (each.since_ns for each in (*facts.of(ENDED, server), *facts.of(REFUSED, server)))
    ended_ns = min((each for each in ends if each > lost[-1].time_ns), default=0)
    if ended_ns:
        problem.detail(f"the server was away at {view.report.seconds(ended_ns)}, while they waited")
        problem.likely = "the server lost them when it was restarted: the queue is not durable"
        if all(dict(each.headers).get("delivery_mode", "1") == "1" for each in lost):
            problem.likely = "the server lost them when it was restarted: they are not persistent (delivery_mode 1)"
    else:
        problem.likely = "the queue was longer than its limit, or they were there for longer than it keeps messages"
    for each in (each for each in facts if each.kind is LIMITED and each.of[0] == group and not ended_ns):
        problem.likely = f"the queue is limited: {each.by} declared it with {each.of[1]}"
        if AUTO_DELETE in each.of[1] and any(left_between(side, lost) for side in sides):
            problem.likely = f"the queue went with its last consumer: {each.by} declared it with {AUTO_DELETE}"
    if purged := facts.of(PURGED, group):
        problem.likely = f"{purged[-1].by} deleted them at {view.report.seconds(purged[-1].since_ns)}"


def left_between(side: ClientFlow, lost: list[MessageSample]) -> bool:
    """Whether a consumer's connection was over when the first of some messages was published, or soon."""
    until_ns = side.flow.left_ns or side.party.until_ns
    return side.flow.key.delivers and until_ns < lost[0].time_ns + WHILE_NS and not side.party.is_open


def parked(view: FlowView, topic: Topic) -> None:
    """Messages that wait in a queue without a consumer come back no more, though those in an earlier one did."""
    if topic.subject in view.consumed:
        return
    for who, now in grouped(with_messages(topic.publishers), lambda side: whose(side.party)[:2]).items():
        for subject, before in grouped(view.published[who], subject_of).items():
            if subject == topic.subject or subject in view.consumed or ended(before) > began(now) + WHILE_NS:
                continue
            waits, sent = back_from(view, before), samples_of(before)
            lost = [each for each in samples_of(now) if each.time_ns < ended(now) - max(waits, default=0)]
            if len(waits) < max(FEW, MOST * len(sent)) or len(lost) < FEW or back_from(view, now):
                continue
            label, name, old = now[0].party.label, topic.subject[2], subject[2]
            title = f"{len(lost):,} messages that {label} publishes to {name} came to no consumer: those to {old} came "
            title += f"to one after {sorted(waits)[len(waits) // 2] / 1e9:.1f} s"
            how: Any = {"until_ns": ended(now), "count": len(lost), "frames": [each.frame for each in lost]}
            problem = view.add("flow.undelivered", title, (label, topic.subject), [*now, *before], **how)
            problem.likely = f"{name} does not lead on: its dead letter exchange does not exist, or has no binding"


def back_from(view: FlowView, sides: Iterable[ClientFlow]) -> list[int]:
    """After which times messages came to a consumer of any topic, by their contents."""
    sent = {each.content: each.time_ns for each in samples_of([*sides])}
    waits = (
        max(at_ns for _, at_ns in view.arrivals[content]) - time_ns
        for content, time_ns in sent.items()
        if content in view.arrivals
    )
    return [wait_ns for wait_ns in waits if wait_ns > 0]
