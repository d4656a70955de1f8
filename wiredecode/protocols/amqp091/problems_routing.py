"""The queues to which exchanges route messages, as far as bindings were captured; and how far consumers lag there."""

from collections.abc import Iterator

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.protocols.shared.amqp.tables import read_table
from wiredecode.protocols.shared.gauges import LAG, MAX_KNOWN, POSITION, Gauge, Measurement
from wiredecode.protocols.shared.pairing import Newest

ROUTING = frozenset({"ExchangeDeclare", "ExchangeDelete", "ExchangeBind", "QueueBind", "QueueUnbind"})
LIMITS = ("x-message-ttl", "x-max-length", "x-max-length-bytes", "x-expires", "x-queue-type")
"""Arguments of queues that lose messages without a consumer, or keep them: streams."""
Place = tuple[str, str, str]
"""Server, virtual host, and exchange or queue."""


def place_of(frame: Frame, name: str) -> Place:
    server = frame.destination if frame.sender == "client" else frame.source
    return server, frame.connection.identity.get("virtual_host") or "", name


@dataclass(slots=True, eq=False)
class BoundExchange:
    """An exchange, as far as it was captured."""

    kind: str = ""
    """direct, topic, fanout ...; "": not known."""
    bindings: set[tuple[str, str]] = field(default_factory=set)
    """Queues and keys."""
    leads_on: bool = False
    """Messages go to another exchange, too."""


class QueueRoutes:
    """Exchanges and their bindings, of one capture."""

    def __init__(self) -> None:
        self._exchanges: Newest[Place, BoundExchange] = Newest()
        self._unsure = False
        """A frame of these was not captured whole, or may have been lost."""

    def learn(self, frame: Frame) -> None:
        """A frame of :data:`ROUTING` from a client."""
        values = frame.values
        self._unsure |= frame.is_partial or frame.connection.directions[frame.side].lost_before(frame.ready)
        if self._unsure:
            return
        place = place_of(frame, printable(values.get("exchange") or values.get("source") or ""))
        if frame.type == "ExchangeDelete":
            self._exchanges.pop(place, None)
            return
        exchange = self._exchanges.get_or_make(place, BoundExchange)
        if frame.type == "ExchangeDeclare":
            exchange.kind = exchange.kind if values["passive"] else values["exchange_type"]
            exchange.leads_on |= "alternate-exchange" in read_table(values["arguments"])
        elif frame.type == "ExchangeBind":
            exchange.leads_on = True
        else:
            binding = printable(values["queue"]), printable(values["routing_key"])
            (exchange.bindings.add if frame.type == "QueueBind" else exchange.bindings.discard)(binding)

    def is_bound(self, place: Place) -> bool:
        """Whether a queue is bound to an exchange, with any key."""
        exchange = self._exchanges.get(place)
        return exchange is not None and bool(exchange.bindings)

    def queues(self, place: Place, key: str) -> set[str] | None:
        """The queues that a message goes to; None: not known."""
        if not place[2]:
            return {key}
        exchange = self._exchanges.get(place)
        if exchange is None or self._unsure or exchange.leads_on or exchange.kind not in ("direct", "topic", "fanout"):
            return None
        return {queue for queue, pattern in exchange.bindings if fits(exchange.kind, pattern, key)}


def fits(kind: str, pattern: str, key: str) -> bool:
    """Whether a binding takes a key; of topics ``*`` is a word, ``#`` any number of words."""
    if kind != "topic":
        return kind == "fanout" or pattern == key
    words = key.split(".") if key else []
    reached = {0}
    for part in pattern.split(".") if pattern else ():
        if part == "#":
            reached = set(range(min(reached, default=len(words) + 1), len(words) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(words) and part in ("*", words[at])}
    return len(words) in reached


class QueueLag(Gauge):
    """Messages that went to a queue in the capture and that no consumer has finished, at each ack.

    Not of queues that may have consumers outside of the capture, or lose messages by themselves.
    """

    types = ROUTING | {"QueueDeclare", "QueueDeclareOk", "BasicConsume", "ContentHeader", "ContentBody", "BasicAck"}
    types |= {"BasicNack", "BasicReject"}

    def __init__(self) -> None:
        self._routes = QueueRoutes()
        self._published: Newest[Place, int] = Newest(MAX_KNOWN)
        self._done: Newest[Place, int] = Newest(MAX_KNOWN)
        self._by_consumer: Newest[tuple[int, Place], int] = Newest(MAX_KNOWN)
        self._consumers: Newest[Place, int] = Newest(MAX_KNOWN)
        self._known: Newest[Place, bool] = Newest(MAX_KNOWN)
        """Whether all that takes messages out of a queue was captured, as its declaration shows."""
        self._waiting: Newest[int, Place] = Newest(MAX_KNOWN)
        """Queues, by delivery."""

    def read(self, frame: Frame) -> Iterator[Measurement]:
        values, generated = frame.values, frame.generated
        if frame.type in ROUTING:
            self._routes.learn(frame)
        elif frame.type == "QueueDeclare":
            if any(name in read_table(values["arguments"]) for name in LIMITS):
                self._known.put(place_of(frame, printable(values["queue"])), False)
        elif frame.type == "QueueDeclareOk":
            place = place_of(frame, printable(values["queue"]))
            whole = values["consumer_count"] <= self._consumers.get(place, 0)
            self._known.put(place, whole and self._known.get(place, True))
        elif frame.type == "BasicConsume":
            place = place_of(frame, printable(values["queue"]))
            self._consumers.put(place, self._consumers.get(place, 0) + 1)
        elif frame.acks is not None and "queue" in generated:
            self._waiting.put(frame.id, place_of(frame, generated["queue"]))
        elif frame.type == "ContentHeader" and frame.sender == "client" and "exchange" in generated:
            for queue in self._routes.queues(place_of(frame, generated["exchange"]), generated["routing_key"]) or ():
                place = place_of(frame, queue)
                self._published.put(place, self._published.get(place, 0) + 1)
        elif frame.confirmations and frame.sender == "client" and not values.get("requeue"):
            yield from self._finished(frame)

    def _finished(self, frame: Frame) -> Iterator[Measurement]:
        queues = [place for each in frame.confirmations if (place := self._waiting.pop(each.request, None))]
        for place in queues:
            self._done.put(place, self._done.get(place, 0) + 1)
            key = frame.connection.number, place
            self._by_consumer.put(key, self._by_consumer.get(key, 0) + 1)
        for place in dict.fromkeys(queues):
            lag = self._published.get(place, 0) - self._done[place]
            lossy = any(each.lost_before(frame.ready) for each in frame.connection.directions)
            if self._known.get(place) and not lossy and lag >= 0:
                of = f"{short(frame.connection)}, {place[2]}"
                yield Measurement(LAG, of, lag)
                yield Measurement(POSITION, of, self._by_consumer[frame.connection.number, place])
