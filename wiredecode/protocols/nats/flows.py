"""The way of messages by subject and queue group, and those of JetStream by the sequence of their stream."""

from collections.abc import Iterator

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


class SubjectFlows(FlowReader):
    """Steps of one capture, at the connections of clients."""

    types = frozenset({"PUB", "HPUB", "MSG", "HMSG", "SUB", "INFO"})

    def __init__(self) -> None:
        self._queues: Newest[tuple[int, str], str] = Newest(MAX_KNOWN)
        """By connection and subscription."""
        self._pulls: Newest[int, tuple[str, str]] = Newest(MAX_KNOWN)
        """By request: stream and consumer."""
        self._published: Newest[int, str] = Newest(MAX_KNOWN)

    def read(self, frame: Frame) -> Iterator[Step]:
        values = frame.values
        if frame.type == "INFO":
            if account := values["options"].get("remote_account"):
                yield Step(flows.SPACE, printable(account))
            return
        subject = values["subject"]
        if frame.type == "SUB":
            self._queues.put((frame.connection.number, values["sid"]), queue := values.get("queue", ""))
            if not subject.startswith(INTERNAL):
                yield Step(flows.SUBSCRIBE, printable(subject), group=printable(queue))
        elif frame.sender == "client":
            yield from self._sent(frame, subject)
        else:
            yield from self._came(frame, subject)

    def _sent(self, frame: Frame, subject: str) -> Iterator[Step]:
        values = frame.values
        if subject.startswith(ACK):
            acked = parse_ack_subject(subject)
            if acked is not None and not values["data"].startswith(REFUSED):
                stream, consumer = printable(acked.stream), printable(acked.consumer)
                yield Step(flows.STORE, stream, group=consumer, first=acked.sequence, log=stream)
        elif NEXT in subject and subject.startswith("$"):
            stream, _, consumer = subject.partition(NEXT)[2].partition(".")
            self._pulls.put(frame.id, (printable(stream), printable(consumer)))
            yield Step(flows.PULL, printable(stream), group=printable(consumer))
        elif not subject.startswith(INTERNAL):
            self._published.put(frame.id, subject)
            yield Step(flows.PUBLISH, printable(subject), size=values["size"])

    def _came(self, frame: Frame, subject: str) -> Iterator[Step]:
        values, request = frame.values, frame.request or 0
        if values.get("status") == NO_MESSAGES and request in self._pulls:
            stream, consumer = self._pulls[request]
            yield Step(flows.EMPTY, stream, group=consumer)
        elif "stream_sequence" in frame.generated and request in self._published:
            stream, first = printable(frame.generated["stream"]), frame.generated["stream_sequence"]
            yield Step(flows.CONFIRM, printable(self._published[request]), first=first, log=stream)
        elif (acked := parse_ack_subject(values.get("reply", ""))) is not None:
            stream, group, again = printable(acked.stream), printable(acked.consumer), acked.delivered > 1
            common = {"first": acked.sequence, "size": values["size"], "log": stream, "lag": acked.pending}
            yield Step(flows.DELIVER, printable(subject), group=group, again=again, **common)
        elif not subject.startswith(INTERNAL) and "status" not in values:
            queue = self._queues.get((frame.connection.number, values["sid"]), "")
            yield Step(flows.DELIVER, printable(subject), group=printable(queue), size=values["size"])
