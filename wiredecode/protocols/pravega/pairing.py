"""Which reply answers which request: by request id, by writer and event number, or by segment and offset."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import islice

from wiredecode.frames.frame import Frame

MAX_OUTSTANDING = 10_000
"""Requests remembered per connection until their reply comes; beyond it the oldest is forgotten."""
MAX_LOOKED_AT = 64
"""Requests with the same id among which the one that a refusal means is looked for."""
MAX_ANSWERED_READS = 1024
"""Reads whose further replies are still expected."""

Key = tuple[Hashable, ...]


@dataclass(slots=True)
class Request:
    """A request that waits for its reply."""

    frame: int
    time_ns: int
    type: str
    segment: str | None
    offset: int | None
    """Of a read: where; of an append: its last event number."""
    group: Hashable
    """Its request id, or where there is none its segment."""


class Outstanding:
    """The requests of one connection that were not answered yet."""

    def __init__(self) -> None:
        self.table: OrderedDict[Key, Request] = OrderedDict()
        self.groups: dict[Hashable, OrderedDict[Key, None]] = {}
        self.answered: OrderedDict[Key, tuple[Request, int]] = OrderedDict()

    def ask(self, frame: Frame, key: Key, request: Request) -> None:
        """Remember a request."""
        self.take(key)
        self.table[key] = request
        self.groups.setdefault(request.group, OrderedDict())[key] = None
        frame.expects_response = True
        if len(self.table) > MAX_OUTSTANDING:
            self.take(next(iter(self.table)))
            frame.find("note", "limit", "outstanding", f"more than {MAX_OUTSTANDING} requests wait for a reply")

    def take(self, key: Key) -> Request | None:
        """The request of a key, which is then no longer outstanding."""
        request = self.table.pop(key, None)
        if request is not None:
            group = self.groups[request.group]
            del group[key]
            if not group:
                del self.groups[request.group]
        return request

    def refused(self, group: Hashable, segment: str | None, offset: int | None) -> Request | None:
        """The request with this id that a refusal means: with the same segment and offset if it names them."""
        keys = list(islice(self.groups.get(group, ()), MAX_LOOKED_AT))
        for wanted in ((segment, offset), (segment, None)):
            for key in keys:
                request = self.table[key]
                if wanted[0] in (None, request.segment) and wanted[1] in (None, request.offset):
                    return self.take(key)
        return self.take(keys[0]) if keys else None

    def read_at(self, offset: int | None, segment: str | None = None) -> Request | None:
        """An outstanding read at an offset, for replies that do not carry its request id."""
        for key, request in islice(self.table.items(), MAX_LOOKED_AT):
            if key[0] == "read" and request.offset == offset and segment in (None, request.segment):
                return self.take(key)
        return None

    def read(self, group: Hashable, segment: str | None, offset: int, length: int) -> Request | None:
        """The read that a reply answers; one read may have several, each going on where the last one ended."""
        request = self.take(("read", group, segment, offset))
        key = (group, segment)
        if request is None:
            known = self.answered.get(key)
            if known is None or known[1] != offset:
                return None
            request = known[0]
        self.answered[key] = request, offset + length
        self.answered.move_to_end(key)
        if len(self.answered) > MAX_ANSWERED_READS:
            self.answered.popitem(last=False)
        return request


def link(frame: Frame, request: Request) -> None:
    """Tie a reply to its request."""
    frame.request = request.frame
    frame.latency_ns = frame.time_ns - request.time_ns
