"""Names of the numbers on the wire. Methods, properties and reply codes are in ``layers.json``."""

from pathlib import Path
from typing import Any

import orjson

TABLE: Any = orjson.loads(Path(__file__).with_name("layers.json").read_bytes())

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAMES = {METHOD: "method", HEADER: "header", BODY: "body", HEARTBEAT: "heartbeat"}
END_MARK = 0xCE
GREETING = b"AMQP\0\0\x09\x01"
"""Protocol header of version 0-9-1."""
FOR_ONE = ("amq.gen-", "amq.rabbitmq.reply-to")
"""Beginnings of the names of queues that the server makes for one client."""
STREAM_OFFSET = "x-stream-offset"
"""Header of messages that come from a stream, and argument of those who consume it."""
CONNECTION, BASIC = 10, 60

REPLIES = {int(code): name for code, name in TABLE["codes"].items() if int(code) < 1000}
METHODS = {(number << 16) | method: name for number, method, name, *_ in TABLE["methods"]}
"""Names by class and method, in one number."""
CODES = {name: code for code, name in METHODS.items()}
SYNCHRONOUS = frozenset(name for _, _, name, asks, *_ in TABLE["methods"] if asks)
NO_WAITING = frozenset(row[2] for row in TABLE["methods"] if any(name == "no_wait" for name, _ in row[5]))
"""Methods with a bit that says that no answer is wanted."""
CONTENT = frozenset(name for _, _, name, _, carries, _ in TABLE["methods"] if carries)
CLIENT_ANSWERS = frozenset({"ConnectionStartOk", "ConnectionSecureOk", "ConnectionTuneOk"})
SERVER_ASKS = frozenset({"ConnectionStart", "ConnectionSecure", "ConnectionTune", "ConnectionBlocked"})
SERVER_SAYS = frozenset({"ConnectionUnblocked", "BasicDeliver", "BasicReturn", "BasicGetEmpty"})
BOTH = frozenset({"ConnectionClose", "ConnectionCloseOk", "ChannelClose", "ChannelCloseOk", "ChannelFlow"})
BOTH |= {"ChannelFlowOk", "BasicAck", "BasicNack", "BasicCancel", "BasicCancelOk"}


def by_client(name: str) -> bool | None:
    """Whether only clients send a method; None: both sides do."""
    if name in BOTH:
        return None
    if name in CLIENT_ANSWERS:
        return True
    return not (name in SERVER_ASKS or name in SERVER_SAYS or name.endswith("Ok"))


def asked_by(name: str) -> str | None:
    """The method that this one answers."""
    if name == "BasicGetEmpty":
        return "BasicGet"
    asks = name.removesuffix("Ok")
    return asks if asks != name and asks in SYNCHRONOUS else None


def outcome(code: int) -> str:
    return f"{code} {REPLIES[code]}" if code in REPLIES else str(code)
