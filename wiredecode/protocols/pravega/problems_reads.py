"""Reads that were slow although their data was there, told apart from those that wait at the tail of a segment."""

from __future__ import annotations

from dataclasses import dataclass, field

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.plurals import counted
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Report, Rule, ref_of

CODES = codes_of("pravega")

MOST_SEGMENTS = 10_000
"""Of which the end is known; the oldest are forgotten."""
MOST_READS = 1000
"""Of one segment that may wait at once; more are not judged."""
SLOW_NS = 1_000_000_000


@dataclass(slots=True)
class Read:
    """A read that waits."""

    place: FrameRef
    side: int
    offset: int
    there_ns: int | None = None
    """Since when there is data at its offset; None: it waits at the tail, as far as is known."""


@dataclass(slots=True)
class Segment:
    """How far a segment goes, and who waits for more."""

    end: int = -1
    reads: Newest[int, Read] = field(default_factory=lambda: Newest(MOST_READS))

    def grew(self, end: object, time_ns: int) -> None:
        if not isinstance(end, int) or end <= self.end:
            return
        self.end = end
        for read in self.reads.values():
            if read.there_ns is None and end > read.offset:
                read.there_ns = time_ns


class Reads(Rule):
    """Slow reads, by segment."""

    types = frozenset({"ReadSegment", "SegmentRead", "DataAppended", "StreamSegmentInfo"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._segments: Newest[str, Segment] = Newest(MOST_SEGMENTS)
        self._tail: dict[str, tuple[int, int]] = {}
        """Of segments: how many reads waited at the tail, and the longest time."""

    def frame(self, frame: Frame) -> None:
        values = frame.values
        if frame.type == "DataAppended":
            self._grew(frame.generated.get("segment"), values.get("current_segment_write_offset"), frame.time_ns)
        elif frame.type == "StreamSegmentInfo":
            self._grew(values.get("segment_name"), values.get("write_offset"), frame.time_ns)
        elif frame.type == "ReadSegment":
            self._requests(frame)
        else:
            self._answered(frame)

    def _grew(self, name: object, end: object, time_ns: int) -> None:
        if isinstance(name, str):
            self._segments.get_or_make(name, Segment).grew(end, time_ns)

    def _requests(self, frame: Frame) -> None:
        name, offset = frame.values.get("segment"), frame.values.get("offset")
        if not isinstance(name, str) or not isinstance(offset, int):
            return
        segment = self._segments.get_or_make(name, Segment)
        there = frame.time_ns if segment.end > offset else None
        segment.reads.put(frame.id, Read(ref_of(frame), frame.side, offset, there))

    def _answered(self, frame: Frame) -> None:
        values = frame.values
        name, offset, data = values.get("segment"), values.get("offset"), values.get("data")
        if not isinstance(name, str) or not isinstance(offset, int):
            return
        segment = self._segments.get_or_make(name, Segment)
        read = segment.reads.pop(frame.request, None) if frame.request is not None else None
        if read is not None:
            since = read.there_ns
            if since is None and not values.get("at_tail") and not values.get("end_of_segment"):
                since = read.place.time_ns  # there was more than it brings
            if since is not None and frame.time_ns - since >= SLOW_NS:
                self._slow(name, read, frame.time_ns - since)
            elif since is None:
                count, longest = self._tail.get(name, (0, 0))
                self._tail[name] = count + 1, max(longest, frame.time_ns - read.place.time_ns)
        if isinstance(data, bytes | memoryview):
            segment.grew(offset + len(data), frame.time_ns)

    def _slow(self, name: str, read: Read, took: int) -> None:
        problem = self.report.add(CODES["slow-read"], "", name, frame=read.place)
        problem.weight = max(problem.weight, took)
        worst = f"{problem.weight / 1e9:.3f} s"
        problem.what = f"{counted(problem.count, 'read')} of {printable(name)} took up to {worst} with data there"

    def finish(self) -> None:
        for name in self._segments:
            problem = self.report.problems.get((CODES["slow-read"].code, name))
            if problem is not None and name in self._tail:
                count, longest = self._tail[name]
                problem.detail(f"{count:,} others waited at the tail for data, up to {longest / 1e9:.3f} s: no delay")
