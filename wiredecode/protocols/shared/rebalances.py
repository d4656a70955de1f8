"""Consumer groups that rebalance again and again, and members that crash and begin at the same offset again."""

from collections import deque
from dataclasses import dataclass, field

from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import Code
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_PROBLEMS, Report, begin_of

STORM, STORM_NS = 6, 60_000_000_000
"""This number of generations of a group, in this time, is a storm."""
MANY_CRASHES = 3
"""Members that ended without leaving the group, and began at the same offset."""
MAX_REMEMBERED = 10_000
"""Groups, and partitions of one, that are remembered."""
Place = tuple[str, int | None]
"""Topic and partition."""


@dataclass(eq=False)
class Rebalances:
    """The groups of a protocol; ``code``: the problem of those that rebalance."""

    report: Report
    code: Code
    _generations: Newest[str, deque[tuple[int, int]]] = field(default_factory=lambda: Newest(MAX_REMEMBERED))
    """Number and time of the latest generations."""
    _starts: Newest[str, dict[Place, tuple[int, int]]] = field(default_factory=lambda: Newest(MAX_REMEMBERED))
    """By group and partition: the offset that its members began at, and how many times in a row."""
    _crashes: Newest[str, list[Connection]] = field(default_factory=lambda: Newest(MAX_REMEMBERED))
    """By group: connections of members that ended without leaving it."""

    def generation(self, frame: Frame, group: str, number: int) -> None:
        """A generation of a group, perhaps a new one."""
        known = self._generations.get_or_make(group, lambda: deque([(0, 0)], maxlen=STORM))
        if known[-1][0] >= number:
            return
        known.append((number, frame.time_ns))
        first, first_ns = known[0]
        if len(known) == STORM and frame.time_ns - first_ns <= STORM_NS:
            what = f"group {group} rebalanced {number - first} times in {(frame.time_ns - first_ns) / 1e9:.1f} s"
            problem = self.report.add(self.code, what, group, frame=frame)
            at = self.report.seconds(frame.time_ns)
            problem.detail(f"generation {number} began at {at}: {short(frame.connection)}")

    def began(self, group: str, place: Place, offset: int) -> None:
        """A member asked where to begin; -1: nothing was committed."""
        starts = self._starts.get_or_make(group, dict)
        before, times = starts.get(place, (-1, 0))
        if place in starts or len(starts) < MAX_REMEMBERED:
            starts[place] = offset, times + 1 if offset == before else 1

    def crashed(self, group: str, connection: Connection) -> None:
        """A member may have ended without leaving the group."""
        end, ends = connection.health and connection.health.end, self._crashes.get_or_make(group, list)
        if end and end.side == client_side(connection) and len(ends) < MAX_PROBLEMS:
            ends.append(connection)

    def finish(self) -> None:
        """Explain the rebalances of groups whose members crashed."""
        for group, ends in self._crashes.items():
            problem, starts = self.report.problems.get((self.code.code, group)), self._starts.get(group) or {}
            crashes, names = len(ends), [each.identity.get("name", "") for each in ends]
            for name in dict.fromkeys(names) if problem is None else ():
                if name and names.count(name) > MANY_CRASHES:
                    what = f"{name} ended {names.count(name):,} times without leaving group {group}"
                    problem = self.report.add(self.code, what, (group, name), frame=begin_of(ends[names.index(name)]))
            place, (offset, times) = max(starts.items(), key=lambda each: each[1][1], default=(("", None), (0, 0)))
            if problem is not None and min(crashes, times) >= MANY_CRASHES:
                where = f"offset {offset:,}" if offset >= 0 else "the beginning: nothing was committed"
                began = f"{place[0]}[{place[1]}] began {times} times at {where}"
                problem.detail(f"{crashes} members ended without leaving; {began}")
                if offset >= 0 or (self.code.code, group) in self.report.problems:
                    problem.likely = "a message ends its consumers before they commit, and the next one gets it again"
