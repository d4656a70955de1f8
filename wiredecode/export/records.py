"""The record: one JSON object per frame, the same keys in every export (docs/records.md)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from wiredecode import compiler
from wiredecode.dissect import Totals
from wiredecode.frame import Frame

BYTES: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
    "text": lambda data: data.decode("utf-8", "backslashreplace"),
    "sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "length": lambda data: f"{len(data)} bytes",
}
"""How ``--bytes`` shows bytes."""


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return (datetime.fromtimestamp(seconds, UTC)).strftime("%Y-%m-%dT%H:%M:%S.")


def rfc3339(time_ns: int) -> str:
    """RFC 3339 text with nanoseconds, UTC."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}{nanoseconds:09d}Z"


def record(frame: Frame, *, ranges: bool = False) -> dict[str, Any]:
    """The record of a frame that was dissected with a style. ``ranges`` adds the byte range of every field."""
    ends = frame.connection.endpoints
    side = frame.side
    row = {
        "frame": frame.number,
        "time": rfc3339(frame.time_ns),
        "time_ns": frame.time_ns,
        "connection": frame.connection.number,
        "src": ends[side],
        "dst": ends[1 - side],
        "sender": frame.sender,
        "packets": frame.packets,
        "offset": frame.offset,
        "length": frame.length,
        "protocol": frame.protocol,
        "dialect": frame.dialect,
        "type": frame.type,
        "code": frame.code,
        "status": frame.status,
        "layers": frame.layers,
        "request": frame.request,
        "response": frame.response,
        "latency_ns": frame.latency_ns,
        "findings": [finding.record() for finding in frame.findings] if frame.findings else [],
    }
    if ranges:
        row["ranges"] = field_ranges(frame)
    return row


def field_ranges(frame: Frame) -> dict[str, list[int]]:
    """Byte range ``[first, end)`` in the frame of every field, by its path."""
    if frame.layer is None:
        return {}
    found = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop).ranges
    prefix = frame.layer.filter_name
    return {f"{prefix}.{path}": list(span) for path, span in found.items()}


def dumps(row: dict[str, Any]) -> bytes:
    """One line of NDJSON."""
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def totals_record(totals: Totals) -> dict[str, Any]:
    """The totals of a capture, for ``--summary-json``."""
    protocols: dict[str, dict[str, dict[str, int]]] = {}
    for (protocol, kind, status), count in sorted(totals.frames.items()):
        protocols.setdefault(protocol, {}).setdefault(kind or "undecoded", {})[status] = count
    return {
        "packets": {
            "read": totals.packets,
            "tcp": totals.tcp_packets,
            "not_decoded": dict(sorted(totals.not_decoded.items())),
        },
        "connections": totals.connections,
        "payload": {
            "captured": totals.captured,
            "in_frames": totals.framed,
            "undecoded": totals.undecoded,
            "other_protocols": sum(totals.other.values()),
            "duplicate": totals.duplicate,
            "late": totals.late,
            "ignored": totals.ignored,
            "missing": totals.missing,
        },
        "other_protocols": [
            {
                "looks_like": name,
                "port": port,
                "bytes": size,
                "connections": totals.other_connections[name, port],
            }
            for (name, port), size in sorted(totals.other.items())
        ],
        "frames": protocols,
        "reassembly": dict(sorted(totals.notes.items())),
        "limits_hit": dict(sorted(totals.limits.items())),
    }
