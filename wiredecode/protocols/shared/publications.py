"""Published messages that wait to be confirmed by their numbers: one bounded ledger for every protocol that has some.

Numbers mostly go up by one, so ranges are kept: a frame of any number of messages costs one look-up.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import ALL, ANSWERED, REFUSED, Confirmation, Frame
from wiredecode.protocols.shared.pairing import Request, link

MAX_RUNS = 10_000
"""Runs of numbers that may wait on one connection; beyond it the oldest of the publisher is forgotten."""


@dataclass(slots=True, eq=False)
class Publication(Request):
    """A frame of published messages."""

    serial: int
    """Publications of one connection count from 0."""
    pending: int
    """Messages without an answer yet, those that were not captured included."""
    refused: bool = False


@dataclass(slots=True, eq=False)
class NumberRun:
    """Messages with the numbers ``low`` up to ``high``, the first of which is message ``index`` of its frame."""

    low: int
    high: int
    index: int
    publication: Publication


Numbers = tuple[int, int]
"""Numbers that go up by one: the first, and the one after the last."""
Share = tuple[Publication, int, int]
"""A publication, the first of its messages that is meant, and how many."""


@dataclass(slots=True, eq=False)
class Publisher:
    """The runs of one publisher: disjoint, in order; and numbers published again before they were confirmed."""

    lows: list[int] = field(default_factory=list)
    runs: list[NumberRun] = field(default_factory=list)
    again: dict[int, deque[tuple[int, Publication]]] = field(default_factory=dict)
    unsure: bool = False
    """Numbers were published again while frames were lost: the publish that a confirm belongs to is unknown."""

    def add(self, run: NumberRun) -> None:
        """Wait for the confirm of a run; what of it waits already comes after that."""
        if not self.runs or run.low >= self.runs[-1].high:
            self.lows.append(run.low)
            self.runs.append(run)
            return
        low, index, publication = run.low, run.index, run.publication
        while low < run.high:
            slot = bisect_right(self.lows, low)
            before = self.runs[slot - 1] if slot else None
            following = self.lows[slot] if slot < len(self.lows) else run.high
            if before is not None and before.high > low:
                self.again.setdefault(low, deque()).append((index + low - run.low, publication))
                low += 1
                continue
            high = min(run.high, following)
            self._insert(slot, NumberRun(low, high, index + low - run.low, publication))
            low = high

    def _insert(self, slot: int, run: NumberRun) -> None:
        self.lows.insert(slot, run.low)
        self.runs.insert(slot, run)

    def pop(self, low: int, high: int) -> Iterator[Share]:
        """The messages with these numbers; they wait no longer."""
        while low < high:
            slot = bisect_right(self.lows, low) - 1
            if slot < 0 or self.runs[slot].high <= low:
                slot += 1
                if slot >= len(self.runs) or self.lows[slot] >= high:
                    return
                low = self.lows[slot]
            run = self.runs[slot]
            stop = min(high, run.high)
            yield run.publication, run.index + low - run.low, stop - low
            self._cut(slot, run, low, stop)
            if self.again:
                self._wait_again(low, stop)
            low = stop

    def _cut(self, slot: int, run: NumberRun, low: int, stop: int) -> None:
        """Take ``low`` up to ``stop`` out of a run."""
        if stop < run.high:
            remainder = NumberRun(stop, run.high, run.index + stop - run.low, run.publication)
            if low == run.low:
                self.lows[slot], self.runs[slot] = stop, remainder
                return
            self._insert(slot + 1, remainder)
        if low > run.low:
            run.high = low
        else:
            del self.lows[slot], self.runs[slot]

    def _wait_again(self, low: int, high: int) -> None:
        numbers = range(low, high) if high - low < len(self.again) else list(self.again)
        for number in [each for each in numbers if low <= each < high and each in self.again]:
            waiting = self.again[number]
            index, publication = waiting.popleft()
            if not waiting:
                del self.again[number]
            self.add(NumberRun(number, number + 1, index, publication))

    def doubt(self, frame: Frame) -> None:
        """Where frames were lost, the first confirm of a number need not be about its first publish: wait for none."""
        if self.again and not frame.all_seen():
            self.unsure = True
            self.lows, self.runs, self.again = [], [], {}

    def forget_oldest(self) -> None:
        """Forget one run, or a number that was published again."""
        if self.again:
            del self.again[next(iter(self.again))]
        else:
            del self.lows[0], self.runs[0]


class Publications:
    """Messages of the publishers of one connection without a confirm or refusal yet."""

    def __init__(self) -> None:
        self._publishers: dict[Hashable, Publisher] = {}
        self._serial = 0
        self._runs = 0
        self.forgets = False
        """More came than is remembered."""

    def publish(self, frame: Frame, publisher: Hashable, numbers: Sequence[Numbers], *, whole: bool) -> None:
        """A frame with messages of these numbers, in order; not ``whole``: there are more, which were not captured."""
        state = self._publishers.get(publisher)
        if state is None:
            state = self._publishers[publisher] = Publisher()
        elif state.unsure:
            return
        self._serial = serial = self._serial + 1
        publication = Publication(frame.id, frame.time_ns, serial, 0 if whole else 1)
        before, index = len(state.runs), 0
        for low, high in numbers:
            state.add(NumberRun(low, high, index, publication))
            index += high - low
            if self._runs + len(state.runs) - before > MAX_RUNS or len(state.again) > MAX_RUNS:
                state.forget_oldest()
                self._report_limit(frame)
        state.doubt(frame)
        publication.pending += index
        self._runs += len(state.runs) - before
        frame.expects_response = whole and not state.unsure

    def _report_limit(self, frame: Frame) -> None:
        first_ns = frame.connection.directions[1 - frame.side].first_ns
        if not self.forgets and first_ns is not None and first_ns <= frame.ready:
            message = f"more than {MAX_RUNS} published frames wait for a confirm: the oldest are forgotten"
            frame.find("note", "limit", "outstanding", message)
        self.forgets = True

    def confirm(
        self, frame: Frame, publisher: Hashable, numbers: Sequence[Numbers], refusal: str | None = None
    ) -> None:
        """A frame confirms messages, or refuses them for a reason; several calls for one frame count together."""
        state = self._publishers.get(publisher)
        if state is None:
            return
        before = len(state.runs)
        state.doubt(frame)
        shares = [share for low, high in numbers for share in state.pop(low, high)]
        self._runs += len(state.runs) - before
        if any(side.losses and side.losses[0][0] <= frame.ready for side in frame.connection.directions):
            shares = [share for share in shares if is_sure(frame, share[0])]
        if shares:
            answer(frame, shares, refusal)

    def end(self, publisher: Hashable) -> None:
        """No more confirms will come for a publisher."""
        state = self._publishers.pop(publisher, None)
        if state is not None:
            self._runs -= len(state.runs)


def is_sure(frame: Frame, publication: Publication) -> bool:
    """Whether a confirm belongs to this publish: no other one of the same number can be lost between them."""
    span = publication.time_ns, frame.time_ns, frame.ready
    return span[0] <= span[1] and not all(side.lost_between(*span) for side in frame.connection.directions)


def answer(frame: Frame, shares: Sequence[Share], refusal: str | None) -> None:
    """Tie a confirm to the publications that it names: ``request`` is the oldest one."""
    confirmations, oldest = [], shares[0][0]
    for publication, first, count in shares:
        publication.pending -= count
        final = None
        if refusal is not None:
            publication.refused = True
        if not publication.pending:
            final = REFUSED if publication.refused else ANSWERED
        if publication.serial < oldest.serial:
            oldest = publication
        confirmations.append(Confirmation(publication.frame, first, count, refusal, final))
    if frame.confirmations:
        confirmations = [*frame.confirmations, *confirmations]
    frame.confirmations = confirmations
    latency_ns = frame.time_ns - oldest.time_ns
    if frame.latency_ns is None or latency_ns > frame.latency_ns:
        frame.request, frame.latency_ns = oldest.frame, latency_ns
    if len(confirmations) > 1:
        requests = list(dict.fromkeys([each[0] for each in confirmations]))
        if len(requests) > 1:
            frame.generate("requests", requests)


def confirm_all(frame: Frame, requests: Sequence[Request], refusal: str | None = None) -> None:
    """Tie a frame to publishes that it confirms, or refuses, as a whole, the oldest first."""
    final = ANSWERED if refusal is None else REFUSED
    frame.confirmations = [Confirmation(request.frame, 0, ALL, refusal, final) for request in requests]
    link(frame, requests[0])
    if len(requests) > 1:
        frame.generate("requests", [request.frame for request in requests])


def confirm_parts(frame: Frame, request: int, parts: Iterable[tuple[int, int, str | None]]) -> None:
    """Give parts of a publish their own outcomes, some of them refusals: index of the first message, number, reason."""
    confirmations = [Confirmation(request, *part, None) for part in parts]
    confirmations[-1] = confirmations[-1]._replace(final="" if frame.is_partial else REFUSED)
    frame.confirmations = confirmations


def runs_of(numbers: Sequence[int]) -> list[Numbers]:
    if not numbers:
        return []
    low, count = numbers[0], len(numbers)
    if numbers[-1] - low == count - 1 and tuple(numbers) == tuple(range(low, low + count)):
        return [(low, low + count)]
    runs, high = [], low
    for number in numbers:
        if number != high:
            runs.append((low, high))
            low = number
        high = number + 1
    runs.append((low, high))
    return runs
