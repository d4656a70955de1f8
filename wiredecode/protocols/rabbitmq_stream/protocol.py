"""Recognising RabbitMQ Stream, cutting it into frames, and finding the next frame after a gap."""

from collections.abc import Iterable

from wiredecode.fields.layer import Layer
from wiredecode.protocols.base import Start, generated_of
from wiredecode.protocols.rabbitmq_stream import NAME, PORTS, evidence
from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Unknown, UnknownSasl
from wiredecode.protocols.rabbitmq_stream.names import COMMANDS, CORRELATED
from wiredecode.protocols.shared.proxy import LAYERS as PROXY_LAYERS
from wiredecode.protocols.shared.proxy import BehindProxy

GENERATED = generated_of("rabbitmq_stream")


class RabbitMQStream(BehindProxy):
    """The binary protocol of RabbitMQ streams (plugin rabbitmq_stream, RabbitMQ 3.9 and later).

    Frames are divided by their length prefix, see `framing`.
    """

    name = NAME
    title = "RabbitMQ Stream"
    ports = PORTS
    framing, seeker = evidence.FRAMING, evidence.SEEKER
    header_bytes = evidence.HEADER.size
    tls_ports = (5551,)
    requests = {"rabbitmq_stream": frozenset(("Publish", *(COMMANDS[code] for code in CORRELATED)))}
    summary_keys = ("response_code", "stream", "super_stream", "publisher_id", "subscription_id", "closing_code")
    generated = GENERATED
    column_types = {"rabbitmq_stream.body": "binary"}

    def conversation(self, start: Start) -> RabbitMQConversation:
        return RabbitMQConversation(start)

    def layers(self) -> Iterable[type[Layer]]:
        return [*LAYERS.values(), Unknown, UnknownSasl, *PROXY_LAYERS]


PROTOCOL = RabbitMQStream
