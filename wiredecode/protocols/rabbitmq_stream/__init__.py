"""RabbitMQ Stream: the binary protocol of RabbitMQ's streams plugin."""

from wiredecode.protocols.rabbitmq_stream.protocol import RabbitMQStream

__all__ = ["RabbitMQStream"]
