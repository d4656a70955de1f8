"""Requests and their answers, publishes and their confirms, as frames link them: what came back, and how soon."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from wiredecode.check.codes import checks_of, offers
from wiredecode.check.exchanges import Exchange, Exchanges, RequestKey
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.frames.identity import broker
from wiredecode.frames.message import PUBLISH, FrameMessages
from wiredecode.net.spread import Spread
from wiredecode.protocols.registry import protocols, requests_of
from wiredecode.protocols.shared.pairing import reply_captured

Row = dict[str, Any]
ExchangeKey = tuple[str, str | None, str | None]
"""Protocol, stream, broker."""
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


@dataclass(slots=True, eq=False)
class Answered:
    """Outcomes of requests of one kind to one broker."""

    latency: Spread = field(default_factory=Spread)
    unanswered: int = 0


class Latency:
    """From requests to their answers. Exchanges count, as who asked saw them, unless ``hops`` do.

    ``counts``: makes and keeps the outcomes by key.
    """

    def __init__(
        self, exchanges: Exchanges, *, hops: bool = False, counts: dict[RequestKey, Answered] | None = None
    ) -> None:
        self._hops = hops
        self._checks = dict(offers())
        self._exchanges = exchanges
        exchanges.give_up.append(self._give_up)
        self._counts: dict[RequestKey, Answered] = defaultdict(Answered) if counts is None else counts
        self._topics: set[str] = set()

    def frame(self, frame: Frame) -> None:
        """The next frame."""
        if frame.request is None or frame.latency_ns is None:
            return
        asked = self._exchanges.answered
        if asked is None or (asked.given_up and asked.place is None):
            self._counts[frame.protocol, None, None, broker(frame)].latency.add(frame.latency_ns)
        elif self._hops or not asked.is_copy:
            self._answer(frame, asked, frame.latency_ns)
        for other, confirmation in self._exchanges.confirmed:  # they have their answer, too: latency is the oldest's
            if other.place is None and confirmation.final is not None and confirmation.request != frame.request:
                other.place = self._place(other, other.name, broker(other))

    def _place(self, asked: Exchange, kind: str | None, server: str | None) -> RequestKey:
        topic = asked.topic
        if isinstance(topic, str):
            if topic not in self._topics:
                topic = topic_group(topic)
                topic = within_limit(self._topics, topic, topic)
        else:
            topic = None
        return asked.protocol, kind, topic, server

    def _answer(self, frame: Frame, asked: Exchange, latency_ns: int) -> None:
        place = asked.place
        if place is None:
            shown = (each.name for each in asked.calls if not each.answer or each.answer in frame.generated)
            place = self._place(asked, next(shown, asked.type), broker(frame))
            if not self._hops and asked.connection is not frame.connection:
                if "copy_of" not in frame.generated:
                    asked.elsewhere = [*asked.elsewhere, (place, latency_ns)]
                else:
                    asked.asks = False
                return
            asked.place = place
        if self._hops or asked.connection is frame.connection:
            self._counts[*place[:3], broker(frame)].latency.add(latency_ns)

    def _give_up(self, asked: Exchange) -> None:
        """No answer is expected from now on, on its own connection."""
        if asked.place is not None or (asked.is_copy and not self._hops):
            return
        for place, latency_ns in asked.elsewhere:
            self._counts[place].latency.add(latency_ns)
        always = asked.type in requests_of(asked.protocol)
        if asked.asks and not asked.elsewhere and (always or reply_captured(asked)):
            self._counts[self._place(asked, asked.name, broker(asked))].unanswered += 1

    def rows(self) -> Iterator[Row]:
        """The table, in any order; nothing more comes."""
        self._exchanges.expire()
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


class Confirms:
    """From publishes to what confirms or refuses them, by protocol, stream and broker.

    ``rows``: makes and keeps the outcomes by key.
    """

    def __init__(
        self, exchanges: Exchanges, *, hops: bool = False, rows: dict[ExchangeKey, Confirmed] | None = None
    ) -> None:
        self._hops = hops
        self._rows: dict[ExchangeKey, Confirmed] = defaultdict(Confirmed) if rows is None else rows
        self._keeps = rows is None
        """Whether times from the first byte are kept, too."""
        self._exchanges = exchanges
        exchanges.give_up.append(self._give_up)

    def frame(self, frame: Frame, parts: Sequence[FrameMessages]) -> None:
        """The next frame, and its messages."""
        if frame.request is not None:
            for publication, confirmation in self._exchanges.confirmed:
                if publication.messages:
                    self._confirm(frame, publication, confirmation)
        elif frame.findings and (checks := checks_of(frame.protocol)) and (refused := checks.refuses(frame)):
            self._rows[frame.protocol, refused, broker(frame)].failed += 1
        if not parts or not frame.expects_response:
            return
        asked = self._exchanges.asked
        if asked is not None and asked.publishing is not None and (self._hops or not asked.is_copy):
            asked.messages = self._published(parts, asked, asked.publishing.other_streams)

    def _published(self, parts: Sequence[FrameMessages], asked: Exchange, other: str) -> list[Published]:
        found: list[Published] = []
        shares: set[int] = set()
        count = 0
        for part in parts:
            if part.operation != PUBLISH or (other and (part.topic or "").startswith(other)):
                continue
            length = part.count
            if part.shares is not None:
                fresh = {*part.shares} - shares
                shares |= fresh
                length = len(fresh)
            to = self._rows[asked.protocol, part.topic, broker(asked)]
            found.append(Published(to, count, length, length))
            count += length
        return found

    def _confirm(self, frame: Frame, publication: Exchange, confirmation: Confirmation) -> None:
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
            publication.messages = ()
        else:  # it may have got its last answer
            self._exchanges.open[publication.id] = publication

    @staticmethod
    def _give_up(publication: Exchange) -> None:
        """No further result is expected."""
        complete = bool(publication.messages) and reply_captured(publication)
        for some in publication.messages:
            if complete:
                some.to.unconfirmed += some.left
            else:
                some.to.unknown += some.left
        publication.messages = ()

    def rows(self) -> Iterator[Row]:
        """The table, in any order; nothing more comes."""
        self._exchanges.expire()
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
