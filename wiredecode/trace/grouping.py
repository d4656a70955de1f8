"""Passages of the same message, put together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from wiredecode.frames.message import PUBLISH
from wiredecode.trace.passage import Passage

SOON_NS = 1_000_000_000
"""Where nothing but the body tells, a broker hands a message on within so long."""


@dataclass(slots=True, eq=False)
class Message:
    """One message and its passages, in order of time."""

    passages: list[Passage] = field(default_factory=list)

    @property
    def first(self) -> Passage:
        return self.passages[0]

    @property
    def offset(self) -> int | None:
        return next((each.offset for each in self.passages if each.offset is not None), None)

    def is_at(self, passage: Passage) -> bool:
        """Whether it is known to lie where ``passage`` says."""
        return any(
            each.offset == passage.offset and each.partition == passage.partition and same_topic(each, passage)
            for each in self.passages
            if each.offset is not None
        )

    def add(self, passage: Passage, rests_on: str) -> None:
        passage.rests_on = rests_on
        self.passages.append(passage)


def group(passages: Iterable[Passage]) -> list[Message]:
    """The messages that passages, in order, are of."""
    messages: list[Message] = []
    bodies: dict[bytes | None, list[Message]] = {}
    for each in passages:
        known = bodies.setdefault(each.digest, [])
        message, rests_on = _known(each, known)
        if message is None:
            message, rests_on = Message(), ""
            messages.append(message)
            known.append(message)
        message.add(each, rests_on)
    return messages


def _known(passage: Passage, known: list[Message]) -> tuple[Message | None, str]:
    """The message that ``passage`` is of, of those with its body, and what tells so."""
    for message in known:
        if passage.copy_of is not None and any(
            each.frame == passage.copy_of and each.index == passage.index for each in message.passages
        ):
            return message, f"a copy of frame {passage.copy_of}"
        if passage.offset is not None and message.is_at(passage):
            return message, f"offset {passage.offset}"
        if _again(passage, message.first):
            return message, f"sequence {passage.sequence}, sent again"
    if passage.digest is None or (passage.operation == PUBLISH and passage.offset is None):
        return None, ""
    return _same_body(passage, known)


def _again(passage: Passage, first: Passage) -> bool:
    """Whether a publisher sends the same number twice."""
    return (
        passage.operation == first.operation == PUBLISH
        and passage.sequence is not None
        and passage.offset is None
        and (passage.sequence, passage.publisher) == (first.sequence, first.publisher)
        and passage.connection is first.connection
        and passage.frame != first.frame
        and same_topic(passage, first)
    )


def _same_body(passage: Passage, known: list[Message]) -> tuple[Message | None, str]:
    """Of published messages of the topic with the same body the first that did not pass here yet."""
    published = [each for each in known if each.first.operation == PUBLISH and same_topic(passage, each.first)]
    if passage.offset is not None:
        numbered = [each for each in published if each.offset is None and _same_number(each.first, passage)]
        message = numbered[0] if numbered else None
    else:
        fresh = [
            each
            for each in published
            if passage.time_ns - each.first.time_ns <= SOON_NS
            and not any(
                (one.connection, one.side, one.subscription) == (passage.connection, passage.side, passage.subscription)
                for one in each.passages
            )
        ]
        message = fresh[0] if fresh else published[-1] if published else None
    if message is None:
        return None, ""
    several = f", the next in order of {len(published)} with it" if len(published) > 1 else ""
    return message, f"the same body{several}"


def _same_number(first: Passage, passage: Passage) -> bool:
    if first.partition is not None and passage.partition is not None and first.partition != passage.partition:
        return False
    return first.sequence is None or passage.sequence is None or first.sequence == passage.sequence


def same_topic(one: Passage, other: Passage) -> bool:
    """Whether two passages may be of one topic; consumers may name it by a pattern."""
    a, b = one.topic, other.topic
    return a is None or b is None or a == b or fnmatchcase(a, b) or fnmatchcase(b, a)


def chosen(messages: list[Message], found: Iterable[Passage]) -> list[Message]:
    """Those that were asked for: without answers to others of them, which are hops of these."""
    asked = {(each.frame, each.index) for each in found}
    several = [message for message in messages if any((each.frame, each.index) in asked for each in message.passages)]
    answers = {one.frame for message in several for each in message.passages for one in each.answers}
    return [message for message in several if message.first.frame not in answers]
