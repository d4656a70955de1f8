"""What became of the published messages of blocks: the rules of :class:`Ledger`, for many messages at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wiredecode.arrays import Bools, Int32s, Int64s
from wiredecode.dissect.ledger import WAIT_NS, captured_from, held_bounds, own_bounds
from wiredecode.frames.block import BlockMessages, FrameBlock
from wiredecode.frames.frame import ANSWERED, LATE, NOT_ASKED, REFUSED, UNANSWERED, Frame
from wiredecode.frames.message import PUBLISH, Coded, MessagePart, Valid
from wiredecode.protocols.shared.pairing import outcome_of, refusal_of

OUTCOMES = [ANSWERED, REFUSED, UNANSWERED, LATE, NOT_ASKED]
CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}
ANSWER_COLUMNS = ("confirmed_ns", "latency_ns", "confirm_frame")
NONE = -1
"""In place of a code: nothing to tell."""


class Step:
    """Frames that became ready together, in order of their numbers, and what came before each."""

    def __init__(
        self, frames: list[Frame], blocks: list[FrameBlock], size: int, own: Mapping[int, tuple[int, int]]
    ) -> None:
        """``size``: bytes of all frames before; ``own``: frames and bytes before, by number of the connection."""
        numbers = column((frame.number for frame in frames), (block.numbers for block in blocks))
        order = np.argsort(numbers)
        self.first = int(numbers[order[0]])
        """Number of the first frame."""
        self.times = column((frame.time_ns for frame in frames), (block.time_ns for block in blocks))[order]
        lengths = column((frame.length for frame in frames), (block.stops - block.starts for block in blocks))[order]
        self.before = size + np.cumsum(lengths) - lengths
        """Bytes of all frames before each."""
        self.size = size + int(lengths.sum())
        self._own, self._count, self._lengths = own, len(order), lengths
        self._owners = column(
            (frame.connection.number for frame in frames),
            (np.full(len(block), block.connection.number) for block in blocks),
        )[order]

    @cached_property
    def _by_connection(self) -> tuple[Int64s, Int64s]:
        """Frames sorted by connection and place, as one number each; and the sums of their lengths."""
        grouped = np.argsort(self._owners, kind="stable")
        sums = np.concatenate([[0], np.cumsum(self._lengths[grouped])])
        return self._owners[grouped] * self._count + grouped, sums

    def __len__(self) -> int:
        return self._count

    def passed(self, connections: Int64s, places: Int64s | int) -> tuple[Int64s, Int64s]:
        """Frames and bytes of some connections before some places of the step."""
        if not len(connections):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        known, which = np.unique(connections, return_inverse=True)
        before = np.array([self._own.get(each, (0, 0)) for each in known.tolist()], np.int64).reshape(-1, 2)[which]
        keys, sums = self._by_connection
        low = np.searchsorted(keys, connections * self._count)
        high = np.searchsorted(keys, connections * self._count + places)
        return before[:, 0] + high - low, before[:, 1] + sums[high] - sums[low]

    def after(self, connections: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Frames and bytes of some connections up to the end of the step, as the next step needs them."""
        numbers = np.array(sorted(connections), np.int64)
        frames, size = self.passed(numbers, self._count)
        return dict(zip(numbers.tolist(), zip(frames.tolist(), size.tolist(), strict=True), strict=True))


def column(frames: Iterable[int], blocks: Iterable[Int64s]) -> Int64s:
    """A value per frame: those of single frames, then those of blocks."""
    return np.concatenate([np.fromiter(frames, np.int64), *blocks])


class Answers(NamedTuple):
    """Frames that answer others, in order."""

    requests: Int64s
    ids: Int64s
    numbers: Int64s
    outcomes: Int64s
    refusals: list[str | None]


@dataclass(slots=True, eq=False)
class Asking:
    """Messages of blocks that became ready together; ``rows`` of them ask for an answer."""

    rows: Int64s
    ids: Int64s
    numbers: Int64s
    time_ns: Int64s
    connections: Int64s
    own_frames: Int64s
    """Frames of the connection before each, and their bytes."""
    own_bytes: Int64s
    before: Int64s
    """Bytes of all frames before each."""
    blocks: list[FrameBlock]
    which: Int64s
    """Block of each."""
    open: Bools
    """Which wait."""
    answers: Int64s
    """The :data:`ANSWER_COLUMNS`, with a value for each message, as the three that follow."""
    answered: Bools
    outcomes: Int32s
    refusals: Int32s
    reasons: list[str] = field(default_factory=list)

    def match(self, answers: Answers, step: Step) -> int:
        """Give those that wait the first answer that comes in time; return how many could not be held that long."""
        waiting = np.flatnonzero(self.open)
        waiting = waiting[np.argsort(self.ids[waiting])]
        if not len(waiting) or not len(answers.ids):
            return 0
        places = np.searchsorted(self.ids[waiting], answers.requests)
        places[places == len(waiting)] = 0
        those = np.flatnonzero(self.ids[waiting[places]] == answers.requests)
        requests, first = np.unique(waiting[places[those]], return_index=True)
        those = those[first]
        at = answers.numbers[those] - step.first
        good = self._own_bounds(requests, step, at) & (step.times[at] - self.time_ns[requests] <= WAIT_NS)
        held = held_bounds(answers.numbers[those] - self.numbers[requests], step.before[at] - self.before[requests])
        missed = int(np.count_nonzero(good & ~held))
        good &= held
        requests, those, at = requests[good], those[good], at[good]
        self.open[requests] = False
        rows = self.rows[requests]
        self.answers[:, rows] = step.times[at], step.times[at] - self.time_ns[requests], answers.ids[those]
        self.answered[rows] = True
        self.outcomes[rows] = answers.outcomes[those]
        for row, one in zip(rows.tolist(), those.tolist(), strict=True):
            if (refusal := answers.refusals[one]) is not None:
                self.refusals[row] = len(self.reasons)
                self.reasons.append(refusal)
        return missed

    def _own_bounds(self, requests: Int64s, step: Step, at: Int64s | int) -> Bools:
        frames, size = step.passed(self.connections[requests], at)
        within: Bools = own_bounds(frames - self.own_frames[requests], size - self.own_bytes[requests])
        return within

    def close_past(self, step: Step) -> None:
        """No answer is in time any more after too many frames."""
        requests = np.flatnonzero(self.open)
        good = self._own_bounds(requests, step, len(step))
        good &= held_bounds(step.first + len(step) - self.numbers[requests], step.size - self.before[requests])
        self.close(requests[~good], LATE)

    def finish(self, last_ns: int) -> None:
        """No frame comes any more; ``last_ns``: time of the last packet of the capture."""
        requests = np.flatnonzero(self.open)
        late = last_ns - self.time_ns[requests] > WAIT_NS
        self.close(requests[late], LATE)
        requests = requests[~late]
        captured = np.array([captured_from(block.connection, block.side) for block in self.blocks])[
            self.which[requests]
        ]
        self.close(requests[self.time_ns[requests] >= captured], UNANSWERED)

    def close(self, requests: Int64s, outcome: str) -> None:
        """No answer of these is waited for any more."""
        told = np.array([block.connection.label is None for block in self.blocks])[self.which[requests]]
        self.outcomes[self.rows[requests[told]]] = CODES[outcome]
        self.open[requests] = False


class AskingBlocks:
    """Is shown all frames, in order, and fills in the columns of the messages of blocks that ask for an answer."""

    def __init__(self) -> None:
        self._waiting: list[Asking] = []
        self.missed = 0
        """As :attr:`Ledger.missed`."""

    @property
    def open_connections(self) -> set[int]:
        """Numbers of the connections of which messages wait."""
        return {number for each in self._waiting for number in np.unique(each.connections[each.open]).tolist()}

    def ready_count(self, seen: int) -> int:
        """So many of the first ``seen`` frames need not wait."""
        return min((int(each.numbers[each.open].min()) - 1 for each in self._waiting), default=seen)

    def add(self, parts: Sequence[MessagePart], frames: list[Frame], blocks: list[FrameBlock], step: Step) -> None:
        """The next frames and their messages."""
        asking = asking_of(parts, step)
        if asking is not None:
            self._waiting.append(asking)
        if self._waiting:
            answers = answers_of(frames, blocks)
            for each in self._waiting:
                self.missed += each.match(answers, step)
                each.close_past(step)
        self._waiting = [each for each in self._waiting if each.open.any()]

    def finish(self, last_ns: int) -> None:
        """Nothing more comes."""
        for each in self._waiting:
            each.finish(last_ns)
        self._waiting = []


def asking_of(parts: Sequence[MessagePart], step: Step) -> Asking | None:
    """The messages of blocks that ask for an answer; their parts get columns, which are filled in later."""
    some = [
        part
        for part in parts
        if isinstance(part, BlockMessages)
        and part.block.expects_response is not None
        and part.columns["operation"] == PUBLISH
    ]
    if not some:
        return None
    waits = np.concatenate([part.block.expects_response[part.rows] for part in some])  # type: ignore[index]
    rows = np.flatnonzero(waits)
    if not len(rows):
        return None
    counts, total = [len(part.rows) for part in some], len(waits)
    numbers = np.concatenate([part.block.numbers[part.rows] for part in some])[rows]
    which = np.repeat(np.arange(len(some)), counts)[rows]
    connections = np.array([part.block.connection.number for part in some], np.int64)[which]
    at = numbers - step.first
    asking = Asking(
        rows,
        np.concatenate([part.block.ids[part.rows] for part in some])[rows],
        numbers,
        step.times[at],
        connections,
        *step.passed(connections, at),
        step.before[at],
        [part.block for part in some],
        which,
        open=np.ones(len(rows), np.bool_),
        answers=np.zeros((3, total), np.int64),
        answered=np.zeros(total, np.bool_),
        outcomes=np.where(waits, NONE, CODES[NOT_ASKED]).astype(np.int32),
        refusals=np.full(total, NONE, np.int32),
    )
    stops = np.cumsum(counts).tolist()
    for part, first, stop in zip(some, [0, *stops], stops, strict=False):
        for name, values in zip(ANSWER_COLUMNS, asking.answers, strict=True):
            part.columns[name] = Valid(values[first:stop], asking.answered[first:stop])
        part.columns["outcome"] = Coded(asking.outcomes[first:stop], OUTCOMES)
        part.columns["refusal"] = Coded(asking.refusals[first:stop], asking.reasons)
    return asking


def answers_of(frames: list[Frame], blocks: list[FrameBlock]) -> Answers:
    """What answers a frame, the first ones first."""
    single = [frame for frame in frames if frame.request is not None and not frame.confirmations]
    several = [block for block in blocks if block.requests is not None]
    outcomes = [outcome_of(frame) for frame in single]
    own = np.array([(frame.request, frame.id, frame.number) for frame in single], np.int64).reshape(-1, 3)
    others = [np.stack((block.requests, block.ids, block.numbers), 1)[block.requests != 0] for block in several]  # type: ignore[arg-type]
    table = np.concatenate([own, *others])
    codes = np.full(len(table), CODES[ANSWERED])
    codes[: len(single)] = [CODES.get(outcome, NONE) for outcome in outcomes]
    refusals = {
        at: refusal_of(frame)
        for at, (frame, outcome) in enumerate(zip(single, outcomes, strict=True))
        if outcome == REFUSED
    }
    order = np.argsort(table[:, 2], kind="stable")
    requests, ids, numbers = table[order].T
    return Answers(requests, ids, numbers, codes[order], [refusals.get(at) for at in order.tolist()])


def answering(blocks: list[FrameBlock], requests: set[int]) -> Iterator[Frame]:
    """Frames of blocks that answer one of these."""
    known = np.fromiter(requests, np.int64, len(requests))
    for block in blocks:
        if block.requests is None or not requests:
            continue
        for row in np.flatnonzero(np.isin(block.requests, known)).tolist():
            frame = block.part(row, row + 1).frames()[0]
            frame.request = int(block.requests[row])
            yield frame
