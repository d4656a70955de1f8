"""Consumer groups: members that do not poll, groups that rebalance again and again, and how far groups lag."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.who import short
from wiredecode.net.types import Connection
from wiredecode.protocols.kafka import names
from wiredecode.protocols.kafka.conversation_values import errors_in, learn_topics, lists_of, number_of, topic_of
from wiredecode.protocols.kafka.layers_table import ERRORS
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.gauges import LAG, MOST_KNOWN, POSITION, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Rule, ref_of

CODES = codes_of("kafka")

# For plots and statistics.


class Lags(Gauge):
    """Offsets that groups committed, and how far these are from the end of the partition, by the latest Fetch."""

    types = names.TYPES["lags"]

    def __init__(self) -> None:
        self._ends: Newest[Place, int] = Newest(MOST_KNOWN)
        self._committed: Newest[Place, dict[str, int]] = Newest(MOST_KNOWN)
        """By partition, then by group."""
        self._waiting: Newest[int, tuple[str, dict[Place, int]]] = Newest(MOST_KNOWN)
        """Commits without an answer, by frame."""
        self._topics: Newest[bytes, str] = Newest(MOST_KNOWN)

    def read(self, frame: Frame) -> Iterator[Measurement]:
        values = frame.values
        if frame.type == "MetadataResponse":
            learn_topics(values, self._topics)
        elif frame.type == "OffsetCommitRequest":
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
                    for group, offset in self._committed.get(place, {}).items():
                        yield self._lag(place, group, offset)

    def _found(self, values: Mapping[str, Any], name: str) -> dict[Place, int]:
        """A value of each partition; -1 is none."""
        return {
            (topic_of(topic, self._topics) or "", number_of(each)): each[name]
            for topic in lists_of(values)
            for each in lists_of(topic)
            if each.get(name, -1) >= 0
        }

    def _commit(self, group: str, offsets: Mapping[Place, int]) -> Iterator[Measurement]:
        for place, offset in offsets.items():
            groups = self._committed.get_or_make(place, dict)
            if group in groups or len(groups) < MOST_GROUPS:
                groups[group] = offset
            yield Measurement(POSITION, called(place, group), offset, (*place, offset - 1))
            if place in self._ends:
                yield self._lag(place, group, offset)

    def _lag(self, place: Place, group: str, offset: int) -> Measurement:
        return Measurement(LAG, called(place, group), max(self._ends[place] - offset, 0))


def called(place: Place, group: str) -> str:
    return f"{place[0]}[{place[1]}], group {group}"


# Rules.

Place = tuple[str, int | None]
"""Topic and partition."""
MOST_GROUPS = 100
"""Groups of a partition whose lag is measured."""
MOST_MEMBERS = 10_000
"""Members, groups and requests that a rule remembers."""
STAYED_NS = 3_000_000_000
"""A member that closes leaves its group this long before the end of its connection at most."""
STORM, STORM_NS = 6, 60_000_000_000
"""So many generations of a group in that time are too many."""
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

    def was_slow(self, time_ns: int) -> bool:
        """Whether it can have exceeded its time."""
        return self.joined_ns is None or time_ns - self.joined_ns >= self.patience_ms * 1_000_000


@dataclass(eq=False)
class Members(Rule):
    """Consumers that leave because they do not poll, and those that the coordinator dropped."""

    types = names.TYPES["members"]
    _members: dict[int, Member] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        values, number = frame.values, frame.connection.number
        if frame.sender == "server":
            self._answered(frame)
            return
        group = values.get("group_id")
        if not isinstance(group, str) or (number not in self._members and len(self._members) >= MOST_MEMBERS):
            return
        member = self._members.setdefault(number, Member(printable(group)))
        if frame.type == "LeaveGroupRequest":
            member.left = ref_of(frame)
        elif frame.type == "JoinGroupRequest":
            if member.left is not None:
                self._report_slow(frame.connection, member, frame.time_ns)
            member.patience_ms = values.get("rebalance_timeout_ms", member.patience_ms)

    def _answered(self, frame: Frame) -> None:
        error, member = frame.values.get("error", 0), self._members.get(frame.connection.number)
        if frame.type == "OffsetCommitResponse":
            partitions = (each for topic in frame.values.get("topics") or () for each in topic.get("partitions") or ())
            error = next((each["error"] for each in partitions if each.get("error")), 0)
        if member is None:
            return
        if frame.type == "SyncGroupResponse" and not error:
            member.joined_ns = frame.time_ns
        dropped = error in (UNKNOWN_MEMBER, FENCED_EPOCH)
        if dropped or (error == ILLEGAL_GENERATION and frame.type == "OffsetCommitResponse"):
            does = "commits" if frame.type == "OffsetCommitResponse" else "asks"
            what = f"{short(frame.connection)} {does}, but is no longer a member of group {member.group}"
            problem = self.report.add(CODES["kicked-out"], what, (frame.connection.number, what), frame=frame)
            problem.detail(f"the coordinator answers {ERRORS[error]}")

    def _report_slow(self, connection: Connection, member: Member, until_ns: int) -> None:
        left, member.left = member.left, None
        if left is None or not member.was_slow(left.time_ns):
            return
        away = (until_ns - left.time_ns) / 1e9
        what = f"{short(connection)} left group {member.group} for {away:.3f} s without closing: it did not poll"
        problem = self.report.add(CODES["max-poll"], what, (connection.number, member.group), frame=left)
        problem.detail(f"max.poll.interval.ms is {member.patience_ms:,} ms")

    def ended(self, connection: Connection) -> None:
        member = self._members.pop(connection.number, None)
        if member is None or member.left is None or connection.health is None:
            return
        if connection.health.last_ns - member.left.time_ns >= STAYED_NS:
            self._report_slow(connection, member, connection.health.last_ns)


@dataclass(eq=False)
class Rebalances(Rule):
    """Groups that divide their partitions again and again."""

    types = names.TYPES["generations"]
    _groups: Newest[str, deque[tuple[int, int]]] = field(default_factory=lambda: Newest(MOST_MEMBERS))
    """Number and time of the latest generations."""
    _asked: Newest[int, str] = field(default_factory=lambda: Newest(MOST_MEMBERS))
    """Groups of requests that wait."""

    def frame(self, frame: Frame) -> None:
        values = frame.values
        if frame.sender != "server":
            group = values.get("group_id")
            if isinstance(group, str):
                self._asked.put(frame.id, group)
            return
        group = self._asked.pop(frame.request, None) if frame.request is not None else None
        generation = values.get("generation_id", values.get("member_epoch", -1))
        if group is None or values.get("error") or generation < 1:
            return
        known = self._groups.get_or_make(group, lambda: deque(maxlen=STORM))
        if known and known[-1][0] >= generation:
            return
        known.append((generation, frame.time_ns))
        first = known[0]
        if len(known) == STORM and frame.time_ns - first[1] <= STORM_NS:
            seconds = (frame.time_ns - first[1]) / 1e9
            what = f"group {printable(group)} rebalanced {generation - first[0]} times in {seconds:.1f} s"
            problem = self.report.add(CODES["rebalance-storm"], what, group, frame=frame)
            problem.detail(
                f"generation {generation} began at {self.report.seconds(frame.time_ns)}: {short(frame.connection)}"
            )
