"""RabbitMQ Stream: the binary protocol of RabbitMQ's streams plugin."""

NAME = "rabbitmq_stream"
PORTS = (5552,)
