"""Credit of subscriptions, and how far their consumers lag."""

from __future__ import annotations

from collections.abc import Iterator

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.gauges import CREDIT, LAG, MOST_KNOWN, POSITION, Gauge, Reading

Subscription = tuple[int, int]
"""Number of the connection, id of the subscription."""


class Credits(Gauge):
    """How many chunks the broker may still send, from Subscribe on; unknown where that was not captured."""

    types = frozenset({"Subscribe", "Credit", "Deliver", "Unsubscribe"})

    def __init__(self) -> None:
        self._known: dict[Subscription, tuple[str, int]] = {}

    def read(self, frame: Frame) -> Iterator[Reading]:
        key = frame.connection.number, frame.values.get("subscription_id", -1)
        if frame.type == "Subscribe" and len(self._known) < MOST_KNOWN:
            self._known[key] = name_of(frame), 0
        known = self._known.get(key)
        if known is None:
            return
        if frame.type == "Unsubscribe":
            del self._known[key]
            return
        name, credit = known
        credit += -1 if frame.type == "Deliver" else frame.values.get("credit", 0)
        self._known[key] = name, credit
        yield Reading(CREDIT, name, credit)


class Lag(Gauge):
    """Offsets between the chunk that a consumer is sent and the last one committed; only version 2 of Deliver tells."""

    types = frozenset({"Deliver"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        committed, chunk = frame.values.get("committed_chunk_id"), frame.values.get("chunk")
        if committed is not None and isinstance(chunk, dict) and "chunk_id" in chunk:
            yield Reading(LAG, name_of(frame), max(committed - chunk["chunk_id"], 0))


class Stored(Gauge):
    """Offsets that consumers store under their name: that of the last message they are done with."""

    types = frozenset({"StoreOffset"})

    def read(self, frame: Frame) -> Iterator[Reading]:
        stream, offset = frame.values["stream"], frame.values["offset"]
        of = f"{printable(stream)}, consumer {printable(frame.values['reference'])}"
        yield Reading(POSITION, of, offset, (stream, None, offset))


def name_of(frame: Frame) -> str:
    """``orders, subscription 1 of #3``."""
    stream = frame.values.get("stream") or frame.generated.get("stream") or "unknown stream"
    return f"{stream}, subscription {frame.values.get('subscription_id')} of #{frame.connection.number}"


GAUGES = (Credits, Lag, Stored)
