"""Open requests of all connections, and the responses that give each its outcome.

A request waits for its response up to a number of frames and bytes of its own connection, and up to a time. So its
outcome does not depend on other connections. A larger limit applies to all held frames. Then later frames overtake the
request, if their order does not matter; else the totals count the responses that are lost.
"""

from collections import deque
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.frames.frame import ALL, LATE, UNANSWERED, AckDuty, Answer, Confirmation, Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.pairing import outcome_of, reply_captured

WAIT_FRAMES = 1000
"""An answer is in time after at most this many frames of the request's connection ..."""
WAIT_BYTES = 8 * 1024 * 1024
"""... that have at most this many bytes ..."""
WAIT_NS = 6_000_000_000
"""... and within this time: servers that answer by a keep-alive (Cursus) send one every 5 s."""
HELD_FRAMES = 4096
"""Frames of all connections that are held back for one request, also those of other processes."""
HELD_BYTES = 12 * 1024 * 1024
OVERTAKEN_FRAMES = 16_384
"""Requests that later frames have overtaken; HELD_BYTES applies to them, too."""
LIMIT = "held-requests"
"""Limit in the totals: requests whose response came in time, but after these bounds."""
STEP_NS = 1_000_000_000
"""The clock of a capture may be set back by this much while a request waits."""
EVER = -(1 << 63)
"""A time before all others: no request is over."""
MAX_OPEN = 1_000_000
"""Requests that wait at the same time; beyond that the oldest is forgotten."""


class KnownOutcome(NamedTuple):
    """Outcome of a request."""

    response: int | None
    outcome: str | None
    answers: tuple[Answer, ...]


@dataclass(slots=True, eq=False)
class OpenRequest:
    """A request without its response."""

    id: int
    connection: Connection
    side: int
    time_ns: int
    own_frames: int
    """Frames of its connection before it, counted from some frame on."""
    own_bytes: int
    seen: int
    """Frames before it, ..."""
    passed: int
    """... with those of other processes, ..."""
    size: int
    """... and their bytes."""
    frame: Frame | None
    """The frame, while it is held back."""
    answers: list[Answer] = field(default_factory=list)
    is_past: bool = False
    """Whether a response would be too late."""
    is_copy: bool = False
    """Whether the response may be linked with the original only: then none is missing."""
    acks: AckDuty | None = None
    """See :attr:`Frame.acks`."""


@dataclass(slots=True, eq=False)
class WaitingConnection:
    """Frames and bytes of a connection since its first open request, and its open requests."""

    frames: int = 0
    bytes: int = 0
    requests: deque[OpenRequest] = field(default_factory=deque)


class UnlinkedFrames(NamedTuple):
    """Consecutive frames of a connection that are neither requests nor answers."""

    connection: Connection
    number: int
    """Number of the last frame."""
    frames: int
    bytes: int
    time_ns: int


def is_too_far(passed: WaitingConnection, request: OpenRequest) -> bool:
    """Whether a response would come after too many frames or bytes of the connection."""
    return passed.frames - request.own_frames > WAIT_FRAMES or passed.bytes - request.own_bytes > WAIT_BYTES


class Ledger:
    """Takes all frames in order; :attr:`waiting` is the number of the last ones to hold back.

    ``most_ns``: how long requests wait. ``known_outcomes``: those of the first pass of two. ``late``: collects, in the
    first pass, the outcomes of requests that cannot be held back until their response. ``in_order``: frames are passed
    on in the order in which they came; else :attr:`overtaken` ones come when they are :attr:`settled`.
    """

    def __init__(
        self,
        most_ns: int = WAIT_NS,
        known_outcomes: Mapping[int, KnownOutcome] | None = None,
        late: dict[int, KnownOutcome] | None = None,
        *,
        in_order: bool = True,
    ) -> None:
        self._most_ns, self._known_outcomes, self._late_outcomes = most_ns, known_outcomes, late
        self._longest = most_ns + STEP_NS
        self.seen = 0
        """Number of frames until now ..."""
        self.passed = self.size = 0
        """... with those of other processes, and their bytes."""
        self._number = 0
        """Number of the newest frame."""
        self.missed = 0
        """Responses in time whose requests could not be held back that long."""
        self.late_count = 0
        """Requests that got the outcome ``late``."""
        self._requests: dict[int, OpenRequest] = {}
        self._passed: dict[Connection, WaitingConnection] = {}
        self._held: deque[OpenRequest] = deque()
        self._released: deque[OpenRequest] = deque()
        """Requests that were passed on before their time, without a response until now."""
        self._in_order = in_order
        self.overtaken: dict[int, int] = {}
        """Ids of requests that are held back while later frames are passed on, and their bytes."""
        self._overtaken_bytes = 0
        self.settled: list[Frame] = []
        """Requests that were overtaken, and no longer wait."""

    @property
    def waiting(self) -> int:
        """Frames from the oldest request that is held back to the newest frame."""
        return self.seen - self._held[0].seen if self._held else 0

    def frame(self, frame: Frame) -> int:
        """Take the next frame; link a response with its request. Return how many of the last frames to hold back."""
        self._number = frame.number
        if frame.request is not None or frame.confirmations:
            self._add_response(frame)
        passed = self._passed.get(frame.connection)
        if frame.expects_response and frame.response is None:  # else its response was captured before
            if passed is None:
                passed = self._passed[frame.connection] = WaitingConnection()
            self._open(frame, passed)
        if passed is not None:
            self._count(passed, 1, frame.length)
        self.seen += 1
        self.passed += 1
        self.size += frame.weight if frame.made else frame.length
        if self._held or self._released:
            self.release(frame.time_ns)
        return self.seen - self._held[0].seen if self._held else 0

    def skip_others(self, passed: int, size: int) -> None:
        """With several processes: number of all frames before the next one, and their bytes."""
        if passed > self.passed:
            self.passed, self.size = passed, max(size, self.size)
            if self._held:
                self.release(EVER)

    def follow(self, frame: Frame) -> int:
        """As :meth:`add`, of a response that another process decodes."""
        self._number = frame.number
        self._add_response(frame)
        self.release(frame.time_ns)
        return self.waiting

    def add_unlinked(self, frames: UnlinkedFrames) -> None:
        """Count the next frames, which are neither requests nor responses."""
        self._number = frames.number
        passed = self._passed.get(frames.connection)
        if passed is not None:
            self._count(passed, frames.frames, frames.bytes)
        self.seen += frames.frames
        self.passed += frames.frames
        self.size += frames.bytes
        self.release(frames.time_ns)

    def skip(self, frame: Frame) -> None:
        """Count a frame that is neither shown nor a request or response."""
        self._number = frame.number
        passed = self._passed.get(frame.connection)
        if passed is not None:
            self._count(passed, 1, frame.length)

    def _count(self, passed: WaitingConnection, frames: int, size: int) -> None:
        """Count frames of a connection; give up its requests that are too old now."""
        passed.frames += frames
        passed.bytes += size
        while passed.requests and is_too_far(passed, passed.requests[0]):
            self._give_up(passed.requests[0])

    def _open(self, frame: Frame, passed: WaitingConnection) -> None:
        counts = passed.frames, passed.bytes, self.seen, self.passed, self.size
        request = OpenRequest(frame.id, frame.connection, frame.side, frame.time_ns, *counts, frame, acks=frame.acks)
        self._requests[request.id] = request
        passed.requests.append(request)
        self._held.append(request)
        if len(self._requests) > MAX_OPEN:
            self._requests.pop(next(iter(self._requests)))

    def _add_response(self, frame: Frame) -> None:
        for confirmation in confirmations(frame, self._requests):
            request = self._requests[confirmation.request]
            in_time = self._in_time(request, frame.time_ns)
            if in_time and request.frame is None and self._late_outcomes is None:
                self.missed += 1
                self._forget(request)
                continue
            in_time = in_time and request.frame is not None
            if in_time or self._late_outcomes is not None:
                request.answers.append(Answer(confirmation, frame.id, frame.time_ns))
            if confirmation.final is None:
                continue
            response, outcome, answers = frame.id, confirmation.final or None, tuple(request.answers)
            if in_time and request.frame is not None:
                asked = self._let_go(request)
                asked.response, asked.outcome, asked.answers = response, outcome, answers
                self._forget(request)
            elif self._late_outcomes is not None:
                self._late_outcomes[request.id] = KnownOutcome(response, outcome, answers)
                self._forget(request)

    def _in_time(self, request: OpenRequest, time_ns: int) -> bool:
        if request.is_past or time_ns - request.time_ns > self._most_ns:
            return False
        return not is_too_far(self._passed[request.connection], request)

    def release(self, time_ns: int) -> None:
        """Release requests that reached the limits; ``time_ns``: time of the newest frame."""
        since, held, released = time_ns - self._longest, self._held, self._released
        while held:
            head = held[0]
            if head.frame is not None:
                over = head.time_ns < since
                if not over and self.passed - head.passed <= HELD_FRAMES and self.size - head.size <= HELD_BYTES:
                    break
                self._let_pass(head, head.frame, over=over)
            held.popleft()
        while released and (released[0].is_past or released[0].time_ns < since):
            self._give_up(released.popleft())

    def _let_pass(self, request: OpenRequest, frame: Frame, *, over: bool) -> None:
        """Hold a request back no longer; ``over``: its response would be too late."""
        request.is_copy = "copy_of" in frame.generated
        if over:
            self._give_up(request)
            return
        if not self._overtake(frame):
            self._settle(request, LATE)
        self._released.append(request)

    def _overtake(self, request: Frame) -> bool:
        """Let later frames overtake a request, if they may."""
        size = request.weight
        if self._in_order or len(self.overtaken) >= OVERTAKEN_FRAMES or self._overtaken_bytes + size > HELD_BYTES:
            return False
        self.overtaken[request.id] = size
        self._overtaken_bytes += size
        return True

    def take_settled(self) -> list[Frame]:
        """Take :attr:`settled`."""
        settled, self.settled = self.settled, []
        return settled

    def tick(self, time_ns: int, most_ns: int) -> None:
        """Live capture: no frame came up to ``time_ns``; release requests older than ``most_ns``."""
        while self._held and time_ns - self._held[0].time_ns > most_ns:
            self._give_up(self._held.popleft())

    def finish(self, last_ns: int) -> None:
        """End of the frames at ``last_ns``: open requests are unanswered if the other side was captured completely."""
        for request in self._released:
            counts = self._known_outcomes is None and not (request.is_past or request.is_copy or request.frame)
            self.missed += counts and last_ns - request.time_ns <= self._most_ns
        for request in (*self._released, *self._held):
            in_time = last_ns - request.time_ns <= self._most_ns
            self._settle(request, self._without_response(request) if in_time else LATE)
        if self._late_outcomes is not None:
            for request in self._requests.values():
                outcome = self._without_response(request)
                if request.answers or outcome is not None:
                    self._late_outcomes[request.id] = KnownOutcome(None, outcome, tuple(request.answers))
        self._requests, self._passed = {}, {}
        self._held.clear()
        self._released.clear()

    def _without_response(self, request: OpenRequest) -> str | None:
        return UNANSWERED if reply_captured(request) and self._is_asked(request.acks) else None

    def _is_asked(self, acks: AckDuty | None) -> bool:
        """Whether an answer is expected: of a consumer that acknowledges, as the frames until now show."""
        return acks is None or (acks.since is not None and acks.since <= self._number)

    def _give_up(self, request: OpenRequest) -> None:
        self._settle(request, LATE)
        if self._late_outcomes is None:
            self._forget(request)
        else:
            self._mark_past(request)

    def _settle(self, request: OpenRequest, outcome: str | None) -> None:
        if request.frame is None:
            return
        frame = self._let_go(request)
        if request.answers:
            frame.answers = tuple(request.answers)
        if not self._is_asked(request.acks):
            outcome = None
        if waits(frame):
            if self._known_outcomes is not None:
                result = self._known_outcomes.get(request.id) or KnownOutcome(None, None, tuple(frame.answers))
                frame.response, frame.outcome, frame.answers = result
            elif (
                outcome is not None and self._is_asked(request.acks) and frame.connection.stable_id is None
            ):  # on a cluster another task may know it
                frame.outcome = outcome
                self.late_count += outcome == LATE

    def _let_go(self, request: OpenRequest) -> Frame:
        """Return the frame of a request, which is held back no longer."""
        frame, request.frame = request.frame, None
        assert frame is not None
        if (size := self.overtaken.pop(request.id, None)) is not None:
            self._overtaken_bytes -= size
            self.settled.append(frame)
        return frame

    def _forget(self, request: OpenRequest) -> None:
        self._requests.pop(request.id, None)
        self._mark_past(request)

    def _mark_past(self, request: OpenRequest) -> None:
        request.is_past = True
        passed = self._passed.get(request.connection)
        if passed is not None:
            while passed.requests and passed.requests[0].is_past:
                passed.requests.popleft()
            if not passed.requests:
                del self._passed[request.connection]


def waits(request: Frame) -> bool:
    """Whether a frame asks for a response and has none. Those of copies, but acks, can be linked with the original."""
    asks = request.response is None and request.outcome is None and request.expects_response
    return asks and ("copy_of" not in request.generated or request.acks is not None)


def confirmations(frame: Frame, waiting: Container[int]) -> Iterator[Confirmation]:
    """The confirmations in a frame; a plain response is one of all messages of its request."""
    for each in frame.confirmations:
        if each.request in waiting:
            yield each
    if not frame.confirmations and frame.request is not None and frame.request in waiting:
        yield Confirmation(frame.request, 0, ALL, frame.refusal, outcome_of(frame))
