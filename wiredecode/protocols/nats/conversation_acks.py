"""Consumers of JetStream: who acknowledges deliveries, and what an ack says.

nats-server, consumer.go: ``AckAck`` up to ``AckTerm``, ``processAck``, ``processAckMsg``; ADR-15.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.escape import shorten
from wiredecode.frames.frame import ANSWERED, REFUSED, AckDuty, Frame
from wiredecode.protocols.shared.pairing import Newest

ACK = "$JS.ACK."
"""Beginning of the subject for an ack of a delivered message."""
ACKNOWLEDGED = re.compile(
    r"\$JS\.ACK\.(?:[^.]+\.[^.]+\.)?([^.]+)\.([^.]+)\.(\d{1,19})\.(\d{1,19})\.(\d{1,19})\.\d+\.(\d{1,19})(?:\.[^.]*)?\Z",
    re.ASCII,
)
"""ADR-15: stream, consumer, deliveries, sequence in the stream, in the consumer, time, messages left. Newer servers put
domain and account before the stream, and may add a token."""


class Acknowledged(NamedTuple):
    """Facts about a delivered message, from the subject for its ack."""

    stream: str
    consumer: str
    delivered: int
    """Number of deliveries, this one included."""
    sequence: int
    """In the stream."""
    number: int
    """Number of the delivery at its consumer: without those that were not captured there is a hole."""
    pending: int
    """Messages left for the consumer after it."""

    @property
    def of(self) -> str:
        return consumer_text(self.stream, self.consumer)


@lru_cache(maxsize=1024)
def consumer_text(stream: str, consumer: str) -> str:
    return f"{printable(stream)}, consumer {printable(consumer)}"


def parse_ack_subject(subject: str) -> Acknowledged | None:
    """Read a subject for acks; None: it is another subject."""
    return _parse_ack_subject(subject) if subject.startswith(ACK) else None


@lru_cache(maxsize=4096)
def _parse_ack_subject(subject: str) -> Acknowledged | None:
    match = ACKNOWLEDGED.match(subject)
    return None if match is None else Acknowledged(match[1], match[2], *map(int, match.groups()[2:]))


DONE, NEXT, NOT_DONE = (b"", b"+ACK", b"+OK"), b"+NXT", (b"-NAK", b"+TERM")
"""Acks; an ack that is also a pull; beginnings of refusals."""
NO_ACKS, UP_TO = "none", "all"
"""Policies: consumers that do not acknowledge, and those whose ack is one of all earlier messages, too."""
MAX_UNACKNOWLEDGED = 20_000
"""Deliveries that wait for the acks of consumers with policy ``all``; beyond it the oldest is forgotten."""
MAX_REASON = 100
"""Characters of a -NAK or +TERM that are kept."""


@dataclass(slots=True, eq=False)
class Consumer:
    """A consumer of a stream."""

    policy: str | None = None
    """Its ``ack_policy``; None: not known."""
    acks: AckDuty = field(default_factory=AckDuty)
    waiting: list[int] = field(default_factory=list)
    """With policy ``all``: sequences in the stream without an ack, in order."""


class AckPolicies:
    """All consumers of a capture, by stream and name; bounded."""

    def __init__(self) -> None:
        self._consumers: Newest[tuple[str, str], Consumer] = Newest()
        self._waiting: Newest[tuple[Consumer, int], Any] = Newest(MAX_UNACKNOWLEDGED + 1)

    def learn(self, frame: Frame, answer: Mapping[str, Any]) -> None:
        """An answer of JetStream's API that may describe a consumer: to CREATE, INFO."""
        config, stream, name = answer.get("config"), answer.get("stream_name"), answer.get("name")
        policy = config.get("ack_policy") if isinstance(config, dict) else None
        if not isinstance(policy, str) or not isinstance(stream, str) or not isinstance(name, str):
            return
        consumer = self._consumers.get_or_make((stream, name), Consumer)
        if consumer.policy not in (None, policy):  # it was deleted, and created anew
            consumer = Consumer()
            self._consumers.put((stream, name), consumer)
        consumer.policy = policy
        if policy != NO_ACKS:
            self._acknowledges(consumer, frame)

    def _consumer(self, acked: Acknowledged) -> Consumer:
        key = acked[:2]  # stream and name
        return self._consumers.get(key) or self._consumers.get_or_make(key, Consumer)

    @staticmethod
    def _acknowledges(consumer: Consumer, frame: Frame) -> None:
        if consumer.acks.since is None:
            consumer.acks.since = frame.number

    def deliver(self, frame: Frame, acked: Acknowledged, request: Any) -> None:
        """A message with the subject for its ack; ``request``: what :meth:`acknowledge` shall return for it."""
        consumer = self._consumer(acked)
        if consumer.policy == NO_ACKS:
            frame.expects_response = False
            return
        if "sid" in frame.values:  # else it is on its way between servers
            frame.acks = consumer.acks
        if consumer.policy == UP_TO:
            self._wait(consumer, acked.sequence, request)

    def _wait(self, consumer: Consumer, sequence: int, request: Any) -> None:
        if (consumer, sequence) not in self._waiting:
            insort(consumer.waiting, sequence)
        self._waiting.put((consumer, sequence), request)
        if len(self._waiting) > MAX_UNACKNOWLEDGED:
            (other, oldest), _ = self._waiting.popitem(last=False)
            del other.waiting[bisect_left(other.waiting, oldest)]

    def acknowledge(self, frame: Frame, acked: Acknowledged, final: str | None) -> list[Any]:
        """A frame answers a delivery. Return the requests of the earlier ones that it acknowledges, too."""
        consumer = self._consumer(acked)
        self._acknowledges(consumer, frame)
        if final != ANSWERED or not consumer.waiting:
            return []
        covered = consumer.waiting[: bisect_right(consumer.waiting, acked.sequence)]
        del consumer.waiting[: len(covered)]
        return [self._waiting.pop((consumer, each)) for each in covered]


def read_ack(frame: Frame) -> tuple[str | None, str | None]:
    """What an ack says: refusal and :attr:`Confirmation.final`; its consumer may only say that it is still at work."""
    data = frame.values.get("data")
    if data is None and frame.values.get("size"):
        return None, ""  # not captured
    if not data or data in DONE or data.startswith(NEXT):
        return None, ANSWERED
    if data.startswith(NOT_DONE):
        return shorten(printable(data.decode("utf-8", "replace")), MAX_REASON), REFUSED
    return None, None
