"""What all messages of TANK have in common: the header, and fields that many of them have."""

from __future__ import annotations

import struct
from typing import Any, ClassVar

from wiredecode.fields import Array, Kind, LengthOf, Rest, Text, UInt8
from wiredecode.fields.layer import Added, Layer
from wiredecode.protocols.tank.layers_kinds import U16, U32, Endpoint
from wiredecode.protocols.tank.names import MESSAGES

HEADER = struct.Struct("<BI")
"""Message id and payload length."""


class TankFrame(Layer):
    """Base of all messages: fills in ``payload_length`` when building."""

    filter_name = "tank"
    added = Added.IN_ELEMENTS
    facts: ClassVar[tuple[str, ...]] = ()
    """The fields that a one-line summary shows."""


def frame(message_id: int, *fields: Kind) -> list[Any]:
    return [
        UInt8("message_id", "what it is", names=MESSAGES, default=message_id),
        U32("payload_length", "bytes that follow", unit="bytes", fill=LengthOf()),
        *fields,
    ]


def correlated(message_id: int, *fields: Kind) -> list[Any]:
    """A message that begins with the request id."""
    return frame(message_id, request_id(), *fields)


def request_id() -> Kind:
    return U32("request_id", "ties a response to its request")


def topic() -> Kind:
    return Text("topic", "name of the topic", length=UInt8)


def partition() -> Kind:
    return U16("partition", "number of the partition")


def sent_by(version: int, client_id: str) -> list[Any]:
    """How Produce and Consume begin."""
    return [
        U16("client_version", "of the client; from 3 on Consume has options", default=version),
        request_id(),
        Text("client_id", "name of the client program", length=UInt8, default=client_id),
    ]


def topics(element: type[Layer], doc: str) -> Kind:
    return Array("topics", element, doc, count=UInt8)


def endpoint() -> Kind:
    return Endpoint("endpoint", "node to ask instead")


class Unknown(TankFrame):
    """An id that does not exist, or a message that its sender never sends: the length still delimits it."""

    fields_desc = frame(0, Rest("body", "everything after the header"))
    facts = ("message_id",)
