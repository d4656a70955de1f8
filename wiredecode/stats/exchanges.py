"""Requests and their answers, publishes and their confirms, as frames link them: what came back, and how soon."""

import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

from wiredecode.check.codes import offers
from wiredecode.dissect.ledger import confirmations
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.frames.message import PUBLISH, FrameMessages
from wiredecode.net.spread import Spread
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import protocols, requests
from wiredecode.protocols.shared.pairing import Newest, reply_captured
from wiredecode.protocols.shared.problems import Called, Publishing

MOST_WAITING = 131_072
"""Requests, and frames of published messages, without answer yet that are remembered; the oldest are given up."""
MOST_ANSWERED = 8_192
"""Requests that were answered, and may be again."""
Row = dict[str, Any]


class Waiting(Protocol):
    """A request that waits for its answer."""

    time_ns: int


V = TypeVar("V", bound=Waiting)
ExchangeKey = tuple[str, str | None, str | None]
"""Protocol, stream, broker."""
RequestKey = tuple[str, str | None, str | None, str | None]
"""Protocol, type of the request, topic, broker."""
MOST_TOPICS = 20_000
OTHERS = "(others)"
"""All topics beyond these."""


def topic_group(topic: str) -> str:
    """The topic, with ``*`` for what differs from reply to reply: ``"_INBOX.*"``."""
    found = for_replies().search(topic)
    return topic if found is None else f"{topic[: found.end()]}*"


def within_limit(known: set[Any], key: Any, topic: str | None) -> str | None:
    """The topic; :data:`OTHERS` if ``known`` is full without the key that holds it."""
    if key not in known and len(known) >= MOST_TOPICS:
        return OTHERS
    known.add(key)
    return topic


@cache
def reply_topics() -> tuple[str, ...]:
    """Beginnings of topics that are made for one reply, of all protocols."""
    return tuple(dict.fromkeys(begin for one in protocols() for begin in one.reply_topics))


@cache
def for_replies() -> re.Pattern[str]:
    """Finds these beginnings, also after other tokens."""
    return re.compile(rf"(?<![^.])(?:{'|'.join(map(re.escape, reply_topics()))})")


def broker(frame: Frame) -> str | None:
    """The server's address; None: it is unknown which end is the server."""
    if frame.sender is None:
        return None
    return frame.destination if frame.sender == "client" else frame.source


class OpenRequests(Generic[V]):
    """Requests without answer yet, by number; of more than :data:`MOST_WAITING` the oldest is given up."""

    def __init__(self, give_up: Callable[[V], None]) -> None:
        self.waiting: OrderedDict[int, V] = OrderedDict()
        self._give_up = give_up

    def add(self, number: int, request: V) -> None:
        """Remember a request."""
        self.waiting[number] = request
        if len(self.waiting) > MOST_WAITING:
            self._give_up(self.waiting.popitem(last=False)[1])

    def expire(self, before_ns: int) -> None:
        """Give up older requests: callers that show results while more comes decide how long they wait."""
        while self.waiting and next(iter(self.waiting.values())).time_ns < before_ns:
            self._give_up(self.waiting.popitem(last=False)[1])

    def close(self) -> None:
        """Give up all requests: nothing more comes."""
        while self.waiting:
            self._give_up(self.waiting.popitem()[1])


@dataclass(slots=True)
class OpenRequest:
    """A request without answer on its own connection."""

    place: RequestKey
    connection: Connection
    side: int
    time_ns: int
    asks: bool
    calls: list[Called]
    """Its possible names; its answer decides between them."""
    elsewhere: list[tuple[RequestKey, int]] = field(default_factory=list)
    """Latency of answers on other connections."""

    def answered(self, answer: Frame) -> RequestKey:
        """The key of its answer."""
        protocol, kind, topic, _ = self.place
        kind = next((each.name for each in self.calls if not each.answer or each.answer in answer.generated), kind)
        return protocol, kind, topic, broker(answer)


@dataclass(slots=True, eq=False)
class Answered:
    """Outcomes of requests of one kind to one broker."""

    latency: Spread = field(default_factory=Spread)
    unanswered: int = 0


class Latency:
    """From requests to their answers. Exchanges count, as who asked saw them, unless ``hops`` do.

    ``counts``: makes and keeps the outcomes by key.
    """

    def __init__(self, *, hops: bool = False, counts: dict[RequestKey, Answered] | None = None) -> None:
        self._hops = hops
        self._always = {(name, kind) for name, types in requests().items() for kind in types}
        self._checks = dict(offers())
        self.open = OpenRequests(self._give_up)
        self._answered: Newest[int, tuple[RequestKey, Connection] | None] = Newest(MOST_ANSWERED)
        """Requests that were answered, and copies (None): their answers do not count."""
        self._counts: dict[RequestKey, Answered] = defaultdict(Answered) if counts is None else counts
        self._topics: set[str] = set()

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        if frame.request is not None and frame.latency_ns is not None:
            self._answer(frame, frame.request, frame.latency_ns)
            for other in frame.confirmations[1:]:  # the others have their answer, too: latency is that of the oldest
                if other.final is not None and (waiting := self.open.waiting.pop(other.request, None)) is not None:
                    self._answered.put(other.request, (waiting.place, waiting.connection))
        if frame.expects_response or (frame.protocol, frame.type) in self._always:
            self._request(frame)

    def _request(self, frame: Frame) -> None:
        if not self._hops and "copy_of" in frame.generated:
            self._answered.put(frame.id, None)
            return
        checks = self._checks.get(frame.protocol)
        topic = self._topic(frame.values.get(checks.topic)) if checks is not None and checks.topic else None
        place = frame.protocol, frame.type if checks is None else checks.request(frame), topic, broker(frame)
        calls = [] if checks is None else checks.calls(frame)
        asks = frame.expects_response
        self.open.add(frame.id, OpenRequest(place, frame.connection, frame.side, frame.time_ns, asks, calls))

    def _topic(self, topic: Any) -> str | None:
        if not isinstance(topic, str):
            return None
        group = topic_group(topic)
        return within_limit(self._topics, group, group)

    def _answer(self, frame: Frame, request: int, latency_ns: int) -> None:
        waiting = self.open.waiting.get(request)
        if waiting is not None:
            place = waiting.answered(frame)
            if self._hops or waiting.connection is frame.connection:
                self._counts[place].latency.add(latency_ns)
                del self.open.waiting[request]
                self._answered.put(request, (place, waiting.connection))
            elif "copy_of" not in frame.generated:
                waiting.elsewhere.append((place, latency_ns))
            else:
                waiting.asks = False
        elif request not in self._answered:
            self._counts[frame.protocol, None, None, broker(frame)].latency.add(latency_ns)
        elif (known := self._answered[request]) is not None:
            self._answered.move_to_end(request)
            if self._hops or known[1] is frame.connection:
                self._counts[*known[0][:3], broker(frame)].latency.add(latency_ns)

    def _give_up(self, waiting: OpenRequest) -> None:
        """No answer is expected from now on, on its own connection."""
        for place, latency_ns in waiting.elsewhere:
            self._counts[place].latency.add(latency_ns)
        always = waiting.place[:2] in self._always
        if waiting.asks and not waiting.elsewhere and (always or reply_captured(waiting)):
            self._counts[waiting.place].unanswered += 1

    def rows(self) -> Iterator[Row]:
        """The table, in any order; nothing more comes."""
        self.open.close()
        for (protocol, request, topic, server), counted in self._counts.items():
            yield {
                "protocol": protocol,
                "request": request,
                "topic": topic,
                "broker": server,
                "long_poll": protocol in self._checks and request in self._checks[protocol].waits,
                "count": counted.latency.count,
                **counted.latency.columns(),
                "unanswered": counted.unanswered,
            }


@dataclass(slots=True, eq=False)
class Confirmed:
    """Outcomes of messages that were published to one stream of one broker."""

    latency: Spread = field(default_factory=Spread)
    """From the last byte of a publish ..."""
    whole: Spread = field(default_factory=Spread)
    """... and from its first one."""
    transfer_ns: int = 0
    """From its first byte to its last: of all publishes, and the longest."""
    longest_ns: int = 0
    failed: int = 0
    unconfirmed: int = 0
    unknown: int = 0


@dataclass(slots=True, eq=False)
class Published:
    """Messages of one frame to one stream, some of them without a result yet."""

    to: Confirmed
    first: int
    """Index of the first of them in the frame ..."""
    length: int
    """... and their number."""
    left: int


@dataclass(slots=True, eq=False)
class Publication:
    """A frame of published messages that asks for a confirm."""

    connection: Connection
    side: int
    first_ns: int
    time_ns: int
    messages: list[Published]


class Confirms:
    """From publishes to what confirms or refuses them, by protocol, stream and broker.

    ``rows``: makes and keeps the outcomes by key.
    """

    def __init__(self, *, hops: bool = False, rows: dict[ExchangeKey, Confirmed] | None = None) -> None:
        self._hops = hops
        self._confirming: dict[tuple[str, str | None], Publishing] = {
            (name, kind): how for name, checks in offers() for kind, how in checks.publishes.items()
        }
        self._rows: dict[ExchangeKey, Confirmed] = defaultdict(Confirmed) if rows is None else rows
        self._keeps = rows is None
        """Whether times from the first byte are kept, too."""
        self.open = OpenRequests(self._give_up)

    def frame(self, frame: Frame, parts: Sequence[FrameMessages]) -> None:
        """The next frame, and its messages."""
        if frame.request is not None:
            for confirmation in confirmations(frame, self.open.waiting):
                self._confirm(frame, confirmation)
        if not parts or not frame.expects_response or (frame.protocol, frame.type) not in self._confirming:
            return
        if self._hops or "copy_of" not in frame.generated:
            self._publish(frame, parts)

    def _publish(self, frame: Frame, parts: Sequence[FrameMessages]) -> None:
        found: list[Published] = []
        shares: set[int] = set()
        count = 0
        for part in parts:
            other = self._confirming[frame.protocol, frame.type].other_streams
            if part.operation != PUBLISH or (other and (part.topic or "").startswith(other)):
                continue
            length = part.count
            if part.shares is not None:
                fresh = {*part.shares} - shares
                shares |= fresh
                length = len(fresh)
            to = self._rows[frame.protocol, part.topic, broker(frame)]
            found.append(Published(to, count, length, length))
            count += length
        if found:
            self.open.add(frame.id, Publication(frame.connection, frame.side, frame.first_ns, frame.time_ns, found))

    def _confirm(self, frame: Frame, confirmation: Confirmation) -> None:
        publication = self.open.waiting[confirmation.request]
        for some in publication.messages:
            stop = min(confirmation.first + confirmation.length, some.first + some.length)
            count = min(some.left, stop - max(confirmation.first, some.first))
            if count <= 0:
                continue
            some.left -= count
            if confirmation.refusal is not None:
                some.to.failed += count
            else:
                some.to.latency.add(frame.time_ns - publication.time_ns, count)
                if self._keeps:
                    transfer_ns = max(publication.time_ns - publication.first_ns, 0)
                    some.to.whole.add(frame.time_ns - publication.time_ns + transfer_ns, count)
                    some.to.transfer_ns += transfer_ns * count
                    some.to.longest_ns = max(some.to.longest_ns, transfer_ns)
        if not any(some.left for some in publication.messages):
            del self.open.waiting[confirmation.request]

    @staticmethod
    def _give_up(publication: Publication) -> None:
        """No further result is expected."""
        complete = reply_captured(publication)
        for some in publication.messages:
            if complete:
                some.to.unconfirmed += some.left
            else:
                some.to.unknown += some.left

    def rows(self) -> Iterator[Row]:
        """The table, in any order; nothing more comes."""
        self.open.close()
        for (protocol, stream, server), confirmed in self._rows.items():
            if confirmed.latency.count or confirmed.failed or confirmed.unconfirmed or confirmed.unknown:
                yield {
                    "protocol": protocol,
                    "stream": stream,
                    "broker": server,
                    "confirmed": confirmed.latency.count,
                    **confirmed.latency.columns(),
                    "failed": confirmed.failed,
                    "unconfirmed": confirmed.unconfirmed,
                    "unknown": confirmed.unknown,
                    **{f"first_byte_{name}": value for name, value in confirmed.whole.columns().items()},
                    "transfer_mean_us": confirmed.transfer_ns / (confirmed.whole.count or 1) / 1e3,
                    "transfer_max_us": confirmed.longest_ns / 1e3,
                }
