"""The way of a message as a list of hops, and what it says in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wiredecode.frames.frame import LATE, UNANSWERED
from wiredecode.frames.message import PUBLISH
from wiredecode.frames.plurals import counted, times
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import requests
from wiredecode.trace.grouping import Message
from wiredecode.trace.sighting import STORED, Reply, Sighting

PUBLISHED, REPLICATED, DELIVERED = "published", "replicated", "delivered"
ANSWERS = ("confirmed", "refused", "answered")


@dataclass(slots=True, eq=False)
class Hop:
    """One step; times in nanoseconds."""

    word: str
    """``published``, ``confirmed``, ``refused``, ``replicated``, ``delivered``, ``answered``, ``stored``."""
    what: Sighting | Reply
    since_ns: int
    """Since the hop before."""
    since_first_ns: int

    @property
    def connection(self) -> Connection:
        return self.what.connection

    @property
    def source(self) -> str:
        return self.connection.endpoints[self.what.side]

    @property
    def destination(self) -> str:
        return self.connection.endpoints[1 - self.what.side]


def hops(message: Message) -> list[Hop]:
    """In order of time. What a publisher sends with its offset comes from a log: that is replication."""
    logged = {each.type for each in message.sightings if each.operation == PUBLISH and each.offset is not None}
    seen: dict[int, tuple[str, Sighting | Reply]] = {}
    for each in message.sightings:
        word = PUBLISHED if each.operation == PUBLISH else DELIVERED
        seen[each.frame] = REPLICATED if each.type in logged else word, each
    for each in message.sightings:
        for answer in each.answers:
            seen.setdefault(answer.frame, (answer.word, answer))
    found: list[Hop] = []
    for _, (word, what) in sorted(seen.items()):
        first_ns = found[0].what.time_ns if found else what.time_ns
        before_ns = found[-1].what.time_ns if found else what.time_ns
        found.append(Hop(word, what, what.time_ns - before_ns, what.time_ns - first_ns))
    return found


def conclusions(message: Message, way: list[Hop]) -> Iterator[str]:
    """What became of it."""
    confirming = message.first.type in requests().get(message.first.protocol, ())
    published = [hop for hop in way if hop.word == PUBLISHED]
    if not published:
        yield "its publish is not in the capture"
    for word in ("confirmed", "refused", "answered"):
        first = next((hop for hop in way if hop.word == word), None)
        if first is not None and published:
            yield f"{word} {duration(first.since_first_ns)} after it was published"
    open_request = any(hop.what.outcome in (UNANSWERED, LATE) for hop in published if isinstance(hop.what, Sighting))
    if published and (open_request or confirming) and not any(hop.word in ANSWERS for hop in way):
        yield "neither confirmed nor refused in this capture" if confirming else "no answer to it in this capture"
    for word in (REPLICATED, DELIVERED):
        several = [hop for hop in way if hop.word == word]
        if several:
            ends = len({(hop.connection.number, hop.what.side) for hop in several})
            after = f", first after {duration(several[0].since_first_ns)}" if published else ""
            yield f"{word} {times(len(several))} on {counted(ends, 'connection')}{after}"
    stored = next((hop for hop in way if hop.word == STORED), None)
    if stored is not None:
        after = f" {duration(stored.since_first_ns)} after it was published" if published else ""
        yield f"a consumer stored a position behind it{after}"
    if not any(hop.word == DELIVERED for hop in way):
        yield "no delivery of it in this capture"


def duration(ns: int) -> str:
    """``"1.234 ms"``."""
    return f"{ns / 1e9:.6f} s" if abs(ns) >= 1_000_000_000 else f"{ns / 1e6:.3f} ms"
