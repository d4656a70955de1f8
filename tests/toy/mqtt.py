"""A subset of MQTT 3.1.1: bit fields, a varint length, conditions, messages, acknowledgements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wiredecode.fields import Bits, LengthOf, Optional, Rest, Text, UInt8, UInt16, Varint, When
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Messages
from wiredecode.layer import Layer, Style
from wiredecode.protocols.base import Conversation, Found, Protocol, Rejected, Split, Start, Undecided, Verdict
from wiredecode.protocols.reading import FrameDecoder

TYPES = {1: "Connect", 2: "ConnAck", 3: "Publish", 4: "PubAck", 12: "PingReq", 13: "PingResp"}
RESULTS = {0: "accepted", 1: "wrong protocol version", 5: "not authorized"}
LENGTH_BYTES, MAX_OUTSTANDING = 4, 65_536


def message(kind: int, *fields: Any) -> list[Any]:
    """The fixed header, and the fields after it."""
    return [
        Bits("kind", 4, "message type", names=TYPES, default=kind),
        Bits("dup", 1, "sent again"),
        Bits("qos", 2, "0: at most once, 1: at least once, 2: exactly once"),
        Bits("retain", 1, "kept for later subscribers"),
        Varint("remaining", "bytes that follow", max_bytes=LENGTH_BYTES, unit="bytes", fill=LengthOf()),
        *fields,
    ]


class Message(Layer):
    filter_name = "mqtt"


class Connect(Message):
    fields_desc = message(
        1,
        Text("protocol_name", "always MQTT", default="MQTT"),
        UInt8("level", "version", default=4),
        *(Bits("has_user", 1), Bits("has_password", 1), Bits("will_retain", 1), Bits("will_qos", 2)),
        *(Bits("has_will", 1), Bits("clean", 1, default=1), Bits("reserved", 1)),
        UInt16("keep_alive", "longest silence", unit="s"),
        Text("client_id", "name of the client"),
        Optional(Text("will_topic", "where to, should the client vanish"), When("has_will")),
        Optional(Text("will_message", "what then"), When("has_will")),
        Optional(Text("user", "user name"), When("has_user")),
        Optional(Text("password", "password", secret=True), When("has_password")),
    )
    facts = ("client_id",)


class ConnAck(Message):
    fields_desc = message(2, UInt8("session_present"), UInt8("result", "outcome", names=RESULTS))
    facts = ("result",)


class Publish(Message):
    fields_desc = message(
        3, Text("topic", "where to"), Optional(UInt16("packet_id"), When("qos > 0")), Rest("data", "the message")
    )
    facts = ("topic", "packet_id")


class PubAck(Message):
    fields_desc = message(4, UInt16("packet_id", "message that has arrived"))
    facts = ("packet_id",)


class PingReq(Message):
    fields_desc = message(12)


class PingResp(Message):
    fields_desc = message(13)


DECODERS = {
    code: FrameDecoder(layer, layer.__name__) for code, layer in zip(TYPES, Message.__subclasses__(), strict=True)
}
ASKS = {"Connect": "ConnAck", "PingReq": "PingResp", "Publish": "PubAck"}
ANSWERS = {answer: ask for ask, answer in ASKS.items()}


class MQTTConversation(Conversation):
    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.asked: dict[tuple[int, str, int], Frame] = {}

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol, frame.code = "mqtt", frame.buffer[frame.start] >> 4
        frame.sender = self.sender(frame)
        DECODERS[frame.code].read(frame, style)
        number = frame.values.get("packet_id", 0)
        if frame.type in ASKS and (frame.type != "Publish" or frame.values.get("qos") == 1):
            frame.expects_response = True
            if len(self.asked) < MAX_OUTSTANDING:
                self.asked[frame.side, frame.type, number] = frame
        elif frame.type in ANSWERS:
            request = self.asked.pop((1 - frame.side, ANSWERS[frame.type], number), None)
            if request is not None:
                frame.request, frame.latency_ns = request.id, frame.time_ns - request.time_ns

    def messages(self, frame: Frame, out: Messages) -> None:
        if frame.type == "Publish" and "data" in frame.values:
            operation = PUBLISH if frame.sender == "client" else DELIVER
            out.add(frame, operation, [frame.values["data"]], topic=frame.values["topic"])


class MQTT(Protocol):
    name, title, ports = "mqtt", "MQTT, a toy", (1883,)
    header_bytes = 2

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        split = self.split(data)
        if not port or split.bad or not split.ends:
            return Rejected() if split.bad or final or not port else Undecided()
        return Verdict(0, client={1: True, 12: True, 2: False, 13: False}.get(data[0] >> 4))

    def split(self, data: bytes) -> Split:
        ends: list[int] = []
        position = 0
        while position + 2 <= len(data):
            if data[position] >> 4 not in TYPES:
                return Split(ends, bad=f"no message of type {data[position] >> 4}")
            size, at = 0, position + 1
            while at < len(data) and at - position <= LENGTH_BYTES:
                size |= (data[at] & 0x7F) << 7 * (at - position - 1)
                at += 1
                if data[at - 1] < 0x80:
                    break
            else:
                return Split(ends, bad="endless length") if at - position > LENGTH_BYTES else Split(ends)
            if at + size > len(data):
                return Split(ends, need=at + size - position)
            position = at + size
            ends.append(position)
        return Split(ends)

    def search(self, data: bytes, *, final: bool) -> Found:
        """The first place at which three messages follow each other."""
        for position in range(len(data) - 1):
            split = self.split(data[position:])
            if len(split.ends) >= 3 or (split.bad is None and not final):
                return Found(position, len(split.ends) >= 3)
        return Found(max(0, len(data) - 1), False)

    def conversation(self, start: Start) -> MQTTConversation:
        return MQTTConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        return [decoder.layer for decoder in DECODERS.values()]
