"""Identities of NATS clients and servers, from their own messages."""

import re
from collections.abc import Mapping
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader
from wiredecode.protocols.shared import tls

PUBLIC_KEY = re.compile("U[A-Z2-7]{55}")


def connect(frame: Frame) -> Mapping[str, Any]:
    """A client's facts about itself, no secrets; of clients of a carried protocol also the meaning of their name."""
    options = frame.values.get("options") or {}
    key = options.get("nkey")  # what has another form may be anything
    user = options.get("user") or (key if isinstance(key, str) and PUBLIC_KEY.fullmatch(key) else None)
    facts = {"name": options.get("name"), "user": user}
    facts |= {"product": options.get("lang"), "version": options.get("version")}
    role = ", ".join(f"{key} {frame.generated[key]}" for key in ("server", "purpose") if key in frame.generated)
    return {**{key: printable(value) for key, value in facts.items() if isinstance(value, str)}, "role": role}


def info(frame: Frame) -> Mapping[str, Any]:
    """A server's facts about itself."""
    options = frame.values.get("options") or {}
    texts = [text for name in ("server_name", "version") if isinstance(text := options.get(name), str) and text]
    return {"broker": printable(" ".join(["nats-server", *texts]))}


def error(frame: Frame) -> Mapping[str, Any]:
    """Nearly every error ends the connection; the last one is the reason."""
    return {"closed_by": frame.sender or "server", "reason": printable(frame.values.get("error") or "")}


IDENTITIES: Mapping[str | None, IdentityReader] = {"CONNECT": connect, "INFO": info, "-ERR": error, **tls.IDENTITIES}
