"""Operations, link kinds and other names of the NATS protocol."""

import re

from wiredecode.protocols.shared.data import data_of

CLIENT, ROUTE, GATEWAY, LEAF = "client", "route", "gateway", "leaf"
LINKS = (CLIENT, ROUTE, GATEWAY, LEAF)
"""Kinds of connections; each has its own grammar."""

NAMES = data_of("nats", "names.toml")
OPERATIONS: tuple[str, ...] = (*NAMES["operations"]["client"], *NAMES["operations"]["link"])
COUNTED = frozenset(NAMES["operations"]["counted"])
"""Operations with a counted body; the count is always the last field of the line."""
CLIENT_SENDS = frozenset({"PUB", "HPUB", "SUB", "UNSUB"})
SERVER_SENDS = frozenset({"MSG", "+OK"})
"""On client links."""
LINK_OPERATIONS = frozenset(NAMES["operations"]["link"])
"""Only between servers."""

NO_RESPONDERS = 503
FIRST_ERROR = 400
"""Lowest status code of a failed request."""

ERRORS = {name: tuple(beginnings) for name, beginnings in NAMES["errors"].items()}
"""Beginnings, in lower case, of -ERR texts by meaning, in the order of the search."""
IN_PROCESS: str = NAMES["harmless"]["repeated"]
HARMLESS_ERRORS: tuple[str, ...] = tuple(NAMES["harmless"]["errors"])
"""Beginnings, in lower case, of -ERR texts after which the server keeps the connection."""

GATEWAY_COMMANDS = {1: "gossip", 2: "all subscriptions start", 3: "all subscriptions complete"}

HARMLESS_SYSTEM = re.compile(rf"\$SYS\.(?:{'|'.join(NAMES['harmless']['system'])})")
"""Subjects of the system account that carry no credentials; others may: claims, requests for log-in, who connected."""
PAYLOAD_VERSION = b"NATS/1.0"


REFUSED_PUBLISH = re.compile('permissions violation for publish to "(.+)"', re.IGNORECASE)
"""Text of -ERR after a publish, to the subject (nats-server, client.go: ``pubPermissionViolation``)."""


def is_secret_subject(subject: str) -> bool:
    """Whether payloads on a subject may carry credentials by their purpose: of ``$SYS`` all but what is known."""
    return subject.startswith("$SYS.") and HARMLESS_SYSTEM.fullmatch(subject) is None


S2_CHUNKS = {0x00: "compressed", 0x01: "uncompressed", 0xFE: "padding", 0xFF: "stream identifier"}
