"""The way of messages by subject and queue group, and those of JetStream by the sequence of their stream."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.conversation_memory import ACK, parse_ack_subject
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, Step
from wiredecode.protocols.shared.pairing import Newest

NEXT = ".CONSUMER.MSG.NEXT."
INTERNAL = ("_INBOX.", "$", "_R_.")
REFUSED = (b"-NAK", b"+WPI", b"-TERM")
"""Answers to a delivered message that do not say that it is done."""
NO_MESSAGES = 404
MAX_CIRCLES, MAX_CONTENTS, SOON_NS = 4096, 32, 100_000_000
"""Different messages of a subject that are known again; a client that only passes messages on does so in this time."""
NOTHING, LARGEST = ("", ""), 1 << 62
STALLED = "Nats-Consumer-Stalled"
"""Header of heartbeats of a consumer that waits for an answer to a flow control request."""


class PassedOn:
    """A message that a client gets and publishes, on one subject."""

    __slots__ = ("came", "came_ns", "rounds", "sent", "sent_ns")

    def __init__(self) -> None:
        self.came = self.sent = self.rounds = 0
        """Deliveries, publishes, and publishes soon after a delivery; fewer than 0: it published more than it got."""
        self.came_ns = self.sent_ns = 0


class Circle:
    """Messages that a client publishes to a subject that it gets, too."""

    __slots__ = ("has_stream", "known")

    def __init__(self) -> None:
        self.known: dict[int, PassedOn] = {}
        """By hash, the newest last."""
        self.has_stream = False
        """Whether a stream delivers them: then publishes are requests for its ack, else they are for another answer."""

    def deliver(self, frame: Frame, *, by_stream: bool) -> None:
        """The client gets a message."""
        key = hash(frame.values["data"])
        contents = self.known.pop(key, None) or PassedOn()
        contents.came, contents.came_ns, self.has_stream = contents.came + 1, frame.time_ns, by_stream
        self.known[key] = contents
        if len(self.known) > MAX_CONTENTS:
            del self.known[next(iter(self.known))]

    def publish(self, frame: Frame) -> int:
        """The client publishes a message; return how often it only passed this one on: each time, and quickly."""
        contents = self.known.get(hash(frame.values["data"]))
        if contents is None or (frame.expects_response and not self.has_stream):
            return 0
        contents.sent += 1
        since_ns = max(frame.time_ns - contents.came_ns, frame.time_ns - (contents.sent_ns or frame.time_ns))
        contents.rounds += since_ns <= SOON_NS
        contents.sent_ns = frame.time_ns
        if contents.sent > contents.came:
            contents.rounds = -LARGEST
        return contents.rounds if contents.rounds * 5 >= contents.came * 4 else 0


class SubjectFlows(FlowReader):
    """Steps of one capture, at the connections of clients."""

    types = frozenset({"PUB", "HPUB", "MSG", "HMSG", "SUB", "UNSUB", "INFO"})

    def __init__(self) -> None:
        self._subscriptions: Newest[tuple[int, str], tuple[str, str]] = Newest(MAX_KNOWN)
        """By connection and subscription: subject and queue group."""
        self._limits: Newest[tuple[int, str], tuple[int, int]] = Newest(MAX_KNOWN)
        """By connection and subscription: the messages that it asked for, and those that it got."""
        self._listening: Newest[int, None] = Newest(MAX_KNOWN)
        """Connections whose clients subscribe to more than answers."""
        self._circles: Newest[tuple[int, str], Circle] = Newest(MAX_CIRCLES)
        """By connection and subject that its client publishes to."""
        self._pulls: Newest[int, tuple[str, str]] = Newest(MAX_KNOWN)
        """By request: stream and consumer."""
        self._published: Newest[int, str] = Newest(MAX_KNOWN)
        self._consumers: Newest[tuple[int, str], tuple[str, str]] = Newest(MAX_KNOWN)
        """By connection and subscription: the stream and consumer whose messages come there."""

    def read(self, frame: Frame) -> Sequence[Step]:
        values, kind = frame.values, frame.type
        if kind == "INFO":
            account = values["options"].get("remote_account")
            return (Step(flows.SPACE, printable(account)),) if account else ()
        if kind == "UNSUB":
            return self._left(frame)
        subject: str = values["subject"]
        if kind == "SUB":
            known = printable(subject), printable(values.get("queue", ""))
            self._subscriptions.put((frame.connection.number, values["sid"]), known)
            if subject.startswith(INTERNAL):
                return ()
            self._listening.put(frame.connection.number, None)
            return (Step(flows.SUBSCRIBE, known[0], None, known[1]),)
        return self._sent(frame, subject) if frame.sender == "client" else self._came(frame, subject)

    def _sent(self, frame: Frame, subject: str) -> Sequence[Step]:
        values = frame.values
        if not subject.startswith(INTERNAL):
            if frame.expects_response:
                self._published.put(frame.id, subject)
            step = Step(flows.PUBLISH, printable(subject), None, "", None, 1, values["size"])
            if frame.connection.number not in self._listening:
                return (step,)
            circle = self._circles.get_or_make((frame.connection.number, subject), Circle)
            rounds = circle.publish(frame) if circle.known else 0
            return (step, step._replace(what=flows.LOOP, messages=rounds)) if rounds else (step,)
        if subject.startswith(ACK):
            acked = parse_ack_subject(subject)
            if acked is None or values["data"].startswith(REFUSED):
                return ()
            stream, consumer = printable(acked.stream), printable(acked.consumer)
            return (Step(flows.STORE, stream, None, consumer, acked.sequence, log=stream),)
        if NEXT not in subject:
            return ()
        stream, _, consumer = subject.partition(NEXT)[2].partition(".")
        stream, consumer = self._pulls.get_or_make(frame.id, lambda: (printable(stream), printable(consumer)))
        return (Step(flows.PULL, stream, None, consumer),)

    def _came(self, frame: Frame, subject: str) -> Sequence[Step]:
        values = frame.values
        key, reply = (frame.connection.number, values["sid"]), values.get("reply")
        if self._circles and (circle := self._circles.get((key[0], subject))) is not None:
            circle.deliver(frame, by_stream=(reply or "").startswith(ACK))
        if reply:
            acked = parse_ack_subject(reply)
            if acked is not None:
                stream, group, again = printable(acked.stream), printable(acked.consumer), acked.delivered > 1
                self._consumers.put(key, (stream, group))
                common = {"size": values["size"], "log": stream, "lag": acked.pending, "again": again}
                return (Step(flows.DELIVER, printable(subject), None, group, acked.sequence, **common),)
        if frame.request is not None or "status" in values:
            return self._answered(frame, key)
        if subject.startswith(INTERNAL):
            return ()
        pattern, group = self._subscriptions.get(key, NOTHING)
        step = Step(flows.DELIVER, printable(subject), None, group, None, 1, values["size"])
        if self._limits and (limit := self._limits.get(key)) is not None:
            most, got = limit
            self._limits[key] = most, got + 1
            if got + 1 == most:
                return (step, Step(flows.LEAVE, pattern, None, group, messages=most))
        return (step,)

    def _left(self, frame: Frame) -> Sequence[Step]:
        """A client unsubscribes, now or after a number of messages."""
        key, most = (frame.connection.number, frame.values["sid"]), frame.values.get("max_messages")
        known = self._consumers.get(key) or self._subscriptions.get(key)
        if known is None or known[0].startswith(INTERNAL):
            return ()
        if most:
            self._limits.put(key, (most, 0))
            return ()
        return (Step(flows.LEAVE, known[0], None, known[1]),)

    def _answered(self, frame: Frame, key: tuple[int, str]) -> Sequence[Step]:
        """Acks of publishes, pulls in vain, and heartbeats."""
        values, request = frame.values, frame.request or 0
        if any(name == STALLED for name in header_names(values)) and key in self._consumers:
            stream, consumer = self._consumers[key]
            return (Step(flows.STALL, stream, None, consumer),)
        if values.get("status") == NO_MESSAGES and request in self._pulls:
            stream, consumer = self._pulls[request]
            return (Step(flows.EMPTY, stream, None, consumer),)
        if "stream_sequence" in frame.generated and request in self._published:
            stream, first = printable(frame.generated["stream"]), frame.generated["stream_sequence"]
            return (Step(flows.CONFIRM, printable(self._published[request]), None, "", first, log=stream),)
        return ()


def header_names(values: Mapping[str, Any]) -> Iterator[str]:
    return (each["key"] for each in values.get("headers") or ())
