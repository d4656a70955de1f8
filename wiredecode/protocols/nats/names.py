"""Operations, link kinds and other names of the NATS protocol."""

from __future__ import annotations

CLIENT, ROUTE, GATEWAY, LEAF = "client", "route", "gateway", "leaf"
LINKS = (CLIENT, ROUTE, GATEWAY, LEAF)
"""Kinds of connections; each has its own grammar."""

OPERATIONS = (
    *("INFO", "CONNECT", "PUB", "HPUB", "SUB", "UNSUB", "MSG", "HMSG", "PING", "PONG", "+OK", "-ERR"),
    *("RS+", "RS-", "LS+", "LS-", "A+", "A-", "RMSG", "LMSG"),
)
COUNTED = frozenset({"PUB", "HPUB", "MSG", "HMSG", "RMSG", "LMSG"})
"""Operations with a counted body; the count is always the last field of the line."""
CLIENT_SENDS = frozenset({"PUB", "HPUB", "SUB", "UNSUB"})
SERVER_SENDS = frozenset({"MSG", "+OK"})
"""On client links."""
LINK_OPERATIONS = frozenset({"RS+", "RS-", "LS+", "LS-", "A+", "A-", "RMSG", "LMSG"})
"""Only between servers."""

NO_RESPONDERS = 503
FIRST_ERROR = 400
"""Status codes from here on tell that a request failed."""

HARMLESS_ERRORS = (
    "Invalid Subject",
    "Invalid Publish Subject",
    "Permissions Violation",
    "maximum subscriptions exceeded",
)
"""-ERR texts after which the server keeps the connection; in any case, as prefixes."""

GATEWAY_COMMANDS = {1: "gossip", 2: "all subscriptions start", 3: "all subscriptions complete"}

SECRET_SUBJECTS = ("$SYS.REQ.USER.AUTH", "$SYS.REQ.CLAIMS.")
"""Subjects whose payloads carry credentials."""

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key"})
"""Header names, in lower case, whose values are taken for secrets; also those that end in ``-token``."""


def is_secret_header(key: str) -> bool:
    """Whether the value of a header carries credentials."""
    key = key.lower()
    return key in SECRET_HEADERS or key.endswith("-token")


def is_secret_subject(subject: str) -> bool:
    """Whether payloads on a subject carry JWTs or credentials by their purpose."""
    return subject.startswith(SECRET_SUBJECTS) or (subject.startswith("$SYS.ACCOUNT.") and ".CLAIMS." in subject)


S2_CHUNKS = {0x00: "compressed", 0x01: "uncompressed", 0xFE: "padding", 0xFF: "stream identifier"}
TLS_RECORDS = {
    20: "ChangeCipherSpec",
    21: "Alert",
    22: "Handshake",
    23: "ApplicationData",
}
