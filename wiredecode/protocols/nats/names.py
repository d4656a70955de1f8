"""Operations, link kinds and other names of the NATS protocol."""

from __future__ import annotations

CLIENT, ROUTE, GATEWAY, LEAF = "client", "route", "gateway", "leaf"
LINKS = (CLIENT, ROUTE, GATEWAY, LEAF)
"""Kinds of connections; each has its own grammar."""

OPERATIONS = (
    *("INFO", "CONNECT", "PUB", "HPUB", "SUB", "UNSUB", "MSG", "HMSG", "PING", "PONG", "+OK", "-ERR"),
    *("RS+", "RS-", "LS+", "LS-", "A+", "A-", "RMSG", "LMSG"),
)
BARE = frozenset({"PING", "PONG", "+OK", "-ERR", "INFO", "CONNECT"})
"""Operations that need no blank after their name."""
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

SUBJECT_NAMES = (
    ("$JS.API.", "JetStream API"),
    ("$JS.ACK.", "JetStream acknowledgement"),
    ("$JS.FC.", "JetStream flow control"),
    ("$JS.EVENT.", "JetStream event"),
    ("$JS.SNAPSHOT.", "JetStream snapshot"),
    ("$JSC.", "JetStream cluster"),
    ("$KV.", "key-value store"),
    ("$O.", "object store"),
    ("$SYS.", "system"),
    ("$NRG.", "server Raft group"),
    ("$LDS.", "leaf loop detection"),
    ("$SRV.", "micro service"),
    ("$MQTT.", "MQTT bridge"),
    ("_GR_.", "gateway reply"),
    ("$GR.", "gateway reply"),
    ("_R_.", "service import reply"),
    ("_INBOX.", "inbox"),
    ("_STAN.", "NATS Streaming"),
)
"""Reserved subjects by their prefixes; ``$JS.<domain>.API.`` is the API of a JetStream domain."""

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
WEBSOCKET_OPCODES = {0: "continuation", 1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"}
