"""Contents of messages: without bodies since a time, keys in two partitions, the same messages again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import combinations, pairwise

from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    MOST,
    FlowView,
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
from wiredecode.protocols.shared.flows import MessageSample

NEARLY_ALL = 0.95
Keys = dict[int, set[int]]
"""Partitions by checksum of the key."""


def emptied(view: FlowView, topic: Topic) -> None:
    """A publisher that came back publishes messages without a body, and had bodies before."""
    for label, before, now in comings(topic):
        (empty, sampled), (had, known) = (share_of(sides, lambda each: each.empty) for sides in (now, before))
        if sampled < MANY or empty < MOST * sampled or had * FEW > known:
            continue
        since, name = view.report.seconds(began(now)), topic.subject[2]
        title = f"{label} publishes to {name} without a body since {since}: {empty:,} of {sampled:,} messages"
        key, sides, until_ns = (label, topic.subject), [*now, *before], ended(now)
        problem = view.add("flow.emptied", title, key, sides, until_ns=until_ns, count=total(now))
        problem.detail(f"before, {total(before):,} messages had one")


def keys_gone(view: FlowView, topic: Topic) -> None:
    """A publisher that came back gives no keys, and did before: messages of one key are in several partitions."""
    for label, before, now in comings(topic):
        (keys, sampled), (had, known) = (share_of(sides, lambda each: each.key is not None) for sides in (now, before))
        partitions = {each.flow.key.partition for each in now}
        if len(partitions) < 2 or min(sampled, known) < MANY or had < MOST * known or keys * FEW > sampled:
            continue
        since, name = view.report.seconds(began(now)), topic.subject[2]
        title = f"{label} publishes to {name} without keys since {since}, before with keys: messages that belong "
        title += f"together go to {len(partitions)} partitions, and are done in any order"
        key, sides, until_ns = (label, topic.subject, "keys"), [*now, *before], ended(now)
        problem = view.add("flow.keys-apart", title, key, sides, until_ns=until_ns, count=total(now))
        problem.likely = "its new version, or new settings, give messages no key"


def comings(topic: Topic) -> Iterator[tuple[str, list[ClientFlow], list[ClientFlow]]]:
    """Publishers that came back: name, flows before and now."""
    lives: dict[str, list[list[ClientFlow]]] = {}
    for (label, _), sides in by_life(with_messages(topic.publishers)).items():
        lives.setdefault(label, []).append(sides)
    for label, some in lives.items():
        yield from ((label, before, now) for before, now in pairwise(some))


def share_of(sides: list[ClientFlow], fits: Callable[[MessageSample], bool]) -> tuple[int, int]:
    """Samples that fit, and all."""
    samples = [sample for each in sides for sample in each.flow.samples]
    return sum(map(fits, samples)), len(samples)


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
    """Two publishers publish the same messages: a server stores both, or both get the messages that they work on."""
    by_client = grouped(
        (each for each in topic.publishers if each.flow.samples), lambda each: (each.party.label, each.party.host)
    )
    clients = [
        (client, sides, {each.content: each.once for each in samples_of(sides)}) for client, sides in by_client.items()
    ]
    for (one, first, known), (other, second, new) in combinations(clients, 2):
        both = known.keys() & new.keys()
        count = sum(new[content] is None or new[content] != known[content] for content in both)
        if count < MANY or not overlaps(first[0].party, second[0].party) or 2 * count < len(new):
            continue
        came = (view.came.get(whose(sides[0].party), ()) for sides in (first, second))
        one_gets, other_gets = ({each.flow.key.topic for each in some if not each.group} for some in came)
        stored = all(any(each.flow.confirmed for each in sides) for sides in (first, second))
        if not stored and not one_gets & other_gets:
            continue
        name, key = topic.subject[2], (one, other, topic.subject)
        title = f"{one[0]} and {other[0]} publish the same messages to {name}: {count:,} of the first {len(known):,}"
        problem = view.add("flow.sent-again", title, key, [*second, *first], count=count)
        problem.likely = "nothing divides the work between both, or each of both believes that it leads"
        if one_gets & other_gets:
            problem.likely = f"both get every message of {min(one_gets & other_gets)}: no queue group divides these"
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
