"""The state of one NATS connection: kind of link, subscriptions, open requests, transports inside it."""

import re
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from crc32c import crc32c

from wiredecode.fields import printable, redact, text
from wiredecode.fields.credentials import TOKEN_HEAD, is_secret_value, is_token
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.followed import FollowedFrames
from wiredecode.frames.frame import MALFORMED, NOTHING, OK, Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.base import Conversation, Protocol, Start
from wiredecode.protocols.nats import NAME, names, transport
from wiredecode.protocols.nats import transport_websocket as websocket
from wiredecode.protocols.nats.conversation_acks import ACK
from wiredecode.protocols.nats.conversation_memory import (
    BEGINNINGS,
    MAX_WAITING,
    PRIVATE,
    Key,
    NatsMemory,
    NatsPublisher,
    NatsSide,
    NatsSubscription,
    Receiver,
    add_stored_name,
    plain_subject,
)
from wiredecode.protocols.nats.evidence import MAX_BODY_BYTES, OPERATION_NAME
from wiredecode.protocols.nats.layers import Unknown
from wiredecode.protocols.nats.layers_decoders import (
    DEDICATED,
    GRAMMARS,
    WITH_ORIGIN,
    decoder_for,
    hides_data,
    link_of_connect,
    link_of_info,
    link_of_operation,
    secret_decoder,
)
from wiredecode.protocols.nats.messages import add_messages
from wiredecode.protocols.nats.transport_streams import InnerStreams
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared import proxy
from wiredecode.protocols.shared.carried import CarriedMessage, CarriedSession, without_carried_secrets
from wiredecode.protocols.shared.pairing import Newest, Request, link
from wiredecode.protocols.shared.tls import Handshakes, TlsRecord

MAX_SUBSCRIPTIONS = 65_536
"""Subscriptions remembered per connection; beyond it the oldest is forgotten."""
LOST_PING_NS = 1_000_000_000
"""A PONG within this time after lost bytes may answer a PING among the lost bytes."""
MAX_ENDED = 1_024
"""Ended subscriptions that are remembered, because late messages can name them."""
JETSTREAM_API = re.compile(r"\$JS\.(?:[^.]+\.)?API\.")


class NatsConversation(Conversation):
    """Decodes the frames of one connection in the order in which they were complete."""

    def __init__(self, start: Start, protocol: Protocol, memory: NatsMemory) -> None:
        super().__init__(start)
        self.memory = memory
        self.link, self.forced = start.dialect, start.dialect is not None
        self.upgraded, self.copies = start.splitter is not None, start.copies
        self.sides = tuple(NatsSide(publisher=NatsPublisher(server)) for server in reversed(self.connection.endpoints))
        self.account: str | None = None
        """The account of a route for one account; "" if its name is unknown; None: other links."""
        self.decoders: dict[bytes, FrameDecoder] = {}
        """By the first four bytes; they depend on the kind of link and the options of both sides."""
        self.subscriptions: Newest[str, NatsSubscription] = Newest(MAX_SUBSCRIPTIONS)
        self.ended: OrderedDict[str, None] = OrderedDict()
        self.verbose: deque[Request] | None = deque(maxlen=MAX_WAITING) if self.whole else None
        """Operations that +OK answers; None: the client is not verbose. Servers assume verbose before CONNECT."""
        self.max_payload = 0
        self.inner = InnerStreams(protocol)
        self.connected = self.tls_found = self.lost = False
        """``lost``: whether bytes were lost before the frame just decoded."""
        self.handshakes = Handshakes()
        self.published_ns: int | None = None
        """If the frame just decoded delivers a message to a client: when it was published, ns, if known."""
        self.counts_from = 0
        """Time, ns, from which on PONGs answer captured PINGs: some time after a loss."""

    # Reading.

    def decode(self, frame: Frame, style: Style | None) -> None:
        if self._read(frame, style):
            self._read_payload(frame, style)

    def _read(self, frame: Frame, style: Style | None) -> bool:
        """Read an operation, and link it; False: nothing looks into its payload."""
        decoder = self.decoders.get(frame.buffer[frame.start : frame.start + 4]) or self._decoder(frame)
        frame.protocol, frame.dialect, self.published_ns = NAME, self.link, None
        if frame.generated is NOTHING:  # no operation inside a chunk
            side = self.sides[frame.side]
            if frame.offset != side.reached or frame.missing:
                self._lost(frame, side)
            side.reached = frame.offset + frame.length
        if decoder is None:
            self._transport(frame, style)
            return False
        if self.client is None:
            self._learn_sides(frame, decoder.type)
        frame.sender = self.sender(frame)
        decoder.read(frame, style)
        if frame.status == MALFORMED and decoder.type in DEDICATED and self.account is None and not frame.all_seen():
            decoder = self._reread(frame, decoder, style)
        values = frame.values
        subject = values.get("subject")
        secret = hides(frame, subject, values, self.memory)
        if secret:
            secret_decoder(decoder).read(frame, style)
            if "error" in frame.values:
                frame.values = {**frame.values, "error": redact(values["error"])}
        handler = self.HANDLERS.get(decoder.type)
        if handler is not None:
            handler(self, frame)
        if style is not None and frame.layers is not None and frame.generated is not NOTHING:
            frame.layers[NAME].update(frame.generated)
        return not secret

    def _read_payload(self, frame: Frame, style: Style | None) -> None:
        values = frame.values
        subject = values.get("subject")
        if "data" in values:
            data = values["data"]
            session = self.memory.carried.of_message(subject, data)
            if session is not None:
                self._decode_carried(session, frame, data, frame.length - len(data) - 2, style)
            elif self.copies and subject is not None and frame.request is None and "reply" not in values:
                self._find_copy(frame, (subject, crc32c(data)), frame.type)
        elif payload := payload_of(frame):  # its captured front
            start = payload_start(frame)
            if (session := self.memory.carried.of_message(subject, payload)) is not None:
                self._decode_carried(session, frame, payload, start, style)

    def _decode_carried(
        self, session: CarriedSession, frame: Frame, payload: bytes, start: int, style: Style | None
    ) -> None:
        subject, reply = frame.values.get("subject"), frame.values.get("reply")
        operation, message = frame.type, CarriedMessage(payload, start, subject, reply)
        session.decode(frame, message, style)
        if style is not None and not style.secrets and frame.layers is not None and "data" in frame.layers[NAME]:
            frame.layers[NAME]["data"] = style.show(without_carried_secrets(frame, payload))
        if frame.protocol != NAME:
            subjects = subject if reply is None else f"{subject} {plain_subject(reply)}"
            self._find_copy(frame, (subjects or "", crc32c(payload)), operation)

    def _find_copy(self, frame: Frame, key: Key, operation: str | None) -> None:
        """Remember a published message; link a delivered or forwarded one with its publish."""
        side = self.sides[frame.side]
        if operation in ("PUB", "HPUB"):
            self.memory.copies.publish(key, side.publisher, (frame.number, frame.id, frame.time_ns))
            return
        receiver = side.receiver(frame.values.get("sid"), self.subscriptions)
        published = self.memory.copies.deliver(key, receiver, (frame.number, frame.id, 0))
        if published is None:
            return
        self.published_ns = (receiver.forwards_as is None and published[2]) or None
        if "copy_of" not in frame.generated:
            frame.generate("copy_of", published[1])
            if frame.layers is not None and NAME in frame.layers:
                frame.layers[NAME]["copy_of"] = published[1]

    # Frames that other processes decode.

    def decode_note(self, frame: Frame) -> Any:
        """The note of a frame; it holds a payload with an envelope as that is, not decoded."""
        if self._read(frame, None):
            carried = self.memory.carried.name_of(payload_of(frame))
            if carried is None:
                self._read_payload(frame, None)
            else:
                frame.protocol = carried
        return self.note(frame)

    def note(self, frame: Frame) -> Any:
        """Of a plain publish subject and digest; of others the arguments of :meth:`_follow`."""
        values, lost = frame.values, self.lost
        self.lost = False
        plain = frame.protocol == NAME and frame.type in PLAIN and "reply" not in values
        if plain and not lost and "data" in values:
            subject, data = values["subject"], values["data"]
            known = subject.startswith("$") or subject in self.memory.requests
            if not known and not PRIVATE.match(subject) and not data.startswith(HEADS):
                return (subject, crc32c(data)) if frame.type == "PUB" else None
        name, payload = values.get("operation", "").upper(), None
        kept = {each: values[each] for each in NOTED if each in values}
        if name == "CONNECT":
            kept["name"] = (values.get("options") or {}).get("name")
        elif name not in MESSAGES and name != "-ERR":
            return ("", {}, None, lost, False) if lost else None
        elif "data" in values:
            data = values["data"]
            kept["digest"] = crc32c(data)
            if frame.protocol != NAME or data.startswith(BEGINNINGS) or kept["subject"].startswith(ACK):
                payload = data
        elif frame.is_partial and "size" in values and frame.protocol != NAME:
            payload = frame.data[payload_start(frame) :]
        return name, kept, payload, lost, hides_data(frame.layer)

    def follow(self, frames: FollowedFrames) -> Iterator[Frame]:
        requests, copies = self.memory.requests, self.memory.copies
        publisher = self.sides[frames.side].publisher
        for number, (stable_id, note) in zip(frames.numbers, frames.notes, strict=True):
            if len(note) == len(PLAIN):
                if note[0] not in requests:
                    if self.copies:
                        copies.publish((note[0], note[1]), publisher, (number, stable_id, frames.time_ns))
                    continue
                values = {"operation": "PUB", "subject": note[0], "digest": note[1], "size": 0}
                note = "PUB", values, None, False, False
            frame = frames.frame(number, stable_id)
            self._follow(frame, *note)
            yield frame

    def _follow(
        self, frame: Frame, name: str, values: dict[str, Any], payload: bytes | None, lost: bool, secret: bool
    ) -> None:
        """Do to the memory what :meth:`decode` does.

        ``values``: those of :data:`NOTED`, and the digest of a whole payload. ``payload``: if more than its digest
        matters. ``lost``: bytes were lost before. ``secret``: it may be a credential.
        """
        memory, subject = self.memory, values.get("subject", "")
        frame.protocol, frame.values = NAME, values
        if lost:
            memory.carried.interrupt(self.connection.number, frame.side, frame.time_ns)
            memory.copies.note_loss()
        if name == "CONNECT" and isinstance(values["name"], str):
            memory.carried.client_named(values["name"], self.connection.number)
        if name not in MESSAGES:
            if name == "-ERR":
                self._err(frame)
            return
        if payload is not None and "digest" in values:
            values["data"] = payload
        request = memory.requests.get(subject) if memory.requests else None
        secret = secret or (request is not None and names.is_secret_subject(request.subject))
        self.HANDLERS[name](self, frame)
        frame.expects_response = False
        delivered = "sid" in values
        if secret:
            return
        if payload is not None and (session := memory.carried.of_message(subject, payload)) is not None:
            frame.is_partial = "digest" not in values
            session.decode(frame, CarriedMessage(payload, 0, subject, values.get("reply")), None)
            if frame.protocol != NAME and not delivered:
                subjects = subject if "reply" not in values else f"{subject} {plain_subject(values['reply'])}"
                self._find_copy(frame, (subjects, crc32c(payload)), name)
        elif self.copies and "digest" in values and frame.request is None and "reply" not in values and not delivered:
            self._find_copy(frame, (subject, values["digest"]), name)

    def messages(self, frame: Frame, out: Messages) -> None:
        add_messages(frame, self.memory.carried, out, self.published_ns)

    def _lost(self, frame: Frame, side: NatsSide) -> None:
        """Bytes before or in this frame were not captured: stop counting PINGs, +OKs and copies."""
        side.whole, self.lost = False, True
        for each in self.sides:
            each.pings.clear()
        self.counts_from = frame.time_ns + LOST_PING_NS
        self.verbose = None
        self.inner_frames += self.inner.lose(frame)
        self.memory.carried.interrupt(self.connection.number, frame.side, frame.time_ns)
        self.memory.copies.note_loss()

    def _decoder(self, frame: Frame) -> FrameDecoder | None:
        """The decoder of an operation in any spelling; None: it is no operation."""
        buffer, start, stop = frame.buffer, frame.start, frame.stop
        if self._speaks_websocket(frame):
            return None
        if start == stop:
            return self._decoder_of(None)
        if transport.layer_at(buffer, start) is not None or proxy.layer_of(frame) is not None:
            return None
        match = OPERATION_NAME.match(buffer, start, stop)
        decoder = self._decoder_of(match[0].upper().decode() if match else None)
        if match:
            first, name = buffer[start : start + 4], match[0]
            if first.startswith(name[:4].upper()) and (len(name) >= 4 or first[3:] in (b" ", b"\r")):
                self.decoders[first] = decoder  # the first four bytes differ for all names
        return decoder

    def _decoder_of(self, name: str | None) -> FrameDecoder:
        layer: type[Layer] = Unknown
        if name is not None:
            if name in names.LINK_OPERATIONS and not self.connected and self.link in (None, names.LEAF):
                self.is_link(link_of_operation(name))
            layer = GRAMMARS[self.link or names.CLIENT][name]
            if self.account is not None:
                layer = DEDICATED.get(name, layer)
            # A side without version: its first INFO was not captured.
            announced = (side.options.get("lnocu", not side.options.get("version")) for side in self.sides)
            if name == "LS-" and self.link == names.ROUTE and all(announced):
                layer = WITH_ORIGIN[self.account is not None]
        return decoder_for(layer, name)

    # Transports.

    def _speaks_websocket(self, frame: Frame) -> bool:
        """Whether its side has switched to WebSocket, and the frame is not from inside a chunk."""
        switched = self.upgraded or self.sides[frame.side].upgraded
        return switched and frame.generated is NOTHING

    def _transport(self, frame: Frame, style: Style | None) -> None:
        look = transport.upgraded_layer_at if self._speaks_websocket(frame) else transport.layer_at
        layer = proxy.layer_of(frame) or look(frame.buffer, frame.start)
        assert layer is not None
        frame.sender = self.sender(frame)
        title: str | None = TRANSPORT_TITLES.get(layer, "PROXY")
        if layer is transport.HttpHead and websocket.opens(frame.buffer, frame.start, frame.stop):
            self.sides[frame.side].upgraded = True
        if layer.filter_name == proxy.NAME:
            frame.protocol = proxy.NAME
        elif layer is TlsRecord:
            frame.protocol = layer.filter_name
            title = None
            if not self.tls_found:
                self.tls_found = True
                frame.find("note", "protocol", "tls", "the connection switches to TLS: the rest is encrypted")
        decoder_for(layer, title).read(frame, style)
        if title is None:
            self.handshakes.read(frame)
        if layer.filter_name not in (proxy.NAME, "tls"):
            sound = self.sides[frame.side].whole and self.connection.directions[frame.side].started
            self.inner_frames += self.inner.feed(frame, layer, sound)
            if style is not None and frame.layers is not None and frame.generated is not NOTHING:
                frame.layers[layer.filter_name].update(frame.generated)

    # Client and server, and the kind of link.

    def _learn_sides(self, frame: Frame, name: str | None) -> None:
        if self.link in (None, names.CLIENT):
            if name in names.CLIENT_SENDS or name == "CONNECT":
                self.client = frame.side
            elif name in names.SERVER_SENDS or name == "-ERR" or (name == "HMSG" and self.link == names.CLIENT):
                self.client = 1 - frame.side
        elif name == "CONNECT":
            self.client = frame.side

    def is_link(self, link: str) -> None:
        if link != self.link and not self.forced:
            self.link = link
            self.decoders.clear()

    def _reread(self, frame: Frame, decoder: FrameDecoder, style: Style | None) -> FrameDecoder:
        """Try an operation that does not fit the link as one of routes: the INFO may not have been captured."""
        name = decoder.type or ""
        for layer, account in ((GRAMMARS[names.ROUTE].get(name), None), (DEDICATED[name], "")):
            if layer is not None and layer is not decoder.layer:
                frame.status, frame.findings = OK, ()
                candidate = decoder_for(layer, name)
                candidate.read(frame, style)
                if frame.status == OK:
                    self.is_link(names.ROUTE)
                    self.account, frame.dialect = account, self.link
                    self.decoders.clear()
                    return candidate
        frame.status, frame.findings = OK, ()
        decoder.read(frame, style)
        return decoder

    def _info(self, frame: Frame) -> None:
        options = frame.values.get("options") or {}
        self.sides[frame.side].options |= options
        if not self.connected and self.link in (None, names.CLIENT):
            link = link_of_info(options)
            if link is not None:
                self.is_link(link)
        frame.dialect = self.link
        if options.get("max_payload"):
            self.max_payload = options["max_payload"]
        if options.get("route_account"):
            self.account = options["route_account"]
            self.is_link(names.ROUTE)
        self.decoders.clear()
        if command := options.get("gateway_cmd"):
            frame.generate("gateway_command", names.GATEWAY_COMMANDS.get(command, str(command)))
        if options.get("ldm"):
            frame.find("note", "protocol", "lame-duck", "lame duck mode: the server will close the connection soon")

    def _connect(self, frame: Frame) -> None:
        options = frame.values.get("options")
        if options is None:
            return
        self.sides[frame.side].options |= options
        self.connected = True
        self.is_link(link_of_connect(options))
        self.decoders.clear()
        frame.dialect = self.link
        name = options.get("name")
        if isinstance(name, str):
            for key, value in self.memory.carried.client_named(name, self.connection.number).items():
                frame.generate(key, printable(value))
        verbose = self.link == names.CLIENT and options.get("verbose", True) is not False
        if not verbose:
            self.verbose = None
        elif self.verbose is None:
            self.verbose = deque(maxlen=MAX_WAITING)
        self._await_ok(frame)

    # Answers in order.

    def _ping(self, frame: Frame) -> None:
        frame.expects_response = True
        if frame.time_ns >= max(self.counts_from, self.sides[1 - frame.side].ponged_ns):
            self.sides[frame.side].pings.append(Request(frame.id, frame.time_ns))

    def _pong(self, frame: Frame) -> None:
        side, pings = self.sides[frame.side], self.sides[1 - frame.side].pings
        side.ponged_ns = max(side.ponged_ns, frame.time_ns)
        if pings:
            link(frame, pings.popleft())

    def _await_ok(self, frame: Frame) -> None:
        if self.verbose is not None:
            self.verbose.append(Request(frame.id, frame.time_ns))
            frame.expects_response = True

    def _ok(self, frame: Frame) -> None:
        if self.verbose:
            link(frame, self.verbose.popleft())

    def _err(self, frame: Frame) -> None:
        text = frame.values.get("error", "")
        if self.verbose:
            self.verbose = None  # it can replace a +OK, so later ones cannot be counted
        if (refused := names.REFUSED_PUBLISH.fullmatch(text)) is not None:
            self.memory.refuse(frame, refused[1])
        harmless = text.lower().startswith(names.HARMLESS_ERRORS)
        severity = "warning" if harmless else "error"
        closing = "" if harmless else "; the connection is closed"
        frame.refuse(f"the server says: {printable(text)}{closing}", "error", "server-error", severity)

    # Subscriptions.

    def _sub(self, frame: Frame) -> None:
        values = frame.values
        self._await_ok(frame)
        if "sid" not in values:
            return
        subject, queue = values["subject"], values.get("queue")
        facts = {"subscription": printable(subject)}
        if queue is not None:
            facts["queue"] = printable(queue)
        receiver = Receiver(frame.number, frame.destination, gets_all=queue is None)
        self.ended.pop(values["sid"], None)
        if self.subscriptions.put(values["sid"], NatsSubscription(subject, queue, facts, receiver=receiver)):
            message = f"more than {MAX_SUBSCRIPTIONS} subscriptions: the oldest is forgotten"
            frame.find("note", "limit", "subscriptions", message)

    def _unsub(self, frame: Frame) -> None:
        self._await_ok(frame)
        subscription = self.subscriptions.get(frame.values.get("sid", ""))
        if subscription is None:
            return
        frame.generate("subscription", printable(subscription.subject))
        most = frame.values.get("max_messages", 0)
        if most > subscription.delivered:
            subscription.most = most
        else:
            self._end(frame.values["sid"], subscription)

    def _end(self, sid: str, subscription: NatsSubscription) -> None:
        """End a subscription, but remember it for messages that are on their way."""
        subscription.ended = True
        self.ended[sid] = None
        if len(self.ended) > MAX_ENDED:
            self.subscriptions.pop(self.ended.popitem(last=False)[0], None)

    # Messages.

    def _publish(self, frame: Frame) -> None:
        values = frame.values
        if self.verbose is not None:
            self._await_ok(frame)
        if "size" not in values:
            return
        most = self.max_payload or MAX_BODY_BYTES
        if values["size"] > most and frame.all_seen(1 - frame.side):
            message = f"a payload of {values['size']} bytes, the server takes {most}"
            frame.find("warning", "protocol", "max-payload", message, "size")
        if values["subject"][:1] == "$":
            add_stored_name(frame, values)
        if "reply" in values:
            self.memory.ask(frame, values, first=True)
        if values["subject"] in self.memory.requests:
            self.memory.answer(frame, values, first=True)
        if "header_size" in values:
            self._report_headers(frame)

    def _deliver(self, frame: Frame) -> None:
        values = frame.values
        sid = values.get("sid")
        if sid is None:
            return
        subscription = self.subscriptions.get(sid)
        if subscription is not None:
            facts = subscription.generated
            frame.generated = facts if frame.generated is NOTHING else {**frame.generated, **facts}
            subscription.delivered += 1
            if subscription.delivered == subscription.most:
                self._end(sid, subscription)
        elif self.whole and self.sides[1 - frame.side].whole and frame.all_seen(1 - frame.side):
            frame.find("note", "protocol", "not-subscribed", f"sid {printable(sid)} was not subscribed here", "sid")
        self._exchange(frame)

    def _forward(self, frame: Frame) -> None:
        """A message between servers."""
        if "size" not in frame.values:
            return
        if self.account:
            frame.generate("account", printable(self.account))
        self._exchange(frame, between=True)

    def _exchange(self, frame: Frame, between: bool = False) -> None:
        values, memory = frame.values, self.memory
        if "size" not in values:
            return
        if values["subject"][:1] == "$":
            add_stored_name(frame, values)
        if "reply" in values:
            published_ns = memory.ask(frame, values, first=False)
            self.published_ns = None if between else published_ns
        requests = memory.requests
        if requests:
            subject = values["subject"]
            if subject in requests or subject[:4] in ("_GR_", "$GR."):
                memory.answer(frame, values, first=False, between=between)
        if "header_size" in values:
            self._report_headers(frame)

    def _report_headers(self, frame: Frame) -> None:
        """Report findings about headers."""
        values = frame.values
        status = values.get("status", 0)
        if status == names.NO_RESPONDERS and "description" not in values:
            frame.refuse("503: the subject has no subscribers", "status", "no-responders")
        elif status >= names.FIRST_ERROR:
            text = f"status {status} {printable(values.get('description', ''))}".rstrip()
            frame.refuse(text, "status", "status")
        if "header_block" in values:
            message = "the header block has another form than NATS/1.0 and lines of name: value"
            frame.find("warning", "malformed", "header-block", message, "header_block")

    def _deliver_or_forward(self, frame: Frame) -> None:
        """HMSG to clients has a sid, between servers it has none."""
        if "sid" in frame.values:
            self._deliver(frame)
        else:
            self._forward(frame)

    def _route_sub(self, frame: Frame) -> None:
        if self.account and "account" not in frame.values:
            frame.generate("account", printable(self.account))

    def _unknown(self, frame: Frame) -> None:
        if frame.is_partial:
            return
        frame.status = "malformed"
        message = "no operation of the protocol: the server closes the connection"
        frame.find("error", "malformed", "unknown-operation", message, "line")

    HANDLERS: ClassVar[dict[str | None, "Callable[[NatsConversation, Frame], None]"]] = {
        "INFO": _info,
        "CONNECT": _connect,
        "PING": _ping,
        "PONG": _pong,
        "+OK": _ok,
        "-ERR": _err,
        "SUB": _sub,
        "UNSUB": _unsub,
        "PUB": _publish,
        "HPUB": _publish,
        "MSG": _deliver,
        "HMSG": _deliver_or_forward,
        "RMSG": _forward,
        "LMSG": _forward,
        "RS+": _route_sub,
        "RS-": _route_sub,
        "LS+": _route_sub,
        "LS-": _route_sub,
        None: _unknown,
    }


TRANSPORT_TITLES: dict[type[Layer], str] = {
    transport.S2Chunk: "S2 chunk",
    transport.HttpHead: "HTTP",
    transport.WebSocketFrame: "WebSocket frame",
}


PLAIN = ("PUB", "MSG")
"""Without a reply subject: the note of the first is subject and digest, the second is of no interest elsewhere."""
MESSAGES = frozenset(("PUB", "HPUB", "MSG", "HMSG", "RMSG", "LMSG"))
NOTED = ("operation", "subject", "reply", "sid", "size", "header_size", "status", "description", "error")
"""Values that links depend on."""
API_ANSWER = b'{"type":"io.nats.jetstream.api.'
HEADS = names.PAYLOAD_VERSION, API_ANSWER, TOKEN_HEAD
"""Beginnings of payloads that are looked at."""


def hides(frame: Frame, subject: str | None, values: Mapping[str, Any], memory: NatsMemory) -> bool:
    """Whether a frame may carry a credential: by its subject, a JWT, or a request that may carry one.

    Also a payload that looks like headers after PUB or MSG.
    """
    if subject is None:
        return is_secret_value(values.get("error", ""))
    payload = values.get("data")
    if payload is None:
        payload = payload_of(frame)
    first = subject[:1]
    if first == "$" and names.is_secret_subject(subject):
        return True
    reply = values.get("reply")  # a size here: HPUB without its H
    if reply is not None and reply.isdecimal() and reply.isascii():
        return True
    if payload.startswith(HEADS) or (first == "$" and JETSTREAM_API.match(subject)):
        return payload.startswith(names.PAYLOAD_VERSION) or is_token(payload) or is_secret_value(text(payload))
    request = memory.requests.get(subject) if memory.requests else None
    return request is not None and names.is_secret_subject(request.subject)


def payload_of(frame: Frame) -> bytes:
    """The payload, as far as it was captured."""
    values = frame.values
    if "data" in values:
        data: bytes = values["data"]
        return data
    return frame.data[payload_start(frame) :] if frame.is_partial and "size" in values else b""


def payload_start(frame: Frame) -> int:
    """Offset of the payload in a partial frame."""
    return int(frame.length - 2 - frame.values["size"] + frame.values.get("header_size", 0))
