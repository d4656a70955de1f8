"""Problems between AMQP 0-9-1 clients and servers: what was closed, came back, was not taken, or waits."""

from collections import Counter
from collections.abc import Iterator
from zlib import crc32

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.protocols.amqp091 import names
from wiredecode.protocols.amqp091.flows import QueueFlows
from wiredecode.protocols.amqp091.messages import topic_of
from wiredecode.protocols.amqp091.problems_deliveries import CONTENTS, ConsumerAcks, is_ack_timeout
from wiredecode.protocols.amqp091.problems_routing import ROUTING, Place, QueueLag, QueueRoutes, place_of
from wiredecode.protocols.shared.amqp.tables import read_table
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.facts import DELETED, LIMITED, MOVES, PURGED, UNBOUND
from wiredecode.protocols.shared.gauges import STREAM, Change
from wiredecode.protocols.shared.heartbeats import MissedHeartbeats
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import MAX_EVIDENCE, Checks, FrameRef, Problem, Publishing, Rule, ref_of

CODES = codes_of("amqp091")
MANY_CHANNELS = 20
"""Channels of a connection, with at most two messages for each, that are more than a few."""


HANDLED = 0.9
"""Share of the returned messages that a publisher publishes elsewhere, if it knows what to do with them."""
FORCED = 320
"""An operator or a shutdown closes the connection."""


@dataclass(eq=False)
class ClosedChannels(Rule):
    """Servers close a channel, or the connection, because of an error."""

    types = frozenset({"ChannelClose", "ConnectionClose"})

    def frame(self, frame: Frame) -> None:
        code = frame.values.get("reply_code", 200)
        if frame.sender != "server" or code < 300 or is_ack_timeout(frame.values.get("reply_text", "")):
            return
        what = "channel" if frame.type == "ChannelClose" else "connection"
        cause, who = frame.generated.get("cause"), short(frame.connection)
        title = f"the server closed a {what} of {who}: {names.outcome(code)}"
        title += f", caused by {cause}" if cause else ""
        key = frame.connection.number, code, cause
        code_of = CODES["channel-closed"] if what == "channel" else CODES["connection-closed"]
        text = printable(frame.values.get("reply_text", ""))
        shuts_down = code == FORCED and "shutdown" in text  # what follows shows whether its clients come back
        if shuts_down:
            self.report.facts.saw(MOVES, frame.source, frame=frame)
        problem = self.report.add(code_of, title, key, frame=frame, severity="note" if shuts_down else None)
        problem.detail(f"the server says: {text}")
        problem.likely, problem.alike = problem.code.cause_of(f"{code} {text}"), names.outcome(code)


@dataclass(eq=False)
class Returned(Rule):
    """Servers send messages back that no queue takes, and their publisher does not publish them elsewhere."""

    types = frozenset({"BasicReturn", "ContentBody"})
    _coming: Newest[tuple[int, int], Problem] = field(default_factory=Newest)
    """By connection and channel: the body of a returned message follows."""
    _open: Newest[tuple[int, int], Problem] = field(default_factory=Newest)
    """By connection and checksum of the body, until it is published again."""
    _handled: Counter[Problem] = field(default_factory=Counter)
    """Messages that were published again."""

    def frame(self, frame: Frame) -> None:
        number, channel = frame.connection.number, frame.values.get("channel", 0)
        if frame.type == "BasicReturn":
            topic, code = topic_of(frame.values), frame.values.get("reply_code", 0)
            title = f"messages that {short(frame.connection)} published to {topic} came back: {names.outcome(code)}"
            problem = self.report.add(CODES["returned"], title, (number, topic, code), frame=frame)
            problem.alike = topic
            self._coming.put((number, channel), problem)
        elif frame.sender == "server":
            if (returned := self._coming.pop((number, channel), None)) is not None:
                self._open.put((number, crc32(frame.values.get("body", b""))), returned)
        elif self._open and "exchange" in frame.generated:
            again = self._open.pop((number, crc32(frame.values.get("body", b""))), None)
            if again is not None and topic_of(frame.generated) != again.alike:
                self._handled[again] += 1

    def finish(self) -> None:
        for problem, count in self._handled.items():
            problem.detail(f"it published {count:,} of {problem.count:,} messages again")
            if count >= HANDLED * problem.count:
                problem.severity = "note"


@dataclass(eq=False)
class Nacked(Rule):
    """Servers do not take published messages."""

    types = frozenset({"BasicNack"})

    def frame(self, frame: Frame) -> None:
        if frame.sender == "server":
            count = len(frame.confirmations) or 1
            title = f"the server did not take messages that {short(frame.connection)} published"
            self.report.add(CODES["nacked"], title, frame.connection.number, frame=frame, count=count)


@dataclass(slots=True, eq=False)
class OpenAlarm:
    """An alarm of a server that is not over."""

    ref: FrameRef
    reason: str
    waiting: int = 0
    """Messages that were published meanwhile."""


@dataclass(eq=False)
class BlockedPublishers(Rule):
    """Servers stop reading from those that publish."""

    types = frozenset({"ConnectionBlocked", "ConnectionUnblocked", "BasicPublish"})
    _alarms: Newest[int, OpenAlarm] = field(default_factory=Newest)
    """By connection."""

    def frame(self, frame: Frame) -> None:
        number, alarm = frame.connection.number, self._alarms.get(frame.connection.number)
        if alarm is None:
            if frame.type == "ConnectionBlocked":
                self._alarms.put(number, OpenAlarm(ref_of(frame), printable(frame.values.get("reason", ""))))
        elif frame.type == "BasicPublish":
            alarm.waiting += 1
        elif frame.type == "ConnectionUnblocked":
            self._report(self._alarms.pop(number), frame.time_ns, "")

    def _report(self, alarm: OpenAlarm, until_ns: int, end: str) -> None:
        connection, seconds = alarm.ref.connection, (until_ns - alarm.ref.time_ns) / 1e9
        title = f"the server blocked {short(connection)} for {seconds:.1f} s{end}: {alarm.reason}"
        problem = self.report.add(CODES["blocked"], title, connection.number, frame=alarm.ref, until_ns=until_ns)
        problem.alike = alarm.reason
        if alarm.waiting:
            problem.detail(f"{counted(alarm.waiting, 'message')} published meanwhile waited")

    def finish(self) -> None:
        for alarm in self._alarms.values():
            self._report(alarm, max(self.report.last_ns, alarm.ref.time_ns), ", until the end")


@dataclass(eq=False)
class AmqpHeartbeats(MissedHeartbeats):
    """Sides that were silent for longer than the heartbeat of the connection."""

    types = frozenset({*names.CODES, *CONTENTS, "Heartbeat"})
    code = CODES["heartbeat"]

    def agreed(self, frame: Frame) -> int | None:
        return frame.values.get("heartbeat") if frame.type == "ConnectionTuneOk" else None


@dataclass(eq=False)
class ChannelChurn(Rule):
    """Clients that open a channel for each message, or nearly so."""

    types = frozenset({"ChannelOpen", "BasicPublish", "BasicGet", "BasicDeliver"})
    _opened: Newest[int, list[FrameRef]] = field(default_factory=Newest)
    _used: Newest[int, int] = field(default_factory=Newest)
    """Both by connection: the first and the last channels that were opened, and messages."""
    _count: Newest[int, int] = field(default_factory=Newest)

    def frame(self, frame: Frame) -> None:
        number = frame.connection.number
        if frame.type != "ChannelOpen":
            self._used.put(number, self._used.get(number, 0) + 1)
            return
        self._count.put(number, self._count.get(number, 0) + 1)
        opened = self._opened.get_or_make(number, list)
        opened.append(ref_of(frame))
        del opened[MAX_EVIDENCE - 1 : -1]

    def finish(self) -> None:
        for number, refs in self._opened.items():
            opened, used = self._count[number], self._used.get(number, 0)
            if opened >= MANY_CHANNELS and used <= 2 * opened:
                title = f"{short(refs[0].connection)} opened {opened:,} channels for {counted(used, 'message')}"
                self.report.about(CODES["channel-churn"], title, number, refs, count=opened)


QUEUES = {"QueueDeclare": LIMITED, "QueueUnbind": UNBOUND, "QueueDelete": DELETED, "QueuePurge": PURGED}
LIMITS = "x-max-length", "x-max-length-bytes", "x-message-ttl"


def queue_changes(frame: Frame) -> Iterator[Change]:
    """A client declares a queue with limits, takes a binding away, deletes a queue or its messages."""
    queue, by, fact = printable(frame.values["queue"]), short(frame.connection), QUEUES[frame.type or ""]
    if fact is UNBOUND:
        topic = topic_of(frame.values)
        yield Change(STREAM, topic, f"{by} unbinds queue {queue} from {topic}", UNBOUND)
    elif fact is LIMITED:
        arguments = read_table(frame.values["arguments"])
        limits = [f"{name} {arguments[name]}" for name in LIMITS if name in arguments]
        limits += ["auto_delete"] if frame.values["auto_delete"] and not queue.startswith(names.FOR_ONE) else []
        if how := ", ".join(limits if queue else ()):
            yield Change(STREAM, queue, f"queue {queue} has {how}", LIMITED, how)
    else:
        yield Change(STREAM, queue, f"{by} deletes {'messages of ' if fact is PURGED else ''}queue {queue}", fact)


@dataclass(eq=False)
class UnboundMessages(Rule):
    """Messages to an exchange none of whose bindings fits."""

    types = ROUTING | {"ContentHeader"}
    _routes: QueueRoutes = field(default_factory=QueueRoutes)
    _lost: Newest[tuple[Place, str], list[FrameRef]] = field(default_factory=Newest)
    """By exchange and key; empty: some arrived, or came back."""

    def frame(self, frame: Frame) -> None:
        if frame.type in ROUTING:
            self._routes.learn(frame)
        elif "routing_key" in frame.generated:
            exchange, key = place_of(frame, frame.generated["exchange"]), frame.generated["routing_key"]
            if frame.sender == "server":
                self._lost.put((exchange, key), [])
            elif self._routes.queues(exchange, key) == set() and self._lost.get((exchange, key)) != []:
                self._lost.get_or_make((exchange, key), list).append(ref_of(frame))

    def finish(self) -> None:
        by_exchange: dict[Place, list[tuple[str, list[FrameRef]]]] = {}
        for (place, key), refs in self._lost.items():
            if refs:
                by_exchange.setdefault(place, []).append((key, refs))
        for place, keys in by_exchange.items():
            refs = sorted((ref for _, some in keys for ref in some), key=lambda ref: ref.number)
            who = short(refs[0].connection)
            title = f"{counted(len(refs), 'message')} of {who} to {place[2]} went to no queue that the capture shows"
            problem = self.report.about(CODES["dropped"], title, place, refs)
            problem.detail("no binding fits " + ", ".join(key or "an empty key" for key, _ in keys[:MAX_EVIDENCE]))


@dataclass(eq=False)
class DeadLetters(Rule):
    """Messages that a consumer rejects, and whose dead letter exchange leads them to no queue."""

    types = ROUTING | {"QueueDeclare", *CONTENTS, "BasicReject", "BasicNack"}
    _routes: QueueRoutes = field(default_factory=QueueRoutes)
    _exchanges: Newest[Place, tuple[str, str | None]] = field(default_factory=Newest)
    """By queue: dead letter exchange, and the key that its messages get, if not their own."""
    _waiting: Newest[int, tuple[Place, str]] = field(default_factory=Newest)
    """By the last frame of a delivery: queue and routing key."""
    _lost: Newest[tuple[Place, Place, str], list[FrameRef]] = field(default_factory=Newest)
    """By queue, exchange and key."""

    def frame(self, frame: Frame) -> None:
        values, generated = frame.values, frame.generated
        if frame.type in ROUTING:
            self._routes.learn(frame)
        elif frame.is_partial:
            return
        elif frame.type == "QueueDeclare":
            arguments = read_table(values["arguments"])
            if isinstance(exchange := arguments.get("x-dead-letter-exchange"), str) and not values["passive"]:
                queue = place_of(frame, printable(values["queue"]))
                self._exchanges.put(queue, (printable(exchange), arguments.get("x-dead-letter-routing-key")))
        elif frame.acks is not None and "queue" in generated:
            self._waiting.put(frame.id, (place_of(frame, generated["queue"]), generated.get("routing_key", "")))
        elif frame.sender == "client" and not values.get("requeue", True):
            for confirmation in frame.confirmations:
                if (delivered := self._waiting.pop(confirmation.request, None)) is not None:
                    self._rejected(frame, *delivered)

    def _rejected(self, frame: Frame, queue: Place, key: str) -> None:
        name, new_key = self._exchanges.get(queue) or ("", None)
        exchange, key = place_of(frame, name), key if new_key is None else printable(str(new_key))
        if name and self._routes.queues(exchange, key) == set():
            self._lost.get_or_make((queue, exchange, key), list).append(ref_of(frame))

    def finish(self) -> None:
        for (queue, exchange, key), refs in self._lost.items():
            title = f"{counted(len(refs), 'message')} of {queue[2]} that {short(refs[0].connection)} rejected went to "
            title += f"no queue: no binding of its dead letter exchange, {exchange[2]}, fits key {key or '(empty)'}"
            severity = "warning" if self._routes.is_bound(exchange) else None
            problem = self.report.about(CODES["dropped"], title, (queue, exchange, key), refs, severity=severity)
            problem.likely = "dead letters keep their routing key, unless the queue has x-dead-letter-routing-key"


CHECKS = Checks(
    codes=CODES,
    rules=(
        ClosedChannels,
        Returned,
        Nacked,
        BlockedPublishers,
        ConsumerAcks,
        AmqpHeartbeats,
        ChannelChurn,
        UnboundMessages,
        DeadLetters,
    ),
    gauges=(QueueLag,),
    changes=dict.fromkeys(QUEUES, queue_changes),
    answered=frozenset({"ConnectionClose", "ConnectionStart", "ConnectionSecure", "ConnectionTune"}),
    pushes=frozenset({"BasicDeliver"}),
    topic="queue",
    flows=(QueueFlows,),
    shares="rabbitmq_stream",
    space="virtual host",
    covered=frozenset({"closed", "returned", "nacked", "rejected"}),
    publishes=dict.fromkeys(
        CONTENTS, Publishing(("exchange", "routing_key"), numbered_by="publish_number", part="routing_key")
    ),
)
