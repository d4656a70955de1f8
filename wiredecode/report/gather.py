"""The first pass: what a report counts, while ``wiredecode check`` looks for problems in the same frames.

Memory does not grow with the capture: latencies are counted by bucket, and values that change are thinned.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from wiredecode.check import Checker, Problem
from wiredecode.check.exchanges import Exchange
from wiredecode.check.gauges import Gauges
from wiredecode.check.timeline import Timeline, TimelineEvent
from wiredecode.dataclasses import dataclass, field
from wiredecode.flows import Flows
from wiredecode.frames.activity import Activities, Activity
from wiredecode.frames.bins import Bins, Counts
from wiredecode.frames.frame import REFUSED, Frame
from wiredecode.frames.message import DELIVER, FORWARD, PUBLISH, FrameMessages
from wiredecode.net.distribution import Distribution
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.gauges import CREDIT, POSITION, Measurement

POINTS = 1_024
"""Values of a series that are kept at most."""
PER_DOUBLING = 8
"""Histogram of a latency per doubling: the lines drawn are right within 5 %."""
LATENCIES = 45 * PER_DOUBLING
"""Histogram: up to 2**45 ns, nearly ten hours."""


def bucket_of(latency_ns: int) -> int:
    if latency_ns < 2:
        return 0
    doublings = latency_ns.bit_length() - 1
    part = (latency_ns << 3 >> doublings) & 7  # linear within a doubling: PER_DOUBLING is 8
    return min(doublings * PER_DOUBLING + part, LATENCIES - 1)


def bucket_ns(bucket: float) -> float:
    """Where a bucket begins; fractions lie within."""
    doublings, part = divmod(bucket, PER_DOUBLING)
    return float(2.0**doublings * (1 + part / PER_DOUBLING))


def percentile(row: Sequence[int] | Counts, percent: float) -> float | None:
    """The latency, ns, that this percentage of those counted by bucket do not exceed; None: there are none."""
    upto = np.cumsum(row)
    return bucket_ns(int(np.searchsorted(upto, upto[-1] * percent / 100)) + 0.5) if upto[-1] else None


class Series:
    """A value that changes. What is kept halves when it gets too much: of two values the one that matters stays."""

    def __init__(self, *, lowest: bool) -> None:
        self.points: list[tuple[int, int]] = []
        """Time in nanoseconds, value."""
        self.changes = 0
        self._lowest = lowest
        self._step, self._held = 1, 0
        self._best: tuple[int, int] | None = None

    @property
    def shown(self) -> list[tuple[int, int]]:
        """The points, and what waits to become one."""
        return self.points if self._best is None else [*self.points, self._best]

    def add(self, time_ns: int, value: int) -> None:
        """The value from a time on."""
        self.changes += 1
        best = self._best
        if best is None or (value < best[1] if self._lowest else value > best[1]):
            self._best = time_ns, value
        self._held += 1
        if self._held < self._step:
            return
        assert self._best is not None
        self.points.append(self._best)
        self._best, self._held = None, 0
        if len(self.points) >= POINTS:
            choose = min if self._lowest else max
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [choose(pair, key=lambda point: point[1]) for pair in pairs]
            self._step *= 2


FROM_CLIENT, FROM_SERVER, FROM_UNKNOWN, PUBLISHED, DELIVERED, OPENED, CLOSED = COLUMNS = range(7)
"""Columns of counts by time: bytes of frames by sender, messages, connections."""
SENDERS = {"client": FROM_CLIENT, "server": FROM_SERVER, None: FROM_UNKNOWN}
MAX_CONNECTIONS = 20_000
"""Connections of which anything is kept; of more, those that said the least are left out."""
MAX_STREAMS = 4_096
"""Most streams, topics and subjects."""
MAX_SERIES = 256
"""Most series of credit or lag: subscriptions, partitions and the like."""


@dataclass(slots=True, eq=False)
class FrameType:
    """All frames of one type from one kind of sender."""

    frames: int = 0
    length: int = 0
    latency: Distribution = field(default_factory=Distribution)
    """From it to its answer, ns."""
    requests: int = 0
    refused: int = 0


@dataclass(slots=True, eq=False)
class Stream:
    """Messages to or from one stream, topic or subject."""

    messages: dict[str, int] = field(default_factory=lambda: {PUBLISH: 0, DELIVER: 0})
    length: dict[str, int] = field(default_factory=lambda: {PUBLISH: 0, DELIVER: 0})
    """Bytes of the frames that carried them."""

    @property
    def size(self) -> int:
        return sum(self.length.values())


class Gathering:
    """Receives every frame with :meth:`frame`, every ended connection with :meth:`end`; then :meth:`finish`."""

    def __init__(self, *, filtered: bool = False) -> None:
        self.filtered = filtered
        """Whether only some frames count: connections without any are left out."""
        self.checker = Checker(all_messages=True)
        self.timeline, self.flows = Timeline(), Flows()
        self.events: list[TimelineEvent] = []
        """Events in order of time."""
        self.problems: list[Problem] = []
        self.first_ns = self.last_ns = 0
        self.by_time = Bins(len(COLUMNS))
        self.latency = Bins(LATENCIES)
        self._activities = Activities()
        self.connections = self._activities.by_number
        self.commands: dict[tuple[str, str, str | None], FrameType] = defaultdict(FrameType)
        self.streams: dict[tuple[str, str], Stream] = {}
        self.series: dict[tuple[str, str], Series] = {}
        """By quantity and object: ``("credit", "orders, subscription 1 of #3")``."""
        self.left_out = 0
        """Connections that are no longer in ``connections``."""
        self._gauges = Gauges()

    def end(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over; frames of it may still come."""
        self.checker.end(connection, foreign)
        if self.filtered and connection.number not in self.connections:
            return
        activity = self._activity(connection)
        activity.foreign = foreign
        health = connection.health
        if health is not None:
            activity.last_ns = max(activity.last_ns, health.last_ns)
            self.by_time.add(health.last_ns, CLOSED)

    def over(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over, and no frame will follow."""
        if not self.filtered or connection.number in self.connections:
            self.timeline.end(connection, foreign)

    def frame(self, frame: Frame, *, counts: bool = True) -> None:
        """Take the next frame, which the checker received already; ``counts``: whether it counts."""
        parts = self.checker.messages.of(frame)
        if not counts or not self.checker.report.covers(frame.time_ns):
            return
        self.timeline.frame(frame)
        self.flows.frame(frame, parts)
        time_ns, length, sender = frame.time_ns, frame.length, frame.sender
        self.by_time.add(time_ns, SENDERS[sender], length)
        (self.connections.get(frame.connection.number) or self._activity(frame.connection)).frame(frame)
        if time_ns > self.last_ns:
            self.last_ns = time_ns
        command = self.commands[frame.protocol, frame.shown_type, sender]
        command.frames += 1
        command.length += length
        command.requests += frame.expects_response
        if frame.request is not None:
            self._answer(frame, self.checker.exchanges.answered)
        if frame.expects_response and (request := self.checker.exchanges.open.get(frame.id)) is not None:
            request.counted = command
        for reading in self._gauges.frame(frame):
            self._show(frame, reading)
        if parts and not frame.is_copy:
            self._count_messages(frame, parts)

    def finish(self, first_ns: int) -> None:
        """The capture, which began at ``first_ns``, is over."""
        self.first_ns = first_ns
        problems = self.checker.finish()
        shown = self.connections.keys()
        self.problems = [each for each in problems if not self.filtered or not shown.isdisjoint(each.connections)]
        self.events = [each for each in self.timeline.finish(self.first_ns) if self.checker.report.covers(each.time_ns)]
        self.last_ns = max(self.last_ns, *(each.last_ns for each in self.connections.values()), self.first_ns)

    def sums(self) -> list[int]:
        """Per column of ``by_time``: of all times."""
        return [int(each) for each in self.by_time.counts(2, self.last_ns)[0].sum(axis=0)]

    def by_kind(self) -> dict[str, int]:
        """Messages by operation."""
        sums = self.sums()
        return {PUBLISH: sums[PUBLISHED], DELIVER: sums[DELIVERED]}

    def _activity(self, connection: Connection) -> Activity:
        if connection.number in self.connections:
            return self.connections[connection.number]
        if len(self.connections) >= MAX_CONNECTIONS:
            least = sorted(self.connections.values(), key=lambda each: (each.findings > 0, sum(each.length)))
            for each in least[: MAX_CONNECTIONS // 4]:
                del self.connections[each.connection.number]
                self.left_out += 1
        self.by_time.add(connection.first_ns, OPENED)
        return self._activities.of(connection)

    def _answer(self, frame: Frame, request: Exchange | None) -> None:
        command: FrameType | None = None
        if request is not None:
            command, request.counted = request.counted, None
        if frame.latency_ns is not None:
            self.latency.add(frame.time_ns, bucket_of(frame.latency_ns))
            if command is not None:
                command.latency.add(max(frame.latency_ns, 0))
        if command is not None and (frame.outcome == REFUSED or frame.refusal is not None):
            command.refused += 1

    def _show(self, frame: Frame, reading: Measurement) -> None:
        key = reading.quantity, reading.of
        series = self.series.get(key)
        if series is None:
            if reading.quantity == POSITION or len(self.series) >= MAX_SERIES:
                return
            series = self.series[key] = Series(lowest=reading.quantity == CREDIT)
        series.add(frame.time_ns, reading.value)

    def _count_messages(self, frame: Frame, parts: Sequence[FrameMessages]) -> None:
        """Count published and delivered messages, not those that brokers copy from each other."""
        for index, part in enumerate(part for part in parts if part.operation != FORWARD):
            self.by_time.add(frame.time_ns, PUBLISHED if part.operation == PUBLISH else DELIVERED, part.count)
            stream = self._stream(frame.protocol, part.topic or "")
            stream.messages[part.operation] += part.count
            if not index:
                stream.length[part.operation] += frame.length

    def _stream(self, protocol: str, topic: str) -> Stream:
        stream = self.streams.get((protocol, topic))
        if stream is None:
            if len(self.streams) >= MAX_STREAMS:
                least = sorted(self.streams.items(), key=lambda item: item[1].size)
                for key, _ in least[: MAX_STREAMS // 4]:
                    del self.streams[key]
            stream = self.streams[protocol, topic] = Stream()
        return stream


def most_interesting(gathering: Gathering) -> int | None:
    """The connection that is worth a look: of the worst problem, else the one with the most bytes, if any."""
    shown = gathering.connections
    for problem in gathering.problems:
        if problem.severity == "note":
            break
        concerned = [number for number in problem.connections if number in shown and any(shown[number].frames)]
        if concerned:
            return max(concerned, key=lambda number: (shown[number].findings, sum(shown[number].frames), -number))
    spoke = [(sum(each.frames), -number) for number, each in shown.items() if any(each.frames)]
    return -max(spoke)[1] if spoke else None
