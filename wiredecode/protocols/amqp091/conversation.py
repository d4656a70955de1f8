"""The state of one AMQP 0-9-1 connection: its channels, requests in order, messages over several frames, acks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, ClassVar
from zlib import crc32

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import AckDuty, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.amqp091 import NAME, names
from wiredecode.protocols.amqp091.layers import (
    METHODS,
    ContentBody,
    ContentHeader,
    Heartbeat,
    ProtocolHeader,
    UnknownFrame,
)
from wiredecode.protocols.amqp091.messages import add_message
from wiredecode.protocols.base import Conversation, Start
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.amqp.tables import read_table
from wiredecode.protocols.shared.pairing import Newest, Pipelined, Request, link
from wiredecode.protocols.shared.publications import Publications
from wiredecode.protocols.shared.sasl import user_name

MAX_MANDATORY = 1000
"""Publishes that may be returned, which are remembered on a channel."""
MAX_CHANNELS = 4096
"""Channels of a connection that are remembered."""
MAX_HELD_BYTES = 64 * 1024 * 1024
"""Bytes of messages that are not complete, on one connection; beyond it bodies are not kept."""
METHOD_CODE, NUMBERED = Struct(">I").unpack_from, 11
"""Class and method in one number, and bytes of a frame that has it."""
DELIVERIES = ("BasicDeliver", "BasicGetOk")
NEVER = 1 << 64
"""No delivery has this number."""
ROUTE = ("exchange", "routing_key", "delivery_tag", "consumer_tag")


@dataclass(slots=True)
class Ask(Request):
    """A method that waits for an answer."""

    values: Mapping[str, Any]


@dataclass(slots=True, eq=False)
class AmqpConsumer:
    """A consumer of a channel."""

    queue: str = ""
    no_ack: bool | None = None
    acks: AckDuty = field(default_factory=AckDuty)


@dataclass(slots=True, eq=False)
class Content:
    """A message whose frames are coming."""

    type: str
    """Its method."""
    values: Mapping[str, Any]
    number: int | None
    """Of publishes: in confirms."""
    generated: dict[str, Any]
    consumer: AmqpConsumer | None = None
    size: int | None = None
    """Bytes of the body; None: the header has not come."""
    received: int = 0
    parts: list[bytes] | None = field(default_factory=list)
    """None: bytes of it are missing."""
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def body(self) -> bytes | None:
        return None if self.parts is None else b"".join(self.parts)


@dataclass(slots=True, eq=False)
class Channel:
    """A channel of the connection."""

    contents: list[Content | None] = field(default_factory=lambda: [None, None])
    """By side."""
    next_publish: int | None = None
    """Number of the next publish in confirms; None: it is not known, or there are no confirms."""
    unsure: Newest[int, AmqpConsumer] = field(default_factory=Newest)
    """Consumers that may not have to acknowledge, by delivery."""
    consumers: Newest[str, AmqpConsumer] = field(default_factory=Newest)
    getting: AmqpConsumer | None = None
    """Of the last BasicGet."""
    mandatory: deque[tuple[Any, int | None, Request]] = field(default_factory=lambda: deque(maxlen=MAX_MANDATORY))
    """Identity of a message that may come back, its number in confirms, its frame."""
    queue: str = ""
    """Declared last: the one that an empty name means."""


Handler = Callable[["AmqpConversation", Frame, Channel], Any]


class AmqpConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, start: Start, ports: tuple[int, ...]) -> None:
        super().__init__(start)
        served = [port in ports for port in self.connection.ports]
        if self.client is None and served[0] != served[1]:
            self.client = 1 if served[0] else 0
        self.outstanding: Pipelined[tuple[int, int, str], Ask] = Pipelined()
        """By side, channel and method."""
        self.channels: Newest[int, Channel] = Newest(MAX_CHANNELS)
        self.publishing = Publications()
        self.delivering = Publications()
        """Both by channel."""
        self.following = [0, 0]
        """By side: where the next frame begins, if no bytes are missing."""
        self.frame_max = 0
        """Bytes of the largest frame that both sides agreed on; 0: any."""
        self.held = 0
        self.completed: Content | None = None
        """The message that the frame just decoded completes."""

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol, self.completed = NAME, None
        side, offset = frame.side, frame.offset
        if not offset and proxy.decode(self, frame, style):
            self.following[side] = frame.length
            return
        if offset != self.following[side]:
            self._forget(side)
        self.following[side] = offset + frame.length
        buffer, start = frame.buffer, frame.start
        code = buffer[start]
        if code == names.METHOD and frame.stop - start >= NUMBERED:
            (code,) = METHOD_CODE(buffer, start + 7)
        elif code == names.METHOD:
            code = int.from_bytes(buffer[start + 7 : frame.stop])
        frame.code = code
        decoder, handle, from_client = KNOWN.get(code, UNKNOWN)
        if self.client is None and from_client is not None:
            self.client = side if from_client else 1 - side
        frame.sender = self.sender(frame)
        decoder.read(frame, style)
        if frame.length > self.frame_max > 0:
            message = f"{frame.length} bytes, and both sides agreed on {self.frame_max} (frame_max)"
            frame.find("warning", "protocol", "above-frame-max", message, "size")
        channel = frame.values.get("channel")
        if handle is not None and channel is not None:
            handle(self, frame, self.channels.get(channel) or self.channels.get_or_make(channel, Channel))

    def _unknown(self, frame: Frame, channel: Channel) -> None:
        if frame.stop - frame.start >= NUMBERED:
            text, where = "no method of AMQP 0-9-1 or RabbitMQ", (0, NUMBERED)
            frame.find("warning", "protocol", "unknown-method", text, "undecided", where)

    def messages(self, frame: Frame, out: Messages) -> None:
        if self.completed is not None and self.completed.type != "BasicReturn":
            add_message(frame, self.completed, out)

    def _forget(self, side: int) -> None:
        """Bytes of a side are missing: what its frames were about, and how many publishes there were, is not known."""
        for number, channel in self.channels.items():
            channel.contents[side] = None
            if side == self.client or self.client is None:
                channel.next_publish = None
                channel.mandatory.clear()
                self.publishing.end(number)
        self.outstanding.clear()

    # Requests and answers.

    def _ask(self, frame: Frame, channel: Channel) -> None:
        """A method that wants an answer; the server gives those of a channel in order."""
        values = frame.values
        if values.get("no_wait") or frame.type is None:
            return
        key = frame.side, values["channel"], frame.type
        self.outstanding.add(frame, key, Ask(frame.id, frame.time_ns, values))

    def _oldest(self, frame: Frame, channel: int, name: str) -> Ask | None:
        """Remove and return the oldest request of a method that a frame may answer."""
        first, second = self.connection.directions
        if frame.overtakes or first.lost_before(frame.ready) or second.lost_before(frame.ready):
            return None  # answers come in turn: a lost one, or a lost request, would shift all that follow
        return self.outstanding.pop((1 - frame.side, channel, name))

    def _answer(self, frame: Frame, channel: Channel) -> Ask | None:
        asks = names.asked_by(frame.type or "")
        request = None if asks is None else self._oldest(frame, frame.values["channel"], asks)
        if request is not None:
            link(frame, request)
            if (queue := request.values.get("queue")) and "queue" not in frame.values:
                frame.generate("queue", printable(queue))
        return request

    def _close(self, frame: Frame, channel: Channel) -> None:
        """A side gives up a channel, or the connection: often because of a method of the other one."""
        values = frame.values
        code = values.get("cause_class_id", 0) << 16 | values.get("cause_method_id", 0)
        cause = names.METHODS.get(code)
        if cause is not None:
            frame.generate("cause", cause)
            numbers = [values["channel"]] if values["channel"] else [number for _, number, _ in self.outstanding]
            asked = next(filter(None, (self._oldest(frame, each, cause) for each in numbers)), None)
            if asked is not None:
                link(frame, asked)
        if values.get("reply_code", 200) >= 300:
            message = f"{names.outcome(values['reply_code'])}: {printable(values.get('reply_text', ''))}"
            frame.refuse(message, "reply_code", "closed", "warning" if frame.sender == "server" else "note")
        for number in [values["channel"]] if values["channel"] else [*self.channels]:
            self.publishing.end(number)
            self.delivering.end(number)
            self.channels.put(number, Channel())
        self._ask(frame, channel)

    # The handshake.

    def _start_ok(self, frame: Frame, channel: Channel) -> None:
        self._answer(frame, channel)
        values = frame.values
        user = user_name(values.get("mechanism", ""), values.get("response", b""))
        if user is not None:
            frame.generate("user", printable(user))

    def _tune_ok(self, frame: Frame, channel: Channel) -> None:
        self._answer(frame, channel)
        self.frame_max = frame.values.get("frame_max", 0)

    # Queues and consumers.

    def _declared(self, frame: Frame, channel: Channel) -> None:
        self._answer(frame, channel)
        channel.queue = frame.values.get("queue", "")

    def _consume(self, frame: Frame, channel: Channel) -> None:
        self._ask(frame, channel)
        if "no_ack" in frame.values:
            consumer = consumer_of(frame, frame.values, channel)
            if tag := frame.values["consumer_tag"]:
                channel.consumers.put(tag, consumer)
            else:
                channel.getting = consumer  # until the server names it

    def _consuming(self, frame: Frame, channel: Channel) -> None:
        request = self._answer(frame, channel)
        if request is not None and not request.values.get("consumer_tag") and "consumer_tag" in frame.values:
            channel.consumers.put(frame.values["consumer_tag"], consumer_of(frame, request.values, channel))

    def _get(self, frame: Frame, channel: Channel) -> None:
        self._ask(frame, channel)
        channel.getting = consumer_of(frame, frame.values, channel)

    def _confirm_select(self, frame: Frame, channel: Channel) -> None:
        self._ask(frame, channel)
        if channel.next_publish is None:
            channel.next_publish = 1

    # Messages.

    def _content(self, frame: Frame, channel: Channel) -> None:
        """A method that a message follows."""
        values, name = frame.values, frame.type or ""
        content = Content(name, values, None, routed(values))
        if name == "BasicPublish" and channel.next_publish is not None:
            content.number = content.generated["publish_number"] = channel.next_publish
            channel.next_publish += 1
        elif name == "BasicGetOk":
            request = self._answer(frame, channel)
            if request is not None:
                content.consumer = channel.getting
        elif name == "BasicDeliver":
            content.consumer = channel.consumers.get(values.get("consumer_tag", ""))
            if content.consumer is None and "consumer_tag" in values:
                content.consumer = channel.consumers.get_or_make(values["consumer_tag"], AmqpConsumer)
        queue = "" if content.consumer is None else content.consumer.queue
        if not queue and name in DELIVERIES and values.get("exchange") == "":
            queue = values.get("routing_key", "")  # the default exchange routes to the queue of this name
        if queue:
            content.generated["queue"] = printable(queue)
            frame.generate("queue", content.generated["queue"])
        channel.contents[frame.side] = content

    def _header(self, frame: Frame, channel: Channel) -> None:
        content = channel.contents[frame.side]
        if content is None or content.size is not None:
            channel.contents[frame.side] = None
            return
        frame.generated = content.generated
        content.size = frame.values.get("body_size")
        if content.size is None:
            channel.contents[frame.side] = None
            return
        content.properties = frame.values
        if content.type in DELIVERIES and names.STREAM_OFFSET.encode() in (raw := frame.values.get("headers", b"")):
            content.generated["stream_offset"] = read_table(raw).get(names.STREAM_OFFSET)
        if not content.size:
            self._complete(frame, channel, content)

    def _body(self, frame: Frame, channel: Channel) -> None:
        content = channel.contents[frame.side]
        if content is None or content.size is None:
            return
        frame.generated = content.generated
        body, size = frame.values.get("body"), frame.length - 8
        content.received += size
        if body is None or self.held + size > MAX_HELD_BYTES:
            self.held -= sum(map(len, content.parts or ()))
            content.parts = None
        elif content.parts is not None:
            content.parts.append(body)
            self.held += len(body)
        if content.received > content.size:
            message = f"{content.received} bytes of a message of {content.size}"
            frame.find("warning", "protocol", "body-too-long", message, "body")
            content.parts = None
        if content.received >= content.size:
            self._complete(frame, channel, content)

    def _complete(self, frame: Frame, channel: Channel, content: Content) -> None:
        """The last frame of a message."""
        channel.contents[frame.side] = None
        self.held -= sum(map(len, content.parts or ()))
        self.completed, values = content, content.values
        if content.type == "BasicPublish":
            if values.get("mandatory"):
                channel.mandatory.append((identity_of(content), content.number, Request(frame.id, frame.time_ns)))
            if content.number is not None:
                number = content.number
                self.publishing.publish(frame, values["channel"], [(number, number + 1)], whole=True)
        elif content.type == "BasicReturn":
            self._returned(frame, channel, content)
        elif "delivery_tag" in values and (content.consumer is None or not content.consumer.no_ack):
            frame.acks = AckDuty() if content.consumer is None else content.consumer.acks
            if frame.acks.since is None and content.consumer is not None:
                channel.unsure.put(frame.id, content.consumer)
            tag = values["delivery_tag"]
            self.delivering.publish(frame, values["channel"], [(tag, tag + 1)], whole=True)

    def _returned(self, frame: Frame, channel: Channel, content: Content) -> None:
        """The server sends a message back that no queue took."""
        code = content.values.get("reply_code", 0)
        reason = f"returned: {names.outcome(code)}"
        frame.refuse(reason, None, "returned", "warning")
        sought = identity_of(content)
        for place, (identity, number, request) in enumerate(channel.mandatory):
            if identity == sought:
                del channel.mandatory[place]
                if number is not None:
                    self.publishing.confirm(frame, content.values["channel"], [(number, number + 1)], reason)
                else:
                    link(frame, request)
                return

    # Acks.

    def _ack(self, frame: Frame, channel: Channel) -> None:
        """Of publishes by the server, of deliveries by the client."""
        values = frame.values
        if frame.sender is None or "delivery_tag" not in values:
            return
        tag, multiple = values["delivery_tag"], bool(values.get("multiple"))
        lossy = frame.connection.directions[frame.side].lost_before(frame.ready)
        if frame.sender == "server":
            refusal = "nacked" if frame.type == "BasicNack" else None
            last = (channel.next_publish or 1) - 1 if multiple and not tag else tag
            if lossy and any(
                number <= last if multiple else number == last for _, number, _ in channel.mandatory if number
            ):
                return  # it may have been returned before, in the lost bytes
            self.publishing.confirm(frame, values["channel"], [(0 if multiple else last, last + 1)], refusal)
            if refusal is not None:
                frame.refuse("the server did not take the messages", "delivery_tag", "nacked", "warning")
            return
        refusal = None
        if frame.type != "BasicAck":
            refusal = "rejected, and requeued" if values.get("requeue") else "rejected"
            frame.refuse(f"the consumer {refusal} the messages", "delivery_tag", "rejected")
        first = 0 if multiple and not lossy else tag  # others may have been refused before, in the lost bytes
        last = tag if tag or not multiple else NEVER
        self.delivering.confirm(frame, values["channel"], [(first, last + 1)], refusal)
        for each in frame.confirmations if channel.unsure else ():
            if (consumer := channel.unsure.pop(each.request, None)) is not None and consumer.acks.since is None:
                consumer.acks.since = frame.number

    def _recover(self, frame: Frame, channel: Channel) -> None:
        """The server delivers again what was not acknowledged."""
        self.delivering.end(frame.values["channel"])
        if frame.type == "BasicRecover":
            self._ask(frame, channel)

    HANDLERS: ClassVar[dict[str, Handler]] = {
        **dict.fromkeys((name for name in names.CODES if names.asked_by(name)), _answer),
        **dict.fromkeys(names.SYNCHRONOUS, _ask),
        **dict.fromkeys(names.CONTENT, _content),
        **dict.fromkeys(("ChannelClose", "ConnectionClose"), _close),
        **dict.fromkeys(("BasicAck", "BasicNack", "BasicReject"), _ack),
        **dict.fromkeys(("BasicRecover", "BasicRecoverAsync"), _recover),
        "ConnectionStartOk": _start_ok,
        "ConnectionTuneOk": _tune_ok,
        "QueueDeclareOk": _declared,
        "BasicConsume": _consume,
        "BasicConsumeOk": _consuming,
        "BasicGet": _get,
        "ConfirmSelect": _confirm_select,
        "ContentHeader": _header,
        "ContentBody": _body,
    }


def known(layer: type[Layer]) -> tuple[FrameDecoder, Handler | None, bool | None]:
    """The way to decode a type of frames: their layer, what follows, and whether only clients send them."""
    name = layer.__name__
    from_client = names.by_client(name) if name in names.CODES else None
    return FrameDecoder(layer, name), AmqpConversation.HANDLERS.get(name), from_client


OTHERS: dict[int, type[Layer]] = {names.HEADER: ContentHeader, names.BODY: ContentBody, names.HEARTBEAT: Heartbeat}
OTHERS[names.GREETING[0]] = ProtocolHeader
KNOWN = {code: known(layer) for code, layer in (METHODS | OTHERS).items()}
UNKNOWN = FrameDecoder(UnknownFrame, None), AmqpConversation._unknown, None


def consumer_of(frame: Frame, values: Mapping[str, Any], channel: Channel) -> AmqpConsumer:
    """Who asks for messages; ``frame`` shows whether it will acknowledge them."""
    no_ack = bool(values.get("no_ack"))
    since = None if no_ack else frame.number
    return AmqpConsumer(values.get("queue") or channel.queue, no_ack, AckDuty(since))


def routed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the frames of a message have from its method."""
    found: dict[str, Any] = {}
    for name in ROUTE:
        value = values.get(name)
        if value is not None:
            found[name] = printable(value) if isinstance(value, str) else value
    if values.get("redelivered"):
        found["redelivered"] = True
    return found


def identity_of(content: Content) -> Any:
    """Values that a returned message has in common with its publish."""
    body, values = content.body, content.values
    return values.get("exchange"), values.get("routing_key"), content.size, None if body is None else crc32(body)
