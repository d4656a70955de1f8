"""A consumer gets nothing, though messages are published: it hangs, has all that it asked for, or waits elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from wiredecode.check.flows.view import (
    FEW,
    MANY,
    MOMENT_NS,
    MOST,
    WHILE_NS,
    FlowView,
    after,
    are_whole,
    asked_offset,
    began,
    by_label,
    ended,
    total,
    whose,
    with_messages,
)
from wiredecode.flows.table import ClientFlow, Topic, grouped
from wiredecode.protocols.shared.facts import BLOCKED, DELETED, UNBOUND
from wiredecode.protocols.shared.problems import Problem

HUNG_NS = 5_000_000_000
"""A consumer of a partition that hangs gets nothing for this time."""
HANDOVER_NS = 5_000_000_000
"""A queue that takes the place of another one gets its first message in this time before or after the last of that."""


def nothing_since(view: FlowView, topic: Topic) -> None:
    """A consumer to which messages are pushed gets none, though they are published and others wait for nothing."""
    for sides in by_label(topic.consumers, group=True).values():
        came = with_messages(sides)
        if not any(each.flow.log for each in came):
            continue  # no stream pushes them: consumers ask, and rules about credit and fetches say more
        last_ns, latest_ns = max((each.flow.last_ns, each.party.until_ns) for each in came)
        count = after((each for each in topic.publishers if each.party.is_whole), last_ns + MOMENT_NS)
        if count < MANY or latest_ns - last_ns < WHILE_NS:
            continue
        own = view.all_of(sides)
        asks = any(each.flow.pulls or each.flow.stores for each in own)
        acked = sum(each.flow.stores for each in own)
        unheard = acked >= MOST * total(own) and not any(each.flow.confirmed for each in topic.publishers)
        if any(each.flow.left_ns > last_ns for each in own) or (asks and not unheard):
            continue  # it left, or asks and acknowledges: what it does not do other rules say
        who = came[0].label
        problem = report(view, who, topic.subject[2], (who, topic.subject), came, last_ns, latest_ns, count)
        if asks:
            problem.likely = "its stream stores nothing more: it is full, or was deleted, and publishes ask for no ack"
        if any(each.flow.stalled for each in own):
            problem.likely = "the client does not answer the server's flow control requests: the server waits for it"


def hungry(view: FlowView, topic: Topic) -> None:
    """A consumer of a partition gets nothing more, though it is there, and no other one of its group does."""
    for side in topic.consumers:
        number, last_ns, party = side.flow.key.partition, side.flow.last_ns, side.party
        if number is None or not last_ns or not party.is_whole:
            continue
        sent = [each for each in topic.publishers if each.flow.key.partition == number and each.party.is_whole]
        until_ns = min(view.until[party.name, party.host], ended(sent))
        count = after(sent, last_ns + MOMENT_NS) - after(sent, until_ns)
        peers = (each for each in topic.consumers if each.flow.key.partition == number)
        peers = (each for each in peers if each.group == side.group or each.party.label == party.label)
        if count < MANY or until_ns - last_ns < HUNG_NS or any(each.flow.last_ns > last_ns for each in peers):
            continue
        name = f"{topic.subject[2]}[{number}]"
        if view.report.facts.of(BLOCKED, name) or went_over(view, topic, side) or works(side, until_ns):
            continue  # it reads committed messages only; or another topic with the same messages; or does what it has
        key = side.label, topic.subject, number
        problem = report(view, side.label, name, key, [side], last_ns, until_ns, count)
        problem.likely = "it asks for no more: it hangs in its work on earlier messages, or it was paused"
        problem.detail("its group still counts on it: no other member gets them" if side.group else "")


def works(side: ClientFlow, until_ns: int) -> bool:
    """Whether a consumer may still work on the messages that it got last, at its pace until then."""
    came: Counter[int] = Counter()  # by time
    for _, count, at_ns in side.flow.times.entries:
        came[at_ns] += count
    paces = [(later - at_ns) / came[at_ns] for at_ns, later in pairwise(sorted(came))]
    return bool(paces) and until_ns - side.flow.last_ns < 2 * median(paces) * came[max(came)]


def went_over(view: FlowView, topic: Topic, side: ClientFlow) -> bool:
    """Whether the service of a consumer reads another topic of the same publishers since then."""
    publishers = {each.party.label for each in topic.publishers}
    others = (each for each in view.came.get(whose(side.party), ()) if each.flow.key.topic != topic.subject[2])
    later = {each.flow.key.topic for each in others if each.flow.first_ns > side.flow.last_ns}
    by_topic = (each for each in view.topics if each.subject[2] in later)
    return any(publishers == {sent.party.label for sent in each.publishers} for each in by_topic)


def stopped(view: FlowView, topic: Topic) -> None:
    """All consumers of a group got what was published until a time, and nothing since, without offsets."""
    if any(each.flow.offsets.begins or each.flow.pulls for each in (*topic.publishers, *topic.consumers)):
        return
    for group, sides in grouped(topic.consumers, lambda side: side.group or side.label).items():
        came = with_messages(sides)
        own = {each.party.connection for each in came}
        sent = [each for each in topic.publishers if each.party.connection not in own]
        if came and sent and are_whole((*came, *sent)):
            report_stopped(view, topic, group, came, sent)


def report_stopped(
    view: FlowView, topic: Topic, group: str, came: Sequence[ClientFlow], sent: Sequence[ClientFlow]
) -> None:
    last_ns, latest_ns = ended(came), max(each.party.until_ns for each in came)
    if any(each.party.is_open for each in came):
        latest_ns = max(latest_ns, view.report.last_ns)
    until_ns, got = min(latest_ns, ended(sent)), total(came)
    if got < FEW or until_ns - last_ns < WHILE_NS:
        return
    count = after(sent, last_ns)
    before = total(sent) - count
    if before < FEW or count < MANY:
        return
    left = any(each.flow.left_ns for each in view.all_of(came))
    if left or waits_for_acks(view, came) or not MOST <= got / before <= 1 / MOST:
        return
    if any(each.flow.last_ns > last_ns and each.group != group for each in view.came_to(came, topic.subject[2])):
        return  # its service gets them by another queue
    problem = report(view, group, topic.subject[2], (group, topic.subject), came, last_ns, until_ns, count)
    problem.detail(f"until then it got {got:,} of {before:,} messages")
    others = grouped(with_messages(topic.consumers), lambda side: side.group or side.label)
    others = {name: some for name, some in others.items() if abs(began(some) - last_ns) <= HANDOVER_NS}
    if successors := [name for name, some in others.items() if began(some) > began(came) and ended(some) > last_ns]:
        problem.severity = "note"
        problem.likely = f"{successors[0]} took its place: it gets them since then"
        return
    if deleted := view.report.facts.of(DELETED, group):
        at = view.report.seconds(deleted[-1].since_ns)
        problem.likely = f"{deleted[-1].by} deleted it at {at}, and its consumers do not consume again"
    unbound = [each for each in view.report.facts.of(UNBOUND, topic.subject[2]) if each.since_ns <= last_ns + WHILE_NS]
    if unbound:
        frame, at = unbound[-1].places[-1].number, view.report.seconds(unbound[-1].since_ns)
        problem.likely = f"{unbound[-1].by} took its binding away at {at} (frame {frame})"
        if unbound[-1].places[-1].connection.client in {each.party.host for each in view.all_of(came)}:
            problem.severity = "note"  # it wants them no more


def waits_for_acks(view: FlowView, sides: Sequence[ClientFlow]) -> bool:
    """Whether bytes to a client are on their way: the path is the problem."""
    health = (view.connections[each.party.connection].health for each in sides)
    return any(each is not None and any(side.unacknowledged for side in each.directions) for each in health)


def sated(view: FlowView, topic: Topic) -> None:
    """A consumer that asked for a number of messages has them, and stays there without asking for more."""
    for side in (each for each in topic.consumers if each.flow.limit > 1):
        own = {each.flow.key.topic for each in view.all_of([side]) if each.flow.messages}
        sent = [each for each in view.sent if each.flow.key.topic in own and each.party.space == side.party.space]
        left_ns = side.flow.left_ns
        count, until_ns = after(sent, left_ns), min(ended(sent), side.party.until_ns)
        again = any(at_ns > left_ns for at_ns, _ in side.flow.starts)
        if again or count < MANY or until_ns - left_ns < WHILE_NS:
            continue
        key, flows = (side.label, topic.subject), [side, *sent]
        more = f": it had asked for {side.flow.limit:,} messages and no more"
        end_ns = view.report.last_ns
        problem = report(view, side.party.label, topic.subject[2], key, flows, left_ns, end_ns, count, more)
        problem.severity = "warning"
        problem.likely = "the program limits its subscription, such as an automatic unsubscribe of NATS"


def beyond(view: FlowView, topic: Topic) -> None:
    """A consumer begins at an offset that the log does not reach yet, and gets nothing that is published."""
    for side in topic.consumers:
        named = ((at_ns, asked_offset(start)) for at_ns, start in side.flow.starts)
        asked = [(at_ns, offset) for at_ns, offset in named if offset is not None]
        if side.flow.messages or not asked or not side.party.is_whole:
            continue
        at_ns, offset = asked[-1]
        others = (each.flow for each in topic.consumers if each.flow.last_ns > at_ns and each.flow.offsets.ends)
        end = max((each.offsets.ends[-1] for each in others), default=offset)
        sent = [each for each in topic.publishers if each.party.is_whole]
        count = after(sent, at_ns)
        if offset <= end or count < MANY:  # it waits for what comes next
            continue
        name = topic.subject[2]
        title = f"{side.label} begins {name} at offset {offset:,} and gets nothing, while {count:,} were published"
        times = {"since_ns": at_ns, "until_ns": ended(sent), "count": count}
        problem = view.add("flow.nothing-since", title, (side.label, topic.subject, offset), [side], **times)
        problem.detail(f"others are at offset {end - 1:,}: it gets messages from {offset:,} on")
        problem.likely = "its position is one of another log: of another stream, or of an earlier one of this name"
        if made := view.report.facts.of(DELETED, name):
            problem.likely = f"{made[-1].by} deleted {name} at {view.report.seconds(made[-1].since_ns)}: "
            problem.likely += "it was made anew, and offsets begin again"


def left_alone(view: FlowView, topic: Topic) -> None:
    """A client that notes where it is unsubscribed, and stays for others: none of its service gets the messages."""
    for side in (each for each in with_messages(topic.consumers) if each.flow.left_ns):
        left_ns, who, name = side.flow.left_ns, whose(side.party), topic.subject[2]
        notes = not view.noted.isdisjoint({(who, name), (who, side.flow.log)})
        stays = any(each.flow.last_ns > left_ns + WHILE_NS for each in view.came.get(who, ()) if each is not side)
        own = [each for each in topic.consumers if whose(each.party) == who or each.group == side.group != ""]
        again = any(each.flow.last_ns > left_ns + MOMENT_NS or each.flow.starts[-1:] > [(left_ns, "")] for each in own)
        sent = [each for each in topic.publishers if each.party.is_whole]
        count = after(sent, left_ns + MOMENT_NS) if notes and stays and not again else 0
        if count < MANY or ended(sent) - left_ns < WHILE_NS:
            continue
        key = side.label, topic.subject
        problem = report(view, side.label, name, key, [side], left_ns, ended(sent), count)
        problem.likely = (
            "it unsubscribed and did not subscribe again, though it continues with others: a wrong subscription?"
        )


def not_resumed(view: FlowView) -> None:
    """A client whose connection was ended for it came back, and did not subscribe again."""
    clients = grouped(view.parties.values(), whose)
    hosts = grouped(view.parties.values(), lambda party: (party.protocol, party.host))
    for topic in view.topics:
        for side in topic.consumers:
            party, lost_ns = side.party, view.cut_ns(side.party)
            if not (side.flow.starts or side.flow.messages >= FEW) or side.flow.left_ns or not lost_ns:
                continue
            own = clients[whose(party)] if party.name else hosts[party.protocol, party.host]
            again = [each for each in own if each.since_ns >= lost_ns - MOMENT_NS]
            if not party.name and len(own) > len(again) + 1:
                continue  # its host has several clients
            came = [each for each in topic.consumers if each.flow.last_ns > lost_ns and each is not side]
            came = [each for each in came if each.group == side.group and (side.group or not party.name)]
            reads = {each.party.connection for each in topic.consumers}
            if not again or came or any(each.connection in reads for each in again):
                continue
            since_ns, until_ns = min(each.since_ns for each in again), max(each.until_ns for each in again)
            count = after(topic.publishers, since_ns) - after(topic.publishers, until_ns)
            if count < MANY or until_ns - since_ns < HUNG_NS:
                continue
            who = next((each.name for each in again if each.name), party.label)
            key = who, topic.subject, "again"
            problem = report(view, who, topic.subject[2], key, [side], lost_ns, until_ns, count)
            at = view.report.seconds(since_ns)
            problem.detail(f"its connection was ended; it came back at {at}, and did not subscribe again")
            problem.likely = "the client does not restore its subscriptions when it connects again"


def report(
    view: FlowView,
    who: str,
    name: str,
    key: Any,
    sides: Sequence[ClientFlow],
    since_ns: int,
    until_ns: int,
    count: int,
    more: str = "",
) -> Problem:
    """The problem of a consumer, ``who``, that gets nothing of the topic ``name`` since a time."""
    title = f"{who} gets nothing of {name} since {view.report.seconds(since_ns)}, while {count:,} were published{more}"
    times = {"since_ns": since_ns, "until_ns": until_ns, "count": count}
    return view.add("flow.nothing-since", title, key, sides, **times)
