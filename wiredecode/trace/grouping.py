"""Passages of the same message, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from wiredecode.frames.message import PUBLISH
from wiredecode.trace.sighting import Sighting

SOON_NS = 1_000_000_000
"""Where nothing but the body tells, a broker hands a message on within so long."""


@dataclass(slots=True, eq=False)
class Message:
    """One message and its sightings, in order of time."""

    sightings: list[Sighting] = field(default_factory=list)

    @property
    def first(self) -> Sighting:
        return self.sightings[0]

    @property
    def offset(self) -> int | None:
        return next((each.offset for each in self.sightings if each.offset is not None), None)

    def is_at(self, sighting: Sighting) -> bool:
        """Whether it is known to lie where ``sighting`` says."""
        return any(
            each.offset == sighting.offset and each.partition == sighting.partition and same_topic(each, sighting)
            for each in self.sightings
            if each.offset is not None
        )

    def add(self, sighting: Sighting, rests_on: str) -> None:
        sighting.rests_on = rests_on
        self.sightings.append(sighting)


def group(sightings: Iterable[Sighting]) -> list[Message]:
    """The messages that sightings, in order, are of."""
    messages: list[Message] = []
    bodies: dict[bytes | None, list[Message]] = {}
    for each in sightings:
        known = bodies.setdefault(each.digest, [])
        message, rests_on = _known(each, known)
        if message is None:
            message, rests_on = Message(), ""
            messages.append(message)
            known.append(message)
        message.add(each, rests_on)
    return messages


def _known(sighting: Sighting, known: list[Message]) -> tuple[Message | None, str]:
    """The message that ``sighting`` is of, of those with its body, and what tells so."""
    for message in known:
        if sighting.copy_of is not None and any(
            each.frame == sighting.copy_of and each.index == sighting.index for each in message.sightings
        ):
            return message, f"a copy of frame {sighting.copy_of}"
        if sighting.offset is not None and message.is_at(sighting):
            return message, f"offset {sighting.offset}"
        if _again(sighting, message.first):
            return message, f"sequence {sighting.sequence}, sent again"
    if sighting.digest is None or (sighting.operation == PUBLISH and sighting.offset is None):
        return None, ""
    return _same_body(sighting, known)


def _again(sighting: Sighting, first: Sighting) -> bool:
    """Whether a publisher sends the same number twice."""
    return (
        sighting.operation == first.operation == PUBLISH
        and sighting.sequence is not None
        and sighting.offset is None
        and (sighting.sequence, sighting.publisher) == (first.sequence, first.publisher)
        and sighting.connection is first.connection
        and sighting.frame != first.frame
        and same_topic(sighting, first)
    )


def _same_body(sighting: Sighting, known: list[Message]) -> tuple[Message | None, str]:
    """Of published messages of the topic with the same body the first that did not pass here yet."""
    published = [each for each in known if each.first.operation == PUBLISH and same_topic(sighting, each.first)]
    if sighting.offset is not None:
        numbered = [each for each in published if each.offset is None and _same_number(each.first, sighting)]
        message = numbered[0] if numbered else None
    else:
        fresh = [
            each
            for each in published
            if sighting.time_ns - each.first.time_ns <= SOON_NS
            and not any(
                (one.connection, one.side, one.subscription)
                == (sighting.connection, sighting.side, sighting.subscription)
                for one in each.sightings
            )
        ]
        message = fresh[0] if fresh else published[-1] if published else None
    if message is None:
        return None, ""
    several = f", the next in order of {len(published)} with it" if len(published) > 1 else ""
    return message, f"the same body{several}"


def _same_number(first: Sighting, sighting: Sighting) -> bool:
    if first.partition is not None and sighting.partition is not None and first.partition != sighting.partition:
        return False
    return first.sequence is None or sighting.sequence is None or first.sequence == sighting.sequence


def same_topic(one: Sighting, other: Sighting) -> bool:
    """Whether two sightings may be of one topic; consumers may name it by a pattern."""
    a, b = one.topic, other.topic
    return a is None or b is None or a == b or fnmatchcase(a, b) or fnmatchcase(b, a)


def chosen(messages: list[Message], found: Iterable[Sighting]) -> list[Message]:
    """Those that were asked for: without answers to others of them, which are hops of these."""
    wanted = {(each.frame, each.index) for each in found}
    several = [message for message in messages if any((each.frame, each.index) in wanted for each in message.sightings)]
    answers = {one.frame for message in several for each in message.sightings for one in each.answers}
    return [message for message in several if message.first.frame not in answers]
