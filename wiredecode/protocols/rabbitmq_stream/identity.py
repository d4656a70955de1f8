"""Identities of RabbitMQ clients and brokers, from their own messages."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from wiredecode.fields import compiler, printable
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader, texts

MAX_KNOWN_BYTES = 1024
"""Longest frame whose properties are remembered."""


def client(frame: Frame) -> Mapping[str, Any]:
    given = properties(frame)
    return {"name": given.get("connection_name"), "product": given.get("product"), "version": given.get("version")}


def broker(frame: Frame) -> Mapping[str, Any]:
    given = properties(frame)
    return {"broker": " ".join(filter(None, (given.get("product"), given.get("version"))))}


def properties(frame: Frame) -> Mapping[str, str]:
    read = texts_of if frame.length <= MAX_KNOWN_BYTES else texts_of.__wrapped__
    return read(frame.layer, frame.data)


@lru_cache(maxsize=64)
def texts_of(layer: type[Layer], data: bytes) -> Mapping[str, str]:
    """The texts among the properties of a frame. Many connections have the same."""
    values, _ = compiler.readable(layer, data, 0, len(data))
    entries = (entry for entry in values.get("properties", ()) if len(entry) == 2)
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
