"""Consumers that do not acknowledge what they got, or that get it again and again."""

from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple
from zlib import crc32

from wiredecode.dataclasses import dataclass, field
from wiredecode.fields import printable
from wiredecode.frames.frame import Frame
from wiredecode.frames.identity import short
from wiredecode.net.types import Connection
from wiredecode.protocols.shared.amqp.tables import read_table
from wiredecode.protocols.shared.codes import codes_of
from wiredecode.protocols.shared.pairing import Newest
from wiredecode.protocols.shared.problems import FrameRef, Rule, ref_of

CODES = codes_of("amqp091")
FULL_NS = 5_000_000_000
"""A consumer that takes this long for what its prefetch allows holds up its queue."""
REGULAR, TIMES, MAX_WAITS = 3, 3, 100
"""One that takes about the same time at least three times works on long jobs: never three times longer than usual."""
AGAIN = 10
"""Deliveries of one message after it came back that no retry needs."""
MAX_OPEN = 20_000
CONTENTS = ("ContentHeader", "ContentBody")
SETTLING = ("BasicAck", "BasicNack", "BasicReject")
DEATHS, DELIVERIES = "x-death", "x-delivery-count"
UNWANTED = ("rejected", "delivery_limit")
"""Reasons in x-death that a consumer caused."""
ALL = "all consumers"
"""In place of a consumer tag: a limit for the channel."""
Message = tuple[str, str, str, int]
"""Server, virtual host, queue and checksum: they distinguish messages."""


class OpenDelivery(NamedTuple):
    """A message that waits for an ack."""

    ref: FrameRef
    consumer: str
    message: Message


@dataclass(slots=True, eq=False)
class OpenChannel:
    """Deliveries of a channel."""

    open: Newest[int, OpenDelivery] = field(default_factory=lambda: Newest(MAX_OPEN))
    """By the id of their last frame."""
    limit: int = 0
    """``prefetch_count`` of consumers that begin now."""
    limits: dict[str, int] = field(default_factory=dict)
    """By consumer, and of :data:`ALL`."""
    full: dict[str, FrameRef] = field(default_factory=dict)
    """The delivery after which a consumer has all that its limit allows."""

    waiting: Counter[str] = field(default_factory=Counter)
    """Open deliveries by consumer, and of all."""


@dataclass(eq=False)
class ConsumerAcks(Rule):
    """Consumers at their prefetch, those that the server gave up, and messages that come back."""

    types = frozenset({*CONTENTS, *SETTLING, "BasicQos", "BasicConsumeOk", "BasicRecover", "ChannelClose"})
    _channels: Newest[tuple[int, int], OpenChannel] = field(default_factory=Newest)
    _waits: Newest[tuple[int, str], list[int]] = field(default_factory=Newest)
    """By connection and consumer: times, ns, until it acknowledged after it had all that its limit allows."""
    _back: Newest[Message, int] = field(default_factory=Newest)
    """Times that a message came back, less the times that it was delivered again."""
    _again: Newest[Message, list[FrameRef]] = field(default_factory=Newest)

    def frame(self, frame: Frame) -> None:
        place = frame.connection.number, frame.values.get("channel", 0)
        channel = self._channels.get_or_make(place, OpenChannel)
        if frame.type in CONTENTS:
            if frame.type == "ContentHeader" and "delivery_tag" in frame.generated:
                self._count(frame)
            if frame.acks is not None:
                self._delivered(frame, channel)
        elif frame.type == "BasicQos":
            count = frame.values.get("prefetch_count", 0)
            if frame.values.get("global_scope"):
                channel.limits[ALL] = count
            else:
                channel.limit = count
        elif frame.type == "BasicConsumeOk":
            channel.limits[printable(frame.values.get("consumer_tag", ""))] = channel.limit
        elif frame.type == "ChannelClose":
            self._given_up(frame, channel)
            self._close(channel, frame.time_ns if frame.sender == "client" else None)
            del self._channels[place]
        elif frame.type == "BasicRecover":
            self._close(channel, None)
        elif frame.sender == "client":
            self._settled(frame, channel)

    def _count(self, frame: Frame) -> None:
        """Look at the counts that the server adds to messages that come back."""
        raw = frame.values.get("headers") or b""
        if DEATHS.encode() in raw or DELIVERIES.encode() in raw:
            headers, queue = read_table(raw), frame.generated.get("queue", "")
            counts = [headers.get(DELIVERIES)]
            counts += (each.get("count") for each in deaths_of(headers) if each.get("reason") in UNWANTED)
            times = max((each for each in counts if isinstance(each, int)), default=0)
            if times >= AGAIN:
                who = short(frame.connection)
                title = f"{who} got a message of {queue or 'a queue'} that had come back {times} times before"
                key = frame.connection.number, queue, "counted"
                problem = self.report.add(CODES["redelivery-loop"], title, key, frame=frame)
                problem.alike, problem.title = queue, title
                problem.likely = "it is rejected, dead-lettered, and routed to its queue again"

    def _delivered(self, frame: Frame, channel: OpenChannel) -> None:
        generated = frame.generated
        party = (frame.source, frame.connection.identity.get("virtual_host", ""), generated.get("queue", ""))
        key = f"{generated.get('exchange')}/{generated.get('routing_key')}/".encode(errors="surrogateescape")
        message = (*party, crc32(frame.values.get("body", b""), crc32(key)))
        ref, consumer = ref_of(frame), generated.get("consumer_tag", "")
        if "redelivered" in generated and self._back.get(message, 0) > 0:
            self._back[message] -= 1
            self._again.get_or_make(message, list).append(ref)
        channel.open.put(frame.id, OpenDelivery(ref, consumer, message))
        channel.waiting.update((consumer, ALL))
        for each in (consumer, ALL):
            limit = channel.limits.get(each) or (channel.limit if each == consumer else 0)
            if consumer and limit and each not in channel.full and channel.waiting[each] >= limit:
                channel.full[each] = ref

    def _settled(self, frame: Frame, channel: OpenChannel) -> None:
        back = frame.type != "BasicAck" and bool(frame.values.get("requeue"))
        for confirmation in frame.confirmations:
            delivery = channel.open.pop(confirmation.request, None)
            if delivery is not None:
                self._settle(delivery, back)
                channel.waiting.subtract((delivery.consumer, ALL))
                for each in (delivery.consumer, ALL):
                    if each in channel.full:
                        self._judge(channel, each, frame.time_ns, "")

    def _settle(self, delivery: OpenDelivery, back: bool) -> None:
        if back and delivery.message[2]:
            self._back.put(delivery.message, self._back.get(delivery.message, 0) + 1)

    def _close(self, channel: OpenChannel, until_ns: int | None) -> None:
        """Deliveries of a channel come back that is closed; at its end consumers may have all that they can have."""
        for each in [*channel.full] if until_ns is not None else ():
            if self.report.all_captured(channel.full[each].connection, 1 - channel.full[each].side):
                self._judge(channel, each, until_ns or 0, ", until it ended")
        channel.full.clear()
        channel.waiting.clear()
        while channel.open:
            self._settle(channel.open.popitem()[1], True)

    def _judge(self, channel: OpenChannel, consumer: str, until_ns: int, end: str) -> None:
        """A consumer acknowledges, or not until the end, after it had all that its limit allows."""
        full = channel.full.pop(consumer)
        waited_ns, limit = until_ns - full.time_ns, channel.limits.get(consumer) or channel.limit
        waits = self._waits.get_or_make((full.connection.number, consumer), list)
        if len(waits) < MAX_WAITS:
            waits.append(waited_ns)
        if waited_ns >= FULL_NS:
            who = f"{'' if consumer == ALL else 'consumer '}{consumer} of {short(full.connection)}"
            title = f"{who} had {limit} messages, all that its prefetch allows"
            title += f", and acknowledged none for {waited_ns / 1e9:.1f} s{end}"
            key = full.connection.number, consumer, full.number
            self.report.add(CODES["prefetch"], title, key[:2], frame=full, until_ns=until_ns)

    def _given_up(self, frame: Frame, channel: OpenChannel) -> None:
        """The server closes a channel whose consumer took too long."""
        text = printable(frame.values.get("reply_text", ""))
        if frame.sender != "server" or not is_ack_timeout(text):
            return
        who, oldest = short(frame.connection), next(iter(channel.open.values()), None)
        waited = f" for {(frame.time_ns - oldest.ref.time_ns) / 1e9:.1f} s" if oldest is not None else ""
        of = f" of {oldest.message[2]}" if oldest is not None and oldest.message[2] else ""
        title = f"{who} did not acknowledge a message{of}{waited}: the server closed its channel"
        problem = self.report.add(CODES["ack-timeout"], title, frame.connection.number, frame=frame)
        problem.detail(f"the server says: {text}")
        if oldest is not None:
            self.report.cite(problem, oldest.ref)
            problem.first_ns = oldest.ref.time_ns

    def ended(self, connection: Connection) -> None:
        end = connection.health.end if connection.health is not None else None
        for place in [each for each in self._channels if each[0] == connection.number]:
            self._close(self._channels.pop(place), None if end is None else end.time_ns)

    def finish(self) -> None:
        for channel in self._channels.values():
            for consumer in [*channel.full]:
                if self.report.all_captured(channel.full[consumer].connection, 1 - channel.full[consumer].side):
                    self._judge(channel, consumer, self.report.last_ns, ", until the end")
        for key, waits in self._waits.items():
            problem = self.report.own(CODES["prefetch"], key)
            if problem is not None and len(waits) >= REGULAR and max(waits) < TIMES * median(waits):
                problem.severity = "note"
        by_queue: dict[Any, list[list[FrameRef]]] = {}
        for message, refs in self._again.items():
            if len(refs) >= AGAIN:
                by_queue.setdefault(message[:3], []).append(refs)
        for (server, space, queue), messages in by_queue.items():
            refs = sorted((each for refs in messages for each in refs), key=lambda ref: ref.number)
            most, who = max(map(len, messages)), short(refs[-1].connection)
            title = f"{who} got {f'{len(messages)} messages' if len(messages) > 1 else 'a message'} of {queue} again"
            title += f" up to {most} times: it puts back what it gets, or its channel ends"
            problem = self.report.about(CODES["redelivery-loop"], title, (server, space, queue), refs)
            problem.alike = queue


def deaths_of(headers: dict[str, Any]) -> Iterable[dict[str, Any]]:
    found = headers.get(DEATHS)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else ()


def is_ack_timeout(text: str) -> bool:
    """Whether the text of a close says so: RabbitMQ has no code for it."""
    return "delivery acknowledgement" in text and "timed out" in text
