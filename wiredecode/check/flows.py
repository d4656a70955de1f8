"""Problems of the way of messages: every request succeeds, and the messages do not arrive, or not as they should.

Each is an asymmetry ("X while Y"), never a level: what a consumer got before and does not get now, what one group gets
twice, what a client does now and did not do before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple

from wiredecode.check.codes import CODES
from wiredecode.check.exchanges import NO_CHECKS
from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flow, Flows, Party
from wiredecode.flows.intervals import Intervals
from wiredecode.flows.table import ClientFlow, Subject, Topic, grouped, log_of, sides_of, skipped, topics_of
from wiredecode.frames.escape import counted
from wiredecode.patterns import pattern
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.shared.advertised import host_of
from wiredecode.protocols.shared.facts import BLOCKED, DELETED, MADE
from wiredecode.protocols.shared.flows import FIRST, LATEST
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Checks, Moment, Problem, Rule

FEW, MANY = 5, 20
"""Messages, connections or times that are enough to be meant, and that are many."""
MOMENT_NS, WHILE_NS, HUNG_NS = 1_000_000_000, 2_000_000_000, 5_000_000_000
"""Times of both ends that differ by less are the same; how long something lasts that is no accident."""
MAX_CIRCLE = 4
"""Clients of a circle in which messages go round."""
LIVES = 3
"""Beginnings of a member of a group, from this number on it does not mean to read all."""
MOST, PARTITIONS = 0.8, 3
"""Share of the messages in one of several partitions that is uneven."""
ALIKE, MIN_WORD = 0.85, 4
"""Likeness and length of words that may have been mixed up: an added, missing or wrong letter."""
HURRIED_NS = 50_000_000
"""A client that asks in vain more often than once in this time asks in a loop."""
MAX_TOPICS = 100
"""A client that writes to more topics makes their names, of ids and the like."""
SHORT_NS = 5_000_000_000
"""A connection that a client opens for a message lives no longer."""
INSTANCE = pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8,}|\d+")
"""Parts of a name in which instances of one service differ."""
OFFSET = pattern(r"offset \d+")
DIGITS = pattern(r"\d+")
ROLES = frozenset({"locator", "producer", "consumer", "publisher", "subscriber", "client", "connection"})
"""Words that client libraries put before the name of the application."""
TOKEN = pattern(r"[^-_.:#/@]+")


def service_of(name: str) -> str:
    """The first word of a client's name, without the number or id of its instance."""
    words = TOKEN.findall(INSTANCE.sub("", name.lower()))
    return next((each for each in words if each not in ROLES), words[0] if words else "")


def changes(before: Party, now: Party) -> str:
    """Changes of a client: ``it logged in as billing, before orders``; empty: none is known."""
    pairs = (
        ("logged in as {}", before.user, now.user),
        ("uses {}", space_of(before), space_of(now)),
        ("joined group {}", before.group, now.group),
        ("is connected to {}", before.server.rpartition(":")[0], now.server.rpartition(":")[0]),
        ("runs on {}", before.host, now.host),
    )
    texts = [f"it {text.format(new)}, before {old}" for text, old, new in pairs if old and new and old != new]
    return "; ".join(texts[:2])


def space_of(party: Party) -> str:
    """``account ORD``, in the words of its protocol."""
    return f"{(checks_of(party.protocol) or NO_CHECKS).space} {party.space}" if party.space else ""


def types_of(checks: Checks) -> frozenset[str]:
    """The types of frames of a protocol that :class:`FlowRule` gets."""
    return frozenset().union(*(reader.types for reader in checks.flows))


@dataclass(eq=False)
class FlowRule(Rule):
    """Follows the messages of all protocols."""

    flows: Flows = field(default_factory=Flows)
    """Gets the frames."""
    _consumers: dict[tuple[int, str], list[ClientFlow]] = field(default_factory=dict)
    """At the end: flows to clients by connection and group, also those without messages."""
    _storing: dict[tuple[str, str], list[ClientFlow]] = field(default_factory=dict)
    """At the end: flows of clients that note where they are, by host, and by name and by group."""

    def finish(self) -> None:
        every = sides_of(self.flows)
        self._parties, self._reported = self.flows.parties(), set[str]()
        clients = grouped(self._parties.values(), lambda party: (party.name, party.host))
        self._until = {client: max(each.until_ns for each in some) for client, some in clients.items()}
        self._index([side for side in every if side.flow.key.delivers])
        topics = topics_of(every)
        self._sent = sides = [side for topic in topics for side in topic.publishers]
        self._moved(topics)
        self._never_began(topics)
        self._unread(topics)
        self._churn(sides)
        self._group_changes(topics)
        for topic in topics:
            self._nothing_since(topic)
            self._hungry(topic)
            self._stopped(topic)
            self._sated(topic)
            self._mixed(topic)
            self._beyond(topic)
            self._left_behind(topic, topics)
            self._read_again(topic)
            self._skipped(topic)
            self._lost(topic)
            self._uneven(topic)
        self._dropped(topics)
        self._loops(every, topics)
        self._strangers(topics)
        self._shared_positions()
        for label, some in by_label(sides).items():
            self._waits(label, some)
        self._polls()
        self._commits(topics)

    def _index(self, consumers: Sequence[ClientFlow]) -> None:
        self._consumers = grouped(consumers, lambda side: (side.party.connection, side.flow.key.group))
        self._storing = {}
        for side in (each for each in consumers if each.flow.stores):
            for name in {side.party.name, side.flow.key.group} - {""}:
                self._storing.setdefault((name, side.party.host), []).append(side)

    def _add(self, code: str, title: str, key: Any, sides: Sequence[ClientFlow], **how: Any) -> Problem:
        """A problem of these flows; the first one is the one that it is about."""
        since_ns, until_ns = how.pop("since_ns", sides[0].flow.first_ns), how.pop("until_ns", sides[0].flow.last_ns)
        connections = self.flows.connections
        at = Moment(connections[sides[0].party.connection], since_ns)
        problem = self.report.add(CODES[code], title, key, frame=at, until_ns=until_ns, **how)
        for side in sides[:MAX_EVIDENCE]:
            self.report.concerns(problem, connections[side.party.connection])
        for number in sides[0].flow.frames:
            if len(problem.frames) < MAX_EVIDENCE and number not in problem.frames:
                problem.frames.append(number)
        problem.weight, problem.alike = max(problem.weight, problem.count), sides[0].party.label
        return problem

    # Messages without a consumer.

    def _moved(self, topics: Sequence[Topic]) -> None:
        """A publisher's messages go elsewhere, and do not reach who got the earlier ones, since it came back."""
        written: dict[str, list[Topic]] = {}
        for topic in topics:
            for label in by_label(topic.publishers):
                written.setdefault(label, []).append(topic)
        for topic in topics:
            for label, now in by_label(topic.publishers).items():
                total, first_ns = sum(each.flow.messages for each in now), min(each.flow.first_ns for each in now)
                last_ns = max(each.flow.last_ns for each in now)
                arrived = [each for each in topic.consumers if each.flow.messages and each.flow.last_ns >= first_ns]
                if total < FEW or last_ns - first_ns < MOMENT_NS or not all(each.party.is_whole for each in now):
                    continue
                for other in written[label] if len(written[label]) <= MAX_TOPICS else ():
                    before = [each for each in other.publishers if each.party.label == label]
                    if other is topic or (arrived and not renamed(now, before, topic, other)):
                        continue
                    readers = without(other.consumers, arrived)
                    if self._left(now, before, readers, first_ns, last_ns):
                        self._report_moved(label, total, topic, now, other, before, readers, arrived)
                        break

    def _left(
        self,
        now: Sequence[ClientFlow],
        before: Sequence[ClientFlow],
        consumers: Sequence[ClientFlow],
        first_ns: int,
        last_ns: int,
    ) -> bool:
        """Whether a publisher wrote to a topic before only, and its consumers are still there."""
        if not before or max(each.flow.last_ns for each in before) > first_ns + MOMENT_NS:
            return False
        own = {each.party.connection for each in now}
        began_ns = min(each.party.since_ns for each in now)
        if not all(each.party.connection in own or each.party.until_ns <= began_ns + MOMENT_NS for each in before):
            return False  # two instances, each with its topic
        half_ns = (first_ns + last_ns) // 2
        got = [each for each in consumers if each.flow.messages and each.flow.first_ns <= first_ns + MOMENT_NS]
        there = any(each.party.is_open or each.party.until_ns >= half_ns for each in got)
        return there and not any(each.flow.last_ns > first_ns + WHILE_NS for each in got)

    def _report_moved(
        self,
        label: str,
        total: int,
        topic: Topic,
        now: Sequence[ClientFlow],
        other: Topic,
        before: Sequence[ClientFlow],
        consumers: Sequence[ClientFlow],
        arrived: Sequence[ClientFlow],
    ) -> None:
        readers = [each for each in consumers if each.flow.messages]
        who = ", ".join(dict.fromkeys(each.party.label for each in readers))
        since = self.report.seconds(min(each.flow.first_ns for each in now))
        name = topic.subject[2]
        where = "" if name == other.subject[2] else f", before to {other.subject[2]}"
        fate = "do not reach all consumers" if arrived else "reach no consumer"
        title = f"{total:,} messages of {label} to {name} since {since} {fate}{where}: {who} got the earlier ones"
        problem = self._add("flow.no-consumer", title, (label, topic.subject), [*now, *before, *readers], count=total)
        change = changes(before[-1].party, now[0].party)
        if where:
            problem.detail(
                f"{label} published to {other.subject[2]} until {self.report.seconds(before[-1].flow.last_ns)}"
            )
            problem.likely = "the name is wrong: the topic, stream or subject that it publishes to was changed"
        if change:
            problem.likely = change
        if arrived:
            problem.detail(f"{', '.join(by_label(arrived))} gets them")
            problem.likely = (
                "the name was changed, and its consumers do not all know the new one: a filter, a subscription"
            )
        problem.detail(f"{who} is still connected, and got {sum(each.flow.messages for each in readers):,} messages")
        problem.to_end = max(each.flow.last_ns for each in now) >= self.report.last_ns - WHILE_NS

    def _never_began(self, topics: Sequence[Topic]) -> None:
        """A consumer waits for messages of a name that is nearly the one to which messages are published."""
        waiting = [
            each for each in topics if not each.publishers and not any(some.flow.messages for some in each.consumers)
        ]
        for topic in topics if waiting else ():
            total = sum(each.flow.messages for each in topic.publishers)
            if total < FEW or not all(each.party.is_whole for each in topic.publishers):
                continue
            first_ns = min(each.flow.first_ns for each in topic.publishers)
            last_ns = max(each.flow.last_ns for each in topic.publishers)
            for other in waiting[:MAX_TOPICS] if last_ns - first_ns >= WHILE_NS else ():
                readers = [each for each in other.consumers if min(each.flow.starts)[0] <= (first_ns + last_ns) // 2]
                readers = [each for each in readers if each.party.is_open or each.party.until_ns >= last_ns - WHILE_NS]
                both = {each.party.label for each in readers} & {each.party.label for each in topic.consumers}
                if readers and not both and (how := differ(topic.subject, other.subject)):
                    self._report_apart(topic, other, readers, how, total)
                    break

    def _report_apart(self, topic: Topic, other: Topic, readers: Sequence[ClientFlow], how: str, total: int) -> None:
        who, reader, others = topic.publishers[0].party, readers[0].party, [*by_label(topic.consumers)]
        name, wanted = topic.subject[2], other.subject[2]
        title = (
            f"{reader.label} waits for {wanted} and gets nothing, while {total:,} messages of {who.label} go to {name}"
        )
        severity = "note" if name == wanted else "warning" if others else "error"  # each may have a partner elsewhere
        if name == wanted and others:
            return
        sides = [*readers, *topic.publishers]
        times = {"since_ns": topic.publishers[0].flow.first_ns, "until_ns": topic.publishers[0].flow.last_ns}
        problem = self._add("flow.never-began", title, topic.subject, sides, count=total, severity=severity, **times)
        problem.likely = how
        problem.detail(f"{', '.join(others)} gets them" if others else "no consumer gets them")
        if name == wanted:
            problem.detail(f"{who.label}: {space_of(who)}; {reader.label}: {space_of(reader)}")
        problem.to_end = max(each.flow.last_ns for each in topic.publishers) >= self.report.last_ns - WHILE_NS

    def _unread(self, topics: Sequence[Topic]) -> None:
        """One of the partitions that a publisher writes to has no consumer, and the others have one."""
        hosts: dict[str, set[str]] = {}
        for party in self._parties.values():
            hosts.setdefault(party.server, set()).add(party.host)
        slots = [slot for topic in topics for slot in slots_of(topic)]
        for family in grouped(slots, lambda slot: slot.family).values():
            read = [each for each in family if any(has_offsets(side.flow) for side in each.consumers)]
            if len(read) * 2 <= len(family) * (family[0].number is None):
                continue  # no partitions of one topic, and most have no consumer here: they are elsewhere
            writers = {side.party.label for each in read for side in each.publishers}
            for slot in family:
                own = [side for side in slot.publishers if side.party.label in writers and side.party.is_whole]
                total, servers = sum(side.flow.messages for side in own), {side.party.server for side in own}
                seen = any(len(hosts[each]) > 1 or host_of(each) in hosts[each] for each in servers)
                lasts = (
                    0 if not own else max(each.flow.last_ns for each in own) - min(each.flow.first_ns for each in own)
                )
                if slot.consumers or total < MANY or lasts < WHILE_NS or not seen:
                    continue
                self._report_unread(slot, own, read, total)

    def _report_unread(
        self, slot: PartitionFlows, own: Sequence[ClientFlow], read: Sequence[PartitionFlows], total: int
    ) -> None:
        readers = [side for each in read for side in each.consumers if has_offsets(side.flow)]
        who, names = ", ".join(by_label(readers)), ", ".join(each.name for each in read[:MAX_EVIDENCE])
        title = f"no consumer reads {slot.name}: {total:,} messages of {own[0].party.label} lie there"
        title += f", and {who} {'read' if ',' in who else 'reads'} {names}"
        until_ns = max(each.flow.last_ns for each in own)
        problem = self._add("flow.unread", title, slot.name, [*own, *readers], until_ns=until_ns, count=total)
        problem.to_end = until_ns >= self.report.last_ns - WHILE_NS

    def _nothing_since(self, topic: Topic) -> None:
        """A consumer to which messages are pushed gets none, though they are published and others wait for nothing."""
        name = topic.subject[2]
        for sides in by_label(topic.consumers, group=True).values():
            came = [each for each in sides if each.flow.messages]
            if not any(each.flow.log for each in came):
                continue  # no stream pushes them: consumers ask, and rules about credit and fetches say more
            last_ns, latest = max((each.flow.last_ns, each.party.until_ns) for each in came)
            after = sum(
                messages_after(each.flow, last_ns + MOMENT_NS) for each in topic.publishers if each.party.is_whole
            )
            if after < MANY or latest - last_ns < WHILE_NS:
                continue
            own = self._all_of(sides)
            asks = any(each.flow.pulls or each.flow.stores for each in own)
            got, acked = sum(each.flow.messages for each in own), sum(each.flow.stores for each in own)
            unheard = acked >= MOST * got and not any(each.flow.confirmed for each in topic.publishers)
            if any(each.flow.left_ns > last_ns for each in own) or (asks and not unheard):
                continue  # it left, or asks and acknowledges: what it does not do other rules say
            who = came[0].label
            title = f"{who} gets nothing of {name} since {self.report.seconds(last_ns)}, while {after:,} were published"
            problem = self._add(
                "flow.nothing-since",
                title,
                (who, topic.subject),
                came,
                since_ns=last_ns,
                until_ns=latest,
                count=after,
            )
            if asks:
                problem.likely = (
                    "its stream stores nothing more: it is full, or was deleted, and publishes ask for no ack"
                )
            if any(each.flow.stalled for each in own):
                problem.likely = (
                    "the client does not answer the server's flow control requests: the server waits for it"
                )

    def _hungry(self, topic: Topic) -> None:
        """A consumer of a partition gets nothing more, though it is there, and no other one of its group does."""
        for side in topic.consumers:
            number, last_ns, party = side.flow.key.partition, side.flow.last_ns, side.party
            if number is None or not last_ns or not party.is_whole:
                continue
            sent = [each for each in topic.publishers if each.flow.key.partition == number and each.party.is_whole]
            until_ns = self._until[party.name, party.host]
            until_ns = min(until_ns, max((each.flow.last_ns for each in sent), default=0))
            after = sum(messages_after(each.flow, last_ns + MOMENT_NS) for each in sent)
            after -= sum(messages_after(each.flow, until_ns) for each in sent)
            peers = (each for each in topic.consumers if each.flow.key.partition == number)
            peers = (each for each in peers if each.group == side.group or each.party.label == party.label)
            if after < MANY or until_ns - last_ns < HUNG_NS or any(each.flow.last_ns > last_ns for each in peers):
                continue
            name = f"{topic.subject[2]}[{number}]"
            if self.report.facts.of(BLOCKED, name):
                continue  # it reads committed messages only
            since = self.report.seconds(last_ns)
            title = f"{side.label} gets nothing of {name} since {since}, while {after:,} were published"
            times = {"since_ns": last_ns, "until_ns": until_ns, "count": after}
            problem = self._add("flow.nothing-since", title, (side.label, topic.subject, number), [side], **times)
            problem.likely = "it asks for no more: it hangs in its work on earlier messages, or it was paused"
            problem.detail("its group still counts on it: no other member gets them" if side.group else "")

    def _stopped(self, topic: Topic) -> None:
        """All consumers of a group got what was published until a time, and nothing since, without offsets."""
        if any(each.flow.offsets.begins or each.flow.pulls for each in (*topic.publishers, *topic.consumers)):
            return
        for group, sides in grouped(topic.consumers, lambda side: side.group or side.label).items():
            came = [each for each in sides if each.flow.messages]
            own = {each.party.connection for each in came}
            sent = [each for each in topic.publishers if each.party.connection not in own]
            if came and sent and all(each.party.is_whole for each in (*came, *sent)):
                self._report_stopped(topic, group, came, sent)

    def _report_stopped(self, topic: Topic, group: str, came: Sequence[ClientFlow], sent: Sequence[ClientFlow]) -> None:
        last_ns, latest_ns = max(each.flow.last_ns for each in came), max(each.party.until_ns for each in came)
        if any(each.party.is_open for each in came):
            latest_ns = max(latest_ns, self.report.last_ns)
        until_ns = min(latest_ns, max(each.flow.last_ns for each in sent))
        after = sum(messages_after(each.flow, last_ns) for each in sent)
        got, before = sum(each.flow.messages for each in came), sum(each.flow.messages for each in sent) - after
        if min(got, before) < FEW or after < MANY or until_ns - last_ns < WHILE_NS:
            return
        left = any(each.flow.left_ns for each in self._all_of(came))
        if left or self._waits_for_acks(came) or not MOST <= got / before <= 1 / MOST:
            return
        since, name = self.report.seconds(last_ns), topic.subject[2]
        title = f"{group} gets nothing of {name} since {since}, while {after:,} were published"
        times = {"since_ns": last_ns, "until_ns": until_ns, "count": after}
        problem = self._add("flow.nothing-since", title, (group, topic.subject), came, **times)
        problem.detail(f"until then it got {got:,} of {before:,} messages")

    def _sated(self, topic: Topic) -> None:
        """A consumer that asked for a number of messages has them, and stays there without asking for more."""
        for side in (each for each in topic.consumers if each.flow.limit > 1):
            own = {each.flow.key.topic for each in self._all_of([side]) if each.flow.messages}
            sent = [each for each in self._sent if each.flow.key.topic in own and each.party.space == side.party.space]
            after, left_ns = sum(messages_after(each.flow, side.flow.left_ns) for each in sent), side.flow.left_ns
            again, until_ns = any(at_ns > left_ns for at_ns, _ in side.flow.starts), side.party.until_ns
            until_ns = min(max((each.flow.last_ns for each in sent), default=0), until_ns)
            if again or after < MANY or until_ns - left_ns < WHILE_NS:
                continue
            title = f"{side.party.label} gets nothing of {topic.subject[2]} since {self.report.seconds(left_ns)}"
            title += f", while {after:,} were published: it had asked for {side.flow.limit:,} messages and no more"
            times = {"since_ns": left_ns, "until_ns": self.report.last_ns, "count": after, "severity": "warning"}
            problem = self._add("flow.nothing-since", title, (side.label, topic.subject), [side, *sent], **times)
            problem.likely = "the program limits its subscription, such as an automatic unsubscribe of NATS"

    def _waits_for_acks(self, sides: Sequence[ClientFlow]) -> bool:
        """Whether bytes to a client are on their way: the path is the problem."""
        health = (self.flows.connections[each.party.connection].health for each in sides)
        return any(each is not None and any(side.unacknowledged for side in each.directions) for each in health)

    def _loops(self, sides: Sequence[ClientFlow], topics: Sequence[Topic]) -> None:
        """Clients pass messages on in a circle: each one passes on more than was put in."""
        passing = [each for each in sides if each.flow.circling >= FEW or each.flow.rounds >= MANY]
        sent = {topic.subject: sum(each.flow.messages for each in topic.publishers) for topic in topics}
        seen: set[frozenset[int]] = set()
        for circle in circles_of(passing):
            put_in = sum(sent.get(subject_of(each), 0) - each.flow.passed for each in circle)
            members = frozenset(id(each) for each in circle)
            if members in seen or min(each.flow.passed for each in circle) <= max(put_in, 0):
                continue
            seen.add(members)
            ways = (f"{each.party.label} passes {each.flow.key.group} on to {each.flow.key.topic}" for each in circle)
            count, now = sum(each.flow.passed for each in circle), circle[0]
            title = f"messages go round: {', '.join(ways)}, {count:,} times"
            problem = self._add("flow.loop", title, members, circle, since_ns=now.party.since_ns, count=count)
            problem.last_ns = max(each.party.until_ns for each in circle)

    def _all_of(self, sides: Sequence[ClientFlow]) -> list[ClientFlow]:
        """The flows of the same consumers, also without messages."""
        keys = {(each.party.connection, each.flow.key.group) for each in sides}
        return [side for key in keys for side in self._consumers[key]]

    # Messages that come twice, or never.

    def _mixed(self, topic: Topic) -> None:
        """One instance of a service subscribes without the queue group of the others: each message goes to both."""
        served = [each for each in topic.consumers if each.flow.messages and not each.flow.log and each.party.name]
        for service, sides in grouped(served, lambda side: service_of(side.party.name)).items():
            alone = [each for each in sides if not each.group and each.flow.messages >= FEW]
            others = [each for each in sides if each.group and not is_library(each.party)]
            for now in alone if service else ():
                together = [
                    each for each in others if _overlaps(each.party, now.party) and each.party.name != now.party.name
                ]
                if not together or now.flow.key.partition is not None:
                    continue
                group, name, count = together[0].group, topic.subject[2], now.flow.messages
                title = (
                    f"{now.party.label} reads {name} without a queue group, and {together[0].party.label} in {group}: "
                )
                title += f"{count:,} messages went to both"
                key, sides = (now.party.label, topic.subject), [now, *together]
                problem = self._add("flow.done-twice", title, key, sides, count=count)
                problem.likely = f"it was deployed without the queue group of the others, {group}"

    def _beyond(self, topic: Topic) -> None:
        """A consumer begins at an offset that the log does not reach yet, and gets nothing that is published."""
        for side in topic.consumers:
            asked = [(at_ns, int(start[7:])) for at_ns, start in side.flow.starts if OFFSET.fullmatch(start)]
            if side.flow.messages or not asked or not side.party.is_whole:
                continue
            at_ns, offset = asked[-1]
            others = (each.flow for each in topic.consumers if each.flow.last_ns > at_ns and each.flow.offsets.ends)
            end = max((each.offsets.ends[-1] for each in others), default=offset)
            sent = [each for each in topic.publishers if each.party.is_whole]
            after = sum(messages_after(each.flow, at_ns) for each in sent)
            if offset <= end or after < MANY:  # it waits for what comes next
                continue
            name = topic.subject[2]
            title = f"{side.label} begins {name} at offset {offset:,} and gets nothing, while {after:,} were published"
            times = {"since_ns": at_ns, "until_ns": max(each.flow.last_ns for each in sent), "count": after}
            problem = self._add("flow.nothing-since", title, (side.label, topic.subject, offset), [side], **times)
            problem.detail(f"others are at offset {end - 1:,}: it gets messages from {offset:,} on")
            problem.likely = "its position is one of another log: of another stream, or of an earlier one of this name"
            if made := self.report.facts.of(DELETED, name):
                problem.likely = f"{made[-1].by} deleted {name} at {self.report.seconds(made[-1].since_ns)}: "
                problem.likely += "it was made anew, and offsets begin again"

    def _left_behind(self, topic: Topic, topics: Sequence[Topic]) -> None:
        """All consumers of a topic went to another one, and a publisher still writes to it."""
        came = [each for each in topic.consumers if each.flow.messages]
        if not came or not topic.publishers or not all(each.party.is_whole for each in (*came, *topic.publishers)):
            return
        last_ns = max(max(each.flow.last_ns, each.party.until_ns) for each in came)
        after = sum(messages_after(each.flow, last_ns + MOMENT_NS) for each in topic.publishers)
        if after < MANY or max(each.flow.last_ns for each in topic.publishers) < last_ns + WHILE_NS:
            return
        labels = {each.party.label for each in came}
        for other in topics:
            new = [each for each in other.consumers if each.flow.messages and each.party.label in labels]
            begun = {each.party.label for each in new if each.flow.first_ns > min(one.flow.last_ns for one in came)}
            if (
                other is topic
                or begun != labels
                or min(each.flow.first_ns for each in new) < min(each.flow.last_ns for each in came)
            ):
                continue
            late = [each for each in topic.publishers if messages_after(each.flow, last_ns + MOMENT_NS)]
            name, who = topic.subject[2], ", ".join(by_label(late))
            title = f"{after:,} messages of {who} to {name} reach no consumer: {' and '.join(sorted(labels))} left it"
            title += f" for {other.subject[2]}"
            times = {"since_ns": last_ns, "until_ns": max(each.flow.last_ns for each in late), "count": after}
            problem = self._add("flow.no-consumer", title, (name, other.subject), late, **times)
            problem.likely = f"{who} still has the old name, {name}"
            return

    def _dropped(self, topics: Sequence[Topic]) -> None:
        """A consumer never got messages that its stream had confirmed, though it got later ones on the same subject."""
        consumers = [each for topic in topics for each in topic.consumers if each.flow.log and each.flow.numbers.begins]
        by_subject = {topic.subject: topic for topic in topics}
        for (*log, group), sides in grouped(consumers, log_and_group).items():
            numbers = Intervals()
            for each in sides:
                numbers.update(each.flow.numbers)
            if numbers.holes() or not all(each.party.is_whole for each in sides):
                continue  # other clients got some, or the capture lost some
            lost = sent = 0
            for name in sorted({each.flow.key.topic for each in sides} - self._reported):
                one, both = lost_in(by_subject[log[0], log[1], name], group)
                lost, sent = lost + one, sent + both
            if lost < MANY or lost * 10 < sent:
                continue
            name = " and ".join(by_label(sides))
            title = (
                f"{name} never got {lost:,} of {sent:,} messages that {log[-1]} had confirmed, though it got later ones"
            )
            problem = self._add("flow.skipped", title, (group, *log), sides, count=lost)
            problem.likely = (
                "the stream dropped them before they were read: max_msgs_per_subject, max_age or another limit"
            )

    def _read_again(self, topic: Topic) -> None:
        """A consumer that came back got messages again that it had, though it notes where it is."""
        for label, sides in by_label(topic.consumers, group=True).items():
            found: list[tuple[ClientFlow, ClientFlow, int]] = []
            for now in (each for each in sides if each.flow.offsets.begins):
                earlier = [each for each in sides if each.party.until_ns <= now.party.since_ns + MOMENT_NS]
                earlier = [each for each in earlier if log_of(each.flow) == log_of(now.flow) and each is not now]
                had = Intervals()
                for each in earlier:
                    had.update(each.flow.offsets)
                count = sum(had.within(begin, end) for begin, end in now.flow.offsets)
                if earlier and count:
                    found.append((earlier[-1], now, count))
            count = sum(each for *_, each in found)
            if count < MANY or not self._resumes(sides):
                continue
            before, now, _ = found[0]
            when, name = self.report.seconds(now.flow.first_ns), topic.subject[2]
            title = f"{label} got {count:,} messages of {name} again after it came back at {when}"
            problem = self._add("flow.read-again", title, (label, topic.subject), [now, before], count=count)
            stored = max(each.flow.stored for each in sides)
            had_to = max(each.flow.offsets.ends[-1] - 1 for each in sides if each.flow.offsets.ends and each is not now)
            problem.detail(
                f"it had messages up to offset {had_to:,}, and began again at {now.flow.offsets.begins[0]:,}"
            )
            if not self._stores(sides):
                problem.likely = "it never commits or stores where it is: each time it comes back it begins anew"
            if stored >= 0:
                problem.detail(f"the offset that it stored or committed last before: {stored_before(sides, now):,}")

    def _resumes(self, sides: Sequence[ClientFlow]) -> bool:
        """Whether a consumer means to continue where it was: it notes its offset, and does not ask for all."""
        if any(
            start == FIRST for each in sides for at_ns, start in each.flow.starts if at_ns > sides[0].party.until_ns
        ):
            again = len({each.party.connection for each in sides if each.flow.again or each.flow.messages >= MANY})
            member = any(each.party.group for each in sides) or any(each.group for each in sides)
            return any(each.flow.stores for each in self._stores(sides)) or (member and again >= LIVES)
        return any(each.group for each in sides) or any(each.flow.stores for each in self._stores(sides))

    def _stores(self, sides: Sequence[ClientFlow]) -> list[ClientFlow]:
        """The flows of the same clients that note where they are, on any of their connections, or under their name."""
        named = ((name, each.party.host) for each in sides for name in (each.party.name, each.group) if name)
        who = dict.fromkeys(named)
        return [*{id(side): side for one in who for side in self._storing.get(one, ())}.values()]

    def _skipped(self, topic: Topic) -> None:
        """A consumer never got what was written while it was away."""
        known = (each for each in topic.consumers if each.flow.offsets.begins)
        by_party = grouped(known, lambda side: (side.party.name or side.party.host, side.party.host))
        for (name, _), sides in by_party.items():
            if not all(each.party.is_whole for each in sides):
                continue  # it may have got what the capture lost
            if len({each.group for each in sides}) > 1 and is_library(sides[0].party):
                continue
            groups = {each.group for each in sides} - {""}
            peers = [each.flow for each in topic.consumers if each.group in groups]
            holes = skipped([*{id(flow): flow for flow in (*(each.flow for each in sides), *peers)}.values()])
            holes = [(log, begin, end) for log, begin, end in holes if self._was_written(topic, log, begin, end)]
            count = sum(end - begin for *_, begin, end in holes)
            if count < FEW * 2:
                continue
            log, begin, end = max(holes, key=lambda hole: hole[2] - hole[1])
            own = sorted((each for each in sides if log_of(each.flow) == log), key=lambda each: each.flow.first_ns)
            now = next((each for each in own if each.flow.offsets.begins[0] >= end), own[-1])
            before = [each for each in own if each.flow.offsets.ends[-1] <= begin] or own[:1]
            away = f"{self.report.seconds(before[-1].flow.last_ns)} to {self.report.seconds(now.flow.first_ns)}"
            title = f"{name} never got {count:,} messages of {topic.subject[2]}: it got none from {away}"
            meant = now.flow.log or before[-1].group != now.group or self._stores(sides)
            how: dict[str, Any] = {
                "count": count,
                "severity": None if meant else "warning",
            }  # it may want the newest only
            self._reported.add(topic.subject[2])
            problem = self._add("flow.skipped", title, (name, topic.subject), [now, *before], **how)
            problem.first_ns = before[-1].flow.last_ns
            problem.detail(f"offsets {begin:,} to {end - 1:,} went to none of its connections, later ones did")
            if any(start == LATEST for _, start in now.flow.starts):
                problem.likely = "it began with the newest messages (latest, next), and not where it had stopped"
            elif now.flow.log:
                problem.likely = (
                    "the stream had dropped them before they were read: its limits, or its retention (interest)"
                )
            elif any(start == FIRST for _, start in now.flow.starts):
                problem.likely = (
                    "retention had deleted them before they were read: it began with the first message there was"
                )
            if before[-1].group != now.group and not changes(before[-1].party, now.party):
                problem.detail(f"it reads in group {now.group}, before {before[-1].group}")

    def _was_written(self, topic: Topic, log: tuple[str, int | None], begin: int, end: int) -> bool:
        """Whether publishers of the capture wrote what is in a hole."""
        sent = [each.flow for each in topic.publishers if log_of(each.flow) == log or not each.flow.offsets.begins]
        if any(each.offsets.begins for each in sent):
            return sum(each.offsets.within(begin, end) for each in sent) * 2 >= end - begin
        return sum(each.confirmed for each in sent) >= end - begin

    def _lost(self, topic: Topic) -> None:
        """Offsets that brokers give go back: what one had confirmed, another one does not have."""
        stored = (each for each in topic.publishers if each.flow.offsets.begins)
        for log, sides in grouped(stored, lambda side: log_of(side.flow)).items():
            for before, now in pairwise(sorted(sides, key=lambda each: each.flow.first_ns)):
                end, begin = before.flow.offsets.ends[-1], now.flow.offsets.begins[0]
                old, new = before.party.server, now.party.server
                apart = before.flow.times.entries and now.flow.times.entries and old != new
                later = apart and now.flow.times.entries[0][2] >= before.flow.times.entries[-1][2]
                made = self.report.facts.whole(DELETED, log[0]) or self.report.facts.whole(MADE, log[0])
                if not later or begin >= end or (made and not begin) or now.flow.offsets.within(begin, end) < FEW:
                    continue
                part = "" if log[1] is None else f"[{log[1]}]"
                title = f"{end - begin:,} confirmed messages of {log[0]}{part} are lost: "
                title += f"{new} confirms offset {begin:,} after {old} had confirmed up to {end - 1:,}"
                self._add("flow.lost", title, (topic.subject, log), [now, before], count=end - begin)

    def _group_changes(self, topics: Sequence[Topic]) -> None:
        """A client subscribes in another queue group than before, while the others stay: each message goes to both."""
        for topic in topics:
            for label, sides in by_client(topic.consumers).items():
                ordered = sorted((each for each in sides if each.group), key=lambda each: each.party.since_ns)
                for before, now in pairwise(ordered):
                    apart = before.group != now.group and before.party.until_ns <= now.party.since_ns + MOMENT_NS
                    others = [
                        each
                        for each in topic.consumers
                        if each.group == before.group
                        and each.party.label != label
                        and each.flow.last_ns > now.flow.first_ns > 0
                    ]
                    if not apart or now.flow.log or now.party.host != before.party.host or not others:
                        continue
                    count = now.flow.messages
                    if now.flow.key.partition is not None:
                        own = [each for each in ordered if each.group == now.group]
                        count = shared_offsets(own, others)
                    if count < FEW:
                        continue
                    since, name = self.report.seconds(now.party.since_ns), topic.subject[2]
                    title = f"{label} reads {name} in group {now.group} since {since}, before in {before.group}: "
                    title += f"{count:,} messages went to both groups"
                    key = label, topic.subject
                    self._add("flow.done-twice", title, key, [now, before, *others], count=count)

    # Shared groups and uneven partitions.

    def _strangers(self, topics: Sequence[Topic]) -> None:
        """A second application joins a group, and takes a part of its messages."""
        consumers = (each for topic in topics for each in topic.consumers)
        served = (each for each in consumers if each.group and each.flow.messages)
        for (*log, group), members in grouped(served, log_and_group).items():
            ordered = sorted(members, key=lambda side: side.party.since_ns)
            stems = grouped(ordered, lambda side: service_of(side.party.name))
            stems.pop("", None)
            for first, second in pairwise(stems.values()):
                old, new = first[0].party.name, second[0].party.name
                hosts = {each.party.host for each in first}.isdisjoint(each.party.host for each in second)
                related = are_related(first[0].party, second[0].party)
                together = max(each.flow.last_ns for each in first) > min(each.flow.first_ns for each in second)
                if not hosts or related or not together or sum(each.flow.messages for each in second) < FEW:
                    continue
                since = self.report.seconds(min(each.party.since_ns for each in second))
                title = f"{new} and {old} share group {group}: {new} joined at {since}, "
                title += f"each gets a part of {log[-1]}"
                count = sum(each.flow.messages for each in second)
                problem = self._add("flow.shared-group", title, (group, *log), [*second, *first], count=count)
                for name, sides in ((old, first), (new, second)):
                    got = sum(each.flow.messages for each in sides)
                    problem.detail(f"{name} on {sides[0].party.host} got {got:,} messages")

    def _shared_positions(self) -> None:
        """Two applications store their positions under one name, each over that of the other one."""
        every = {id(side): side for sides in self._storing.values() for side in sides}.values()
        named = [
            each for each in every if each.flow.key.group and not each.flow.log and each.flow.key.partition is None
        ]
        for (*log, group), sides in grouped(named, log_and_group).items():
            for one, other in pairwise(sorted(sides, key=lambda side: side.party.since_ns)):
                apart = one.party.host != other.party.host and not are_related(one.party, other.party)
                if not apart or not _overlaps(one.party, other.party):
                    continue
                who = f"{one.party.label} and {other.party.label}"
                title = f"{who} store their positions in {log[-1]} under one name, {group}"
                count = one.flow.stores + other.flow.stores
                times = {"since_ns": other.party.since_ns, "until_ns": other.party.until_ns, "count": count}
                problem = self._add("flow.shared-group", title, (group, *log), [other, one], severity="error", **times)
                problem.likely = "each begins where the other one was, and leaves messages out or gets them again"
                break

    def _uneven(self, topic: Topic) -> None:
        """Most messages go to one partition, and its consumer lags while others have nothing to do."""
        parts: dict[int, int] = {}
        for each in topic.publishers:
            if each.flow.key.partition is not None:
                parts[each.flow.key.partition] = parts.get(each.flow.key.partition, 0) + each.flow.messages
        total = sum(parts.values())
        if len(parts) < PARTITIONS or total < 100 or max(parts.values()) < MOST * total:
            return
        hot = max(parts, key=lambda number: parts[number])
        lags = {number: self._lag_of(topic, number) for number in parts}
        worst, others = lags[hot], max((lag for number, lag in lags.items() if number != hot), default=0)
        consumers = [each for each in topic.consumers if each.flow.key.partition == hot and each.flow.messages]
        if not consumers or worst < max(MANY, parts[hot] // 10) or worst < 4 * max(others, 1):
            return
        name, publishers = topic.subject[2], [each for each in topic.publishers if each.flow.key.partition == hot]
        title = f"{parts[hot]:,} of {total:,} messages of {name} go to partition {hot}: {consumers[0].party.label} is "
        title += f"{worst:,} messages late there, and other members have nothing to do"
        problem = self._add("flow.uneven", title, topic.subject, [*publishers, *consumers], count=parts[hot])
        problem.detail(
            ", ".join(f"{name}[{number}]: {count:,}" for number, count in sorted(parts.items())[:MAX_EVIDENCE])
        )

    def _lag_of(self, topic: Topic, partition: int) -> int:
        """Messages of a partition that a group has not committed at the end, or not fetched if it commits nothing."""
        written = [each.flow.offsets.ends[-1] for each in topic.publishers if _ends(each.flow, partition)]
        stored = [each.flow.stored for each in self._stores(topic.consumers) if _stores_in(each.flow, topic, partition)]
        fetched = [each.flow.offsets.ends[-1] for each in topic.consumers if _ends(each.flow, partition)]
        done = stored or fetched
        return max(max(written) - max(done), 0) if written and done else 0

    # Waits and work by choice.

    def _waits(self, label: str, sides: Sequence[ClientFlow]) -> None:
        """Messages wait in their client for others since it came back."""
        slow = [each for each in sides if each.flow.batches >= 2 and each.flow.waits * 2 >= each.flow.batches]
        quick = [each for each in sides if each.flow.batches >= FEW and not each.flow.waits]
        if not slow or sum(each.flow.waits for each in slow) < FEW:
            return
        first_ns, longest = min(each.flow.first_ns for each in slow), max(each.flow.waited_ns for each in slow)
        before = [each for each in quick if each.flow.last_ns <= first_ns + MOMENT_NS]
        messages = sum(each.flow.messages for each in slow)
        title = f"messages of {label} wait up to {longest / 1e9:.1f} s in it before it sends them"
        title += f", since {self.report.seconds(first_ns)}" if before else ""
        severity = None if before else "note"
        problem = self._add("flow.waits", title, label, [*slow, *before], count=messages, severity=severity)
        problem.detail(f"{messages:,} messages in {counted(sum(each.flow.batches for each in slow), 'batch', 'es')}")
        if before:
            sent = sum(each.flow.batches for each in before)
            problem.detail(f"before: {sum(each.flow.messages for each in before):,} in {counted(sent, 'batch', 'es')}")

    def _churn(self, sides: Sequence[ClientFlow]) -> None:
        """A client opens a connection for each message, or nearly so."""
        for label, own in by_label(sides).items():
            short = [each for each in own if each.flow.messages <= 2 and not each.flow.refused]
            unconfirmed = (
                sum(not each.flow.confirmed for each in short) if any(each.flow.confirmed for each in sides) else 0
            )
            short = short if unconfirmed * 2 <= len(short) else []
            short = [each for each in short if each.party.until_ns - each.party.since_ns <= SHORT_NS]
            connections = {each.party.connection for each in short}
            if len(connections) < MANY:
                continue
            since, until = min(each.party.since_ns for each in short), max(each.party.until_ns for each in short)
            messages = sum(each.flow.messages for each in short)
            title = f"{label} opened {len(connections):,} connections for {messages:,} messages"
            long = [each for each in own if each.flow.messages >= FEW and each.party.connection not in connections]
            how: dict[str, Any] = {"since_ns": since, "until_ns": until, "count": len(connections)}
            problem = self._add("flow.connection-each", title, label, short, severity=None if long else "note", **how)
            if long:
                sent = sum(each.flow.messages for each in long)
                problem.detail(f"before, {counted(len(long), 'connection')} carried {sent:,} messages")

    def _polls(self) -> None:
        """A consumer asks again and again, and nearly always for nothing."""
        for (_, group), sides in self._consumers.items():
            got = sum(each.flow.messages for each in sides)
            for side in sides:
                party, flow = side.party, side.flow
                span_ns = max(party.until_ns - party.since_ns, 1)
                if flow.empty < 5 * MANY or flow.empty < FEW * max(got, 1) or span_ns / flow.empty > HURRIED_NS:
                    continue
                topic, rate = flow.key.topic, flow.empty * 1e9 / span_ns
                title = f"{party.label} asks {topic}, consumer {group}, {rate:,.0f} times a second for messages"
                title += f": {flow.empty:,} of {flow.pulls:,} times there were none"
                times = {"since_ns": party.since_ns, "until_ns": party.until_ns, "count": flow.empty}
                self._add("flow.busy-poll", title, (party.label, topic, group), [side], **times)

    def _commits(self, topics: Sequence[Topic]) -> None:
        """A consumer commits after each message since it came back."""
        for topic in topics:
            rates = []
            consumers = (
                each for each in topic.consumers if each.flow.key.partition is not None
            )  # else it acknowledges
            for sides in by_life(consumers).values():
                stores = [each for each in self._stores(sides) if _overlaps(each.party, sides[0].party)]
                stores = [each for each in stores if each.flow.key.topic == topic.subject[2]]
                moved = sum(each.flow.offsets.ends[-1] - each.flow.offsets.begins[0] for each in sides)
                done = sum(max(each.flow.stored - min(s.flow.offsets.begins[0] for s in sides), 0) for each in stores)
                rates.append((sum(each.flow.stores for each in stores), min(moved, done or moved), sides, stores))
            for (few, many, _, _), (commits, messages, now, stores) in pairwise(rates):
                each_one = commits >= 2 * MANY and commits * 2 >= messages
                rarely = few * FEW <= many and many >= MANY
                if not (each_one and rarely and stores):
                    continue
                label, since = now[0].label, self.report.seconds(now[0].party.since_ns)
                title = f"{label} commits after each message of {topic.subject[2]} since {since}: {commits:,} commits"
                times = {"since_ns": now[0].party.since_ns, "until_ns": now[0].party.until_ns, "count": commits}
                problem = self._add("flow.commit-each", title, (label, topic.subject), [*now, *stores], **times)
                problem.detail(f"before: {few:,} commits for {many:,} messages")


class PartitionFlows(NamedTuple):
    """A partition, or one of several streams or subjects that only a number distinguishes."""

    family: tuple[str, ...]
    name: str
    number: int | None
    publishers: list[ClientFlow]
    consumers: list[ClientFlow]


def renamed(now: Sequence[ClientFlow], before: Sequence[ClientFlow], topic: Topic, other: Topic) -> bool:
    """Whether a publisher came back with another name: one that continues the old one, or is nearly the same."""
    (*_, name), (*_, old) = topic.subject, other.subject
    longer, shorter = max(name, old, key=len), min(name, old, key=len)
    goes_on = longer.startswith(shorter) and not longer[len(shorter) : len(shorter) + 1].isalnum()
    own = {each.party.connection for each in before}
    return not any(each.party.connection in own for each in now) and (
        goes_on or bool(differ(topic.subject, other.subject))
    )


def without(consumers: Sequence[ClientFlow], others: Sequence[ClientFlow]) -> list[ClientFlow]:
    """The consumers that are none of the others, by name."""
    known = {each.label for each in others}
    return [each for each in consumers if each.label not in known]


def subject_of(side: ClientFlow) -> Subject:
    return side.party.protocol, side.party.space, side.flow.key.topic


def circles_of(passing: Sequence[ClientFlow]) -> Iterator[list[ClientFlow]]:
    """Ways of messages that end where they begin, of at most :data:`MAX_CIRCLE` clients."""
    by_origin = grouped(passing, lambda side: (*subject_of(side)[:2], side.flow.key.group))
    ways = [[each] for each in passing]
    for way in ways:
        begin, end = (*subject_of(way[0])[:2], way[0].flow.key.group), subject_of(way[-1])
        if begin == end:
            yield way
        elif len(way) < MAX_CIRCLE:
            ways += [[*way, each] for each in by_origin.get(end, ()) if each not in way][:MAX_CIRCLE]


def shared_offsets(own: Sequence[ClientFlow], others: Sequence[ClientFlow]) -> int:
    """Messages of partitions that both got."""
    pairs = ((one.flow, other.flow) for one in own for other in others if log_of(one.flow) == log_of(other.flow))
    return sum(other.offsets.within(begin, end) for one, other in pairs for begin, end in one.offsets)


def are_related(one: Party, other: Party) -> bool:
    """Whether two clients may be one application, by their names."""
    first, second = service_of(one.name), service_of(other.name)
    return first.startswith(second) or second.startswith(first) or is_library(one) or is_library(other)


def lost_in(topic: Topic, group: str) -> tuple[int, int]:
    """Of the messages of a topic between the first and the last one that a group got: those it did not get, and all."""
    got = Intervals()
    for each in topic.consumers:
        if each.group == group:
            got.update(each.flow.offsets)
    sent = Intervals()
    for each in topic.publishers:
        sent.update(each.flow.offsets)
    if not got.begins:
        return 0, 0
    begin, end = got.begins[0], got.ends[-1]
    both = sum(got.within(max(first, begin), min(last, end)) for first, last in sent if first < end and last > begin)
    return sent.within(begin, end) - both, sent.within(begin, end)


def log_and_group(side: ClientFlow) -> tuple[str, str, str, str]:
    """Protocol, space, log and group of a consumer."""
    return side.party.protocol, side.party.space, side.flow.log or side.flow.key.topic, side.group


def has_offsets(flow: Flow) -> bool:
    """Whether its messages lie in a log of their own, and it had some."""
    return bool(flow.offsets.begins) and not flow.log


def slots_of(topic: Topic) -> Iterator[PartitionFlows]:
    protocol, space, name = topic.subject
    sent, came = (grouped(sides, lambda side: side.flow.key.partition) for sides in (topic.publishers, topic.consumers))
    for number in sent | came:
        whole = name if number is None else f"{name}[{number}]"
        family = protocol, space, DIGITS.sub("#", name) if number is None else name
        yield PartitionFlows(family, whole, number, sent.get(number, []), came.get(number, []))


def differ(one: Subject, other: Subject) -> str:
    """The mistake that may have made two subjects of one; empty: none."""
    if one[0] != other[0]:
        return ""
    if one[2] == other[2]:
        return "both use the same name in different places" if one[1] and other[1] else ""
    if one[1] != other[1]:
        return ""
    if one[2].lower() == other[2].lower():
        return "the names differ in capital letters"
    words, others = TOKEN.findall(one[2]), TOKEN.findall(other[2])
    if others[-1:] == [">"] and len(words) >= len(others):
        words, others = words[: len(others) - 1], others[:-1]
    pairs = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1] and pair[1] != "*"]
    if len(words) != len(others) or len(pairs) != 1:
        return ""
    (word, meant) = pairs[0]
    instances = INSTANCE.sub("", word) == INSTANCE.sub("", meant)
    alike = SequenceMatcher(None, word, meant).ratio() >= ALIKE and len(meant) >= MIN_WORD
    return f"{word} was written for {meant}, or the other way round" if alike and not instances else ""


def messages_after(flow: Flow, time_ns: int) -> int:
    """Messages of a flow later than a time, as far as the times of some of them show."""
    entries = flow.times.entries or flow.unnumbered.entries
    if not entries:
        return flow.messages if flow.first_ns > time_ns else 0
    late = sum(at_ns > time_ns for *_, at_ns in entries)
    return flow.messages * late // len(entries)


def stored_before(sides: Sequence[ClientFlow], now: ClientFlow) -> int:
    """The offset that a consumer had stored before it came back."""
    there = [each.flow.stored for each in sides if each.party.since_ns < now.party.since_ns]
    return max(there, default=-1)


def is_library(party: Party) -> bool:
    """Whether its name is only that of a client library, which many applications have."""
    return bool(party.product) and party.name.lower() in party.product.lower()


def by_label(sides: Iterable[ClientFlow], *, group: bool = False) -> dict[str, list[ClientFlow]]:
    """Flows by their client's name; ``group``: and its group."""
    return grouped(sides, lambda side: side.label if group else side.party.label)


def by_client(sides: Iterable[ClientFlow]) -> dict[str, list[ClientFlow]]:
    """Flows by their client's name, of clients that have one."""
    return grouped((each for each in sides if each.party.name), lambda side: side.party.name)


def by_life(sides: Iterable[ClientFlow]) -> dict[tuple[str, int], list[ClientFlow]]:
    """Flows by client and life: connections that overlap are one life; in order of time."""
    found: dict[tuple[str, int], list[ClientFlow]] = {}
    for label, some in by_label([each for each in sides if each.flow.offsets.begins], group=True).items():
        life, until_ns = 0, 0
        for each in sorted(some, key=lambda side: side.party.since_ns):
            life += each.party.since_ns > until_ns > 0
            until_ns = max(until_ns, each.party.until_ns)
            found.setdefault((label, life), []).append(each)
    return found


def _ends(flow: Flow, partition: int) -> bool:
    return flow.key.partition == partition and bool(flow.offsets.ends)


def _stores_in(flow: Flow, topic: Topic, partition: int) -> bool:
    return flow.key.topic == topic.subject[2] and flow.key.partition == partition


def _overlaps(one: Party, other: Party) -> bool:
    return one.since_ns <= other.until_ns and other.since_ns <= one.until_ns
