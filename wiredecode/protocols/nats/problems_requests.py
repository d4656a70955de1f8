"""Requests that got no answer, and messages of JetStream that are no longer acknowledged."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import server_endpoint, short
from wiredecode.net.types import Connection
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation_acks import ACK, Acknowledged, parse_ack_subject
from wiredecode.protocols.nats.problems_jetstream import NEXT, PUBLISHED, PURGE, Publish, Stored, asked_for, publish_of
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import DELIVERED, MADE, SERVES
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, FrameRef, Problem, Report, Rule, ref_of, whole

CODES = codes_of("nats")
INBOX = "_INBOX."
CREATE, GIVEN_UP = ".API.CONSUMER.", "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES."
NOT_DONE = (b"-NAK", b"+WPI")
MAX_OPEN = 20_000
"""Requests waiting at the same time, and unacknowledged messages of a consumer; the oldest beyond it are not judged."""
MAX_CLOSED = 4096
"""Requests that were answered, of which a delivery may still come."""
MAX_KNOWN = 1024
"""Subjects, services and consumers that are kept separate."""
PATIENCE_NS, STUCK_NS = 1_000_000_000, 3_000_000_000
"""A request is unanswered, and a consumer of known limit stuck, after the first; of unknown limit after the second."""
MANY_LATE, MANY_QUICK = 5, 10
"""Late answers of a service that is too slow; one that answered more in time is expected to do so."""
MANY_REQUESTS = 3
"""This many requests to one subject without responder are a warning."""
MANY_SILENT, MANY_DELIVERIES = 3, 3
"""Requests without answer that are worth an error, and deliveries of one message that are worth a warning."""
MAPPED = "_R_."
"""Reply subjects between accounts, in place of that of the request: the request itself is judged."""
MANY_UNACKNOWLEDGED = 20
"""Unacknowledged messages that are worth a warning if the limit is not known."""
MANY_WAITED = 20
"""Deliveries while others waited, and messages that waited: the limit of a consumer is the bottleneck."""
HUNG_NS, HUNG = 5_000_000_000, 20
"""A consumer hangs after that time, and this many times the longest one that an ack took, with as many acks before."""


def matches(pattern: str, subject: str) -> bool:
    """Whether a subscription to ``pattern``, perhaps with wildcards, gets messages to ``subject``."""
    asked, given = pattern.split("."), subject.split(".")
    tail = asked[-1] == ">" and len(given) >= len(asked)
    parts = zip(asked[:-1], given, strict=False) if tail else zip(asked, given, strict=False)
    return (tail or len(asked) == len(given)) and all(one in ("*", other) for one, other in parts)


class UnansweredRequest(NamedTuple):
    """An open request."""

    ref: FrameRef
    subject: str
    inbox: bool
    """Its reply subject is one that client libraries make for requests."""
    delivered: list[FrameRef]
    """Where a server gave it to a client."""
    publish: Publish | None
    """Its options as a publish to JetStream."""
    astray: list[tuple[str, FrameRef]]
    """Publishes to another subject that ends with the reply subject."""


class StreamAck(NamedTuple):
    """The ack of a stream for a request."""

    subject: str
    stream: str
    ref: FrameRef
    asked: FrameRef


@dataclass(slots=True)
class Service:
    """A client that requests were delivered to."""

    answered_ns: int = 0
    """When a request to it was answered last."""
    silent: list[FrameRef] = field(default_factory=list)
    """Requests without an answer."""
    subjects: dict[str, None] = field(default_factory=dict)
    spoke_ns: int = 0
    """When it answered last."""
    quick: int = 0
    """Requests that it answered in time."""
    pause: tuple[FrameRef, int] | None = None
    """The longest time in which it answered nothing: from this request on, in nanoseconds."""
    run_ns: int = 0
    """Since when it answers late without a pause ..."""
    slow_ns: int = 0
    """... and how long it did so at most."""
    late: int = 0
    waited: list[FrameRef] = field(default_factory=list)
    """Requests that it answered late: how many, and the first ones ..."""
    took_ns: tuple[int, int] = (0, 0)
    """... and how long the first and the last of them waited."""

    def answered(self, ref: FrameRef, time_ns: int) -> None:
        """A request that was delivered at ``ref`` was answered."""
        self.answered_ns, took_ns = ref.time_ns, time_ns - ref.time_ns
        if took_ns < PATIENCE_NS:
            self.quick += 1
            self.run_ns = 0
        else:
            self.late += 1
            self.run_ns = self.run_ns or ref.time_ns
            self.slow_ns = max(self.slow_ns, ref.time_ns - self.run_ns)
            self.took_ns = self.took_ns[0] or took_ns, took_ns
            if len(self.waited) < MAX_EVIDENCE:
                self.waited.append(ref)
            if self.spoke_ns <= ref.time_ns and (self.pause is None or took_ns > self.pause[1]):
                self.pause = ref, took_ns
        self.spoke_ns = time_ns


class NatsRequests(Rule):
    """Requests without answer, and who was asked. An answer is what comes first on the reply subject."""

    plain = False
    types = frozenset({"PUB", "HPUB", "MSG", "HMSG", "CONNECT", "-ERR", "SUB", "UNSUB", "INFO"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._stored = Stored(report)
        self._carriers: Newest[int, None] = Newest(MAX_KNOWN)
        """Connections of clients by a protocol that NATS carries, whose rules report the outcomes of their requests."""
        self._open: Newest[str, UnansweredRequest] = Newest(MAX_OPEN)
        """By reply subject."""
        self._closed: Newest[str, None] = Newest(MAX_CLOSED)
        """Reply subjects of requests that were answered: their deliveries may come later, to plain subscribers."""
        self._asked: dict[str, int] = {}
        """Requests by subject."""
        self._acked: Newest[str, StreamAck] = Newest(MAX_CLOSED)
        """By reply subject: requests that a stream acknowledged before anything else answered."""
        self._intercepted: dict[tuple[str, str], list[tuple[StreamAck, FrameRef]]] = {}
        """By subject and stream: those that a client answered, too."""
        self._services: dict[int, Service] = {}
        """By connection."""
        self._served: dict[str, FrameRef] = {}
        """By subject: the last request that a client answered, as it was delivered to it."""
        self._subscribed: Newest[tuple[int, str], tuple[str, FrameRef]] = Newest(MAX_KNOWN)
        """By connection and sid: the subjects that a client subscribes to."""
        self._denied: Newest[str, tuple[str, FrameRef]] = Newest(MAX_KNOWN)
        """By subject that a server does not let through to another: the direction, and the INFO that says so."""

    def frame(self, frame: Frame) -> None:
        values = frame.values
        if frame.type in ("SUB", "UNSUB", "INFO"):
            self._learn(frame, values)
            return
        if frame.type == "-ERR":
            if frame.request is not None:
                refused = (reply for reply, each in self._open.items() if each.ref.number == frame.request)
                self._open.pop(next(refused, ""), None)
            return
        if frame.type == "CONNECT":
            if frame.generated:
                self._carriers.put(frame.connection.number, None)
            return
        if frame.type in PUBLISHED and (acked := self._acked.pop(values.get("subject", ""), None)) is not None:
            found = self._intercepted.setdefault((acked.subject, acked.stream), [])
            if len(found) < MAX_CLOSED:
                found.append((acked, ref_of(frame)))
        if frame.type in PUBLISHED and (at := values.get("subject", "").find(f".{INBOX}")) > 0:
            request = self._open.get(values["subject"][at + 1 :])
            if request is not None and request.delivered:
                request.astray.append((printable(values["subject"][: at + 1]), ref_of(frame)))
        if "reply" not in values and frame.request is None:
            return
        if frame.request is not None:
            self._answered(frame, values)
        reply, subject = values.get("reply"), values.get("subject", "")
        if (
            reply is None
            or not frame.expects_response
            or self.report.held(frame)
            or reply.startswith(ACK)
            or subject.startswith(ACK)
            or NEXT in subject
        ):
            return
        delivered = frame.type not in PUBLISHED
        request = self._open.get(reply)
        if delivered and request is None and (reply in self._closed or reply.startswith(MAPPED)):
            return
        if request is None or not delivered:
            self._closed.pop(reply, None)
            request = UnansweredRequest(
                ref_of(frame), printable(subject), reply.startswith(INBOX), [], publish_of(values), []
            )
            self._stored.request(frame, subject)
            is_new = reply not in self._open  # else another interface captured it, too
            self._open.put(reply, request)
            if is_new and (request.subject in self._asked or len(self._asked) < MAX_KNOWN):
                self._asked[request.subject] = self._asked.get(request.subject, 0) + 1
        if delivered and frame.sender == "server":
            request.delivered.append(ref_of(frame))

    def _learn(self, frame: Frame, values: Mapping[str, Any]) -> None:
        """Subscriptions, and subjects that servers do not pass on to others."""
        key = frame.connection.number, str(values.get("sid", ""))
        if frame.type == "SUB" and not values.get("subject", INBOX).startswith(INBOX):
            self._subscribed.put(key, (values["subject"], ref_of(frame)))
        elif frame.type == "UNSUB" and not values.get("max_messages"):
            self._subscribed.pop(key, None)
        elif frame.type == "INFO":
            for way in ("export", "import"):
                rules = (values.get("options") or {}).get(way)
                denied = rules.get("deny") if isinstance(rules, dict) else None
                for subject in denied if isinstance(denied, list) else ():
                    self._denied.put(str(subject), (way, ref_of(frame)))

    def ended(self, connection: Connection) -> None:
        for key in [each for each in self._subscribed if each[0] == connection.number]:
            del self._subscribed[key]

    def _elsewhere(self, problem: Problem, subject: str, asking: Connection) -> None:
        """A client in the capture subscribes to it: say so, and what may keep both apart."""
        fits = (ref for pattern, ref in self._subscribed.values() if matches(pattern, subject))
        found = next((ref for ref in fits if ref.connection is not asking), None)
        if found is None:
            return
        problem.title = f"requests of {short(asking)} to {subject} do not reach {short(found.connection)}, "
        problem.title += "which subscribes to it"
        problem.likely = "accounts, exports and imports, or permissions keep both apart"
        servers = {server_endpoint(asking), server_endpoint(found.connection)}
        if len(servers) > 1:
            problem.likely = "the link between their servers (leaf node, gateway, route) is down, is bound to another "
            problem.likely += "account, or may not pass the subject on"
        problem.detail(f"{short(found.connection)} subscribed at {server_endpoint(found.connection)}")
        self.report.cite(problem, found)
        self.report.concerns(problem, found.connection)
        for pattern, (way, ref) in self._denied.items():
            if matches(pattern, subject):
                problem.likely = f"the link between their servers denies the {way} of {printable(pattern)}"
                problem.detail(f"{ref.connection.endpoints[ref.side]} says so in frame {ref.number}")
                self.report.cite(problem, ref)

    def _answered(self, frame: Frame, values: Mapping[str, Any]) -> None:
        reply = values.get("subject", "")
        request = self._open.pop(reply, None)
        if request is not None:
            self._closed.put(reply, None)
            if "stream_sequence" in frame.generated:
                stream = printable(frame.generated["stream"])
                self._acked.put(reply, StreamAck(request.subject, stream, ref_of(frame), request.ref))
            for ref in request.delivered:
                self._service(ref).answered(ref, frame.time_ns)
                if request.subject in self._served or len(self._served) < MAX_KNOWN:
                    self._served[request.subject] = ref
            self._stored.answer(frame, request.subject, request.ref, request.publish)
        if values.get("status") == names.NO_RESPONDERS and "description" not in values:
            self._no_responders(frame, request)

    def _no_responders(self, frame: Frame, request: UnansweredRequest | None) -> None:
        subject = frame.generated.get("request_subject", "(before the capture)")
        connection, who = frame.connection, short(frame.connection)
        carries = connection.number in self._carriers or len(connection.protocols) > 1
        if not carries and self._stored.not_taken(frame, subject, request and request.publish):
            return
        key, title, detail = subject, f"no client and no stream takes requests to {subject}", f"asked by {who}"
        if carries:
            key, title, detail = connection.number, f"no client answers requests of {who}", subject
        problem = self.report.add(CODES["no-responders"], title, key, frame=frame)
        problem.detail(detail)
        served = self._served.get(subject)
        end = served and served.connection.first_end
        if served and end and end.time_ns <= (problem.first_ns or 0):
            ended = f"its connection ended at {self.report.seconds(end.time_ns)}"
            problem.detail(f"{short(served.connection)} answered them; {ended}")
            problem.likely = "the service ended"
        if not carries:
            self._elsewhere(problem, subject, connection)
        if problem.count >= MANY_REQUESTS and not carries and not subject.startswith("$"):
            problem.severity = "warning"

    def _report_intercepted(self, subject: str, stream: str, found: list[tuple[StreamAck, FrameRef]]) -> None:
        """Clients took the ack of a stream for the answer of the service, which came later."""
        if len(found) < MANY_LATE:
            return
        asking, serving = (
            ", ".join(dict.fromkeys(short(ref.connection) for ref in refs))
            for refs in ([acked.asked for acked, _ in found], [ref for _, ref in found])
        )
        title = f"stream {stream} answers requests to {subject} before {serving}: {len(found):,} requests of {asking} "
        title += "got its ack first"
        refs = [found[0][0].asked, *(ref for acked, answer in found for ref in (acked.ref, answer))]
        problem = self.report.about(CODES["stream-answers"], title, (subject, stream), refs, count=len(found))
        for made in self.report.facts.of(MADE, stream)[-1:]:
            problem.detail(f"{made.by} made {stream} at {self.report.seconds(made.since_ns)}")
        for _, ref in found:
            self.report.concerns(problem, ref.connection)

    def _service(self, ref: FrameRef) -> Service:
        if ref.connection.number not in self._services and len(self._services) >= MAX_KNOWN:
            return Service()
        return self._services.setdefault(ref.connection.number, Service())

    def gather(self) -> None:
        for subject, ref in self._served.items():
            self.report.facts.saw(SERVES, subject, frame=ref, by=short(ref.connection))

    def finish(self) -> None:
        self._stored.finish()
        for (subject, stream), found in self._intercepted.items():
            self._report_intercepted(subject, stream, found)
        late: dict[str, list[UnansweredRequest]] = {}
        for request in self._open.values():
            ref, last_ns = request.ref, self.report.last_ns
            if ref.connection.closed is not None or last_ns - ref.time_ns >= PATIENCE_NS:
                if not self.report.leapt(ref.time_ns, last_ns):
                    late.setdefault(request.subject, []).append(request)
                for ref in request.delivered:
                    service = self._service(ref)
                    service.silent.append(ref)
                    service.subjects[request.subject] = None
        explained: dict[str, Problem] = {}
        for service in self._services.values():
            first = service.silent[0].time_ns if len(service.silent) > 1 else 0
            spans = (service.silent, self.report.last_ns), (service.waited, service.spoke_ns)
            if any(refs and self.report.leapt(refs[0].time_ns, until_ns) for refs, until_ns in spans):
                continue
            if first > service.answered_ns > 0 and whole(service.silent[0].connection):
                explained |= dict.fromkeys(service.subjects, self._report_silent(service))
            elif service.pause is not None and service.late > 1 and service.quick >= MANY_QUICK:
                if service.slow_ns <= 2 * service.pause[1]:  # else it is slow, and no pause is over
                    self._report_pause(service, *service.pause)
            elif service.late >= MANY_LATE and service.took_ns[1] >= 2 * service.took_ns[0]:
                self._report_behind(service)
        waiting = Counter(request.subject for request in self._open.values())  # also those that could still be answered
        for subject, several in late.items():
            kind = "publishes" if self._stored.stream_of(subject) else "requests"
            of = f"{len(several):,} of {self._asked.get(subject, len(several)):,} {kind} to {subject} got no answer"
            if subject in explained:
                explained[subject].detail(of)
            else:
                self._report_unanswered(subject, of, several, waiting[subject])

    def _report_silent(self, service: Service) -> Problem:
        since = self.report.seconds(service.silent[0].time_ns)
        did = f"has answered no request since {since}: {len(service.silent):,} were delivered to it"
        severity = None if len(service.silent) >= MANY_SILENT else "warning"
        problem = self._report_service(did, service.silent, len(service.silent), severity)
        if service.answered_ns:
            problem.detail(f"the last request that it answered came at {self.report.seconds(service.answered_ns)}")
        end = service.silent[0].connection.first_end
        if end is not None and end.side == service.silent[0].side ^ 1 and self._left_soon(service, end.time_ns):
            who, at = short(service.silent[0].connection), self.report.seconds(end.time_ns)
            problem.title = f"{who} ended its connection at {at}, and did not answer "
            problem.title += f"{counted(len(service.silent), 'request')} that it had got since {since}"
            problem.likely = "it closed without a drain: it has to take no more requests, and to answer those that came"
        else:
            problem.detail(f"its connection stayed open{f' until {self.report.seconds(end.time_ns)}' if end else ''}")
        return problem

    @staticmethod
    def _left_soon(service: Service, end_ns: int) -> bool:
        """Whether a service ended before it could have answered what it did not."""
        return end_ns - service.silent[0].time_ns <= PATIENCE_NS

    def _report_pause(self, service: Service, first: FrameRef, pause_ns: int) -> None:
        did = f"answered nothing for {pause_ns / 1e9:.3f} s: {service.late:,} requests waited"
        problem = self._report_service(did, [first, *service.waited], service.late, "warning")
        problem.last_ns = first.time_ns + pause_ns
        problem.detail(f"it answered {service.quick:,} others within {PATIENCE_NS // 1_000_000_000} s")

    def _report_behind(self, service: Service) -> None:
        begin, end = service.took_ns
        did = f"falls behind: a request waited {begin / 1e9:.3f} s, a later one {end / 1e9:.3f} s"
        problem = self._report_service(did, service.waited, service.late, "warning")
        problem.last_ns = service.spoke_ns
        problem.likely = "it handles one request at a time, and more slowly than they come"

    def _report_service(self, did: str, refs: list[FrameRef], count: int, severity: str | None) -> Problem:
        connection = refs[0].connection
        title = f"{short(connection)} {did}"
        return self.report.about(
            CODES["service-silent"], title, connection.number, refs, count=count, severity=severity
        )

    def _report_unanswered(self, subject: str, title: str, several: list[UnansweredRequest], waiting: int) -> None:
        inboxes = sum(each.inbox for each in several)
        certain = inboxes >= MANY_SILENT or (len(several) > 1 and waiting < self._asked.get(subject, 0))
        complete = all(whole(one := each.ref.connection) and not self.report.lost(one) for each in several)
        severity = None if certain and complete else "note"
        refs = [each.ref for each in several]
        problem = self.report.about(CODES["unanswered"], title, subject, refs, severity=severity)
        stream = self._stored.stream_of(subject)
        if stream:
            problem.detail(f"stream {stream} stored the other ones")
            problem.likely = f"the leader of {stream} was away or busy, or too few of its replicas answered"
            return
        got = dict.fromkeys(short(ref.connection) for each in several for ref in each.delivered)
        problem.detail(f"delivered to {', '.join(got)}" if got else "no delivery of them is in the capture")
        astray = [one for each in several for one in each.astray]
        if astray:
            begin, ref = astray[0]
            problem.title += f": {short(ref.connection)} answers on other subjects"
            problem.likely = f"it puts {begin} before the reply subject of the request, and no client gets that"
            problem.detail(f"{counted(len(astray), 'answer')} went to {begin}{INBOX}...")
            self.report.cite(problem, *(ref for _, ref in astray))


@dataclass(slots=True)
class Deliveries:
    """Messages that a consumer of JetStream got and did not acknowledge, and those that it got more than once."""

    last: FrameRef
    stream: str
    open: Newest[int, FrameRef] = field(default_factory=lambda: Newest(MAX_OPEN))
    """By sequence in the stream."""
    times: Newest[int, int] = field(default_factory=lambda: Newest(MAX_OPEN))
    """By sequence: how often it was delivered, if more than once."""
    sequence: int = 0
    pending: int = 0
    acks: int = 0
    acked_ns: int = 0
    slowest_ns: int = 0
    """Longest time from a delivery to its ack."""
    waiting: FrameRef | None = None
    """The first delivery since the last ack."""
    pauses_ns: list[int] = field(default_factory=list)
    """Times of at least :data:`STUCK_NS` from such a delivery to the next ack of the same connection."""
    done: Newest[int, None] = field(default_factory=lambda: Newest(MAX_OPEN))
    """Those of them that were acknowledged."""
    refused: int = 0
    late: int = 0
    """Messages that were refused (-NAK), and acknowledged after they had been delivered again."""
    together: int = 0
    waited: int = 0
    most_pending: int = 0
    """The most unacknowledged messages at a time; deliveries while more were left, and how many at most."""
    clients: set[int] = field(default_factory=set)
    """Connections that got messages."""
    again: list[FrameRef] = field(default_factory=list)
    """The first redeliveries ..."""
    redelivered: int = 0
    again_ns: int = 0
    """... and how many there were, and when the last one came."""
    worst: tuple[int, int] = (0, 0)
    """The largest number of deliveries of a message, and its sequence in the stream."""
    behind: int = 0
    """Messages left at the last redelivery."""
    taken_over: list[tuple[FrameRef, int]] = field(default_factory=list)
    """Unacknowledged deliveries on one connection, and when the message came on another one."""

    def orphans(self) -> list[tuple[FrameRef, int]]:
        """Those whose first connection was over, and for how long they waited, ns."""
        ends = ((ref, time_ns, ref.connection.health) for ref, time_ns in self.taken_over)
        over = ((ref, time_ns, health.last_ns) for ref, time_ns, health in ends if health is not None)
        return [(ref, time_ns - ref.time_ns) for ref, time_ns, last_ns in over if last_ns < time_ns]


@dataclass(eq=False)
class Consumers(Rule):
    """Consumers that do not acknowledge: JetStream delivers again, and at last stops."""

    plain = False
    types = frozenset({"PUB", "HPUB", "MSG", "HMSG"})
    _known: dict[str, Deliveries] = field(default_factory=dict)
    _limits: Newest[str, dict[str, Any]] = field(default_factory=lambda: Newest(MAX_KNOWN))
    """Configuration of consumers that were created."""
    _newest: Newest[str, int] = field(default_factory=lambda: Newest(MAX_KNOWN))
    """Newest sequence by stream, as acks of publishes say."""
    _told: Newest[str, str] = field(default_factory=lambda: Newest(MAX_KNOWN))
    """By consumer: the client that gets advisories about messages that are given up."""

    def frame(self, frame: Frame) -> None:
        values = frame.values
        subject = values.get("subject", "")
        if "stream_sequence" in frame.generated:
            stream, sequence = frame.generated["stream"], frame.generated["stream_sequence"]
            self._newest.put(stream, max(sequence, self._newest.get(stream, 0)))
        if frame.type in PUBLISHED:
            if not subject.startswith("$JS."):
                return
            data = bytes(values.get("data", b""))
            if CREATE in subject and "CREATE" in subject:
                self._configure(data)
            elif (acked := parse_ack_subject(subject)) is not None and not data.startswith(b"+WPI"):
                self._acknowledge(acked, frame, refused=data.startswith(b"-NAK"))
            elif PURGE in subject and not data.strip(b"{} "):  # else only some subjects or messages
                self._purged(asked_for(subject), frame)
        elif frame.sender == "server" and (delivery := parse_ack_subject(values.get("reply", ""))) is not None:
            self._deliver(delivery, frame)
        elif subject.startswith(GIVEN_UP):
            self._told.put(", consumer ".join(printable(subject).split(".")[-2:]), short(frame.connection))

    def _configure(self, data: bytes) -> None:
        try:
            said = orjson.loads(data)
            config = said["config"]
            name = config.get("durable_name") or config["name"]
            self._limits.put(f"{printable(said['stream_name'])}, consumer {printable(name)}", config)
        except (LookupError, TypeError, ValueError, AttributeError):
            return

    def _deliver(self, delivery: Acknowledged, frame: Frame) -> None:
        state = self._known.get(delivery.of)
        if state is None:
            if len(self._known) >= MAX_KNOWN:
                return
            state = self._known[delivery.of] = Deliveries(ref_of(frame), printable(delivery.stream))
        state.last, state.pending = ref_of(frame), delivery.pending
        state.waiting = state.waiting or state.last
        state.sequence = max(state.sequence, delivery.sequence)
        held = state.open.get(delivery.sequence) if delivery.delivered > 1 else None
        if held is not None and held.connection is not frame.connection and len(state.taken_over) < MAX_OPEN:
            state.taken_over.append((held, frame.time_ns))
        state.open.put(delivery.sequence, state.last)
        state.together = max(state.together, len(state.open))
        state.waited, state.most_pending = (
            state.waited + (delivery.pending > 0),
            max(state.most_pending, delivery.pending),
        )
        if len(state.clients) < MAX_EVIDENCE:
            state.clients.add(frame.connection.number)
        if delivery.delivered > 1:
            state.redelivered += 1
            state.times.put(delivery.sequence, delivery.delivered)
            state.again_ns, state.behind = frame.time_ns, delivery.pending
            if delivery.delivered > state.worst[0]:
                state.worst = delivery.delivered, delivery.sequence
            if len(state.again) < MAX_EVIDENCE:
                state.again.append(state.last)

    def _purged(self, stream: str, frame: Frame) -> None:
        for consumer, state in self._known.items():
            waits = max(state.pending, self._newest.get(stream, 0) - state.sequence) if state.stream == stream else 0
            if waits:
                title = f"{short(frame.connection)} purged stream {stream}: {waits:,} messages waited for {consumer}"
                self.report.add(CODES["purged"], title, consumer, frame=frame)

    def _acknowledge(self, acked: Acknowledged, frame: Frame, *, refused: bool) -> None:
        state, time_ns = self._known.get(acked.of), frame.time_ns
        if state is None:
            return
        state.acked_ns, state.acks = time_ns, state.acks + 1
        first, state.waiting = state.waiting, None
        waited_ns = time_ns - first.time_ns if first is not None and first.connection is frame.connection else 0
        if waited_ns >= STUCK_NS and len(state.pauses_ns) < MANY_DELIVERIES:
            state.pauses_ns.append(waited_ns)
        state.refused += refused
        if not refused and acked.sequence in state.times:
            state.done.put(acked.sequence, None)
        ref = state.open.pop(acked.sequence, None)
        state.late += acked.delivered < state.times.get(acked.sequence, 1)
        state.slowest_ns = max(state.slowest_ns, 0 if ref is None else time_ns - ref.time_ns)
        if self._limits.get(acked.of, {}).get("ack_policy") == "all":
            for sequence in [each for each in state.open if each < acked.sequence]:
                del state.open[sequence]

    def gather(self) -> None:
        for consumer, state in self._known.items():
            self.report.facts.saw(DELIVERED, consumer, frame=state.last)

    def finish(self) -> None:
        for consumer, state in self._known.items():
            limits = self._limits.get(consumer, {})
            most, asked = limits.get("max_ack_pending"), limits.get("ack_policy") != "none"
            count, waits = len(state.open), max(state.pending, self._newest.get(state.stream, 0) - state.sequence)
            silent_ns = self.report.last_ns - max(state.last.time_ns, state.acked_ns)
            full = isinstance(most, int) and count >= most > 0
            full = full and silent_ns >= max(PATIENCE_NS, 2 * state.slowest_ns)
            guessed = most is None and count >= MANY_UNACKNOWLEDGED and silent_ns >= STUCK_NS
            quick = count and state.acks >= MANY_UNACKNOWLEDGED and silent_ns >= max(HUNG_NS, HUNG * state.slowest_ns)
            hangs = quick and state.last.connection.closed is None
            if state.again:
                self._report_redelivered(consumer, state)
                self._report_orphans(consumer, state)
            if self._is_throttled(state, most):
                self._report_throttled(consumer, state)
            if waits > 0 and asked and (full or guessed or hangs) and whole(state.last.connection):
                self._report_stuck(consumer, state, waits, most if full else None)

    def _report_redelivered(self, consumer: str, state: Deliveries) -> None:
        who, (often, sequence) = short(state.again[0].connection), state.worst
        title = f"{who} got messages of {consumer}, again: one was delivered {often:,} times"
        paused = 0 < len(state.pauses_ns) < MANY_DELIVERIES  # else it always takes that long
        late = state.late >= MANY_LATE and state.late * 2 >= len(state.times)
        refuses = state.refused * 2 >= state.redelivered
        done = refuses and all(each in state.done for each in state.times)  # -NAK: later, please
        severity = "note" if done or not (often >= MANY_DELIVERIES or paused or late) else None
        how: Any = {"until_ns": state.again_ns, "count": state.redelivered, "severity": severity}
        problem = self.report.about(CODES["redelivered"], title, consumer, state.again, **how)
        problem.detail(f"sequence {sequence:,} of the stream was delivered most often")
        if paused:
            problem.likely = f"it was stopped or busy: it acknowledged nothing for {max(state.pauses_ns) / 1e9:.3f} s"
        elif refuses:
            problem.likely = f"it refuses them (-NAK, {state.refused:,} times): it cannot process them"
        elif state.late * 2 >= len(state.times):
            wait = self._limits.get(consumer, {}).get("ack_wait")
            than = f" ({wait / 1e9:g} s)" if isinstance(wait, int) else ""
            problem.likely = f"it needs longer than ack_wait{than}: {counted(state.late, 'message')} came again"
        most = self._limits.get(consumer, {}).get("max_deliver")
        over = [each for each, count in state.times.items() if count == often and each not in state.done]
        if often >= MANY_DELIVERIES and (most == often or (len(over) > 1 and state.refused)):
            given_up = f"{counted(len(over), 'message')} were given up after {often:,} deliveries"
            problem.title += f", and {given_up}" if over else ""
            problem.detail(f"sequences {', '.join(f'{each:,}' for each in over[:MAX_EVIDENCE])}" if over else "")
            if over and consumer in self._told:
                problem.severity = "note"
                problem.likely = f"{self._told[consumer]} gets advisories about them, as about dead letters"
        problem.detail(f"{state.behind:,} messages wait behind them" if state.behind else "")

    def _report_orphans(self, consumer: str, state: Deliveries) -> None:
        """Messages that a client had when it ended wait for ack_wait, though others could do them."""
        late = [(ref, wait_ns) for ref, wait_ns in state.orphans() if wait_ns >= STUCK_NS]
        if len(late) < MANY_LATE:
            return
        refs, longest = [ref for ref, _ in late], max(wait_ns for _, wait_ns in late) / 1e9
        who = ", ".join(dict.fromkeys(short(each.connection) for each in refs))
        title = f"{len(late):,} messages of {consumer}, that {who} had when it ended came to others up to "
        title += f"{longest:.1f} s later"
        problem = self.report.about(CODES["redelivered"], title, (consumer, "ended"), refs, count=len(late))
        problem.likely = "the server does not look at the connection: it delivers again when ack_wait is over"

    @staticmethod
    def _is_throttled(state: Deliveries, most: Any) -> bool:
        """Whether fewer messages are out at a time than there are clients, though more are left nearly each time."""
        known = isinstance(most, int) and state.together == most
        few = state.together < len(state.clients) or (known and most == 1 < len(state.clients))
        return few and state.waited >= MANY_WAITED and state.most_pending >= MANY_WAITED and not state.again

    def _report_throttled(self, consumer: str, state: Deliveries) -> None:
        out = counted(state.together, "message")
        title = (
            f"{consumer}, gives {len(state.clients)} clients at most {out} at a time, while {state.most_pending:,} wait"
        )
        problem = self.report.add(CODES["ack-pending"], title, consumer, frame=state.last, count=state.waited)
        problem.likely = f"max_ack_pending of the consumer is {state.together:,}: the server waits for each ack"

    def _report_stuck(self, consumer: str, state: Deliveries, waits: int, most: int | None) -> None:
        refs = [*state.open.values()]
        did = "stopped acknowledging" if state.acks or most else "acknowledged nothing of"
        title = f"{short(state.last.connection)} {did} {consumer}: {waits:,} messages wait"
        severity = None if most else "warning" if state.acks else "note"  # perhaps its policy is to have none
        problem = self.report.about(CODES["consumer-stuck"], title, consumer, refs, severity=severity)
        problem.weight, problem.last_ns, problem.to_end = waits, state.last.time_ns, True
        acked, last = self.report.seconds(state.acked_ns), self.report.seconds(state.last.time_ns)
        acks = f"the last ack came at {acked}" if state.acked_ns else "no ack was captured"
        problem.detail(f"{acks}, the last delivery at {last}")
        limit = f", as many as max_ack_pending allows ({most:,})" if most else ""
        problem.detail(f"unacknowledged: {counted(len(refs), 'message')}{limit}")
