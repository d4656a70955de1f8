"""Recognising TANK, cutting it into frames, and finding the next frame after a hole."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wiredecode.layer import Layer
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Found, Protocol, Rejected, Split, Undecided, Verdict
from wiredecode.protocols.tank.conversation import TankConversation
from wiredecode.protocols.tank.evidence import MAX_PAYLOAD_BYTES, UNDECIDED, Judgement, judge
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES, Unknown

PORT = 11011
FRAMES_TO_BELIEVE = 2
"""Good frames in a row that identify the protocol, where not one alone does."""
SEARCH_BYTES = 256 * 1024
"""While searching, no frame is waited for that is longer and not strong from its beginning."""
RECOGNISE_BYTES = 64 * 1024
"""A direction without a frame in so many bytes is not TANK, unless the port says so."""

CANDIDATE = re.compile(rb"(?=[\x01-\x0c][\x00-\xff]{3}[\x00-\x10])", re.DOTALL)


class Tank(Protocol):
    """TANK, the broker of phaistos-networks; clients and replicas speak the same protocol."""

    name = "tank"
    title = "TANK"
    ports = (PORT,)

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        if started:
            needed = 1 if port else FRAMES_TO_BELIEVE
            good, strong, request, last = chain(data, 0, needed)
            if strong or good >= needed:
                return Verdict(0, client=request)
            return Rejected() if last.good is False or final else Undecided()
        if not final and len(data) < HEADER.size:
            return Undecided()
        found = self._find(data, final, FRAMES_TO_BELIEVE, strong_alone=port)
        if found.found:
            return Verdict(found.position, client=chain(data, found.position, FRAMES_TO_BELIEVE)[2])
        hopeless = final or (len(data) >= RECOGNISE_BYTES and not port)
        return Rejected() if hopeless else Undecided()

    def split(self, data: bytes) -> Split:
        ends: list[int] = []
        position, end = 0, len(data)
        unpack, header, limit = HEADER.unpack_from, HEADER.size, MAX_PAYLOAD_BYTES
        while position + header <= end:
            length = unpack(data, position)[1]
            if length > limit:
                ends.append(position + header)
                return Split(ends, bad=f"a payload of {length} bytes is above the limit of {limit}")
            stop = position + header + length
            if stop > end:
                return Split(ends, need=stop - position)
            ends.append(stop)
            position = stop
        return Split(ends)

    def search(self, data: bytes, *, final: bool) -> Found:
        """A frame with much structure, or two frames in a row; right after a hole, also a single one before the next."""
        return self._find(data, final, FRAMES_TO_BELIEVE, strong_alone=True)

    def _find(self, data: bytes, final: bool, needed: int, strong_alone: bool) -> Found:
        for match in CANDIDATE.finditer(data):
            position = match.start()
            good, strong, _, last = chain(data, position, needed)
            if good >= needed or (strong and strong_alone):
                return Found(position, True)
            if final and position == 0 and good and last.good is None:
                return Found(position, True)
            if last.good is None and not final and worth_waiting(data, position, last):
                return Found(position, False)
        return Found(max(0, len(data) - HEADER.size + 1), False)

    def conversation(self, connection: Connection, dialect: str | None) -> TankConversation:
        return TankConversation(connection, self.ports)

    def layers(self) -> Iterable[type[Layer]]:
        return [*dict.fromkeys([*REQUESTS.values(), *RESPONSES.values()]), Unknown]


def chain(data: bytes, position: int, needed: int) -> tuple[int, bool, bool | None, Judgement]:
    """Follow frames: how many are good, whether one alone decides, whether they are requests, the last judgement."""
    good, strong, request = 0, False, None
    while True:
        judged = judge(data, position)
        strong = strong or judged.strong
        request = judged.request if request is None else request
        if judged.good is not True or strong:
            return good + (judged.good is True), strong, request, judged
        good += 1
        if good == needed:
            return good, strong, request, judged
        position = judged.end


def worth_waiting(data: bytes, position: int, last: Judgement) -> bool:
    """Whether the frame that is incomplete is short enough to wait for."""
    return last is UNDECIDED and (len(data) - position < HEADER.size or HEADER.unpack_from(data, position)[1] < SEARCH_BYTES)
