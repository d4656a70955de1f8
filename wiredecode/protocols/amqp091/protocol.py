"""Recognising AMQP 0-9-1, cutting it into frames, and finding the next frame after a gap."""

from collections.abc import Iterable

from wiredecode.dataclasses import replace
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
        """Frames, and the protocol header, wherever it is."""
        split, size = self.framing.split(data), len(names.GREETING)
        ends = split.ends
        while data[(at := ends[-1] if ends else 0) : at + 1] == names.GREETING[:1]:
            if not names.GREETING[:4].startswith(data[at : at + 4]):
                return Split(ends, bad="no protocol header", known_at=((len(ends), min(at + 4, len(data))),))
            if len(data) < at + size:
                return Split(ends, need=size)
            split = self.framing.split(data, at + size)
            ends += [at + size, *split.ends]
        if ends is split.ends:
            return split
        known = [(len(ends), position) for _, position in split.known_at]
        return replace(split, ends=ends, known_at=known)

    def conversation(self, start: Start) -> AmqpConversation:
        return AmqpConversation(start, self.ports)

    def layers(self) -> Iterable[type[Layer]]:
        return [*LAYERS, *PROXY_LAYERS]


PROTOCOL = Amqp091
