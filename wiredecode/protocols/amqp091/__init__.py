"""AMQP 0-9-1: the protocol of RabbitMQ's queues."""

NAME = "amqp091"
PORTS = (5672,)
