"""The way of messages: from publishers to an exchange, and from queues to consumers: the group of their queue."""

from collections.abc import Iterator
from typing import NamedTuple

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.amqp091.messages import topic_of
from wiredecode.protocols.amqp091.names import FOR_ONE, STREAM_OFFSET
from wiredecode.protocols.shared import flows
from wiredecode.protocols.shared.amqp.tables import read_table
from wiredecode.protocols.shared.flows import MAX_KNOWN, FlowReader, PublishedContent, Sampler, Step
from wiredecode.protocols.shared.pairing import Newest

IDS = "message_id", "correlation_id", "priority", "delivery_mode"
"""Properties that samples show: ids, and how a broker keeps a message."""


class ContentStart(NamedTuple):
    size: int
    """Bytes of the body."""
    headers: list[tuple[str, str]]


NOT_BEGUN = ContentStart(-1, [])
STARTS = {"first": flows.FIRST, "last": flows.LATEST, "next": flows.LATEST}


class QueueFlows(FlowReader):
    """Steps of one capture. The topic of a stream is its name where it is the default exchange that leads to it."""

    types = frozenset(
        {"ConnectionOpen", "BasicConsume", "ContentHeader", "ContentBody", "BasicAck", "BasicNack", "BasicReject"}
    )

    def __init__(self) -> None:
        self._published: Newest[int, str] = Newest(MAX_KNOWN)
        """Topics, by frame of the message."""
        self._begun: Newest[tuple[int, int], ContentStart] = Newest(MAX_KNOWN)
        """By connection and channel: the last message that a client began to publish."""
        self._came: Newest[tuple[int, int], tuple[int, str, str]] = Newest(MAX_KNOWN)
        """The same of deliveries: size of the body, topic and group."""
        self._waiting: Newest[int, tuple[int, str, str]] = Newest(MAX_KNOWN)
        """By last frame of a delivery that waits for its ack: when it came, topic and group."""
        self._sampler, self._arrivals = Sampler(), Sampler()

    def read(self, frame: Frame) -> Iterator[Step]:
        if frame.type == "ConnectionOpen":
            yield Step(flows.MEMBER, "")
        elif frame.type == "BasicConsume":
            yield from self._subscribe(frame)
        elif frame.sender == "server":
            yield from self._from_server(frame)
        elif frame.type == "BasicAck":
            for each in frame.confirmations:
                if delivery := self._waiting.pop(each.request, None):
                    came_ns, topic, group = delivery
                    yield Step(flows.DONE, topic, group=group, waited_ns=frame.time_ns - came_ns)
        elif frame.type in ("BasicNack", "BasicReject"):
            if not frame.values["requeue"]:
                yield Step(flows.REJECT, "", messages=max(len(frame.confirmations), 1))
        elif "exchange" in frame.generated and not frame.generated["routing_key"].startswith(FOR_ONE):
            topic = topic_of(frame.generated)
            self._published.put(frame.id, topic)
            if frame.type == "ContentHeader":
                yield Step(flows.PUBLISH, topic, size=frame.values["body_size"])
            yield from self._sample(frame, topic)

    def _sample(self, frame: Frame, topic: str) -> Iterator[Step]:
        """A message whose body is empty, or in one frame."""
        values, place = frame.values, (frame.connection.number, frame.values["channel"])
        if frame.type == "ContentHeader":
            headers = [(name, str(values[name])) for name in IDS if values.get(name)]
            table = read_table(values["headers"]) if values.get("headers") else {}
            headers += [(name, str(value)) for name, value in table.items() if isinstance(value, str | int)]
            self._begun.put(place, ContentStart(values["body_size"], headers))
        size, headers = self._begun.get(place, NOT_BEGUN)
        if size == values.get("size", 0) * (frame.type == "ContentBody") and self._sampler.wants(frame):
            content = PublishedContent(None, values.get("body", b""), "", headers)
            yield Step(flows.SAMPLE, topic, samples=self._sampler.take(frame, 1, (content,)))

    def _subscribe(self, frame: Frame) -> Iterator[Step]:
        start = read_table(frame.values["arguments"]).get(STREAM_OFFSET)
        if start is not None:
            begin = f"offset {start}" if isinstance(start, int) else STARTS.get(str(start), "time")
            yield Step(flows.SUBSCRIBE, printable(frame.values["queue"]), start=begin)

    def _from_server(self, frame: Frame) -> Iterator[Step]:
        what = flows.CONFIRM if frame.refusal is None else flows.REFUSE
        for request in {each.request for each in frame.confirmations} | {frame.request}:
            if topic := self._published.pop(request or 0, ""):
                yield Step(what, topic)
        generated = frame.generated
        if frame.type == "ContentHeader" and "delivery_tag" in generated:
            offset, queue = generated.get("stream_offset"), generated.get("queue", "")
            topic, size, again = topic_of(generated), frame.values["body_size"], "redelivered" in generated
            if topic.startswith(FOR_ONE):
                return  # an answer
            group = "" if offset is not None or queue.startswith(FOR_ONE) else queue
            log = queue if offset is not None and queue != topic else ""
            yield Step(flows.DELIVER, topic, group=group, first=offset, size=size, log=log, again=again)
            if offset is None:
                self._came.put((frame.connection.number, frame.values["channel"]), (size, topic, group))
        elif frame.type == "ContentBody":
            size, topic, group = self._came.get((frame.connection.number, frame.values["channel"]), (-1, "", ""))
            if frame.acks is not None and size >= 0:
                self._waiting.put(frame.id, (frame.time_ns, topic, group))
            if size == frame.values["size"] and self._arrivals.wants(frame):
                samples = self._arrivals.take(frame, 1, (PublishedContent(None, frame.values["body"], ""),))
                yield Step(flows.GOT, topic, group=group, samples=[each._replace(body=b"") for each in samples])
