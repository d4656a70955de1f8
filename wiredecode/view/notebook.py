"""One frame for a Python prompt or a notebook: a line, its fields, its tree as text or HTML.

For frames that were dissected with :func:`style`: bytes are kept, and shown as asked for later.
"""

import io
import sys
from collections.abc import Callable
from typing import Any

from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import BYTES, record
from wiredecode.view.theme import TreeOptions
from wiredecode.view.values import Raw

HTML_WIDTH = 120
"""Columns of a tree in a notebook."""


def style(*, show_secrets: bool = False) -> Style:
    """Style for dissecting frames that are shown later."""
    return Style(Raw, show_secrets)


def frame_line(frame: Frame) -> str:
    """Number, addresses, type and key facts, on one line."""
    from wiredecode.view.summary import SummaryLines, remark

    text = f"{frame.number} {frame.source} → {frame.destination} {frame.protocol or 'unknown protocol'}"
    text += f" {frame.shown_type}{SummaryLines().facts(frame)}"
    if frame.status != "ok" and frame.type:
        text += f" [{frame.status}]"
    return text + "".join(f" [{finding.severity}: {remark(finding)}]" for finding in frame.findings[:1])


def frame_fields(frame: Frame) -> dict[str, Any]:
    """The layers of the frame's record, with bytes as bytes."""
    fields: dict[str, Any] = _show_bytes(frame.layers or {}, bytes)
    return fields


def frame_record(frame: Frame, form: str, *, ranges: bool = False) -> dict[str, Any]:
    """The record, bytes as ``form`` of ``frames.record.BYTES`` says."""
    if form not in BYTES:
        raise ValueError(f"bytes cannot be shown as {form!r}; there is {', '.join(BYTES)}")
    layers = _show_bytes(frame.layers or {}, BYTES[form])
    return {**record(frame, ranges=ranges), "packets": list(frame.packets), "layers": layers}


def _show_bytes(value: Any, show: Callable[[bytes], Any]) -> Any:
    """A record whose bytes are shown."""
    if isinstance(value, Raw):
        return show(value.raw)
    if isinstance(value, dict):
        return {name: _show_bytes(inner, show) for name, inner in value.items()}
    return [_show_bytes(inner, show) for inner in value] if isinstance(value, list) else value


def frame_text(frame: Frame, width: int, *, full: bool = False, hexdump: bool = False) -> str:
    """The tree as text, without colours; lines are folded at ``width`` columns."""
    from rich.console import Console

    from wiredecode.view.tree import frame_tree

    text = io.StringIO()
    console = Console(file=text, width=width, color_system=None, highlight=False, markup=False, emoji=False)
    console.print(frame_tree(frame, TreeOptions(full=full, hexdump=hexdump)))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).rstrip()


def frame_html(frame: Frame) -> str:
    """The tree as HTML, closed up at first; everything from the wire is escaped."""
    from html import escape

    line, tree = escape(frame_line(frame)), escape(frame_text(frame, HTML_WIDTH, hexdump=True))
    return f"<details><summary><code>{line}</code></summary><pre>{tree}</pre></details>"


Frame.presenter = sys.modules[__name__]
