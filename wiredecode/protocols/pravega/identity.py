"""Identities of Pravega clients: their writers, several of which may share a connection."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader

MAX_WRITERS = 3
"""Writers of a connection that are named."""


def writer(frame: Frame) -> Mapping[str, Any]:
    raw = frame.values.get("writer_id")
    if not isinstance(raw, bytes) or len(raw) != 16:
        return {}
    name, label = str(UUID(bytes=bytes(raw))), frame.connection.identity.get("name", "")
    writers = label.removeprefix("writer ").split(", ") if label else []
    if name in writers or len(writers) > MAX_WRITERS:
        return {}
    return {"name": f"writer {', '.join([*writers, name if len(writers) < MAX_WRITERS else '...'])}"}


IDENTITIES: Mapping[str | None, IdentityReader] = {"SetupAppend": writer, "ConditionalAppend": writer}
