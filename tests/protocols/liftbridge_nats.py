"""Crafted NATS connections that carry Liftbridge messages."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import NamedTuple

from tests.net.craft import batches
from tests.support import Part, Run, craft, dissect, every
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.protocol import Nats

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"go","name":"LIFT.ns.server-a.raft"}\r\n'
INFO = b'INFO {"server_id":"N","version":"2.12.2","proto":1,"max_payload":8388608,"headers":true} \r\n'


class Said(NamedTuple):
    """A message: published by the client (side 0) or delivered by the server (side 1)."""

    payload: bytes
    subject: str = "foo"
    reply: str = ""
    side: int = 0
    connection: int = 1

    def line(self) -> bytes:
        middle = f"{self.reply} " if self.reply else ""
        sid = "1 " if self.side else ""
        name = "MSG" if self.side else "PUB"
        head = f"{name} {self.subject} {sid}{middle}{len(self.payload)}\r\n"
        return head.encode() + self.payload + b"\r\n"


def run(messages: Iterable[Said], lost: Container[int] = (), size: int = 1460) -> Run:
    """The messages, one after another, each on its connection, through the whole stack.

    ``lost``: the packets, counted from the end, that were not captured; ``size``: of segments.
    """
    messages = list(messages)
    parts = []
    for number in sorted({said.connection for said in messages}):
        parts += [Part(number, 1, INFO), Part(number, 0, CONNECT + b"SUB >  1\r\n")]
    parts += [Part(said.connection, said.side, said.line()) for said in messages]
    packets = craft(parts, every(size), server_port=4222)
    kept = [packet for at, packet in enumerate(packets) if at - len(packets) not in lost]
    return dissect(batches(kept), known=(Nats(),))


def carried(messages: Iterable[Said], lost: Container[int] = (), size: int = 1460) -> list[Frame]:
    """The frames of the messages."""
    return [frame for frame in run(messages, lost, size).frames if "size" in frame.values]


def one(payload: bytes, subject: str = "foo", reply: str = "") -> Frame:
    """The frame of one published message."""
    return carried([Said(payload, subject, reply)])[0]
