"""Compare a Liftbridge capture with the accounts of its clients.

The truth has, for each client connection, the calls made and the deliveries seen, in the client's order; payloads as
hex, and of those the client encoded what they say (``liftbridge.decoded``, in the names of the official schemas). Or it
has what a client published and what ack it got (``published``), and who led Raft in which term (``raft``).
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import dissect
from wiredecode.capture import open_capture
from wiredecode.fields import Array, Number, Struct, compiler, plain
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.protocol import Nats

MAGIC = "b90e43b4"
SENT, SEEN = ("PUB", "HPUB", "request"), ("MSG", "HMSG", "response")
HEADER = {"magic", "version", "header_length", "flags", "message_type", "crc", "extension"}


def check(path: Path, truth: dict[str, Any]) -> list[str]:
    """Return the disagreements between a capture and its truth; empty if the capture holds all of the truth."""
    run = dissect(open_capture([path]), known=(Nats(),))
    wrong: list[str] = []
    if "published" in truth:
        wrong += [*published(run.frames, truth["published"]), *led(run.frames, truth["raft"]["leader_by_term"])]
    elif "connections" not in truth:
        wrong.append("the truth says nothing that is compared")
    plain = not any("liftbridge" in op for claim in truth.get("connections", ()) for op in claim["ops"])
    for claim in truth.get("connections", ()):
        frames = [
            frame
            for frame in run.frames
            if frame.protocol == "liftbridge" and claim.get("local") in frame.connection.endpoints
        ]
        for sender, ops in (("client", SENT), ("server", SEEN)):
            name = f"{claim['id']}, {sender}"
            wrong += direction(
                name,
                list(with_meaning(claim["ops"], ops, "" if plain else MAGIC)),
                [f for f in frames if f.sender == sender],
            )
    return wrong


def published(frames: list[Frame], claim: list[dict[str, Any]]) -> Iterator[str]:
    """A client's publishes and acks by correlation id; ids of other clients begin differently."""
    sent, acked = by_correlation(frames, "Publish"), by_correlation(frames, "Ack")
    asked = {one["correlation_id"]: one for one in claim if one.get("correlation_id")}
    starts = tuple({re.sub(r"\d+$", "", each) for each in asked})
    if not asked or not starts:
        yield "the truth has no correlation ids"
    for each in sorted(sent.keys() | acked.keys()):
        if each.startswith(starts) and each not in asked:
            yield f"{each}: the client did not publish it"
    for each, one in asked.items():
        if len(sent[each]) > 1 or (not sent[each] and not one.get("error")):
            yield f"{each}: {len(sent[each])} envelopes"
        for record in sent[each]:
            yield from differences(each, said_of(record), wanted(one))
        ack = one.get("ack") if not one.get("error") else None  # clients do not report refusing acks
        if ack and not acked[each]:
            yield f"{each}: no ack"
        for record in acked[each] if ack else ():
            yield from differences(each, {name: record.get(name) for name in ACK}, {name: ack[name] for name in ACK})


ACK = ("stream", "partition_subject", "msg_subject", "offset", "correlation_id", "ack_inbox", "ack_policy")


def by_correlation(frames: list[Frame], name: str) -> dict[str, list[dict[str, Any]]]:
    """The records of sent envelopes, without those that servers forwarded."""
    found = defaultdict(list)
    for frame in frames:
        if frame.type == name and frame.sender == "client" and "copy_of" not in frame.generated and frame.layers:
            record = {**frame.layers["liftbridge"], "sent_to": frame.layers["nats"]["subject"]}
            found[record.get("correlation_id", "")].append(record)
    return found


def said_of(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": record.get("key") or "",
        "value": hashlib.sha256(bytes.fromhex(record.get("value") or "")).hexdigest(),
        "headers": {header["key"]: header["value"] for header in record.get("headers") or ()},
        "stream": record.get("stream") or None,
        "subject": record["sent_to"],
        "ack_policy": record.get("ack_policy"),
    }


def wanted(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "key": one.get("key_hex") or "",
        "value": one["value_sha256"],
        "headers": one.get("headers_hex") or {},
        "stream": one.get("stream"),
        # Envelopes do not name their partition: the subject does.
        "subject": one["subject"],
        "ack_policy": one["ack_policy"].upper(),
    }


def differences(what: str, found: dict[str, Any], claim: dict[str, Any]) -> Iterator[str]:
    for name, value in claim.items():
        if found[name] != value:
            yield f"{what}: {name} is {found[name]!r}, not {value!r}"


def led(frames: list[Frame], leaders: dict[str, str]) -> Iterator[str]:
    """The terms in which each server sent Raft entries."""
    found = defaultdict(set)
    for frame in frames:
        record = (frame.layers or {}).get("raft", {})
        if frame.type == "AppendEntries" and frame.sender == "client" and "copy_of" not in frame.generated:
            found[str(record["term"])].add(record["leader"])
    if not found:
        yield "no entries of Raft"
    for term, names in found.items():
        if names != {leaders.get(term)}:
            yield f"term {term}: {names} led, not {leaders.get(term)}"


Op = tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]


def with_meaning(ops: list[dict[str, Any]], wanted: tuple[str, ...], unsaid: str) -> Iterator[Op]:
    """The operations that carry an envelope, with the client's claims about it.

    ``unsaid``: how payloads begin of which the truth has only size and digest.
    """
    said = answer = None
    for op in ops:
        if op["op"] == "replication request":
            said = op["liftbridge"]
        elif op["op"] == "answer replication":
            answer = op
        elif op["op"] in wanted and op.get("payload", {"hex": ""}).get("hex", unsaid).startswith(MAGIC):
            replication = op["payload"].get("hex", "")[14:16] == "03"
            yield op, op.get("liftbridge", said if op["op"] == "request" else None), answer if replication else None
            said, answer = None, None if replication else answer


def direction(name: str, ops: list[Op], frames: list[Frame]) -> list[str]:
    if len(ops) != len(frames):
        return [f"{name}: {len(ops)} envelopes by its own account, {len(frames)} in the capture"]
    return [
        f"{name}, frame {frame.number}: {line}"
        for op, frame in zip(ops, frames, strict=True)
        for line in envelope(*op, frame)
    ]


def envelope(
    op: dict[str, Any], said: dict[str, Any] | None, answer: dict[str, Any] | None, frame: Frame
) -> Iterator[str]:
    inner = frame.inner[0]
    payload = op["payload"]
    if len(inner.data) != payload["len"] or not inner.data.hex().startswith(payload.get("hex", "")):
        yield f"another payload than {payload}"
    if inner.start is None or frame.data[inner.start :][: len(inner.data)] != inner.data:
        yield f"the payload does not start at {inner.start}"
    values = compiler.careful(inner.layer, inner.data, 0, len(inner.data)).without_defaults()
    if said is not None:
        if (frame.type, frame.code, len(inner.data)) != (said["name"], said["type"], said["total_len"]):
            yield f"{frame.type} {frame.code}, not {said['name']} {said['type']}"
        if (values["flags"], values["header_length"]) != (said["flags"], said["header_len"]):
            yield f"another header than {said}"
        found, expected = meaning(inner.layer, values), normal(said["decoded"])
        if "messages" in expected:
            pairs = zip(found["messages"], expected["messages"], strict=True)
            found["messages"] = [as_claimed(message, claim) for message, claim in pairs]
        if found != expected:
            yield f"{found}, not {expected}"
    if answer is not None:
        found = values["leader_epoch"], values["high_watermark"], len(values["entries"])
        if found != (answer["epoch"], answer["hw"], answer["messages"]):
            yield f"{found}, not {answer}"


def meaning(layer: type[Layer], values: dict[str, Any]) -> dict[str, Any]:
    """Decoded values as the JSON of the official schemas, in snake case."""
    said: dict[str, Any] = {}
    for kind in map(plain, layer.fields_desc):
        if kind.name not in values or kind.name in HEADER:
            continue
        value = values[kind.name]
        if kind.name == "headers":
            value = {header["key"]: header["value"] for header in value}
        elif isinstance(kind, Struct):
            value = meaning(kind.layer, value)
        elif isinstance(kind, Array) and isinstance(kind.element, Struct):
            value = [meaning(kind.element.layer, element) for element in value]
        elif isinstance(kind, Number) and kind.names and kind.name != "code":
            value = kind.names.get(value, value)
        said["messages" if kind.name == "entries" else kind.name] = value
    return {name: value for name, value in said.items() if name not in ("size", "magic_byte", "attributes")}


def as_claimed(message: dict[str, Any], claim: dict[str, Any]) -> dict[str, Any]:
    """A stored message in the form of the truth: long values as sizes, headers as text."""
    headers = {name: value.decode("latin-1") for name, value in message["headers"].items()}
    said = {**message, "headers": headers if isinstance(claim["headers"], dict) else len(headers)}
    if "value_len" in claim:
        said["value_len"] = len(said.pop("value"))
    return said


def normal(value: Any, name: str = "") -> Any:
    """The truth in the same form, without the defaults that the wire omits."""
    if isinstance(value, dict):
        if name == "headers":
            return {key: normal(inner) for key, inner in value.items()}
        return {snake(key): normal(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner) for inner in value]
    if isinstance(value, str) and value.startswith("hex:"):
        return bytes.fromhex(value[4:])
    return value


def snake(name: str) -> str:
    """``shrinkISROp`` as ``shrink_isr_op``."""
    spelled = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return {"name": "stream_name"}.get(spelled, spelled)
