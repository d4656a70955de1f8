"""Open requests of a connection, their responses, and the losses that can hide these: the same for every protocol."""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from wiredecode.dataclasses import dataclass
from wiredecode.frames.frame import ANSWERED, REFUSED, Frame

__all__ = [
    "Hop",
    "Losses",
    "Newest",
    "Outstanding",
    "Request",
    "hop_of_answer",
    "link",
    "note_unlinked",
    "outcome_of",
    "reply_captured",
]

MAX_OUTSTANDING = 10_000
"""Open requests remembered per connection; beyond it the oldest is dropped."""
MAX_WEIGHT = 500_000
"""Values in these requests, such as topics; beyond it the oldest is dropped."""

MAX_KEYS = 10_000
"""Keys that a :class:`Newest` keeps, unless it says otherwise."""
TopicPartition = tuple[str, int | None]


@dataclass(slots=True)
class Request:
    """An open request; protocols add facts that its response needs."""

    frame: int
    time_ns: int

    @property
    def weight(self) -> int:
        """Number of values in it: 1, plus the elements of its lists."""
        return 1


@dataclass(slots=True)
class Hop(Request):
    """One passage of a request that several connections carry: a connection, and the side that sent it."""

    connection: int
    side: int


H = TypeVar("H", bound=Hop)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R", bound=Request)


class Newest(OrderedDict[K, V]):
    """A bounded dict: keeps the ``most`` keys that were put last."""

    def __init__(self, most: int = MAX_KEYS) -> None:
        super().__init__()
        self.most = most

    def put(self, key: K, value: V) -> bool:
        """Put a value; return whether the oldest one was dropped."""
        before = len(self)
        self[key] = value
        if len(self) == before:
            self.move_to_end(key)
        elif before >= self.most:
            self.popitem(last=False)
            return True
        return False

    def add(self, key: K, value: V) -> bool:
        """Put a value unless the key has one; return whether it had none."""
        if key in self:
            return False
        self.put(key, value)
        return True

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if it is missing."""
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
        """The request of a key, which stays open."""
        return self._requests.get(key)

    def add(self, frame: Frame, key: K, request: R) -> R | None:
        """Add the request of a frame; return the earlier open request with this key, if any."""
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
        """Remove and return the request of a key."""
        request = self._requests.pop(key, None)
        if request is not None:
            self._weight -= request.weight
        return request

    def pop_oldest(self) -> R | None:
        return self.pop(next(iter(self._requests))) if self._requests else None

    def clear(self) -> None:
        while self._requests:
            self.pop_oldest()


class Pipelined(Generic[K, R]):
    """Open requests of one connection of which several may have the same key: answers to a key come in turn."""

    def __init__(self) -> None:
        self._outstanding: Outstanding[int, R] = Outstanding()
        self._turns: dict[K, deque[int]] = {}
        self._count = 0

    def add(self, frame: Frame, key: K, request: R) -> None:
        self._count += 1
        self._outstanding.add(frame, self._count, request)
        self._turns.setdefault(key, deque(maxlen=MAX_OUTSTANDING)).append(self._count)

    def pop(self, key: K) -> R | None:
        """Remove and return the oldest request of a key that is still remembered."""
        turns = self._turns.get(key)
        while turns:
            request = self._outstanding.pop(turns.popleft())
            if request is not None:
                return request
        return None

    def __iter__(self) -> Iterator[K]:
        return iter(self._turns)

    def clear(self) -> None:
        self._outstanding.clear()
        self._turns.clear()


class Losses:
    """Finds the lost bytes of a connection, frame by frame."""

    def __init__(self) -> None:
        self._seen = [0, 0]
        self._later: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
        """By side: losses that are later than its last frame; time, ns, and stream offset."""

    def any_before(self, frame: Frame) -> bool:
        """Whether the other side lost bytes since the last frame of this direction, perhaps the request of this one."""
        later, lost = self._given_up(1 - frame.side, frame), False
        while later and later[0][0] <= frame.time_ns:
            heappop(later)
            lost = True
        return lost

    def inside(self, frame: Frame) -> None:
        """Drop losses inside ``frame`` itself, which hide no other frame."""
        later = self._given_up(frame.side, frame)
        later[:] = sorted(each for each in later if each[1] >= frame.offset + frame.length)

    def _given_up(self, side: int, frame: Frame) -> list[tuple[int, int]]:
        """Losses of a side that are known at ``frame``, a heap; later ones depend on batches."""
        direction, later = frame.connection.directions[side], self._later[side]
        losses, seen = direction.losses, max(self._seen[side] - direction.earlier_losses, 0)
        while seen < len(losses) and losses[seen][0] <= frame.ready:
            heappush(later, losses[seen][1:3])
            seen += 1
        self._seen[side] = direction.earlier_losses + seen
        return later


def outcome_of(response: Frame) -> str:
    """Whether a response refuses its request or answers it; "" for a partial one, which may refuse."""
    if response.refusal is not None:
        return REFUSED
    return "" if response.is_partial else ANSWERED


def link(frame: Frame, request: Request) -> None:
    """Link a response with its request."""
    frame.request, frame.asked = request.frame, request
    latency_ns = frame.time_ns - request.time_ns
    frame.latency_ns = latency_ns if latency_ns >= 0 else None  # captured out of order


def hop_of_answer(hops: Sequence[H], response: Frame) -> H:
    """The hop that a response answers: the last one of its connection from the other side, else the first one."""
    number, side = response.connection.number, response.side
    for hop in reversed(hops):
        if hop.connection == number and hop.side != side:
            return hop
    return hops[0]


def note_unlinked(response: Frame) -> None:
    """Note a response whose request is unknown: it may be that of every request until then."""
    response.connection.directions[response.side].unlinked_ns = response.time_ns


def reply_captured(request: Any) -> bool:
    """Whether a response would have been captured; ``request`` has a connection, a side and a time, as a frame has.

    False if bytes of either side were lost, if a later response has no known request (it may be this one's), or if the
    request was sent before the first captured byte of the other side, in a capture that begins in mid-stream.
    """
    asking, answering = request.connection.directions[request.side], request.connection.directions[1 - request.side]
    if answering.lossy or asking.lossy or request.time_ns <= answering.unlinked_ns:
        return False
    return bool(answering.started or (answering.first_ns is not None and request.time_ns >= answering.first_ns))
