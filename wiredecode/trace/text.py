"""The path of a message, as lines with a summary and as a record: its hops in order of time."""

from collections.abc import Iterator
from typing import Any

from wiredecode.dataclasses import dataclass
from wiredecode.frames.escape import counted, duration, escape, shorten, times, wrap_escaped
from wiredecode.frames.frame import LATE, REFUSED, UNANSWERED
from wiredecode.frames.identity import describe, short
from wiredecode.frames.message import DELIVER, FORWARD, PUBLISH
from wiredecode.frames.record import rfc3339
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import requests
from wiredecode.trace.sighting import ACKNOWLEDGED, NOT_ACKNOWLEDGED, STORED, Reply, SightedMessage, Sighting
from wiredecode.view.times import seconds_text

PUBLISHED, REPLICATED, DELIVERED = "published", "replicated", "delivered"
WORDS = {PUBLISH: PUBLISHED, FORWARD: "forwarded", DELIVER: DELIVERED}
ANSWERS = ("confirmed", "refused", "answered")
WIDTH = 80
INDENT = 25
BODY = 40
"""Characters of a body that are shown."""
MAX_LISTED = 20
"""Other messages that are listed."""
NUMBERS = ("partition", "sequence", "offset")
"""Facts shown of a sighting, by these names; answers have none."""


@dataclass(slots=True, eq=False)
class TraceHop:
    """One step; times in nanoseconds."""

    word: str
    """``published``, ``forwarded``, ``delivered``, ``replicated``, of :class:`Reply` or of :data:`ANSWERS`."""
    event: Sighting | Reply
    since_ns: int
    """Since the hop before."""
    since_first_ns: int

    @property
    def connection(self) -> Connection:
        return self.event.connection


def hops(message: SightedMessage) -> list[TraceHop]:
    """In order of time. What a publisher or another broker gets with its offset comes from a log: it is replicated."""
    logged = {each.type for each in message.sightings if each.operation == PUBLISH and each.offset is not None}
    seen: dict[int, tuple[str, Sighting | Reply]] = {}
    for each in message.sightings:
        copied = each.type in logged or (each.operation == FORWARD and each.offset is not None)
        seen[each.frame] = REPLICATED if copied else WORDS[each.operation], each
    for each in message.sightings:
        for answer in each.answers:
            seen.setdefault(answer.frame, (answer.word, answer))
    hops_made: list[TraceHop] = []
    for _, (word, event) in sorted(seen.items()):
        first, before = (hops_made[0].event, hops_made[-1].event) if hops_made else (event, event)
        hops_made.append(TraceHop(word, event, event.time_ns - before.time_ns, event.time_ns - first.time_ns))
    return hops_made


def conclusions(message: SightedMessage, way: list[TraceHop]) -> Iterator[str]:
    """The outcome of the message, in sentences."""
    confirming = message.first.type in requests().get(message.first.protocol, ())
    published = [hop for hop in way if hop.word == PUBLISHED]
    if not published:
        yield "its publish is not in the capture"
    dropped = next((each for each in message.sightings if each.is_duplicate and each.outcome == "ok"), None)
    for word in ANSWERS:
        first = next((hop for hop in way if hop.word == word), None)
        if first is not None and published:
            why = f": {first.event.why}" if isinstance(first.event, Reply) and first.event.why else ""
            if dropped is not None and word == "confirmed":
                why = f", but dropped: id {dropped.sequence} was already stored"
            yield f"{word} {duration(first.since_first_ns)} after it was published{why}"
    open_request = any(hop.event.outcome in (UNANSWERED, LATE) for hop in published if isinstance(hop.event, Sighting))
    if published and (open_request or confirming) and not any(hop.word in ANSWERS for hop in way):
        refused = isinstance(published[0].event, Sighting) and published[0].event.outcome == REFUSED
        silent = "neither confirmed nor refused in this capture" if confirming else "no answer to it in this capture"
        yield "refused: an answer before it covers it" if refused else silent
    for word in (REPLICATED, DELIVERED):
        several = [hop for hop in way if hop.word == word]
        if several:
            ends = len({(hop.connection.number, hop.event.side) for hop in several})
            after = f", first after {duration(several[0].since_first_ns)}" if published else ""
            yield f"{word} {times(len(several))} on {counted(ends, 'connection')}{after}"
    for word in (ACKNOWLEDGED, NOT_ACKNOWLEDGED):
        acks = [hop for hop in way if hop.word == word]
        if acks:
            after = f", first {duration(acks[0].since_first_ns)} after it was published" if published else ""
            yield f"{word} {times(len(acks))}{after}"
    stored = next((hop for hop in way if hop.word == STORED), None)
    if stored is not None:
        after = f" {duration(stored.since_first_ns)} after it was published" if published else ""
        yield f"a consumer stored a later position{after}"
    if not any(hop.word == DELIVERED for hop in way):
        yield "no delivery of it in this capture"


def title(message: SightedMessage, *, topic: bool = True) -> str:
    """``c43_basic-stream, sequence 1, offset 0, 40 bytes: c43_basic:m:0:xxx``; or without its topic."""
    first = message.first
    parts = [first.topic or "(topic not known)"] if topic else []
    numbers = {"partition": first.partition, "sequence": first.sequence, "offset": message.offset}
    parts += [f"{name} {value}" for name, value in numbers.items() if value is not None]
    if first.key:
        parts.append(f"key {shorten(_text(first.key), BODY)}")
    parts.append("body not captured" if first.size is None else f"{first.size:,} bytes")
    body = shorten(_text(first.body), BODY)
    return f"{', '.join(parts)}: {body}" if body else ", ".join(parts)


def hop_lines(message: SightedMessage, first_ns: int, width: int = WIDTH) -> Iterator[tuple[TraceHop | None, str]]:
    """All lines, each with its hop; summary lines have none. ``first_ns``: start of the capture."""
    way = hops(message)
    for line in wrap_escaped(title(message), "", "  ", width):
        yield None, line
    for each in conclusions(message, way):
        for line in wrap_escaped(each, "  - ", "    ", width):
            yield None, line
    yield None, ""
    for hop in way:
        for line in _hop(hop, first_ns, width):
            yield hop, line


def _hop(hop: TraceHop, first_ns: int, width: int) -> Iterator[str]:
    event, margin = hop.event, " " * INDENT
    head = f"{(event.time_ns - first_ns) / 1e9:11.6f} {hop.since_ns / 1e9:+11.6f}  "
    facts = [f"{hop.word}: {event.type}", f"frame {event.frame}"]
    if index := getattr(event, "index", 0):
        facts.append(f"message {index + 1}")
    facts += [f"{name} {value}" for name in NUMBERS if (value := getattr(event, name, None)) is not None]
    yield from wrap_escaped(", ".join(facts), head, margin, width)
    ends, side = hop.connection.named_endpoints, hop.event.side
    who = f"{ends[side]} → {ends[1 - side]}, {short(hop.connection)}"
    yield from wrap_escaped(who, margin, margin, width)
    if event.rests_on:
        yield from wrap_escaped(f"matched by {event.rests_on}", margin, margin, width)


def message_lines(messages: list[SightedMessage], nth: int, first_ns: int, width: int = WIDTH) -> Iterator[str]:
    """The messages that fit, numbered, a line each; with their topics if these differ."""
    several = len({message.first.topic for message in messages}) > 1
    begin = max(0, min(nth - 1 - MAX_LISTED // 2, len(messages) - MAX_LISTED))
    for number, message in enumerate(messages[begin : begin + MAX_LISTED], begin + 1):
        mark = ">" if number == nth else " "
        head = f"{mark}{number:>4}  {seconds_text(message.first.time_ns - first_ns)}  frame {message.first.frame}  "
        yield shorten(f"{head}{escape(title(message, topic=several))}", width)
    if len(messages) > MAX_LISTED:
        yield f"      {len(messages):,} in all; --nth chooses"


def _text(data: bytes) -> str:
    """Bytes as text, made harmless before anything is cut off."""
    return escape(data.decode(errors="surrogateescape"))


def record(message: SightedMessage, nth: int, matches: int) -> dict[str, Any]:
    """The object of ``--json``."""
    first, way = message.first, hops(message)
    return {
        "nth": nth,
        "matches": matches,
        "topic": _safe(first.topic),
        "partition": first.partition,
        "sequence": first.sequence,
        "offset": message.offset,
        "key": None if first.key is None else first.key.hex(),
        "size": first.size,
        "body_start": first.body.hex(),
        "conclusions": [_safe(each) for each in conclusions(message, way)],
        "hops": [_hop_record(hop) for hop in way],
    }


def _hop_record(hop: TraceHop) -> dict[str, Any]:
    event, ends = hop.event, hop.connection.endpoints
    return {
        "hop": hop.word,
        "time": rfc3339(event.time_ns),
        "time_ns": event.time_ns,
        "since_previous_ns": hop.since_ns,
        "since_first_ns": hop.since_first_ns,
        "frame": event.frame,
        "index": getattr(event, "index", None),
        "packets": event.packets,
        "connection": hop.connection.number,
        "description": _safe(describe(hop.connection)),
        "src": ends[event.side],
        "dst": ends[1 - event.side],
        "protocol": event.protocol,
        "type": _safe(event.type),
        **{name: getattr(event, name, None) for name in NUMBERS},
        "told_by": _safe(event.rests_on) or None,
    }


def _safe(text: str | None) -> str | None:
    """Without lone surrogates, which JSON cannot have."""
    return None if text is None else text.encode(errors="surrogateescape").decode(errors="replace")
