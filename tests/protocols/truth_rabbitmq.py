"""Compare a RabbitMQ Stream capture with the accounts of client and broker.

The truth was written by clients while they ran: rstream (``connections``: every frame it encoded and decoded, in its
order) and the JavaScript client (``commands_written``, ``responses_seen``). ``events`` are actions of the application.
Names are the clients' own; the tables below map them to the protocol reference's.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.support import Run, capture, careful_values
from wiredecode.frames.frame import Frame

NAMES = {
    "ExchangeCommandVersionRequest": "ExchangeCommandVersions",
    "ExchangeCommandVersionResponse": "ExchangeCommandVersionsResponse",
    "SuperStreamPartitions": "Partitions",
    "SuperStreamPartitionsResponse": "PartitionsResponse",
    "SuperStreamRoute": "Route",
    "SuperStreamRouteResponse": "RouteResponse",
    "PublishSubBatching": "Publish",
    "ConsumerUpdateResponse": "ConsumerUpdate",
    "ConsumerUpdateServerResponse": "ConsumerUpdateResponse",
}
"""rstream's frame names that differ: it names ConsumerUpdate after the client's action."""

FIELDS = {
    ("DeclarePublisher", "reference"): "publisher_reference",
    ("QueryPublisherSequence", "publisher_ref"): "publisher_reference",
    ("Close", "code"): "closing_code",
    ("Close", "reason"): "closing_reason",
    ("MetadataResponse", "metadata"): "streams",
    ("ExchangeCommandVersions", "command_versions"): "commands",
    ("ExchangeCommandVersionsResponse", "command_versions"): "commands",
}
INNER_FIELDS = {
    "key_command": "key",
    "name": "stream",
    "leader_ref": "leader_reference",
    "replicas_refs": "replica_references",
}
CHUNK_FIELDS = {"chunk_first_offset": "chunk_id", "chunk_crc": "crc"}
HEADER = ("size", "key", "version")


def check(path: Path, truth: dict[str, Any]) -> list[str]:
    """Return the disagreements between a capture and its truth; empty if the capture holds all of the truth."""
    run = capture(path)
    if "connections" in truth:
        wrong = [line for lines in connections(run, truth) for line in lines]
    else:
        wrong = [*javascript(run, truth)]
    events = truth.get("events", [])
    wrong += [f"event {event['event']}: {line}" for event in events for line in an_event(run, event)]
    wrong += [*errors(run, events)]
    return wrong


# Frames.


def connections(run: Run, truth: dict[str, Any]) -> Iterator[list[str]]:
    """Each connection of the truth with the one of the capture that has its client's address."""
    for claim in truth["connections"]:
        client = f"{claim['local'][0]}:{claim['local'][1]}"
        server = f"{claim['remote'][0]}:{claim['remote'][1]}"
        if claim["remote"][1] == 5551:
            looks = [name for name, port in run.totals.other if port == 5551]
            yield [] if looks == ["TLS"] else [f"{client}: TLS, but it is said to look like {looks}"]
            continue
        for side, source, target in (("c2s", client, server), ("s2c", server, client)):
            frames = [f for f in run.frames if (f.source, f.destination) == (source, target)]
            expected = [frame for frame in claim["frames"] if frame["dir"] == side]
            yield [f"{source} > {target}: {line}" for line in one_direction(frames, expected)]


def one_direction(frames: list[Frame], expected: list[dict[str, Any]]) -> Iterator[str]:
    """All frames that the client knows, in order. Frames outside its encoder are in ``events``."""
    frames = iter_known(frames, expected)
    if len(frames) != len(expected):
        names = Counter(name_of(claim) for claim in expected)
        names.subtract(Counter(str(frame.type) for frame in frames))
        missing = {name: count for name, count in names.items() if count}
        yield f"{len(frames)} frames, not {len(expected)}; more or (negative) fewer in the truth: {missing}"
        return
    for frame, claim in zip(frames, expected, strict=True):
        where = f"frame {frame.number} {frame.type}"
        sender = "client" if claim["dir"] == "c2s" else "server"
        key = claim["key"] | (0x8000 if name_of(claim).endswith("Response") else 0)
        if (frame.type, frame.code, frame.sender, frame.status) != (name_of(claim), key, sender, "ok"):
            yield f"{where} {frame.code} {frame.sender} {frame.status}, not {name_of(claim)}"
            continue
        values = careful_values(frame)
        if values.get("version") != claim["version"]:
            yield f"{where}: version {values.get('version')}, not {claim['version']}"
        yield from (f"{where}: {line}" for line in fields(frame, values, claim))


def iter_known(frames: list[Frame], expected: list[dict[str, Any]]) -> list[Frame]:
    """The frames without those that the client wrote or read as raw bytes, outside its encoder."""
    known = {name_of(frame) for frame in expected}
    return [frame for frame in frames if frame.type in known]


def name_of(claim: dict[str, Any]) -> str:
    name: str = claim["frame"]
    return NAMES.get(name, name)


def fields(frame: Frame, values: dict[str, Any], claim: dict[str, Any]) -> Iterator[str]:
    expected = dict(claim["fields"])
    if claim["frame"] == "Deliver":
        yield from deliver(frame, values, expected)
        return
    if claim["frame"] == "PublishSubBatching":
        expected = sub_batching(expected)
    for outer in ("offset_spec", "offset_specification", "metadata_info"):
        if outer in expected:
            expected |= offset_specification(expected.pop(outer))
    expected = {FIELDS.get((frame.type or "", name), name): value for name, value in expected.items()}
    if frame.type == "Publish":
        expected["messages"] = [published(message, claim["version"]) for message in expected["messages"]]
    actual = {name: value for name, value in values.items() if name not in HEADER}
    if "properties" not in actual and expected.get("properties") == []:
        del expected["properties"]  # the array was left out: clients make an empty one of it
    yield from differences(actual, expected)


def offset_specification(claim: dict[str, Any]) -> dict[str, Any]:
    """The flat form; rstream writes a value for every type, which counts for types 4 and 5 only."""
    if "code" in claim:
        return {"response_code": claim["code"], "stream": claim["stream"]}
    kind = claim["offset_type"]
    flat = {"offset_type": kind}
    if kind in (4, 5):
        flat["offset" if kind == 4 else "timestamp"] = claim["value"] if "value" in claim else claim["offset"]
    return flat


def published(message: dict[str, Any], version: int) -> dict[str, Any]:
    """A filter value exists in version 2 only."""
    return {name: value for name, value in message.items() if name != "filter_value" or version == 2}


def sub_batching(claim: dict[str, Any]) -> dict[str, Any]:
    batch = {
        "codec": claim["compress_type"],
        "record_count": claim["subbatching_message_count"],
        "uncompressed_length": claim["uncompressed_data_size"],
        "data": claim["messages"],
    }
    entry = {"publishing_id": claim["publishing_id"], "sub_batch": batch}
    return {"publisher_id": claim["publisher_id"], "messages": [entry]}


def deliver(frame: Frame, values: dict[str, Any], claim: dict[str, Any]) -> Iterator[str]:
    """The chunk's header, its data section as one piece, and every message with its offset."""
    data, messages, reserved = claim.pop("data"), claim.pop("messages"), claim.pop("_reserved")
    chunk = values["chunk"]
    yield from differences(values["subscription_id"], claim.pop("subscription_id"), "subscription_id")
    header = {CHUNK_FIELDS.get(name, name): value for name, value in claim.items()}
    yield from differences({name: chunk[name] for name in header}, header)
    if chunk["bloom_size"] << 24 | chunk["reserved"] != reserved:
        yield f"bloom size {chunk['bloom_size']} and reserved {chunk['reserved']} are not {reserved}"
    start = 9 + 48
    yield from differences(frame.data[start : start + chunk["data_length"]], data, "data")
    bodies = [bytes.fromhex(message["data"]) for message in chunk_messages(frame)]
    yield from differences(bodies, messages, "messages")


def differences(actual: Any, expected: Any, path: str = "") -> Iterator[str]:
    """The paths of values that differ from the truth; a digest represents bytes, and all keys must be present."""
    if isinstance(expected, dict) and "len" in expected:
        if not isinstance(actual, bytes) or not same_bytes(actual, expected):
            yield f"{path}: other bytes"
    elif isinstance(expected, dict):
        expected = {INNER_FIELDS.get(name, name): value for name, value in expected.items()}
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            yield f"{path}: fields {actual}, not {expected}"
            return
        for name, value in expected.items():
            yield from differences(actual[name], value, f"{path}.{name}" if path else name)
    elif isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            yield f"{path}: {str(actual)[:200]}, not {str(expected)[:200]}"
            return
        for index, value in enumerate(expected):
            yield from differences(actual[index], value, f"{path}[{index}]")
    elif actual != expected:
        yield f"{path}: {actual!r}, not {expected!r}"


def same_bytes(data: bytes, digest: dict[str, Any]) -> bool:
    expected = digest.get("sha256", hashlib.sha256(data).hexdigest())
    return bool(len(data) == digest["len"] and hashlib.sha256(data).hexdigest() == expected)


def javascript(run: Run, truth: dict[str, Any]) -> Iterator[str]:
    """Compare the frames that the JavaScript client wrote and received, by the port of its connection."""
    wrote: dict[int, list[Any]] = {}
    for command in truth.get("commands_written", ()):
        said = (
            command["key"],
            command["version"],
            command.get("correlation_id"),
            command.get("publishing_ids"),
        )
        wrote.setdefault(command["local_port"], []).append(said)
    saw: dict[int, list[Any]] = {}
    for answer in truth.get("responses_seen", ()):
        code = answer["code"] if answer["key"] not in (15, 20) else None
        correlation = answer["correlation_id"] if answer["key"] != 20 else None
        saw.setdefault(answer["local_port"], []).append((answer["key"], correlation, code))
    for port in wrote:
        ours, theirs = [], []
        for frame in run.frames:
            values = careful_values(frame)
            if frame.source.endswith(f":{port}") and frame.type != "Tune":
                ids = [message["publishing_id"] for message in values.get("messages", ())] or None
                ours.append((frame.code, values["version"], values.get("correlation_id"), ids))
            if frame.destination.endswith(f":{port}") and (frame.type or "").endswith(("Response", "Tune")):
                key = (frame.code or 0) & 0x7FFF
                theirs.append((key, values.get("correlation_id"), values.get("response_code")))
        yield from differences(ours, wrote[port], f"written by port {port}")
        yield from differences(theirs, saw.get(port, []), f"seen by port {port}")


# Messages.


def chunk_messages(frame: Frame) -> list[dict[str, Any]]:
    """The messages of a Deliver's record, those of sub-batches among them."""
    assert frame.layers is not None
    return flat(frame.layers["rabbitmq_stream"]["chunk"].get("entries", []))


def publish_messages(frame: Frame) -> list[dict[str, Any]]:
    assert frame.layers is not None
    return flat(frame.layers["rabbitmq_stream"]["messages"])


def flat(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for entry in entries for one in entry.get("sub_batch", {}).get("messages", [entry])]


def body(message: dict[str, Any], claim: dict[str, Any] | str) -> bool:
    """Whether a message is the claimed one: its whole entry or the content of its data section has the digest."""
    candidates = [message["data"], *message.get("amqp", {}).get("data", ())]
    if isinstance(claim, str):
        return claim.encode().hex() in candidates
    return any(same_bytes(bytes.fromhex(data), claim) for data in candidates)


def an_event(run: Run, event: dict[str, Any]) -> Iterator[str]:
    """Compare an action that the application reported with the frames."""
    name = event["event"]
    plain = not any(port == 5551 for _, port in run.totals.other)
    if name == "consumed_by_go_client":
        for inner in event["events"]:
            yield from an_event(run, inner)
    elif name.startswith("consumed") and plain:
        for key, claim in event.items():
            if key == "messages" or key.startswith("consumer_"):
                yield from consumed(run, claim, event)
    elif name in ("published", "published_filtered", "published_super_stream", "sub_entry_published") and plain:
        yield from were_published(run, event)
    for side in ("request_hex", "response_hex"):
        if side in event and not any(frame.data[4:].hex() == event[side] for frame in run.frames):
            yield f"no frame with {side}"
    if name == "confirms":
        yield from were_confirmed(run, event)
    if name == "deliver_raw":
        whole = [f for f in run.of("Deliver") if f.data[4:].hex().startswith(event["hex"])]
        if not any(frame.length - 4 == event["length"] for frame in whole):
            yield "no such Deliver"
    if name == "server_frame" and not any(f.data[4:].hex().startswith(event["hex"]) for f in run.frames):
        yield "no such frame"
    if name == "heartbeats":
        counts = Counter(frame.sender for frame in run.of("Heartbeat"))
        yield from differences([counts["client"], counts["server"]], [event["sent"], event["received"]])
    if name == "sent_raw" and not any(frame.type is None and frame.length == 12 for frame in run.frames):
        yield "the raw frame is missing"
    if name == "stored_offset":
        stored = {(v["reference"], v["offset"]) for v in map(careful_values, run.of("StoreOffset"))}
        if (event["reference"], event["offset"]) not in stored:
            yield f"not among {stored}"
    if name == "consumer_updates":
        active = [careful_values(frame)["active"] for frame in run.of("ConsumerUpdate")]
        yield from differences(active, [int(update["active"]) for update in event["updates"]])


def consumed(run: Run, claim: list[dict[str, Any]], event: dict[str, Any]) -> Iterator[str]:
    """Each message was delivered, at its offset, in a chunk of its time, to its subscription."""
    there: dict[int, list[tuple[Frame, dict[str, Any]]]] = {}
    for frame in run.of("Deliver"):
        for message in chunk_messages(frame):
            there.setdefault(message["offset"], []).append((frame, message))
    for expected in claim:
        digest = expected.get("body", expected)
        for frame, message in there.get(expected["offset"], ()):
            values = careful_values(frame)
            same = [
                body(message, digest),
                expected.get("chunk_timestamp") in (None, values["chunk"]["timestamp"]),
                expected.get("subscription_id") in (None, values["subscription_id"]),
                expected.get("stream") in (None, frame.generated.get("stream")),
            ]
            if all(same):
                break
        else:
            yield f"offset {expected['offset']} of {event.get('label', '')} was not delivered"


def were_published(run: Run, event: dict[str, Any]) -> Iterator[str]:
    """Each message was published in order, to its stream if the claim names one, and its ids were confirmed."""
    frames = run.of("Publish")
    for stream, claim in event.get("per_stream", {event.get("stream"): event.get("messages", [])}).items():
        sent = [
            message
            for frame in frames
            if stream is None or frame.generated.get("stream") == stream
            for message in publish_messages(frame)
        ]
        for expected in claim:
            digest = expected.get("body", expected)
            if not any(body(message, digest) for message in sent):
                yield f"{str(digest)[:100]} was not published to {stream}"
    yield from were_confirmed(run, event)


def were_confirmed(run: Run, event: dict[str, Any]) -> Iterator[str]:
    """The ids that the application saw confirmed are in confirms."""
    confirms = [careful_values(frame)["publishing_ids"] for frame in run.of("PublishConfirm")]
    confirmed = {number for ids in confirms for number in ids}
    claim = [*event.get("confirmations", ()), *event.get("confirms", ())]
    missing = {number for one in claim for number in confirmed_ids(one)} - confirmed
    if missing:
        yield f"{missing} were not confirmed"


def confirmed_ids(claim: Any) -> list[int]:
    """Forms: id; [id, confirmed, code]; [publisher id, [ids]]; {"ids": [ids]}."""
    if isinstance(claim, int):
        return [claim]
    if isinstance(claim, dict):
        return list(claim["ids"])
    return list(claim[1]) if isinstance(claim[1], list) else [claim[0]] * claim[1]


def errors(run: Run, events: list[dict[str, Any]]) -> Iterator[str]:
    """Every error that the application reported is in some response."""
    refused: Counter[int] = Counter()
    for frame in run.frames:
        values = careful_values(frame)
        codes = [values.get("response_code")]
        codes += [one.get("response_code") for name in ("streams", "errors") for one in dicts(values.get(name))]
        refused.update(code for code in codes if code not in (None, 1))
    claim = Counter(event["code"] for event in events if "error" in event and "code" in event)
    for code, count in claim.items():
        if refused[code] < count:
            yield f"code {code} was reported {count} times and found {refused[code]} times"


def dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value or () if isinstance(one, dict)]
