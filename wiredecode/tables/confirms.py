"""Outcomes of published messages, as columns of the table of messages: confirmed when and where, refused why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.dissect.ledger import Ledger, Stretch
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.frame import ANSWERED, REFUSED, Confirmation, Frame
from wiredecode.frames.message import PUBLISH, FrameMessages, MessagePart, Messages

CONFIRM_COLUMNS = ("confirmed_ns", "latency_ns", "outcome", "refusal", "confirm_frame")

ConfirmRow = tuple[int | None, int | None, str | None, str | None, int | None]
"""One message: the values of these columns."""
NO_CONFIRM: ConfirmRow = (None,) * 5


def confirms_of(
    parts: Sequence[FrameMessages], counts: Sequence[int], firsts: Sequence[int]
) -> tuple[list[ConfirmRow], Int64s]:
    """Answers to the messages of parts: the different ones, and the index of the answer of each message.

    ``counts``: messages of each part; ``firsts``: the number of messages of its frame before it.
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


def _answers(part: FrameMessages) -> list[ConfirmRow]:
    """The row of messages without an answer, then each answer; one row if it holds for all."""
    frame = part.frame
    if part.operation != PUBLISH:
        return [NO_CONFIRM]
    found: list[ConfirmRow] = []
    for confirmation, number, at_ns in frame.answers:
        latency_ns = at_ns - frame.time_ns if at_ns >= frame.time_ns else None  # else it was refused before it was sent
        found.append((at_ns, latency_ns, message_outcome(confirmation), confirmation.refusal, number))
    if len(found) == 1 and frame.answers[0].confirmation.final is not None:
        return found
    return [(None, None, frame.outcome or None, None, None), *found]


def message_outcome(confirmation: Confirmation) -> str | None:
    """Outcome of the messages that it names; None: not all of it was captured."""
    if confirmation.refusal is not None:
        return REFUSED
    return None if confirmation.final == "" else ANSWERED


def _which(part: FrameMessages, count: int, first: int) -> Int64s:
    """For each message of a part the last answer that names it; 0 for none."""
    shares = np.arange(first, first + count)
    if part.shares is not None:
        shares = np.array(part.shares, np.int64)
    found = np.zeros(count, np.int64)
    for place, answer in enumerate(part.frame.answers, 1):
        low = answer.confirmation.first
        found[(shares >= low) & (shares < low + answer.confirmation.length)] = place
    return found


class HeldMessages:
    """Holds the messages of frames and blocks back until their outcome is known, within bounds."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._ledger = Ledger()
        self._held: deque[tuple[int, list[MessagePart]]] = deque()
        """Number of the last frame, and the messages, of what came together."""

    def add(self, items: Iterable[Frame | FrameBlock]) -> None:
        """Add the items of :meth:`Dissector.mixed`; its messages were collected."""
        frames = [item for item in items if isinstance(item, Frame)]
        blocks = [item for item in items if not isinstance(item, Frame)]
        if not frames and not blocks:
            return
        linked = [frame.number for frame in frames if frame.request is not None or frame.expects_response]
        ordered: list[Frame | Stretch] = [*frames]
        for block in blocks:
            ordered += stretches_of(block, sorted(linked))
        for item in sorted(ordered, key=attrgetter("number")):
            if isinstance(item, Frame):
                self._ledger.add(item)
            else:
                self._ledger.add_unlinked(item)
        self._held.append((self._ledger.seen, self._messages.drain()))

    def finish(self, last_ns: int) -> int:
        """Nothing more comes; ``last_ns``: time of the last packet. Return :attr:`Ledger.missed`."""
        self._ledger.finish(last_ns)
        return self._ledger.missed

    def release(self) -> list[MessagePart]:
        """Take the messages that need not wait any longer."""
        released: list[MessagePart] = []
        ready = self._ledger.seen - self._ledger.waiting
        while self._held and self._held[0][0] <= ready:
            released += self._held.popleft()[1]
        if self._held:
            last, parts = self._held[0]
            single = [part for part in parts if isinstance(part, FrameMessages)]
            if len(single) == len(parts):  # else the messages of blocks wait together
                released += [part for part in single if part.frame.number <= ready]
                self._held[0] = last, [part for part in single if part.frame.number > ready]
        return released


def stretches_of(block: FrameBlock, linked: list[int]) -> Iterator[Stretch]:
    """The frames of a block, in stretches that no frame with one of the numbers ``linked`` divides."""
    edges = np.unique([0, *np.searchsorted(block.numbers, linked).tolist(), len(block)])
    lasts = edges[1:] - 1
    sums = np.concatenate([[0], np.cumsum(block.stops - block.starts)])[edges]
    columns = (block.numbers[lasts], np.diff(edges), np.diff(sums), block.time_ns[lasts])
    for each in zip(*(column.tolist() for column in columns), strict=True):
        yield Stretch(block.connection, *each)
