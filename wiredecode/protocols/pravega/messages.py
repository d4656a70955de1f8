"""Events: cutting the bytes of a segment, which come in pieces, into events; events as rows."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import DELIVER, PUBLISH, Messages
from wiredecode.protocols.pravega.layers import HEADER
from wiredecode.protocols.pravega.layers_kinds import escape_surrogates

MAX_EVENT_BUFFER = 16 * 1024 * 1024
"""Bytes kept of unfinished events, per connection; a larger event is stepped over."""
MAX_SEGMENTS = 1024
"""Segments (per reader) that are followed on a connection."""
MAX_BOUNDARIES = 1024
"""Offsets kept per segment at which an event is known to start."""
MAX_EMPTY_RUN = 1024
"""Empty events in a row: more are zero-filled bytes."""

Bounds = tuple[int, int]


@dataclass(slots=True)
class Walked:
    """The events at the front of some bytes."""

    bounds: list[Bounds]
    """Where the contents of each whole event start and stop."""
    position: int
    """Where the first unfinished event, or what is no event, starts."""
    sound: bool
    """Whether what follows can be an event."""


def walk(data: bytes | bytearray, position: int = 0, stop: int | None = None) -> Walked:
    """Follow the headers of framed events: int32 0, int32 length, contents."""
    end = len(data) if stop is None else stop
    bounds: list[Bounds] = []
    empty = 0
    unpack, size, append = HEADER.unpack_from, HEADER.size, bounds.append
    while position + size <= end:
        kind, length = unpack(data, position)
        if kind or length > 0x7FFFFFFF:
            return Walked(bounds, position, False)
        start = position + size
        following = start + length
        if following > end:
            return Walked(bounds, position, True)
        empty = 0 if length else empty + 1
        if empty > MAX_EMPTY_RUN:
            return Walked(bounds, position, False)
        append((start, following))
        position = following
    next_bytes = data[position : min(end, position + 4)]
    return Walked(bounds, position, not any(next_bytes))


@dataclass(slots=True)
class Events:
    """Events of one message, not yet cut out of the bytes they are in."""

    source: bytes
    bounds: list[Bounds]
    key: str = "event_number"
    """Name in records of the numbers that ``base`` counts: ``event_number``, or ``offset`` in the segment."""
    base: int | None = None
    """Number of the first event, or offset of the first byte of ``source``; None: not known."""

    def record(self, show: Callable[[bytes], str]) -> list[dict[str, Any]]:
        source, key, base = self.source, self.key, self.base
        if base is None:
            return [{"data": show(source[start:stop])} for start, stop in self.bounds]
        if key == "offset":
            base -= HEADER.size
            return [{"offset": base + start, "data": show(source[start:stop])} for start, stop in self.bounds]
        numbered = enumerate(self.bounds, base)
        return [{key: number, "data": show(source[start:stop])} for number, (start, stop) in numbered]


@dataclass(slots=True, frozen=True)
class Single:
    """An event that is a message by itself."""

    data: bytes
    number: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class SegmentEvents:
    """Events in one piece of a segment."""

    events: Events | None = None
    note: str | None = None
    """``seen``: nothing new; ``gap``: bytes before it are missing; ``unframed``: no events here; ``too-large``."""
    framed: bool = True
    """Whether it is known which events end here: not if the beginning of an event is unknown."""

    def count(self) -> int | None:
        """Events that end here, if that is known."""
        return len(self.events.bounds) if self.events else 0 if self.framed else None


@dataclass(slots=True, eq=False)
class SegmentReader:
    """One segment as it is read (or written) piece by piece."""

    in_sync: bool = False
    """Whether ``next`` says anything yet."""
    next: int = 0
    """Offset of the byte expected next."""
    start: int = 0
    """Offset at which the unfinished event starts; beyond ``next`` while an event is stepped over."""
    buffer: bytearray = field(default_factory=bytearray)
    aligned: bool = False
    """Whether the bytes at ``start`` begin an event, or look like it."""
    proven: bool = False
    """Whether more than zeros says so: zeros alone may be inside an event."""
    sure: bool = False
    """Whether an event must begin there, if there are any: followed from the front of the segment."""
    boundaries: set[int] = field(default_factory=set)
    older: set[int] = field(default_factory=set)

    def feed(self, offset: int, data: bytes, room: int) -> SegmentEvents:
        """Take the bytes at ``offset``; ``room`` bounds what may be kept of an unfinished event."""
        note = None
        if self.in_sync and offset + len(data) <= self.next and not self._starts_event(offset):
            return SegmentEvents(note="seen")
        if not self.in_sync or offset > self.next or (offset < self.next and self._starts_event(offset)):
            note = "gap" if self.in_sync and offset > self.next else None
            self._restart(offset, data)
        elif offset < self.next:
            data = data[self.next - offset :]
        if not self.aligned:
            self.next = max(self.next, offset) + len(data)
            return self._no_events(note)
        events = self._cut(data, room)
        events.note = events.note or note
        return events

    def find_unfinished(self) -> tuple[int, int] | None:
        """Offset and bytes received of the event that is not whole yet."""
        return (self.start, len(self.buffer)) if self.proven and self.aligned and self.buffer else None

    def _no_events(self, note: str | None = None, events: Events | None = None) -> SegmentEvents:
        """Result for bytes that do not begin an event: they may be the rest of one."""
        return SegmentEvents(events, note or ("unframed" if self.sure else None), self.sure)

    def _starts_event(self, offset: int) -> bool:
        return offset in self.boundaries or offset in self.older

    def _restart(self, offset: int, data: bytes) -> None:
        """Begin anew where an event seems to start."""
        self.in_sync, self.next, self.start = True, offset, offset
        self.buffer = bytearray()
        self.sure = not offset or (self.sure and self._starts_event(offset))
        self.proven = self.sure or self._starts_event(offset)
        self.aligned = self._starts_event(offset) or not any(data[:4])

    def _cut(self, data: bytes, room: int) -> SegmentEvents:
        skip = min(len(data), max(0, self.start - self.next - len(self.buffer))) if not self.buffer else 0
        self.next += len(data)
        if skip:
            data = data[skip:]
        if self.buffer:
            self.buffer += data
        source: bytes | bytearray = self.buffer or data
        if not self.proven:
            if len(source) < HEADER.size:
                self.buffer = bytearray(source)
                return SegmentEvents(framed=False)
            self.proven = any(source[4 : HEADER.size])
            if not self.proven:
                self.aligned, self.buffer = False, bytearray()
                return self._no_events()
        walked = walk(source)
        base = self.start
        events = None
        if walked.bounds:
            events = Events(bytes(source[: walked.position]), walked.bounds, "offset", base)
        if walked.sound or self.sure:
            self._remember([base, *(base + last for _, last in walked.bounds)])
        self.start = base + walked.position
        if not walked.sound:
            self.aligned, self.buffer = False, bytearray()
            return self._no_events(events=events if self.sure else None)  # else they were zeros
        rest = len(source) - walked.position
        if rest > room and rest < HEADER.size:
            self.aligned, self.buffer = False, bytearray()
            return SegmentEvents(events, "too-large")
        if rest > room:
            self.start += HEADER.size + HEADER.unpack_from(source, walked.position)[1]
            self.buffer = bytearray()
            return SegmentEvents(events, "too-large")
        if source is self.buffer:
            del self.buffer[: walked.position]
        else:
            self.buffer = bytearray(data[walked.position :])
        return SegmentEvents(events)

    def _remember(self, offsets: list[int]) -> None:
        if len(self.boundaries) >= MAX_BOUNDARIES // 4:
            self.older, self.boundaries = self.boundaries, set()
        self.boundaries.update(offsets[-MAX_BOUNDARIES // 4 :])


class SegmentReaders:
    """All runs of a connection, within its limits."""

    def __init__(self) -> None:
        self.table: OrderedDict[object, SegmentReader] = OrderedDict()
        self.buffered = 0

    def feed(self, key: object, offset: int, data: bytes) -> tuple[SegmentReader, SegmentEvents]:
        reader = self.table.get(key)
        if reader is None:
            reader = self.table[key] = SegmentReader()
            if len(self.table) > MAX_SEGMENTS:
                self.buffered -= len(self.table.popitem(last=False)[1].buffer)
        self.table.move_to_end(key)
        before = len(reader.buffer)
        events = reader.feed(offset, data, MAX_EVENT_BUFFER - self.buffered + before)
        self.buffered += len(reader.buffer) - before
        return reader, events


LIMIT = 1 << 63
"""Event numbers and offsets are below it."""


def add_messages(frame: Frame, events: Events | None, single: Single | None, out: Messages) -> None:
    """Add the events of a frame: either several in one stretch of bytes, or one by itself."""
    segment = frame.generated.get("segment")
    if segment is None and "segment" in frame.values:
        segment = escape_surrogates(frame.values["segment"])
    operation = DELIVER if frame.type == "SegmentRead" else PUBLISH
    if single is not None:
        numbers, offsets = _known_number(single.number), _known_number(single.offset)
        out.add(frame, operation, [single.data], topic=segment, sequences=numbers, offsets=offsets)
    if events is None:
        return
    source, bounds, base = events.source, events.bounds, events.base
    bodies = [source[start:stop] for start, stop in bounds]
    if base is None:
        out.add(frame, operation, bodies, topic=segment)
    elif events.key == "offset":
        valid, front = 0 <= base < LIMIT - len(source), base - HEADER.size
        out.add(frame, operation, bodies, topic=segment, offsets=[front + at for at, _ in bounds] if valid else None)
    else:
        valid = base >= 0 and base + len(bodies) <= LIMIT
        out.add(frame, operation, bodies, topic=segment, sequences=range(base, base + len(bodies)) if valid else None)


def _known_number(number: int | None) -> list[int | None] | None:
    return None if number is None or number < 0 else [number]
