"""Filters over the repository's captures, and the records to compare with."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from wiredecode.capture import CaptureError, open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.filter import Filter, compile_filter
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import record

CAPTURES = Path(__file__).parent.parent.parent / "captures"
BASIC = "rabbitmq-stream/c43_basic.pcap"


def frames(name: str, style: Style | None, select: Filter | None = None, *, link: bool = True) -> list[Frame]:
    """The frames of a capture, up to its damage if there is any."""
    found: list[Frame] = []
    try:
        dissector = Dissector(Demand(style=style, select=select, link_responses=link))
        for frame in dissector.frames(open_capture([CAPTURES / name])):
            found.append(frame)  # noqa: PERF402 - what came before an error counts
    except CaptureError:
        pass
    return found


@cache
def known(name: str, style: Style | None) -> list[Frame]:
    """All frames of a capture, dissected once."""
    return frames(name, style)


@cache
def records(name: str) -> list[dict[str, Any]]:
    """The records of a capture, as ``--json`` writes them."""
    return [record(frame) for frame in known(name, Style())]


def numbers(text: str, name: str = BASIC) -> list[int]:
    """Numbers of the matching frames when each frame is decoded."""
    chosen = compile_filter(text)
    found = known(name, chosen.style(None))
    return [frame.number for frame in found if chosen.matches(frame)]


def first_ns(name: str) -> int:
    """Time of the first packet of a capture."""
    return int(next(iter(open_capture([CAPTURES / name]))).time_ns[0])
