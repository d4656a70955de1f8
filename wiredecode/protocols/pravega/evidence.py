"""Identifies messages: the layouts of each code, whether they fit, and the dialect that they show.

The protocol has no magic number but Hello's; a message is identified by lengths inside it that add up.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from wiredecode.fields import Boolean, compiler, plain
from wiredecode.protocols.pravega import layers
from wiredecode.protocols.pravega.layers import HEADER, WireMessage
from wiredecode.protocols.pravega.layers_kinds import JavaText
from wiredecode.protocols.pravega.layers_older import OLDER, proposal
from wiredecode.protocols.pravega.names import CLIENT_TYPES, NAMES, PROPOSAL, PROPOSALS, SERVER_TYPES, WIRE
from wiredecode.protocols.shared import seeking
from wiredecode.protocols.shared.seeking import BAD, GOOD, SHORT, SURE, WEAK, Evidence

MAX_BODY = 0x00FFFFFF
"""Longest body, by the rule of the clients; the server takes 8 bytes less, releases before 0.7.0 half as much."""
MAX_SMALL_BODY = 4 * 65_537 + 256
"""Longest body of the messages that hold nothing but a few strings and numbers."""
MAX_KEEPALIVE = 64
"""Longest body of a KeepAlive that is believed; releases send none."""
MAX_TYPE = 0x7FFF
"""Types further from zero are noise; all known ones are within 127."""

LARGE_BODY = 4096
"""Above this size the lengths in a message are checked before its bytes are looked at."""
BLOBS = frozenset({3, 4, 5, 10, 89})
"""Codes of messages that are mostly one blob."""
MIN_NAME = 3
"""Shorter names may be chance."""
KEEPALIVE = 100
SEARCH_SMALL_BYTES = 8 * 1024
"""Search limit for messages without a large blob, whose check takes time in proportion to their length."""

INSIDE = (layers.Event, layers.PartialEvent, layers.Padding)
"""Only inside append data; at top level a mistake, or the proposal's messages."""

CURRENT: dict[int, type[WireMessage]] = {
    kind.fields_desc[0].default: kind
    for kind in vars(layers).values()
    if isinstance(kind, type) and issubclass(kind, WireMessage) and kind.__name__ == kind.__dict__.get("type_name")
    if kind is not layers.Unknown
}
"""The layout of each code today."""
EAGER: dict[int, tuple[type[WireMessage], ...]] = {
    74: (layers.UpdateTableEntriesEager,),
    76: (layers.RemoveTableKeysEager,),
    78: (layers.ReadTableEager,),
}

KNOWN = frozenset(CURRENT) | frozenset(OLDER)
BULKY = frozenset({-6, -2, 0, 3, 4, 5, 7, 9, 10, 58, 74, 75, 76, 78, 79, 83, 84, 85, 86, 87, 89, 90, 91})
"""Codes of messages that may be long."""
CODES = b"".join(re.escape(bytes([code])) for code in sorted(KNOWN) if code > 0)
NEGATIVE = b"".join(re.escape(bytes([code & 0xFF])) for code in sorted(KNOWN) if code < -2)
CANDIDATE = re.compile(rb"(?=(?:\x00\x00\x00[" + CODES + rb"]|\xff\xff\xff[" + NEGATIVE + rb"])\x00)", re.DOTALL)
"""Candidates for messages in mid-stream. Types 0, -1 and -2 are none: append data is full of their bytes."""
WEAK_TYPES = frozenset(NAMES["evidence"]["weak"])
"""Messages that many other bytes look like."""


def alternatives(code: int) -> tuple[type[WireMessage], ...]:
    """The other layouts of a code, tried where today's does not fit."""
    return EAGER.get(code, ()) + OLDER.get(code, ())


@lru_cache(maxsize=1024)  # bytes from the wire may be any code
def shipped_layouts(code: int) -> tuple[type[WireMessage], ...]:
    """All layouts that releases used for a code at top level, today's first."""
    current = CURRENT.get(code)
    return (*(() if current is None or current in INSIDE else (current,)), *alternatives(code))


@cache
def _marks(layer: type[WireMessage]) -> tuple[tuple[str, ...], str | None]:
    """Names of the truth values, and of the first text that is always there and no secret."""
    kinds = [plain(kind) for kind in layer.fields_desc]
    texts = [kind.name for kind in layer.fields_desc if isinstance(kind, JavaText) and not kind.secret]
    return tuple(kind.name for kind in kinds if isinstance(kind, Boolean)), texts[0] if texts else None


def fit(layer: type[WireMessage], data: bytes, start: int, stop: int) -> Mapping[str, Any] | None:
    """The values of the message at ``data[start:stop]`` if the layout fits it exactly, else None."""
    try:
        values, reached = compiler.walk(layer, data, start, stop)
    except compiler.FAILED:
        return None
    if reached != stop or not layer.sound(values):
        return None
    return values if all(values.get(name, 0) < 2 for name in _marks(layer)[0]) else None


def has_name(layer: type[WireMessage], values: Mapping[str, Any]) -> bool:
    """Whether the message holds a printable name."""
    name = values.get(_marks(layer)[1] or "", "")
    return len(name) >= MIN_NAME and name.isascii() and name.isprintable()


def choose(candidates: Iterable[type[WireMessage]], data: bytes, start: int, stop: int) -> type[WireMessage] | None:
    """The first layout that fits exactly."""
    return next((layer for layer in candidates if fit(layer, data, start, stop) is not None), None)


def dialect_of(code: int, data: bytes, start: int, stop: int) -> str | None:
    """The dialect a whole message speaks for; None: it could be of both, or of neither."""
    if code == -127:
        return WIRE
    wire = choose(shipped_layouts(code), data, start, stop)
    if wire is not None and wire.type_name == "SegmentRead":
        values = fit(wire, data, start, stop)
        if values and values["data"]:
            return WIRE  # the length in front of the data adds up
    proposed = stop - start > HEADER.size and any(_fits_proposal(name, code, data, start, stop) for name in PROPOSALS)
    if proposed == (wire is not None):
        return None
    return PROPOSAL if proposed else WIRE


def _fits_proposal(dialect: str, code: int, data: bytes, start: int, stop: int) -> bool:
    layer = proposal(dialect).get(code)
    if layer is None:
        return False
    values = fit(layer, data, start, stop)
    return values is not None and (_marks(layer)[1] is None or has_name(layer, values))


def plausible(code: int, length: int) -> bool:
    """Whether a header can be one, at top level in either dialect."""
    limit = MAX_BODY if code in BULKY else MAX_KEEPALIVE if code == KEEPALIVE else MAX_SMALL_BODY
    return (code in KNOWN or code in (0, -2)) and length <= limit


def _level(layer: type[WireMessage], values: Mapping[str, Any], place: int) -> int:
    name = values.get(_marks(layer)[1] or "", "?")
    if layer is layers.Hello or has_name(layer, values):
        return SURE
    if not (name and name.isascii() and name.isprintable()):
        return WEAK
    if layer.type_name == "DataAppended" and place == seeking.KNOWN:
        return GOOD  # for its constant header
    return WEAK if layer.type_name in WEAK_TYPES else GOOD


def _by_client(name: str) -> bool | None:
    return name in CLIENT_TYPES if name in CLIENT_TYPES | SERVER_TYPES else None


@lru_cache(maxsize=1024)  # bytes from the wire may be any code
def _possible(code: int) -> tuple[type[WireMessage], ...]:
    proposed = [proposal(name)[code] for name in PROPOSALS if code in proposal(name)]
    return (*shipped_layouts(code), *proposed)


class MessageChain(seeking.Chain):
    """Messages in a row, and the dialect for which they speak."""

    needed = {
        seeking.START: {SURE: 1, GOOD: 3},
        seeking.START_HOME: {WEAK: 1},
        seeking.LATE: {SURE: 2, GOOD: 3},
        seeking.LATE_HOME: {SURE: 2, GOOD: 3},
        seeking.KNOWN: {SURE: 1, GOOD: 2},
    }

    def judge(self, data: bytes, position: int) -> Evidence:
        """SURE if it holds a segment's name, or is a Hello."""
        if position + HEADER.size > len(data):
            return Evidence(SHORT)
        code, length = HEADER.unpack_from(data, position)
        if not plausible(code, length):
            return Evidence(BAD)
        stop = position + HEADER.size + length
        if stop > len(data):
            return Evidence(SHORT, stop, need=stop)
        for layer in _possible(code):
            values = fit(layer, data, position, stop)
            if values is not None and layer.type_name == "Event" and not self.whole:
                break  # zeros are everywhere
            if values is not None:
                return Evidence(_level(layer, values, self.place), stop, _by_client(layer.type_name))
        return Evidence(BAD, stop)

    def add(self, data: bytes, seen: Evidence) -> None:
        if self.dialect is None and self.place != seeking.KNOWN:
            self.dialect = dialect_of(HEADER.unpack_from(data, self.end)[0], data, self.end, seen.end)

    def enough(self) -> bool:
        return super().enough() and (self.dialect is not None or self.place == seeking.KNOWN)

    @property
    def is_open(self) -> bool:
        return self.dialect is None and self.last.level == SHORT and self.whole < seeking.MOST


def hopeless(data: bytes, position: int) -> bool:
    """Whether a candidate's header, or that after a large message, rules out that it is worth a look."""
    if position + HEADER.size > len(data):
        return False
    if position == 4 and int.from_bytes(data[:4]) >= len(data) - 4:
        return True  # the size of a frame of Kafka, and its correlation id
    code, length = HEADER.unpack_from(data, position)
    after = position + HEADER.size + length
    if length <= LARGE_BODY or code not in BLOBS or after + HEADER.size > len(data):
        return bool(length > (seeking.SEARCH_BYTES if code in BLOBS else SEARCH_SMALL_BYTES))
    return length > seeking.SEARCH_BYTES or not plausible(*HEADER.unpack_from(data, after))


SEEKER = seeking.Seeker(CANDIDATE, HEADER.size, (MessageChain,), hopeless)
