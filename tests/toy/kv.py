"""KV, a toy: `size uint16 | type uint8 | id uint16 | ...`, requests from the client, one answer to each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from wiredecode.fields import Binary, LengthOf, Text, UInt8, UInt16
from wiredecode.frames.frame import Frame
from wiredecode.layer import Layer, Style
from wiredecode.protocols.base import (
    Conversation,
    Found,
    LengthPrefix,
    Number,
    Protocol,
    Rejected,
    Start,
    Undecided,
    Verdict,
)
from wiredecode.protocols.reading import FrameDecoder
from wiredecode.protocols.shared.codes import ACTION, Code
from wiredecode.protocols.shared.pairing import Outstanding, Request, link
from wiredecode.protocols.shared.problems import Checks, Rule

HEADER = 5
MAX_SIZE = 4096
TYPES = {1: "Get", 2: "Value", 3: "Error"}
CODES = {1: "no such key", 2: "not allowed"}


def message(kind: int, *fields: Any) -> list[Any]:
    """The header of all messages, and the fields after it."""
    return [
        UInt16("size", "bytes that follow", unit="bytes", fill=LengthOf()),
        UInt8("kind", "message type", names=TYPES, default=kind),
        UInt16("request_id", "ties an answer to its request"),
        *fields,
    ]


class Message(Layer):
    filter_name = "kv"


class Get(Message):
    fields_desc = message(1, Text("key", "key asked for"))
    facts = ("key",)


class Value(Message):
    fields_desc = message(2, Binary("value", "value of the key", length=UInt16))


class Error(Message):
    fields_desc = message(3, UInt8("code", "why there is no value", names=CODES, default=1))
    facts = ("code",)


DECODERS = {1: FrameDecoder(Get, "Get"), 2: FrameDecoder(Value, "Value"), 3: FrameDecoder(Error, "Error")}


class KVConversation(Conversation):
    def __init__(self, start: Start) -> None:
        super().__init__(start)
        self.waiting: Outstanding[int, Request] = Outstanding()

    def decode(self, frame: Frame, style: Style | None) -> None:
        frame.protocol, frame.code = "kv", frame.buffer[frame.start + 2]
        frame.sender = self.sender(frame)
        DECODERS[frame.code].read(frame, style)
        number = frame.values.get("request_id")
        if number is None:
            return
        if frame.type == "Get":
            self.waiting.add(frame, number, Request(frame.id, frame.time_ns))
        elif request := self.waiting.pop(number):
            link(frame, request)


DENIED = Code(
    *("kv.denied", "warning", "a client may not read a key", "The server refused a Get."),
    *(("the permissions of the client lack the key",), "Add the key to its permissions.", "", ACTION),
)


class Denied(Rule):
    types = frozenset({"Error"})

    def frame(self, frame: Frame) -> None:
        if frame.values.get("code") == 2:
            self.report.add(DENIED, "a key was refused", frame.connection.number, frame=frame)


class KV(Protocol):
    name, title, ports = "kv", "KV, a toy", (7070,)
    requests: ClassVar = {"kv": frozenset({"Get"})}
    header_bytes = HEADER
    framing = LengthPrefix(
        Number(0, 2, HEADER - 2, MAX_SIZE, "no message of {value} bytes"),
        after=2,
        header=HEADER,
        held=(Number(2, 1, 1, 3, "no message of type {value}"),),
    )

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        if len(data) < HEADER:
            return Rejected() if final else Undecided()
        split = self.split(data)
        if not port or split.bad or not split.ends:
            return Rejected() if split.bad or final or not port else Undecided()
        return Verdict(0, client=data[2] == 1)

    def search(self, data: bytes, *, final: bool) -> Found:
        """The first place at which two messages follow each other."""
        for position in range(len(data) - HEADER + 1):
            split = self.split(data[position:])
            if len(split.ends) >= 2 or (split.bad is None and not final):
                return Found(position, len(split.ends) >= 2)
        return Found(max(0, len(data) - HEADER + 1), False)

    def conversation(self, start: Start) -> KVConversation:
        return KVConversation(start)

    def checks(self) -> Checks:
        return Checks(codes=(DENIED,), rules=(Denied,))

    def layers(self) -> Iterable[type[Layer]]:
        return [decoder.layer for decoder in DECODERS.values()]
