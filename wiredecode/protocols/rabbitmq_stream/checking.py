"""What goes wrong between RabbitMQ Stream clients and brokers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.rabbitmq_stream import names
from wiredecode.protocols.rabbitmq_stream.advertised import UNREACHABLE, AdvertisedHost
from wiredecode.protocols.rabbitmq_stream.changes import CHANGES
from wiredecode.protocols.rabbitmq_stream.gauges import GAUGES
from wiredecode.protocols.shared.checking import CAUSE, DEED, Checks, Code, Place, Report, Rule, place_of

STARVED = Code(
    "rabbitmq_stream.credit-starvation",
    "warning",
    "a consumer is starved of credit",
    "The broker had chunks for this subscription but no credit to send them: each time the consumer gave credit, the "
    "next chunk followed at once. The consumer sets the pace, not the broker and not the network.",
    (
        "the consumer gives credit only after it has processed a chunk, and processes slowly",
        "the initial credit is 1: one chunk is on its way at a time",
        "the consumer blocks the thread that reads the socket",
    ),
    "Raise the initial credit of the subscription (10 is usual), give credit when a chunk arrives instead of when it "
    "has been processed, or make the consumer faster.",
    "stories/credit-starvation.pcap",
    CAUSE,
)
UNCONFIRMED = Code(
    "rabbitmq_stream.unconfirmed",
    "error",
    "published messages were neither confirmed nor refused",
    "The broker answered neither PublishConfirm nor PublishError for these messages before the connection or the "
    "capture ended. They may be stored or lost; a publisher with a name can find out by QueryPublisherSequence.",
    (
        "the client closed the connection without waiting for confirms",
        "the leader of the stream went away",
        "the stream has no quorum of replicas",
    ),
    "Wait for confirms before closing; publish again with the same publishing ids from a named publisher.",
    "",
    DEED,
)
AUTHENTICATION = Code(
    "rabbitmq_stream.authentication",
    "error",
    "a client was not let in",
    "The broker refused the user, the mechanism or the virtual host.",
    ("wrong password", "unknown user or virtual host", "no permission", "user guest from another host"),
    "Check user, password and permissions of the virtual host; guest may only connect over loopback.",
    "rabbitmq-stream/c43_authfail.pcap",
    CAUSE,
)
SERVER_CLOSED = Code(
    "rabbitmq_stream.closed-by-server",
    "warning",
    "the broker closed a connection",
    "The broker sent Close and said why.",
    ("a frame that the broker does not understand", "missed heartbeats", "an operator closed the connection"),
    "Read the reason; the frames of the client just before show what it is about.",
    "rabbitmq-stream/c43_unknown_frame.pcap",
    DEED,
)
NO_CLOSE = Code(
    "rabbitmq_stream.no-close",
    "note",
    "a connection ended without Close",
    "TCP ended the connection, but neither side said Close before.",
    ("the program ended or crashed", "the client does not bother to say Close", "a proxy cut the connection"),
    "From a client that was to go on, look at its log at that time; from a broker, look for a crash.",
    "rabbitmq-stream/c310_basic.pcap",
)
HEARTBEAT = Code(
    "rabbitmq_stream.heartbeat",
    "warning",
    "one side was silent for longer than two heartbeats",
    "Both sides agreed on a heartbeat. This side sent nothing for more than twice as long: the other may take it "
    "for dead.",
    ("the process was stopped or too busy", "the network was interrupted"),
    "Look at what the silent process did at that time; raise the heartbeat only when it has a reason to be busy.",
    "",
    DEED,
)
OFFSET_GAP = Code(
    "rabbitmq_stream.offset-gap",
    "note",
    "delivered chunks do not follow each other",
    "A chunk does not begin where the one before ended. Retention, filters, chunks that hold no messages of users, or "
    "a hole in the capture explain that.",
    ("retention removed chunks before they were read", "the broker keeps offsets of consumers in chunks between"),
    "Compare with the retention of the stream if messages are missed.",
    "",
)

AT_ONCE_NS = 20_000_000
"""A chunk that follows credit so soon had been waiting for it."""
LEAST_WAITS, LEAST_SHARE = 5, 0.2
"""Starved is who waited so often, and for so large a share of its time."""
MOST_SUBSCRIPTIONS = 256
"""Per connection; as many as ids can name."""
MOST_WAITING = 1000
"""Publish frames per publisher that are remembered until they are confirmed."""


@dataclass(slots=True)
class Subscription:
    """Credit of one subscription."""

    place: Place
    """Of its Subscribe."""
    number: int
    stream: str
    initial: int
    credit: int
    out_of_credit_ns: int | None = None
    """Since when there is none."""
    given_ns: int | None = None
    """When credit came after there was none; no chunk has followed yet."""
    chunks: int = 0
    waits: int = 0
    starved_ns: int = 0
    last_ns: int = 0
    evidence: list[tuple[int, int | None]] = field(default_factory=list)


class CreditStarvation(Rule):
    """Time without credit while chunks were there."""

    types = frozenset({"Subscribe", "Credit", "Deliver", "Unsubscribe"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._subscriptions: dict[int, dict[int, Subscription]] = {}

    def frame(self, frame: Frame) -> None:
        number = frame.values.get("subscription_id")
        if number is None:
            return
        known = self._subscriptions.setdefault(frame.connection.number, {})
        if frame.type == "Subscribe":
            credit = frame.values.get("credit", 0)
            self._judge(known.pop(number, None))
            stream = printable(frame.values.get("stream", ""))
            dry = None if credit else frame.time_ns
            known[number] = Subscription(place_of(frame), number, stream, credit, credit, dry)
            return
        subscription = known.get(number)
        if subscription is None:
            return
        if frame.type == "Credit":
            self._credit(subscription, frame)
        elif frame.type == "Deliver":
            self._deliver(subscription, frame)
        else:
            self._judge(known.pop(number))

    def _credit(self, subscription: Subscription, frame: Frame) -> None:
        if subscription.credit <= 0 and subscription.out_of_credit_ns is not None:
            subscription.given_ns = frame.time_ns
        subscription.credit += frame.values.get("credit", 0)

    def _deliver(self, subscription: Subscription, frame: Frame) -> None:
        subscription.chunks += 1
        subscription.last_ns = frame.time_ns
        subscription.credit -= 1
        since, given = subscription.out_of_credit_ns, subscription.given_ns
        if since is not None and given is not None:
            if frame.time_ns - given <= AT_ONCE_NS and subscription.chunks > 1:
                subscription.waits += 1
                subscription.starved_ns += given - since
                if len(subscription.evidence) < 4:
                    subscription.evidence.append((frame.number, frame.packets[0] if frame.packets else None))
            subscription.out_of_credit_ns = subscription.given_ns = None
        if subscription.credit <= 0:
            subscription.out_of_credit_ns = frame.time_ns

    def _judge(self, subscription: Subscription | None) -> None:
        if subscription is None or subscription.waits < LEAST_WAITS:
            return
        place, stream = subscription.place, subscription.stream
        active = subscription.last_ns - place.time_ns
        share = subscription.starved_ns / max(active, 1)
        if share < LEAST_SHARE:
            return
        who = self.report.names.short(place.connection)
        what = (
            f"{who} consumes {stream} too slowly: out of credit for {subscription.starved_ns / 1e9:.3f} s of "
            f"{active / 1e9:.3f} s while chunks waited"
        )
        problem = self.report.add(STARVED, what, (place.connection.number, place.number), frame=place)
        if problem is None:
            return
        problem.count, problem.weight = subscription.waits, subscription.starved_ns
        for number, packet in subscription.evidence:
            self.report.cite_numbers(problem, number, packet)
        problem.detail(f"subscription {subscription.number} of {stream}, initial credit {subscription.initial}")
        problem.detail(f"{subscription.waits:,} of {subscription.chunks:,} chunks waited for credit")

    def ended(self, connection: Connection) -> None:
        for subscription in self._subscriptions.pop(connection.number, {}).values():
            self._judge(subscription)


@dataclass(slots=True)
class Publisher:
    """Messages of one publisher id, as counts: each is confirmed or refused once."""

    published: int = 0
    settled: int = 0
    stream: str = ""
    waiting: deque[tuple[int, int, int | None, int]] = field(default_factory=lambda: deque(maxlen=MOST_WAITING))
    """Publish frames that are not wholly settled: messages up to their end, frame, packet, time."""


class Unconfirmed(Rule):
    """Published messages that were neither confirmed nor refused."""

    types = frozenset({"Publish", "PublishConfirm", "PublishError"})
    COUNTED = {"Publish": "messages", "PublishConfirm": "publishing_ids", "PublishError": "errors"}

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._publishers: dict[int, dict[int, Publisher]] = {}

    def frame(self, frame: Frame) -> None:
        values = frame.values
        count = values.get(self.COUNTED[frame.type or ""])
        if count is None or frame.connection.initiator is None:
            return
        known = self._publishers.setdefault(frame.connection.number, {})
        publisher = known.setdefault(values.get("publisher_id", -1), Publisher())
        count = count if isinstance(count, int) else len(count)
        if frame.type == "Publish":
            publisher.published += count
            publisher.stream = frame.generated.get("stream", publisher.stream)
            packet = frame.packets[0] if frame.packets else None
            publisher.waiting.append((publisher.published, frame.number, packet, frame.time_ns))
            return
        publisher.settled += count
        while publisher.waiting and publisher.waiting[0][0] <= publisher.settled:
            publisher.waiting.popleft()

    def ended(self, connection: Connection) -> None:
        for number, publisher in self._publishers.pop(connection.number, {}).items():
            left = publisher.published - publisher.settled
            if left > 0 and publisher.waiting and not any(side.missing for side in connection.directions):
                self._tell(connection, number, publisher, left)

    def _tell(self, connection: Connection, number: int, publisher: Publisher, left: int) -> None:
        _, _, _, time_ns = publisher.waiting[0]
        if connection.closed is None and self.report.last_ns - time_ns < 1_000_000_000:
            return  # the capture ended first
        who = self.report.names.short(connection)
        what = f"{left:,} of {publisher.published:,} messages that {who} published to {publisher.stream} have no answer"
        key = (connection.number, number)
        problem = self.report.add(UNCONFIRMED, what, key, connection=connection, time_ns=time_ns, count=left)
        if problem is not None:
            problem.weight = left
            for _, frame, packet, _ in publisher.waiting:
                self.report.cite_numbers(problem, frame, packet)


class Admission(Rule):
    """Who was not let in, and connections that ended with or without a word."""

    types = frozenset({"SaslAuthenticate", "SaslAuthenticateResponse", "Open", "OpenResponse", "Close"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._said: dict[int, set[str]] = {}
        """By connection: what explains its end."""

    def frame(self, frame: Frame) -> None:
        said = self._said.setdefault(frame.connection.number, {"seen"})
        kind, code = frame.type, frame.values.get("response_code", names.OK)
        if kind == "Close":
            said.add("close")
            if frame.sender == "server":
                reason = printable(frame.values.get("closing_reason", ""))
                what = f"the broker closed {self.report.names.short(frame.connection)}: {reason}"
                self.report.add(SERVER_CLOSED, what, reason, frame=frame)
        elif kind in ("SaslAuthenticateResponse", "OpenResponse") and code not in (names.OK, names.SASL_CHALLENGE):
            said.add("refused")
            known = self.report.names.get(frame.connection)
            name = names.RESPONSE_CODES.get(code, f"code {code}")
            whom = f"user {known['user']}" if "user" in known else self.report.names.short(frame.connection)
            where = f" on virtual host {known.get('virtual_host', '')}" if kind == "OpenResponse" else ""
            self.report.add(AUTHENTICATION, f"{whom} was refused{where}: {name}", (whom, where, code), frame=frame)

    def ended(self, connection: Connection) -> None:
        said = self._said.pop(connection.number, set())
        health = connection.health
        if not said or said & {"close", "refused"} or health is None or health.end is None:
            return
        by_client = connection.initiator is None or health.end.side == connection.initiator
        who = "client" if by_client else "broker"
        severity = "note" if by_client else "warning"
        end = health.end
        what = f"the {who} ended {self.report.names.short(connection)} by {end.how} without Close"
        self.report.add(
            NO_CLOSE, what, who, connection=connection, packet=end.packet, time_ns=end.time_ns, severity=severity
        )


class Heartbeats(Rule):
    """Sides that were silent although heartbeats were agreed."""

    types = frozenset(names.KEYS.values())

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._agreed: dict[int, int] = {}
        self._last: dict[int, list[tuple[int, int]]] = {}
        """By connection and side: time and number of the last frame."""

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        if "negotiated_heartbeat" in frame.generated:
            agreed = frame.generated["negotiated_heartbeat"]
            self._agreed[number] = agreed * 1_000_000_000
            self._last[number] = [(frame.time_ns, frame.number)] * 2
        agreed = self._agreed.get(number, 0)
        if agreed:
            self._silent(frame.connection, frame.side, frame.time_ns, agreed)
            self._last[number][frame.side] = frame.time_ns, frame.number

    def _silent(self, connection: Connection, side: int, until_ns: int, agreed: int) -> None:
        since, number = self._last[connection.number][side]
        if until_ns - since <= 2 * agreed or connection.directions[side].missing:
            return
        who = "client" if side == (connection.initiator or 0) else "broker"
        name = self.report.names.short(connection)
        silence = (until_ns - since) / 1e9
        what = f"the {who} of {name} was silent for {silence:.1f} s, with a heartbeat of {agreed // 10**9} s"
        problem = self.report.add(HEARTBEAT, what, (connection.number, side), connection=connection, time_ns=since)
        if problem is not None:
            self.report.cite_numbers(problem, number, None)

    def ended(self, connection: Connection) -> None:
        agreed = self._agreed.pop(connection.number, 0)
        if agreed and connection.health is not None:
            for side in (0, 1):
                self._silent(connection, side, connection.health.last_ns, agreed)
        self._last.pop(connection.number, None)


class Offsets(Rule):
    """Chunks that do not follow each other."""

    types = frozenset({"Subscribe", "Deliver"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._next: dict[int, dict[int, int]] = {}

    def frame(self, frame: Frame) -> None:
        known = self._next.setdefault(frame.connection.number, {})
        number = frame.values.get("subscription_id", -1)
        if frame.type == "Subscribe":
            known.pop(number, None)
            return
        chunk = frame.values.get("chunk")
        if not isinstance(chunk, Mapping) or "chunk_id" not in chunk or "num_records" not in chunk:
            return
        begin, expected = chunk["chunk_id"], known.get(number)
        known[number] = begin + chunk["num_records"]
        if expected is not None and begin != expected:
            stream = frame.generated.get("stream", "")
            word = "skip" if begin > expected else "repeat"
            what = f"chunks of {stream} {word} offsets: {begin:,} follows where {expected:,} was next"
            self.report.add(OFFSET_GAP, what, (frame.connection.number, number, word), frame=frame)

    def ended(self, connection: Connection) -> None:
        self._next.pop(connection.number, None)


CHECKS = Checks(
    changes=CHANGES,
    gauges=GAUGES,
    codes=(UNREACHABLE, STARVED, UNCONFIRMED, AUTHENTICATION, SERVER_CLOSED, NO_CLOSE, HEARTBEAT, OFFSET_GAP),
    rules=(AdvertisedHost, CreditStarvation, Unconfirmed, Admission, Heartbeats, Offsets),
    told=frozenset({"closed"}),
)
