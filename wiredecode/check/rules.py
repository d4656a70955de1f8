"""Rules that hold for every protocol: requests and responses, and findings of frames."""

from __future__ import annotations

from typing import NamedTuple

from wiredecode.check.codes import CODES, code_of
from wiredecode.frames.frame import Finding, Frame
from wiredecode.frames.who import short
from wiredecode.net.health import RETRANSMISSION, SPURIOUS_RETRANSMISSION, DirectionHealth
from wiredecode.net.types import Connection, Direction
from wiredecode.protocols.registry import requests
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import Checks, Report, Rule

MOST_REQUESTS = 65_536
"""Requests of the capture that wait at the same time; the oldest beyond it are not judged."""
PATIENCE_NS = 1_000_000_000
"""A request is unanswered if this much of the capture, or the end of its connection, follows."""
SLOW_NS = 200_000_000
"""Responses that took longer are held against losses and closed windows."""
MAX_DETAILED = 3
"""Unanswered requests of one type that are listed individually."""
SETTLED_NS = 1_000_000_000
"""Bytes missing this long after the first byte of a connection that began earlier were not sent before that byte."""
MOST_SLOW = 100
"""Per connection."""
HOLES = frozenset({"hole", "no-frame", "header-cut"})
"""Findings of frames that a hole explains."""
CAPTURE_ENDS = "frame-cut"
"""Where nothing is missing before: the capture ends inside a frame, as many do."""


class OpenRequest(NamedTuple):
    """A request without its response yet."""

    number: int
    packet: int | None
    time_ns: int
    connection: Connection
    side: int
    protocol: str
    type: str
    always: bool
    """Such a request always asks for an answer."""
    polls: bool
    """It waits for data."""


class Requests(Rule):
    """Requests without response, and slow ones that TCP explains."""

    def __init__(self, report: Report, offered: dict[str, Checks]) -> None:
        super().__init__(report)
        judged = (kind for checks in offered.values() for kind in (*checks.answered, *checks.publishes))
        self._elsewhere = frozenset({"Close", *judged})
        waits = {name: checks.waits for name, checks in offered.items()}
        self._always = {name: types - waits.get(name, frozenset()) for name, types in requests().items()}
        self._offered = offered
        self._waiting: Newest[int, OpenRequest] = Newest(MOST_REQUESTS)
        self._slow: dict[int, list[tuple[OpenRequest, int, int]]] = {}

    def frame(self, frame: Frame) -> None:
        if frame.request is not None:
            request = self._waiting.pop(frame.request, None)
            slow = (frame.latency_ns or 0) >= SLOW_NS
            if slow and request is not None and not request.polls:
                self._remember_slow(frame, request)
        if frame.expects_response and "copy_of" not in frame.generated:
            always, checks = frame.type in self._always.get(frame.protocol, ()), self._offered.get(frame.protocol)
            packet = frame.packets[0] if frame.packets else None
            request = OpenRequest(
                *(frame.number, packet, frame.time_ns, frame.connection, frame.side, frame.protocol),
                *(frame.type or "", always, checks is not None and checks.polls(frame)),
            )
            self._waiting.put(frame.id, request)

    def _remember_slow(self, frame: Frame, request: OpenRequest) -> None:
        slow = self._slow.setdefault(frame.connection.number, [])
        if len(slow) < MOST_SLOW and request.connection is frame.connection:
            slow.append((request, frame.time_ns, frame.packets[-1] if frame.packets else 0))

    def ended(self, connection: Connection) -> None:
        health = connection.health
        for request, until_ns, packet in self._slow.pop(connection.number, ()):
            if health is None:
                return
            for side, direction in enumerate(health.directions):
                why = explains(direction, request, until_ns, packet)
                if why:
                    seconds = (until_ns - request.time_ns) / 1e9
                    who = short(connection)
                    what = f"{request.type} of {who} waited {seconds:.3f} s while {why} of {connection.endpoints[side]}"
                    problem = self.report.add(
                        *(CODES["tcp.slow-response"], what, (connection.number, why)),
                        connection=connection,
                        time_ns=request.time_ns,
                    )
                    self.report.cite_numbers(problem, request.number, request.packet)

    def finish(self) -> None:
        last = self.report.last_ns
        for request in self._waiting.values():
            connection = request.connection
            if last - request.time_ns < PATIENCE_NS or request.type in self._elsewhere:
                continue
            requests, answers = connection.directions[request.side], connection.directions[1 - request.side]
            severity = None if request.always else "note"
            name = short(connection)
            what = f"{request.type} of {request.protocol} was not answered"
            if answers.lossy or not answers.captured:
                severity, what = "note", f"{what}, but not all that came back was captured"
            elif requests.lossy:
                severity, what = "note", f"{what}, but not all that was sent before it was captured"
            problem = self.report.add(
                *(CODES["request.unanswered"], what, (request.protocol, request.type, severity)),
                severity=severity,
                connection=connection,
                time_ns=request.time_ns,
            )
            self.report.cite_numbers(problem, request.number, request.packet)
            if problem.count <= MAX_DETAILED:
                problem.detail(f"{name} waited from {self.report.seconds(request.time_ns)} on")
            problem.weight = problem.count


def explains(direction: DirectionHealth, request: OpenRequest, until_ns: int, packet: int) -> str:
    """Describe the TCP events in one direction while a request waited."""
    if direction.closed(request.time_ns, until_ns):
        return "the window was closed"
    if direction.number_of(RETRANSMISSION) and request.packet is not None:
        for number, kinds in direction.kinds.items():
            lost = kinds & RETRANSMISSION and not kinds & SPURIOUS_RETRANSMISSION and number not in direction.needless
            if lost and request.packet <= number <= packet:
                return "segments were lost"
    return ""


def may_be_before(direction: Direction) -> bool:
    """Whether all missing bytes may precede the capture, followed by bytes that were then sent again (SACK)."""
    if direction.started or direction.first_ns is None or not direction.losses:
        return False
    return all(shown - direction.first_ns <= SETTLED_NS for _, shown, _ in direction.losses)


class Findings(Rule):
    """Findings about frames, grouped by code."""

    def __init__(self, report: Report, covered: dict[str, frozenset[str]]) -> None:
        super().__init__(report)
        self._covered = covered
        self.refusal_told = False
        """Another rule already reported that the frame refuses a request."""

    def frame(self, frame: Frame) -> None:
        for finding in frame.findings:
            if finding.code in self._covered.get(frame.protocol, ()):
                continue
            if self.refusal_told and finding.group == "response":
                continue
            if finding.code in HOLES or finding.group == "reassembly":
                self._hole(frame, finding)
            else:
                name = f"{frame.protocol}.{finding.code}"
                key = (finding.severity, finding.message if finding.group == "response" else None)
                code = code_of(finding.code, finding.group)
                self.report.add(code, finding.message, key, frame=frame, severity=finding.severity, name=name)

    def _hole(self, frame: Frame, finding: Finding) -> None:
        """Bytes that are not in the capture, or frames that cannot be decoded for that reason."""
        connection = frame.connection
        missing = any(direction.missing and not may_be_before(direction) for direction in connection.directions)
        late = not connection.directions[frame.side].started and (
            finding.code == "no-frame" or may_be_before(connection.directions[frame.side])
        )
        if late and not missing:
            self.report.add(CODES["capture.late-start"], "connections began before the capture", frame=frame)
        elif missing or (frame.missing and finding.code in HOLES):
            what = "frames are not whole: bytes of theirs were not captured"
            self.report.add(CODES["capture.loss"], what, frame=frame)
        else:
            code = CODES["frame.malformed" if finding.code in HOLES else "frame.other"]
            name = f"{frame.protocol}.{finding.code}"
            severity = "note" if finding.code == CAPTURE_ENDS else finding.severity
            self.report.add(code, finding.message, frame=frame, severity=severity, name=name)
