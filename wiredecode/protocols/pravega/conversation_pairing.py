"""Pairs replies with requests: by request id, by writer and event number, or by segment and offset."""

from collections import OrderedDict, deque
from collections.abc import Hashable
from itertools import islice

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import Frame
from wiredecode.protocols.pravega.messages import Events, SegmentEvents, SegmentReader, SegmentReaders, Single
from wiredecode.protocols.shared.pairing import Losses, Newest, Outstanding, Request, link

MAX_LOOKED_AT = 64
"""Requests with the same id among which the one that a refusal means is looked for."""
MAX_ANSWERED_READS = 1024
"""Reads whose further replies are still expected."""

Key = tuple[Hashable, ...]


@dataclass(slots=True)
class SegmentRequest(Request):
    """A request about a segment."""

    type: str
    segment: str | None
    offset: int | None
    """Offset of a read; last event number of an append."""
    group: Hashable
    """Request id, or the segment without one."""
    repeats: "deque[SegmentRequest]" = field(default_factory=lambda: deque(maxlen=MAX_LOOKED_AT))
    """Reads of the same place that were sent before it was answered: their replies come in turn."""
    writer: bytes | None = None
    events: int | None = None
    """Number of events of an append, if it is known."""
    damage: int = 0
    """Replies known to be lost or truncated before it."""


class SegmentRequests(Outstanding[Key, SegmentRequest]):
    """The requests of one connection that were not answered yet; also by their request id or segment."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[Hashable, OrderedDict[Key, None]] = {}
        self.answered: Newest[Key, tuple[SegmentRequest, int]] = Newest(MAX_ANSWERED_READS)

    def add(self, frame: Frame, key: Key, request: SegmentRequest) -> SegmentRequest | None:
        same = self.get(key) if key[0] == "read" else None
        if same is not None:
            same.repeats.append(request)
            frame.expects_response = True
            return None
        replaced = super().add(frame, key, request)
        self.groups.setdefault(request.group, OrderedDict())[key] = None
        return replaced

    def pop(self, key: Key) -> SegmentRequest | None:
        request = super().pop(key)
        if request is not None and request.repeats:
            following = request.repeats.popleft()
            following.repeats = request.repeats
            self._wait(key, following)
        elif request is not None:
            group = self.groups[request.group]
            del group[key]
            if not group:
                del self.groups[request.group]
        return request

    def forget_repeatable(self) -> None:
        """Bytes were lost: a reply may belong to another read of its place, or setup of its writer, than waits."""
        for key in [key for key, _ in self.items() if key[0] in ("read", "setup")]:
            while self.pop(key) is not None:
                pass
        self.answered.clear()

    def find_refused(self, group: Hashable, segment: str | None, offset: int | None) -> SegmentRequest | None:
        """The request with this id that a refusal means: with the same segment and offset if it names them."""
        waiting: list[tuple[Key, SegmentRequest]] = []
        for key in islice(self.groups.get(group, ()), MAX_LOOKED_AT):
            request = self.get(key)
            assert request is not None
            if key[0] not in ("setup", "append") or offset in (None, -1, request.offset):  # of the event that it names
                waiting.append((key, request))
        for wanted in ((segment, offset), (segment, None)):
            for key, request in waiting:
                if wanted[0] in (None, request.segment) and wanted[1] in (None, request.offset):
                    return self.pop(key)
        return self.pop(waiting[0][0]) if len(waiting) == 1 and waiting[0][0][0] not in ("read", "setup") else None

    def read_at(self, offset: int | None, segment: str | None = None) -> SegmentRequest | None:
        """An outstanding read at an offset, for replies that do not carry its request id."""
        for key, request in islice(self.items(), MAX_LOOKED_AT):
            if key[0] == "read" and request.offset == offset and segment in (None, request.segment):
                return self.pop(key)
        return None

    def read(self, group: Hashable, segment: str | None, offset: int, length: int) -> SegmentRequest | None:
        """The read that a reply answers; one read may have several, each going on where the last one ended."""
        request = self.pop(("read", group, segment, offset))
        key = (group, segment)
        if request is None:
            previous = self.answered.get(key)
            if previous is None or previous[1] != offset:
                return None
            request = previous[0]
        self.answered.put(key, (request, offset + length))
        return request


class DialectReader:
    """State of a connection that both dialects need."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        """Seen from the start: what was not set up was never set up."""
        self.blind = not whole
        """The beginning of a block may have been lost."""
        self.outstanding, self.losses = SegmentRequests(), Losses()
        self.reads = SegmentReaders()
        self.events: Events | None = None
        self.single: Single | None = None
        self.raw: bytes | None = None

    def link(self, frame: Frame, request: SegmentRequest | None) -> None:
        if request is not None:
            link(frame, request)
        elif self.whole and frame.status == "ok" and frame.all_seen(1 - frame.side):
            frame.find("note", "protocol", "no-request", "no request for this reply was captured")

    def report_events(self, frame: Frame, reader: SegmentReader, piece: SegmentEvents) -> None:
        """Report the events of a piece of a segment: events that end in it, and one that does not."""
        self.events = piece.events
        if (count := piece.count()) is not None:
            frame.generate("event_count", count)
        if piece.note == "unframed":
            frame.generate("framed", False)
        unfinished = reader.find_unfinished()
        if unfinished is not None and piece.note != "seen":
            frame.generate("unfinished_event_offset", unfinished[0])
            frame.generate("unfinished_event_bytes", unfinished[1])
