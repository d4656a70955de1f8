"""Waits and work that a client chose: it collects messages, opens connections, asks in vain, commits each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from wiredecode.check.flows.view import (
    FEW,
    MANY,
    MOMENT_NS,
    FlowView,
    began,
    by_label,
    by_life,
    overlaps,
    total,
    with_offsets,
)
from wiredecode.flows.table import ClientFlow, latencies
from wiredecode.frames.escape import counted

HURRIED_NS = 50_000_000
"""A client that asks in vain more often than once in this time asks in a loop."""
LONG_NS, LONGER = 500_000_000, 5
"""Time that a message waits in its broker if that is long, and how many times longer than before."""
SHORT_NS = 5_000_000_000
"""A connection that a client opens for a message lives no longer."""


def waits(view: FlowView) -> None:
    """Messages wait in their client for others since it came back."""
    for label, sides in by_label(view.sent).items():
        slow_client(view, label, sides)


def slow_client(view: FlowView, label: str, sides: Sequence[ClientFlow]) -> None:
    slow = [each for each in sides if each.flow.batches >= 2 and each.flow.waits * 2 >= each.flow.batches]
    quick = [each for each in sides if each.flow.batches >= FEW and not each.flow.waits]
    if not slow or sum(each.flow.waits for each in slow) < FEW:
        return
    first_ns, longest, messages = began(slow), max(each.flow.waited_ns for each in slow), total(slow)
    before = [each for each in quick if each.flow.last_ns <= first_ns + MOMENT_NS]
    title = f"messages of {label} wait up to {longest / 1e9:.1f} s in it before it sends them"
    title += f", since {view.report.seconds(first_ns)}" if before else ""
    severity = None if before else "note"
    problem = view.add("flow.waits", title, label, [*slow, *before], count=messages, severity=severity)
    problem.likely = "linger.ms or a similar setting is large, or the publisher's thread is busy"
    problem.detail(f"{messages:,} messages in {counted(sum(each.flow.batches for each in slow), 'batch', 'es')}")
    if before:
        sent = sum(each.flow.batches for each in before)
        problem.detail(f"before: {total(before):,} in {counted(sent, 'batch', 'es')}")


def fetches(view: FlowView) -> None:
    """A consumer fetches only many bytes at a time: messages wait in the broker for others."""
    for topic in view.topics:
        sent = [each.flow for each in topic.publishers]
        before: dict[str, tuple[int, float]] = {}
        for (label, _), now in by_life(with_offsets(topic.consumers)).items():
            least = max(int(each.party.settings.get("min_bytes", "1")) for each in now)
            times = latencies(sent, [each.flow for each in now])
            usual_ns = median(times) if len(times) >= FEW else 0
            known, (old, old_ns) = label in before, before.get(label, (1, 0))
            if least > old and usual_ns >= max(LONG_NS, LONGER * old_ns):
                since = f", since {view.report.seconds(now[0].party.since_ns)}" if known else ""
                title = (
                    f"messages of {topic.subject[2]} wait {usual_ns / 1e9:.1f} s for {label}{since}: it fetches them "
                )
                title += f"when there are {least:,} bytes"
                how: dict[str, Any] = {"count": total(now), "severity": None if known else "note"}
                problem = view.add("flow.waits", title, (label, topic.subject), now, **how)
                problem.likely = "the least size of a fetch (fetch.min.bytes) is large"
                problem.detail(f"before: {old:,} bytes, {old_ns / 1e9:.3f} s" if known else "")
            before[label] = least, usual_ns


def churn(view: FlowView) -> None:
    """A client opens a connection for each message, or nearly so."""
    confirms = any(each.flow.confirmed for each in view.sent)
    for label, own in by_label(view.sent).items():
        short = [each for each in own if each.flow.messages <= 2 and not each.flow.refused]
        unconfirmed = sum(not each.flow.confirmed for each in short) if confirms else 0
        short = short if unconfirmed * 2 <= len(short) else []
        short = [each for each in short if each.party.until_ns - each.party.since_ns <= SHORT_NS]
        connections = {each.party.connection for each in short}
        if len(connections) < MANY:
            continue
        since, until = min(each.party.since_ns for each in short), max(each.party.until_ns for each in short)
        title = f"{label} opened {len(connections):,} connections for {total(short):,} messages"
        long = [each for each in own if each.flow.messages >= FEW and each.party.connection not in connections]
        how: dict[str, Any] = {"since_ns": since, "until_ns": until, "count": len(connections)}
        problem = view.add("flow.connection-each", title, label, short, severity=None if long else "note", **how)
        if long:
            problem.detail(f"before, {counted(len(long), 'connection')} carried {total(long):,} messages")


def polls(view: FlowView) -> None:
    """A consumer asks again and again, and nearly always for nothing."""
    for (_, group), sides in view.consumers.items():
        got = total(sides)
        for side in sides:
            party, flow = side.party, side.flow
            span_ns = max(party.until_ns - party.since_ns, 1)
            if flow.empty < 5 * MANY or flow.empty < FEW * max(got, 1) or span_ns / flow.empty > HURRIED_NS:
                continue
            topic, rate = flow.key.topic, flow.empty * 1e9 / span_ns
            title = f"{party.label} asks {topic}, consumer {group}, {rate:,.0f} times a second for messages"
            title += f": {flow.empty:,} of {flow.pulls:,} times there were none"
            times = {"since_ns": party.since_ns, "until_ns": party.until_ns, "count": flow.empty}
            view.add("flow.busy-poll", title, (party.label, topic, group), [side], **times)


def commits(view: FlowView) -> None:
    """A consumer commits after each message since it came back."""
    for topic in view.topics:
        rates = []
        consumers = (each for each in topic.consumers if each.flow.key.partition is not None)  # else it acknowledges
        for sides in by_life(with_offsets(consumers)).values():
            stores = [each for each in view.stores(sides) if overlaps(each.party, sides[0].party)]
            stores = [each for each in stores if each.flow.key.topic == topic.subject[2]]
            moved = sum(each.flow.offsets.ends[-1] - each.flow.offsets.begins[0] for each in sides)
            done = sum(max(each.flow.stored - min(s.flow.offsets.begins[0] for s in sides), 0) for each in stores)
            rates.append((sum(each.flow.stores for each in stores), min(moved, done or moved), sides, stores))
        for (few, many, _, _), (many_commits, messages, now, stores) in pairwise(rates):
            each_one = many_commits >= 2 * MANY and many_commits * 2 >= messages
            rarely = few * FEW <= many and many >= MANY
            if not (each_one and rarely and stores):
                continue
            label, since = now[0].label, view.report.seconds(now[0].party.since_ns)
            title = f"{label} commits after each message of {topic.subject[2]} since {since}: {many_commits:,} commits"
            times = {"since_ns": now[0].party.since_ns, "until_ns": now[0].party.until_ns, "count": many_commits}
            problem = view.add("flow.commit-each", title, (label, topic.subject), [*now, *stores], **times)
            problem.detail(f"before: {few:,} commits for {many:,} messages")
