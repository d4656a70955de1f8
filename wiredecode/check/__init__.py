"""Finds the problems of a capture: one pass over its frames, rules of all protocols, problems with evidence."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path

from wiredecode.capture.batch import PacketBatch
from wiredecode.check.causes import group_by_cause
from wiredecode.check.changes import ClientChanges, TopicChanges, tell_changes
from wiredecode.check.codes import CODES
from wiredecode.check.differences import Client, client_of, tell
from wiredecode.check.exchanges import Exchanges
from wiredecode.check.flows import FlowRule, followed_by_messages, space_of, types_of
from wiredecode.check.publishes import Publishes
from wiredecode.check.repeated import RefusedAlways
from wiredecode.check.rules import ClearText, ClockRule, Findings, OtherProtocols, Requests
from wiredecode.check.stalls import Stalls
from wiredecode.check.transport import Health
from wiredecode.check.trends import Trends, lags_of
from wiredecode.check.verdict import TLS, Coverage
from wiredecode.dataclasses import replace
from wiredecode.dissect.dissector import Demand
from wiredecode.flows import Flows
from wiredecode.flows.accounts import parties_of
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.net.distribution import MAX_VALUES
from wiredecode.net.types import Connection
from wiredecode.protocols.checks import ByProtocol, checks_of
from wiredecode.protocols.registry import requests_of
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.protocols.shared.facts import CLIENT, party_of
from wiredecode.protocols.shared.problems import Moment, Problem, Report, Rule

__all__ = ["SEVERITIES", "Checker", "Problem"]

MAX_CLIENTS = 10_000
"""Connections whose clients are compared."""
MAX_OVER = 1000
"""Connections that are over before the first frame of a protocol, and that its rules learn of."""


class Checker:
    """Receives the frames of a capture in order, and the connections that are over; then :meth:`finish`."""

    def __init__(self, max_times: int = MAX_VALUES, *, all_messages: bool = False) -> None:
        """``max_times``: different latencies of a stream that are exact. ``all_messages``: others want them, too."""
        wanted = None if all_messages else lambda name: followed_by_messages(checks_of(name))
        self.messages = Messages(of_protocol=wanted)
        """The dissector fills it, see :meth:`demand`."""
        self.report, self.exchanges = Report(), Exchanges()
        self._requests, self._findings = Requests(self.report, self.exchanges), Findings(self.report)
        self._clock, self._clear = ClockRule(self.report), ClearText(self.report)
        self._others, self._stalls = OtherProtocols(self.report), Stalls(self.report)
        self._publishes = Publishes(self.report, self.exchanges, max_times)
        self._trends, self._flows = Trends(self.report, self.exchanges), FlowRule(self.report)
        refused = RefusedAlways(self.report, self.exchanges)
        self._exchange = self.exchanges.frame, self._requests.frame, refused.frame, self._trends.frame
        self._general = [self._requests, self._findings, Health(self.report), self._clock, self._others]
        self._general += [refused, self._clear, self._stalls, self._trends, self._flows]
        self._special: dict[str, list[Rule]] = {}
        """Rules by protocol that was spoken; others are not imported."""
        self._always: list[Callable[[Frame], None]] = [self._stalls.frame]
        self._of_type: dict[tuple[str, str | None], list[Callable[[Frame], None]]] = {}
        """By protocol and type: what its frames are shown to."""
        self._of_plain: dict[tuple[str, str | None], tuple[Callable[[Frame], bool], list[Callable[[Frame], None]]]] = {}
        """The same for plain frames, and which these are."""
        self._ended: deque[tuple[Connection, str | None]] = deque()
        self._over: list[Connection] = []
        """The first connections that are over, for the rules of protocols that come later."""
        self._clients: list[Client] = []
        self._changes = ClientChanges()
        self.coverage = Coverage()
        self._by_messages = ByProtocol(followed_by_messages)

    @property
    def flows(self) -> Flows:
        """Publishers and consumers, of protocols with offsets or subscriptions."""
        return self._flows.flows

    def demand(self, demand: Demand) -> Demand:
        """A demand with what is judged."""
        return replace(demand, link_responses=False, copies=False, analyse=True, messages=self.messages)

    def _meet(self, name: str) -> None:
        """The first frame of a protocol: from now on its rules get its frames."""
        checks = checks_of(name)
        rules = [kind(self.report) for kind in checks.rules]
        changes = TopicChanges(self.report, checks.changes), frozenset(checks.changes)
        seen = [changes, *((rule, rule.types) for rule in rules), lags_of(self.report, checks)]
        self._special[name] = [rule for rule, _ in seen]
        for rule, types in seen:
            for each in types:
                self._of_type.setdefault((name, each), [*self._always]).append(rule.frame)
            for connection in self._over:
                self._call(rule.ended, connection)
        for each in types_of(checks):
            self._of_type.setdefault((name, each), [*self._always]).append(self._flows.flows.frame)
        for published in checks.publishes:
            self._of_type.setdefault((name, published), [*self._always]).append(self._publishes.frame)
        if checks.is_plain is not None:
            others = {rule.frame for rule in (*self._special[name], self._publishes) if not rule.plain}
            for key in [key for key in self._of_type if key[0] == name]:
                self._of_plain[key] = checks.is_plain, [each for each in self._of_type[key] if each not in others]

    def _rules(self) -> Iterator[Rule]:
        """All rules, in an order that does not depend on the order of protocols in the capture."""
        yield from self._general
        for name in sorted(self._special):
            yield from self._special[name]
        yield self._publishes

    def look(self, batch: PacketBatch) -> None:
        """The next packets, before their frames; the first one is the origin of times in texts."""
        if len(batch) and not self.report.first_ns:
            self.report.first_ns = int(batch.time_ns[0])
        self._call(self._clock.look, batch)

    def end(self, connection: Connection, foreign: str | None = None) -> None:
        """A connection is over; its frames may still come. ``foreign``: its likely protocol, if it is not decoded."""
        if foreign is not None:
            self._others.at_foreign(connection, foreign)
        self._ended.append((connection, foreign))

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        ended = self._ended
        while ended and ended[0][0].ended_at < frame.ready:
            self._end(*ended.popleft())
        if frame.protocol == TLS:
            self.coverage.encrypted(frame)
            self._others.record(frame)
        else:
            self.coverage.messages += 1
        if frame.protocol not in self._special:
            self._meet(frame.protocol)
        if frame.time_ns > self.report.last_ns:
            self.report.last_ns = frame.time_ns
        if frame.request is not None or frame.expects_response or frame.type in requests_of(frame.protocol):
            self._show(frame, self._exchange)
        if frame.findings:
            self._findings.refusal_told = self._publishes.refused_by == frame.id
            self._call(self._findings.frame, frame)
        if not frame.offset:
            self._call(self._others.frame, frame)
        if frame.layer not in self._clear.harmless:
            self._call(self._clear.frame, frame)
        if self._by_messages[frame.protocol]:
            self._call(self._count, frame)
        kind = frame.protocol, frame.type
        plain = self._of_plain.get(kind)
        if plain is not None and plain[0](frame):
            self._show(frame, plain[1])
        else:
            self._show(frame, self._of_type.get(kind, self._always))

    def _count(self, frame: Frame) -> None:
        """Follow the messages of a frame of a protocol without a reader of flows."""
        self.flows.frame(frame, self.messages.of(frame))

    def _show(self, frame: Frame, methods: Iterable[Callable[[Frame], None]]) -> None:
        for method in methods:
            try:  # not _guarded: a call per rule and frame is a tenth of the time
                method(frame)
            except Exception as error:
                self._report_failure(method, error, frame)

    def finish(self) -> list[Problem]:
        """The capture is over: all problems by cause, the worst first."""
        for connection, _ in self._ended:
            self.report.learn(connection)
        while self._ended:
            self._end(*self._ended.popleft())
        rules = [*self._rules()]
        for rule in rules:
            self._call(rule.gather)
        for rule in rules:
            self._call(rule.finish)
        for connection in self.flows.connections.values():  # also open ones
            self._changes.note(connection)
        parties = parties_of(self.flows)
        more = {number: {"space": space_of(each), **each.settings} for number, each in parties.items()}
        tell_changes(self.report, self.report.problems.values())
        self._changes.explain(self.report.problems.values(), self.report.first_ns, more)
        problems = group_by_cause(self.report.problems.values())
        tell(problems, self._clients)
        return problems

    def so_far(self) -> list[Problem]:
        """All problems as if the capture ended here; more may follow. It takes some ten milliseconds."""
        return deepcopy(self, {id(self.messages): self.messages}).finish()

    def _end(self, connection: Connection, foreign: str | None) -> None:
        self.report.learn(connection)
        self._introduce(connection)
        self._changes.note(connection)
        self.coverage.end(connection, foreign)
        if len(self._over) < MAX_OVER:
            self._over.append(connection)
        for rule in self._rules():
            if type(rule).ended is not Rule.ended:  # most have none
                self._call(rule.ended, connection)

    def _introduce(self, connection: Connection) -> None:
        """Note who the client of a connection is."""
        said = [connection.identity.get(name, "") for name in CLIENT.of[2:]]
        client = client_of(connection, self._flows.flows.space_of(connection))
        if client is not None and len(self._clients) < MAX_CLIENTS:
            self._clients.append(client)
        if any(said):
            party, health, since_ns = party_of(connection), connection.health, connection.first_ns
            until_ns = since_ns if health is None else health.last_ns
            self.report.facts.note(CLIENT, party.client, party.server, *said, since_ns=since_ns, until_ns=until_ns)

    def _call(self, method: Callable[..., None], subject: Frame | Connection | PacketBatch | None = None) -> None:
        """If a rule fails, the others continue; its failure is a problem, too."""
        try:
            if subject is None:
                method()
            else:
                method(subject)
        except Exception as error:
            self._report_failure(method, error, subject)

    def _report_failure(self, method: Callable[..., None], error: Exception, subject: object) -> None:
        rule = type(getattr(method, "__self__", method)).__name__
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        where = f"{Path(last.tb_frame.f_code.co_filename).name}, line {last.tb_lineno}" if last is not None else ""
        title = f"the rule {rule} failed: {type(error).__name__}: {error}"
        connection = subject if isinstance(subject, Connection) else None
        at = subject if isinstance(subject, Frame) else Moment(connection, None)
        self.report.add(CODES["check.internal"], title, (rule, type(error).__name__, where), frame=at).detail(where)
