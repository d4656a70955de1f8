"""Problems of a live capture as they begin and as they end; :func:`watch` is for tests."""

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from wiredecode.capture.live.sniffer import Sniffer
from wiredecode.capture.live.source import LiveOptions, RingSource
from wiredecode.check import Checker, Problem
from wiredecode.dataclasses import dataclass, field
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.flows.table import Backlog, backlogs
from wiredecode.protocols.registry import decoding
from wiredecode.protocols.shared.problems import Judged

__all__ = ["ProblemChange", "Seen", "Watch", "watch"]

EVERY_NS = 5_000_000_000
"""Between two looks at the problems."""
SETTLED_NS = 2_000_000_000
"""A problem is reported this long after it began: by then its cause is known, too."""
OVER_NS = 10_000_000_000
"""A problem that was not seen for this long has ended ..."""
FORGOTTEN_NS = 600_000_000_000
"""... and after this time it is forgotten."""
ARRIVAL_SECONDS = 0.3
"""Packets may still be on their way to a capture for this long."""
MAX_TIMES = 4_096
"""Different latencies of a stream that are exact; beyond them all are right within a thousandth."""
SNAPLEN, BUFFER_MIB = 262_144, 32
BEGAN, ENDED = "began", "ended"


class ProblemChange(NamedTuple):
    """A problem that began or ended."""

    change: str
    problem: Problem


class Watch:
    """Asks its checker again and again; ``problems`` are those of the last time, the worst first.

    ``groups``: consumer groups and all messages are wanted, too.
    """

    def __init__(self, *, groups: bool = False) -> None:
        self._groups = groups
        self.checker = Checker(MAX_TIMES, all_messages=groups)
        self.problems: list[Problem] = []
        self.backlogs: list[Backlog] = []
        """Consumer groups at the last time, if they are wanted."""
        self._over: dict[tuple[str, int | None], bool] = {}
        """The problems that were reported, and whether they have ended."""
        self._due_ns = 0

    def look(self, now_ns: int) -> list[ProblemChange]:
        """Problems that began or ended since the last look, if it is time for another."""
        if now_ns < self._due_ns:
            return []
        self._due_ns = now_ns + EVERY_NS
        self.checker.report.forget(now_ns - FORGOTTEN_NS)
        self.problems = self.checker.so_far()
        self._look_at_groups(now_ns)
        events = self._changes(now_ns)
        there = {(each.name, each.first_ns) for each in self.problems}
        self._over = {key: over for key, over in self._over.items() if key in there}
        return events

    def finish(self) -> list[ProblemChange]:
        """Nothing more comes: problems that were not reported yet."""
        self.problems = self.checker.finish()
        self._look_at_groups(self.checker.report.last_ns)
        return [ProblemChange(BEGAN, each) for each in self.problems if (each.name, each.first_ns) not in self._over]

    def _look_at_groups(self, now_ns: int) -> None:
        if self._groups:
            self.backlogs = backlogs(self.checker.flows, now_ns)

    def _changes(self, now_ns: int) -> list[ProblemChange]:
        events = []
        for problem in self.problems:
            key = problem.name, problem.first_ns
            if key not in self._over and problem.first_ns is not None and problem.first_ns > now_ns - SETTLED_NS:
                continue
            over = problem.last_ns is not None and not problem.to_end and problem.last_ns < now_ns - OVER_NS
            if self._over.get(key, True) and not (over and key in self._over):
                events.append(ProblemChange(BEGAN, problem))
            if over and not self._over.get(key, False):
                events.append(ProblemChange(ENDED, problem))
            self._over[key] = over
        return events


@dataclass
class Seen(Judged):
    """Problems and traffic of an interface; complete when the ``with`` block is over."""

    problems: list[Problem] = field(default_factory=list)
    """Errors and warnings, the worst first."""
    messages: int = 0
    dropped: int = 0
    """Packets that the kernel dropped."""


@contextmanager
def watch(
    interface: str = "lo", *, ports: Iterable[int] = (), decode_as: Mapping[int, str] | None = None
) -> Iterator[Seen]:
    """Check the traffic of an interface while the block runs: ``with watch("lo", ports=[5552]) as seen: ...``.

    ports: only packets from or to these TCP ports (needs libpcap). decode_as: as in ``wiredecode.read``. Needs
    CAP_NET_RAW. Raises LiveError where the interface cannot be opened, CaptureError where reading fails.
    """
    only = " or ".join(f"tcp port {port}" for port in ports)
    sniffer = Sniffer(RingSource(LiveOptions(interface, only, False, SNAPLEN, BUFFER_MIB)))
    checker, seen = Checker(), Seen()
    demand = checker.demand(Demand(decode_as=decoding(decode_as or {})))
    dissector = Dissector(demand, on_end=checker.end)
    failures: list[Exception] = []

    def read() -> None:
        try:
            for batch in sniffer:
                checker.look(batch)
                if not len(batch):
                    continue
                for frame in dissector.feed(batch):
                    checker.frame(frame)
            for frame in dissector.finish():
                checker.frame(frame)
        except Exception as error:
            failures.append(error)  # raised again at the end of the block

    thread = threading.Thread(target=read, name="wiredecode-watch", daemon=True)
    with closing(sniffer):
        thread.start()
        try:
            yield seen
        finally:
            time.sleep(ARRIVAL_SECONDS)
            sniffer.stop()
            thread.join()
            seen.problems += [each for each in checker.finish() if each.severity != "note"]
            seen.messages, seen.dropped = checker.coverage.messages, sniffer.counts.dropped
    if failures:
        raise failures[0]
