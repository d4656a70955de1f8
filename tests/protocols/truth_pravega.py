"""Compare a Pravega capture with the accounts of client and server.

The truth of the shipped protocol was written by upstream's own encoders and decoders around a small store: every
message with its fields, the appends as upstream's decoder rebuilt them, the events that the application wrote, and
the final contents of segments. The truth of the proposal is hand-made: its ``steps`` give bytes and their values.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.protocols import driver_accounts
from tests.support import Run, careful_values, dissect
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.pravega.protocol import Pravega

NO_VALUE = -(2**63)
LEFT_OUT: tuple[Any, ...] = (-1, 0, "", None, False, b"", [], NO_VALUE, {})
"""Values that upstream reports for fields that are not on the wire."""
ALIASES = {"writer_id": "connection_id", "connection_id": "writer_id", "sorted": "sorted_deprecated"}
Frames = dict[tuple[int, int], Frame]
"""By direction (0: from the client) and stream offset."""


def check(path: Path, truth: dict[str, Any]) -> list[str]:
    """Return the disagreements between a capture and its truth; empty if the capture holds all of the truth."""
    if driver_accounts.is_account(truth):
        return driver_accounts.check(path, truth, Pravega()) + unframed(path, truth)
    run = dissect(open_capture([path]), known=(Pravega(),))
    wrong: list[str] = []
    for claim in truth["connections"]:
        frames = by_place(run, claim["client_port"])
        if "steps" in claim:
            wrong += proposal(frames, claim["steps"])
            continue
        late = started_late(truth)
        wrong += messages(frames, claim, late)
        wrong += [
            line
            for append in claim["appends_rebuilt_by_upstream_AppendDecoder"]
            for line in rebuilt(frames, claim, append, late)
        ]
        wrong += written(frames, claim, any(late))
    wrong += segments(run, truth.get("final_segments", {}))
    if not run.totals.closes:
        wrong.append("the accounts do not close")
    return wrong


def unframed(path: Path, truth: dict[str, Any]) -> list[str]:
    """Compare all bytes appended to a byte stream, which has no events, with those that the application wrote."""
    if "bytes_sha256" not in truth:
        return []
    appended: dict[Any, bytes] = {}
    for frame in dissect(open_capture([path]), known=(Pravega(),)).of("AppendBlockEnd"):
        segment = frame.generated.get("segment")
        appended[segment] = appended.get(segment, b"") + (append_bytes(frame) or b"")
    hashes = {hashlib.sha256(data).hexdigest() for data in appended.values()}
    return [] if truth["bytes_sha256"] in hashes else [f"{truth['bytes_total']} bytes that were written were not found"]


def by_place(run: Run, client_port: int) -> Frames:
    found: Frames = {}
    for frame in run.frames:
        ports = frame.connection.ports
        if client_port in ports and frame.type is not None:
            found[int(ports[frame.side] != client_port), frame.offset] = frame
    return found


def started_late(truth: dict[str, Any]) -> tuple[int, int]:
    """Bytes of each direction before the capture began."""
    said = re.search(r"began after (\d+) client bytes and (\d+) server bytes", " ".join(truth.get("notes") or []))
    return (int(said[1]), int(said[2])) if said else (0, 0)


def messages(frames: Frames, claim: dict[str, Any], late: tuple[int, int]) -> Iterator[str]:
    """Every message of both directions, with its fields."""
    for side, key in enumerate(("client_to_server", "server_to_client")):
        for message in claim[key]:
            place = message["offset"] - late[side]
            name = f"{message['name']} at {message['offset']} ({key})"
            frame = frames.get((side, place))
            if place < 0 and frame is None:
                continue
            if frame is None:
                yield f"{name}: not found"
                continue
            if (frame.code, frame.type, frame.length) != (message["code"], message["name"], message["length"] + 8):
                yield f"{name}: is {frame.type} ({frame.code}) of {frame.length} bytes"
            yield from (f"{name}: {line}" for line in fields(careful_values(frame), message["fields"]))


def snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def fields(values: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    """Where decoded values are not the expected ones."""
    if "sources" in expected:  # two lists there, one list of pairs on the wire
        pairs = zip(expected["sources"], expected["newTargetWriteOffset"], strict=True)
        expected = {"target": expected["target"], "requestId": expected["requestId"]}
        expected["pairs"] = [{"source": source, "newTargetWriteOffset": offset} for source, offset in pairs]
    values = {**values.get("args", {}), **values}  # older truths name the arguments of iterations one by one
    for key, value in expected.items():
        name = snake(key)
        if name not in values:
            name = ALIASES.get(name, name)
        if name not in values:
            if plain(value) not in LEFT_OUT:
                yield f"{key} is missing, {value} expected"
        elif not same(values[name], value):
            yield f"{key} is {values[name]!r}, not {value!r}"


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        if "hex" in value:
            return bytes.fromhex(value["hex"])
        if set(value) == {"name", "code"}:
            return value["code"]
        if set(value) == {"entries"}:
            return value["entries"]
    return value


def same(found: Any, expected: Any) -> bool:
    expected = plain(expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return isinstance(found, dict) and not list(fields(found, expected))
    if isinstance(found, bytes) and isinstance(expected, str):
        return found == uuid.UUID(expected).bytes
    return bool(found == expected) or (found is None and expected in LEFT_OUT)


def frame_events(frame: Frame) -> list[dict[str, Any]]:
    assert frame.layers is not None
    events: list[dict[str, Any]] = frame.layers["pravega"].get("events", [])
    return events


def append_bytes(frame: Frame) -> bytes | None:
    """The bytes that an append adds to its segment, joined from the record."""
    assert frame.layers is not None
    record = frame.layers["pravega"]
    if frame.type == "ConditionalBlockEnd":
        return bytes.fromhex(record["data"])
    if frame.type == "ConditionalAppend" and "event" in record:
        return framed(record["event"]["data"])
    if "append" in record:
        return bytes.fromhex(record["append"])
    if "append_length" not in record:
        return None
    return b"".join(framed(event["data"]) for event in record.get("events", []))


def framed(data: str) -> bytes:
    raw = bytes.fromhex(data)
    return bytes(4) + len(raw).to_bytes(4) + raw


def rebuilt(frames: Frames, claim: dict[str, Any], append: dict[str, Any], late: tuple[int, int]) -> Iterator[str]:
    """An append as upstream's decoder rebuilt it."""
    message = claim["client_to_server"][append["frame_index"]]
    frame = frames.get((0, message["offset"] - late[0]))
    name = f"append in {message['name']} at {message['offset']}"
    if frame is None:
        if message["offset"] >= late[0]:
            yield f"{name}: not found"
        return
    if any(finding.code == "block-missing" for finding in frame.findings):
        if not any(late):
            yield f"{name}: the block was not found"
        return
    if append_bytes(frame) != plain(append["data"]):
        yield f"{name}: other bytes"
    segment = frame.generated.get("segment")
    if segment != append["segment"] and not (segment is None and any(late)):
        yield f"{name}: segment {segment}, not {append['segment']}"
    number = frame.values.get("last_event_number", frame.values.get("event_number"))
    if number != append["lastEventNumber"]:
        yield f"{name}: last event number {number}, not {append['lastEventNumber']}"


def written(frames: Frames, claim: dict[str, Any], late: bool) -> Iterator[str]:
    """Every event that the application wrote, in its append or in the pieces of a large one."""
    seen: set[tuple[bytes, int, str]] = set()
    loose: set[str] = set()
    for (side, _), frame in frames.items():
        if side:
            continue
        writer = frame.values.get("writer_id", frame.values.get("connection_id", b""))
        for event in frame_events(frame):
            seen.add((writer, event.get("event_number", 0), event["data"]))
            loose.add(event["data"])
        if frame.type == "ConditionalAppend" and frame.layers and "event" in frame.layers["pravega"]:
            seen.add((writer, frame.values["event_number"], frame.layers["pravega"]["event"]["data"]))
    for event in claim["written_by_application"]:
        payload = event.get("payload")
        if event["kind"] != "event" or not isinstance(payload, dict) or "hex" not in payload or late:
            continue
        wanted = uuid.UUID(event["writerId"]).bytes, event["eventNumber"], payload["hex"]
        if wanted not in seen and payload["hex"] not in loose:
            yield f"event {event['eventNumber']} of {event['writerId']} was not found"


def segments(run: Run, final: dict[str, Any]) -> Iterator[str]:
    """Read events are those of the segment at the same offset."""
    for frame in run.of("SegmentRead"):
        segment = frame.values.get("segment")
        if segment not in final:
            continue
        data = plain(final[segment]["data"])
        if frame.values.get("offset", 0) + len(frame.values.get("data", b"")) > len(data):
            continue
        for event in frame_events(frame):
            offset = event["offset"]
            if data[offset : offset + 8] + bytes.fromhex(event["data"]) != framed(event["data"]):
                yield f"no such event at {offset} of {segment}"


def proposal(frames: Frames, steps: list[dict[str, Any]]) -> Iterator[str]:
    """The steps of a conversation in the proposed protocol."""
    for step in steps:
        side = 0 if step["dir"] == "c2s" else 1
        raw, offset = bytes.fromhex(step["hex"]), step["offset"]
        expected = step["expect"]
        for index in range(len(expected.get("types", [1]))):
            frame = frames.get((side, offset))
            name = step["label"]
            if frame is None:
                yield f"{name}: not found"
                break
            assert frame.layers is not None
            record = frame.layers["pravega"]
            wanted = {key: value for key, value in expected.items() if key not in ("types", "whole")}
            if "types" in expected:
                wanted = {"type": expected["types"][index], "data": expected["data"][index]}
            yield from (f"{name}: {line}" for line in expectations(frame.type, record, wanted))
            if "whole" in expected:
                whole = {**record, **record.get("whole", {})}
                yield from (f"{name}: {line}" for line in expectations(whole.get("type"), whole, expected["whole"]))
            offset += frame.length
            raw = raw[frame.length :]
        if raw:
            yield f"{step['label']}: {len(raw)} bytes are not in its frames"


def expectations(kind: Any, record: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    for key, value in wanted.items():
        name = snake(key)
        found = kind if key == "type" else record.get(name)
        if key == "data_len":
            found = len(record["data"]) // 2
        elif key == "part":
            found = str(found).upper()
        if found != value:
            yield f"{key} is {found!r}, not {value!r}"
