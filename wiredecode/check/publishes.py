"""Publishes and what answers them, in all protocols: confirmed late, or neither confirmed nor refused."""

import re
from heapq import heappush, heappushpop
from typing import Any, NamedTuple

from wiredecode.check.codes import CODES
from wiredecode.check.differences import separating
from wiredecode.check.exchanges import REMARKABLE_NS, Exchange, Exchanges
from wiredecode.check.transport import why_ended
from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.frames.identity import short
from wiredecode.net.distribution import Distribution
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.shared.facts import FIRST, MADE, MOVES
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, FrameRef, Problem, Publishing, Rule, inner_values

LASTS_NS = 1_500_000_000
"""Confirms that are late for a shorter time are those of a burst, which waits for itself."""
SLOW_P99_NS, SLOW_NS = 500_000_000, 1_000_000_000
"""A p99, and a single confirm, that are worth a warning."""
BUSY, MANY_SLOW_NS = 10_000, 3_000_000_000
"""Frames in a second, while a publish waited, that show a queue of the client's own and not a slow broker, up to the
second."""
PATIENCE_NS = 1_000_000_000
"""A publish is unconfirmed if this much of the capture, or the end of its connection, follows."""
MAX_WORST = 10
MAX_STREAMS = 1000
"""Brokers and streams that are counted separately."""
MAX_REASONS = 32
"""Of refusals, per connection and stream."""
COMPARED = ("wrong last sequence", "INCORRECT_OFFSET")
NUMBER = re.compile(r"\b\d+\b")
MAX_PLACES = 65_536
"""The same, by connection."""


class Slow(NamedTuple):
    """A publish and its confirm."""

    latency_ns: int
    confirm: int
    published: FrameRef
    transfer_ns: int


@dataclass(slots=True)
class Confirmed:
    """Confirms of one broker for one stream."""

    times: Distribution
    """Of messages, as ``stats`` counts them."""
    slow: int = 0
    """Frames of messages worth a note; of the worst a heap."""
    worst: list[Slow] = field(default_factory=list)

    def add(self, frame: Frame, waiting: Exchange, messages: int) -> None:
        latency_ns = frame.time_ns - waiting.time_ns
        self.times.add(latency_ns, messages)
        if waiting.pending:
            return
        self.slow += latency_ns >= REMARKABLE_NS
        if len(self.worst) == MAX_WORST and latency_ns <= self.worst[0].latency_ns:
            return
        entry = Slow(
            latency_ns, frame.number, waiting.ref._replace(packets=[]), max(waiting.time_ns - waiting.first_ns, 0)
        )
        (heappush if len(self.worst) < MAX_WORST else heappushpop)(self.worst, entry)


@dataclass(slots=True)
class RefusedMessages:
    """Messages of one connection to one stream that were refused for one reason."""

    ref: FrameRef
    why: str
    """The reason of the first one."""
    is_usual: bool
    """Its writers compare and set, and somebody else was faster; or it is being stored already."""
    last_ns: int = 0
    messages: int = 0
    frames: list[FrameRef] = field(default_factory=list)
    confirmed: bool = False
    """Others were confirmed after them."""


MAX_TRAITS = 100
"""Different values of :attr:`Publishing.traits` per stream."""


@dataclass(eq=False)
class Publishes(Rule):
    """Sees frames of the types that publish."""

    plain = False
    _exchanges: Exchanges
    max_times: int
    """Different latencies of a stream that are exact."""
    _confirmed: dict[tuple[str, str], Confirmed] = field(default_factory=dict)
    _begun: Newest[tuple[int, str], int] = field(default_factory=lambda: Newest(MAX_PLACES))
    """Time of the first confirm, by connection and stream."""
    _published: Newest[tuple[int, str], int] = field(default_factory=lambda: Newest(MAX_PLACES))
    """Messages by connection and stream."""
    _refused: Newest[tuple[int, str], dict[str, RefusedMessages]] = field(default_factory=lambda: Newest(MAX_PLACES))
    """By connection and stream, then by reason."""
    _worked: Newest[tuple[str, str], set[tuple[str, ...]]] = field(default_factory=lambda: Newest(MAX_STREAMS))
    """Traits of confirmed publishes, by broker and stream."""
    refused_by: int | None = None
    """The last frame that refused a publish: no other rule reports it."""

    def __post_init__(self) -> None:
        self._exchanges.confirm.append(self._confirm)

    def frame(self, frame: Frame) -> None:
        """A frame that publishes."""
        if frame.is_partial and not frame.missing and frame.connection.closed and frame.sender == "client":
            self._incomplete(frame)
        publish = self._exchanges.open.get(frame.id)
        if not frame.expects_response or frame.is_copy or publish is None or (how := publish.publishing) is None:
            return
        stream = ""
        for name in how.stream:
            if value := _value(frame, name):
                stream = str(value)
                break
        if how.part and (part := _value(frame, how.part)):
            stream = f"{stream} ({how.part} {part})"
        name, unasked = how.unasked
        if (how.other_streams and stream.startswith(how.other_streams)) or (name and _value(frame, name) == unasked):
            return
        counted = _value(frame, how.messages) if how.messages else 1
        publish.count = (counted if isinstance(counted, int) else len(counted or ())) or 1
        publish.stream = printable(stream)
        if how.traits:
            publish.traits = tuple(str(_value(frame, name) or "none") for name in how.traits)
        publish.pending = publish.count if frame.response is None else 0  # else it was refused before it was sent
        key = frame.connection.number, stream
        self._published.put(key, self._published.get(key, 0) + publish.count)

    def _confirm(self, frame: Frame, waiting: Exchange, confirmation: Confirmation) -> None:
        if not waiting.pending:
            return
        if frame.connection is not waiting.connection:
            waiting.is_confirmed = True  # somebody answered, but it is not known when the publisher heard of it
            return
        count = waiting.pending if confirmation.final is not None else min(confirmation.length, waiting.pending)
        waiting.pending -= count
        how = waiting.publishing
        assert how is not None
        if how.confirmed_by and how.confirmed_by not in frame.generated:
            return
        stream_key = waiting.connection.number, waiting.stream
        if confirmation.refusal is not None:
            if how.refusals:
                self.refused_by = frame.id
                self._refuse(self._refused.get_or_make(stream_key, dict), waiting, how, confirmation.refusal, count)
            return
        for refused in self._refused.get(stream_key, {}).values():
            refused.confirmed = True
        if how.traits:
            worked = self._worked.get_or_make((waiting.server, waiting.stream), set)
            if len(worked) < MAX_TRAITS:
                worked.add(waiting.traits)
        first_ns = self._begun.get(stream_key)
        if first_ns is None:
            self._begun.put(stream_key, first_ns := frame.time_ns)
        if waiting.time_ns <= first_ns:
            topic, since_ns = waiting.stream.partition("[")[0], waiting.time_ns
            self.report.facts.note(FIRST, frame.source, topic, since_ns=since_ns, until_ns=frame.time_ns)
            if self.report.facts.of(MADE, topic):
                return
        if confirmation.outcome is None or waiting.is_held(frame):
            return
        key = frame.source, waiting.stream
        confirmed = self._confirmed.get(key)
        if confirmed is None and len(self._confirmed) < MAX_STREAMS:
            confirmed = self._confirmed[key] = Confirmed(Distribution(self.max_times))
        if confirmed is not None:
            confirmed.add(frame, waiting, count)

    @staticmethod
    def _refuse(
        by_reason: dict[str, RefusedMessages], waiting: Exchange, how: Publishing, why: str, count: int
    ) -> None:
        reason = NUMBER.sub("", why)  # the same with other numbers: "wrong last sequence: 17"
        refused = by_reason.get(reason)
        if refused is None:
            if len(by_reason) >= MAX_REASONS:
                return
            compared = how.compared is not None and waiting.stream.startswith(how.compared)
            usual = compared and any(each in why for each in COMPARED)
            usual |= bool(how.repeated) and how.repeated in why
            refused = by_reason[reason] = RefusedMessages(waiting.ref, why, usual)
        refused.messages += count
        refused.confirmed, refused.last_ns = False, waiting.time_ns
        if len(refused.frames) < MAX_EVIDENCE:
            refused.frames.append(waiting.ref)

    def finish(self) -> None:
        for stream_key, reasons in self._refused.items():
            for refused in reasons.values():
                self._report_refused(stream_key, refused)
        for (broker, stream), confirmed in self._confirmed.items():
            if confirmed.worst and confirmed.times.largest >= REMARKABLE_NS:
                self._report_slow(broker, stream, confirmed)
        unanswered: dict[tuple[int, str], list[Exchange]] = {}
        for sent in self._exchanges.open.values():
            elsewhere = checks_of(sent.protocol).answered
            if not (sent.pending and sent.is_judged) or sent.is_confirmed or sent.type in elsewhere:
                continue
            usual = self._confirmed.get((sent.server, sent.stream))  # others waited
            patience_ns = max(PATIENCE_NS, 0 if usual is None else usual.times.largest)
            over = sent.connection.closed is not None or self.report.last_ns - sent.time_ns >= patience_ns
            if over and self.report.answer_captured(sent):
                unanswered.setdefault((sent.connection.number, sent.stream), []).append(sent)
        failed: dict[tuple[str, str], list[Exchange]] = {}
        for publishes in unanswered.values():
            failed.setdefault((publishes[0].server, publishes[0].stream), []).extend(publishes)
        differ = {place: self._difference(place, publishes) for place, publishes in failed.items()}
        for key, publishes in unanswered.items():
            problem = self._report_unconfirmed(key, publishes)
            problem.likely = differ[publishes[0].server, publishes[0].stream] or problem.likely

    def _difference(self, place: tuple[str, str], failed: list[Exchange]) -> str:
        """The one value that separates publishes to a stream without an answer from those that were confirmed."""
        how, worked = failed[0].publishing, self._worked.get(place, ())
        for index, name in enumerate(how.traits if how is not None else ()):
            values = separating(
                (each[index] for each in worked), (each.traits[index] for each in failed if each.traits)
            )
            if values is not None:
                succeed, fail = values
                return f"all with {name} {fail} fail, and those with {succeed} are confirmed: the broker expects it"
        return ""

    def _report_refused(self, stream_key: tuple[int, str], refused: RefusedMessages) -> None:
        why, who, stream = refused.why, short(refused.ref.connection), stream_key[1]
        of, to = self._published.get(stream_key, refused.messages), f" to {stream}" if stream else ""
        title = f"{refused.messages:,} of {of:,} messages that {who} published{to}: {why}"
        severity = "note" if refused.is_usual else "warning" if refused.confirmed else None
        how: Any = {"until_ns": refused.last_ns, "count": refused.messages, "severity": severity}
        problem = self.report.add(CODES["publish.refused"], title, (stream_key, why), frame=refused.ref, **how)
        problem.weight, problem.alike = refused.messages, why
        problem.likely = problem.code.cause_of(why)
        self.report.cite(problem, *refused.frames)

    def _incomplete(self, frame: Frame) -> None:
        sent, connection = frame.length - frame.missing, frame.connection
        end = connection.first_end
        who, likely, key = f"{short(connection)} ended", "", f"{connection.number}"
        if end is not None and end.side != frame.side:
            who, key = f"{frame.destination} ended the connection of {short(connection)}", frame.destination
            likely = "the request is larger than the server allows, or the server was stopped"
        title = f"{who} inside a {frame.type}: {sent:,} bytes of it were sent"
        problem = self.report.add(CODES["publish.incomplete"], title, key, frame=frame)
        problem.likely = likely
        for finding in frame.findings:
            problem.detail(finding.message)

    def _report_slow(self, broker: str, stream: str, confirmed: Confirmed) -> None:
        times, p99 = confirmed.times, confirmed.times.percentile(990)
        slow = [entry for entry in confirmed.worst if entry.latency_ns >= REMARKABLE_NS]
        worst = sorted(slow, key=lambda entry: (-entry.latency_ns, entry.confirm))
        slowest, transfer, problem = worst[0], "", None
        busy = slowest.confirm - slowest.published.number >= BUSY * slowest.latency_ns / 1e9
        ends = [entry.published.time_ns + entry.latency_ns for entry in worst]
        busy |= max(ends) - min(entry.published.time_ns for entry in worst) < LASTS_NS and times.largest < SLOW_NS
        late = times.largest >= (MANY_SLOW_NS if busy else SLOW_NS) or (p99 >= SLOW_P99_NS and not busy)
        moved = any(self.report.facts.each(MOVES))
        late = late and not (moved and times.largest < MANY_SLOW_NS)
        most = f"p99 {p99 / 1e9:.3f} s, worst {slowest.latency_ns / 1e9:.3f} s of {times.count:,} messages"
        title = f"{broker} confirmed publishes to {stream or 'it'} late: {most}"
        for each in worst:
            code, until_ns = CODES["publish.slow-confirm"], each.published.time_ns + each.latency_ns
            how: Any = {"until_ns": until_ns, "severity": None if late else "note"}
            problem = self.report.add(code, title, (broker, stream), frame=each.published, **how)
            problem.count, problem.weight = confirmed.slow, slowest.latency_ns
            problem.alike = broker
        if slowest.transfer_ns:
            transfer = f" ({slowest.transfer_ns / 1e6:.3f} ms from its first byte to its last)"
        until = f"{slowest.latency_ns / 1e9:.3f} s until frame {slowest.confirm}"
        assert problem is not None
        checks = [checks_of(each) for each in slowest.published.connection.protocols]
        problem.likely = next((each.holds for each in checks if each.passes_on), "")
        problem.detail(f"slowest: frame {slowest.published.number}{transfer}, {until}")

    def _report_unconfirmed(self, key: tuple[int, str], publishes: list[Exchange]) -> Problem:
        first, unanswered = publishes[0], sum(each.pending for each in publishes)
        connection, stream = first.connection, first.stream
        of, to = self._published.get(key, unanswered), f" to {stream}" if stream else ""
        title = f"{unanswered:,} of {of:,} messages that {short(connection)} published{to} have no answer"
        places = [each.ref for each in publishes]
        problem = self.report.about(CODES["publish.unconfirmed"], title, key, places, count=unanswered)
        health, end = connection.health, connection.first_end
        gave_up, until_ns = end is not None and end.side == first.side, end.time_ns if end else self.report.last_ns
        waited_ns = until_ns - places[-1].time_ns
        broker, served = first.server, {of for of, _ in self._confirmed}
        if health is not None and any(side.long_outages() for side in health.directions):
            problem.likely = "the path was interrupted: see tcp.no-ack"
        elif health is not None and health.directions[first.side].was_closed(places[-1].time_ns, health.last_ns):
            problem.likely = "the client did not read its socket: see tcp.zero-window"
        elif waited_ns >= PATIENCE_NS and not (health and health.directions[first.side].unacknowledged):
            waited = f"{waited_ns / 1e9:.3f} s" + ", then the client gave up" * gave_up
            holds = checks_of(first.protocol).holds
            problem.likely = f"the broker did not answer for {waited}: it hangs, or {holds}"
        elif gave_up:
            problem.likely = "the client ended the connection without waiting for confirms"
        elif health is not None and not health.directions[1 - first.side].payload:
            problem.likely = why_ended(connection, first.side, answered=broker in served)
        elif end is not None and connection.identity.get("closed_by") != "client":
            problem.likely = "the broker ended the connection before it confirmed them"
        return problem


def _value(frame: Frame, name: str) -> Any:
    """Return a field of a frame, of its carried frame, or derived from other frames."""
    if name in frame.generated:
        return frame.generated[name]
    return frame.values[name] if name in frame.values else inner_values(frame).get(name)
