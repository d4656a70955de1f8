"""Frames as PDML, the XML that tshark writes with ``-T pdml``; each frame is a packet there.

Source: Wireshark's README.xml-output and what tshark 4.0 writes. Fields have the names of our filters; ``pos`` and
``size`` are their byte range in the frame, ``value`` these bytes as hex, ``show`` the value as records have it. Secrets
have no ``value``.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.sax.saxutils import quoteattr

from wiredecode.fields.layer import Range
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import field_ranges, rfc3339
from wiredecode.view.hexdump import hidden_ranges

HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<pdml version="0" creator="wiredecode/{version}">\n'
FOOT = "</pdml>\n"
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold, not even as a reference."""
LINE_BREAKS = {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
"""A reader would make blanks of these in attributes."""


def attribute(value: object) -> str:
    """An attribute with its quotes, for any text."""
    text = NOT_XML.sub(lambda match: f"\\x{ord(match[0]):02x}", str(value))
    return quoteattr(text, LINE_BREAKS)


def element(tag: str, closed: bool = True, /, **attributes: object) -> str:
    spelled = "".join(f" {key}={attribute(value)}" for key, value in attributes.items() if value is not None)
    return f"<{tag}{spelled}{'/' if closed else ''}>"


class Pdml:
    """Writes frames; ``show`` says how bytes are shown, ``secrets`` leaves those of passwords and tokens in."""

    def __init__(self, show: Callable[[Any], Any], *, secrets: bool) -> None:
        self.show, self.secrets = show, secrets

    def packet(self, frame: Frame) -> str:
        inside = [*self._general(frame), *self._frame(frame), *self._layers(frame)]
        return "\n".join(["<packet>", *inside, "</packet>", ""])

    def _general(self, frame: Frame) -> Iterator[str]:
        size, there = frame.length, frame.stop - frame.start
        when = frame.time_ns // 1_000_000_000, frame.time_ns % 1_000_000_000
        rows = (
            ("num", frame.id, "Number", f"{frame.id:x}"),
            ("len", size, "Frame Length", f"{size:x}"),
            ("caplen", there, "Captured Length", f"{there:x}"),
            ("timestamp", rfc3339(frame.time_ns), "Captured Time", f"{when[0]}.{when[1]:09d}"),
        )
        yield element("proto", False, name="geninfo", pos=0, showname="General information", size=size)
        for name, show, title, value in rows:
            yield element("field", name=name, pos=0, show=show, showname=title, value=value, size=size)
        yield "</proto>"

    def _frame(self, frame: Frame) -> Iterator[str]:
        """Properties of every frame, by the names of filters."""
        ends, side = frame.connection.endpoints, frame.side
        values = {
            "number": frame.id,
            "type": frame.type,
            "protocol": frame.protocol,
            "dialect": frame.dialect,
            "sender": frame.sender,
            "status": frame.status,
            "offset": frame.offset,
            "length": frame.length,
            "packets": ",".join(map(str, frame.packets)),
            "src": ends[side],
            "dst": ends[1 - side],
            "request": frame.request,
            "response": frame.response,
            "latency": None if frame.latency_ns is None else frame.latency_ns / 1e9,
        }
        label = f"Frame {frame.id}: {frame.protocol or ''} {frame.type or ''}".rstrip()
        yield element("proto", False, name="frame", showname=label, size=frame.length, pos=0)
        for name, value in values.items():
            if value is not None:
                full = f"ip.{name}" if name in ("src", "dst") else name if name == "latency" else f"frame.{name}"
                yield element("field", name=full, showname=f"{name}: {value}", size=0, pos=0, show=value)
        for finding in frame.findings:
            yield element("field", False, name="finding", showname=finding.message, size=0, pos=0, show=finding.code)
            for name in ("severity", "group", "code", "message", "field"):
                value = getattr(finding, name)
                if value is not None:
                    full = f"finding.{name}"
                    yield element("field", name=full, showname=f"{name}: {value}", size=0, pos=0, show=value)
            yield "</field>"
        yield "</proto>"

    def _layers(self, frame: Frame) -> Iterator[str]:
        ranges = field_ranges(frame)
        layer = frame.layer(frame.data) if frame.layer is not None and not self.secrets else None
        hidden = [] if self.secrets else hidden_ranges(frame, layer)
        for name, record in (frame.layers or {}).items():
            spans = [span for path, span in ranges.items() if path.startswith(f"{name}.")]
            first, last = min((span[0] for span in spans), default=0), max((span[1] for span in spans), default=0)
            yield element(
                "proto", False, name=name, showname=f"{name} {frame.type or ''}", size=last - first, pos=first
            )
            for key, value in record.items():
                yield from self._field(frame, f"{name}.{key}", f"{name}.{key}", value, ranges, hidden)
            yield "</proto>"

    def _field(
        self, frame: Frame, path: str, name: str, value: Any, ranges: dict[str, list[int]], hidden: list[Range]
    ) -> Iterator[str]:
        """A field with what it holds; ``path`` has the indices of elements, ``name`` not."""
        span = ranges.get(path)
        first, last = span or (0, 0)
        where: dict[str, object] = {"size": last - first, "pos": first}
        title = path.rpartition(".")[2]
        if isinstance(value, dict):
            yield element("field", False, name=name, showname=title, **where, show="")
            for key, inner in value.items():
                yield from self._field(frame, f"{path}.{key}", f"{name}.{key}", inner, ranges, hidden)
            yield "</field>"
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                at = f"{path}[{index}]"
                whole = at if at in ranges or isinstance(inner, dict) else path  # numbers and texts share one range
                yield from self._field(frame, whole, name, inner, ranges, hidden)
        elif value is not None:
            text = _text(value if not isinstance(value, bytes) else self.show(value))
            raw = None
            if span is not None and last > first and not any(start < last and first < stop for start, stop in hidden):
                raw = frame.data[first:last].hex()
            yield element("field", name=name, showname=f"{title}: {text}", **where, show=text, value=raw)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
