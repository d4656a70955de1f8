"""Identifies messages: the layouts of each code, whether they fit, and the dialect that they show.

The protocol has no magic number but Hello's; a message is identified by lengths inside it that add up.
"""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.fields import Boolean, compiler, plain
from wiredecode.frames.splitter import BAD, GOOD, SHORT, SURE, WEAK, Evidence
from wiredecode.protocols.pravega import layers
from wiredecode.protocols.pravega.layers import HEADER, WireMessage
from wiredecode.protocols.pravega.layers_kinds import JavaText
from wiredecode.protocols.pravega.layers_older import OLDER, proposal
from wiredecode.protocols.pravega.names import CLIENT_TYPES, NAMES, PROPOSAL, PROPOSALS, SERVER_TYPES, WIRE

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
HELLO, KEEPALIVE = -127, 100

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


@dataclass(slots=True)
class MessageEvidence(Evidence):
    """SURE: it holds a segment's name, or is a Hello. WEAK: many other bytes look like such a message."""

    code: int = 0
    layer: type[WireMessage] | None = None

    @property
    def anchor(self) -> bool:
        """Whether it may be believed where the protocol is known: DataAppended, too, for its constant header."""
        return self.level >= GOOD or (self.layer is not None and self.layer.type_name == "DataAppended")


def evidence_of(
    code: int, end: int, layer: type[WireMessage], *, alone: bool = False, weak: bool = False
) -> MessageEvidence:
    """Evidence of a whole message. ``alone``: it is enough; ``weak``: a name is not printable."""
    name = layer.type_name
    level = SURE if alone else WEAK if weak or name in WEAK_TYPES else GOOD
    client = name in CLIENT_TYPES if name in CLIENT_TYPES | SERVER_TYPES else None
    return MessageEvidence(level, end, client, code=code, layer=layer)


def plausible(code: int, length: int) -> bool:
    """Whether a header can be one, at top level in either dialect."""
    limit = MAX_BODY if code in BULKY else MAX_KEEPALIVE if code == KEEPALIVE else MAX_SMALL_BODY
    return (code in KNOWN or code in (0, -2)) and length <= limit


def judge(data: bytes, position: int) -> MessageEvidence:
    """Judge the supposed message at ``position`` by its header and its structure."""
    if position + HEADER.size > len(data):
        return MessageEvidence(SHORT)
    code, length = HEADER.unpack_from(data, position)
    if not plausible(code, length):
        return MessageEvidence(BAD)
    stop = position + HEADER.size + length
    if stop > len(data):
        return MessageEvidence(SHORT, stop, need=stop)
    for layer in _possible(code):
        values = fit(layer, data, position, stop)
        if values is not None:
            name = values.get(_marks(layer)[1] or "", "?")
            unnamed = not (name and name.isascii() and name.isprintable())
            return evidence_of(code, stop, layer, alone=code == HELLO or has_name(layer, values), weak=unnamed)
    return MessageEvidence(BAD, stop)


@lru_cache(maxsize=1024)  # bytes from the wire may be any code
def _possible(code: int) -> tuple[type[WireMessage], ...]:
    proposed = [proposal(name)[code] for name in PROPOSALS if code in proposal(name)]
    return (*shipped_layouts(code), *proposed)
