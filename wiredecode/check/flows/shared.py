"""Consumers that share what they should not, or not as they should: groups, positions, partitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wiredecode.check.flows.names import are_related, environment_of, is_library, service_of
from wiredecode.check.flows.view import (
    FEW,
    LIVES,
    MANY,
    WHILE_NS,
    FlowView,
    are_whole,
    began,
    ended,
    is_followed,
    log_and_group,
    names_of,
    overlaps,
    total,
    with_messages,
)
from wiredecode.flows.table import ClientFlow, Topic, grouped, log_of
from wiredecode.protocols.shared.flows import FIRST


def mixed(view: FlowView, topic: Topic) -> None:
    """One instance of a service subscribes without the queue group of the others: each message goes to both."""
    served = [each for each in with_messages(topic.consumers) if not each.flow.log and each.party.name]
    for service, sides in grouped(served, lambda side: service_of(side.party.name)).items():
        alone = [each for each in sides if not each.group and each.flow.messages >= FEW]
        others = [each for each in sides if each.group and not is_library(each.party)]
        for now in alone if service else ():
            together = [each for each in others if overlaps(each.party, now.party)]
            together = [each for each in together if each.party.name != now.party.name]
            if not together or now.flow.key.partition is not None:
                continue
            group, name, count = together[0].group, topic.subject[2], now.flow.messages
            own = [each for each in others if each.party.name == now.party.name and each.group == group]
            if any(each.flow.first_ns > now.flow.last_ns for each in own):
                continue  # it joined the others since: for a moment both were there
            title = f"{now.party.label} reads {name} without a queue group, and {together[0].party.label} in {group}: "
            title += f"{count:,} messages went to both"
            key, sides = (now.party.label, topic.subject), [now, *together]
            problem = view.add("flow.done-twice", title, key, sides, count=count)
            problem.likely = f"it was deployed without the queue group of the others, {group}"


def now_shared(view: FlowView, topic: Topic) -> None:
    """Instances of a service that each got every message share them since they came back in a queue group."""
    served = [each for each in with_messages(topic.consumers) if each.party.name and each.flow.key.partition is None]
    for sides in grouped(served, lambda side: service_of(side.party.name)).values():
        alone = {each.party.name: each for each in sides if not each.group and not each.party.is_open}
        joined = [each for each in sides if each.group and each.party.name in alone]
        joined = [each for each in joined if each.flow.first_ns > alone[each.party.name].flow.last_ns]
        before = [alone[each.party.name] for each in joined]
        together = len(joined) > 1 and all(overlaps(one.party, other.party) for one, other in pairwise(before))
        count = min((each.flow.messages for each in before), default=0)
        if not together or len({each.group for each in joined}) > 1 or count < FEW or total(joined) < MANY:
            continue
        since, name = view.report.seconds(min(each.flow.first_ns for each in joined)), topic.subject[2]
        title = f"{names_of(joined)} share {name} in group {joined[0].group} since {since}, and each gets a part: "
        title += f"before, each got every message ({count:,})"
        key = joined[0].group, topic.subject
        problem = view.add("flow.shared-group", title, key, [*joined, *before], count=total(joined))
        problem.likely = "if each needs all messages (caches, settings), the queue group is the mistake"


def subscribed_twice(view: FlowView, topic: Topic) -> None:
    """A client subscribes to a stream twice on one connection: each message comes twice."""
    for side in with_messages(topic.consumers):
        flow, name = side.flow, topic.subject[2]
        if len(flow.starts) < 2 or flow.log or flow.key.partition is not None:
            continue
        if 0 < flow.left_ns <= flow.starts[-1][0] or flow.starts[-1][1] == FIRST:
            continue  # it left before, or reads all again
        count = flow.again
        if not flow.offsets.begins and flow.starts[-1][0] - flow.starts[0][0] >= WHILE_NS and topic.publishers:
            count = flow.messages - total(topic.publishers) if are_whole((side, *topic.publishers)) else 0
        if count < MANY:
            continue
        since = view.report.seconds(flow.starts[1][0])
        title = f"{side.label} has {len(flow.starts)} subscriptions to {name} on one connection since {since}: "
        title += f"{count:,} messages came twice"
        problem = view.add("flow.done-twice", title, (side.label, topic.subject), [side], count=count)
        problem.first_ns = flow.starts[1][0]
        problem.likely = "it subscribed again without an Unsubscribe, such as when it read its configuration anew"


def group_changes(view: FlowView) -> None:
    """A client subscribes in another queue group than before, while the others stay: each message goes to both."""
    for topic in view.topics:
        named = (each for each in topic.consumers if each.party.name and each.group)
        for label, sides in grouped(named, lambda side: side.party.name).items():
            ordered = sorted(sides, key=lambda each: each.party.since_ns)
            for before, now in pairwise(ordered):
                apart = before.group != now.group and is_followed(before, now)
                others = [each for each in topic.consumers if each.flow.last_ns > now.flow.first_ns > 0]
                others = [each for each in others if each.group == before.group and each.party.label != label]
                if not apart or now.flow.log or now.party.host != before.party.host or not others:
                    continue
                count = now.flow.messages
                if now.flow.key.partition is not None:
                    own = [each for each in ordered if each.group == now.group]
                    count = shared_offsets(own, others)
                if count < FEW:
                    continue
                since, name = view.report.seconds(now.party.since_ns), topic.subject[2]
                title = f"{label} reads {name} in group {now.group} since {since}, before in {before.group}: "
                title += f"{count:,} messages went to both groups"
                key = label, topic.subject
                view.add("flow.done-twice", title, key, [now, before, *others], count=count)


def strangers(view: FlowView) -> None:
    """A second application joins a group, and takes a part of its messages."""
    consumers = (each for topic in view.topics for each in topic.consumers)
    served = (each for each in consumers if each.group and each.flow.messages)
    for (*log, group), members in grouped(served, log_and_group).items():
        ordered = sorted(members, key=lambda side: side.party.since_ns)
        tried = [each for each in ordered if environment_of(each.party.name)]
        used = [each for each in ordered if not environment_of(each.party.name)]
        if tried and total(tried) >= FEW and used and ended(used) > began(tried):
            report_tried(view, (*log, group), tried, used)
            continue
        stems = grouped(ordered, lambda side: service_of(side.party.name))
        stems.pop("", None)
        for first, second in pairwise(stems.values()):
            old, new = first[0].party.name, second[0].party.name
            hosts = {each.party.host for each in first}.isdisjoint(each.party.host for each in second)
            related = are_related(first[0].party, second[0].party)
            together = ended(first) > began(second)
            if not hosts or related or not together or total(second) < FEW:
                continue
            since = view.report.seconds(min(each.party.since_ns for each in second))
            title = f"{new} and {old} share group {group}: {new} joined at {since}, "
            title += f"each gets a part of {log[-1]}"
            problem = view.add("flow.shared-group", title, (group, *log), [*second, *first], count=total(second))
            for name, sides in ((old, first), (new, second)):
                problem.detail(f"{name} on {sides[0].party.host} got {total(sides):,} messages")


def report_tried(view: FlowView, key: tuple[str, ...], tried: list[ClientFlow], used: list[ClientFlow]) -> None:
    """An application that is only tried, by its name, takes messages of a group from one that is used."""
    name, (*_, log, group) = tried[0].party.label, key
    since = view.report.seconds(min(each.party.since_ns for each in tried))
    title = f"{name} shares {group} with {names_of(used)} since {since}, and got {total(tried):,} messages of {log}"
    problem = view.add("flow.shared-group", title, key, [*tried, *used], count=total(tried))
    problem.likely = f"by its name it belongs to another environment ({environment_of(tried[0].party.name)})"


def shared_positions(view: FlowView) -> None:
    """Two applications store their positions under one name, each over that of the other one."""
    for (*log, group), storing in view.positions.items():
        sides = [each for each in storing if group and not each.flow.log and each.flow.key.partition is None]
        for one, other in pairwise(sorted(sides, key=lambda side: side.party.since_ns)):
            apart = one.party.host != other.party.host and not are_related(one.party, other.party)
            if not apart or not overlaps(one.party, other.party):
                continue
            who = f"{one.party.label} and {other.party.label}"
            title = f"{who} store their positions in {log[-1]} under one name, {group}"
            count = one.flow.stores + other.flow.stores
            times = {"since_ns": other.party.since_ns, "until_ns": other.party.until_ns, "count": count}
            problem = view.add("flow.shared-group", title, (group, *log), [other, one], severity="error", **times)
            problem.likely = "each begins where the other one was, and leaves messages out or gets them again"
            break


def not_competing(view: FlowView) -> None:
    """Instances of one service share the name of their positions, and each gets every message."""
    for (*log, group), storing in view.positions.items():
        came = view.came_to(storing if group else (), log[-1])
        alone = [side for side in came if side.flow.key.partition is None or not side.group]  # no members
        clients = grouped(alone, lambda side: (side.party.name, side.party.host)).values()
        ordered = sorted(clients, key=lambda sides: min(side.party.since_ns for side in sides))
        pairs = [pair for pair in pairwise(ordered) if overlaps(pair[0][0].party, pair[1][0].party)]
        pairs = [pair for pair in pairs if are_related(pair[0][0].party, pair[1][0].party)]
        both = [(one, other, shared_offsets(one, other) - again(one, other)) for one, other in pairs]
        count = sum(each for *_, each in both)
        if count < MANY or 2 * count < sum(total(now) for _, now, _ in both):
            both_advance(view, (*log, group), storing if group else ())
            continue
        sides = [*{id(side): side for one, other, _ in both for side in (*other, *one)}.values()]
        number, since = len({side.party.connection for side in sides}), view.report.seconds(began(both[0][1]))
        title = f"{number} consumers of {log[-1]} with the name {group} each get every message since {since}: "
        title += f"{count:,} came twice"
        problem = view.add("flow.done-twice", title, (group, *log), [*both[-1][1], *sides], count=count)
        problem.likely = "nothing divides the messages among them: partitions that a group assigns, a queue group, "
        problem.likely += "a single active consumer"


def both_advance(view: FlowView, key: tuple[str, ...], storing: Sequence[ClientFlow]) -> None:
    """Two hosts note the same positions under one name all the time, though the capture does not show what they got."""
    alone = [each for each in storing if each.flow.key.partition is None and not each.flow.log]
    for one, other in pairwise(sorted(alone, key=lambda side: side.party.since_ns)):
        first, second = ([at[0] for at in side.flow.done.entries] for side in (one, other))
        begin, end = (max(first[0], second[0]), min(first[-1], second[-1])) if first and second else (0, 0)
        steps = min(sum(begin <= at <= end for at in positions) for positions in (first, second))
        apart = one.party.host != other.party.host and overlaps(one.party, other.party)
        if not apart or steps < LIVES or end - begin < MANY or not are_related(one.party, other.party):
            continue
        who, (*_, log, group) = f"{one.party.label} and {other.party.label}", key
        since = view.report.seconds(other.flow.done.entries[0][2])
        title = f"{who} each get every message of {log} since {since}: both store their positions as {group}, "
        title += f"from {begin:,} to {end:,}"
        times = {"since_ns": other.party.since_ns, "until_ns": other.party.until_ns, "count": end - begin}
        problem = view.add("flow.done-twice", title, (group, *key[:-1]), [other, one], **times)
        problem.likely = "nothing divides the messages among them, such as a single active consumer"


def again(*clients: Sequence[ClientFlow]) -> int:
    """Messages that a server says to deliver once more."""
    return sum(side.flow.again for sides in clients for side in sides)


def shared_offsets(own: Sequence[ClientFlow], others: Sequence[ClientFlow]) -> int:
    """Messages of partitions that both got."""
    pairs = ((one.flow, other.flow) for one in own for other in others if log_of(one.flow) == log_of(other.flow))
    return sum(other.offsets.within(begin, end) for one, other in pairs for begin, end in one.offsets)
