"""Acks and what asks for them, tied together once all frames up to some packet are known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wiredecode.fields.numbers import write_varint
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.pairing import link

if TYPE_CHECKING:
    from wiredecode.frames.block import FrameBlock, Int64s
    from wiredecode.protocols.liftbridge.conversation import Session

MAX_KEY_CHARACTERS = 1024
"""Longest subject or id by which something is remembered: NATS servers take control lines of 4096 bytes."""
NO_FACTS: dict[str, Any] = {}
ONE_BYTE = [bytes([size]) for size in range(128)]


class Hop(NamedTuple):
    """A request or a publish as it was seen on one connection."""

    frame: int
    time_ns: int
    connection: int
    side: int
    message_type: int
    facts: dict[str, Any]
    """What it tells about its response."""


make_hop = partial(tuple.__new__, Hop)
"""Of a tuple: twice as fast as ``Hop._make``."""


def ack_key(inbox: str, correlation_id: str) -> bytes:
    """What a published message and its ack have in common, as protobuf writes the one after the other."""
    raw = inbox.encode("utf-8", "surrogateescape")
    if not correlation_id:
        return raw
    rest = correlation_id.encode("utf-8", "surrogateescape")
    size = len(rest)
    return b"%bZ%b%b" % (raw, ONE_BYTE[size] if size < 128 else write_varint(size), rest)  # Z: the tag


def own_hop(hops: list[Hop], connection: int, side: int) -> Hop:
    """The one that the other side of the connection sent, or else the first."""
    for hop in hops:
        if hop.connection == connection and hop.side != side:
            return hop
    return hops[0]


@dataclass(slots=True, eq=False)
class Acks:
    """Published messages that ask for an ack, and acks, in any order.

    They come from frames and from runs; :func:`ack_key` says what ties them together.
    """

    items: list[Frame | FrameBlock] = field(default_factory=list)
    numbers: list[Sequence[int] | Int64s] = field(default_factory=list)
    """Of frames of each item."""
    keys: list[bytes] = field(default_factory=list)
    """One of each frame."""
    asks: list[Hop | None] = field(default_factory=list)
    """What it asks; None: it is an ack."""
    fresh: set[bytes] = field(default_factory=set)
    """Keys that the session does not know yet, while it counts them."""

    def add(
        self, item: Frame | FrameBlock, numbers: Sequence[int] | Int64s, keys: list[bytes], asks: Iterable[Any]
    ) -> None:
        """Frames of one item: their numbers, keys, and what they ask; None: they are acks."""
        self.items.append(item)
        self.numbers.append(numbers)
        self.keys += keys
        self.asks += islice(asks, len(keys))

    def link(self, session: Session) -> None:
        """Tie each ack to the publish that was sent before it, in the order of the capture."""
        if not self.items:
            return
        sizes = [len(each) for each in self.numbers]
        numbers = np.concatenate([np.asarray(each, np.int64) for each in self.numbers])
        sides = [(item.connection.number, item.side) for item in self.items]
        of_item = np.repeat(np.arange(len(sizes)), sizes).tolist()
        keys, asks, remember, known = self.keys, self.asks, session.remember, session.exchanges.get
        found: list[Hop | None] = [None] * len(keys)
        for at in np.argsort(numbers, kind="stable").tolist():
            publication, key = asks[at], keys[at]
            if publication is not None:
                remember(key, publication)
            elif hops := known(key):
                found[at] = own_hop(hops, *sides[of_item[at]])
        first = 0
        for item, own, size in zip(self.items, self.numbers, sizes, strict=True):
            answered = found[first : first + size]
            first += size
            if not isinstance(item, Frame):
                if item.requests is not None and asks[first - 1] is None:
                    rows = np.searchsorted(item.numbers, own)
                    item.requests[rows] = [0 if hop is None else hop.frame for hop in answered]
            elif answered[0] is not None and item.request is None:
                link(item, answered[0])
