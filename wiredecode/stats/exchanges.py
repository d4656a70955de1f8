"""Requests and their answers, publishes and their confirms, as frames link them: what came back, and how soon."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wiredecode.check.codes import offers
from wiredecode.dissect.lookahead import confirmations, reply_captured
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.frames.message import PUBLISH, FrameElements, FrameMessages
from wiredecode.net.types import Connection
from wiredecode.protocols.registry import requests
from wiredecode.stats.spread import Spread

MOST_WAITING = 131_072
"""Requests, and frames of published messages, without answer so far that are remembered; the oldest are given up."""
MOST_ANSWERED = 8_192
"""Requests that were answered, and may be again."""
Part = FrameMessages | FrameElements
Row = dict[str, Any]
ExchangeKey = tuple[str, str | None, str | None]
"""Protocol; type of the request, or stream; broker."""


def broker(frame: Frame) -> str | None:
    """The server's address; None: nobody knows who it is."""
    if frame.sender is None:
        return None
    return frame.destination if frame.sender == "client" else frame.source


@dataclass(slots=True)
class OpenRequest:
    """A request without answer on its own connection."""

    place: ExchangeKey
    connection: Connection
    side: int
    time_ns: int
    asks: bool
    elsewhere: list[tuple[str | None, int]] = field(default_factory=list)
    """Broker and latency of answers on other connections."""


class Latency:
    """From requests to their answers. Exchanges count, as who asked saw them, unless ``hops`` do."""

    def __init__(self, *, hops: bool = False) -> None:
        self._hops = hops
        self._always = {(name, kind) for name, types in requests().items() for kind in types}
        self._called = {name: checks for name, checks in offers() if checks.called}
        self._open: OrderedDict[int, OpenRequest] = OrderedDict()
        self._answered: OrderedDict[int, tuple[ExchangeKey, Connection] | None] = OrderedDict()
        """Requests that were answered, and copies (None): their answers do not count."""
        self._spreads: defaultdict[ExchangeKey, Spread] = defaultdict(Spread)
        self._unanswered: Counter[ExchangeKey] = Counter()

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        if frame.request is not None and frame.latency_ns is not None:
            self._answer(frame, frame.request, frame.latency_ns)
            for other in frame.confirmations[1:]:  # the others have their answer, too: latency is that of the oldest
                if other.final is not None and (waiting := self._open.pop(other.request, None)) is not None:
                    self._remember(other.request, (waiting.place, waiting.connection))
        if not frame.expects_response and (frame.protocol, frame.type) not in self._always:
            return
        if not self._hops and "copy_of" in frame.generated:
            self._remember(frame.id, None)
            return
        called = self._called.get(frame.protocol)
        place = frame.protocol, called.request(frame) if called is not None else frame.type, broker(frame)
        self._open[frame.id] = OpenRequest(place, frame.connection, frame.side, frame.time_ns, frame.expects_response)
        if len(self._open) > MOST_WAITING:
            self._give_up(self._open.popitem(last=False)[1])

    def _remember(self, number: int, what: tuple[ExchangeKey, Connection] | None) -> None:
        self._answered[number] = what
        if len(self._answered) > MOST_ANSWERED:
            self._answered.popitem(last=False)

    def _answer(self, frame: Frame, request: int, latency_ns: int) -> None:
        waiting, server = self._open.get(request), broker(frame)
        if waiting is not None:
            protocol, kind, _ = waiting.place
            if self._hops or waiting.connection is frame.connection:
                self._spreads[protocol, kind, server].add(latency_ns)
                del self._open[request]
                self._remember(request, (waiting.place, waiting.connection))
            elif "copy_of" not in frame.generated:
                waiting.elsewhere.append((server, latency_ns))
            else:
                waiting.asks = False
        elif request not in self._answered:
            self._spreads[frame.protocol, None, server].add(latency_ns)
        elif (known := self._answered[request]) is not None:
            self._answered.move_to_end(request)
            if self._hops or known[1] is frame.connection:
                self._spreads[*known[0][:2], server].add(latency_ns)

    def _give_up(self, waiting: OpenRequest) -> None:
        """No answer is expected any more on its own connection."""
        protocol, kind, _ = waiting.place
        for server, latency_ns in waiting.elsewhere:
            self._spreads[protocol, kind, server].add(latency_ns)
        always = (protocol, kind) in self._always
        if waiting.asks and not waiting.elsewhere and (always or reply_captured(waiting)):
            self._unanswered[waiting.place] += 1

    def rows(self) -> Iterator[Row]:
        """The table, in any order; nothing more comes."""
        while self._open:
            self._give_up(self._open.popitem()[1])
        checks = dict(offers())
        for place in dict.fromkeys((*self._spreads, *self._unanswered)):
            protocol, request, server = place
            spread = self._spreads.get(place) or Spread()
            yield {
                "protocol": protocol,
                "request": request,
                "broker": server,
                "long_poll": protocol in checks and request in checks[protocol].waits,
                "count": spread.count,
                **spread.columns(),
                "unanswered": self._unanswered[place],
            }


@dataclass(slots=True, eq=False)
class Confirmed:
    """What became of messages that were published to one stream of one broker."""

    latency: Spread = field(default_factory=Spread)
    failed: int = 0
    unconfirmed: int = 0
    unknown: int = 0


@dataclass(slots=True, eq=False)
class Published:
    """Messages of one frame to one stream, of some of which nothing was told so far."""

    to: Confirmed
    first: int
    """Which of the frame's messages they are: from here on ..."""
    length: int
    """... so many."""
    left: int


@dataclass(slots=True, eq=False)
class Publication:
    """A frame of published messages that asks for a confirm."""

    connection: Connection
    side: int
    time_ns: int
    messages: list[Published]


class Confirms:
    """From publishes to what confirms or refuses them, by protocol, stream and broker."""

    def __init__(self, *, hops: bool = False) -> None:
        self._hops = hops
        self._confirming = {(name, kind) for name, checks in offers() for kind in checks.publishes}
        self._rows: defaultdict[ExchangeKey, Confirmed] = defaultdict(Confirmed)
        self._published: OrderedDict[int, Publication] = OrderedDict()

    def frame(self, frame: Frame, parts: Sequence[Part]) -> None:
        """The next frame, and its messages."""
        if frame.request is not None:
            for confirmation in confirmations(frame, self._published):
                self._confirm(frame, confirmation)
        if not parts or not frame.expects_response or (frame.protocol, frame.type) not in self._confirming:
            return
        if self._hops or "copy_of" not in frame.generated:
            self._publish(frame, parts)

    def _publish(self, frame: Frame, parts: Sequence[Part]) -> None:
        found: list[Published] = []
        shares: set[int] = set()
        count = 0
        for part in parts:
            if part.operation != PUBLISH:
                continue
            length = part.count
            if isinstance(part, FrameMessages) and part.shares is not None:
                fresh = {*part.shares} - shares
                shares |= fresh
                length = len(fresh)
            to = self._rows[frame.protocol, part.topic, broker(frame)]
            found.append(Published(to, count, length, length))
            count += length
        if found:
            self._published[frame.id] = Publication(frame.connection, frame.side, frame.time_ns, found)
            if len(self._published) > MOST_WAITING:
                self._give_up(self._published.popitem(last=False)[1])

    def _confirm(self, frame: Frame, confirmation: Confirmation) -> None:
        publication = self._published[confirmation.request]
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
        if not any(some.left for some in publication.messages):
            del self._published[confirmation.request]

    @staticmethod
    def _give_up(publication: Publication) -> None:
        """Nothing more is expected to be told."""
        complete = reply_captured(publication)
        for some in publication.messages:
            if complete:
                some.to.unconfirmed += some.left
            else:
                some.to.unknown += some.left

    def rows(self) -> Iterator[Row]:
        """The table, in any order; nothing more comes."""
        while self._published:
            self._give_up(self._published.popitem()[1])
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
                }
