"""What gets worse in the course of a capture, in any protocol: answers take longer, consumers lag more."""

from collections.abc import Iterable
from typing import NamedTuple

from wiredecode.check.codes import CODES
from wiredecode.check.exchanges import REMARKABLE_NS, Exchange, Exchanges
from wiredecode.check.gauges import read_gauge
from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.protocols.checks import by_type, checks_of
from wiredecode.protocols.shared.facts import SERVES, Fact
from wiredecode.protocols.shared.gauges import LAG, POSITION, Gauge
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Checks, FrameRef, Problem, Report, Rule, ref_of

MAX_TRENDS = 1000
"""Servers and kinds of requests that are followed."""
MOST, LEAST = 256, 16
"""Answers of one kind that are kept, evenly over time; fewer show no trend."""
PARTS, SLOW_PARTS, SLOW = 8, 3, 5
"""Parts of the time; slow ones that follow each other are no single pause; answers in these, at least."""
LASTS_NS = 1_500_000_000
"""A server is slow for at least this long: a burst of requests after a pause waits for itself."""
SLOW_NS, TIMES = REMARKABLE_NS, 4
"""Answers are slow if they take this long, and this many times longer than the first ones."""
COMMITS, MANY, LONG_NS = 3, 100, 2_000_000_000
"""Commits that show that a consumer is too slow, messages by which it lags at last, and the time, at least."""


class TimedAnswer(NamedTuple):
    """An answer: when the request was sent, and how long it waited."""

    time_ns: int
    latency_ns: int
    request: FrameRef


@dataclass(slots=True)
class Trend:
    """Latencies of one kind of requests over time."""

    gap_ns: int = 0
    """Least time between two that are kept."""
    answers: list[TimedAnswer] = field(default_factory=list)

    def wants(self, time_ns: int) -> bool:
        """Whether the answer to a request of this time is kept."""
        return not self.answers or time_ns - self.answers[-1].time_ns >= self.gap_ns

    def add(self, answer: TimedAnswer) -> None:
        answers = self.answers
        if not self.wants(answer.time_ns):
            return
        answers.append(answer)
        if len(answers) >= MOST:
            self.gap_ns = max(1, 2 * self.gap_ns, (answers[-1].time_ns - answers[0].time_ns) // (MOST // 2))
            self.answers = []
            for each in answers:
                self.add(each)

    def parts(self) -> list[list[TimedAnswer]]:
        """The answers in parts of equal times."""
        first_ns = min(each.time_ns for each in self.answers)
        span_ns = max(each.time_ns for each in self.answers) + 1 - first_ns
        parts: list[list[TimedAnswer]] = [[] for _ in range(PARTS)]
        for answer in self.answers:
            parts[(answer.time_ns - first_ns) * PARTS // span_ns].append(answer)
        return [each for each in parts if each]


@dataclass(eq=False)
class Trends(Rule):
    """Sees frames that answer."""

    _exchanges: Exchanges
    _trends: Newest[tuple[str, str], Trend] = field(default_factory=lambda: Newest(MAX_TRENDS))
    """By server, and kind of request."""

    _newest: int = 0
    """The frame that answered last: of many publishes that it confirms one counts."""

    def __post_init__(self) -> None:
        self._exchanges.confirm.append(self._confirm)

    def _confirm(self, frame: Frame, request: Exchange, _: Confirmation) -> None:
        if frame.id != self._newest:
            self._newest = frame.id
            self._answer(frame, request)

    def frame(self, frame: Frame) -> None:
        request = self._exchanges.answered
        if request is not None and request.publishing is None:
            self._answer(frame, request)

    def _answer(self, frame: Frame, request: Exchange) -> None:
        checks, kind = checks_of(request.protocol), request.name or ""
        if request.sender != "client" or request.connection is not frame.connection or kind in checks.waits:
            return
        if not request.is_held(frame):
            kind = f"{kind} {printable(request.topic)}" if isinstance(request.topic, str) else kind
            trend = self._trends.get_or_make((frame.source, kind), Trend)
            if trend.wants(request.time_ns):
                trend.add(TimedAnswer(request.time_ns, frame.time_ns - request.time_ns, request.ref))

    def finish(self) -> None:
        for key, trend in self._trends.items():
            if len(trend.answers) >= LEAST:
                self._judge(key, trend.parts())

    def _judge(self, key: tuple[str, str], parts: list[list[TimedAnswer]]) -> None:
        took = [sorted(each.latency_ns for each in part)[len(part) // 2] for part in parts]
        first, worst = min(took[:SLOW_PARTS]), max(took)
        slow = [index for index, each in enumerate(took) if each >= max(SLOW_NS, first * TIMES)]
        if len(slow) < SLOW_PARTS or slow[-1] - slow[0] >= len(slow):
            return
        late = [answer for index in slow for answer in parts[index] if answer.latency_ns >= SLOW_NS]
        arrived = [answer.time_ns + answer.latency_ns for answer in late]
        if len(late) < SLOW or 2 * (max(arrived) - min(arrived)) < late[-1].time_ns - late[0].time_ns:
            return  # one pause: the answers to all requests in it come at its end
        if max(arrived) - late[0].time_ns < LASTS_NS:
            return  # a burst
        (server, kind), rises = key, worst >= 2 * took[slow[0]]
        how = f"{first / 1e6:.1f} ms at first, {worst / 1e6:.0f} ms later (medians)"
        title = f"{server} answered {kind} ever more slowly: {how}" if rises else f"{server} became slow: {how}"
        refs = [answer.request for answer in late]
        problem = self.report.about(CODES["request.slower"], title, key, refs, until_ns=max(arrived))
        problem.alike, problem.weight = server, int(worst)
        problem.detail(f"{kind}: {how}")
        self._by_path(problem, server, refs[0], worst)
        if served := self.report.facts.of(SERVES, kind.removeprefix("request ")):
            self._by_service(problem, server, served[-1])

    def _by_path(self, problem: Problem, server: str, at: FrameRef, worst_ns: int) -> None:
        """Whether the path became slow, or is fast."""
        rtt = None if at.connection.health is None else at.connection.health.directions[at.side].rtt
        if rtt is None or not rtt.count:
            return
        if rtt.percentile(900) > max(SLOW_NS, worst_ns * 3 // 4):  # hosts delay ACKs by 0.2 s at most
            problem.alike = f"the path of {at.connection.endpoints[at.side].rpartition(':')[0]}"
            problem.title = f"the path to {server} became slow: its host acknowledged after {worst_ns / 1e6:.0f} ms"
            problem.likely = "a full queue or a longer way of packets between both hosts; the server is not slower"
        elif rtt.percentile(500) < SLOW_NS // TIMES:
            problem.detail(f"the path is fast: packets were acknowledged within {rtt.percentile(500) / 1e6:.3f} ms")

    def _by_service(self, problem: Problem, server: str, served: Fact) -> None:
        """The server only passes the requests on, to a client that answers them."""
        problem.title = problem.title.replace(server, served.by, 1)
        problem.likely = "the service is overloaded, or what it asks itself is slow"
        self.report.concerns(problem, served.places[-1].connection)


class Lags(Rule):
    """Consumers whose lag grows at each commit of their position; it sees the frames of its gauges."""

    plain = False

    def __init__(self, report: Report, gauges: Iterable[type[Gauge]]) -> None:
        super().__init__(report)
        self._gauges = by_type(gauges)
        self._newest: Newest[str, int] = Newest(MAX_TRENDS)
        """Lags, which NATS names at deliveries, and others with the position."""
        self._lags: Newest[str, list[tuple[int, int, FrameRef]]] = Newest(MAX_TRENDS)
        """Lags that rise, but for a tenth, with positions, which rise too: a consumer that is stuck is not too slow."""

    def frame(self, frame: Frame) -> None:
        readings = [each for gauge in self._gauges[frame.type] for each in read_gauge(gauge, frame)]
        if not readings:
            return
        for each in readings:
            if each.quantity == LAG:
                self._newest.put(each.of, each.value)
        for each in readings:
            if each.quantity == POSITION and each.of in self._newest:
                lags, lag = self._lags.get_or_make(each.of, list), self._newest[each.of]
                if lags and lag < lags[-1][0] * 9 // 10:
                    lags.clear()
                if not lags or (each.value > lags[-1][1] and lag >= lags[-1][0]):
                    lags.append((lag, each.value, ref_of(frame)))
                    del lags[1:-MAX_EVIDENCE]

    def finish(self) -> None:
        for of, lags in self._lags.items():
            (begin, _, since), (end, _, until) = lags[0], lags[-1]
            long = until.time_ns - since.time_ns >= LONG_NS
            if len(lags) >= COMMITS and long and end >= max(MANY, 2 * begin):
                title = f"{of} is too slow: it lagged by {begin:,} messages, then {end:,}"
                problem = self.report.about(CODES["consumer.too-slow"], title, of, [ref for _, _, ref in lags])
                problem.weight, problem.alike = end, of.rpartition(", ")[2]


def lags_of(report: Report, checks: Checks) -> tuple[Lags, frozenset[str]]:
    """The rule for consumers, and the types of its frames: none for a protocol that has a rule of its own."""
    own = any(code.code.endswith(".consumer-lag") for code in checks.codes)
    gauges = () if own else checks.gauges
    return Lags(report, gauges), frozenset().union(*(gauge.types for gauge in gauges))
