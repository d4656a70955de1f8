"""Publishes that JetStream did not store although it answered, and requests to it that nobody takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crc32c import crc32c

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.conversation_jetstream import DUPLICATE, OWN, SEQUENCE, STREAM
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Problem, Report, ref_of

CODES = codes_of("nats")
MESSAGE_ID = "Nats-Msg-Id"
EXPECTED = "Nats-Expected-"
"""Beginning of the other headers that only publishes to JetStream have."""
DELETE = ".API.STREAM.DELETE."
MOST_IDS = 65_536
"""Message ids that are remembered with a digest of what was published with them."""
MOST_KNOWN = 1024
"""Subjects and deleted streams."""


class Publish(NamedTuple):
    """What a message with a reply subject says of itself."""

    for_jetstream: bool
    """Its headers say that JetStream shall store it."""
    id: str | None
    digest: int


def publish_of(values: Mapping[str, Any]) -> Publish | None:
    """None: its headers say nothing of JetStream."""
    keys = {each["key"]: each["value"] for each in values.get("headers") or () if "key" in each and "value" in each}
    found = keys.get(MESSAGE_ID)
    if found is None and not any(key.startswith(EXPECTED) for key in keys):
        return None
    return Publish(True, found, crc32c(bytes(values.get("data", b""))))


@dataclass(slots=True)
class Dropped:
    """New messages of one connection that a stream took for duplicates."""

    first: FrameRef
    frames: list[FrameRef] = field(default_factory=list)
    messages: int = 0


class Stored:
    """What becomes of publishes to JetStream, by their answers."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._digests: Newest[tuple[str, str], int] = Newest(MOST_IDS)
        """Of the first message with an id, by stream and id."""
        self._streams: Newest[str, str] = Newest(MOST_KNOWN)
        """Which stream stored a subject."""
        self._deleted: Newest[str, tuple[str, FrameRef]] = Newest(MOST_KNOWN)
        """Who deleted a stream, and when."""
        self._dropped: dict[tuple[int, str], Dropped] = {}

    def request(self, frame: Frame, subject: str) -> None:
        """A client asks for something."""
        if subject.startswith(OWN) and DELETE in subject:
            stream = printable(subject.rpartition(".")[2])
            self._deleted.put(stream, (self.report.names.short(frame.connection), ref_of(frame)))

    def answer(self, frame: Frame, subject: str, published: FrameRef, publish: Publish | None) -> None:
        """JetStream answered a publish to ``subject``."""
        stream = frame.generated.get(STREAM)
        if not stream or SEQUENCE not in frame.generated:
            return
        self._streams.put(subject, stream)
        if publish is None or publish.id is None:
            return
        key, known = (stream, publish.id), self._digests.get((stream, publish.id))
        if known is None:
            self._digests.put(key, publish.digest)
        elif known != publish.digest and frame.generated.get(DUPLICATE):
            place = published.connection.number, stream
            if place in self._dropped or len(self._dropped) < MOST_KNOWN:
                dropped = self._dropped.setdefault(place, Dropped(published))
                dropped.messages += 1
                dropped.frames = [*dropped.frames, published][:8]

    def not_taken(self, frame: Frame, subject: str, publish: Publish | None) -> bool:
        """Nobody listens on ``subject``; whether that is known to be a matter of JetStream, and was reported."""
        who = self.report.names.short(frame.connection)
        stream = self._streams.get(subject)
        if subject.startswith(OWN):
            what = f"JetStream does not answer requests of {who}"
            self.report.add(CODES["no-jetstream"], what, frame.connection.number, frame=frame).detail(subject)
        elif stream is not None or publish is not None:
            what = f"publishes of {who} to {subject} were not stored: no stream takes the subject"
            key = frame.connection.number, subject
            self._explain(self.report.add(CODES["not-stored"], what, key, frame=frame), stream)
        else:
            return False
        return True

    def _explain(self, problem: Problem, stream: str | None) -> None:
        problem.weight = problem.count
        if stream is None:
            return
        problem.detail(f"stream {stream} stored the subject before")
        deleted = self._deleted.get(stream)
        if deleted is not None:
            who, place = deleted
            at = self.report.seconds(place.time_ns)
            problem.likely = f"{who} deleted stream {stream} at {at} (frame {place.number})"

    def finish(self) -> None:
        for (_, stream), dropped in self._dropped.items():
            who = self.report.names.short(dropped.first.connection)
            what = f"{dropped.messages:,} new messages of {who} to stream {stream} were confirmed and dropped"
            key = dropped.first.connection.number, stream
            problem = self.report.add(CODES["messages-dropped"], what, key, frame=dropped.first)
            problem.count = problem.weight = dropped.messages
            for place in dropped.frames:
                self.report.cite(problem, place)
            problem.last_ns = dropped.frames[-1].time_ns
            problem.detail(f"their {MESSAGE_ID} was used before, with other contents")
