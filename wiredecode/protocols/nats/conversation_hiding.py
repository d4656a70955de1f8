"""Which frames carry what may be a credential, as their subject, their payload or the server's text tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from wiredecode.fields.credentials import is_secret_value
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats import names
from wiredecode.protocols.nats.conversation_memory import Memory

JWT = re.compile(rb"eyJ[\w-]{6,}\.[\w.-]*")
LOST_BLOCK = re.compile(r"[0-9]+")
"""The reply of a message that was one with headers, without the byte that says so."""


def hides(frame: Frame, subject: str | None, values: Mapping[str, Any], memory: Memory) -> bool:
    """Whether what the frame carries may be a credential; so may the answer to a request that may.

    Its subject tells, a JWT to an inbox, or headers without the H of HPUB.
    """
    if subject is None:
        return is_secret_value(values.get("error", ""))
    payload = values.get("data")
    if payload is None:
        payload = frame.data[payload_start(frame) :] if frame.is_cut and "size" in values else b""
    if subject[:1] in "$_" and (names.is_secret_subject(subject) or JWT.match(payload)):
        return True
    if payload.startswith(names.PAYLOAD_VERSION) or ("reply" in values and LOST_BLOCK.fullmatch(values["reply"])):
        return True
    request = memory.requests.get(subject) if memory.requests else None
    return request is not None and names.is_secret_subject(request.subject)


def payload_start(frame: Frame) -> int:
    """Where the payload of a frame that is cut begins."""
    return int(frame.length - 2 - frame.values["size"] + frame.values.get("header_size", 0))
