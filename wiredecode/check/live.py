"""Problems of a live capture as they begin and as they end."""

from __future__ import annotations

from typing import NamedTuple

from wiredecode.check import Checker, Problem

EVERY_NS = 5_000_000_000
"""Between two looks at the problems."""
SETTLED_NS = 2_000_000_000
"""A problem is told this long after it began: by then its cause is known, too."""
OVER_NS = 10_000_000_000
"""A problem that was not seen for this long has ended ..."""
FORGOTTEN_NS = 600_000_000_000
"""... and after this time it is forgotten."""
BEGAN, ENDED = "began", "ended"


class Event(NamedTuple):
    """A problem that began or ended."""

    what: str
    problem: Problem


class Watch:
    """Asks a checker again and again; ``problems`` are those of the last time, the worst first."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self.problems: list[Problem] = []
        self._over: dict[tuple[str, int | None], bool] = {}
        """The problems that were told, and whether they have ended."""
        self._due_ns = 0

    def look(self, now_ns: int) -> list[Event]:
        """What began or ended until now, if it is time to look."""
        if now_ns < self._due_ns:
            return []
        self._due_ns = now_ns + EVERY_NS
        self._checker.report.forget(now_ns - FORGOTTEN_NS)
        self.problems = self._checker.so_far()
        events = self._told(now_ns)
        there = {(each.name, each.first_ns) for each in self.problems}
        self._over = {key: over for key, over in self._over.items() if key in there}
        return events

    def finish(self) -> list[Event]:
        """Nothing more comes: problems that were not told yet."""
        self.problems = self._checker.finish()
        return [Event(BEGAN, each) for each in self.problems if (each.name, each.first_ns) not in self._over]

    def _told(self, now_ns: int) -> list[Event]:
        events = []
        for problem in self.problems:
            key = problem.name, problem.first_ns
            if key not in self._over and problem.first_ns is not None and problem.first_ns > now_ns - SETTLED_NS:
                continue
            over = problem.last_ns is not None and not problem.to_end and problem.last_ns < now_ns - OVER_NS
            if self._over.get(key, True) and not (over and key in self._over):
                events.append(Event(BEGAN, problem))
            if over and not self._over.get(key, False):
                events.append(Event(ENDED, problem))
            self._over[key] = over
        return events
