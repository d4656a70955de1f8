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
STALLED = "Nats-Consumer-Stalled"
"""Header of heartbeats of a consumer that waits for an answer to a flow control request."""


class SubjectFlows(FlowReader):
    """Steps of one capture, at the connections of clients."""

    types = frozenset({"PUB", "HPUB", "MSG", "HMSG", "SUB", "UNSUB", "INFO"})

    def __init__(self) -> None:
        self._queues: Newest[tuple[int, str], str] = Newest(MAX_KNOWN)
        """By connection and subscription."""
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
            known = self._consumers.get((frame.connection.number, values["sid"]))
            return () if known is None else (Step(flows.LEAVE, known[0], None, known[1]),)
        subject: str = values["subject"]
        if kind == "SUB":
            self._queues.put((frame.connection.number, values["sid"]), queue := values.get("queue", ""))
            return (
                ()
                if subject.startswith(INTERNAL)
                else (Step(flows.SUBSCRIBE, printable(subject), None, printable(queue)),)
            )
        return self._sent(frame, subject) if frame.sender == "client" else self._came(frame, subject)

    def _sent(self, frame: Frame, subject: str) -> Sequence[Step]:
        values = frame.values
        if not subject.startswith(INTERNAL):
            if frame.expects_response:
                self._published.put(frame.id, subject)
            return (Step(flows.PUBLISH, printable(subject), None, "", None, 1, values["size"]),)
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
        key = frame.connection.number, values["sid"]
        if reply := values.get("reply"):
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
        queue = self._queues.get(key, "")
        group = printable(queue) if queue else ""
        return (Step(flows.DELIVER, printable(subject), None, group, None, 1, values["size"]),)

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
