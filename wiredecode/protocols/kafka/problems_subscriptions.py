"""Groups whose members read different topics, while the leader gives out partitions as if all read its own."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.protocols.kafka.layers import inside
from wiredecode.protocols.kafka.problems_groups import CODES
from wiredecode.protocols.shared.pairing import MAX_KEYS, Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, FrameRef, Rule, ref_of

BRIEF_NS = 5_000_000_000
"""For this time members of an old and a new version are in one group while it is deployed."""


class Reader(NamedTuple):
    """A member as it asked to join."""

    group: str
    topics: frozenset[str]
    ref: FrameRef


class Mismatch(NamedTuple):
    """An assignment that does not fit what the members read."""

    ref: FrameRef
    readers: tuple[Reader, ...]
    given: tuple[tuple[Reader, str], ...]
    """Members with partitions of a topic that they do not read, as text."""
    missing: tuple[str, ...]
    """Topics that members read, and of which none has a partition."""


@dataclass(eq=False)
class Subscriptions(Rule):
    """Compares what members subscribe to with what the leader of their group assigns."""

    types = frozenset({"JoinGroupRequest", "JoinGroupResponse", "SyncGroupRequest"})
    _joining: Newest[int, Reader] = field(default_factory=Newest)
    """By connection: the last request to join."""
    _members: Newest[tuple[str, str], Reader] = field(default_factory=Newest)
    """By group and member id."""
    _open: Newest[str, Mismatch] = field(default_factory=Newest)
    """By group: the first one since an assignment that fits."""

    def frame(self, frame: Frame) -> None:
        values = frame.values
        if frame.type == "JoinGroupRequest":
            metadata = [each["metadata"] for each in values.get("protocols") or () if each.get("metadata")]
            if values.get("protocol_type") == "consumer" and metadata:
                asked = Reader(printable(values["group_id"]), frozenset(subscribed(metadata[0])), ref_of(frame))
                self._joining.put(frame.connection.number, asked)
        elif frame.type == "SyncGroupRequest":
            if values.get("assignments"):
                self._assigned(frame, printable(values["group_id"]), values["assignments"])
        elif (
            values.get("error") == 0
            and "member_id" in values
            and (reader := self._joining.get(frame.connection.number)) is not None
        ):
            self._members.put((reader.group, values["member_id"]), reader)

    def _assigned(self, frame: Frame, group: str, assignments: list[Mapping[str, Any]]) -> None:
        readers, given = [], []
        assigned: set[str] = set()
        for each in assignments[:MAX_KEYS]:
            member = self._members.get((group, each.get("member_id", "")))
            if member is None or "assignment" not in each:
                return  # perhaps it joined before the capture, or was truncated
            readers.append(member)
            for topic, numbers in partitions_in(each["assignment"]):
                assigned.add(topic)
                if topic not in member.topics:
                    given.append((member, f"{topic}[{', '.join(map(str, sorted(numbers)))}]"))
        missing = sorted({topic for each in readers for topic in each.topics} - assigned)
        if given:
            found = Mismatch(ref_of(frame), tuple(readers), tuple(given), tuple(missing))
            self._open.add(group, found)
        elif (before := self._open.pop(group, None)) is not None:
            self._report(group, before, frame.time_ns)

    def finish(self) -> None:
        for group, each in self._open.items():
            self._report(group, each, 0)

    def _report(self, group: str, found: Mismatch, until_ns: int) -> None:
        """``until_ns``: 0: until the end of the capture."""
        last_ns = until_ns or self.report.last_ns
        if last_ns - found.ref.time_ns < BRIEF_NS:
            return
        by_topics = {each.topics: each for each in found.readers}
        reads = [f"{short(each.ref.connection)} {names(topics)}" for topics, each in by_topics.items()]
        title = f"members of group {group} read different topics: {', '.join(reads[:MAX_EVIDENCE])}"
        severity = "warning" if until_ns else None
        problem = self.report.add(
            CODES["group-topics"], title, group, frame=found.ref, until_ns=last_ns, severity=severity
        )
        problem.to_end = not until_ns
        for reader, text in found.given[:MAX_EVIDENCE]:
            problem.detail(f"{short(reader.ref.connection)} was given {text}, which it does not read")
        problem.detail(f"no member was given {', '.join(found.missing)}" if found.missing else "")
        problem.detail(f"{short(found.ref.connection)} leads the group, and assigned them")
        self.report.cite(problem, *(each.ref for each in by_topics.values()))
        for each in found.readers:
            self.report.concerns(problem, each.ref.connection)


def subscribed(metadata: bytes) -> list[str]:
    """Topics of a member's ConsumerProtocolSubscription; none if it is something else."""
    said = inside("ConsumerProtocolSubscription", int.from_bytes(metadata[:2]), metadata, Style()) or {}
    return [*said.get("topics", ())]


def partitions_in(assignment: bytes) -> Iterator[tuple[str, list[int]]]:
    """Topics and partitions of a ConsumerProtocolAssignment."""
    said = inside("ConsumerProtocolAssignment", int.from_bytes(assignment[:2]), assignment, Style()) or {}
    return ((each["topic"], each["partitions"]) for each in said.get("assigned_partitions", ()))


def names(topics: frozenset[str]) -> str:
    return " and ".join(sorted(topics)[:MAX_EVIDENCE]) or "nothing"
