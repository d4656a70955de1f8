"""Services that get messages and publish others for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter

from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    MOST,
    WHILE_NS,
    FlowView,
    by_label,
    lives_of,
    messages_after,
    named,
    names_of,
    total,
    whose,
    with_messages,
)
from wiredecode.flows.table import ClientFlow, grouped, subject_of
from wiredecode.protocols.shared.flows import NAMES

WORDS = frozenset(NAMES)
CUTS = 64
"""Times that are tried."""
Counted = list[tuple[int, float]]
"""Times, and messages up to each."""


def not_passed_on(view: FlowView) -> None:
    """A service gets messages and publishes nothing for them since a time, and did so before."""
    sent = grouped((each for each in with_messages(view.sent) if each.party.is_whole), lambda side: whose(side.party))
    read = {topic.subject for topic in view.topics if with_messages(topic.consumers)}
    for service, came in view.came.items():
        if service not in sent or total(came) < 2 * MANY or total(sent[service]) < 2 * FEW:
            continue
        out, unread = apart(sent[service], lambda side: subject_of(side) in read)
        for (_, topic), sides in grouped(came, lambda side: (side.party.space, side.flow.key.topic)).items():
            new = 2 * sum(each.flow.again for each in sides) < total(sides)
            results = [each for each in out or unread if each.flow.key.topic != topic]
            if new and total(sides) >= MOST * total(came):
                found = max(turns(counted(sides), counted(results)), default=None)
                if found is not None:
                    report(view, topic, sides, results, unread if out else [], *found[1:])


def publishes_no_more(view: FlowView) -> None:
    """A client that comes again and again published something each time, and since a time it does nothing there."""
    parties = grouped(view.parties.values(), named)
    consuming = {named(side.party) for side in view.sides if side.flow.key.delivers}
    for client, sides in grouped(with_messages(view.sent), lambda side: named(side.party)).items():
        if client in consuming:
            continue
        lives = lives_of([*parties[client], *view.silent.get(client, ())], lambda party: party)
        used = {each.party.connection: each.flow.key.topic for each in sides}
        did = [any(each.connection in used for each in life) for life in lives]
        last = max((number for number, each in enumerate(did) if each), default=0)
        before, since = did[: last + 1], lives[last + 1 :]
        quiet = all(each.is_whole and not each.is_open for life in lives for each in life)
        if len(since) < LIVES or len(before) < LIVES or not all(before) or not quiet:
            continue
        at_ns = min(each.since_ns for each in since[0])
        title = f"{client[0]} connected {len(since):,} times since {view.report.seconds(at_ns)} and published nothing: "
        title += f"before, it published to {', '.join(sorted(set(used.values()))[:FEW])} each time"
        problem = view.add("flow.publishes-no-more", title, client, sides, since_ns=at_ns, count=len(since))
        problem.detail(f"{total(sides):,} messages in {len(before):,} times before")


def apart(
    sides: Iterable[ClientFlow], accept: Callable[[ClientFlow], bool]
) -> tuple[list[ClientFlow], list[ClientFlow]]:
    """Those that are accepted, and the others."""
    both: tuple[list[ClientFlow], list[ClientFlow]] = [], []
    for each in sides:
        both[not accept(each)].append(each)
    return both


def turns(came: Counted, sent: Counted) -> Iterator[tuple[float, int, list[int]]]:
    """Times from which on nearly nothing is passed on: how clear that is, the time, and what came and was sent."""
    if not came or not sent or min(came[-1][1], sent[-1][1]) < 2 * FEW:
        return
    first_ns, last_ns = came[0][0], came[-1][0]
    for cut in range(1, CUTS):
        at_ns = first_ns + (last_ns - first_ns) * cut // CUTS
        before, passed = up_to(came, at_ns), up_to(sent, at_ns)
        since, after = round(came[-1][1]) - before, round(sent[-1][1]) - passed
        if last_ns - at_ns < WHILE_NS or min(before, since) < MANY or 2 * passed < before:
            continue
        if after * before <= (1 - MOST) * passed * since:
            yield min(passed / before, 1) - after / since, at_ns, [before, passed, since, after]


def report(
    view: FlowView,
    topic: str,
    came: Sequence[ClientFlow],
    out: Sequence[ClientFlow],
    unread: Sequence[ClientFlow],
    at_ns: int,
    counts: Sequence[int],
) -> None:
    before, passed, since, after = counts
    label, when = came[0].party.label, view.report.seconds(at_ns)
    title = f"{label} passes {after:,} of {since:,} messages of {topic} on since {when}, "
    title += f"before {min(passed, before):,} of {before:,}"
    key, times = (label, topic), {"since_ns": at_ns, "until_ns": max(each.flow.last_ns for each in came)}
    problem = view.add("flow.not-passed-on", title, key, [*came, *out], count=since - after, **times)
    problem.detail(f"it published to {', '.join(sorted({each.flow.key.topic for each in out})[:FEW])}")
    late = [(each.flow.key.topic, messages_after(each.flow, at_ns)) for each in unread]
    elsewhere = [f"{count:,} to {name}" for name, count in late if 2 * count >= since]
    problem.detail(f"since then it publishes {', '.join(elsewhere)}, which no consumer reads" if elsewhere else "")
    subjects = [each.publishers for each in view.topics if each.subject[2] == topic]
    changed = fields_changed(view, [each for sides in subjects for each in sides], at_ns)
    problem.detail(changed and f"since then the messages of {topic} {changed}")
    begun = [each for sides in subjects for each in sides if abs(each.flow.first_ns - at_ns) < WHILE_NS]
    if begun and len(by_label(begun)) == 1:
        problem.likely = f"it cannot read the messages of {names_of(begun)}, which began to publish at that time"


def fields_changed(view: FlowView, sides: Sequence[ClientFlow], at_ns: int) -> str:
    """The fields that the messages of a topic have since a time, and had before; empty: nothing changed."""
    names: tuple[list[set[str]], list[set[str]]] = ([], [])
    for sample in (sample for each in sides for sample in each.flow.samples):
        fields = {name for name, _ in view.fields_of(sample) if name not in WORDS}
        names[sample.time_ns >= at_ns].append(fields)
    if min(map(len, names)) < FEW:
        return ""
    before, after = ({name for name in set().union(*some) if common(name, some)} for some in names)
    texts = [f"have {', '.join(sorted(after - before))}"] * (after > after & before)
    texts += [f"have no {', '.join(sorted(before - after))}"] * (before > after & before)
    return " and ".join(texts)


def common(name: str, some: Sequence[set[str]]) -> bool:
    """Whether most messages have a field."""
    return sum(name in each for each in some) >= MOST * len(some)


def counted(sides: Sequence[ClientFlow]) -> Counted:
    """The messages of some flows by time, as far as the times of some of them show."""
    steps: list[tuple[int, float]] = []
    for flow in (each.flow for each in sides):
        entries = flow.times.entries or flow.unnumbered.entries
        share = flow.messages / max(sum(count for _, count, _ in entries), 1)
        steps += [(time_ns, count * share) for _, count, time_ns in entries]
    steps.sort()
    return [*zip((at_ns for at_ns, _ in steps), accumulate(count for _, count in steps), strict=True)]


def up_to(counts: Counted, time_ns: int) -> int:
    """Messages up to a time."""
    at = bisect_right(counts, time_ns, key=itemgetter(0))
    return round(counts[at - 1][1]) if at else 0
