"""Compare a dissected Cursus capture with the accounts of client and broker."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from tests.protocols import driver_accounts
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import UNDECODED, Frame
from wiredecode.protocols.cursus import names
from wiredecode.protocols.cursus.protocol import Cursus

TEXT_STYLE = Style(show=lambda raw: raw.decode("utf-8", "backslashreplace"), secrets=True)


def check(capture_path: Path | str, truth: dict[str, Any]) -> list[str]:
    """Return the differences between a capture's records and its truth; empty if they agree."""
    if driver_accounts.is_account(truth):
        return driver_accounts.check(Path(capture_path), truth, Cursus())
    dissector = Dissector(Demand(style=TEXT_STYLE, protocols=(Cursus(),)))
    frames = list(dissector.frames(open_capture([Path(capture_path)])))
    wrong = [] if dissector.totals.closes else ["the accounting does not close"]
    derived = "frames_by_status" in truth
    if not derived and dissector.totals.undecoded:
        wrong.append(f"{dissector.totals.undecoded} bytes undecoded")
    for stream in truth["streams"]:
        ends = {stream["client"], stream["server"]}
        mine = [frame for frame in frames if set(frame.connection.endpoints) == ends]
        wrong += (_derived if derived else _stream)(stream, mine)
    return wrong


def _stream(stream: dict[str, Any], frames: list[Frame]) -> list[str]:
    """An undamaged connection: every frame with its fields, and which reply answers which command."""
    wrong = []
    found = {(frame.source == stream["client"], frame.offset): frame for frame in frames}
    if len(found) != len(stream["frames"]):
        wrong.append(f"{stream['client']}: {len(found)} frames, truth has {len(stream['frames'])}")
    numbers: dict[int, Frame] = {}
    for claim in stream["frames"]:
        frame = found.get((claim["dir"] == "c2s", claim["stream_offset"]))
        where = f"{stream['client']} {claim['dir']} {claim['stream_offset']}"
        if frame is None:
            wrong.append(f"{where}: missing")
            continue
        numbers[claim["n"]] = frame
        if not _is(frame.data[4:], claim) or frame.sender != ("client" if claim["dir"] == "c2s" else "server"):
            wrong.append(f"{where}: other bytes or sender")
        wrong += [f"{where}: {problem}" for problem in differences(frame, claim["decode"])]
    for pair in stream.get("pairs", ()):
        wanted = [numbers[number].number for number in pair["responses"] if number in numbers]
        request = numbers[pair["request"]]
        got = sorted(frame.number for frame in frames if frame.request == request.number)
        if got != sorted(wanted) or (request.response if wanted else None) != (min(wanted) if wanted else None):
            wrong.append(f"{stream['client']} frame {request.number}: replies {got}, truth has {wanted}")
    return wrong


def _derived(stream: dict[str, Any], frames: list[Frame]) -> list[str]:
    """A damaged connection: whole frames are whole, truncated ones partial, none is invented."""
    wrong: list[str] = []
    by_place = {
        (frame.source == stream["client"], frame.offset, frame.data): frame
        for frame in frames
        if frame.status != UNDECODED
    }
    real = {(claim["dir"], claim.get("hex") or claim.get("sha256")) for claim in stream["frames"]}
    found = {("c2s" if key[0] else "s2c", said) for key in by_place for said in _digests(key[2][4:])}
    wrong += [
        f"{stream['client']} {claim['dir']} {claim['stream_offset']}: whole frame missing"
        for claim in stream["frames"]
        if claim["status"] == "complete" and (claim["dir"], claim.get("hex") or claim.get("sha256")) not in found
    ]
    for frame in by_place.values():
        direction = "c2s" if frame.source == stream["client"] else "s2c"
        if frame.status != "partial" and not real & {(direction, said) for said in _digests(frame.data[4:])}:
            wrong.append(f"{stream['client']} {direction} {frame.offset}: a frame that never was")
    return wrong


def _digests(body: bytes) -> tuple[str, str]:
    """A body as in truth files: hex, or the SHA-256 if it is long."""
    return body.hex(), hashlib.sha256(body).hexdigest()


def _is(body: bytes, claim: dict[str, Any]) -> bool:
    return (claim.get("hex") or claim.get("sha256") or body.hex()) in _digests(body) and len(body) == claim["body_len"]


def differences(frame: Frame, decode: dict[str, Any]) -> list[str]:
    """Differences between the record of a frame and the truth's ``decode``."""
    layers = frame.layers or {}
    record = layers.get("cursus", {})
    wrong: list[str] = []

    def same(what: str, got: Any, wanted: Any) -> None:
        if got != wanted:
            wrong.append(f"{what} is {got!r}, truth has {wanted!r}")

    if "compression" in decode:
        outer = layers.get("cursus_compressed", {})
        codecs = {"snappy-block": "snappy", "snappy-xerial": "xerial"}
        same("compression", outer.get("compression"), codecs.get(decode["compression"], decode["compression"]))
        same("inflated_length", outer.get("inflated_length"), decode["inflated_length"])
        same("layers", list(layers), ["cursus_compressed", "cursus"])
    KINDS.get(decode["kind"], _unknown)(frame, record, decode, same)
    return wrong


def _unknown(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("kind", frame.type, decode["kind"])


def _batch(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "Batch")
    same("dialect", frame.dialect, decode["dialect"])
    for name in ("topic", "partition", "acks", "idempotent", "seq_start", "seq_end"):
        wanted = decode.get(name)
        got = record.get(name, "" if name == "acks" else None)
        same(name, got, -1 if name == "seq_end" and wanted == 0xFFFFFFFFFFFFFFFF else wanted)
    messages = [
        {("payload" if name == "data" else name): value for name, value in message.items() if "transaction" not in name}
        for message in record.get("messages", ())
    ]
    same("messages", messages, decode["messages"])
    same("count", len(messages), decode["count"])


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _command(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, decode["command"])
    same("envelope", record.get("envelope_topic"), decode["envelope"])
    if decode["syntax"] in ("kv", "positional"):
        same("dialect", frame.dialect, "cur" if decode["syntax"] == "kv" else "seed")
    if decode["syntax"] == "positional" and decode["envelope"]:
        # The truth names the words as the older document does, the record as the broker of 2025-11 did.
        said = {_spelled(value) for value in record.values()} | set(record.get("ignored_words", ()))
        same("words", sorted(set(decode["params"].values()) - said), [])
        return
    for key, wanted in decode["params"].items():
        name = "auth_token" if key == "auth_prefix_token" else names.PARAMETERS.get(key, (key, ""))[0]
        if key == "json" or (key == "payload" and isinstance(record.get("payload"), dict)):
            continue
        if key == "offsetsPayload":
            name, wanted = (
                "offsets",
                [
                    dict(zip(("partition", "offset"), map(int, pair.removeprefix("P").split(":")), strict=True))
                    for pair in wanted.split(",")
                ],
            )
            same(name, record.get(name), wanted)
            continue
        if key.startswith("arg"):
            same(key, record.get("ignored_words", [])[int(key[3:])], wanted)
            continue
        got = record.get(name, (record.get("other_fields") or {}).get(key))
        same(key, _spelled(got), wanted)
    for name, wanted in (decode.get("payload_json") or {}).items():
        holder = record["payload"] if isinstance(record.get("payload"), dict) else record
        same(name, holder.get(name), wanted)
    if "offsets" in decode:
        got = {str(pair["partition"]): pair["offset"] for pair in record.get("offsets", ())}
        same("offsets", got, decode["offsets"])


def _envelope(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "Envelope")
    same("envelope", record.get("envelope_topic"), decode["envelope"])
    same("payload", record.get("text"), decode["payload"])


def _reply_fields(record: dict[str, Any], fields: dict[str, Any], same: Any) -> None:
    for key, wanted in fields.items():
        name = names.REPLY_NAMES.get(key, key)
        name = "offset_count" if key == "offsets" and wanted.isdigit() else name
        got = record.get(name, (record.get("other_fields") or {}).get(key))
        if key == "offsets" and isinstance(got, list):
            got = ",".join(
                ":".join([f"P{part['partition']}", *(f"{k}={v}" for k, v in part.items() if k != "partition")])
                for part in got
            )
        same(key, got if isinstance(wanted, list | dict) or wanted is None else _spelled(got), wanted)


def _ok(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "OK")
    _reply_fields(record, decode["fields"], same)


def _error(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "ERROR")
    same("code", record.get("error_code"), decode["code"])
    _reply_fields(record, decode["fields"], same)
    same("details", record.get("details", []), decode["details"])
    if "class" in decode:
        same("class", record.get("error_class"), decode["class"])
        same("retryable", record.get("retryable"), decode["retryable"])
    if "leader" in decode:
        same("leader", record.get("leader"), decode["leader"])


JSON_TYPES = {
    "ack": "AckResponse",
    "describe": "TopicMetadata",
    "group_status": "GroupStatus",
    "read_stream_envelope": "StreamEnvelope",
    "error": "JsonError",
    "discovery": "DiscoveryReply",
}


def _json(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    if decode["json_type"] in JSON_TYPES:
        same("type", frame.type, JSON_TYPES[decode["json_type"]])
    value = decode["json"]
    for name, wanted in value.items() if isinstance(value, dict) else [("json", value)]:
        same(name, record.get(name), wanted)


def _control(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "STREAM_CONTROL")
    _reply_fields(record, decode["fields"], same)


def _text(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "Text")
    same("text", record.get("text"), decode["text"])


def _empty(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "KeepAlive")


def _malformed(frame: Frame, record: dict[str, Any], decode: dict[str, Any], same: Any) -> None:
    same("type", frame.type, "Batch")
    same("status", frame.status, "malformed")


KINDS = {
    "batch": _batch,
    "command": _command,
    "envelope": _envelope,
    "ok": _ok,
    "error": _error,
    "json": _json,
    "stream_control": _control,
    "text": _text,
    "empty": _empty,
    "malformed_batch": _malformed,
}
