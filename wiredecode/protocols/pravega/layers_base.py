"""What all messages of Pravega share: the header, and the fields that stand in many of them."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from wiredecode.fields import Binary, Int32, Int64, Kind, LengthOf, Optional, UInt32, Uuid, When
from wiredecode.fields.layer import Added, Layer
from wiredecode.protocols.pravega import NAME
from wiredecode.protocols.pravega.layers_kinds import JavaText, RequestId
from wiredecode.protocols.pravega.names import TYPES

HEADER = struct.Struct(">iI")
"""Type and length of a message; an event in a segment has the same header, with type 0."""
EVENT_TYPE = 0
NULL = 0xFFFFFFFF


class WireMessage(Layer):
    """Base of all messages: fills in ``message_length`` when building.

    ::

        message_type int32 | message_length uint32 | message_length bytes
    """

    filter_name = NAME
    added = Added.IN_ELEMENTS
    facts: ClassVar[tuple[str, ...]] = ()
    """The fields that a one-line summary shows."""
    type_name: ClassVar[str]
    """Name of the message, the same for the layouts it had over time."""

    def __init_subclass__(cls, **kw: Any) -> None:
        super().__init_subclass__(**kw)
        if "type_name" not in cls.__dict__:
            cls.type_name = cls.__name__

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        """Whether values that fit this layout can be meant by it: older layouts may fit by chance."""
        return True


def header(code: int, names: Mapping[int, str] = TYPES) -> list[Any]:
    return [
        Int32("message_type", "what the message is", names=names, default=code),
        UInt32("message_length", "bytes that follow the header", unit="bytes", fill=LengthOf()),
    ]


def control(code: int, *fields: Kind) -> list[Any]:
    """A message that begins with its request id."""
    return [*header(code), request_id(), *fields]


def request_id() -> Kind:
    return RequestId("request_id", "ties a reply to its request")


def late_request_id() -> Kind:
    """At the end of the messages that had none before wire version 8."""
    return Optional(RequestId("request_id", "ties a reply to its request", default=-1), When("left >= 8"))


def segment(name: str = "segment", doc: str = "name of the segment") -> Kind:
    return JavaText(name, doc)


def writer() -> Kind:
    return Uuid("writer_id", "writer, chosen by the client")


def token() -> Kind:
    """The delegation token, normally a JWT."""
    return JavaText("delegation_token", "proves that the client may do this", secret=True)


def late_token() -> Kind:
    """The token at the end of requests that had none before wire version 5."""
    return Optional(token(), When("left"))


def stack_trace() -> Kind:
    return Optional(JavaText("server_stack_trace", "where in the server it failed; wire version 6"), When("left"))


def late(name: str, doc: str, default: int = -1, unit: str = "") -> Kind:
    """An int64 that newer versions added at the end."""
    return Optional(Int64(name, doc, default=default, unit=unit), When("left >= 8"))


def blob(name: str, doc: str) -> Kind:
    return Binary(name, doc, length=UInt32)


def nullable(name: str, doc: str) -> Kind:
    """Bytes whose length may also be -1; Pravega reads that as empty."""
    return Binary(name, doc, length=UInt32, null=NULL)
