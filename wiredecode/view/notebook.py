"""One frame for a Python prompt or a notebook: a line, its fields, its tree as text or HTML.

For frames that were dissected with :func:`style`: bytes are kept, and shown as asked for later.
"""

import dataclasses
import io
from collections.abc import Callable, Iterable
from copy import copy
from html import escape
from typing import Any, ClassVar

from wiredecode.fields.layer import Style
from wiredecode.frames.columns import COLUMNS, TUNNEL_COLUMNS
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import BYTES, record
from wiredecode.view.theme import TreeOptions
from wiredecode.view.values import Raw

HTML_WIDTH = 120
"""Columns of a tree in a notebook."""
_NO_ROW = ("time", "connection", "layers", "findings", *TUNNEL_COLUMNS)
PLAIN = (*(each.name for each in COLUMNS if each.name not in _NO_ROW), "fields")
"""Attributes that a row of a DataFrame has, by the names of tables: none that leads to other frames."""


def row_fields(names: Iterable[str]) -> dict[str, dataclasses.Field[Any]]:
    """Attributes as the fields of a dataclass: ``dataclasses.asdict``, and so pandas, makes rows by them."""
    fields = {name: copy(dataclasses.fields(Frame)[0]) for name in names}
    for name, field in fields.items():
        field.name = name
    return fields


class ShownFrame(Frame):
    """A frame of :func:`wiredecode.read`; dissected with :func:`style`, it shows its fields."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]] = row_fields(PLAIN)

    def __repr__(self) -> str:
        return f"<Frame {frame_line(self)}>"

    @property
    def frame(self) -> int:
        """Its number, as tables call it."""
        return self.number

    @property
    def src(self) -> str:
        """``address:port`` of the sender, as tables call it."""
        return self.source

    @property
    def dst(self) -> str:
        """``address:port`` of the receiver, as tables call it."""
        return self.destination

    @property
    def fields(self) -> dict[str, Any]:
        """The fields by layer, outermost first, bytes as bytes: ``frame.fields["nats"]["subject"]``."""
        found: dict[str, Any] = _show_bytes(self.layers or {}, bytes)
        return found

    def record(self, *, bytes: str = "hex", ranges: bool = False) -> dict[str, Any]:  # noqa: A002 - as --bytes
        """The record of docs/records.md. ``bytes``: hex, base64, text, sha256 or length, as ``--bytes``."""
        return frame_record(self, bytes, ranges=ranges)

    def tree(self, *, width: int = 100, full: bool = False, hexdump: bool = False) -> str:
        """The tree of ``wiredecode pcap`` as text, lines as long as ``width`` columns; escaped."""
        return frame_text(self, width, full=full, hexdump=hexdump)

    def _repr_html_(self) -> str:
        """The tree as HTML, closed up at first; everything from the wire is escaped."""
        line, tree = escape(frame_line(self)), escape(self.tree(width=HTML_WIDTH, hexdump=True))
        return f"<details><summary><code>{line}</code></summary><pre>{tree}</pre></details>"


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
