"""The replies that mean no. A stack trace of the server came with wire version 6, and only if the server sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wiredecode.fields import Int32, Int64, Optional, When
from wiredecode.protocols.pravega.layers_base import WireMessage, control, header, late, segment, stack_trace, writer
from wiredecode.protocols.pravega.layers_kinds import JavaText, RequestId
from wiredecode.protocols.pravega.names import AUTH_ERRORS, ERRORS


class WrongHost(WireMessage):
    fields_desc = control(50, segment(), JavaText("correct_host", "who serves the segment"), stack_trace())
    facts = ("segment", "correct_host")


class SegmentIsSealed(WireMessage):
    """``offset`` is an event number when this answers an append."""

    fields_desc = control(51, segment(), stack_trace(), late("offset", "offset or event number; wire version 8"))
    facts = ("segment", "offset")


class SegmentAlreadyExists(WireMessage):
    fields_desc = control(52, segment(), stack_trace())
    facts = ("segment",)


class NoSuchSegment(WireMessage):
    fields_desc = control(53, segment(), stack_trace(), late("offset", "offset asked for; wire version 8"))
    facts = ("segment", "offset")


class InvalidEventNumber(WireMessage):
    """Since wire version 16 with the event number last; before it stood where the request id is now."""

    fields_desc = [
        *header(55),
        writer(),
        RequestId("request_id", "ties a reply to its request"),
        stack_trace(),
        late("event_number", "number that was refused; wire version 16"),
    ]
    facts = ("event_number",)

    @classmethod
    def sound(cls, values: Mapping[str, Any]) -> bool:
        return "event_number" in values


class SegmentIsTruncated(WireMessage):
    fields_desc = control(
        56,
        segment(),
        Int64("start_offset", "first offset that can be read", unit="bytes"),
        stack_trace(),
        late("offset", "offset asked for; wire version 8", unit="bytes"),
    )
    facts = ("segment", "start_offset", "offset")


class OperationUnsupported(WireMessage):
    fields_desc = control(57, JavaText("operation_name", "what is not supported"), stack_trace())
    facts = ("operation_name",)


class AuthTokenCheckFailed(WireMessage):
    """The answer to a refused read carries the read's offset for its request id."""

    fields_desc = control(
        60,
        stack_trace(),
        Optional(Int32("error_code", "why; wire version 9", names=AUTH_ERRORS, default=-1), When("left >= 4")),
    )
    facts = ("error_code",)


class ErrorMessage(WireMessage):
    fields_desc = control(
        61, segment(), JavaText("message", "what went wrong"), Int32("error_code", "kind", names=ERRORS, default=-1)
    )
    facts = ("segment", "message", "error_code")
