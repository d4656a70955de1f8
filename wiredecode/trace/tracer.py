"""The two passes of a trace: find the wanted messages, then collect all their sightings and answers."""

from collections.abc import Iterable, Iterator

from wiredecode.check.gauges import Gauges
from wiredecode.frames.escape import counted, duration
from wiredecode.frames.frame import ANSWERED, REFUSED, Frame
from wiredecode.frames.message import PUBLISH, FrameMessages, Messages
from wiredecode.protocols.shared.pairing import outcome_of
from wiredecode.trace.sighting import (
    ACKNOWLEDGED,
    NOT_ACKNOWLEDGED,
    STORED,
    Criteria,
    LogPosition,
    Reply,
    SightedMessage,
    Sighting,
    digest_of,
    drop_answers,
    facts,
    group,
    sighting,
)

MAX_FOUND = 1000
"""Sightings that fit the criteria; more are only counted."""
MAX_SIGHTINGS = 4096
"""Sightings of these messages; more are only counted."""
MAX_PUBLISHERS = 1000
"""Publishers with a name whose last number is remembered."""

WORDS = {ANSWERED: "confirmed", REFUSED: "refused", None: "answered"}
ACK_WORDS = {ANSWERED: ACKNOWLEDGED, REFUSED: NOT_ACKNOWLEDGED, None: "answered"}
"""How a confirm, and the ack of a delivery, is called by its outcome, which is unknown if it is truncated."""


def numbered(parts: Iterable[FrameMessages]) -> Iterator[tuple[FrameMessages, int]]:
    """Parts of the messages of a frame, and the number of its messages before each."""
    before = 0
    for part in parts:
        yield part, before
        before += len(part.bodies)


class Finder:
    """First pass: the sightings that are wanted."""

    def __init__(self, criteria: Criteria) -> None:
        self.criteria, self.messages = criteria, Messages()
        self.found: list[Sighting] = []
        self.more = 0
        self._frame: Frame | None = None
        """The frame that is asked for by its number, and how many messages it has."""
        self._messages = self._last = 0

    def frame(self, frame: Frame, *, counts: bool = True) -> None:
        """The next frame; its messages are looked at if it ``counts``."""
        parts, is_asked = self.messages.of(frame), frame.number == self.criteria.frame
        self._last = frame.number
        if is_asked:
            self._frame = frame
        for part, before in numbered(parts) if counts else ():
            if is_asked:
                self._messages = before + len(part.bodies)
            for index in self.criteria.fits(part, before):
                if len(self.found) < MAX_FOUND:
                    self.found.append(sighting(part, index, before))
                else:
                    self.more += 1

    def why(self) -> str:
        """Why nothing was found, where a frame was asked for, and what to ask instead."""
        number, frame = self.criteria.frame, self._frame
        if number is None or not self._last:
            return f"no message {self.criteria.described()}"
        if frame is None:
            return f"there is no frame {number:,}: the last one is {self._last:,}"
        if self._messages:
            return f"no message of frame {number} fits; it has {counted(self._messages, 'message')}"
        answer = f"frame {number} holds no message, it is {frame.type or 'unknown'} of {frame.protocol}"
        if frame.confirmations:
            return f"{answer}; it answers frame {frame.confirmations[0].request}: ask for that one"
        return f"{answer}; ask for a frame that publishes or delivers one, or with --text, --id or --key"


class Collector:
    """Second pass: finds all sightings of the messages, by their bodies, positions or frames."""

    def __init__(self, seeds: Iterable[Sighting]) -> None:
        self.messages = Messages()
        self.sightings: list[Sighting] = []
        self.more = 0
        self._seeds = {(each.frame, each.index) for each in seeds}
        self._bodies = {each.digest for each in seeds if each.digest is not None}
        self._sizes = {each.size for each in seeds if each.digest is not None}
        self._log_positions: set[LogPosition] = {each.log_position for each in seeds if each.log_position is not None}
        self._by_frame: dict[int, list[Sighting]] = {}
        self._highest: dict[tuple[str | None, str], int] = {}
        """By topic and publisher: the highest number up to now."""
        self._stored: set[tuple[str, LogPosition]] = set()
        """Consumers, and the positions that they are known to have finished."""
        self._gauges = Gauges()

    def found(self) -> list[SightedMessage]:
        """The wanted messages, once all frames came."""
        return drop_answers(group(self.sightings), self._seeds)

    def _collect(self, parts: Iterable[FrameMessages]) -> None:
        for part, before in numbered(parts):
            highest = self._number(part)
            for index in self._fitting(part, before):
                if len(self.sightings) >= MAX_SIGHTINGS:
                    self.more += 1
                    continue
                seen = sighting(part, index, before)
                seen.is_duplicate = highest is not None and (seen.sequence or 0) <= highest
                self.sightings.append(seen)
                self._by_frame.setdefault(seen.frame, []).append(seen)

    def _number(self, part: FrameMessages) -> int | None:
        """The highest number that a publisher with a name used before this part; None: it may use any."""
        name = part.frame.generated.get("reference")
        numbers = [number for number in part.sequences or () if number is not None]
        if name is None or not numbers or part.operation != PUBLISH:
            return None
        before = self._highest.get((part.topic, name))
        if before is not None or len(self._highest) < MAX_PUBLISHERS:
            self._highest[part.topic, name] = max(*numbers, -1 if before is None else before)
        return before

    def _fitting(self, part: FrameMessages, before: int) -> list[int]:
        offsets, number = part.offsets, part.frame.number
        log = part.namespace, part.topic, part.partition
        return [
            index
            for index, body in enumerate(part.bodies)
            if (body and len(body) in self._sizes and digest_of(body) in self._bodies)
            or (offsets is not None and (*log, offsets[index]) in self._log_positions)
            or (number, before + index) in self._seeds
        ]

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        self._collect(parts := self.messages.of(frame))
        for each in self._by_frame.get(frame.number, ()):
            each.outcome, each.copy_of = frame.outcome, frame.generated.get("copy_of")
        if frame.confirmations:
            self._confirm(frame)
        elif frame.request in self._by_frame:
            self._answer(frame, self._by_frame[frame.request], has_messages=bool(parts))
        for reading in self._gauges.frame(frame):
            if reading.covers is not None:
                topic, partition, last = reading.covers
                self._store(frame, reading.of, (frame.generated.get("namespace"), topic, partition), last)

    def _store(self, frame: Frame, who: str, log: tuple[str | None, str, int | None], last: int) -> None:
        """A consumer says that it is done with all up to an offset."""
        for each in self.sightings:
            position = each.log_position
            if position is None or position[:3] != log or position[3] > last or (who, position) in self._stored:
                continue
            self._stored.add((who, position))
            each.answers.append(Reply(*facts(frame), STORED, f"{who}: done up to offset {last}"))

    def _answer(self, frame: Frame, answered: list[Sighting], *, has_messages: bool) -> None:
        sequence = frame.generated.get("stream_sequence")
        why, reply = "the request that it answers", has_messages and not frame.inner
        if sequence is not None:
            reply = False
            kept = "dropped: it was stored before" if frame.generated.get("duplicate") else "stored"
            why = f"{why}, {kept} in {frame.generated['stream']}"
        for each in answered:
            plain = reply or each.operation != PUBLISH or not outcome_of(frame)
            word, text, refusal = WORDS[None if plain else ANSWERED], why, ""
            if each.outcome == REFUSED:
                word, refusal = WORDS[REFUSED], frame.refusal or REFUSED
                text = f"{why}: {refusal}"
            each.answers.append(Reply(*facts(frame), word, text, sequence, refusal))

    def _confirm(self, frame: Frame) -> None:
        """A confirm that names messages by their numbers, or an ack."""
        for confirmation in frame.confirmations:
            meant = range(confirmation.first, confirmation.first + confirmation.length)
            for each in self._by_frame.get(confirmation.request, ()):
                if each.share in meant:
                    each.outcome = confirmation.outcome
                    word, evidence = WORDS[confirmation.outcome], f"number {each.sequence}"
                    if each.operation != PUBLISH:
                        word, after = ACK_WORDS[confirmation.outcome], duration(frame.time_ns - each.time_ns)
                        evidence = f"the ack of frame {each.frame}, {after} after it"
                    each.answers.append(Reply(*facts(frame), word, evidence, why=confirmation.refusal or ""))
