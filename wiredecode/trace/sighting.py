"""A message where it passes the wire, and which one is wanted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wiredecode.frames.message import FrameMessages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wiredecode.frames.frame import Frame
    from wiredecode.net.types import Connection

STORED = "stored"
"""What a consumer does with its position."""
SHOWN = 200
"""Bytes of a body that are kept to be shown."""

LogPosition = tuple[str | None, int | None, int]
"""Topic, partition, offset."""


@dataclass(slots=True, eq=False)
class InFrame:
    """Where and when something was seen."""

    frame: int
    packets: list[int]
    time_ns: int
    connection: Connection
    side: int
    protocol: str
    type: str | None


def facts(frame: Frame) -> tuple[int, list[int], int, Connection, int, str, str | None]:
    """What :class:`InFrame` is made of."""
    where = frame.connection, frame.side, frame.protocol, frame.type
    return frame.number, frame.packets[:1], frame.time_ns, *where


@dataclass(slots=True, eq=False)
class Reply(InFrame):
    """A frame that answers a sighting: a confirm, an ack, a reply."""

    word: str
    """``confirmed``, ``refused``, ``answered``; ``stored``: a consumer is done with it."""
    rests_on: str
    """What tells that it is the answer."""


@dataclass(slots=True, eq=False)
class Sighting(InFrame):
    """One message in one frame. ``digest``: of its body; None where that is empty or was not captured."""

    index: int
    operation: str
    topic: str | None
    partition: int | None
    offset: int | None
    sequence: int | None
    key: bytes | None
    size: int | None
    digest: bytes | None
    body: bytes
    """Its first bytes."""
    publisher: int | None = None
    """Publisher on its connection, where numbers of messages are per publisher."""
    share: int = 0
    """Which it is of what confirms of its frame name."""
    subscription: str | None = None
    copy_of: int | None = None
    """Frame of the first sighting, where the protocol tells."""
    outcome: str | None = None
    rests_on: str = ""
    """What tells that it is the same message as in the sightings before."""
    answers: list[Reply] = field(default_factory=list)

    @property
    def place(self) -> LogPosition | None:
        return None if self.offset is None else (self.topic, self.partition, self.offset)


def digest_of(body: bytes | None) -> bytes | None:
    return hashlib.blake2b(body, digest_size=16).digest() if body else None


def sighting(part: FrameMessages, index: int, before: int) -> Sighting:
    """Message ``index`` of a part of a frame that has ``before`` others in front of it."""
    frame, body = part.frame, part.bodies[index]
    publisher = frame.values.get("publisher_id")
    subscription = frame.generated.get("subscription")
    return Sighting(
        *facts(frame),
        before + index,
        part.operation,
        part.topic,
        part.partition,
        _of(part.offsets, index),
        _of(part.sequences, index),
        None if part.keys is None else part.keys[index],
        None if body is None else len(body),
        digest_of(body),
        (body or b"")[:SHOWN],
        publisher if isinstance(publisher, int) else None,
        before + index if part.shares is None else part.shares[index],
        None if subscription is None else str(subscription),
        frame.generated.get("copy_of"),
    )


def _of(values: Sequence[int | None] | None, index: int) -> int | None:
    return None if values is None else values[index]


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which message: all that is given has to fit. ``contents``: bytes that its body holds."""

    frame: int | None = None
    index: int | None = None
    id: str | None = None
    """Publishing id, sequence, offset, correlation id, or the value of a header whose name ends in ``id``."""
    topic: str | None = None
    key: bytes | None = None
    contents: tuple[bytes, ...] = ()

    def fits(self, part: FrameMessages, before: int) -> list[int]:
        """Which messages of a part of a frame are wanted; ``before``: how many of that frame precede it."""
        if self.frame is not None and part.frame.number != self.frame:
            return []
        if self.topic is not None and part.topic != self.topic:
            return []
        everywhere = self.id is None or self._correlated(part.frame)
        return [
            index
            for index, body in enumerate(part.bodies)
            if (self.index is None or before + index == self.index)
            and (self.key is None or (part.keys is not None and part.keys[index] == self.key))
            and all(body is not None and some in body for some in self.contents)
            and (everywhere or self._numbered(part, index))
        ]

    def _correlated(self, frame: Frame) -> bool:
        """An answer bears the correlation id of what it answers, so it is not looked at."""
        if frame.request is not None:
            return False
        layers = [frame.values, *(inner.values or {} for inner in frame.inner)]
        return any(str(values["correlation_id"]) == self.id for values in layers if "correlation_id" in values)

    def _numbered(self, part: FrameMessages, index: int) -> bool:
        numbers = {str(_of(part.sequences, index)), str(_of(part.offsets, index))}
        if self.id in numbers:
            return True
        criteria = (self.id or "").encode(errors="surrogateescape")
        headers = (None if part.headers is None else part.headers[index]) or []
        return any(name.lower().endswith("id") and value == criteria for name, value in headers)
