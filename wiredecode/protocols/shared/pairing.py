"""Requests that wait for their response, and the link between the two: one bounded table for every protocol."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from wiredecode.frames.frame import ANSWERED, REFUSED, Frame

MAX_OUTSTANDING = 10_000
"""Requests remembered per connection until their response comes; beyond it the oldest is forgotten."""
MAX_WEIGHT = 500_000
"""Values held by these requests, all together; beyond it the oldest request is forgotten."""


@dataclass(slots=True)
class Request:
    """A request that waits for its response; protocols add facts that the response needs."""

    frame: int
    time_ns: int

    @property
    def weight(self) -> int:
        """Number of values that it holds: one for itself, and the elements of the lists that it names."""
        return 1


@dataclass(slots=True)
class Hop(Request):
    """One passage of a request that several connections carry: on which connection, sent by which side."""

    connection: int
    side: int


K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Request)


class Newest(OrderedDict[K, V]):
    """A dictionary of the ``most`` keys that were put last: bounded for any capture."""

    def __init__(self, most: int = 0) -> None:
        super().__init__()
        self.most = most

    def put(self, key: K, value: V) -> bool:
        """Remember a value; whether the oldest one was forgotten for it."""
        before = len(self)
        self[key] = value
        if len(self) == before:
            self.move_to_end(key)
        elif before >= self.most:
            self.popitem(last=False)
            return True
        return False

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key; a new one where there is none."""
        if key not in self:
            self.put(key, make())
        return self[key]


class Outstanding(Generic[K, R]):
    """The unanswered requests of one connection, by the key in their response; the oldest first."""

    def __init__(self) -> None:
        self._requests: OrderedDict[K, R] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[R]:
        return iter(self._requests.values())

    def items(self) -> Iterator[tuple[K, R]]:
        return iter(self._requests.items())

    def get(self, key: K) -> R | None:
        """The request of a key, which continues to wait."""
        return self._requests.get(key)

    def add(self, frame: Frame, key: K, request: R) -> R | None:
        """Remember the request of a frame; returns the earlier request with the key, which will get no answer."""
        replaced = self.pop(key)
        self._wait(key, request)
        frame.expects_response = True
        if len(self._requests) > MAX_OUTSTANDING or self._weight > MAX_WEIGHT:
            while len(self._requests) > MAX_OUTSTANDING or self._weight > MAX_WEIGHT:
                self.pop(next(iter(self._requests)))
            message = f"more than {MAX_OUTSTANDING} requests, or {MAX_WEIGHT} parts of them, wait for a response"
            frame.find("note", "limit", "outstanding", f"{message}: the oldest is forgotten")
        return replaced

    def _wait(self, key: K, request: R) -> None:
        self._requests[key] = request
        self._weight += request.weight

    def pop(self, key: K) -> R | None:
        """The request of a key, which is then no longer outstanding."""
        request = self._requests.pop(key, None)
        if request is not None:
            self._weight -= request.weight
        return request

    def pop_oldest(self) -> R | None:
        return self.pop(next(iter(self._requests))) if self._requests else None

    def clear(self) -> None:
        while self._requests:
            self.pop_oldest()


class Losses:
    """Bytes of the other side that were not captured, as the frames of a connection come."""

    def __init__(self) -> None:
        self._seen = [0, 0]
        self._later: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        """Of each side, those that no frame was late enough for: since when they show, and their offsets."""

    def news(self, frame: Frame) -> bool:
        """Whether something was lost since the last frame of its direction: perhaps what this one answers."""
        later, found = self._given_up(1 - frame.side, frame), False
        while later and later[0][0] <= frame.time_ns:
            heappop(later)
            found = True
        return found

    def inside(self, frame: Frame) -> None:
        """Bytes lost up to here in the direction of ``frame`` lie inside it, and hide no other frame."""
        later = self._given_up(frame.side, frame)
        later[:] = sorted(each for each in later if each[1] >= frame.offset + frame.length)

    def _given_up(self, side: int, frame: Frame) -> list[tuple[int, int]]:
        """Losses of a side that are known at ``frame``, a heap; batches may show later losses too early."""
        losses, later = frame.connection.directions[side].losses, self._later[side]
        while self._seen[side] < len(losses) and losses[self._seen[side]][0] <= frame.ready:
            heappush(later, losses[self._seen[side]][1:])
            self._seen[side] += 1
        return later


def outcome_of(response: Frame) -> str:
    """Whether a response says no: then it has a finding about that. "": not all of it was captured, so it may."""
    if response.findings and any(finding.group == "response" for finding in response.findings):
        return REFUSED
    return "" if response.is_partial else ANSWERED


def refusal_of(response: Frame) -> str:
    """Why a response says no."""
    return next((finding.message for finding in response.findings if finding.group == "response"), REFUSED)


def link(frame: Frame, request: Request) -> None:
    """Tie a response to its request."""
    frame.request = request.frame
    latency_ns = frame.time_ns - request.time_ns
    frame.latency_ns = latency_ns if latency_ns >= 0 else None  # packets in another order than they were sent


def reply_captured(request: Any) -> bool:
    """Whether an answer would have been captured; ``request`` has a connection, a side and a time, as a frame has.

    So it is from the time on from which everything that could answer it was captured, and everything asked before.

    Bytes after a gap wait until it is given up, so their answer may come earlier, and find no request. If a
    capture begins in the middle, the first answers may have been sent before it. An answer of which it is not known
    what it answers may be the one.
    """
    asking, answering = request.connection.directions[request.side], request.connection.directions[1 - request.side]
    if answering.lossy or asking.lossy or request.time_ns <= answering.unlinked_ns:
        return False
    return bool(answering.started or (answering.first_ns is not None and request.time_ns >= answering.first_ns))
