"""Events as rows: those that appends store, and those that reads bring."""

from __future__ import annotations

from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Messages
from wiredecode.protocols.pravega.base import HEADER
from wiredecode.protocols.pravega.events import Events, Single
from wiredecode.protocols.pravega.kinds import escape_surrogates

LIMIT = 1 << 63
"""Event numbers and offsets are below it."""


def add_messages(frame: Frame, events: Events | None, single: Single | None, out: Messages) -> None:
    """Add the events of a frame: either several in one stretch of bytes, or one by itself."""
    segment = frame.generated.get("segment")
    if segment is None and "segment" in frame.values:
        segment = escape_surrogates(frame.values["segment"])
    operation = DELIVER if frame.type == "SegmentRead" else PUBLISH
    if single is not None:
        numbers, offsets = _known(single.number), _known(single.offset)
        out.add(frame, operation, [single.data], topic=segment, sequences=numbers, offsets=offsets)
    if events is None:
        return
    source, bounds, base = events.source, events.bounds, events.base
    bodies = [source[start:stop] for start, stop in bounds]
    if base is None:
        out.add(frame, operation, bodies, topic=segment)
    elif events.key == "offset":
        known, front = 0 <= base < LIMIT - len(source), base - HEADER.size
        out.add(frame, operation, bodies, topic=segment, offsets=[front + at for at, _ in bounds] if known else None)
    else:
        known = base >= 0 and base + len(bodies) <= LIMIT
        out.add(frame, operation, bodies, topic=segment, sequences=range(base, base + len(bodies)) if known else None)


def _known(number: int | None) -> list[int | None] | None:
    return None if number is None or number < 0 else [number]
