"""How far readers are in their segments, in bytes, and how far from the end, as far as the wire tells it."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import LAG, MOST_KNOWN, POSITION, Gauge, Reading


class Readers(Gauge):
    """The next byte of each reader's segment, and the bytes between it and the end that was told last."""

    types = frozenset({"ReadSegment", "SegmentRead", "DataAppended", "StreamSegmentInfo"})

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        """By segment: the largest write offset that was told."""

    def read(self, frame: Frame) -> Iterator[Reading]:
        values = frame.values
        if frame.type == "DataAppended":
            self._grew(frame.generated["segment"], values["current_segment_write_offset"])
        elif frame.type == "StreamSegmentInfo":
            self._grew(values["segment_name"], values["write_offset"])
        else:
            yield from self._reader(frame, values["segment"], values["offset"])

    def _reader(self, frame: Frame, segment: str, offset: int) -> Iterator[Reading]:
        of = f"{printable(segment)}, bytes, reader #{frame.connection.number}"
        if frame.type == "ReadSegment":
            yield Reading(POSITION, of, offset)
            return
        offset += len(frame.values["data"])
        yield Reading(POSITION, of, offset)
        self._grew(segment, offset)
        if frame.values["at_tail"] or frame.values["end_of_segment"]:
            yield Reading(LAG, of, 0)
        elif (end := self._ends.get(segment, offset)) > offset:
            yield Reading(LAG, of, end - offset)

    def _grew(self, segment: str, end: int) -> None:
        if segment in self._ends or len(self._ends) < MOST_KNOWN:
            self._ends[segment] = max(self._ends.get(segment, 0), end)


GAUGES = (Readers,)
