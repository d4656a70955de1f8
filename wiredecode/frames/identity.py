"""Identities of a connection, from its protocol: names, user, product, and the reason of its end.

A protocol declares identities by message type (``Protocol.identities``); the dissector keeps them with the
connection, so a frame or a connection gives its names too.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from wiredecode.fields import printable, redact
from wiredecode.fields.credentials import without_secrets
from wiredecode.frames.frame import DAMAGED, Frame
from wiredecode.net.types import Connection

IdentityReader = Callable[["Frame"], Mapping[str, Any]]
"""Facts in a frame, by name, of :data:`FACTS`; texts are printable. Values that are None or empty do not count."""

FACTS = (
    *("name", "user", "virtual_host", "product", "version", "role", "group"),
    *("broker", "server_name", "closed_by", "reason"),
)
"""Columns of connections, whose meanings ``tables/columns.toml`` has."""
MAX_CHARACTERS = 256
"""Most characters of a value."""
REMEMBERED_TEXTS = 256
"""Values of which the shown text is kept: equal clients say the same."""
HANDSHAKE, REFUSED, NO_ANSWER, BEFORE = "handshake", "refused", "no answer", "before the capture"
"""Beginnings of connections."""
LABELS = {"user": "user", "virtual_host": "virtual host", "group": "in group", "server_name": "asks for"}


def remember(connection: Connection, facts: Mapping[str, Any]) -> None:
    """Add facts about a connection; the last value counts."""
    for key, value in facts.items():
        if value not in (None, ""):
            text = str(value)
            connection.identity[key] = _remembered(text) if len(text) <= MAX_CHARACTERS else _shown(text)


def _shown(text: str) -> str:
    text = without_secrets(text, lambda raw: redact(raw.encode()))
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"


_remembered = lru_cache(REMEMBERED_TEXTS)(_shown)


def learn(frame: Frame, read_identity: IdentityReader) -> None:
    """Learn the facts of a frame; nothing if it is truncated, or has other values than it should have."""
    try:
        remember(frame.connection, read_identity(frame))
    except DAMAGED:
        return


def texts(fields: Mapping[str, str], frame: Frame) -> Mapping[str, Any]:
    """Facts that are texts in fields: ``partial(texts, {"name": "client_id"})`` reads an identity."""
    facts = {fact: frame.values.get(name) for fact, name in fields.items()}
    return {fact: printable(value) for fact, value in facts.items() if isinstance(value, str)}


def broker(exchange: Any) -> str | None:
    """The server's address, of a frame or an exchange; None: it is unknown which end is the server."""
    if exchange.sender is None:
        return None
    endpoint: str = exchange.connection.endpoints[1 - exchange.side if exchange.sender == "client" else exchange.side]
    return endpoint


def label(connection: Connection) -> str:
    """The shortest text that identifies it: ``billing``, or the user, or the host; empty: nothing is known."""
    who = connection.identity
    return who.get("name") or who.get("user") or who.get("server_name") or ""


def short(connection: Connection) -> str:
    """Name and number of a connection: ``"billing (#4)"``."""
    name = label(connection)
    return f"{name} (#{connection.number})" if name else f"connection #{connection.number}"


def names(connection: Connection) -> str:
    """All names: ``"billing, user guest, virtual host /, rstream 1.1.1"``; empty: nothing is known."""
    who = connection.identity
    parts = [who.get("name", "")]
    parts += [f"{text} {who[key]}" for key, text in LABELS.items() if key in who]
    parts.append(" ".join(filter(None, (who.get("product"), who.get("version")))))
    return ", ".join(filter(None, parts))


def describe(connection: Connection) -> str:
    """``"127.0.0.1:4711 → 127.0.0.1:5552, billing, user guest, virtual host /, rstream 1.1.1"``."""
    client = client_side(connection)
    ends = f"{connection.named_endpoints[client]} → {connection.named_endpoints[1 - client]}"
    return ", ".join(filter(None, (ends, names(connection))))


def client_side(connection: Connection) -> int:
    """Return the client's endpoint: it opened the connection, or its protocol says so, or it has the higher port."""
    if connection.initiator is not None:
        return connection.initiator
    if connection.client is not None:
        return connection.client
    return 0 if connection.ports[0] >= connection.ports[1] else 1


def server_endpoint(connection: Connection) -> str:
    """Return the server's address and port."""
    return connection.endpoints[1 - client_side(connection)]


def began(connection: Connection) -> str:
    """Describe its beginning; without TCP analysis failed attempts are not distinguished."""
    health = connection.health
    if health is not None and health.refused:
        return REFUSED
    if health is not None and health.unanswered:
        return NO_ANSWER
    return BEFORE if connection.initiator is None else HANDSHAKE


def ended_by(connection: Connection, client: int | None = None) -> tuple[str, str] | None:
    """Return the side (``client``, ``server``) and flag (``FIN``, ``RST``) that ended it, by TCP analysis, or None."""
    end = connection.first_end
    if end is None:
        return None
    side = client_side(connection) if client is None else client
    return "client" if end.side == side else "server", end.how


def end_text(connection: Connection, client: int | None = None) -> str:
    """``"server RST: Slow Consumer"``, ``"server FIN, client said: OK"``, ``"refused"``, ``"open"``."""
    start = began(connection)
    if start in (REFUSED, NO_ANSWER):
        return start
    end, who = ended_by(connection, client), connection.identity
    if end is None:
        return connection.closed or "open"
    reason = who.get("reason", "")
    other = f", {who['closed_by']} said" if reason and who.get("closed_by") not in (None, end[0]) else ""
    return " ".join(end) + (f"{other}: {reason}" if reason else "")
