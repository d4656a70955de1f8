"""Identities of AMQP 0-9-1 clients and servers, from their own frames."""

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import IdentityReader, texts
from wiredecode.protocols.shared.amqp.tables import TableForm, read_table


@lru_cache(maxsize=64)
def texts_of(raw: bytes) -> Mapping[str, str]:
    """The strings of a table that are no credentials, by name. Many connections have the same."""
    found = read_table(raw, TableForm(hide=True)).items()
    return {name: value for name, value in found if isinstance(value, str)}


def client(frame: Frame) -> Mapping[str, Any]:
    given = texts_of(frame.values["client_properties"])
    facts = {"name": given.get("connection_name"), "product": given.get("product"), "version": given.get("version")}
    shown = {key: printable(value) for key, value in facts.items() if value}
    return {**shown, "user": frame.generated.get("user")}


def server(frame: Frame) -> Mapping[str, Any]:
    given = texts_of(frame.values["server_properties"])
    return {"broker": printable(" ".join(filter(None, (given.get("product"), given.get("version")))))}


def close(frame: Frame) -> Mapping[str, Any]:
    return {"closed_by": frame.sender, "reason": printable(frame.values.get("reply_text") or "")}


IDENTITIES: Mapping[str | None, IdentityReader] = {
    "ConnectionStart": server,
    "ConnectionStartOk": client,
    "ConnectionOpen": partial(texts, {"virtual_host": "virtual_host"}),
    "ConnectionClose": close,
}
