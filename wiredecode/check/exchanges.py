"""Requests and publishes that wait for an answer: one memory for all that judge and count them."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from wiredecode.dissect.ledger import confirmations
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.registry import requests_of
from wiredecode.protocols.shared.problems import LAST, Called, Checks, FrameRef, Publishing

MAX_OPEN = 131_072
"""Requests without answer that are remembered; the oldest are given up."""
MAX_OVER = 8_192
"""Requests with an answer that are remembered, as another may come; at most twice as many."""
EXPIRE_NS = 1_000_000_000
"""Between two looks for requests that have waited for too long."""
REMARKABLE_NS = 200_000_000
"""A wait for an answer that is worth a note."""
RequestKey = tuple[str, str | None, str | None, str | None]
"""Protocol, type of the request, topic, broker."""


class Exchange:
    """A frame that asks for an answer. Rules and counters keep here what they need when one comes."""

    calls: Sequence[Called] = ()
    """Its possible names; its answer decides between them."""
    is_judged = is_heard = False
    """Whether a missing answer is a problem, and whether one came, on any connection."""
    stream = ""
    count = pending = 0
    """Messages that were published, as ``check`` counts them, and those without a result yet."""
    traits: tuple[str, ...] = ()
    """Values of :attr:`Publishing.traits`."""
    is_confirmed = False
    """Whether another connection confirms it: when its publisher heard of that is not known."""
    latency_key: RequestKey | None = None
    """Key of its latency, once it is answered."""
    elsewhere: Sequence[tuple[RequestKey, int]] = ()
    """Latency of answers on other connections."""
    messages: Sequence[Any] = ()
    """Messages that were published, as ``stats`` counts them, while some have no result."""
    given_up = False
    """Whether statistics stopped to wait for an answer."""
    counted: Any = None
    """Row of a report that its answer counts in."""

    def __init__(self, frame: Frame, checks: Checks) -> None:
        self.id, self.number, self.protocol, self.type = frame.id, frame.number, frame.protocol, frame.type
        self.connection, self.side, self.sender = frame.connection, frame.side, frame.sender
        self.packets, self.first_ns, self.time_ns = frame.packets[:1], frame.first_ns, frame.time_ns
        self.size = frame.length
        self.is_copy, self.asks = "copy_of" in frame.generated, frame.expects_response
        how = checks.publishes.get(frame.type or "")
        publishes = how is not None and (not how.numbered_by or how.numbered_by in frame.generated)
        self.publishing: Publishing | None = how if publishes else None
        self.topic = frame.values.get(checks.topic)
        if checks.called and isinstance(self.topic, str):
            self.calls = calls_of(self.protocol, self.topic)

    @property
    def ref(self) -> FrameRef:
        return FrameRef(self.connection, self.side, self.number, self.packets, self.time_ns)

    @property
    def server(self) -> str:
        """The endpoint that is asked."""
        return self.connection.endpoints[1 - self.side]

    @property
    def asker(self) -> tuple[str, str, str | None]:
        """The host, protocol and name of the client that asks, on any connection."""
        connection = self.connection
        return connection.endpoints[self.side].rpartition(":")[0], self.protocol, connection.identity.get("name")

    @property
    def name(self) -> str | None:
        """Its type, or a name by :attr:`Checks.called` that no answer has to show."""
        return next((each.name for each in self.calls if not each.answer), self.type)

    def is_held(self, answer: Frame) -> bool:
        """Whether the answer waited for uncaptured bytes: its time is later than that of its packets."""
        since_ns, until_ns, sides = self.time_ns, answer.time_ns, answer.connection.directions
        late = until_ns - since_ns >= REMARKABLE_NS
        return late and any(side.lost_between(since_ns, until_ns, answer.ready) for side in sides)


class Exchanges:
    """Receives frames with :meth:`frame`, before those who ask for exchanges."""

    def __init__(self) -> None:
        self.open: OrderedDict[int, Exchange] = OrderedDict()
        """By id of the request, without their last answer; the oldest first."""
        self.answered: Exchange | None = None
        """The one that the newest frame answers, if it is known."""
        self.confirm: list[Callable[[Frame, Exchange, Confirmation], None]] = []
        """Called for each publish that a frame confirms or refuses."""
        self.give_up: list[Callable[[Exchange], None]] = []
        """Called for each request from which on no answer is expected."""
        self._expired_ns = 0
        self._over: dict[int, Exchange] = {}
        self._over_before: dict[int, Exchange] = {}

    def __deepcopy__(self, _: object) -> "Exchanges":
        """Itself: :meth:`Checker.so_far` changes nothing here."""
        return self

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        self.answered, asked = None, frame.request
        if asked is not None:
            self.answered = self.open.get(asked) or self._over.get(asked) or self._over_before.get(asked)
            self._answer(frame, self.answered)
        if frame.expects_response or frame.type in requests_of(frame.protocol):
            self.open[frame.id] = Exchange(frame, checks_of(frame.protocol))
            if len(self.open) > MAX_OPEN:
                self._given_up(self.open.popitem(last=False)[1])

    def over(self) -> Iterator[Exchange]:
        """Those that were answered last."""
        yield from self._over_before.values()
        yield from self._over.values()

    def _answer(self, frame: Frame, request: Exchange | None) -> None:
        over: Sequence[Exchange] = ()
        confirmed: Sequence[tuple[Exchange, Confirmation]] = ()
        if frame.confirmations or (request is not None and request.publishing is not None):
            confirmed = [(self.open[each.request], each) for each in confirmations(frame, self.open)]
            over = [each for each, confirmation in confirmed if confirmation.final is not None]
        elif request is not None:
            over = (request,)
        for each in over:
            if each.connection is frame.connection and frame.latency_ns is not None:
                self.open.pop(each.id, None)
                self._over[each.id] = each
        if len(self._over) >= MAX_OVER:
            self._over, self._over_before = {}, self._over
        for publish, confirmation in confirmed:
            for confirm in self.confirm:
                confirm(frame, publish, confirmation)

    def expire(self, before_ns: int = LAST) -> None:
        """Give up older requests, or all: callers that show results while more comes decide how long they wait."""
        if before_ns < self._expired_ns + EXPIRE_NS:
            return
        self._expired_ns = before_ns
        for exchange in self.open.values():
            if exchange.time_ns >= before_ns:
                return
            self._given_up(exchange)

    def _given_up(self, exchange: Exchange) -> None:
        if not exchange.given_up:
            exchange.given_up = True
            for give_up in self.give_up:
                give_up(exchange)


@lru_cache(maxsize=4096)
def calls_of(protocol: str, topic: str) -> list[Called]:
    """The possible names of a request with such a topic."""
    return checks_of(protocol).calls(topic)
