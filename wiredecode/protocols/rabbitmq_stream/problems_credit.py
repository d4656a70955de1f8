"""Problems of RabbitMQ Stream subscriptions: too little credit, no more credit, useless credit, growing lag."""

from collections.abc import Mapping

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.problems import FrameRef, Problem, Rule, ref_of

CODES = codes_of("rabbitmq_stream")

AT_ONCE_NS = 20_000_000
"""A chunk that follows credit within this time, minus the round trip, had been waiting for it."""
MIN_WAITS, MIN_SHARE = 5, 0.2
"""A consumer is starved if it waited at least this many times, for at least this share of its time ..."""
LONG_STARVED_NS = 1_000_000_000
"""... and for at least this long: a consumer that catches up with a stream is often out of credit for moments."""
MIN_PAUSE_NS = 2_000_000_000
"""Shortest time without credit after which a consumer that had kept up counts as paused."""
MIN_STOPPED_NS = 5_000_000_000
"""A consumer that has no credit for this long, while the stream continues, has stopped."""
MIN_CLOSED_NS = 200_000_000
"""Time that the TCP window must be closed before credit counts as given too early."""
LAG_NS, LAG_SHARE, LAG_CHUNKS = 5_000_000_000, 0.2, 5
"""A consumer lags if it is this far behind, for this share of its time, and the age of this many chunks is known."""
MAX_STREAMS = 10_000
NEVER = 1 << 63
MS = 1_000_000


def _round_trip(connection: Connection) -> int:
    """That of the handshake, ns; 0: it was not captured."""
    health = connection.health
    return health.handshake_ns or 0 if health is not None else 0


@dataclass(slots=True)
class NewestPosition:
    """Newest position of a stream."""

    position: int = 0
    """As consumers were sent."""
    end: int = 0
    """As brokers said as well."""
    grew_ns: int = 0
    """Time of its last growth."""


@dataclass(slots=True)
class SubscriptionCredit:
    """Credit of one subscription, and how old the chunks are that it gets."""

    ref: FrameRef
    """Of its Subscribe."""
    number: int
    stream: str
    initial: int
    credit: int
    most: int
    """The most credit it ever had."""
    out_of_credit_ns: int | None
    """Since when there is none."""
    given_ns: int | None = None
    """When credit came after there was none; no chunk has followed yet."""
    finished: bool = False
    """It had all messages when it unsubscribed: it worked off what there was."""
    dry: int = 0
    """Number of times without credit."""
    position: int = 0
    """The offset that comes next."""
    chunks: int = 0
    waits: int = 0
    starved_ns: int = 0
    paused_ns: tuple[int, int] = (0, 0)
    """The longest time without credit that a chunk waited which was written after Subscribe: how long, since when."""
    last_ns: int = 0
    evidence: list[FrameRef] = field(default_factory=list)
    ages: int = 0
    """Chunks whose age is known: by clocks that may differ, so only its growth counts."""
    lowest_ns: int = 0
    age_ns: int = 0
    written_ns: int = 0
    """When the last of them was written, by the broker's clock."""


@dataclass(eq=False)
class Credits(Rule):
    """Time without credit while chunks were there, useless credit, and lagging consumers."""

    types = frozenset({"Subscribe", "Credit", "Deliver", "Unsubscribe", "PublishConfirm"})
    _subscriptions: dict[int, dict[int, SubscriptionCredit]] = field(default_factory=dict)
    _streams: dict[str, NewestPosition] = field(default_factory=dict)

    def frame(self, frame: Frame) -> None:
        if frame.type == "PublishConfirm":
            self._went_on(frame.generated.get("stream"), frame.time_ns)
            return
        number = frame.values.get("subscription_id")
        if number is None:
            return
        subscriptions = self._subscriptions.setdefault(frame.connection.number, {})
        if frame.type == "Subscribe":
            credit = frame.values.get("credit", 0)
            self._judge(subscriptions.pop(number, None), frame.time_ns)
            stream = printable(frame.values.get("stream", ""))
            dry = None if credit else frame.time_ns
            subscriptions[number] = SubscriptionCredit(ref_of(frame), number, stream, credit, credit, credit, dry)
            return
        subscription = subscriptions.get(number)
        if subscription is None:
            return
        if frame.type == "Credit":
            if subscription.credit <= 0 and subscription.out_of_credit_ns is not None:
                subscription.given_ns = frame.time_ns
            subscription.credit += frame.values.get("credit", 0)
            subscription.most = max(subscription.most, subscription.credit)
        elif frame.type == "Deliver":
            self._deliver(subscription, frame)
        else:
            newest = self._streams.get(subscription.stream, NewestPosition())
            subscription.finished = subscription.position >= newest.end and subscription.last_ns >= newest.grew_ns
            self._judge(subscriptions.pop(number), frame.time_ns)

    def _went_on(self, name: str | None, time_ns: int, position: int = 0, end: int = 0) -> None:
        if name is None or (name not in self._streams and len(self._streams) >= MAX_STREAMS):
            return
        stream = self._streams.setdefault(name, NewestPosition())
        stream.position = max(stream.position, position)
        stream.end, stream.grew_ns = max(stream.end, position, end), time_ns

    def _deliver(self, subscription: SubscriptionCredit, frame: Frame) -> None:
        subscription.chunks += 1
        subscription.last_ns = frame.time_ns
        subscription.credit -= 1
        chunk = frame.values.get("chunk")
        if isinstance(chunk, Mapping) and "chunk_id" in chunk:
            subscription.position = chunk["chunk_id"] + chunk["num_records"]
            end = frame.values.get("committed_chunk_id", 0)
            self._went_on(frame.generated.get("stream"), frame.time_ns, subscription.position, end)
            subscription.written_ns = chunk["timestamp"] * MS
            age = subscription.age_ns = frame.time_ns - subscription.written_ns
            subscription.lowest_ns = min(subscription.lowest_ns, age) if subscription.ages else age
            subscription.ages += 1
        since, given = subscription.out_of_credit_ns, subscription.given_ns
        if since is not None and given is not None:
            way = frame.time_ns - given
            if way <= AT_ONCE_NS + _round_trip(frame.connection) and subscription.chunks > 1:
                subscription.waits += 1
                subscription.starved_ns += given - since + (way if way > AT_ONCE_NS else 0)
                if subscription.written_ns >= subscription.ref.time_ns:
                    subscription.paused_ns = max(subscription.paused_ns, (given - since, since))
                if len(subscription.evidence) < 4:
                    subscription.evidence.append(ref_of(frame))
            subscription.out_of_credit_ns = subscription.given_ns = None
        if subscription.credit <= 0:
            subscription.out_of_credit_ns = frame.time_ns
            subscription.dry += 1

    def _judge(self, subscription: SubscriptionCredit | None, end_ns: int) -> None:
        """A subscription is over, at ``end_ns``."""
        if subscription is None or self.report.leapt(subscription.ref.time_ns, subscription.last_ns):
            return
        self._stopped(subscription, end_ns)
        active, behind = subscription.last_ns - subscription.ref.time_ns, subscription.age_ns - subscription.lowest_ns
        starved_ns, paused_ns = subscription.starved_ns, subscription.paused_ns[0]
        if paused_ns >= MIN_PAUSE_NS and 2 * paused_ns > starved_ns:
            self._paused(subscription)
        elif subscription.waits >= MIN_WAITS and starved_ns >= MIN_SHARE * max(active, 1):
            self._starved(subscription, active, behind)
        began_before = subscription.written_ns < subscription.ref.time_ns  # its expected speed is unknown
        if subscription.ages >= LAG_CHUNKS and not began_before and behind >= max(LAG_NS, LAG_SHARE * active):
            self._lags(subscription, behind, active)

    def _report(
        self, code: str, subscription: SubscriptionCredit, did: str, weight: int = 0, severity: str | None = None
    ) -> Problem:
        ref = subscription.ref
        title, key = f"{short(ref.connection)} {did}", (ref.connection.number, ref.number)
        problem = self.report.add(CODES[code], title, key, frame=ref, severity=severity)
        problem.weight = weight
        return problem

    def _starved(self, subscription: SubscriptionCredit, active: int, behind: int) -> None:
        starved_ns = subscription.starved_ns
        did = (
            f"consumes {subscription.stream} too slowly: out of credit for {starved_ns / 1e9:.3f} s of "
            f"{active / 1e9:.3f} s while chunks waited"
        )
        lasts = min(starved_ns, behind) >= LONG_STARVED_NS  # else it catches up with older messages
        severity = None if lasts and not subscription.finished else "note"
        problem = self._report("credit-starvation", subscription, did, starved_ns, severity)
        problem.count, problem.last_ns = subscription.waits, subscription.last_ns
        self.report.cite(problem, *subscription.evidence)
        _describe(problem, subscription)
        problem.detail(f"{subscription.waits:,} of {subscription.chunks:,} chunks waited for credit")
        round_trip, each_ns = _round_trip(subscription.ref.connection), starved_ns / subscription.waits
        if each_ns < 2 * round_trip:
            problem.detail(f"a round trip takes {round_trip / 1e6:.3f} ms, for each credit")
            problem.likely = "the round trip is long, and there is too little credit to fill it: raise the credit"
        else:
            problem.likely = f"the consumer gives credit after processing, which takes {each_ns / 1e6:.0f} ms per chunk"

    def _paused(self, subscription: SubscriptionCredit) -> None:
        length, since = subscription.paused_ns
        did = f"gave no credit for {subscription.stream} for {length / 1e9:.3f} s, while chunks waited"
        problem = self._report("credit-starvation", subscription, did, length)
        problem.first_ns, problem.last_ns = since, since + length
        self.report.cite(problem, *subscription.evidence)
        _describe(problem, subscription)
        problem.likely = "the consumer's process was stopped or busy: before and afterwards it kept up"

    def _lags(self, subscription: SubscriptionCredit, behind: int, active: int) -> None:
        name = subscription.stream
        did = f"falls behind {name}: by {behind / 1e9:.3f} s within {active / 1e9:.3f} s"
        problem = self._report("consumer-lag", subscription, did, behind, "note" if subscription.finished else None)
        problem.last_ns, end = subscription.last_ns, self._streams.get(name, NewestPosition()).end
        progress = _progress(subscription, subscription.ages)
        problem.detail(f"{progress}, the stream has come to {end:,}" if end > subscription.position else progress)
        health, client = subscription.ref.connection.health, subscription.ref.side
        if subscription.starved_ns < MIN_SHARE * active and health and not health.directions[client].zero_window_ns:
            problem.likely = "the path to it, or the broker, is too slow: it had credit, and its window was open"

    def _stopped(self, subscription: SubscriptionCredit, end_ns: int) -> None:
        since, stream = subscription.out_of_credit_ns, self._streams.get(subscription.stream, NewestPosition())
        until_ns = min(stream.grew_ns, end_ns)
        if since is None or subscription.given_ns is not None or until_ns - since < MIN_STOPPED_NS:
            return
        did = (
            f"stopped consuming {subscription.stream}: no credit since {self.report.seconds(since)}, while the stream "
            f"continued for {(until_ns - since) / 1e9:.3f} s"
        )
        problem = self._report("consumer-stopped", subscription, did, until_ns - since)
        problem.first_ns, problem.last_ns = since, until_ns
        _describe(problem, subscription)
        problem.detail(_progress(subscription, subscription.chunks))
        if stream.position > subscription.position:
            problem.detail(f"other consumers are at offset {stream.position:,}")

    def ended(self, connection: Connection) -> None:
        health, client = connection.health, connection.initiator
        end_ns = NEVER if health is None or health.end is None else health.end.time_ns
        closed_ns = 0 if health is None or client is None else health.directions[client].zero_window_ns
        for subscription in self._subscriptions.pop(connection.number, {}).values():
            self._judge(subscription, end_ns)
            if closed_ns >= MIN_CLOSED_NS and not subscription.dry and subscription.chunks >= MIN_WAITS:
                did = (
                    f"gives credit for {subscription.stream} that it cannot use: it closed its window for "
                    f"{closed_ns / 1e9:.3f} s, with up to {subscription.most:,} credits left"
                )
                _describe(self._report("early-credit", subscription, did, closed_ns), subscription)


def _describe(problem: Problem, subscription: SubscriptionCredit) -> None:
    stream, initial = subscription.stream, subscription.initial
    problem.detail(f"subscription {subscription.number} of {stream}, initial credit {initial}")


def _progress(subscription: SubscriptionCredit, chunks: int) -> str:
    return f"{chunks:,} chunks reached it; offset {subscription.position:,} is next"
