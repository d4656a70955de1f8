"""Recognising RabbitMQ Stream, cutting it into frames, and finding the next frame after a gap."""

from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.frames.splitter import BAD, GOOD, SHORT, SURE, Allowance
from wiredecode.protocols.base import Found, Rejected, Start, Undecided, Verdict, generated_of
from wiredecode.protocols.rabbitmq_stream import NAME, PORTS, evidence
from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Unknown, UnknownSasl
from wiredecode.protocols.rabbitmq_stream.names import COMMANDS, CORRELATED
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy

AMQP_IN = tuple(
    f"rabbitmq_stream.{name}"
    for name in ("messages", "messages.sub_batch.messages", "chunk.entries", "chunk.entries.sub_batch.messages")
)
GENERATED = generated_of("rabbitmq_stream")


class RabbitMQStream(BehindProxy):
    """The binary protocol of RabbitMQ streams (plugin rabbitmq_stream, RabbitMQ 3.9 and later).

    Frames are divided by their length prefix, see `framing`.
    """

    name = NAME
    title = "RabbitMQ Stream"
    ports = PORTS
    framing = evidence.FRAMING
    header_bytes = evidence.HEADER.size
    tls_ports = (5551,)
    requests = {"rabbitmq_stream": frozenset(("Publish", *(COMMANDS[code] for code in CORRELATED)))}
    summary_keys = ("response_code", "stream", "super_stream", "publisher_id", "subscription_id", "closing_code")
    amqp_in, generated = AMQP_IN, GENERATED
    column_types = {"rabbitmq_stream.body": "binary"}

    def recognise_inner(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        return self._at_start(data, port, final) if started else self._in_midstream(data, port, final)

    def _at_start(self, data: bytes, port: bool, final: bool) -> Verdict | Undecided | Rejected:
        first = evidence.handshake(data, final)
        if first:
            return Verdict(0, client=data[4] == 0)
        if first is None:
            return Undecided()
        chain = evidence.FrameChain(data, 0)
        needed = 1 if port else evidence.FRAMES_TO_BELIEVE
        cut_header = final and port and chain.last.level == SHORT and len(data) >= evidence.HEADER.size
        if chain.best == SURE or chain.whole >= needed or cut_header:
            return Verdict(0, client=evidence.role(data, 0))
        return Rejected() if final or chain.last.level == BAD else Undecided()

    def _in_midstream(self, data: bytes, port: bool, final: bool) -> Verdict | Undecided | Rejected:
        needed = evidence.FRAMES_TO_BELIEVE if not port else 2 if not final else 1
        allowance = Allowance(data)
        for position in evidence.candidates(data):
            first = evidence.judge(data, position)
            if first.end - position > evidence.SEARCH_BYTES and first.level < SURE:
                continue
            chain = evidence.FrameChain(data, position)
            if chain.best == SURE or chain.whole >= needed:
                return Verdict(position, client=evidence.role(data, position))
            if chain.last.level == SHORT and not final:
                return Undecided(position, need=chain.need)
            if not allowance.spend(chain.read):
                break
        return Rejected() if final else Undecided(evidence.behind(data))

    def search(self, data: bytes, *, final: bool) -> Found:
        """A good frame that ends where a segment ends or another starts, or a chunk whose header fits."""
        allowance = Allowance(data)
        for position in evidence.candidates(data):
            seen = evidence.judge(data, position)
            if seen.level == SURE:
                return Found(position, True)
            if not allowance.spend(seen.end - position if seen.end <= len(data) else 0):
                break
            if seen.end - position > evidence.SEARCH_BYTES:
                continue
            if seen.level == GOOD:
                if seen.end == len(data):
                    return Found(position, True)
                following = evidence.judge(data, seen.end).level
                if following >= GOOD or (seen.end + evidence.HEADER.size <= len(data) and following == SHORT):
                    return Found(position, True)
                if following == SHORT:
                    return Found(position, final)
            elif seen.level == SHORT and not final:
                return Found(position, False, max(seen.need - position, 0))
        return Found(evidence.behind(data), False)

    def conversation(self, start: Start) -> RabbitMQConversation:
        return RabbitMQConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        return [*LAYERS.values(), Unknown, UnknownSasl, *PROXY_LAYERS]


PROTOCOL = RabbitMQStream
