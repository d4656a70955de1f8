"""What became of the published messages of blocks: the rules of :class:`Lookahead`, for many messages at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wiredecode.arrays import Bools, Int32s, Int64s
from wiredecode.dissect.lookahead import LOOKAHEAD_BYTES, LOOKAHEAD_FRAMES, LOOKAHEAD_NS, captured_from
from wiredecode.frames.block import BlockMessages, FrameBlock
from wiredecode.frames.frame import ANSWERED, LATE, NOT_ASKED, REFUSED, UNANSWERED, Frame
from wiredecode.frames.message import PUBLISH, Coded, MessagePart, Valid
from wiredecode.protocols.shared.pairing import outcome_of, refusal_of

OUTCOMES = [ANSWERED, REFUSED, UNANSWERED, LATE, NOT_ASKED]
CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}
NONE = -1
"""In place of a code: nothing to tell."""


class Release(NamedTuple):
    """Frames that became ready together, in order."""

    first: int
    """Number of the first."""
    times: Int64s
    before: Int64s
    """Bytes of all frames before each."""
    precedes_ns: Int64s
    """Time of the frame before each."""


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
    before: Int64s
    reportable: Bools
    """Of which it is told that nobody answered: ids that are stable do not depend on other connections."""
    captured: Bools
    """Of which everything that could answer was captured."""
    open: Bools
    """Which wait."""
    confirmed_ns: Int64s
    """A value for each message, as the four that follow."""
    latency_ns: Int64s
    frames: Int64s
    answered: Bools
    outcomes: Int32s
    refusals: Int32s
    reasons: list[str] = field(default_factory=list)

    def match(self, answers: Answers, step: Release) -> None:
        """Tell those that wait the first answer that comes in time."""
        waiting = np.flatnonzero(self.open)
        waiting = waiting[np.argsort(self.ids[waiting])]
        if not len(waiting) or not len(answers.ids):
            return
        places = np.searchsorted(self.ids[waiting], answers.requests)
        places[places == len(waiting)] = 0
        those = np.flatnonzero(self.ids[waiting[places]] == answers.requests)
        requests, first = np.unique(waiting[places[those]], return_index=True)
        those = those[first]
        at = answers.numbers[those] - step.first
        good = (answers.numbers[those] - self.numbers[requests] <= LOOKAHEAD_FRAMES) & (
            (step.before[at] - self.before[requests] <= LOOKAHEAD_BYTES)
            & (step.precedes_ns[at] - self.time_ns[requests] <= LOOKAHEAD_NS)
        )
        requests, those, at = requests[good], those[good], at[good]
        self.open[requests] = False
        rows = self.rows[requests]
        self.confirmed_ns[rows] = step.times[at]
        self.latency_ns[rows] = step.times[at] - self.time_ns[requests]
        self.frames[rows] = answers.ids[those]
        self.answered[rows] = True
        self.outcomes[rows] = answers.outcomes[those]
        for row, one in zip(rows.tolist(), those.tolist(), strict=True):
            if (refusal := answers.refusals[one]) is not None:
                self.refusals[row] = len(self.reasons)
                self.reasons.append(refusal)

    def close(self, chosen: Bools, outcome: str) -> None:
        """No answer of these is waited for any more."""
        self.outcomes[self.rows[chosen & self.reportable]] = CODES[outcome]
        self.open &= ~chosen


class AskingBlocks:
    """Is shown all frames, in order, and fills in the columns of the messages of blocks that ask for an answer."""

    def __init__(self) -> None:
        self._waiting: list[Asking] = []
        self._seen = self._bytes = self._last_ns = 0

    @property
    def ready_count(self) -> int:
        """So many of the first frames need not wait."""
        return min((int(each.numbers[each.open].min()) - 1 for each in self._waiting), default=self._seen)

    def add(
        self,
        parts: Sequence[MessagePart],
        frames: list[Frame],
        blocks: list[FrameBlock],
        times: Int64s,
        lengths: Int64s,
    ) -> None:
        """The next frames and their messages; times and lengths of all in order of numbers."""
        if not len(times):
            return
        ends = self._bytes + np.cumsum(lengths)
        step = Release(self._seen + 1, times, ends - lengths, np.concatenate([[self._last_ns], times[:-1]]))
        asking = asking_of(parts, step)
        if asking is not None:
            self._waiting.append(asking)
        if self._waiting:
            answers = answers_of(frames, blocks)
            for each in self._waiting:
                each.match(answers, step)
        self._seen, self._bytes, self._last_ns = self._seen + len(times), int(ends[-1]), int(times[-1])
        for each in self._waiting:
            late = (self._seen - each.numbers + 1 > LOOKAHEAD_FRAMES) | (self._bytes - each.before > LOOKAHEAD_BYTES)
            each.close(each.open & (late | (self._last_ns - each.time_ns > LOOKAHEAD_NS)), LATE)
        self._waiting = [each for each in self._waiting if each.open.any()]

    def finish(self) -> None:
        """Nothing more comes."""
        for each in self._waiting:
            each.close(each.open & each.captured, UNANSWERED)
        self._waiting = []


def asking_of(parts: Sequence[MessagePart], step: Release) -> Asking | None:
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
    reportable = np.repeat([part.block.connection.label is None for part in some], counts)[rows]
    at = numbers - step.first
    captured = step.times[at] >= np.repeat([captured_from(part.block) for part in some], counts)[rows]
    asking = Asking(
        rows=rows,
        ids=np.concatenate([part.block.ids[part.rows] for part in some])[rows],
        numbers=numbers,
        time_ns=step.times[at],
        before=step.before[at],
        reportable=reportable,
        captured=captured,
        open=np.ones(len(rows), np.bool_),
        confirmed_ns=np.zeros(total, np.int64),
        latency_ns=np.zeros(total, np.int64),
        frames=np.zeros(total, np.int64),
        answered=np.zeros(total, np.bool_),
        outcomes=np.where(waits, NONE, CODES[NOT_ASKED]).astype(np.int32),
        refusals=np.full(total, NONE, np.int32),
    )
    first = 0
    for part, count in zip(some, counts, strict=True):
        chosen = slice(first, first + count)
        first += count
        valid = asking.answered[chosen]
        for name, values in (
            ("confirmed_ns", asking.confirmed_ns),
            ("latency_ns", asking.latency_ns),
            ("confirm_frame", asking.frames),
        ):
            part.columns[name] = Valid(values[chosen], valid)
        part.columns["outcome"] = Coded(asking.outcomes[chosen], OUTCOMES)
        part.columns["refusal"] = Coded(asking.refusals[chosen], asking.reasons)
    return asking


def answers_of(frames: list[Frame], blocks: list[FrameBlock]) -> Answers:
    """What answers a frame, the first ones first."""
    single = [frame for frame in frames if frame.request is not None and not frame.confirmations]
    several = [(block, np.flatnonzero(block.requests)) for block in blocks if block.requests is not None]
    outcomes = [outcome_of(frame) for frame in single]
    own = np.array([(frame.request or 0, frame.id, frame.number) for frame in single], np.int64).reshape(-1, 3)
    others = [np.stack((block.requests, block.ids, block.numbers), axis=1)[rows] for block, rows in several]  # type: ignore[arg-type]
    table = np.concatenate([own, *others])
    codes = np.full(len(table), CODES[ANSWERED])
    codes[: len(single)] = [CODES.get(outcome, NONE) for outcome in outcomes]
    refusals = [
        refusal_of(frame) if outcome == REFUSED else None for frame, outcome in zip(single, outcomes, strict=True)
    ]
    refusals += [None] * (len(table) - len(single))
    order = np.argsort(table[:, 2], kind="stable")
    requests, ids, numbers = table[order].T
    return Answers(requests, ids, numbers, codes[order], [refusals[at] for at in order.tolist()])


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
