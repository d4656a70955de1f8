"""Latencies of ``stats``: from request to response (`RequestLatency`), from publish to confirm (`ConfirmLatency`)."""

from collections.abc import Mapping, Sequence
from typing import Any

from wiredecode.check.exchanges import Exchange, Exchanges, RequestKey
from wiredecode.dataclasses import dataclass
from wiredecode.frames.frame import Confirmation, Frame
from wiredecode.frames.identity import broker
from wiredecode.frames.message import PUBLISH, FrameMessages
from wiredecode.protocols.checks import checks_of
from wiredecode.protocols.registry import requests_of
from wiredecode.protocols.shared.pairing import reply_captured
from wiredecode.stats.tallies import PublishOutcomes, PublishTally, RequestTally
from wiredecode.stats.topics import topic_group, within_limit


class RequestLatency:
    """Counts the latency of each exchange once, as its requester saw it; with ``hops`` that of every response.

    NATS passes a request on to its responder, and the reply back: four frames, of which the reply to the requester
    counts. Its request (``copy_of``) and the first passage of the reply, on the connection of the responder, do not.

    ``counts``: outcomes by key; a mapping that makes missing ones.
    """

    def __init__(self, exchanges: Exchanges, *, hops: bool = False, counts: Mapping[Any, Any] | None = None) -> None:
        self._hops = hops
        self._exchanges = exchanges
        exchanges.give_up.append(self._give_up)
        self.tally = RequestTally() if counts is None else counts
        self._topics: set[str] = set()

    def frame(self, frame: Frame) -> None:
        """Count a response, after :meth:`Exchanges.frame` has found its request."""
        if frame.request is None or frame.latency_ns is None:
            return
        request = self._exchanges.answered
        if request is None or (request.given_up and request.latency_key is None):  # its type is unknown
            self.tally[frame.protocol, None, None, broker(frame)].latency.add(frame.latency_ns)
        elif self._hops or not request.is_copy:
            self._response(frame, request, frame.latency_ns)

    def confirm(self, frame: Frame, publish: Exchange, confirmation: Confirmation) -> None:
        """One confirm can answer several publishes: its latency is that of the oldest, the others are only answered."""
        answers = confirmation.final is not None and confirmation.request != frame.request
        if publish.latency_key is None and answers and frame.latency_ns is not None:
            publish.latency_key = self._key(publish, publish.name, broker(publish))

    def _key(self, request: Exchange, kind: str | None, server: str | None) -> RequestKey:
        topic = request.topic
        if isinstance(topic, str):
            if topic not in self._topics:
                topic = topic_group(topic)
                topic = within_limit(self._topics, topic, topic)
        else:
            topic = None
        return request.protocol, kind, topic, server

    def _response(self, frame: Frame, request: Exchange, latency_ns: int) -> None:
        """Count a response on the connection of its request; note one on another connection, see :meth:`_give_up`."""
        key, same = request.latency_key, self._hops or request.connection is frame.connection
        if key is None:
            names = (each.name for each in request.calls if not each.answer or each.answer in frame.generated)
            key = self._key(request, next(names, request.type), broker(frame))
            if same:
                request.latency_key = key
            elif "copy_of" in frame.generated:  # for another requester: then this one is not unanswered
                request.asks = False
            else:
                request.elsewhere = [*request.elsewhere, (key, latency_ns)]
        if same:
            self.tally[*key[:3], broker(frame)].latency.add(latency_ns)

    def _give_up(self, request: Exchange) -> None:
        """No response came on the connection of the request: count those on other connections, or it as unanswered."""
        if request.latency_key is not None or (request.is_copy and not self._hops):
            return
        for key, latency_ns in request.elsewhere:
            self.tally[key].latency.add(latency_ns)
        always = request.type in requests_of(request.protocol)
        if request.asks and not request.elsewhere and (always or reply_captured(request)):
            self.tally[self._key(request, request.name, broker(request))].unanswered += 1


@dataclass(slots=True, eq=False)
class OpenMessages:
    """Messages of one publish to one stream, some of them without outcome."""

    to: PublishOutcomes
    first: int
    """Index of the first one in the frame."""
    length: int
    """Number of messages."""
    pending: int


class ConfirmLatency:
    """Counts the latency from publish to confirm per message, by protocol, stream and broker.

    ``rows``: outcomes by key; a mapping that makes missing ones, and needs no times from the first byte.
    """

    def __init__(self, exchanges: Exchanges, *, hops: bool = False, rows: Mapping[Any, Any] | None = None) -> None:
        self._hops = hops
        self.tally = PublishTally() if rows is None else rows
        self._keeps = rows is None
        """Whether times from the first byte are counted, too."""
        self._exchanges = exchanges
        exchanges.give_up.append(self._give_up)

    def frame(self, frame: Frame, parts: Sequence[FrameMessages]) -> None:
        """Count the next frame, after :meth:`Exchanges.frame`, and its messages."""
        if frame.request is None and frame.findings and (refused := checks_of(frame.protocol).refuses(frame)):
            self.tally[frame.protocol, refused, broker(frame)].failed += 1
        if not parts or not frame.expects_response:
            return
        publish = self._exchanges.open.get(frame.id)
        if publish is not None and publish.publishing is not None and (self._hops or not publish.is_copy):
            publish.messages = self._open_publishes(parts, publish, publish.publishing.other_streams)

    def _open_publishes(self, parts: Sequence[FrameMessages], publish: Exchange, other: str) -> list[OpenMessages]:
        opened: list[OpenMessages] = []
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
            to = self.tally[publish.protocol, part.topic, broker(publish)]
            opened.append(OpenMessages(to, count, length, length))
            count += length
        return opened

    def confirm(self, frame: Frame, publication: Exchange, confirmation: Confirmation) -> None:
        for some in publication.messages:
            stop = min(confirmation.first + confirmation.length, some.first + some.length)
            count = min(some.pending, stop - max(confirmation.first, some.first))
            if count <= 0:
                continue
            some.pending -= count
            if confirmation.outcome is None:
                some.to.unknown += count
            elif confirmation.refusal is not None:
                some.to.failed += count
            else:
                some.to.latency.add(frame.time_ns - publication.time_ns, count)
                if self._keeps:
                    transfer_ns = max(publication.time_ns - publication.first_ns, 0)
                    some.to.whole.add(frame.time_ns - publication.time_ns + transfer_ns, count)
                    some.to.transfer_ns += transfer_ns * count
                    some.to.longest_ns = max(some.to.longest_ns, transfer_ns)
        if not any(some.pending for some in publication.messages):
            publication.messages = ()
        else:  # Exchanges may have closed it
            self._exchanges.open[publication.id] = publication

    @staticmethod
    def _give_up(publication: Exchange) -> None:
        """Stop waiting for confirms."""
        complete = bool(publication.messages) and reply_captured(publication)
        for some in publication.messages:
            if complete:
                some.to.unconfirmed += some.pending
            else:
                some.to.unknown += some.pending
        publication.messages = ()
