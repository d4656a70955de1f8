"""The state of one RabbitMQ Stream connection: who is who, what is outstanding, which id means which stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import OK, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.base import Conversation, Start
from wiredecode.protocols.rabbitmq_stream import NAME, names
from wiredecode.protocols.rabbitmq_stream import layers_sub_batches as sub_batches
from wiredecode.protocols.rabbitmq_stream.evidence import HEADER, UNMARKED, is_request
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Unknown, UnknownSasl
from wiredecode.protocols.rabbitmq_stream.layers_chunk import check_chunk, check_entries, number_offsets
from wiredecode.protocols.rabbitmq_stream.messages import add_messages
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.pairing import Outstanding, Request, link
from wiredecode.protocols.shared.publications import Numbers, Publications, runs_of
from wiredecode.protocols.shared.sasl import user_name

INITIAL_FRAME_MAX = 8192
"""Limit of newer brokers before Open; a larger frame is a note, since older brokers accept more."""
SMALL_FRAME = 4096
"""No limit on frames that could be negotiated is worth a look below this size."""


@dataclass(slots=True)
class ValuesRequest(Request):
    """A request with its fields."""

    values: Mapping[str, Any]


@dataclass(slots=True)
class Binding:
    """A publisher or subscription id: its stream, and its former stream until its request is confirmed."""

    stream: str
    generated: Mapping[str, Any]
    """Generated fields of frames with this id."""
    ended: bool = False
    previous: Binding | None = None


@dataclass(slots=True)
class Bindings:
    """The ids of one kind on one connection."""

    key: str
    """Field that has the id."""
    table: dict[int, Binding] = field(default_factory=dict)

    def declare(self, number: int, stream: str, reference: str) -> None:
        generated = {"stream": printable(stream)}
        if reference:
            generated["reference"] = printable(reference)
        self.table[number] = Binding(stream, generated, previous=self.table.get(number))

    def answer(self, number: int, accepted: bool) -> None:
        """The response to a declaration: a refused one leaves the id as it was."""
        binding = self.table.get(number)
        if binding is None:
            return
        if accepted:
            binding.previous = None
        elif binding.previous is not None:
            self.table[number] = binding.previous
        else:
            del self.table[number]

    def end(self, number: int) -> None:
        if number in self.table:
            self.table[number].ended = True

    def end_stream(self, stream: str) -> None:
        for binding in self.table.values():
            binding.ended = binding.ended or binding.stream == stream


class RabbitMQConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.outstanding: Outstanding[tuple[int, int, int], ValuesRequest] = Outstanding()
        self.offered: ValuesRequest | None = None
        """The server's Tune."""
        self.publishers, self.subscriptions = Bindings("publisher_id"), Bindings("subscription_id")
        self.publishing = Publications()
        self.frame_max = 0
        self.opened = False
        self.challenged = False
        """The server asked for more: what the client sends next is not a user name and a password."""

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol = NAME
        if not frame.offset and proxy.decode(self, frame, style):
            return
        _, code, version = HEADER.unpack_from(frame.buffer, frame.start)
        frame.code = code
        if self.client is None:
            self._learn_sides(frame, code)
        frame.sender = self.sender(frame)
        if code in UNMARKED and frame.sender == "server":
            code |= names.RESPONSE_BIT
            frame.find(
                "note", "protocol", "no-response-bit", "RabbitMQ 3.10 sends this response without its bit", "key"
            )
        decoder = DECODERS.get(code << 16 | version) or decoder_of(code, version)
        if style is not None:
            sub_batches.forget_opened()
        decoder.read(frame, style)
        if code == SASL_AUTHENTICATE and frame.values.get("mechanism", "") not in names.MECHANISMS:
            UNTOLD_SASL.read(frame, style)  # what is no mechanism may be anything
        if frame.length > SMALL_FRAME:
            self._report_size(frame)
        if decoder.handler is not None:
            decoder.handler(self, frame)
        if decoder.layer in (Unknown, UnknownSasl):
            report_unknown(frame, code, version)
        if style is not None:
            self._finish_record(frame)

    records_later = True

    def record(self, frame: Frame, style: Style) -> None:
        if frame.layer is None:
            return
        findings, status = frame.findings, frame.status
        decoder = RECORD_DECODERS.get((frame.layer, frame.type))
        if decoder is None:
            decoder = RECORD_DECODERS[frame.layer, frame.type] = FrameDecoder(frame.layer, frame.type)
        sub_batches.forget_opened()
        decoder.read(frame, style)
        frame.findings, frame.status = findings, status  # reported once
        self._finish_record(frame)

    def skip(self, frame: Frame, *, connection_hidden: bool) -> bool:
        if self.client is None or not frame.offset or frame.is_partial:
            return False
        code = HEADER.unpack_from(frame.buffer, frame.start)[1]
        name, unmarked = names.KEYS.get(code), code in UNMARKED and frame.side != self.client
        if name is None or unmarked or not (connection_hidden or name in PASSING):
            return False
        frame.protocol, frame.code, frame.type = NAME, code, name
        frame.sender = "client" if frame.side == self.client else "server"
        return True

    def messages(self, frame: Frame, out: Messages) -> None:
        add_messages(frame, out)

    def _finish_record(self, frame: Frame) -> None:
        record = frame.layers.get(NAME) if frame.layers else None
        if record is not None and "chunk" in record:
            number_offsets(record["chunk"])

    def _report_size(self, frame: Frame) -> None:
        """Publish frames above the negotiated limit: newer brokers refuse them. Deliver has no such limit."""
        if frame.sender != "client":
            return
        size = frame.length - 4
        if self.opened and 0 < self.frame_max < size:
            message = f"size {size} is above the negotiated frame max of {self.frame_max}"
            frame.find("warning", "protocol", "frame-max", message, "size", (0, 4))
        elif self.whole and not self.opened and size > INITIAL_FRAME_MAX and frame.all_seen():
            message = f"size {size} before Open: brokers from 4.3.5 accept {INITIAL_FRAME_MAX}"
            frame.find("note", "protocol", "frame-max", message, "size", (0, 4))

    # Identities.

    def _learn_sides(self, frame: Frame, code: int) -> None:
        if code in names.CLIENT_KEYS:
            self.client = frame.side
        elif code in names.SERVER_KEYS:
            self.client = 1 - frame.side
        elif code in UNMARKED and (asks := is_request(frame.buffer, frame.start, frame.stop)) is not None:
            self.client = frame.side if asks else 1 - frame.side

    # Requests and responses.

    def _add_request(self, frame: Frame) -> None:
        """A request: remember it until the other side answers with its correlation id."""
        correlation = frame.values.get("correlation_id")
        if correlation is None:
            return
        key = (frame.side, frame.values["key"] & ~names.RESPONSE_BIT, correlation)
        self.outstanding.add(frame, key, ValuesRequest(frame.id, frame.time_ns, frame.values))

    def _answer(self, frame: Frame) -> ValuesRequest | None:
        """A response: find its request, record the outcome."""
        values = frame.values
        code = values.get("response_code", names.OK)
        if code not in (names.OK, names.SASL_CHALLENGE):
            message = f"the request was refused: {names.outcome(code)}"
            frame.refuse(message, "response_code")
        correlation = values.get("correlation_id")
        if correlation is None:
            return None
        request = self.outstanding.pop((1 - frame.side, values["key"] & ~names.RESPONSE_BIT, correlation))
        if request is not None:
            link(frame, request)
        elif self.whole and frame.all_seen(1 - frame.side):
            frame.find("note", "protocol", "no-request", f"no request with correlation id {correlation} was captured")
        return request

    # Ids and their streams.

    def _resolve(self, frame: Frame, bindings: Bindings) -> None:
        """Name the stream of an id; report an id that was never declared or is no longer valid."""
        number = frame.values.get(bindings.key)
        if number is None:
            return
        binding, role = bindings.table.get(number), bindings.key.removesuffix("_id")
        if binding is None:
            if self.whole and frame.all_seen():
                message = f"{role} {number} was not declared on this connection"
                frame.find("warning", "protocol", "not-declared", message, bindings.key)
            return
        frame.generated = binding.generated
        if binding.ended and frame.all_seen():
            message = f"{role} {number} of {binding.generated['stream']} had ended before"
            frame.find("note", "protocol", "ended", message, bindings.key)

    def _declare_publisher(self, frame: Frame) -> None:
        self._add_request(frame)
        values = frame.values
        self.publishing.end(values.get("publisher_id", -1))  # what is declared anew was deleted before
        if "stream" in values:
            self.publishers.declare(values["publisher_id"], values["stream"], values["publisher_reference"])
        else:
            self._forget_binding(frame, self.publishers)

    def _declared(self, frame: Frame, bindings: Bindings) -> None:
        """The answer to a declaration, which names neither id nor stream."""
        request = self._answer(frame)
        if request is not None and bindings.key in request.values:
            number = request.values[bindings.key]
            frame.generate(bindings.key, number)
            if "stream" in request.values:
                frame.generate("stream", printable(request.values["stream"]))
            bindings.answer(number, frame.values.get("response_code") == names.OK)

    def _forget_binding(self, frame: Frame, bindings: Bindings) -> None:
        """A declaration whose stream was truncated: the id's former stream no longer holds."""
        self.whole = False
        if bindings.key in frame.values:
            bindings.table.pop(frame.values[bindings.key], None)
        else:
            bindings.table.clear()

    def _end(self, frame: Frame, bindings: Bindings) -> None:
        self._add_request(frame)
        self._name_only(frame, bindings, frame.values)

    def _ended(self, frame: Frame, bindings: Bindings) -> None:
        request = self._answer(frame)
        if request is not None and frame.values.get("response_code") == names.OK:
            number = request.values.get(bindings.key, -1)
            bindings.end(number)
            if bindings is self.publishers:
                self.publishing.end(number)

    def _publish(self, frame: Frame) -> None:
        self._resolve(frame, self.publishers)
        if runs := published_ids(frame):
            self.publishing.publish(frame, frame.values["publisher_id"], runs, whole=frame.status == OK)
        sub_batches.report(frame, sub_batches.look_at(frame, "messages", frame.values, _record(frame)))

    def _publish_confirm(self, frame: Frame) -> None:
        self._resolve(frame, self.publishers)
        if runs := confirmed_ids(frame):
            self.publishing.confirm(frame, frame.values["publisher_id"], runs)

    def _publish_error(self, frame: Frame) -> None:
        self._resolve(frame, self.publishers)
        by_code: dict[int, list[int]] = {}
        for error in frame.values.get("errors") or ():
            if len(error) == 2:
                by_code.setdefault(error["response_code"], []).append(error["publishing_id"])
        for code, numbers in by_code.items():
            self.publishing.confirm(frame, frame.values["publisher_id"], runs_of(numbers), names.outcome(code))
        if by_code:
            count = sum(map(len, by_code.values()))
            message = f"{count} messages were not published: {', '.join(sorted(map(names.outcome, by_code)))}"
            frame.refuse(message, "errors", "publish-error", "warning")

    def _subscribe(self, frame: Frame) -> None:
        self._add_request(frame)
        values = frame.values
        if "stream" not in values:
            self._forget_binding(frame, self.subscriptions)
            return
        properties = {entry["key"]: entry["value"] for entry in values.get("properties", ()) if len(entry) == 2}
        self.subscriptions.declare(values["subscription_id"], values["stream"], properties.get("name", ""))

    def _credit(self, frame: Frame) -> None:
        """Late credits after Unsubscribe are common: name the stream, complain about nothing."""
        self._name_only(frame, self.subscriptions, frame.values)

    def _credited(self, frame: Frame) -> None:
        self._answer(frame)
        self._credit(frame)

    def _name_only(self, frame: Frame, bindings: Bindings, values: Mapping[str, Any]) -> None:
        binding = bindings.table.get(values.get(bindings.key, -1))
        if binding is not None:
            frame.generate("stream", binding.generated["stream"])

    def _consumer_update(self, frame: Frame) -> None:
        self._add_request(frame)
        self._resolve(frame, self.subscriptions)

    def _consumer_updated(self, frame: Frame) -> None:
        request = self._answer(frame)
        if request is not None and "subscription_id" in request.values:
            frame.generate("subscription_id", request.values["subscription_id"])
            self._name_only(frame, self.subscriptions, request.values)

    def _metadata_update(self, frame: Frame) -> None:
        name = frame.values.get("stream")
        if name is not None:
            self.publishers.end_stream(name)
            self.subscriptions.end_stream(name)
            frame.find("note", "response", "stream-unavailable", f"{printable(name)} became unavailable", "stream")

    def _deliver(self, frame: Frame) -> None:
        self._resolve(frame, self.subscriptions)
        chunk = frame.values.get("chunk")
        whole = frame.stop - frame.start == frame.values.get("size", 0) + 4
        if chunk is not None and whole and "trailer_length" in chunk:
            check_chunk(frame, chunk)
        if chunk is not None:
            check_entries(frame, chunk, (_record(frame) or {}).get("chunk"))

    # The handshake.

    def _authenticate(self, frame: Frame) -> None:
        self._add_request(frame)
        values = frame.values
        if values.get("data") and not self.challenged:
            user = user_name(values["mechanism"], values["data"])
            if user is not None:
                frame.generate("user", printable(user))

    def _authenticated(self, frame: Frame) -> None:
        self._answer(frame)
        self.challenged = frame.values.get("response_code") == names.SASL_CHALLENGE

    def _tune(self, frame: Frame) -> None:
        """The server's offer, and the client's answer in either form."""
        code = frame.values.get("key", 0)
        if frame.sender != "client" and not code & names.RESPONSE_BIT:
            self.offered = ValuesRequest(frame.id, frame.time_ns, frame.values)
            frame.expects_response = True
            return
        self.frame_max = frame.values.get("frame_max", 0)
        if self.offered is not None:
            link(frame, self.offered)
            for name in ("frame_max", "heartbeat"):
                answered, offered = frame.values.get(name), self.offered.values.get(name)
                if answered is not None and offered is not None:
                    frame.generate(f"negotiated_{name}", min(answered, offered) or max(answered, offered))
            self.frame_max = frame.generated.get("negotiated_frame_max", 0)
            self.offered = None

    def _opened(self, frame: Frame) -> None:
        self._answer(frame)
        self.opened = frame.values.get("response_code", names.OK) == names.OK

    def _close(self, frame: Frame) -> None:
        self._add_request(frame)
        if frame.sender == "server":
            reason = printable(frame.values.get("closing_reason", ""))
            frame.find("warning", "response", "closed", f"the server closes the connection: {reason}", "closing_code")

    HANDLERS: ClassVar[dict[str, Callable[[RabbitMQConversation, Frame], Any]]] = {
        **dict.fromkeys(map(names.KEYS.__getitem__, names.CORRELATED), _add_request),
        **dict.fromkeys(map(names.KEYS.__getitem__, names.RESPONSES), _answer),
        "DeclarePublisher": _declare_publisher,
        "DeclarePublisherResponse": lambda self, frame: self._declared(frame, self.publishers),
        "Publish": _publish,
        "PublishConfirm": _publish_confirm,
        "PublishError": _publish_error,
        "DeletePublisher": lambda self, frame: self._end(frame, self.publishers),
        "DeletePublisherResponse": lambda self, frame: self._ended(frame, self.publishers),
        "Subscribe": _subscribe,
        "SubscribeResponse": lambda self, frame: self._declared(frame, self.subscriptions),
        "Deliver": _deliver,
        "Credit": _credit,
        "CreditResponse": _credited,
        "Unsubscribe": lambda self, frame: self._end(frame, self.subscriptions),
        "UnsubscribeResponse": lambda self, frame: self._ended(frame, self.subscriptions),
        "MetadataUpdate": _metadata_update,
        "SaslAuthenticate": _authenticate,
        "SaslAuthenticateResponse": _authenticated,
        "Tune": _tune,
        "TuneResponse": _tune,
        "OpenResponse": _opened,
        "Close": _close,
        "ConsumerUpdate": _consumer_update,
        "ConsumerUpdateResponse": _consumer_updated,
    }


PASSING = frozenset({"Deliver", "Credit", "Heartbeat"})
"""Commands that later frames do not depend on."""
RECORD_DECODERS: dict[tuple[type[Layer], str | None], FrameDecoder] = {}
"""Decoders for the records of frames that are made later."""
SASL_AUTHENTICATE = 0x0013
UNTOLD_SASL = FrameDecoder(UnknownSasl, names.KEYS[SASL_AUTHENTICATE])
DECODERS: dict[int, FrameDecoder] = {}
"""By key and version (its low 16 bits), made by `decoder_of`; for unknown versions of a key, by the negative key."""


def _record(frame: Frame) -> dict[str, Any] | None:
    return frame.layers.get(NAME) if frame.layers else None


def published_ids(frame: Frame) -> list[Numbers]:
    """The publishing ids of a Publish that were captured; "numbers" is the compiled decoder's (fields/compiler.py)."""
    values: Any = frame.values
    jumps = values.pop("numbers", None)
    if jumps is None:
        return runs_of(_numbers_of(frame, "messages"))
    if not jumps:
        return []  # a publish of no messages
    messages = values["messages"]
    ends = [*(index for index, _ in jumps[1:]), messages if isinstance(messages, int) else len(messages)]
    return [(low, low + end - index) for (index, low), end in zip(jumps, ends, strict=True)]


def confirmed_ids(frame: Frame) -> list[Numbers]:
    """The publishing ids of a PublishConfirm that were captured."""
    numbers: Any = frame.values.pop("numbers", None)  # type: ignore[attr-defined]
    return runs_of(_numbers_of(frame, "publishing_ids") if numbers is None else numbers)


def _numbers_of(frame: Frame, name: str) -> list[int]:
    """Numbers of a frame from its record; of a damaged one those that are whole."""
    value: Any = frame.values.get(name)
    if isinstance(value, int) and frame.layers:
        value = next(iter(frame.layers.values())).get(name)
    if not isinstance(value, list) or "publisher_id" not in frame.values:
        return []
    numbers: list[Any] = [each.get("publishing_id") if isinstance(each, dict) else each for each in value]
    return [number for number in numbers if number is not None] if None in numbers else numbers


def decoder_of(code: int, version: int) -> FrameDecoder:
    """The decoder of a key and version, made when first needed; one for all versions or keys that are not known."""
    layer, index = LAYERS.get((code, version)), code << 16 | version
    if layer is None:
        layer = UnknownSasl if code & ~names.RESPONSE_BIT == SASL_AUTHENTICATE else Unknown
        index = -code if code in names.KEYS else 0
    if index not in DECODERS:
        surplus = "some clients write an offset for every type" if code == 0x801A else None
        name = names.KEYS.get(code)
        DECODERS[index] = FrameDecoder(layer, name, RabbitMQConversation.HANDLERS.get(name or ""), surplus)
    return DECODERS[index]


def report_unknown(frame: Frame, code: int, version: int) -> None:
    if frame.type is None:
        frame.find("warning", "protocol", "unknown-command", f"command {code:#06x} is not known", "key", (4, 6))
    else:
        message = f"version {version} of {frame.type} is not known"
        frame.find("warning", "protocol", "unknown-version", message, "version", (6, 8))
