"""Rules that hold for every protocol: requests, findings of frames, clocks, other protocols, clear-text secrets."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from wiredecode.capture.batch import PacketBatch
from wiredecode.check.codes import CODES, code_of
from wiredecode.check.exchanges import Exchange, Exchanges
from wiredecode.check.transport import why_ended
from wiredecode.dataclasses import dataclass, field
from wiredecode.dissect.identify import LONGEST_BEGINNING, UNKNOWN, foreign_name
from wiredecode.fields.layer import Layer
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import OK, UNDECODED, Finding, Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.analysis import TIMESTAMPS, each_option
from wiredecode.net.headers import HeaderReader
from wiredecode.net.limits import DEFAULT_LIMITS
from wiredecode.net.segments import distance
from wiredecode.net.types import Connection, Direction
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.reading import values_of
from wiredecode.protocols.registry import by_name, protocol_entries, requests_of, title_of
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.facts import ASKED
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Moment, Rule, begin_of, ref_of, whole

PATIENCE_NS = 1_000_000_000
"""A request is unanswered if this much of the capture, or the end of its connection, follows."""
SILENT_NS = 2_000_000_000
"""A server that accepts a connection and sends nothing for this long, though it acknowledges requests, says nothing."""
MAX_DETAILED = 3
"""Unanswered requests of one type that are listed individually."""
SETTLED_NS = 1_000_000_000
"""Bytes missing this long after the first byte of a connection that began earlier were not sent before that byte."""
GAP_CODES = frozenset({"hole", "no-frame", "header-cut"})
"""Findings of frames that a gap explains."""
OF_CAPTURE = frozenset({"frame-cut", "late-data"})
"""Where nothing is missing before: the capture ends inside a frame, or its packets are out of order."""


Asked = tuple[int, str | None, Any, int]
"""Connection, type, topic and bytes of a request: one that is sent again has the same ones."""
MAX_ANSWERED = 65_536


@dataclass(eq=False)
class Requests(Rule):
    """Requests without response."""

    _exchanges: Exchanges
    _unanswered: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)
    """Types of requests after which a server closed the connection, by server and severity."""
    _answered: dict[Asked, Exchange] = field(default_factory=dict)
    """The newest answered one of equal requests of a connection."""

    def frame(self, frame: Frame) -> None:
        if (request := self._exchanges.answered) is not None:
            request.is_heard = True
            if request.publishing is not None:
                return
            self._answered[request.connection.number, request.type, request.topic, request.size] = request
            if len(self._answered) > MAX_ANSWERED:
                del self._answered[next(iter(self._answered))]
        if frame.expects_response and "copy_of" not in frame.generated and not self.report.held(frame):
            self._exchanges.open[frame.id].is_judged = True

    def _servers(self) -> set[str]:
        """Servers that answered requests."""
        requests = (*self._answered.values(), *self._exchanges.over())
        return {each.server for each in requests}

    def gather(self) -> None:
        servers = self._servers()
        for request in self._exchanges.open.values():
            checks = checks_of(request.protocol)
            unknown = request.type in checks.publishes and request.server not in servers
            if request.is_heard or not request.is_judged or unknown:
                continue
            always = request.type in requests_of(request.protocol) and request.type not in checks.answered
            if request.sender == "client" and (always or request.type in checks.publishes):
                self.report.facts.note(ASKED, str(request.connection.number), since_ns=request.time_ns)

    def finish(self) -> None:
        last = self.report.last_ns
        answered: dict[tuple[Any, ...], list[Exchange]] = {}
        for (_, *what), request in self._answered.items():
            answered.setdefault(tuple(what), []).append(request)
        for request in self._exchanges.open.values():
            connection, since_ns, kind = request.connection, request.time_ns, request.type or ""
            if request.is_heard or not request.is_judged:
                continue
            checks = checks_of(request.protocol)
            if kind in ("Close", *checks.answered, *checks.publishes):
                continue
            requests, answers = connection.directions[request.side], connection.directions[1 - request.side]
            end = connection.first_end
            soon = end is not None and end.time_ns - since_ns < PATIENCE_NS
            closed = soon and self.report.answer_captured(request) and end and end.side != request.side
            if not closed and last - since_ns < PATIENCE_NS:
                continue
            gave_up = soon and not closed
            always = kind in requests_of(request.protocol) and kind not in checks.waits
            severity = None if always and not gave_up else "note"
            if always and self._said_nothing(request, last if end is None else end.time_ns):
                continue
            if closed:
                self._closed(request, severity or "error")
                continue
            title, asked_by_server = f"{kind} of {request.protocol} was not answered", request.sender == "server"
            if asked_by_server:
                title = f"{kind} of {connection.endpoints[request.side]} was not answered by its client"
            again = answered.get((kind, request.topic, request.size), ())
            if any(each.time_ns > since_ns and each.asker == request.asker for each in again):
                severity, title = "note", f"{kind} of {request.protocol} was not answered until it was sent again"
            elif since_ns <= answers.unlinked_ns or not self.report.all_captured(connection, 1 - request.side):
                severity, title = "note", f"{title}, but not all that came back was captured"
            elif requests.lossy:
                severity, title = "note", f"{title}, but not all that was sent before it was captured"
            elif gave_up:
                title = f"{title} before the client closed the connection"
            key, until_ns = (request.protocol, kind, severity, title), last if end is None else end.time_ns
            problem = self.report.add(
                CODES["request.unanswered"], title, key, frame=request.ref, severity=severity, until_ns=until_ns
            )
            if problem.count <= MAX_DETAILED:
                who = "the server of " * asked_by_server + short(connection)
                problem.detail(f"{who} waited from {self.report.seconds(since_ns)} on")
            if asked_by_server:
                problem.likely = "the client hangs, or its library does not know the request, or was ending"
            problem.weight = problem.count

    def _said_nothing(self, request: Exchange, until_ns: int) -> bool:
        """Whether the server accepted the connection, acknowledged the request, and sent nothing; report it then."""
        connection, waited_ns, health = request.connection, until_ns - request.time_ns, request.connection.health
        if health is None or not health.accepted or waited_ns < SILENT_NS:
            return False
        asks, answers, server = health.directions[request.side], health.directions[1 - request.side], 1 - request.side
        if answers.payload or asks.unacknowledged or not self.report.all_captured(connection, server):
            return False
        key = "silent", (endpoint := connection.endpoints[server])
        how: Any = {"until_ns": until_ns, "severity": "error"}
        problem = self.report.add(CODES["tcp.nothing-said"], "", key, frame=request.ref, **how)
        problem.weight = max(problem.weight, waited_ns)
        ended = (
            "" if health.end is None else f", then the {'client' if health.end.side != server else 'server'} ended it"
        )
        did = f"{short(connection)} sent {request.type}, {asks.payload:,} bytes in all, and waited"
        problem.detail(f"{did} {waited_ns / 1e9:.3f} s{ended}")
        accepted = f"{endpoint} accepted {counted(len(problem.members), 'connection')}, acknowledged what came"
        problem.title = f"{accepted}, and never answered: for up to {problem.weight / 1e9:.3f} s"
        problem.likely = "its process hangs, or a proxy or load balancer accepts for a server that does not answer"
        return True

    def _closed(self, request: Exchange, severity: str) -> None:
        """The server closed the connection in place of an answer."""
        key = server, _ = request.server, severity
        kinds = self._unanswered.setdefault(key, {})
        kinds[request.type or ""] = None
        problem = self.report.add(CODES["request.unanswered"], "", key, frame=request.ref, severity=severity)
        closed = counted(len(problem.members), "connection")
        problem.title = f"{server} closed {closed} and did not answer {', '.join(kinds)}"
        problem.likely = "the server does not accept the requests (TLS, compression, version, size), or was stopped"
        health = request.connection.health
        if health is not None and not health.directions[1 - request.side].payload:
            problem.likely = why_ended(request.connection, request.side, answered=server in self._servers())


def may_be_before(direction: Direction) -> bool:
    """Whether all missing bytes may precede the capture, followed by bytes that were then sent again (SACK)."""
    if direction.started or direction.first_ns is None or not direction.losses:
        return False
    return all(shown - direction.first_ns <= SETTLED_NS for _, shown, *_ in direction.losses)


@dataclass(eq=False)
class Findings(Rule):
    """Findings about frames, grouped by code."""

    refusal_told: bool = False
    """Another rule already reported that the frame refuses a request."""

    def frame(self, frame: Frame) -> None:
        checks = checks_of(frame.protocol)
        for finding in frame.findings:
            if finding.code in checks.covered:
                continue
            if self.refusal_told and finding.group == "response":
                continue
            if finding.code == "overlap-differs":
                self.report.add(CODES["tcp.overlap-differs"], finding.message, frame=frame, severity=finding.severity)
            elif finding.code in GAP_CODES or finding.group == "reassembly":
                self._gap(frame, finding)
            else:
                name = f"{frame.protocol}.{finding.code}"
                key = (finding.severity, finding.message if finding.group == "response" else None)
                code = code_of(finding.code, finding.group)
                likely = code.cause_of(finding.message)
                severity = "warning" if likely else finding.severity
                self.report.add(code, finding.message, key, frame=frame, severity=severity, name=name).likely = likely

    def _gap(self, frame: Frame, finding: Finding) -> None:
        """Bytes that are not in the capture, or frames that cannot be decoded for that reason."""
        connection = frame.connection
        missing = any(direction.missing and not may_be_before(direction) for direction in connection.directions)
        late = not connection.directions[frame.side].started and (
            finding.code == "no-frame" or may_be_before(connection.directions[frame.side])
        )
        if late and not missing:
            self.report.add(CODES["capture.late-start"], "connections began before the capture", frame=frame)
        elif missing or (frame.missing and finding.code in GAP_CODES):
            title = "frames are not whole: bytes of theirs were not captured"
            self.report.add(CODES["capture.loss"], title, frame=frame)
        else:
            code = CODES["frame.malformed" if finding.code in GAP_CODES else "frame.other"]
            name = f"{frame.protocol}.{finding.code}"
            ends = connection.closed is None and any(each.code == "header-cut" for each in frame.findings)
            severity = "note" if ends or finding.code in OF_CAPTURE else finding.severity
            self.report.add(code, finding.message, frame=frame, severity=severity, name=name)


BACK_NS = 1_000_000_000
"""Packets of several queues or interfaces are written out of order by less."""
STAYS = 5
"""Packets after a step back that are all earlier than the one before it: one alone is only late."""
AHEAD_NS = 10_000_000_000
"""A pause this long is examined."""
SLOWEST_TICK_NS = 100_000_000
"""No clock of TCP timestamps that is in use ticks more slowly (RFC 7323 section 5.4 allows 1 s)."""
AROUND = 64
"""Packets before and after a pause in which both sides' clocks are looked for."""
MAX_STEPS = 1000


@dataclass(eq=False)
class ClockRule(Rule):
    """Sees the packets before they are decoded; reports at the end."""

    _jumps: list[tuple[int, int, str]] = field(default_factory=list)
    """Numbers and times of packets at which the capture's clock leaps or goes back, and a text that says so."""
    _before: PacketBatch | None = None
    """The last packets of the batch before."""

    def look(self, batch: PacketBatch) -> None:
        """The next packets."""
        if not len(batch):
            return
        before, times = self._before, batch.time_ns
        last = times[0] if before is None else before.time_ns[-1]
        gaps = np.diff(times, prepend=last)
        for index in np.flatnonzero((gaps <= -BACK_NS) | (gaps >= AHEAD_NS)).tolist()[:MAX_STEPS]:
            earlier = batch.part(max(index - AROUND, 0), index) if index else before
            if earlier is not None and len(self._jumps) < MAX_STEPS:
                self._judge(earlier, batch.part(index, index + AROUND), int(gaps[index]))
        self._before = batch.part(max(len(batch) - AROUND, 0), len(batch))

    def _judge(self, earlier: PacketBatch, later: PacketBatch, gap_ns: int) -> None:
        text = ""
        if gap_ns < 0:
            if (later.time_ns[:STAYS] < earlier.time_ns[-1]).all():
                text = f"the time goes back by {-gap_ns / 1e9:.3f} s"
        else:
            counted_ns = senders_time(earlier, later)
            if counted_ns is not None and counted_ns * 2 < gap_ns:
                text = f"the time leaps ahead by {gap_ns / 1e9:.3f} s, which no sender's TCP timestamps show"
        if text:
            low, high = sorted((int(earlier.time_ns[-1]), int(later.time_ns[0])))
            self.report.leaps_ns.append((low, high))
            self._jumps.append((int(later.number[0]), int(later.time_ns[0]), text))

    def finish(self) -> None:
        for packet, time_ns, text in self._jumps:
            self.report.add(CODES["capture.clock"], text, text, frame=Moment(None, time_ns, packet))


def senders_time(earlier: PacketBatch, later: PacketBatch) -> int | None:
    """Most time, ns, that can have passed by TCP timestamps of hosts that sent before and after, if known."""
    before = dict(timestamps(earlier))
    ticks = [distance(before[flow], value) for flow, value in timestamps(later) if flow in before]
    return max(ticks) * SLOWEST_TICK_NS if ticks else None


def timestamps(batch: PacketBatch) -> Iterator[tuple[tuple[int, ...], int]]:
    """``(flow, TSval)`` of the segments that have one."""
    segments = HeaderReader(DEFAULT_LIMITS, Counter(), Counter()).read(batch)
    places = segments.header.tolist(), segments.start.tolist()
    for flow, header, payload in zip(segments.flows(), *places, strict=True):
        for kind, value in each_option(segments.buffer[header:payload]) if 0 <= header <= payload - 20 else ():
            if kind == TIMESTAMPS and len(value) == 8:
                yield flow, int.from_bytes(value[:4])


MAX_SERVERS = 10_000
"""Addresses of servers that are remembered."""
CHANGE_CIPHER_SPEC = 6
"""Bytes of this record, which follows the ClientHello or its answer."""
NO_CERTIFICATE = 30
"""Bytes of the record with which a client of TLS 1.3 says that it has no certificate."""
MIN_FINISHED = 58
"""Bytes of the record with which a client finishes a handshake of TLS 1.3; in older versions there are more."""
MAX_BYTES = 512 * 1024
"""Bytes of frames of one layer that are searched for secrets: most frames hold none."""


@dataclass(slots=True)
class Handshake:
    """A TLS handshake: its ClientHello, and the offset behind that in the client's stream."""

    hello: FrameRef
    end: int
    is_answered: bool = False
    no_certificate_ns: int | None = None
    """When the client said that it has no certificate."""


@dataclass(eq=False)
class OtherProtocols(Rule):
    """Receives the first frames of connections, and the likely protocols of other connections."""

    _ports: dict[int, str] = field(
        default_factory=lambda: {port: entry.name for entry in reversed(protocol_entries()) for port in entry.ports}
    )
    _protocols: dict[str, str] = field(default_factory=dict)
    _others: list[tuple[Connection, str]] = field(default_factory=list)
    _handshakes: Newest[int, Handshake] = field(default_factory=Newest)
    """By connection."""
    _behind: Newest[str, list[Connection]] = field(default_factory=Newest)
    """By server: connections that began with a PROXY header and were ended without a word; none: it understands it."""

    def record(self, frame: Frame) -> None:
        """The next record of TLS."""
        number, handshake = frame.connection.number, self._handshakes.get(frame.connection.number)
        if frame.type == "ClientHello":
            self._handshakes.put(number, Handshake(ref_of(frame), frame.offset + frame.length))
        elif handshake is None:
            return
        elif frame.type == "ServerHello":
            handshake.is_answered = True
            self._answered(handshake.hello, frame)
        elif frame.type == "Alert":
            self._handshakes.pop(number, None)  # it says why
        elif frame.side == handshake.hello.side and frame.offset == handshake.end + CHANGE_CIPHER_SPEC:
            handshake.no_certificate_ns = frame.time_ns if frame.length == NO_CERTIFICATE else None

    def _answered(self, hello: FrameRef, answer: Frame) -> None:
        """A server that took the ClientHello and answered late: no packet was sent again, and the path is fast."""
        late_ns, health = answer.time_ns - hello.time_ns, answer.connection.health
        if health is None or late_ns < max(PATIENCE_NS, 2 * (health.handshake_ns or 0)) or answer.missing:
            return
        resent = (time_ns for each in health.directions for time_ns in each.repeated_ns)
        if any(hello.time_ns <= time_ns <= answer.time_ns for time_ns in resent):
            return
        code, key, until_ns = CODES["server.stalled"], (answer.source, "TLS"), answer.time_ns
        problem = self.report.add(code, "", key, frame=hello, until_ns=until_ns, severity="note")
        problem.weight = max(problem.weight, late_ns)
        if problem.count > 1 or late_ns >= 2 * PATIENCE_NS:
            problem.severity = code.severity
        problem.title = f"{answer.source} answered {counted(problem.count, 'TLS handshake')} late, "
        problem.title += f"after {problem.weight / 1e9:.3f} s"
        problem.likely = "its CPU is overloaded, or it waits for something first: a name, a certificate's revocation"

    def ended(self, connection: Connection) -> None:
        """A client that ends the connection in place of the handshake does not accept what the server sent."""
        if proxy.NAME in connection.protocols:
            self._after_proxy(connection)
        handshake = self._handshakes.pop(connection.number, None)
        end = connection.first_end
        if handshake is None or not handshake.is_answered or end is None or not whole(connection):
            return
        hello, without_ns = handshake.hello, handshake.no_certificate_ns
        server = connection.endpoints[1 - hello.side]
        if end.side != hello.side and without_ns is not None and end.time_ns - without_ns <= PATIENCE_NS:
            problem = self.report.add(CODES["frame.tls"], "", (server, end.side), frame=hello, name="tls.not-finished")
            problem.title = f"{server} ended {counted(problem.count, 'TLS handshake')} of clients without a certificate"
            problem.likely = "the server requires certificates of clients (mutual TLS), and the clients are given none"
        more = connection.directions[hello.side].captured - handshake.end  # an alert, or nothing before it ends
        if (more or end.side == hello.side) and more < MIN_FINISHED:
            problem = self.report.add(CODES["frame.tls"], "", server, frame=hello, name="tls.not-finished")
            times = counted(problem.count, "TLS handshake")
            problem.title = f"clients ended {times} with {server} after they got its certificate"
            problem.likely = "they do not accept the certificate: it expired, has another name, or an unknown authority"

    def _after_proxy(self, connection: Connection) -> None:
        """Remember what a server does after a PROXY header."""
        health, end, server = connection.health, connection.first_end, 1 - client_side(connection)
        if health is not None and health.directions[server].payload:
            self._behind.put(connection.endpoints[server], [])
        elif end is not None and end.side == server and self.report.all_captured(connection, server):
            ended = self._behind.get_or_make(connection.endpoints[server], lambda: [connection])
            if ended and ended[-1] is not connection and len(ended) < MAX_SERVERS:
                ended.append(connection)

    def frame(self, frame: Frame) -> None:
        connection = frame.connection
        if frame.status == UNDECODED and connection.directions[frame.side].started:
            self._undecoded(frame)
        elif frame.type == "HTTP" and frame.sender == "client" and connection.directions[1 - frame.side].frames:
            self._http(frame)
        elif frame.protocol == "tls" and frame.side == connection.initiator:
            return  # what a client tries: the server may answer otherwise
        elif connection.initiator is not None and len(self._protocols) < MAX_SERVERS:
            self._protocols.setdefault(connection.endpoints[1 - connection.initiator], frame.protocol)

    def _undecoded(self, frame: Frame) -> None:
        """The first bytes of one side are no frame, though the other side speaks the protocol."""
        beginning = frame.data[:LONGEST_BEGINNING]
        name, protocol = foreign_name(beginning), by_name(frame.protocol)
        truncated = frame.connection.directions[frame.side].lossy  # the rest may ask for an upgrade, to WebSocket
        if name != UNKNOWN and not (truncated and protocol is not None and protocol.may_upgrade):
            spoken = title_of(frame.protocol) or frame.protocol
            by_client = frame.side == client_side(frame.connection)
            text = f"{frame.source} speaks {name}, the other side {spoken}"
            likely = _likely(name if by_client else spoken, spoken if by_client else name)
            self._add(text, (name, frame.source), likely, f"{frame.source} began with {beginning!r}", frame)

    def _http(self, frame: Frame) -> None:
        """A request of HTTP to a server that spoke first: this is no upgrade to WebSocket."""
        spoken = title_of(frame.protocol) or frame.protocol
        began = f"it began with {frame.data[:LONGEST_BEGINNING]!r}, after the server's {spoken}"
        self._at_port("HTTP", frame.source, frame.destination, spoken, began, frame)

    def at_foreign(self, connection: Connection, name: str) -> None:
        """A connection that is not decoded is over; ``name`` is what its first bytes look like."""
        if connection.initiator is not None and name != UNKNOWN and len(self._others) < MAX_SERVERS:
            self._others.append((connection, name))

    def finish(self) -> None:
        for connection, name in self._others:
            client = connection.initiator or 0
            server, answered = connection.endpoints[1 - client], connection.directions[1 - client].captured
            spoken = self._protocols.get(server)
            if spoken is None and not answered:
                spoken = self._ports.get(connection.ports[1 - client])
            if spoken is None or (spoken == "tls" and spoken in connection.protocols):
                continue  # what a healthy connection carries inside TLS
            if name == "TLS" and (answered or spoken == "tls" or connection.closed is None):
                continue
            health = connection.health
            if health is not None and not health.directions[1 - client].packets:
                continue  # only the client was captured
            closed = None if answered else connection.closed
            silent = f"the server sent nothing; the connection ended by {closed}" if closed else ""
            spoken = title_of(spoken) or spoken
            self._at_port(name, connection.endpoints[client], server, spoken, silent, begin_of(connection))
        for server, ended in self._behind.items():
            title = (
                f"{server} closed {counted(len(ended), 'connection')} that began with a PROXY header, without a word"
            )
            for each in ended:
                problem = self.report.add(CODES["protocol.mismatch"], title, ("PROXY", server), frame=begin_of(each))
                problem.likely = (
                    "the load balancer sends the PROXY protocol, and the server does not expect it: switch "
                )
                problem.likely += "it off there (send-proxy), or on at the server if it can (Kafka cannot)"

    def _at_port(self, name: str, client: str, server: str, spoken: str, detail: str, at: Frame | Moment) -> None:
        """A client that speaks another protocol than its server's port is for."""
        title = f"{client.rpartition(':')[0]} speaks {name} to {server}, the {spoken} port"
        self._add(title, (name, server), _likely(name, f"plain {spoken}" if name == "TLS" else spoken), detail, at)

    def _add(self, title: str, key: tuple[str, str], likely: str, detail: str, at: Frame | Moment) -> None:
        problem = self.report.add(CODES["protocol.mismatch"], title, key, frame=at)
        problem.likely = likely
        problem.detail(detail)


def _likely(client: str, server: str) -> str:
    """The likely misconfiguration if a client and a server speak these protocols."""
    if server == "TLS":
        return f"the client speaks {client} without TLS to a port for TLS"
    return f"the client, which speaks {client}, was given the port of {server}"


@dataclass(eq=False)
class ClearText(Rule):
    """Fields that are declared secret, in frames that were decoded."""

    harmless: set[type[Layer] | None] = field(default_factory=lambda: {None})
    """Layers without secrets: their frames need not be shown to this rule."""
    _looked: Counter[type[Layer]] = field(default_factory=Counter)

    def frame(self, frame: Frame) -> None:
        layer = frame.layer
        assert layer is not None
        if self._looked[layer] > MAX_BYTES or not (layer in self._looked or layer.holds_secrets()):
            self.harmless.add(layer)
            return
        self._looked[layer] += frame.length
        if frame.status != OK:
            return
        values = values_of(frame)
        if "undecided" not in values and layer.carries_secrets(values):  # that is hidden because nothing is known of it
            title = f"{frame.type} of {frame.protocol} carries secrets that anybody on the way can read"
            self.report.add(CODES["security.clear-text"], title, (frame.protocol, frame.type), frame=frame)
