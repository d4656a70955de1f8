"""What changes for TANK's topics."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.changes import STREAM, Change


def topic(frame: Frame) -> Iterator[Change]:
    name, result = printable(frame.values["topic"]), frame.values["result"]
    yield Change(STREAM, name, f"topic {name} is created" if not result else f"topic {name} was not created")


CHANGES = {"CreateTopicResponse": topic}
