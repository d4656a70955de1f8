"""Identities of RabbitMQ clients and brokers, from their own messages."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader, texts
from wiredecode.protocols.reading import values_of


def client(frame: Frame) -> Mapping[str, Any]:
    given = properties(frame)
    return {"name": given.get("connection_name"), "product": given.get("product"), "version": given.get("version")}


def broker(frame: Frame) -> Mapping[str, Any]:
    given = properties(frame)
    return {"broker": " ".join(filter(None, (given.get("product"), given.get("version"))))}


def properties(frame: Frame) -> dict[str, str]:
    entries = (entry for entry in values_of(frame).get("properties", ()) if len(entry) == 2)
    return {entry["key"]: printable(entry["value"]) for entry in entries if isinstance(entry["value"], str)}


def user(frame: Frame) -> Mapping[str, Any]:
    return {"user": frame.generated.get("user")}


def close(frame: Frame) -> Mapping[str, Any]:
    return {"closed_by": frame.sender, "reason": printable(frame.values.get("closing_reason") or "")}


IDENTITIES: Mapping[str | None, IdentityReader] = {
    "PeerProperties": client,
    "PeerPropertiesResponse": broker,
    "SaslAuthenticate": user,
    "Open": partial(texts, {"virtual_host": "virtual_host"}),
    "Close": close,
}
