"""Clients that are refused every time: one refusal may be expected, the fifth equal one without a success is not."""

import re
from functools import lru_cache

from wiredecode.check.codes import CODES
from wiredecode.check.exchanges import Exchange, Exchanges
from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, FrameRef, Rule, ref_of

MANY, MIN_NS = 5, 1_000_000_000
"""Equal refusals of a client, and the time from the first to the last, that are worth a warning ..."""
FEW = 20
"""... if it had at most one success in as many refusals, from the first one on."""
MAX_REASONS = 16
"""Of refusals, per client and type of request."""
TIMES = re.compile(r" \(\d+ times\)$")
Client = tuple[str, str, str, str, int]
"""Protocol, host, server, and name; without a name, the number of the connection."""


@dataclass(slots=True)
class RefusedRequests:
    """Equal refusals of one client's requests of one type."""

    text: str
    """The first one."""
    refs: list[FrameRef] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0
    times: int = 0
    publishes: int = 0


@dataclass(slots=True)
class RepeatTally:
    """Outcomes of one client's requests of one type since the first refusal."""

    successes: int = 0
    refused: dict[str, RefusedRequests] = field(default_factory=dict)
    """By :func:`reason_of`."""


@lru_cache(maxsize=4096)
def reason_of(message: str, protocol: str) -> str:
    """The part of a refusal that other objects share: ``NoSuchSegment`` of ``... refused: NoSuchSegment: a/b``.

    Empty if the refusal is expected.
    """
    text = message.partition(" refused: ")[2] or message
    reason = TIMES.sub("", text.partition(": ")[0])
    return "" if any(word in reason for word in checks_of(protocol).expected) else reason


@dataclass(eq=False)
class RefusedAlways(Rule):
    """Sees the answers to requests."""

    _exchanges: Exchanges
    _tallies: Newest[tuple[Client, str], RepeatTally] = field(default_factory=Newest)
    _clients: Newest[int, Client] = field(default_factory=Newest)
    """By connection."""
    _quiet: set[int] = field(default_factory=set)
    """Connections of clients that were refused nothing."""

    def frame(self, frame: Frame) -> None:
        """The next frame that may be an answer."""
        request = self._exchanges.answered
        if request is None or (not frame.findings and frame.connection.number in self._quiet):
            return
        refusal = frame.refusal if frame.findings else None
        if refusal is None and (frame.is_partial or not self._tallies):
            return  # a truncated answer may refuse
        if request.connection is not frame.connection or request.is_copy:
            return
        if frame.type in checks_of(frame.protocol).tried:
            return
        client = self._client(request)
        if refusal is None:
            if (tally := self._tallies.get((client, request.type or ""))) is not None:
                tally.successes += 1
            elif all(refused != client for refused, _ in self._tallies):
                self._quiet.add(frame.connection.number)
        elif (request.publishing is None or not request.publishing.refusals) and (
            reason := reason_of(refusal, client[0])
        ):
            tally = self._tallies.get((client, request.type or ""))
            if tally is None:
                self._tallies.put((client, request.type or ""), tally := RepeatTally())
                self._quiet.clear()
            self._refuse(tally, frame, request, refusal, reason)

    def _client(self, request: Exchange) -> Client:
        connection = request.connection
        client = self._clients.get(connection.number)
        if client is None or not client[3]:  # perhaps it said its name since
            host, name = connection.endpoints[request.side].rpartition(":")[0], connection.identity.get("name") or ""
            client = request.protocol, host, request.server, name, 0 if name else connection.number
            self._clients.put(connection.number, client)
        return client

    @staticmethod
    def _refuse(tally: RepeatTally, frame: Frame, request: Exchange, refusal: str, reason: str) -> None:
        if reason not in tally.refused and len(tally.refused) >= MAX_REASONS:
            return
        refused = tally.refused.setdefault(reason, RefusedRequests(refusal, first_ns=frame.time_ns))
        refused.times, refused.last_ns = refused.times + 1, frame.time_ns
        refused.publishes += request.publishing is not None
        if len(refused.refs) < MAX_EVIDENCE:
            refused.refs += [request.ref, ref_of(frame)]

    def finish(self) -> None:
        groups: dict[tuple[str, ...], list[tuple[str, RepeatTally, RefusedRequests]]] = {}
        for ((protocol, host, server, name, _), kind), tally in self._tallies.items():
            for reason, refused in tally.refused.items():
                if tally.successes * FEW <= refused.times:
                    groups.setdefault((protocol, host, server, name, reason), []).append((kind, tally, refused))
        for (_, _, server, _, reason), some in groups.items():
            times = sum(refused.times for _, _, refused in some)
            first_ns = min(refused.first_ns for _, _, refused in some)
            last_ns = max(refused.last_ns for _, _, refused in some)
            if times >= MANY and last_ns - first_ns >= MIN_NS:
                self._report(server, reason, some, times)

    def _report(
        self, server: str, reason: str, some: list[tuple[str, RepeatTally, RefusedRequests]], times: int
    ) -> None:
        refs = sorted((ref for _, _, refused in some for ref in refused.refs), key=lambda ref: ref.number)
        kinds, who = dict.fromkeys(kind for kind, _, _ in some), short(refs[0].connection)
        of = times + sum(tally.successes for _, tally, _ in some)
        title = f"{server} refused {times:,} of {of:,} {', '.join(kinds)} of {who}: {reason}"
        severity = "error" if any(refused.publishes for _, _, refused in some) else None
        until_ns = max(refused.last_ns for _, _, refused in some)
        key = server, who, reason
        how = {"until_ns": until_ns, "count": times, "severity": severity}
        problem = self.report.about(CODES["request.refused"], title, key, refs, **how)
        problem.likely = problem.code.cause_of(some[0][2].text)
        for kind, tally, refused in some:
            count = f"{refused.times:,} of {refused.times + tally.successes:,}"
            problem.detail(f"{kind}: {count}, {refused.text}")
