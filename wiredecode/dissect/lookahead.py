"""Requests that wait to be told their response and what it means, before they are handed on."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from wiredecode.frames.frame import ALL, LATE, REFUSED, UNANSWERED, Answer, Confirmation
from wiredecode.protocols.shared.pairing import outcome_of, refusal_of

if TYPE_CHECKING:
    from wiredecode.arrays import Int64s
    from wiredecode.frames.frame import Frame
    from wiredecode.net.types import Connection

LOOKAHEAD_FRAMES = 1000
"""A request waits at most for so many frames to be told its response before it is handed on."""
LOOKAHEAD_BYTES = 8 * 1024 * 1024
LOOKAHEAD_NS = 5_000_000_000
"""... and so long, in capture time, that an unanswered request does not hold up a live capture for good."""


class KnownOutcome(NamedTuple):
    """What became of a request."""

    response: int | None
    outcome: str | None
    answers: tuple[Answer, ...]


class Lookahead:
    """Is told all frames in order, and says how many of the last ones have to wait: :attr:`waiting`.

    Nothing is kept of frames that are no requests, so whole runs of them can be passed at once.
    """

    def __init__(self, most_ns: int = LOOKAHEAD_NS, known: Mapping[int, KnownOutcome] | None = None) -> None:
        self._most_ns = most_ns
        """How long, in capture time, a request waits."""
        self._known = known
        """What a pass before this one found of requests that cannot be held back; None: there was none."""
        self.seen = self._bytes = 0
        """Frames so far, and their bytes."""
        self._open: deque[tuple[Frame, int, int]] = deque()
        """Requests in order, and how many frames and bytes came before each."""
        self._requests: dict[int, Frame] = {}

    @property
    def waiting_ids(self) -> set[int]:
        """Ids of the requests that wait."""
        return {*self._requests}

    @property
    def waiting(self) -> int:
        """Frames from the oldest request that is held back to the newest frame."""
        return self.seen - self._open[0][1] if self._open else 0

    def add(self, frame: Frame) -> None:
        """The next frame; if it answers a request that still waits, that one learns it."""
        for confirmation in confirmations(frame, self._requests):
            request = self._requests[confirmation.request]
            request.answers = (*request.answers, Answer(confirmation, frame.id, frame.time_ns))
            if confirmation.final is not None:
                del self._requests[confirmation.request]
                request.response, request.outcome = frame.id, confirmation.final or None
        if frame.expects_response:
            if frame.response is None:  # else its answer was captured before it
                self._requests[frame.id] = frame
            self._open.append((frame, self.seen, self._bytes))
        self.seen += 1
        self._bytes += frame.length
        while self._open:
            head, frames, size = self._open[0]
            if head.response is None and (
                frame.time_ns - head.time_ns <= self._most_ns
                and self.seen - frames <= LOOKAHEAD_FRAMES
                and self._bytes - size <= LOOKAHEAD_BYTES
            ):
                break
            self._release_first()

    def skip(self, times_ns: Int64s, lengths: Int64s) -> None:
        """The next frames, none of which is a request or a response: their times and lengths."""
        first = 0
        while self._open and first < len(times_ns):
            head, frames, size = self._open[0]
            if head.response is None:
                late = times_ns[first:] - head.time_ns > self._most_ns
                ends = self._bytes - size + lengths.cumsum()[first:]
                late |= ends > LOOKAHEAD_BYTES
                late[max(LOOKAHEAD_FRAMES + frames - self.seen - first, 0) :] = True
                if not late.any():
                    break
                first += int(late.argmax())
            self._release_first()
        self.seen += len(times_ns)
        self._bytes += int(lengths.sum())

    def tick(self, time_ns: int, most_ns: int) -> None:
        """No frame came up to ``time_ns``."""
        while self._open and time_ns - self._open[0][0].time_ns > most_ns:
            self._release_first()

    def finish(self) -> None:
        """No frame will come any more: what still waits was not answered, if all that the other side sent is known."""
        while self._open:
            head = self._open[0][0]
            if self._known is not None:
                self._look_up(head, self._known)
            elif is_open(head) and reply_captured(head):
                head.outcome = UNANSWERED
            self._forget_first()

    def _release_first(self) -> None:
        head = self._open[0][0]
        if self._known is not None:
            self._look_up(head, self._known)
        elif is_open(head):
            head.outcome = LATE
        self._forget_first()

    def _look_up(self, request: Frame, known: Mapping[int, KnownOutcome]) -> None:
        found = known.get(request.id) if waits(request) else None
        if found is not None:
            request.response, request.outcome, request.answers = found

    def _forget_first(self) -> None:
        self._requests.pop(self._open.popleft()[0].id, None)


def is_open(request: Frame) -> bool:
    """Whether nothing tells its outcome.

    The answer of a copy may be linked with the original alone, so it has none. Where ids are stable nothing is told
    either: how long a request waited would depend on the frames of other connections.
    """
    return request.connection.label is None and waits(request)


def waits(request: Frame) -> bool:
    """Whether a frame asks for an answer of its own, and has none."""
    asks = request.response is None and request.outcome is None and request.expects_response
    return asks and "copy_of" not in request.generated


def confirmations(frame: Frame, waiting: Container[int]) -> Iterator[Confirmation]:
    """What a frame says about those that asked; a plain answer says the same about all messages of its request."""
    for each in frame.confirmations:
        if each.request in waiting:
            yield each
    if not frame.confirmations and frame.request is not None and frame.request in waiting:
        outcome = outcome_of(frame)
        yield Confirmation(frame.request, 0, ALL, refusal_of(frame) if outcome == REFUSED else None, outcome)


class Sent(Protocol):
    """What one side of a connection sent: a frame, a run."""

    @property
    def connection(self) -> Connection: ...

    @property
    def side(self) -> int: ...


class Asking(Sent, Protocol):
    """A request."""

    @property
    def time_ns(self) -> int: ...


def captured_from(request: Sent) -> float:
    """The time from which on everything that could answer was captured, and everything that was asked before.

    What lies behind a hole waits until that is given up, so its answer may come before it, and find no request. Where a
    capture begins in the middle, the first answers may have been sent before it.
    """
    asking, answering = request.connection.directions[request.side], request.connection.directions[1 - request.side]
    if answering.lossy or asking.lossy:
        return inf
    return 0 if answering.started else inf if answering.first_ns is None else answering.first_ns


def reply_captured(request: Asking) -> bool:
    """Whether an answer would have been captured."""
    return request.time_ns >= captured_from(request)
