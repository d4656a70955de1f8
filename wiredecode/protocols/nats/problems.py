"""Problems between NATS clients and servers, changes, and positions of consumers."""

from collections.abc import Iterable, Iterator

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.fields.jsonfields import present_json
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import client_side, short
from wiredecode.net.types import Connection
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation_acks import ACK, parse_ack_subject
from wiredecode.protocols.nats.flows import SubjectFlows
from wiredecode.protocols.nats.problems_jetstream import MAX_KNOWN, PUBLISHED, Pulls, Repeats
from wiredecode.protocols.nats.problems_requests import INBOX, NOT_DONE, Consumers, NatsRequests
from wiredecode.protocols.nats.problems_servers import Servers
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import MOVES
from wiredecode.protocols.shared.gauges import LAG, POSITION, STATE, Change, Gauge, Measurement
from wiredecode.protocols.shared.problems import (
    Called,
    Checks,
    FrameRef,
    Moment,
    Publishing,
    Rule,
    ref_of,
    stopped_or_cut,
    whole,
)
from wiredecode.protocols.shared.refusals import refusals_of

CODES, REFUSALS = codes_of("nats"), refusals_of("nats")
SOON_NS = 1_000_000_000
"""A crash ends the connection at most this long after the delivery."""
MANY, MANY_UNCERTAIN = 3, 4
"""Ends of one client that are worth reporting; the second if messages differ and have no ack of JetStream."""
MESSAGES = ("PUB", "HPUB", "MSG", "HMSG", "RMSG", "LMSG")
PULL = "pull"
"""A request for the next messages of a JetStream consumer: it waits until there are some."""
RESERVED = "$_"
"""First characters of the subjects of servers, and of answers."""
MAX_DELIVERIES = 100
"""A connection that got more did not crash on its first messages."""


@dataclass(slots=True)
class LastDelivery:
    """The newest message that a connection got."""

    ref: FrameRef
    contents: int
    """Hash of subject and payload."""
    reply: str
    acknowledged: bool = False
    count: int = 1
    """Number of messages."""


@dataclass(eq=False)
class Crashes(Rule):
    """Clients of one name that end soon after a delivery and connect again."""

    types = frozenset({"MSG", "HMSG", "UNSUB", *PUBLISHED})
    _last: dict[int, LastDelivery | None] = field(default_factory=dict)
    """By connection; None: it unsubscribed, or does not end on its first messages."""
    _ends: dict[tuple[str, str, str], list[tuple[Connection, LastDelivery]]] = field(default_factory=dict)
    """By name and host of the client, and server."""

    def frame(self, frame: Frame) -> None:
        number, subject = frame.connection.number, frame.values.get("subject", "")
        last = self._last.get(number)
        if frame.type == "UNSUB":
            self._last[number] = None
        elif frame.type in PUBLISHED:
            if last is not None and subject == last.reply:
                last.acknowledged = True
        elif (last is not None or number not in self._last) and not subject.startswith(INBOX):
            count = 1 if last is None else last.count + 1
            if count > MAX_DELIVERIES or frame.sender != "server":
                self._last[number] = None
                return
            contents = hash((subject, bytes(frame.values.get("data", b""))))
            self._last[number] = LastDelivery(ref_of(frame), contents, frame.values.get("reply", ""), count=count)

    def ended(self, connection: Connection) -> None:
        last, client = self._last.pop(connection.number, None), client_side(connection)
        end, name = connection.first_end, connection.identity.get("name")
        if last is None or end is None or not name or last.acknowledged:
            return
        if end.side == client and 0 <= end.time_ns - last.ref.time_ns <= SOON_NS and len(self._ends) < MAX_KNOWN:
            host, server = connection.endpoints[client].rpartition(":")[0], connection.endpoints[1 - client]
            ends = self._ends.setdefault((name, host, server), [])
            previous = ends[-1][0].first_end if ends else None
            after = previous is None or previous.time_ns <= connection.first_ns
            if after and len(ends) < MAX_KNOWN:
                ends.append((connection, last))

    def finish(self) -> None:
        for (name, _, _), ends in self._ends.items():
            deliveries = [last for _, last in ends]
            unacknowledged = all(each.reply.startswith(ACK) for each in deliveries)
            same = len({each.contents for each in deliveries}) == 1
            if len(ends) < (MANY if unacknowledged or same else MANY_UNCERTAIN):
                continue
            message = (
                "the same message" if same else "a message without acknowledging it" * unacknowledged or "a message"
            )
            self._report(f"{name} ended {len(ends):,} times right after it got {message}", ends, unacknowledged or same)

    def _report(self, title: str, ends: list[tuple[Connection, LastDelivery]], certain: bool) -> None:
        refs, severity = [last.ref for _, last in ends], None if certain else "warning"
        key = refs[0].connection.number
        problem = self.report.about(CODES["crash-loop"], title, key, refs, severity=severity)
        waited = [end.time_ns - last.ref.time_ns for one, last in ends if (end := one.first_end)]
        problem.detail(f"it ended at most {max(waited) / 1e6:.3f} ms after the delivery, and never unsubscribed")


# For the timeline.


def info(frame: Frame) -> Iterator[Change]:
    """A server is about to shut down (lame duck mode), or knows other servers than before."""
    options = frame.values.get("options") or {}
    server = printable(str(options.get("server_name") or options.get("server_id") or frame.source))
    if options.get("ldm"):
        yield Change(STATE, server, f"{server} will shut down (lame duck mode)")
    urls = options.get("connect_urls")
    if isinstance(urls, list) and urls:
        servers = ", ".join(sorted(present_json(str(url), False) for url in urls))
        yield Change(STATE, f"servers of {server}", f"{server} knows these servers: {servers}")


# For plots.


class ConsumerPlaces(Gauge):
    """Messages that are left when one is delivered; the sequence in the stream that was acknowledged last."""

    types = frozenset({"MSG", "HMSG", "PUB", "HPUB"})

    def read(self, frame: Frame) -> Iterable[Measurement]:
        values, delivered = frame.values, frame.sender == "server"
        acked = parse_ack_subject(values.get("reply" if delivered else "subject", ""))
        if acked is None:
            return ()
        if delivered:
            return (Measurement(LAG, acked.of, acked.pending),)
        if "copy_of" in frame.generated or bytes(values.get("data", b"")).startswith(NOT_DONE):
            return ()
        return (Measurement(POSITION, acked.of, acked.sequence),)


# Rules.

CLOSING = frozenset(
    {"authentication", "tls-required", "stale", "slow-consumer", "max-payload", "server-error", "lame-duck"}
)
"""After these the server closes the connection: why it ended is known."""
MAX_SUBSCRIPTIONS = 1024
"""Per connection."""
UNKNOWN = frozenset({"server-error", "limit"})
"""Errors after which the server may keep the connection."""
MIN_CLOSED_NS = 200_000_000
"""A window closed for this long makes a slow consumer."""
SERVER_PATIENCE_NS, CLIENT_PATIENCE_NS = 2_000_000_000, 10_000_000_000
"""A server answers PING immediately; a client may be busy with a message."""
MANY_PINGS = 2


def kind_of(text: str) -> str:
    """The code of an -ERR."""
    lower = text.lower()
    return next((name for name, beginnings in names.ERRORS.items() if lower.startswith(beginnings)), "server-error")


@dataclass(slots=True)
class Delivered:
    """Messages that a subscription got."""

    messages: int = 0
    size: int = 0


@dataclass(slots=True)
class NatsConsumer:
    """A client as a consumer, and the PINGs of its connection."""

    subjects: dict[str, str] = field(default_factory=dict)
    """By sid."""
    delivered: dict[str, Delivered] = field(default_factory=dict)
    """By sid."""
    last: FrameRef | None = None
    """The last message."""
    pings: tuple[list[FrameRef], list[FrameRef]] = field(default_factory=lambda: ([], []))
    """By sender: PINGs since the last PONG of the other side."""
    ponged_ns: list[int] = field(default_factory=lambda: [0, 0])
    """Time of the last PONG, by sender. Where one side waited for bytes, it may come before its PING."""
    errors: set[str] = field(default_factory=set)
    plain: FrameRef | None = None
    """CONNECT, while the server requires TLS and has said nothing more than so."""
    tls_required: bool = False


@dataclass(eq=False)
class Clients(Rule):
    """Slow and silent clients, and the errors that servers report about them."""

    types = frozenset({*PUBLISHED, "SUB", "MSG", "HMSG", "PING", "PONG", "-ERR", "CONNECT", "INFO"})
    _readers: dict[int, NatsConsumer] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        if frame.type in PUBLISHED:
            if frame.findings:
                self._too_large(frame)
            return
        if frame.type == "INFO":
            said = frame.values.get("options") or {}
            if said.get("ldm"):
                self._leaves(frame)
            if not said.get("tls_required"):
                return
        reader = self._readers.get(frame.connection.number)
        if reader is None:
            reader = self._readers[frame.connection.number] = NatsConsumer()
        kind, values = frame.type, frame.values
        if kind == "INFO":
            reader.tls_required = True
        elif frame.sender == "server":
            reader.plain = None
        if kind in ("MSG", "HMSG"):
            count_delivery(reader, frame)
        elif kind == "SUB":
            if len(reader.subjects) < MAX_SUBSCRIPTIONS and "sid" in values:
                reader.subjects[values["sid"]] = printable(values.get("subject", ""))
        elif kind == "PING":
            pings = reader.pings[frame.side]
            if frame.time_ns >= reader.ponged_ns[1 - frame.side]:
                pings.append(ref_of(frame))
            del pings[:-8]
        elif kind == "PONG":
            reader.ponged_ns[frame.side] = max(reader.ponged_ns[frame.side], frame.time_ns)
            reader.pings[1 - frame.side][:] = [
                each for each in reader.pings[1 - frame.side] if each.time_ns > frame.time_ns
            ]
        elif kind == "CONNECT":
            reader.plain = ref_of(frame) if reader.tls_required else None
        elif kind == "-ERR":
            self._error(frame, reader)

    def _error(self, frame: Frame, reader: NatsConsumer) -> None:
        text = printable(frame.values.get("error", ""))
        name, pings = kind_of(text), reader.pings[frame.side]
        reader.errors.add(name)
        if name == "slow-consumer":
            self._slow(frame.connection, reader, "the server says Slow Consumer", frame)
            return
        if name == "lame-duck":
            self._leaves(frame)
            return
        for begin in (INBOX, ACK) if name == "permissions" else ():  # each is another subject
            text = text.partition(begin)[0] + begin if begin in text else text
        user = frame.connection.identity.get("user")
        facts = {
            "client": short(frame.connection),
            "who": f"user {user}" if user else short(frame.connection),
            "number": frame.connection.number,
            "user": user or "(none)",
            "pings": f"{len(pings)} PINGs" if pings and whole(frame.connection) else "PING",
            "error": text,
        }
        problem = REFUSALS[name].report(self.report, CODES, frame, facts)
        if name in UNKNOWN and text.lower().startswith(names.HARMLESS_ERRORS):
            problem.severity = "warning"
        if name == "stale":
            self.report.cite(problem, *pings)

    def _leaves(self, frame: Frame) -> None:
        server, said = frame.source, frame.values.get("options") or {}
        name = printable(str(said.get("server_name") or server))
        problem = self.report.add(CODES["lame-duck"], f"{name} announced that it shuts down", server, frame=frame)
        problem.to_end = True
        self.report.facts.saw(MOVES, server, frame=frame, by=name)

    def _too_large(self, frame: Frame) -> None:
        for finding in frame.findings:
            if finding.code == "max-payload":
                who, subject = short(frame.connection), printable(frame.values.get("subject", ""))
                title = f"{who} published to {subject}: {finding.message}"
                self.report.add(CODES["max-payload"], title, str(frame.connection.number), frame=frame)

    # Ends.

    def ended(self, connection: Connection) -> None:
        reader = self._readers.pop(connection.number, None)
        if reader is None:
            return
        if reader.plain is not None:
            title = f"{short(connection)} speaks without TLS, and the server requires it"
            self.report.add(CODES["tls-required"], title, connection.number, frame=reader.plain)
            return
        for side in (0, 1):
            self._silent(connection, reader, side)
        client, health = client_side(connection), connection.health
        if health is None or reader.errors & CLOSING or not reader.delivered:
            return
        if health.directions[client].zero_window_ns < MIN_CLOSED_NS:
            return
        end = health.end
        if end is not None and end.side != client:
            how = f"the server ended the connection by {end.how} at {self.report.seconds(end.time_ns)}"
            self._slow(connection, reader, how, Moment(connection, end.time_ns, end.packet))
        else:
            begin = health.directions[client].zero_intervals[0][0]
            how = "it does not read as fast as the server sends"
            self._slow(connection, reader, how, Moment(connection, begin), "warning")

    def _slow(
        self, connection: Connection, reader: NatsConsumer, how: str, at: Frame | Moment, severity: str | None = None
    ) -> None:
        who, health = short(connection), connection.health
        client = client_side(connection)
        sid = max(reader.delivered, key=lambda each: reader.delivered[each].size, default=None)
        on = f" on subscription {sid} {reader.subjects.get(sid, '(before the capture)')}" if sid is not None else ""
        title = f"{who} is a slow consumer{on}: {how}"
        problem = self.report.add(CODES["slow-consumer"], title, connection.number, frame=at, severity=severity)
        if reader.last is not None:
            self.report.cite(problem, reader.last)
        problem.weight = sum(each.messages for each in reader.delivered.values())
        if health is not None and health.directions[client].zero_windows:
            window = health.directions[client]
            begin = window.zero_intervals[0][0]
            closed = f"{window.zero_window_ns / 1e9:.3f} s, from {self.report.seconds(begin)} on"
            problem.detail(f"before, its window was closed for {closed}")
            problem.last_ns = max(problem.last_ns or 0, window.zero_intervals[-1][1])
        for each, sums in sorted(reader.delivered.items(), key=lambda item: -item[1].size)[:4]:
            subject = reader.subjects.get(each, "subject not seen")
            problem.detail(f"{counted(sums.messages, 'message')}, {sums.size:,} bytes sent to sid {each}, {subject}")

    def _silent(self, connection: Connection, reader: NatsConsumer, side: int) -> None:
        """PINGs of one side that the other did not answer."""
        pings, health = reader.pings[side], connection.health
        if not pings or health is None or reader.errors & CLOSING or not self.report.all_captured(connection, 1 - side):
            return
        since_ns = pings[0].time_ns
        until_ns = max(health.last_ns, self.report.last_ns) if health.end is None else health.end.time_ns
        waited = until_ns - since_ns
        by_client = side == client_side(connection)
        patience = SERVER_PATIENCE_NS if by_client else CLIENT_PATIENCE_NS
        if waited < SERVER_PATIENCE_NS and len(pings) < MANY_PINGS:
            return
        severity = None if waited >= patience or len(pings) >= MANY_PINGS else "note"
        who, silent = short(connection), "server" if by_client else "client"
        several = f"{len(pings)} PINGs" if len(pings) > 1 else "a PING"
        title = f"the {silent} of {who} did not answer {several} for {waited / 1e9:.3f} s"
        key = connection.number, side
        problem = self.report.about(CODES["missed-ping"], title, key, pings, severity=severity)
        problem.detail(stopped_or_cut(connection, 1 - side, since_ns, until_ns) or "")
        if health.directions[1 - side].kept_sending(since_ns, until_ns):
            problem.likely = f"it sends more than the path to {who}, or {who} itself, takes"


def count_delivery(reader: NatsConsumer, frame: Frame) -> None:
    """Count a delivery."""
    values = frame.values
    sid = values.get("sid", "")
    counts = reader.delivered.get(sid)
    if counts is None:
        if len(reader.delivered) >= MAX_SUBSCRIPTIONS:
            return
        counts = reader.delivered[sid] = Delivered()
    counts.messages += 1
    counts.size += values.get("size", 0)
    reader.last = ref_of(frame)


def alone(frame: Frame) -> bool:
    """A server without a cluster stores the streams itself."""
    return frame.type == "INFO" and not frame.values.get("options", {}).get("cluster")


def is_plain(frame: Frame) -> bool:
    """Whether a message neither asks nor answers, and JetStream did not deliver it."""
    values = frame.values
    if "data" not in values:
        return False
    subject = values["subject"]
    return not (
        subject[:1] in RESERVED
        or "reply" in values
        or "status" in values
        or frame.request is not None
        or frame.expects_response
        or frame.findings
        or frame.is_partial
        or "stream_sequence" in frame.generated
        or f".{INBOX}" in subject
    )


def refused_publish(frame: Frame) -> str | None:
    match = names.REFUSED_PUBLISH.fullmatch(frame.values.get("error", "")) if frame.type == "-ERR" else None
    return None if match is None else printable(match[1])


CHECKS = Checks(
    alone=alone,
    is_plain=is_plain,
    changes={"INFO": info},
    called=(
        Called(PULL, "$JS.", ".API.CONSUMER.MSG.NEXT."),
        Called("JetStream API", "$JS.", ".API."),
        Called("JetStream publish", "", "", answer="stream"),
        Called("request", "", ""),
    ),
    topic="subject",
    refuses=refused_publish,
    waits=frozenset({PULL}),
    expected=frozenset(
        {"503", "No Messages", "Request Timeout", "Batch Completed", "MaxBytes", "wrong last", "in use"}
    ),
    holds="the stream's leader, perhaps another server of the cluster, was stopped, or its disk or replicas are slow",
    passes_on=("subject", "data"),
    gauges=(ConsumerPlaces,),
    flows=(SubjectFlows,),
    space="account",
    codes=CODES,
    rules=(Clients, Crashes, Servers, Pulls, NatsRequests, Consumers, Repeats),
    answered=frozenset({"PING", *MESSAGES}),
    publishes=dict.fromkeys(
        PUBLISHED, Publishing(("subject",), None, True, "stream", "$JS.", "$KV.", repeated=names.IN_PROCESS)
    ),
    covered=frozenset({"server-error", "max-payload", "no-responders", "lame-duck"}),
)
