"""The way of messages by subject and queue group, and those of JetStream by the sequence of their stream."""

from collections.abc import Sequence
from typing import Any

import orjson

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.conversation_acks import ACK, parse_ack_subject
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, PublishedContent, Sampler, Step
from wiredecode.protocols.shared.pairing import Newest

NEXT, CREATE = ".CONSUMER.MSG.NEXT.", ".CREATE."
INTERNAL = ("_INBOX.", "$", "_R_.")
TERM = b"+TERM"
REFUSED = (b"-NAK", b"+WPI", b"-TERM")
"""Answers to a delivered message that do not say that it is done."""
NO_MESSAGES = 404
MAX_LATEST, MAX_CONTENTS, SOON_NS, AGAIN = 256, 4096, 100_000_000, 2
"""Messages that are known again; a client that only passes messages on does so in this time; the second time."""
STARTS = {"all": flows.FIRST, "by_start_time": "time"}
STARTS |= dict.fromkeys(("new", "last", "last_per_subject"), flows.LATEST)
"""By ``deliver_policy``; the other one is ``by_start_sequence``."""
NOTHING = "", ""
MESSAGE_ID, OBJECT = "Nats-Msg-Id", b"{"
STALLED = "Nats-Consumer-Stalled"
"""Header of heartbeats of a consumer that waits for an answer to a flow control request."""


class Passing:
    """A message that comes to a client, which publishes it, too."""

    __slots__ = ("by_stream", "came_ns", "owed", "passes", "quick", "subject")

    def __init__(self) -> None:
        self.subject = ""
        """The one it came on."""
        self.owed = self.passes = self.quick = 0
        """Deliveries less publishes; publishes that followed a delivery, and those soon after it."""
        self.came_ns = 0
        self.by_stream = False
        """Whether a stream delivers it: then publishes are requests for its ack, else they are for another answer."""


class SubjectFlows(FlowReader):
    """Steps of one capture, at the connections of clients."""

    types = frozenset({"PUB", "HPUB", "MSG", "HMSG", "SUB", "UNSUB", "INFO", "CONNECT"})

    def __init__(self) -> None:
        self._subscriptions: Newest[tuple[int, str], tuple[str, str]] = Newest(MAX_KNOWN)
        """By connection and subscription: subject and queue group."""
        self._limits: Newest[tuple[int, str], tuple[int, int]] = Newest(MAX_KNOWN)
        """By connection and subscription: the messages that it asked for, and those that it got."""
        self._listening: Newest[int, None] = Newest(MAX_KNOWN)
        """Connections whose clients subscribe to more than answers."""
        self._contents: Newest[tuple[int, int], Passing] = Newest(MAX_CONTENTS)
        """By connection and hash, of clients that listen and publish."""
        self._both: Newest[int, None] = Newest(MAX_KNOWN)
        """Connections whose clients listen and publish."""
        self._latest: Newest[int, Frame] = Newest(MAX_LATEST)
        """The last message that came to a client that listens, and has not published yet."""
        self._pulls: Newest[int, tuple[str, str]] = Newest(MAX_KNOWN)
        """By request: stream and consumer."""
        self._created: Newest[int, None] = Newest(MAX_KNOWN)
        """Requests to make a stream or consumer."""
        self._published: Newest[int, str] = Newest(MAX_KNOWN)
        self._sampler = Sampler()
        self._consumers: Newest[tuple[int, str], tuple[str, str]] = Newest(MAX_KNOWN)
        """By connection and subscription: the stream and consumer whose messages come there."""

    def read(self, frame: Frame) -> Sequence[Step]:
        values, kind = frame.values, frame.type
        if kind == "INFO":
            account = values["options"].get("remote_account")
            return (Step(flows.SPACE, printable(account)),) if account else ()
        if kind == "CONNECT":
            return (Step(flows.MEMBER, ""),)
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
            number = frame.connection.number
            step = Step(flows.PUBLISH, printable(subject), None, "", None, 1, values["size"])
            headers = values.get("headers", ())
            if (frame.expects_response or headers or values["data"].startswith(OBJECT)) and self._sampler.wants(frame):
                named = [(each["key"], each["value"]) for each in headers]
                content = PublishedContent(None, values["data"], dict(named).get(MESSAGE_ID, ""), named)
                step = step._replace(samples=self._sampler.take(frame, 1, (content,)))
            if number not in self._listening:
                return (step,)
            if number not in self._both and (came := self._latest.pop(number, None)) is not None:
                self._comes(came, came.values["subject"])
            self._both.put(number, None)
            return (step, *self._passed(frame, step))
        if subject.startswith(ACK):
            acked = parse_ack_subject(subject)
            if acked is None or values["data"].startswith(REFUSED):
                return ()
            stream, consumer = printable(acked.stream), printable(acked.consumer)
            store = Step(flows.STORE, stream, None, consumer, acked.sequence, log=stream)
            return (store, store._replace(what=flows.REJECT)) if values["data"].startswith(TERM) else (store,)
        if NEXT not in subject:
            if CREATE in subject:
                self._created.put(frame.id, None)
            return ()
        stream, _, consumer = subject.partition(NEXT)[2].partition(".")
        stream, consumer = self._pulls.get_or_make(frame.id, lambda: (printable(stream), printable(consumer)))
        return (Step(flows.PULL, stream, None, consumer),)

    def _came(self, frame: Frame, subject: str) -> Sequence[Step]:
        values = frame.values
        key, reply = (frame.connection.number, values["sid"]), values.get("reply")
        if key[0] in self._both:
            self._comes(frame, subject)
        elif key[0] in self._listening:
            self._latest.put(key[0], frame)
        if reply:
            acked = parse_ack_subject(reply)
            if acked is not None:
                stream, group, again = printable(acked.stream), printable(acked.consumer), acked.delivered > 1
                self._consumers.put(key, (stream, group))
                common = {"size": values["size"], "log": stream, "lag": acked.pending, "again": again}
                common["number"] = acked.number
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

    def _comes(self, frame: Frame, subject: str) -> None:
        """A message comes to a client that publishes, too."""
        if not subject.startswith(INTERNAL):
            passing = self._contents.get_or_make((frame.connection.number, hash(frame.values["data"])), Passing)
            passing.owed, passing.came_ns, passing.subject = passing.owed + 1, frame.time_ns, subject
            passing.by_stream = (frame.values.get("reply") or "").startswith(ACK)

    def _passed(self, frame: Frame, step: Step) -> Sequence[Step]:
        """A client publishes what came to it before, and not for another answer than the ack of a stream."""
        passing = self._contents.get_or_make((frame.connection.number, hash(frame.values["data"])), Passing)
        passing.owed -= 1
        if passing.owed < 0 or (frame.expects_response and not passing.by_stream):
            return ()  # it says so by itself
        passing.passes += 1
        passing.quick += frame.time_ns - passing.came_ns <= SOON_NS
        how: Any = {"group": printable(passing.subject), "messages": passing.quick, "again": passing.passes == AGAIN}
        return (step._replace(what=flows.PASS, **how),)

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
        if any(each["key"] == STALLED for each in values.get("headers") or ()) and key in self._consumers:
            stream, consumer = self._consumers[key]
            return (Step(flows.STALL, stream, None, consumer),)
        if values.get("status") == NO_MESSAGES and request in self._pulls:
            stream, consumer = self._pulls[request]
            return (Step(flows.EMPTY, stream, None, consumer),)
        if "stream_sequence" in frame.generated and request in self._published:
            stream, first = printable(frame.generated["stream"]), frame.generated["stream_sequence"]
            return (Step(flows.CONFIRM, printable(self._published[request]), None, "", first, log=stream),)
        return begun(values["data"]) if request in self._created else ()


def begun(answer: bytes) -> Sequence[Step]:
    """Where a consumer begins that was made; nothing of a stream."""
    try:
        said = orjson.loads(answer)
        stream, name, policy = said["stream_name"], said["name"], said["config"]["deliver_policy"]
        start = STARTS.get(policy, f"offset {said['config'].get('opt_start_seq')}")
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return ()
    stream = printable(stream)
    return (Step(flows.SUBSCRIBE, stream, None, printable(name), log=stream, start=start),)
