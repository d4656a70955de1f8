"""Contents of messages: without bodies since a time, keys in two partitions, the same messages again and again."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise

from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    MOST,
    FlowView,
    are_whole,
    began,
    by_label,
    by_life,
    ended,
    names_of,
    overlaps,
    total,
    whose,
    with_messages,
)
from wiredecode.flows.table import ClientFlow, Topic, grouped
from wiredecode.protocols.shared.facts import ENDED, LIMITED, PURGED, REFUSED
from wiredecode.protocols.shared.flows import MessageSample

NEARLY_ALL = 0.95
PRIORITY = "priority"
"""Header of messages that overtake others."""
Keys = dict[int, set[int]]
"""Partitions by checksum of the key."""


def emptied(view: FlowView, topic: Topic) -> None:
    """A publisher that came back publishes messages without a body, and had bodies before."""
    lives: dict[str, list[list[ClientFlow]]] = {}
    for (label, _), sides in by_life(with_messages(topic.publishers)).items():
        lives.setdefault(label, []).append(sides)
    for label, some in lives.items():
        for before, now in pairwise(some):
            empty, sampled = empty_of(now)
            if sampled < MANY or empty < MOST * sampled or empty_of(before)[0] * FEW > empty_of(before)[1]:
                continue
            since, name = view.report.seconds(began(now)), topic.subject[2]
            title = f"{label} publishes to {name} without a body since {since}: {empty:,} of {sampled:,} messages"
            key, sides, until_ns = (label, topic.subject), [*now, *before], ended(now)
            problem = view.add("flow.emptied", title, key, sides, until_ns=until_ns, count=total(now))
            problem.detail(f"before, {total(before):,} messages had one")


def empty_of(sides: list[ClientFlow]) -> tuple[int, int]:
    """Samples without a body, and all."""
    samples = [sample for each in sides for sample in each.flow.samples]
    return sum(each.empty for each in samples), len(samples)


def sent_again(view: FlowView, topic: Topic) -> None:
    """A publisher that came back publishes what it had published before: nothing keeps it from being stored twice."""
    for label, sides in by_label(each for each in with_messages(topic.publishers) if each.flow.confirmed).items():
        some = sorted(grouped(sides, lambda each: each.party.connection).values(), key=began)
        pairs = [(now, before) for before, now in pairwise(some) if ended(before) < began(now)]
        repeats = [(now, before, in_both(samples_of(before), samples_of(now))) for now, before in pairs]
        repeats = [each for each in repeats if each[-1] >= 2 * FEW]
        owed = [each for each in repeats if unanswered(each[1]) >= FEW]
        further = [each for each in repeats if goes_further(*each)]
        found = owed or further
        if not owed and len(further) < LIVES - 1:
            continue  # it may publish its state when it starts
        count, (now, before, _) = sum(each for *_, each in found), found[0]
        title = f"{label} published {count:,} messages to {topic.subject[2]} again after it came back: "
        title += "they have no id by which they are stored once"
        problem = view.add("flow.sent-again", title, (label, topic.subject), [*now, *before], count=count)
        if owed:
            problem.detail(f"{sum(unanswered(each) for _, each, _ in owed):,} messages had got no answer before")
            problem.likely = "it tried again after a time-out, and the server had taken or took the first ones, too"
        else:
            problem.likely = "it begins with the same messages each time it starts: it does not note how far it came"


def sent_by_both(view: FlowView, topic: Topic) -> None:
    """Two publishers publish the same messages, and a server stores both."""
    stored = (each for each in topic.publishers if each.flow.confirmed and each.flow.samples)
    by_client = grouped(stored, lambda each: (each.party.label, each.party.host))
    clients = [
        (client, sides, {each.content: each.once for each in samples_of(sides)}) for client, sides in by_client.items()
    ]
    for (one, first, known), (other, second, new) in combinations(clients, 2):
        both = known.keys() & new.keys()
        count = sum(new[content] is None or new[content] != known[content] for content in both)
        if count < MANY or not overlaps(first[0].party, second[0].party) or 2 * count < len(new):
            continue
        name, key = topic.subject[2], (one, other, topic.subject)
        title = f"{one[0]} and {other[0]} publish the same messages to {name}: {count:,} of the first {len(known):,}"
        problem = view.add("flow.sent-again", title, key, [*second, *first], count=count)
        problem.likely = "nothing divides the work between both, or each of both believes that it leads"
        return


def samples_of(sides: list[ClientFlow]) -> list[MessageSample]:
    """Samples of messages that are different from all others of these flows."""
    samples = [sample for each in sides for sample in each.flow.samples]
    times = Counter(each.content for each in samples)
    return [each for each in samples if times[each.content] == 1]


def in_both(before: list[MessageSample], now: list[MessageSample]) -> int:
    """The longest run of messages that was published twice in the same order, and may be stored twice."""
    places = {each.content: place for place, each in enumerate(before)}
    longest = run = 0
    last = -1
    for each in now:
        place = places.get(each.content, -1)
        if place < 0 or (each.once is not None and each.once == before[place].once):
            run = 0
            continue
        run = run + 1 if run and place == last + 1 else 1
        longest, last = max(longest, run), place
    return longest


def goes_further(now: list[ClientFlow], before: list[ClientFlow], both: int) -> bool:
    """Whether it publishes all that it had published before, and then more: it begins its work anew."""
    return both >= NEARLY_ALL * len(samples_of(before)) and len(samples_of(now)) > both


def unanswered(sides: list[ClientFlow]) -> int:
    """Messages that the server did not answer, if it answers at all."""
    confirmed = sum(each.flow.confirmed for each in sides)
    return total(sides) - confirmed - sum(each.flow.refused for each in sides) if confirmed else 0


def undelivered(view: FlowView, topic: Topic) -> None:
    """Messages of a queue came to no consumer, though later ones did: its server lost or dropped them."""
    sent = [each for each in topic.publishers if each.flow.messages]
    published = sorted(samples_of(sent), key=lambda each: each.time_ns)
    if len(published) < NEARLY_ALL * total(sent) or len({dict(each.headers).get(PRIORITY) for each in published}) > 1:
        return
    elsewhere = {
        each.content
        for other in view.topics
        for side in other.consumers
        for each in side.flow.samples
        if other is not topic
    }
    for group, sides in grouped(with_messages(topic.consumers), lambda side: side.group).items():
        got = [each for side in sides for each in side.flow.samples]
        known = {each.content for each in got}
        places = [place for place, each in enumerate(published) if each.content in known]
        if len(got) < total(sides) or not group or not places or not are_whole((*sent, *sides)):
            continue
        between = published[places[0] : places[-1]]
        missing = [place for place, each in enumerate(between) if each.content not in known | elsewhere]
        alone = sum(place - 1 not in missing and place + 1 not in missing for place in missing)
        if len(missing) >= FEW and alone * FEW <= len(missing):
            report_undelivered(view, topic, group, [*sent, *sides], [between[place] for place in missing])


def report_undelivered(
    view: FlowView, topic: Topic, group: str, sides: list[ClientFlow], lost: list[MessageSample]
) -> None:
    count, name = len(lost), topic.subject[2]
    title = f"{count:,} messages of {name} came to no consumer of {group}, though later ones did: they were published "
    title += f"from {view.report.seconds(lost[0].time_ns)} to {view.report.seconds(lost[-1].time_ns)}"
    times = {"since_ns": lost[0].time_ns, "until_ns": lost[-1].time_ns, "frames": [each.frame for each in lost]}
    problem = view.add("flow.undelivered", title, (group, topic.subject), sides, count=count, **times)
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
    if purged := facts.of(PURGED, group):
        problem.likely = f"{purged[-1].by} deleted them at {view.report.seconds(purged[-1].since_ns)}"


def keys_apart(view: FlowView, topic: Topic) -> None:
    """Two publishers, or one since it came back, put messages with the same keys into different partitions."""
    steady: list[tuple[list[ClientFlow], Keys]] = []
    for sides in by_life(topic.publishers).values():
        keys: Keys = {}
        for each in sides:
            for sample in each.flow.samples if each.flow.key.partition is not None else ():
                if sample.key is not None:
                    keys.setdefault(sample.key, set()).add(each.flow.key.partition or 0)
        if all(len(some) == 1 for some in keys.values()):
            steady.append((sides, keys))
    for (one, keys), (other, others) in combinations(steady, 2):
        both = keys.keys() & others.keys()
        moved = sum(keys[key] != others[key] for key in both)
        if moved < 2 * FEW or moved * 3 < len(both):
            continue
        first, second = sorted((one, other), key=began)
        name, since = topic.subject[2], view.report.seconds(began(second))
        title = f"{names_of(second)} puts messages into other partitions of {name} than {names_of(first)}, "
        title += f"since {since}: {moved} of {len(both)} common keys"
        problem = view.add("flow.keys-apart", title, topic.subject, [*second, *first], count=moved)
        products = [sides[0].party.product for sides in (first, second)]
        problem.detail(f"client libraries: {products[0]} and {products[1]}" if products[0] != products[1] else "")
        return


def circling(view: FlowView, topic: Topic) -> None:
    """A client publishes the same messages to a topic again and again, and gets them itself."""
    consumers = {whose(each.party) for each in with_messages(topic.consumers)}
    for sides in by_life(each for each in topic.publishers if whose(each.party) in consumers).values():
        contents = Counter(sample.content for each in sides for sample in each.flow.samples if sample.key is not None)
        often = [times for times in contents.values() if times >= 2 * FEW]
        if len(often) > 1 and sum(often) >= MOST * contents.total():  # one: a sign of life
            label, count, name = sides[0].party.label, total(sides), topic.subject[2]
            title = f"{label} publishes the same {len(often)} messages to {name} again and again, "
            title += f"and gets them itself: {count:,} times"
            problem = view.add("flow.loop", title, (label, topic.subject), sides, until_ns=ended(sides), count=count)
            problem.likely = "it cannot process them, and puts them back without a limit"
