"""The record: one JSON object per frame, the same keys in every export (docs/records.md)."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from wiredecode.fields import compiler
from wiredecode.frames.columns import AROUND, COLUMNS
from wiredecode.frames.escape import json_safe, valid
from wiredecode.frames.frame import Frame
from wiredecode.frames.totals import Totals

BYTES: dict[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda data: base64.b64encode(data).decode(),
    "text": lambda data: data.decode("utf-8", "backslashreplace"),
    "sha256": lambda data: hashlib.sha256(data).hexdigest(),
    "length": lambda data: f"{len(data)} bytes",
}
"""How ``--bytes`` shows bytes."""
_ITEMS = [f"{each.name!r}: frame.{each.attribute}" for each in COLUMNS if each.name not in ("outcome", *AROUND)]
_row: Callable[[Frame], dict[str, Any]] = eval(f"lambda frame: {{{', '.join(_ITEMS)}}}")
"""The keys of every record. Compiled: a loop over them takes three times as long."""


@lru_cache(maxsize=8)
def _second(seconds: int) -> str:
    return (datetime.fromtimestamp(seconds, UTC)).strftime("%Y-%m-%dT%H:%M:%S.")


def rfc3339(time_ns: int) -> str:
    """RFC 3339 text with nanoseconds, UTC."""
    seconds, nanoseconds = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}{nanoseconds:09d}Z"


def record(frame: Frame, *, ranges: bool = False) -> dict[str, Any]:
    """The record of a frame that was dissected with a style. ``ranges`` adds the byte range of every field."""
    row = _row(frame)
    row["time"] = rfc3339(frame.time_ns)
    row["layers"] = frame.layers if frame.layers_text is None else layers_of(frame)
    row["findings"] = [finding.record() for finding in frame.findings] if frame.findings else []
    if frame.outcome:
        row["outcome"] = frame.outcome
    if frame.connection.outer is not None:
        row |= around(frame)
    if ranges:
        row["ranges"] = field_ranges(frame)
    return row


def around(frame: Frame) -> dict[str, Any]:
    """The keys of a frame that came through tunnels."""
    return {name: getattr(frame, name) for name in AROUND}


def generated_text(frame: Frame) -> str:
    """The generated fields as further keys of ``frame.layers_text``."""
    return f",{dumped(frame.generated)[1:-1]}" if frame.generated else ""


def layers_of(frame: Frame) -> dict[str, Any]:
    """The record of the layers, also of a frame whose text was remembered."""
    if frame.layers_text is not None:
        layers: dict[str, Any] = orjson.loads(f"{frame.layers_text}{generated_text(frame)}}}}}")
        return layers
    return frame.layers or {}


def field_ranges(frame: Frame) -> dict[str, list[int]]:
    """Byte range ``[first, end)`` in the frame of every field, by its path; none of what was put together first."""
    if frame.layer is None:
        return {}
    found = compiler.careful(frame.layer, frame.buffer, frame.start, frame.stop, cut=bool(frame.missing))
    prefix = frame.layer.filter_name
    shown = {f"{prefix}.{path}": list(span) for path, span in found.ranges.items()}
    for key, path in frame.layer.record_paths(found.values):
        if path in found.ranges:
            shown[f"{prefix}.{key}"] = list(found.ranges[path])
    met: dict[str, int] = {}
    for inner in frame.inner:
        name, count = inner.layer.filter_name, met.get(inner.layer.filter_name, 0)
        met[name] = count + 1
        if inner.start is not None:
            base = f"{name}.further[{count - 1}]" if count else name
            spans = compiler.careful(inner.layer, inner.data, 0, len(inner.data)).ranges.items()
            shown |= {f"{base}.{path}": [inner.start + first, inner.start + last] for path, (first, last) in spans}
    return shown


def encoded(value: Any, show: Callable[[Any], Any], option: int = 0) -> bytes:
    """``value`` as JSON; text that is no Unicode is written out. ``show``: what stands for what JSON has not."""
    try:
        return orjson.dumps(value, default=show, option=option)
    except TypeError:
        return orjson.dumps(valid(value), default=show, option=option)


def dumped(value: Any, show: Callable[[bytes], str] = bytes.hex) -> str:
    """The JSON text of any value."""
    return encoded(value, show).decode()


def dumps(row: dict[str, Any], show: Callable[[bytes], str] = bytes.hex) -> bytes:
    """One line of NDJSON. ``show``: what is written for bytes that the style of the record has left as they are."""
    return json_safe(encoded(row, show, orjson.OPT_APPEND_NEWLINE))


class RecordLines:
    """The lines of NDJSON of one capture: what ``dumps(record(frame))`` gives.

    The records of frames that have a text (``Style(text=True)``) are put together from texts that are known; for
    others the encoder is the fastest way.
    """

    MAX_KNOWN = 4096
    """Connections and types whose texts are remembered; then all are forgotten and made anew."""
    LAST = ',"request":null,"response":null,"latency_ns":null,"findings":[]}\n'

    def __init__(self, *, ranges: bool = False, show: Callable[[bytes], str] = bytes.hex) -> None:
        self.ranges, self.show = ranges, show
        self._time_ns, self._time = -1, ""
        self._second, self._second_text = -1, ""
        self._ends: dict[tuple[int, int, str | None], str] = {}
        self._kinds: dict[tuple[Any, ...], str] = {}

    def line(self, frame: Frame) -> bytes:
        """One line of NDJSON."""
        text, request, latency = frame.layers_text, frame.request, frame.latency_ns
        if text is None:
            return dumps(record(frame, ranges=self.ranges), self.show)
        if frame.time_ns != self._time_ns:
            self._know_time(frame.time_ns)
        ends = self._ends.get((frame.connection.number, frame.side, frame.sender)) or self._know_ends(frame)
        kind = self._kinds.get((frame.type, frame.code, frame.status, frame.dialect, frame.protocol))
        if kind is None:
            kind = self._know_kind(frame)
        carriers = frame.packets
        packets = carriers[0] if len(carriers) == 1 else ",".join(map(str, carriers))
        odd = frame.response is not None or frame.outcome or (request is None) != (latency is None)
        if frame.findings or odd or self.ranges or frame.connection.outer is not None:
            last = self._last(frame)
        elif request is None:
            last = self.LAST
        else:
            last = f',"request":{request},"response":null,"latency_ns":{latency},"findings":[]}}\n'
        place = f'],"offset":{frame.offset},"length":{frame.length}'
        first = f'{{"frame":{frame.id}{self._time}{ends}{packets}{place}{kind}'
        return json_safe(f"{first}{text}{generated_text(frame)}}}}}{last}".encode())

    def _know_time(self, time_ns: int) -> None:
        seconds, fraction = divmod(time_ns, 1_000_000_000)
        if seconds != self._second:
            self._second, self._second_text = seconds, _second(seconds)
        self._time_ns = time_ns
        self._time = f',"time":"{self._second_text}{fraction:09d}Z","time_ns":{time_ns}'

    def _know_ends(self, frame: Frame) -> str:
        if len(self._ends) >= self.MAX_KNOWN:
            self._ends.clear()
        connection, side = frame.connection, frame.side
        ends = {
            "connection": connection.id,
            "src": connection.endpoints[side],
            "dst": connection.endpoints[1 - side],
            "sender": frame.sender,
        }
        text = self._ends[connection.number, side, frame.sender] = f',{dumped(ends)[1:-1]},"packets":['
        return text

    def _know_kind(self, frame: Frame) -> str:
        if len(self._kinds) >= self.MAX_KNOWN:
            self._kinds.clear()
        names = ("protocol", "dialect", "type", "code", "status")
        text = f',{dumped({name: getattr(frame, name) for name in names})[1:-1]},"layers":'
        self._kinds[frame.type, frame.code, frame.status, frame.dialect, frame.protocol] = text
        return text

    def _last(self, frame: Frame) -> str:
        findings = dumped([finding.record() for finding in frame.findings]) if frame.findings else "[]"
        request, response, latency = (
            "null" if number is None else number for number in (frame.request, frame.response, frame.latency_ns)
        )
        ranges = f',"ranges":{dumped(field_ranges(frame))}' if self.ranges else ""
        outcome = f',"outcome":"{frame.outcome}"' if frame.outcome else ""
        outcome += f",{dumped(around(frame))[1:-1]}" if frame.connection.outer is not None else ""
        first = f',"request":{request},"response":{response},"latency_ns":{latency}'
        return f'{first},"findings":{findings}{outcome}{ranges}}}\n'


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
        "failures": dict(sorted(totals.failures.items())),
    }
