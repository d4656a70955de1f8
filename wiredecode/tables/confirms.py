"""What became of published messages, as columns of the table of messages: confirmed when and where, refused why."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import attrgetter

import numpy as np

from wiredecode.arrays import Int64s
from wiredecode.dissect.ledger import Ledger, Passed
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.frame import ANSWERED, REFUSED, Confirmation, Frame
from wiredecode.frames.message import PUBLISH, FrameElements, FrameMessages, MessagePart, Messages
from wiredecode.net.types import Connection
from wiredecode.tables.confirms_blocks import AskingBlocks, Step, answering

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
    found: list[ConfirmRow] = []
    for confirmation, number, at_ns in frame.answers:
        latency_ns = at_ns - frame.time_ns if at_ns >= frame.time_ns else None  # else it was refused before it was sent
        found.append((at_ns, latency_ns, message_outcome(confirmation), confirmation.refusal, number))
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
        self._ledger = Ledger()
        self._ledger.refresh = self._refresh
        self._blocks = AskingBlocks()
        self._own: dict[int, tuple[int, int]] = {}
        """Frames and bytes so far of connections of which something waits, by number."""
        self._step: Step
        self._held: deque[tuple[int, list[MessagePart]]] = deque()
        """Number of the last frame, and the messages, of what came together."""

    def add(self, items: Iterable[Frame | FrameBlock]) -> None:
        """What :meth:`Dissector.mixed` yields; its messages were collected."""
        frames = [item for item in items if isinstance(item, Frame)]
        blocks = [item for item in items if not isinstance(item, Frame)]
        if not frames and not blocks:
            return
        self._step = step = Step(frames, blocks, self._ledger.size, self._own)
        parts = self._messages.drain()
        asking = self._ledger.waiting_ids | {frame.id for frame in frames if frame.expects_response}
        self._blocks.add(parts, frames, blocks, step)
        self._link([*frames, *answering(blocks, asking)], step)
        waiting = {connection.number for connection in self._ledger.open_connections}
        self._own = step.after(waiting | self._blocks.open_connections)
        self._held.append((self._ledger.seen, parts))

    def _link(self, frames: list[Frame], step: Step) -> None:
        """Show the next frames that ask or answer to the ledger."""
        ledger = self._ledger
        speaking = [frame for frame in frames if frame.request is not None or frame.expects_response]
        speaking.sort(key=attrgetter("number"))
        connections = np.array([frame.connection.number for frame in speaking], np.int64)
        places = np.array([frame.number - step.first for frame in speaking], np.int64)
        columns = (places, step.before[places], *step.passed(connections, places))
        for frame, place, size, own_frames, own_bytes in zip(
            speaking, *(each.tolist() for each in columns), strict=True
        ):
            ledger.seen, ledger.size = step.first - 1 + place, size
            if (passed := ledger.passed(frame)) is not None:
                passed.frames, passed.bytes = own_frames, own_bytes
            ledger.add(frame)
        ledger.seen, ledger.size = step.first - 1 + len(step), step.size
        ledger.close_past()
        ledger.release(int(step.times[-1]))

    def _refresh(self, connection: Connection, passed: Passed) -> None:
        """Count what passed of a connection up to the frame that is added to the ledger."""
        place = self._ledger.seen - self._step.first + 1
        frames, size = self._step.passed(np.array([connection.number]), place)
        passed.frames, passed.bytes = int(frames[0]), int(size[0])

    def finish(self, last_ns: int) -> int:
        """Nothing more comes; ``last_ns``: time of the last packet. Return :attr:`Ledger.missed`."""
        self._ledger.finish(last_ns)
        self._blocks.finish(last_ns)
        return self._ledger.missed + self._blocks.missed

    def release(self) -> list[MessagePart]:
        """Take the messages that need not wait any longer."""
        released: list[MessagePart] = []
        seen = self._ledger.seen
        ready = min(seen - self._ledger.waiting, self._blocks.ready_count(seen))
        while self._held and self._held[0][0] <= ready:
            released += self._held.popleft()[1]
        if self._held:
            last, parts = self._held[0]
            single = [part for part in parts if isinstance(part, FrameMessages | FrameElements)]
            if len(single) == len(parts):  # else the messages of blocks wait together
                released += [part for part in single if part.frame.number <= ready]
                self._held[0] = last, [part for part in single if part.frame.number > ready]
        return released
