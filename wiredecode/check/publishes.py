"""Publishes that were confirmed late, by broker and stream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappush, heappushpop

from wiredecode.check.codes import SLOW_CONFIRM
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.health import Times
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.checking import Report, Rule

SLOW_P99_NS, SLOW_NS = 500_000_000, 1_000_000_000
"""A p99, and a single confirm, that are worth a warning."""
REMARKABLE_NS = 200_000_000
"""A confirm that is worth a note."""
MOST_WORST = 10
MOST_STREAMS = 1000
"""Brokers and streams that are told apart."""


@dataclass(slots=True)
class Confirmed:
    """Confirms of one broker for one stream."""

    times: Times = field(default_factory=Times)
    worst: list[tuple[int, int, int, int, Connection]] = field(default_factory=list)
    """A heap: latency, confirming frame, published frame, when it was confirmed."""

    def add(self, frame: Frame, latency_ns: int) -> None:
        self.times.add(latency_ns)
        if len(self.worst) == MOST_WORST and latency_ns <= self.worst[0][0]:
            return
        entry = latency_ns, frame.number, frame.request or 0, frame.time_ns, frame.connection
        (heappush if len(self.worst) < MOST_WORST else heappushpop)(self.worst, entry)


class SlowConfirms(Rule):
    """``confirms``: by protocol and type of the confirming frames, the field that names the stream."""

    def __init__(self, report: Report, confirms: Mapping[tuple[str, str | None], str]) -> None:
        super().__init__(report)
        self.confirms = confirms
        self._confirmed: dict[tuple[str, str], Confirmed] = {}

    def frame(self, frame: Frame) -> None:
        if frame.latency_ns is None:
            return
        name = self.confirms[frame.protocol, frame.type]
        stream = frame.generated.get(name) or frame.values.get(name) or ""
        key = frame.source, printable(str(stream))
        if key in self._confirmed or len(self._confirmed) < MOST_STREAMS:
            self._confirmed.setdefault(key, Confirmed()).add(frame, frame.latency_ns)

    def finish(self) -> None:
        for (broker, stream), confirmed in self._confirmed.items():
            p99, worst = confirmed.times.percentile(99) or 0, confirmed.times.largest or 0
            if worst >= REMARKABLE_NS:
                slow = p99 >= SLOW_P99_NS or worst >= SLOW_NS
                self._report(broker, stream, confirmed, None if slow else "note")

    def _report(self, broker: str, stream: str, confirmed: Confirmed, severity: str | None) -> None:
        p99, times = confirmed.times.percentile(99) or 0, confirmed.times
        slow = [entry for entry in confirmed.worst if entry[0] >= REMARKABLE_NS]
        worst = sorted(slow, key=lambda entry: (-entry[0], entry[1]))
        what = (
            f"{broker} confirmed publishes to {stream or 'it'} late: p99 {p99 / 1e9:.3f} s, "
            f"worst {worst[0][0] / 1e9:.3f} s of {times.count:,} confirms"
        )
        key = (broker, stream)
        for latency_ns, number, published, time_ns, connection in worst:
            problem = self.report.add(
                *(SLOW_CONFIRM, what, key), connection=connection, time_ns=time_ns, severity=severity
            )
            if problem is not None:
                self.report.cite_numbers(problem, published, None)
                problem.weight = worst[0][0]
                after = self.report.seconds(time_ns - latency_ns)
                problem.detail(
                    f"frame {published}, published at {after}: {latency_ns / 1e9:.3f} s until frame {number}"
                )
