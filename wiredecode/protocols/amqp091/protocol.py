"""Recognising AMQP 0-9-1, cutting it into frames, and finding the next frame after a gap."""

from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.protocols.amqp091 import NAME, PORTS, evidence, names
from wiredecode.protocols.amqp091.conversation import AmqpConversation
from wiredecode.protocols.amqp091.layers import LAYERS
from wiredecode.protocols.base import Split, Start, generated_of
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy

NAMED = {"exchange": "string", "routing_key": "string", "queue": "string", "consumer_tag": "string"}
"""Fields that are generated in frames without them."""


class Amqp091(BehindProxy):
    """AMQP 0-9-1 with RabbitMQ's extensions."""

    name = NAME
    title = "AMQP 0-9-1"
    ports = PORTS
    tls_ports = (5671,)
    framing, seeker = evidence.FRAMING, evidence.SEEKER
    header_bytes = evidence.HEADER_BYTES
    requests = {NAME: names.SYNCHRONOUS - names.NO_WAITING}
    reply_topics = names.FOR_ONE
    summary_keys = ("reply_code", "exchange", "routing_key", "queue", "consumer_tag", "delivery_tag")
    generated = generated_of(NAME)
    column_types = {
        **{f"{NAME}.{name}": column for name, column in NAMED.items()},
        f"{NAME}.delivery_tag": "uint64",
        f"{NAME}.redelivered": "bool",
    }

    def split_inner(self, data: bytes) -> Split:
        """Frames; a stream begins with the protocol header."""
        if data[:1] != names.GREETING[:1]:
            return self.framing.split(data)
        size = len(names.GREETING)
        if not data.startswith(names.GREETING[:4][: len(data)]):
            return Split([], bad="no protocol header")
        if len(data) < size:
            return Split([], need=size)
        split = self.framing.split(data, size)
        split.ends.insert(0, size)
        return split

    def conversation(self, start: Start) -> AmqpConversation:
        return AmqpConversation(start, self.ports)

    def layers(self) -> Iterable[type[Layer]]:
        return [*LAYERS, *PROXY_LAYERS]


PROTOCOL = Amqp091
