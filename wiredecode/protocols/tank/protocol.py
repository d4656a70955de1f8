"""Recognises TANK, divides it into frames, and finds the next frame after a gap."""

import re
from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import BAD, GOOD, SHORT, LengthPrefix, Number
from wiredecode.protocols.base import Found, Rejected, Split, Start, Undecided, Verdict, generated_of
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy
from wiredecode.protocols.tank import NAME, PORTS
from wiredecode.protocols.tank.conversation import TankConversation
from wiredecode.protocols.tank.evidence import FRAMES_TO_BELIEVE, MAX_PAYLOAD_BYTES, WEAK_FRAMES_TO_BELIEVE, FrameChain
from wiredecode.protocols.tank.layers import HEADER, REQUESTS, RESPONSES, Unknown
from wiredecode.protocols.tank.names import MESSAGES, PING

GENERATED = generated_of("tank")

WEAK_FRAMES_WHEN_SURE = 3
"""Weak frames that are enough after other frames of TANK."""
SEARCH_BYTES = 256 * 1024
"""While searching: longest frame that is waited for, unless its beginning is strong evidence."""

CANDIDATE = re.compile(rb"(?=[\x01-\x0c][\x00-\xff]{3}[\x00-\x10])", re.DOTALL)


class Tank(BehindProxy):
    """TANK, the broker of phaistos-networks; clients and replicas speak the same protocol."""

    name = NAME
    title = "TANK"
    ports = PORTS
    framing = LengthPrefix(
        Number(1, 4, 0, MAX_PAYLOAD_BYTES, "a payload of {value} bytes is above the limit of {most}", little=True),
        after=HEADER.size,
        header=HEADER.size,
    )
    requests = {"tank": frozenset(name for code, name in MESSAGES.items() if code != PING)}
    summary_keys = ("topic", "partition", "error", "request_id")
    generated = GENERATED
    column_types = {"tank.topic": "string", "tank.partition": "uint16"}  # generated in messages without these fields

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        if started:
            seen = FrameChain(data, 0)
            if seen.best == GOOD or seen.whole >= (1 if port else FRAMES_TO_BELIEVE):
                return Verdict(0, client=seen.client)
            return Rejected() if seen.last.level == BAD or final else Undecided()
        found = self._find(data, final, sure=port)
        if found.found:
            return Verdict(found.position, client=FrameChain(data, found.position).client)
        return Rejected() if final else Undecided(found.position, need=found.need)

    def split_inner(self, data: bytes) -> Split:
        """A header whose length is out of bounds is a frame: brokers close the connection then."""
        split = self.framing.split(data)
        if split.bad is not None:
            split.ends.append((split.ends[-1] if split.ends else 0) + HEADER.size)
        return split

    def search(self, data: bytes, *, final: bool) -> Found:
        """A frame with much structure, or two in a row; between two gaps also a single one."""
        return self._find(data, final, sure=True)

    def _find(self, data: bytes, final: bool, sure: bool) -> Found:
        """Find a frame; ``sure``: that there are frames of TANK is known, or likely by the port."""
        for match in CANDIDATE.finditer(data):
            position = match.start()
            seen = FrameChain(data, position)
            strong, after = seen.best == GOOD, len(data) - seen.end
            alone = final and position == after == 0 and seen.whole > 0
            if strong and (sure or alone or seen.whole >= FRAMES_TO_BELIEVE):
                return Found(position, True)
            if seen.whole >= (WEAK_FRAMES_WHEN_SURE if sure else WEAK_FRAMES_TO_BELIEVE):
                return Found(position, True)
            if sure and alone:
                return Found(position, True)
            cut = seen.last.level == SHORT or seen.last.end > len(data)
            short = after < HEADER.size or HEADER.unpack_from(data, seen.end)[1] < SEARCH_BYTES
            if cut and short and not final:
                return Found(position, False, seen.need)
        return Found(max(0, len(data) - HEADER.size + 1), False)

    def conversation(self, start: Start) -> TankConversation:
        return TankConversation(start, self.ports)

    def layers(self) -> Iterable[type[Layer]]:
        return [*dict.fromkeys([*REQUESTS.values(), *RESPONSES.values()]), Unknown, *PROXY_LAYERS]


PROTOCOL = Tank
