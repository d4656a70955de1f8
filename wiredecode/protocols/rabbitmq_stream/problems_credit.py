"""Credit of RabbitMQ Stream consumers: too little, none any more, or more than they can read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.problems import FrameRef, Report, Rule, ref_of

CODES = codes_of("rabbitmq_stream")

AT_ONCE_NS = 20_000_000
"""A chunk that follows credit so soon, the round trip left out, had been waiting for it."""
LEAST_WAITS, LEAST_SHARE = 5, 0.2
"""Starved is who waited so often, and for so large a share of its time ..."""
LONG_STARVED_NS = 1_000_000_000
"""... and for so long: a consumer that catches up with a stream is always out of credit, for moments."""
LEAST_STOPPED_NS = 5_000_000_000
"""So long without credit, while the stream goes on, a consumer has stopped."""
LEAST_CLOSED_NS = 200_000_000
"""So long was the window of TCP closed before credit counts as given too early."""
LEAST_CHUNKS = 20
"""Chunks from which on one credit at a time is worth a note."""
MOST_STREAMS = 10_000
NEVER = 1 << 63


def _round_trip(connection: Connection) -> int:
    """That of the handshake, ns; 0: it was not captured."""
    health = connection.health
    return health.handshake_ns or 0 if health is not None else 0


@dataclass(slots=True)
class Subscription:
    """Credit of one subscription."""

    place: FrameRef
    """Of its Subscribe."""
    number: int
    stream: str
    initial: int
    credit: int
    out_of_credit_ns: int | None = None
    """Since when there is none."""
    given_ns: int | None = None
    """When credit came after there was none; no chunk has followed yet."""
    most: int = 0
    """The most credit it ever had."""
    dry: int = 0
    """How often it had none left."""
    position: int = 0
    """The offset that comes next."""
    chunks: int = 0
    waits: int = 0
    starved_ns: int = 0
    last_ns: int = 0
    evidence: list[tuple[int, int | None]] = field(default_factory=list)

    def described(self) -> str:
        """Which subscription it is."""
        return f"subscription {self.number} of {self.stream}, initial credit {self.initial}"


class Credits(Rule):
    """Time without credit while chunks were there, and credit that means nothing."""

    types = frozenset({"Subscribe", "Credit", "Deliver", "Unsubscribe", "PublishConfirm"})

    def __init__(self, report: Report) -> None:
        super().__init__(report)
        self._subscriptions: dict[int, dict[int, Subscription]] = {}
        self._streams: dict[str, tuple[int, int]] = {}
        """How far streams got, and when they last went on."""

    def frame(self, frame: Frame) -> None:
        if frame.type == "PublishConfirm":
            self._went_on(frame, 0)
            return
        number = frame.values.get("subscription_id")
        if number is None:
            return
        known = self._subscriptions.setdefault(frame.connection.number, {})
        if frame.type == "Subscribe":
            credit = frame.values.get("credit", 0)
            self._judge(known.pop(number, None))
            stream = printable(frame.values.get("stream", ""))
            dry = None if credit else frame.time_ns
            known[number] = Subscription(ref_of(frame), number, stream, credit, credit, dry, most=credit)
            return
        subscription = known.get(number)
        if subscription is None:
            return
        if frame.type == "Credit":
            self._credit(subscription, frame)
        elif frame.type == "Deliver":
            self._deliver(subscription, frame)
        else:
            self._judge(known.pop(number))

    def _went_on(self, frame: Frame, end: int) -> None:
        stream = frame.generated.get("stream")
        if stream is not None and (stream in self._streams or len(self._streams) < MOST_STREAMS):
            self._streams[stream] = max(self._streams.get(stream, (0, 0))[0], end), frame.time_ns

    def _credit(self, subscription: Subscription, frame: Frame) -> None:
        if subscription.credit <= 0 and subscription.out_of_credit_ns is not None:
            subscription.given_ns = frame.time_ns
        subscription.credit += frame.values.get("credit", 0)
        subscription.most = max(subscription.most, subscription.credit)

    def _deliver(self, subscription: Subscription, frame: Frame) -> None:
        subscription.chunks += 1
        subscription.last_ns = frame.time_ns
        subscription.credit -= 1
        chunk = frame.values.get("chunk")
        if isinstance(chunk, Mapping) and "chunk_id" in chunk:
            subscription.position = chunk["chunk_id"] + chunk["num_records"]
            self._went_on(frame, subscription.position)
        since, given = subscription.out_of_credit_ns, subscription.given_ns
        if since is not None and given is not None:
            way = frame.time_ns - given
            if way <= AT_ONCE_NS + _round_trip(frame.connection) and subscription.chunks > 1:
                subscription.waits += 1
                subscription.starved_ns += given - since + (way if way > AT_ONCE_NS else 0)
                if len(subscription.evidence) < 4:
                    subscription.evidence.append((frame.number, frame.packets[0] if frame.packets else None))
            subscription.out_of_credit_ns = subscription.given_ns = None
        if subscription.credit <= 0:
            subscription.out_of_credit_ns = frame.time_ns
            subscription.dry += 1

    def _judge(self, subscription: Subscription | None) -> None:
        """A subscription is over."""
        if subscription is None:
            return
        place, stream = subscription.place, subscription.stream
        active = subscription.last_ns - place.time_ns
        if subscription.waits >= LEAST_WAITS and subscription.starved_ns >= LEAST_SHARE * max(active, 1):
            self._starved(subscription, active)
        if subscription.most == 1 and subscription.chunks >= LEAST_CHUNKS:
            who = self.report.names.short(place.connection)
            what = f"{who} consumes {stream} with a credit of 1: {subscription.chunks:,} chunks, one at a time"
            self.report.add(CODES["credit-one"], what, (place.connection.number, place.number), frame=place)

    def _starved(self, subscription: Subscription, active: int) -> None:
        place, stream = subscription.place, subscription.stream
        who = self.report.names.short(place.connection)
        what = (
            f"{who} consumes {stream} too slowly: out of credit for {subscription.starved_ns / 1e9:.3f} s of "
            f"{active / 1e9:.3f} s while chunks waited"
        )
        severity = None if subscription.starved_ns >= LONG_STARVED_NS else "note"
        key = place.connection.number, place.number
        problem = self.report.add(CODES["credit-starvation"], what, key, frame=place, severity=severity)
        problem.count, problem.weight = subscription.waits, subscription.starved_ns
        for number, packet in subscription.evidence:
            self.report.cite_numbers(problem, number, packet)
        problem.detail(subscription.described())
        problem.detail(f"{subscription.waits:,} of {subscription.chunks:,} chunks waited for credit")
        round_trip, each_ns = _round_trip(place.connection), subscription.starved_ns / subscription.waits
        problem.last_ns = subscription.last_ns
        if each_ns < 2 * round_trip:
            problem.detail(f"a round trip takes {round_trip / 1e6:.3f} ms, for each credit")
            problem.likely = "the round trip is long, and there is too little credit to fill it: raise the credit"
        else:
            problem.likely = f"the consumer gives credit after processing, which takes {each_ns / 1e6:.0f} ms per chunk"

    def _stopped(self, subscription: Subscription, end_ns: int) -> None:
        """Nothing more comes of a connection, whose end was at ``end_ns``; the subscription was still there."""
        place, stream, since = subscription.place, subscription.stream, subscription.out_of_credit_ns
        end, went_on_ns = self._streams.get(stream, (0, 0))
        until_ns = min(went_on_ns, end_ns)
        if since is None or subscription.given_ns is not None or until_ns - since < LEAST_STOPPED_NS:
            return
        who = self.report.names.short(place.connection)
        what = (
            f"{who} stopped consuming {stream}: no credit since {self.report.seconds(since)}, while the stream went "
            f"on for {(until_ns - since) / 1e9:.3f} s"
        )
        problem = self.report.add(CODES["consumer-stopped"], what, (place.connection.number, place.number), frame=place)
        problem.weight, problem.last_ns = until_ns - since, until_ns
        problem.detail(subscription.described())
        problem.detail(f"{subscription.chunks:,} chunks reached it; offset {subscription.position:,} is next")
        if end > subscription.position:
            problem.detail(f"other consumers are at offset {end:,}")

    def _useless(self, subscription: Subscription, closed_ns: int) -> None:
        """The client closed its window for ``closed_ns``; the subscription always had credit."""
        place, stream = subscription.place, subscription.stream
        who = self.report.names.short(place.connection)
        what = (
            f"{who} gives credit for {stream} that it cannot use: it closed its window for {closed_ns / 1e9:.3f} s, "
            f"with up to {subscription.most:,} credits left"
        )
        problem = self.report.add(CODES["early-credit"], what, (place.connection.number, place.number), frame=place)
        problem.weight = closed_ns
        problem.detail(subscription.described())

    def ended(self, connection: Connection) -> None:
        health, client = connection.health, connection.initiator
        end_ns = NEVER if health is None or health.end is None else health.end.time_ns
        closed_ns = 0 if health is None or client is None else health.directions[client].zero_window_ns
        for subscription in self._subscriptions.pop(connection.number, {}).values():
            self._judge(subscription)
            self._stopped(subscription, end_ns)
            if closed_ns >= LEAST_CLOSED_NS and not subscription.dry and subscription.chunks >= LEAST_WAITS:
                self._useless(subscription, closed_ns)
