"""The record: one JSON object per frame, the same keys in every export (docs/records.md)."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from wiredecode.fields import compiler, plain
from wiredecode.fields.maps import Map
from wiredecode.fields.numbers import rfc3339_second
from wiredecode.frames.columns import COLUMNS, TUNNEL_COLUMNS
from wiredecode.frames.escape import json_safe, valid
from wiredecode.frames.frame import Frame
from wiredecode.frames.totals import Totals
from wiredecode.net.types import Connection

BYTES: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
    "text": lambda data: data.decode("utf-8", "backslashreplace"),
    "sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "length": lambda data: f"{len(data)} bytes",
}
"""Forms of ``--bytes``."""
_SPELLED = {
    "frame": "frame.number if stable is None else frame.id",
    "time": "rfc3339(frame.time_ns)",
    "connection": "connection.number if stable is None else stable",
    "src": "ends[frame.side]",
    "dst": "ends[1 - frame.side]",
    "findings": "[each.record() for each in frame.findings] if frame.findings else []",
}
"""Keys whose attribute is a property, or has another form: calls of properties take as long as all others."""
_ITEMS = [
    f"{each.name!r}: {_SPELLED.get(each.name, f'frame.{each.attribute}')}"
    for each in COLUMNS
    if each.name not in ("outcome", *TUNNEL_COLUMNS)
]


def rfc3339(time_ns: int) -> str:
    """RFC 3339 text with nanoseconds, UTC."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{rfc3339_second(seconds)}{str(1_000_000_000 + nanoseconds)[1:]}Z"  # half the time of a format with zeros


_row: Callable[[Frame, Connection, int | None, tuple[str, str]], dict[str, Any]] = eval(
    f"lambda frame, connection, stable, ends: {{{', '.join(_ITEMS)}}}"
)
"""The keys of every record. Compiled: a loop over them takes three times as long."""


def record(frame: Frame, *, ranges: bool = False) -> dict[str, Any]:
    """The record of a frame that was dissected with a style. ``ranges`` adds the byte range of every field."""
    connection = frame.connection
    row = _row(frame, connection, connection.stable_id, connection.endpoints)
    if frame.outcome:
        row["outcome"] = frame.outcome
    if connection.outer is not None:
        row |= tunnel_columns(frame)
    if ranges:
        row["ranges"] = field_ranges(frame)
    return row


def tunnel_columns(frame: Frame) -> dict[str, Any]:
    """The keys of a frame that came through tunnels."""
    return {name: getattr(frame, name) for name in TUNNEL_COLUMNS}


def field_ranges(frame: Frame) -> dict[str, list[int]]:
    """Byte range ``[first, end)`` in the frame of every field, by its path; none of reassembled bytes."""
    if frame.layer is None:
        return {}
    decoded = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop, truncated=bool(frame.missing))
    prefix = frame.layer.filter_name
    shown = {f"{prefix}.{path}": list(span) for path, span in decoded.ranges.items()}
    for key, path in frame.layer.record_paths(decoded.values):
        if path in decoded.ranges:
            shown[f"{prefix}.{key}"] = list(decoded.ranges[path])
    for kind in map(plain, frame.layer.fields_desc):
        if isinstance(kind, Map) and kind.name in decoded.ranges and (raw := decoded.values.get(kind.name)):
            spans = kind.spans(raw, decoded.ranges[kind.name][1] - len(raw))
            shown |= {f"{prefix}.{kind.name}.{path}": list(span) for path, span in spans.items()}
    met: dict[str, int] = {}
    for inner in frame.inner:
        name, count = inner.layer.filter_name, met.get(inner.layer.filter_name, 0)
        met[name] = count + 1
        if inner.start is not None:
            base = f"{name}.further[{count - 1}]" if count else name
            spans = compiler.careful(inner.layer, inner.data, 0, len(inner.data)).ranges
            shown |= {f"{base}.{path}": [inner.start + at for at in span] for path, span in spans.items()}
    return shown


def encode_json(value: Any, show: Callable[[Any], Any], option: int = 0) -> bytes:
    """``value`` as JSON; invalid Unicode is escaped. ``show``: converts values that JSON does not have."""
    try:
        return orjson.dumps(value, show, option)
    except TypeError:
        return orjson.dumps(valid(value), show, option)


def dumps(row: dict[str, Any], show: Callable[[bytes], str] = bytes.hex) -> bytes:
    """One line of NDJSON. ``show``: what is written for bytes that the style of the record has left as they are."""
    return json_safe(encode_json(row, show, orjson.OPT_APPEND_NEWLINE))


def record_line(frame: Frame, *, ranges: bool = False, show: Callable[[bytes], str] = bytes.hex) -> bytes:
    """The line of NDJSON of a frame."""
    return dumps(record(frame, ranges=ranges), show)


def totals_record(totals: Totals) -> dict[str, Any]:
    """The totals of a capture, for ``--summary-json``."""
    protocols: dict[str, dict[str, dict[str, int]]] = {}
    for (protocol, kind, status), count in sorted(totals.frames.items()):
        protocols.setdefault(protocol, {}).setdefault(kind or "undecoded", {})[status] = count
    return {
        "packets": {
            "read": totals.packets,
            "tcp": totals.tcp_packets,
            **({"copies": totals.copies} if totals.copies else {}),
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
            {"looks_like": name, "port": port, "bytes": size, "connections": totals.other_connections[name, port]}
            for (name, port), size in sorted(totals.other.items())
        ],
        "frames": protocols,
        "reassembly": dict(sorted(totals.notes.items())),
        "limits_hit": dict(sorted(totals.limits.items())),
        "failures": dict(sorted(totals.failures.items())),
    }


class JsonArray:
    """One JSON array, written element by element: ``begin``, the elements with commas between them, and ``end``."""

    def __init__(self, write: Callable[[bytes], object], begin: bytes = b"[", end: bytes = b"]\n") -> None:
        self._write, self._before, self._end = write, begin, end
        self._empty = True

    def add(self, lines: bytes) -> None:
        """Write the next elements, one per line, if any."""
        if not lines:
            return
        self._write(self._before + lines.rstrip(b"\n").replace(b"\n", b",\n"))
        self._before, self._empty = b",\n", False

    def close(self) -> None:
        """Write the end, also of an array without elements."""
        self._write(b"[]\n" if self._empty else self._end)
