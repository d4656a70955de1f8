"""Consumer groups that rebalance again and again, and members that crash and begin at the same offset again."""

from collections import deque
from collections.abc import Collection, Iterable

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import SEVERITIES, Code
from wiredecode.protocols.shared.pairing import MAX_KEYS, Newest, TopicPartition
from wiredecode.protocols.shared.problems import MAX_PROBLEMS, FrameRef, Report, begin_of, whole

STORM, STORM_NS = 6, 60_000_000_000
"""This number of generations of a group, in this time, is a storm."""
MANY_CRASHES = 3
"""Members that ended without leaving the group, and began at the same offset."""
ALONE_NS = 5_000_000_000
"""A group without members is reported if the capture continues for that long; members that a deployment replaces have
lived for longer."""


@dataclass(eq=False)
class Rebalances:
    """The groups of a protocol; ``code``: the problem of those that rebalance, ``gone``: of those without members."""

    report: Report
    code: Code
    gone: Code | None = None
    _generations: Newest[str, deque[tuple[int, int]]] = field(default_factory=Newest)
    """Number and time of the latest generations."""
    _starts: Newest[str, dict[TopicPartition, tuple[int, int]]] = field(default_factory=Newest)
    """By group and partition: the offset that its members began at, and how many times in a row."""
    _members: Newest[str, dict[int, Connection]] = field(default_factory=Newest)
    """By group and number."""
    _crashes: Newest[str, list[Connection]] = field(default_factory=Newest)
    """By group: connections of members that ended without leaving it."""
    _waits: Newest[str, tuple[FrameRef, int]] = field(default_factory=Newest)
    """By group: the longest time that a member waited to join, from its request on."""

    def generation(self, frame: Frame, group: str, number: int) -> None:
        """A generation of a group, perhaps a new one."""
        members = self._members.get_or_make(group, dict)
        if len(members) < MAX_PROBLEMS:
            members[frame.connection.number] = frame.connection
        generations = self._generations.get_or_make(group, lambda: deque([(0, 0)], maxlen=STORM))
        if generations[-1][0] >= number:
            return
        generations.append((number, frame.time_ns))
        first, first_ns = generations[0]
        if len(generations) == STORM and frame.time_ns - first_ns <= STORM_NS:
            title = f"group {group} rebalanced {number - first} times in {(frame.time_ns - first_ns) / 1e9:.1f} s"
            problem = self.report.add(self.code, title, group, frame=frame)
            at = self.report.seconds(frame.time_ns)
            problem.detail(f"generation {number} began at {at}: {short(frame.connection)}")

    def began(self, group: str, partition: TopicPartition, offset: int) -> None:
        """A member asked where to begin; -1: nothing was committed."""
        starts = self._starts.get_or_make(group, dict)
        before, times = starts.get(partition, (-1, 0))
        if partition in starts or len(starts) < MAX_KEYS:
            starts[partition] = offset, times + 1 if offset == before else 1

    def crashed(self, group: str, connection: Connection) -> None:
        """A member may have ended without leaving the group."""
        end, ends = connection.first_end, self._crashes.get_or_make(group, list)
        if end and end.side == client_side(connection) and len(ends) < MAX_PROBLEMS:
            ends.append(connection)

    def waited(self, group: str, asked: FrameRef, until_ns: int) -> None:
        """A member that asked to join a group waited for others."""
        longest = self._waits.get(group)
        if longest is None or until_ns - asked.time_ns > longest[1] - longest[0].time_ns:
            self._waits.put(group, (asked, until_ns))

    def finish(self) -> None:
        """Explain the rebalances of groups whose members crashed; those of a deployment are none."""
        for group, members in self._members.items():
            problem, ends = self.report.own(self.code, group), self._crashes.get(group)
            over = ((each, each.first_end) for each in members.values())
            left = [each for each, end in over if end is not None and end.time_ns - each.first_ns < ALONE_NS]
            brief, names = len(left), [each.identity.get("name", "") for each in left]
            once = problem is not None and problem.count + STORM - 2 <= 2 * len(members)  # each joins, and leaves
            if problem is not None:
                for each in members.values():
                    self.report.concerns(problem, each)
            if problem is not None and once and not ends and brief < MANY_CRASHES:
                problem.severity = "note"
            elif problem is not None and (name := max(names, key=names.count, default="")):
                if (times := names.count(name)) >= MANY_CRASHES and 2 * times > brief:
                    problem.title += f": {name} joined and ended {times} times"
                    problem.likely = f"{name} crashes or is restarted again and again, and each time all members stop"
            elif self.gone is None or problem is not None or not ends:
                continue
            elif not self._stood_still(self.gone, group, ends):
                self._alone(self.gone, group, ends[-1], members.values())
        for group, ends in self._crashes.items():
            problem, starts = self.report.own(self.code, group), self._starts.get(group) or {}
            crashes, names = len(ends), [each.identity.get("name", "") for each in ends]
            if problem is not None and crashes > 1 and " joined and ended " not in problem.title:
                name = max(names, key=names.count)
                problem.title += f": {name or 'a member'} ended {names.count(name)} times without leaving it"
            for name in dict.fromkeys(names) if problem is None else ():
                if name and names.count(name) > MANY_CRASHES:
                    title = f"{name} ended {names.count(name):,} times without leaving group {group}"
                    until_ns = max(each.health.last_ns for each in ends if each.health is not None)
                    at = begin_of(ends[names.index(name)])
                    problem = self.report.add(self.code, title, (group, name), frame=at, until_ns=until_ns)
            partition, (offset, times) = max(starts.items(), key=lambda each: each[1][1], default=(("", None), (0, 0)))
            if problem is not None and min(crashes, times) >= MANY_CRASHES:
                where = f"offset {offset:,}" if offset >= 0 else "the beginning: nothing was committed"
                began = f"{partition[0]}[{partition[1]}] began {times} times at {where}"
                problem.detail(f"{crashes} members ended without leaving; {began}")
                problem.severity = min(problem.severity, "warning", key=SEVERITIES.index)
                if offset >= 0 or self.report.own(self.code, group) is not None:
                    who = max(names, key=names.count) or "a member"
                    problem.likely = f"{who} crashes before it commits, perhaps by a message that comes again"

    def _stood_still(self, code: Code, group: str, ends: Collection[Connection]) -> bool:
        """Report a group whose members waited, as one of before had ended without leaving; False: they did not."""
        asked, until_ns = self._waits.get(group, (None, 0))
        if asked is None or until_ns - asked.time_ns < ALONE_NS or len(ends) >= MANY_CRASHES:
            return False
        over = [each for each in ends if each.health is not None and each.health.last_ns < until_ns - ALONE_NS]
        for last in [each for each in over if each.number != asked.connection.number][-1:]:
            waited = (until_ns - asked.time_ns) / 1e9
            title = f"group {group} stood still for {waited:.1f} s: it waited for {short(last)}, which was gone"
            problem = self.report.add(code, title, group, frame=asked, until_ns=until_ns)
            self.report.concerns(problem, last)
            problem.likely = "the member was killed or crashed, and its session timeout had to pass first"
            return True
        return False

    def _alone(self, code: Code, group: str, last: Connection, members: Iterable[Connection]) -> None:
        """A member ended without leaving its group: its partitions are not read until its session times out."""
        end_ns = last.health.last_ns if last.health is not None else 0
        remaining = [each for each in members if each.health is None or each.health.last_ns > end_ns]
        if not remaining and whole(last) and self.report.last_ns - end_ns >= ALONE_NS:
            title = f"{short(last)} ended without leaving group {group}, which has no other member"
            ref = begin_of(last)._replace(time_ns=end_ns)
            problem = self.report.add(code, title, group, frame=ref, until_ns=self.report.last_ns)
            problem.to_end = True
