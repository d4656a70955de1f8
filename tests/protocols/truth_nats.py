"""Compare a NATS capture with the accounts of its clients.

The truth has, for each client connection, the calls made and the deliveries seen, or for hand-driven sockets the bytes
sent and received. Calls must be found in their order; deliveries in the order of each subscription, since callbacks of
several run side by side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support import dissect
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.protocol import Nats
from wiredecode.protocols.nats.transport_streams import INSIDE

PUBLISHED = {"PUB": ("PUB",), "HPUB": ("HPUB",), "request": ("PUB", "HPUB"), "js publish": ("PUB", "HPUB")}
DELIVERED = {
    "MSG": ("MSG", "HMSG"),
    "HMSG": ("HMSG",),
    "response": ("MSG", "HMSG"),
    "js fetched": ("MSG", "HMSG"),
    "push delivered": ("MSG", "HMSG"),
}
SENT, RECEIVED = ("send", "send in pieces", "send then FIN"), ("received",)
COMPARED = ("subject", "reply", "queue")


def check(path: Path, truth: dict[str, Any]) -> list[str]:
    """Return the disagreements between a capture and its truth; empty if the capture holds all of the truth."""
    run = dissect(open_capture([path]), known=(Nats(),))
    wrong = [] if run.totals.closes else ["the accounts do not close"]
    wrong += secrets(run.frames, truth.get("secrets_in_capture", ()))
    by_connection: dict[int, list[Frame]] = {}
    for frame in run.frames:
        if frame.protocol != "tls":
            by_connection.setdefault(frame.connection.number, []).append(frame)
    encrypted = any(frame.protocol == "tls" for frame in run.frames)
    for claim in truth.get("connections", ()):
        candidates = [frames for frames in by_connection.values() if is_of(claim.get("local"), frames[0])]
        found = [connection(claim["ops"], frames) for frames in candidates or by_connection.values()]
        best = min(found, key=len, default=["no such connection"])
        if not encrypted:
            wrong += [f"{claim['id']}: {said}" for said in best]
    return wrong


def is_inside(frame: Frame) -> bool:
    """Whether the frame was inside an S2 chunk or a WebSocket frame: its offset counts plain bytes."""
    return INSIDE in frame.generated


def not_passed_on(truth: dict[str, Any], links: list[Frame]) -> list[str]:
    """Messages from one client to another that no frame between servers carries."""
    wrong = []
    for claim in truth["connections"]:
        others = [op for other in truth["connections"] if other is not claim for op in other["ops"]]
        sent = [op for op in others if op["op"] in PUBLISHED and "subject" in op]
        for op in claim["ops"]:
            if op["op"] in DELIVERED and any(message(op) == message(published) for published in sent):
                meant = {name: op[name] for name in ("subject", "payload", "headers") if name in op}
                wrong += [] if any(agrees(meant, frame) for frame in links) else [f"not passed on: {meant}"]
    return wrong


def message(op: dict[str, Any]) -> tuple[Any, ...]:
    return op.get("subject"), op.get("payload"), op.get("headers")


def is_of(local: str | None, frame: Frame) -> bool:
    """Whether the connection is the client's, by the address in its account; rewritten captures have others."""
    ends = [end.replace("[", "").replace("]", "") for end in frame.connection.endpoints]
    return local is not None and local.replace("[", "").replace("]", "") in ends


def connection(ops: list[dict[str, Any]], frames: list[Frame]) -> list[str]:
    sent = [frame for frame in frames if frame.sender == "client"]
    received = [frame for frame in frames if frame.sender == "server"]
    wrong = subscriptions(ops, [frame for frame in sent if frame.type == "SUB"])
    calls = [op for op in ops if op["op"] in PUBLISHED and "subject" in op]
    wrong += in_order("call", calls, PUBLISHED, sent)
    seen = [op for op in ops if op["op"] in DELIVERED and "subject" in op]
    for key in {(op.get("sid"), op["subject"] if "sid" not in op else "") for op in seen}:
        mine = [op for op in seen if (op.get("sid"), op["subject"] if "sid" not in op else "") == key]
        wrong += in_order("delivery", mine, DELIVERED, received)
    wrong += stream([op["bytes"] for op in ops if op["op"] in SENT], sent)
    wrong += stream([op["bytes"] for op in ops if op["op"] in RECEIVED], received)
    return wrong


def subscriptions(ops: list[dict[str, Any]], frames: list[Frame]) -> list[str]:
    by_sid = {frame.values["sid"]: frame.values for frame in frames}
    wrong = []
    for op in ops:
        if op["op"] == "SUB":
            values = by_sid.get(str(op["sid"]))
            if values is None or values["subject"] != op["subject"] or values.get("queue") != op.get("queue"):
                wrong.append(f"SUB {op['subject']} {op['sid']} was decoded as {values}")
    return wrong


def in_order(
    what: str, ops: list[dict[str, Any]], kinds: dict[str, tuple[str, ...]], frames: Iterable[Frame]
) -> list[str]:
    """Each operation is found after the one before it."""
    left = iter(frames)
    for op in ops:
        if not any(frame.values.get("operation") in kinds[op["op"]] and agrees(op, frame) for frame in left):
            return [f"{what} not found in its place: {op}"]
    return []


def agrees(op: dict[str, Any], frame: Frame) -> bool:
    values = frame.values
    if any(name in op and op[name] is not None and op[name] != values.get(name) for name in COMPARED):
        return False
    if "sid" in op and str(op["sid"]) != values.get("sid"):
        return False
    if "payload" in op and not same_bytes(op["payload"], values.get("data", b"")):
        return False
    if not op.get("headers"):
        return True
    found: dict[str, list[str]] = {}
    if "status" in values:  # one client shows these as headers
        found = {"Status": [str(values["status"])], "Description": [values.get("description", "")]}
    for header in values.get("headers", ()):
        found.setdefault(header["key"], []).append(header["value"].strip())
    # Some clients report one value per header name.
    return all(
        value == found.get(name) or str(value).strip() in found.get(name, ()) for name, value in op["headers"].items()
    )


def same_bytes(claim: dict[str, Any], data: bytes) -> bool:
    if claim["len"] != len(data):
        return False
    if "hex" in claim:
        return bool(bytes.fromhex(claim["hex"]) == data)
    return bool(hashlib.sha256(data).hexdigest() == claim["sha256"])


def stream(claim: list[dict[str, Any]], frames: list[Frame]) -> list[str]:
    """The bytes of a hand-driven socket, as far as it read them, are those of the frames in order."""
    outer = [frame for frame in frames if not is_inside(frame)]
    data = b"".join(frame.data for frame in sorted(outer, key=lambda frame: frame.offset))
    position = 0
    for part in claim:
        piece = data[position : position + part["len"]]
        if not same_bytes(part, piece):
            return [f"bytes {position} to {position + part['len']} of a socket differ"]
        position += part["len"]
    return []


def secrets(frames: list[Frame], words: Iterable[str]) -> list[str]:
    """No secret is in a record."""
    import orjson

    text = b"".join(orjson.dumps([frame.layers, [f.record() for f in frame.findings]]) for frame in frames)
    shown = [word for word in words if word.encode() in text or word.encode().hex().encode() in text]
    return [f"a secret is shown: {word}" for word in shown]
