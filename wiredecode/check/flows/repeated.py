"""Messages that come again, and consumers that go back, or to a wrong place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wiredecode.check.flows.names import is_random, without_instance
from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    MOST,
    FlowView,
    are_whole,
    asked_offset,
    began,
    by_label,
    is_followed,
    log_and_group,
    names_of,
    total,
    whose,
    with_offsets,
)
from wiredecode.flows.intervals import Intervals
from wiredecode.flows.table import ClientFlow, Log, Topic, grouped, log_of, offsets_of, subject_of
from wiredecode.protocols.shared.facts import DELETED, PURGED
from wiredecode.protocols.shared.flows import FIRST
from wiredecode.protocols.shared.problems import Problem


def read_again(view: FlowView, topic: Topic) -> None:
    """A consumer that came back got messages again that it had, though it notes where it is."""
    for sides in by_label(topic.consumers, group=True).values():
        found: list[tuple[ClientFlow, ClientFlow, int]] = []
        for now in (each for each in sides if each.flow.offsets.begins):
            earlier = [each for each in sides if is_followed(each, now)]
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


def last_again(view: FlowView, topic: Topic) -> None:
    """A consumer gets the last message that it had again, each time that it comes back to a partition."""
    for sides in by_label(with_offsets(topic.consumers), group=True).values():
        pairs: list[tuple[ClientFlow, ClientFlow]] = []
        for some in grouped(sides, lambda side: log_of(side.flow)).values():
            lives = pairwise(sorted(some, key=lambda side: side.party.since_ns))
            pairs += ((before, now) for before, now in lives if is_followed(before, now))
        again = [
            (before, now) for before, now in pairs if now.flow.offsets.begins[0] == before.flow.offsets.ends[-1] - 1
        ]
        if len(again) < FEW or len(again) < MOST * len(pairs):
            continue
        label, since = again[0][1].label, view.report.seconds(again[0][1].party.since_ns)
        title = f"{label} gets the last message of {topic.subject[2]} that it had again each time that it comes back: "
        title += f"{len(again):,} messages, first at {since}"
        flows = [each for pair in again[:2] for each in reversed(pair)]
        times = {"since_ns": again[0][1].flow.first_ns, "until_ns": again[-1][1].flow.first_ns, "count": len(again)}
        problem = view.add("flow.read-again", title, (label, topic.subject, "last"), flows, **times)
        problem.likely = "it stores the offset of the message that it did last, and means that of the next one"
        for before, now in again[:2]:
            had, log = before.flow.offsets.ends[-1] - 1, text_of(log_of(now.flow))
            problem.detail(f"it had {log} up to offset {had:,}, and began again at {now.flow.offsets.begins[0]:,}")


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
    stored = stored_before(view.stores(sides), now)
    problem.detail(f"the offset that it stored or committed last before: {stored:,}" if stored >= 0 else "")
    named = (asked_offset(start) for _, start in reversed(now.flow.starts))
    asked = next((offset for offset in named if offset is not None), None)
    if asked is not None and asked + 1 < stored:
        problem.likely = f"it subscribed at offset {asked}, though it had stored {stored:,}: it uses an older position"
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
    """A service notes where it is under a new name at each start, or each instance under its own: all comes again."""
    known = [(view.name_of(each), each) for each in topic.consumers if each.flow.offsets.begins]
    storing = [(stem_of(name, each), name, each) for name, each in known if not each.group or view.stores([each])]
    by_stem = grouped((each for each in storing if each[0]), lambda each: (each[0], *log_and_group(each[2])[:3]))
    for key, named in by_stem.items():
        ordered = sorted(named, key=lambda each: each[2].party.since_ns)
        found: list[tuple[ClientFlow, ClientFlow, int, str, str]] = []
        for (_, old, before), (_, name, now) in pairwise(ordered):
            apart = old != name and is_followed(before, now)
            same = log_of(before.flow) == log_of(now.flow)
            count = sum(before.flow.offsets.within(begin, end) for begin, end in now.flow.offsets)
            if apart and same and count >= max(MANY, MOST * before.flow.messages):
                found.append((before, now, count, old, name))
        if found:
            count, (before, now, _, old, name) = sum(each[2] for each in found), found[-1]
            title = f"{now.party.label} reads {topic.subject[2]} under a new name at each start, now {name}: "
            title += f"it got {count:,} messages again"
            times = {"since_ns": found[0][1].flow.first_ns, "count": count}
            problem = view.add("flow.read-again", title, key, [now, before], **times)
            problem.detail(f"before: {old}")
            problem.likely = "the name has that of the instance in it: a position is never found again"
            if is_random(name):
                problem.likely = "it gives its consumer no durable name, and the server keeps no position for it"


def stem_of(name: str, side: ClientFlow) -> str:
    """The part of a consumer's name that is the same at each start; empty: its name may be."""
    stem = without_instance(name)
    if is_random(name) or not stem:
        return f"{side.party.label} on {side.party.host}"
    return "" if stem == name else stem


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
    """The offset that a consumer had stored before it came back; -1: none."""
    at_ns = max((at_ns for at_ns, _ in now.flow.starts if at_ns <= now.flow.first_ns), default=now.party.since_ns)
    return max((first for each in sides for first, _, done_ns in each.flow.done.entries if done_ns < at_ns), default=-1)
