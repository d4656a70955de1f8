"""Recognising TANK, cutting it into frames, and finding the next frame after a hole."""

from __future__ import annotations

import re
from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.net.types import Connection
from wiredecode.protocols.base import Found, Protocol, Rejected, Split, Undecided, Verdict
from wiredecode.protocols.shared.framing import LengthPrefix, Number
from wiredecode.protocols.tank.conversation import TankConversation
from wiredecode.protocols.tank.evidence import MAX_PAYLOAD_BYTES, judge
from wiredecode.protocols.tank.generated import COLUMN_TYPES, GENERATED
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES, Unknown
from wiredecode.protocols.tank.names import MESSAGES, PING

PORT = 11011
FRAMES_TO_BELIEVE = 2
"""Good frames in a row that identify the protocol, one of them with much structure ..."""
WEAK_FRAMES_TO_BELIEVE = 4
"""... or so many without: acknowledgements, Pings and the like."""
WEAK_FRAMES_WHEN_SURE = 3
"""The same where there is TANK before."""
SEARCH_BYTES = 256 * 1024
"""While searching, no frame is waited for that is longer and not strong from its beginning."""

CANDIDATE = re.compile(rb"(?=[\x01-\x0c][\x00-\xff]{3}[\x00-\x10])", re.DOTALL)


class Tank(Protocol):
    """TANK, the broker of phaistos-networks; clients and replicas speak the same protocol."""

    name = "tank"
    title = "TANK"
    ports = (PORT,)
    framing = LengthPrefix(
        Number(1, 4, 0, MAX_PAYLOAD_BYTES, "a payload of {value} bytes is above the limit of {most}", little=True),
        after=HEADER.size,
        header=HEADER.size,
    )
    requests = {"tank": frozenset(name for code, name in MESSAGES.items() if code != PING)}
    generated, column_types = GENERATED, COLUMN_TYPES

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        if started:
            seen = Chain(data, 0)
            if seen.strong or seen.good >= (1 if port else FRAMES_TO_BELIEVE):
                return Verdict(0, client=seen.request)
            return Rejected() if seen.last.good is False or final else Undecided()
        found = self._find(data, final, sure=port)
        if found.found:
            return Verdict(found.position, client=Chain(data, found.position).request)
        return Rejected() if final else Undecided(found.position)

    def split(self, data: bytes) -> Split:
        """A header whose length is out of bounds is a frame: brokers close the connection then."""
        split = self.framing.split(data)
        if split.bad is not None:
            split.ends.append((split.ends[-1] if split.ends else 0) + HEADER.size)
        return split

    def search(self, data: bytes, *, final: bool) -> Found:
        """A frame with much structure, or two in a row; between two holes also a single one."""
        return self._find(data, final, sure=True)

    def _find(self, data: bytes, final: bool, sure: bool) -> Found:
        """Find a frame; ``sure``: that there are frames of TANK is known, or likely by the port."""
        for match in CANDIDATE.finditer(data):
            position = match.start()
            seen = Chain(data, position)
            alone = final and position == seen.left == 0 and seen.good > 0
            if seen.strong and (sure or alone or seen.good >= FRAMES_TO_BELIEVE):
                return Found(position, True)
            if seen.good >= (WEAK_FRAMES_WHEN_SURE if sure else WEAK_FRAMES_TO_BELIEVE):
                return Found(position, True)
            if sure and final and position == 0 and seen.good and seen.left == 0:
                return Found(position, True)
            if seen.last.good is None and not final and seen.worth_waiting:
                return Found(position, False)
        return Found(max(0, len(data) - HEADER.size + 1), False)

    def conversation(self, connection: Connection, dialect: str | None) -> TankConversation:
        return TankConversation(connection, self.ports)

    def layers(self) -> Iterable[type[Layer]]:
        return [*dict.fromkeys([*REQUESTS.values(), *RESPONSES.values()]), Unknown]


class Chain:
    """The frames that follow one another from a position, as far as they are needed to believe in them."""

    def __init__(self, data: bytes, start: int) -> None:
        position = start
        self.good, self.strong = 0, False
        self.request: bool | None = None
        """Whether they are requests; None: they do not tell."""
        while True:
            self.last = judge(data, position)
            self.strong = self.strong or self.last.strong
            self.request = self.last.request if self.request is None else self.request
            if self.last.good is not True:
                break
            self.good += 1
            self.strong = self.strong or (self.good == 2 and data[start] == PING != data[position])
            position = self.last.end
            if self.good >= (FRAMES_TO_BELIEVE if self.strong else WEAK_FRAMES_TO_BELIEVE):
                break
        self.left = len(data) - position
        """Bytes after the last whole frame."""
        self.worth_waiting = self.left < HEADER.size or HEADER.unpack_from(data, position)[1] < SEARCH_BYTES
        """Whether the frame that is incomplete is short enough to wait for."""
