"""Instruments of ``wiredecode metrics``, fed from frames, messages, connections and problems.

Names, units and buckets: OpenTelemetry's semantic conventions for messaging, else ``wiredecode.*``.
Frames are counted in plain dictionaries. Readers ask for the values, in threads of their own: what they see is copied
first. Histograms are an exception in the SDK, which only records single values: readers add them.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, Histogram, HistogramDataPoint, Metric
from opentelemetry.sdk.resources import Resource

from wiredecode.check import Checker
from wiredecode.check.exchanges import Exchange
from wiredecode.check.gauges import Gauges
from wiredecode.extras import version_number
from wiredecode.flows.table import Backlog
from wiredecode.frames.frame import UNDECODED, Confirmation, Frame
from wiredecode.frames.identity import broker, client_side, ended_by
from wiredecode.frames.message import DELIVER, PUBLISH
from wiredecode.metrics.readers import HistogramReader
from wiredecode.metrics.series import ERROR, OPERATION, SYSTEM, Labels, LabelSets
from wiredecode.net.distribution import TimeHistogram
from wiredecode.net.health import RETRANSMISSION
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import offers
from wiredecode.protocols.shared.gauges import CREDIT, LAG
from wiredecode.protocols.shared.problems import Problem
from wiredecode.stats.latency import ConfirmLatency, RequestLatency
from wiredecode.stats.tallies import PublishOutcomes, RequestOutcomes

ADVISED = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, *ADVISED)
"""Seconds: those of the conventions, and five before them, as brokers in one room answer within a millisecond."""
DURATION, REQUEST = "messaging.client.operation.duration", "wiredecode.request.duration"
SENT, CONSUMED = "messaging.client.sent.messages", "messaging.client.consumed.messages"
REFUSALS, CLOSED = "wiredecode.responses.refused", "wiredecode.connections.closed"
UNCONFIRMED = "wiredecode.publish.unconfirmed"
RESENT, ZERO_WINDOW = "wiredecode.tcp.retransmissions", "wiredecode.tcp.zero_window"
CAPTURED, MISSING, UNDECODED_BYTES = (f"wiredecode.payload.{name}" for name in ("captured", "missing", "undecoded"))
OF_CONNECTIONS = (RESENT, ZERO_WINDOW, CAPTURED, MISSING)
LEVELS = {CREDIT: "wiredecode.consumer.credit", LAG: "wiredecode.consumer.lag"}
GROUP = "messaging.consumer.group.name"
GROUP_DELIVERED, GROUP_LAG = "wiredecode.group.delivered", "wiredecode.group.lag"
GROUP_AGE = "wiredecode.group.oldest_undelivered_age"
OF_FRAMES = (SENT, CONSUMED, REFUSALS, CLOSED, UNDECODED_BYTES, *LEVELS.values())
MESSAGES = {PUBLISH: SENT, DELIVER: CONSUMED}
Values = Iterable[tuple[Labels, float]]
Outcomes = TypeVar("Outcomes", RequestOutcomes, PublishOutcomes)


class Recorded(dict[Any, Outcomes]):
    """Outcomes by key, made when first asked for. Keys with equal labels share them; ``most`` keys are kept."""

    def __init__(self, make: type[Outcomes], names: Sequence[str], labels: Callable[..., Labels], most: int) -> None:
        super().__init__()
        self._make: type[Outcomes] = make
        self._names, self._labels, self._most = names, labels, most
        self._start_ns = time.time_ns()
        self.by_labels: dict[Labels, Outcomes] = {}

    def __missing__(self, key: Any) -> Outcomes:
        labels = self._labels(**dict(zip(self._names, key, strict=True)))
        if (outcomes := self.by_labels.get(labels)) is None:
            outcomes = self.by_labels[labels] = self._make(TimeHistogram(BUCKETS))  # type: ignore[arg-type] # it adds as a Distribution does
        if len(self) < self._most:
            self[key] = outcomes
        return outcomes

    def histogram(self) -> Histogram:
        """All label sets with durations."""
        every: Any = [*self.by_labels.items()]
        values = [(labels, each.latency.in_seconds()) for labels, each in every]
        times = self._start_ns, time.time_ns()
        points = [HistogramDataPoint(dict(labels), *times, *each) for labels, each in values if each[0]]
        return Histogram(points, AggregationTemporality.CUMULATIVE)


class Instruments:
    """Feed frames with :meth:`frame`, connections that are over with :meth:`end`; ``readers`` show the values.

    ``checker`` gets each frame first. ``problems``, ``backlogs``: those that it found until now; ``packets``: of a live
    capture, by outcome.
    """

    def __init__(
        self,
        readers: Sequence[HistogramReader],
        series: LabelSets,
        checker: Checker,
        problems: Callable[[], Iterable[Problem]],
        backlogs: Callable[[], Iterable[Backlog]],
        packets: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        resource = Resource.create({"service.name": "wiredecode", "service.version": version_number()})
        for reader in readers:
            reader.histograms = self._histograms
        self._provider = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
        self._meter = self._provider.get_meter("wiredecode", version_number())
        self._packet_counts, self._found_problems, self._backlogs = packets, problems, backlogs
        self._messages = checker.messages
        self._series = series
        self._counts = {name: defaultdict[Labels, float](int) for name in (*OF_FRAMES, *OF_CONNECTIONS)}
        self._gauges = Gauges()
        self._open: dict[int, Connection] = {}
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self._long_polls = {(name, kind) for name, checks in offers() for kind in checks.waits}
        published, requested = partial(series.labels, DURATION, operation=PUBLISH), partial(series.labels, REQUEST)
        self._confirmed = Recorded(PublishOutcomes, ("system", "topic", "server"), published, series.most)
        self._answered = Recorded(RequestOutcomes, ("system", "operation", "topic", "server"), requested, series.most)
        self._confirms = ConfirmLatency(checker.exchanges, rows=self._confirmed)
        self._latency = RequestLatency(checker.exchanges, counts=self._answered)
        self._newest: list[tuple[Frame, Exchange, Confirmation]] = []
        """Publishes that the next frame confirms, as the checker has seen: a scrape may come before it."""
        checker.exchanges.confirm.append(lambda *confirmed: self._newest.append(confirmed))
        self._observe()

    def _histograms(self) -> Iterator[Metric]:
        for name, meaning, recorded in (
            (REQUEST, "From a request to its answer", self._answered.histogram()),
            (DURATION, "From a published message to what confirms it", self._confirmed.histogram()),
        ):
            if recorded.data_points:
                yield Metric(name, meaning, "s", recorded)

    # Feeding.

    def frame(self, frame: Frame) -> None:
        if frame.connection.number not in self._open:
            self._begin(frame.connection)
        protocol, status, parts = frame.protocol, frame.status, self._messages.of(frame)
        if status == UNDECODED:
            self._count(UNDECODED_BYTES, frame.length, protocol)
        if frame.request is not None:
            self._latency.frame(frame)
        for confirmed in self._newest:
            self._latency.confirm(*confirmed)
            self._confirms.confirm(*confirmed)
        self._newest.clear()
        if parts or frame.findings:
            self._confirms.frame(frame, parts)
        self._seen[protocol, frame.type or "", status] += 1
        for part in parts:
            if (name := MESSAGES.get(part.operation)) is not None:
                labels = self._series.labels(name, protocol, part.topic, part.operation, broker(frame))
                self._counts[name][labels] += part.count
        if frame.request is not None and frame.refusal is not None:
            self._count(REFUSALS, 1, frame.protocol, server=broker(frame), more=(ERROR, frame.refusal))
        for kind, of, value, _ in self._gauges.frame(frame):
            if (name := LEVELS.get(kind)) is not None:
                labels = self._series.labels(name, frame.protocol, more=("wiredecode.consumer", of))
                self._counts[name][labels] = value

    def _begin(self, connection: Connection) -> None:
        self._open[connection.number] = connection
        for end, name in zip(connection.endpoints, connection.hosts or (), strict=False):
            if name is not None:
                self._series.name(end.rpartition(":")[0], name)

    def end(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over, and all of its frames came; ``foreign``: its likely protocol, if it is not decoded."""
        self._open.pop(connection.number, None)
        system = system_of(connection, foreign)
        how = " ".join(ended_by(connection, client_side(connection)) or (connection.closed or "not seen",))
        self._count(CLOSED, 1, system, more=("wiredecode.ended", how))
        for name, value in facts(connection).items():
            self._count(name, value, system)

    def close(self) -> None:
        """Readers send the last values, and end."""
        self._provider.shutdown()

    def _count(self, name: str, value: float, *labels: Any, **more: Any) -> None:
        self._counts[name][self._series.labels(name, *labels, **more)] += value

    # Reading.

    def _observe(self) -> None:
        """Declare everything that readers ask for."""
        counter, gauge = self._meter.create_observable_counter, self._meter.create_observable_gauge
        of, published = self._of, partial(partial, self._published)
        for declare, name, unit, meaning, values in (
            (counter, SENT, "{message}", "Messages that clients published", of(SENT)),
            (counter, CONSUMED, "{message}", "Messages that were delivered to clients", of(CONSUMED)),
            (counter, REFUSALS, "{response}", "Answers that refuse", of(REFUSALS)),
            (counter, CLOSED, "{connection}", "Connections that are over, by who ended them and how", of(CLOSED)),
            (counter, RESENT, "{segment}", "TCP segments that were sent again", partial(self._facts, RESENT)),
            (counter, ZERO_WINDOW, "s", "Time with a closed receive window", partial(self._facts, ZERO_WINDOW)),
            (counter, "wiredecode.requests.unanswered", "{request}", "Requests without an answer", self._unanswered),
            (counter, "wiredecode.publish.failed", "{message}", "Publishes that were refused", published("failed")),
            (counter, UNCONFIRMED, "{message}", "Publishes without a confirm", published("unconfirmed")),
            (gauge, LEVELS[CREDIT], "1", "Credit of a consumer", of(LEVELS[CREDIT])),
            (gauge, LEVELS[LAG], "1", "Distance of a consumer or replica to the newest message", of(LEVELS[LAG])),
            (counter, GROUP_DELIVERED, "{message}", "Messages that a consumer group got", partial(self._groups, 0)),
            (gauge, GROUP_LAG, "{message}", "Messages that it has not got", partial(self._groups, 1)),
            (
                gauge,
                GROUP_AGE,
                "s",
                "Age of the oldest undelivered message; 0: there is none",
                partial(self._groups, 2),
            ),
            (gauge, "wiredecode.connections.open", "{connection}", "Connections with frames", self._connections),
            (counter, CAPTURED, "By", "TCP payload that was captured", partial(self._facts, CAPTURED)),
            (counter, MISSING, "By", "TCP payload that was not captured", partial(self._facts, MISSING)),
            (counter, UNDECODED_BYTES, "By", "TCP payload in no frame that is known", of(UNDECODED_BYTES)),
            (counter, "wiredecode.frames", "{frame}", "Frames, by type and status", self._frames),
            (counter, "wiredecode.packets", "{packet}", "Packets that were read, or dropped", self._packets),
            (gauge, "wiredecode.problems", "{problem}", "Problems that check finds", self._problems),
            (gauge, "wiredecode.problem.last_time", "s", "When it was last seen, since 1970", self._problem_times),
            (gauge, "wiredecode.problem.last_frame", "1", "Number of a frame that shows it", self._problem_frames),
            (counter, "wiredecode.series.refused", "1", "Values in label sets beyond --max-series", self._refused),
        ):
            declare(name, [partial(_observations, values)], unit, meaning)

    def _of(self, name: str) -> Callable[[], Values]:
        return lambda: self._counts[name].copy().items()

    def _facts(self, name: str) -> Values:
        """Counts of connections that are over, and of open ones."""
        counts = self._counts[name].copy()
        for connection in [*self._open.values()]:
            counts[((SYSTEM, system_of(connection)),)] += facts(connection)[name]
        return counts.items()

    def _unanswered(self) -> Values:
        for labels, answered in [*self._answered.by_labels.items()]:
            attributes = dict(labels)
            if (attributes[SYSTEM], attributes.get(OPERATION)) not in self._long_polls:
                yield labels, answered.unanswered

    def _published(self, outcome: str) -> Values:
        return ((labels, getattr(each, outcome)) for labels, each in [*self._confirmed.by_labels.items()])

    def _connections(self) -> Values:
        return Counter(((SYSTEM, system_of(each)),) for each in [*self._open.values()]).items()

    def _frames(self) -> Values:
        for (system, kind, status), count in self._seen.copy().items():
            yield ((SYSTEM, system), (OPERATION, kind), ("wiredecode.status", status)), count

    def _groups(self, at: int) -> Values:
        """By topic and consumer group: messages that it got, those that it did not, or the age of the oldest."""
        name = (GROUP_DELIVERED, GROUP_LAG, GROUP_AGE)[at]
        found: dict[Labels, float] = {}
        for (system, _, topic), group, *values in [*self._backlogs()]:
            if (value := values[at]) is not None:
                labels = self._series.labels(name, system, topic, more=(GROUP, group))
                known = found.get(labels, 0)
                found[labels] = max(known, value / 1e9) if name == GROUP_AGE else known + value
        return found.items()

    def _packets(self) -> Values:
        return (((("wiredecode.state", state),), count) for state, count in self._packet_counts().items())

    def _by_code(self) -> dict[Labels, list[Problem]]:
        codes: dict[Labels, list[Problem]] = {}
        for each in [*self._found_problems()]:
            codes.setdefault((("wiredecode.code", each.name), ("wiredecode.severity", each.severity)), []).append(each)
        return codes

    def _problems(self) -> Values:
        return ((labels, sum(problem.count for problem in each)) for labels, each in self._by_code().items())

    def _problem_times(self) -> Values:
        for labels, each in self._by_code().items():
            yield labels, max(problem.last_ns or 0 for problem in each) / 1e9

    def _problem_frames(self) -> Values:
        for labels, each in self._by_code().items():
            if frames := [number for problem in each for number in problem.frames[-1:]]:
                yield labels, max(frames)

    def _refused(self) -> Values:
        return (((), self._series.refused),)


def _observations(values: Callable[[], Values], _: CallbackOptions) -> Iterator[Observation]:
    return (Observation(value, dict(labels)) for labels, value in values())


def system_of(connection: Connection, foreign: str | None = None) -> str:
    """The label ``messaging.system``: protocol of a connection, or its likely one (``foreign``)."""
    return next(iter(connection.protocols), None) or foreign or "unknown"


def facts(connection: Connection) -> dict[str, float]:
    """Counts of both directions: their bytes, and the findings of TCP analysis."""
    sides = () if connection.health is None else connection.health.directions
    return {
        RESENT: sum(each.number_of(RETRANSMISSION) for each in sides),
        ZERO_WINDOW: sum(each.zero_window_ns for each in sides) / 1e9,
        CAPTURED: sum(each.captured for each in connection.directions),
        MISSING: sum(each.missing for each in connection.directions),
    }
