"""What became of published messages, as columns of the table of messages: confirmed when and where, refused why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.dissect.lookahead import Lookahead
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.frame import ANSWERED, REFUSED, Confirmation, Frame
from wiredecode.frames.message import PUBLISH, FrameElements, FrameMessages, MessagePart, Messages
from wiredecode.tables.confirms_blocks import AskingBlocks, answering

CONFIRM_COLUMNS = ("confirmed_ns", "latency_ns", "outcome", "refusal", "confirm_frame")

ConfirmRow = tuple[int | None, int | None, str | None, str | None, int | None]
"""One message: the values of these columns."""
Part = FrameMessages | FrameElements
NO_CONFIRM: ConfirmRow = (None,) * 5


def confirms_of(parts: Sequence[Part], counts: Sequence[int], firsts: Sequence[int]) -> tuple[list[ConfirmRow], Int64s]:
    """What was told about the messages of parts: different answers, and which of them holds for each message.

    ``counts``: messages of each part; ``firsts``: how many of its frame precede it.
    """
    answers: list[ConfirmRow] = []
    starts: list[int] = []
    different: list[tuple[int, Int64s]] = []
    for place, (part, count, first) in enumerate(zip(parts, counts, firsts, strict=True)):
        found = _answers(part)
        if len(found) > 1:
            different.append((place, _which(part, count, first)))
        starts.append(len(answers))
        answers += found
    which = np.repeat(np.array(starts, np.int64), counts)
    ends = np.cumsum(counts)
    for place, added in different:
        which[ends[place] - counts[place] : ends[place]] += added
    return answers, which


def _answers(part: Part) -> list[ConfirmRow]:
    """What holds for messages that nothing was told about, then each answer; one where it holds for all."""
    frame = part.frame
    if part.operation != PUBLISH:
        return [NO_CONFIRM]
    found: list[ConfirmRow] = [
        (at_ns, at_ns - frame.time_ns, message_outcome(confirmation), confirmation.refusal, number)
        for confirmation, number, at_ns in frame.answers
    ]
    if len(found) == 1 and frame.answers[0].confirmation.final is not None:
        return found
    return [(None, None, frame.outcome or None, None, None), *found]


def message_outcome(confirmation: Confirmation) -> str | None:
    """What became of the messages that it names; None: not all of it was captured."""
    if confirmation.refusal is not None:
        return REFUSED
    return None if confirmation.final == "" else ANSWERED


def _which(part: Part, count: int, first: int) -> Int64s:
    """For each message of a part the last answer that names it; 0 for none."""
    shares = np.arange(first, first + count)
    if isinstance(part, FrameMessages) and part.shares is not None:
        shares = np.array(part.shares, np.int64)
    found = np.zeros(count, np.int64)
    for place, answer in enumerate(part.frame.answers, 1):
        low = answer.confirmation.first
        found[(shares >= low) & (shares < low + answer.confirmation.length)] = place
    return found


class HeldMessages:
    """Holds the messages of frames and blocks back until it is known what became of them, within bounds."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._lookahead = Lookahead()
        self._blocks = AskingBlocks()
        self._held: deque[tuple[int, list[MessagePart]]] = deque()
        """Number of the last frame, and the messages, of what came together."""

    def add(self, items: Iterable[Frame | FrameBlock]) -> None:
        """What :meth:`Dissector.mixed` yields; its messages were collected."""
        frames = [item for item in items if isinstance(item, Frame)]
        blocks = [item for item in items if not isinstance(item, Frame)]
        order = np.argsort(column((frame.number for frame in frames), (block.numbers for block in blocks)))
        times = column((frame.time_ns for frame in frames), (block.time_ns for block in blocks))[order]
        lengths = column((frame.length for frame in frames), (block.stops - block.starts for block in blocks))[order]
        parts = self._messages.drain()
        asking = self._lookahead.waiting_ids | {frame.id for frame in frames if frame.expects_response}
        self._blocks.add(parts, frames, blocks, times, lengths)
        link(self._lookahead, [*frames, *answering(blocks, asking)], times, lengths)
        self._held.append((self._lookahead.seen, parts))

    def finish(self) -> None:
        """Nothing more comes."""
        self._lookahead.finish()
        self._blocks.finish()

    def release(self) -> list[MessagePart]:
        """Take the messages that need not wait any longer."""
        released: list[MessagePart] = []
        ready = min(self._lookahead.seen - self._lookahead.waiting, self._blocks.ready_count)
        while self._held and self._held[0][0] <= ready:
            released += self._held.popleft()[1]
        if self._held:
            last, parts = self._held[0]
            single = [part for part in parts if isinstance(part, FrameMessages | FrameElements)]
            if len(single) == len(parts):  # else the messages of blocks wait together
                released += [part for part in single if part.frame.number <= ready]
                self._held[0] = last, [part for part in single if part.frame.number > ready]
        return released


def column(frames: Iterable[int], blocks: Iterable[Int64s]) -> Int64s:
    """A value per frame: those of single frames, then those of blocks."""
    return np.concatenate([np.fromiter(frames, np.int64), *blocks])


def link(lookahead: Lookahead, frames: list[Frame], times: Int64s, lengths: Int64s) -> None:
    """Show the next frames to the lookahead, all times and lengths in order of numbers."""
    if not len(times):
        return
    speaking = [frame for frame in frames if frame.request is not None or frame.expects_response]
    speaking.sort(key=attrgetter("number"))
    first = lookahead.seen + 1
    done = 0
    for frame in speaking:
        at = frame.number - first
        if at > done:
            lookahead.skip(times[done:at], lengths[done:at])
        lookahead.add(frame)
        done = at + 1
    lookahead.skip(times[done:], lengths[done:])
