"""Consumer groups: members that do not poll, groups that rebalance again and again, and how far groups lag."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.who import short
from wiredecode.net.types import Connection
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import errors_in, partitions
from wiredecode.protocols.kafka.layers_table import ERRORS
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, MOST_KNOWN, POSITION, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Rule, ref_of

Place = tuple[str, int | None]
"""Topic and partition."""
CODES = codes_of("kafka")


class Lags(Gauge):
    """Offsets that groups committed, and how far these are from the end of the partition, by the latest Fetch."""

    types = names.TYPES["lags"]

    def __init__(self) -> None:
        self._ends: Newest[Place, int] = Newest(MOST_KNOWN)
        self._committed: Newest[Place, dict[str, int]] = Newest(MOST_KNOWN)
        """By partition, then by group."""
        self._waiting: Newest[int, tuple[str, dict[Place, int]]] = Newest(MOST_KNOWN)
        """Commits without an answer, by frame."""

    def read(self, frame: Frame) -> Iterator[Measurement]:
        values = frame.values
        if frame.type == "OffsetCommitRequest":
            self._waiting.put(frame.id, (printable(values["group_id"]), self._found(values, "committed_offset")))
        elif frame.type == "OffsetCommitResponse":
            group, offsets = self._waiting.pop(frame.request or 0, ("", {}))
            if not any(errors_in(values)):
                yield from self._commit(group, offsets)
        elif frame.type == "OffsetFetchResponse":
            for each in values.get("groups", ()):
                yield from self._commit(printable(each["group_id"]), self._found(each, "committed_offset"))
        else:
            for place, end in self._found(values, "high_watermark").items():
                if self._ends.get(place) != end:
                    self._ends.put(place, end)
                    yield from self._lag(place, self._committed.get(place, {}))

    def _found(self, values: Mapping[str, Any], name: str) -> dict[Place, int]:
        """A value of each partition; -1 is none."""
        return {(topic, number): each[name] for topic, number, each in partitions(values) if each.get(name, -1) >= 0}

    def _commit(self, group: str, offsets: Mapping[Place, int]) -> Iterator[Measurement]:
        for place, offset in offsets.items():
            groups = self._committed.get_or_make(place, dict)
            if group in groups or len(groups) < MOST_GROUPS:
                groups[group] = offset
            yield Measurement(POSITION, called(place, group), offset, (*place, offset - 1))
            yield from self._lag(place, {group: offset})

    def _lag(self, place: Place, offsets: Mapping[str, int]) -> Iterator[Measurement]:
        """How far the groups are from the end of a partition, if that is known."""
        for group, offset in offsets.items() if place in self._ends else ():
            yield Measurement(LAG, called(place, group), max(self._ends[place] - offset, 0))


def called(place: Place, group: str) -> str:
    return f"{place[0]}[{place[1]}], group {group}"


MOST_GROUPS = 100
"""Groups of a partition whose lag is measured."""
MOST_REMEMBERED = 10_000
"""Clients, brokers, groups and requests that a rule remembers."""
STAYED_NS = 3_000_000_000
"""A member that closes leaves its group this long before the end of its connection at most."""
STORM, STORM_NS = 6, 60_000_000_000
"""So many generations of a group in that time are too many."""
MANY_CRASHES = 3
"""Members that ended without leaving the group, and began at the same offset."""
UNKNOWN_MEMBER, FENCED_EPOCH, ILLEGAL_GENERATION = 25, 110, 22


@dataclass(slots=True)
class Member:
    """A member of a group, by its connection to the coordinator."""

    group: str
    patience_ms: int = 0
    """Longest time between two polls: ``max.poll.interval.ms``."""
    joined_ns: int | None = None
    """Time of the last generation, if it was captured."""
    left: FrameRef | None = None


@dataclass(eq=False)
class Members(Rule):
    """Consumers that leave because they do not poll, and those that the coordinator dropped; groups without rest."""

    types = names.TYPES["members"]
    _members: dict[int, Member] = field(default_factory=dict)
    _groups: Newest[str, deque[tuple[int, int]]] = field(default_factory=lambda: Newest(MOST_REMEMBERED))
    """Number and time of the latest generations."""
    _starts: Newest[str, dict[Place, tuple[int, int]]] = field(default_factory=lambda: Newest(MOST_REMEMBERED))
    """By group and partition: the offset that its members began at, and how many times in a row."""
    _crashes: Counter[str] = field(default_factory=Counter)
    """By group: members that ended without leaving it."""

    def frame(self, frame: Frame) -> None:
        values, number = frame.values, frame.connection.number
        group, member = values.get("group_id"), self._members.get(number)
        if frame.sender == "server":
            if member is not None and frame.request is not None:
                self._answered(frame, member)
        elif isinstance(group, str) and (member is not None or len(self._members) < MOST_REMEMBERED):
            member = self._members.setdefault(number, Member(printable(group)))
            if frame.type == "LeaveGroupRequest":
                member.left = ref_of(frame)
            elif frame.type == "JoinGroupRequest":
                self._report_slow(frame.connection, member, frame.time_ns)
                member.patience_ms = values.get("rebalance_timeout_ms", member.patience_ms)

    def _answered(self, frame: Frame, member: Member) -> None:
        values, commits = frame.values, frame.type == "OffsetCommitResponse"
        if frame.type == "OffsetFetchResponse":
            starts = self._starts.get_or_make(member.group, dict)
            for topic, number, each in partitions(next(iter(values.get("groups") or ()), values)):
                offset, known = each.get("committed_offset", -1), starts.get((topic, number), (-1, 0))
                if (topic, number) in starts or len(starts) < MOST_REMEMBERED:
                    starts[topic, number] = offset, known[1] + 1 if offset == known[0] else 1
            return
        error = next(errors_in(values), 0) if commits else values.get("error", 0)
        if error in (UNKNOWN_MEMBER, FENCED_EPOCH) or (commits and error == ILLEGAL_GENERATION):
            does = "commits" if commits else "asks"
            what = f"{short(frame.connection)} {does}, but is no longer a member of group {member.group}"
            problem = self.report.add(CODES["kicked-out"], what, (frame.connection.number, what), frame=frame)
            problem.detail(f"the coordinator answers {ERRORS[error]}")
        elif not error and frame.type == "SyncGroupResponse":
            member.joined_ns = frame.time_ns
        elif not error:
            self._count(frame, member.group, values.get("generation_id", values.get("member_epoch", -1)))

    def _count(self, frame: Frame, group: str, generation: int) -> None:
        """A new generation of a group."""
        known = self._groups.get_or_make(group, lambda: deque([(0, 0)], maxlen=STORM))
        if known[-1][0] >= generation:
            return
        known.append((generation, frame.time_ns))
        first, first_ns = known[0]
        if len(known) == STORM and frame.time_ns - first_ns <= STORM_NS:
            what = f"group {group} rebalanced {generation - first} times in {(frame.time_ns - first_ns) / 1e9:.1f} s"
            problem = self.report.add(CODES["rebalance-storm"], what, group, frame=frame)
            began = self.report.seconds(frame.time_ns)
            problem.detail(f"generation {generation} began at {began}: {short(frame.connection)}")

    def _report_slow(self, connection: Connection, member: Member, until_ns: int) -> None:
        left, member.left = member.left, None
        patient_ns = member.patience_ms * 1_000_000
        if left is None or (member.joined_ns is not None and left.time_ns - member.joined_ns < patient_ns):
            return
        away = f"{(until_ns - left.time_ns) / 1e9:.3f} s"
        what = f"{short(connection)} left group {member.group} for {away} without closing: it did not poll"
        problem = self.report.add(CODES["max-poll"], what, (connection.number, member.group), frame=left)
        problem.detail(f"max.poll.interval.ms is {member.patience_ms:,} ms")

    def ended(self, connection: Connection) -> None:
        member = self._members.pop(connection.number, None)
        last_ns = connection.health.last_ns if connection.health is not None else 0
        if member is not None and member.left is not None and last_ns - member.left.time_ns >= STAYED_NS:
            self._report_slow(connection, member, last_ns)
        elif member is not None and member.left is None and connection.closed:
            self._crashes[member.group] += len(self._crashes) < MOST_REMEMBERED

    def finish(self) -> None:
        for group, crashes in self._crashes.items():
            problem = self.report.problems.get((CODES["rebalance-storm"].code, group))
            starts = (self._starts.get(group) or {}).items()
            (topic, number), (offset, times) = max(starts, key=lambda each: each[1][1], default=(("", None), (0, 0)))
            if problem is not None and min(crashes, times) >= MANY_CRASHES:
                at = f"offset {offset:,}" if offset >= 0 else "the beginning: nothing was committed"
                began = f"{topic}[{number}] began {times} times at {at}"
                problem.detail(f"{crashes} members ended without leaving; {began}")
                problem.likely = "a message ends its consumers before they commit, and the next one gets it again"
