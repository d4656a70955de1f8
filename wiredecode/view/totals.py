"""What became of a capture, for people: the totals at the end, and what was seen instead of a known protocol."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from wiredecode.view.escape import escape

if TYPE_CHECKING:
    from wiredecode.capture.info import CaptureInfo
    from wiredecode.dissect import Totals
    from wiredecode.protocols.base import Protocol

MAX_ROWS = 12
"""Rows of other protocols and of reasons; the rest is counted."""
LABEL = 10


def totals_text(totals: Totals, protocols: tuple[Protocol, ...], *, how: str = "", verbose: bool = False) -> str:
    """Several aligned lines. ``how``: ``"interrupted"`` or ``"stopped"`` where the capture was not read to its end."""
    rows = [("packets", _packets(totals)), ("payload", _payload(totals, verbose))]
    if how == "interrupted":
        rows = []  # open connections have not been accounted for
    rows += [("", text) for text in (_skipped(totals, verbose), _missing(totals)) if text]
    rows += _frames(totals)
    rows += _others(totals)
    rows += [("limits", f"{code}: reached {count:,} times") for code, count in sorted(totals.limits.items())]
    if not how and not totals.closes:
        rows.append(("", "the bytes do not add up: please report this"))
    if not totals.frames and not how:
        rows += [("hint", text) for text in _hints(totals, protocols)]
    title = {"interrupted": "interrupted; so far:", "stopped": "stopped as asked; what was read until then:"}.get(how)
    lines = [f"{label:<{LABEL}}{text}" for label, text in rows]
    return escape_lines([title, *lines] if title else lines)


def files_text(info: CaptureInfo) -> str:
    """What the files say about themselves."""
    lines = []
    for file in info.files:
        form = ", ".join(part for part in (file.format, file.compression) if part)
        names = ", ".join(interface.name or f"interface {interface.id}" for interface in file.interfaces)
        lines.append(f"{'file':<{LABEL}}{file.path}: {form or 'not read'}{'; ' + names if names else ''}")
    return escape_lines(lines)


def escape_lines(lines: list[str]) -> str:
    return "\n".join(escape(line).rstrip() for line in lines)


def _packets(totals: Totals) -> str:
    text = f"{totals.packets:,} read, {totals.tcp_packets:,} with TCP in {count(totals.connections, 'connection')}"
    reasons = totals.not_decoded.most_common()
    if reasons:
        text += f"; not decoded: {_list(f'{number:,} {reason}' for reason, number in reasons)}"
    return text


def _payload(totals: Totals, verbose: bool) -> str:
    text = f"{totals.captured:,} bytes captured = {totals.framed:,} in frames + {totals.undecoded:,} undecoded"
    parts = (
        (sum(totals.other.values()), "of other protocols"),
        (totals.duplicate, "duplicate"),
        (totals.late, "late"),
        (totals.ignored, "out of stream"),
    )
    return text + "".join(f" + {size:,} {what}" for size, what in parts if size or verbose)
