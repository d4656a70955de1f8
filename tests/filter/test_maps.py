"""Keys of maps in names, which may hold dots and any other character."""

from __future__ import annotations

import pytest

from tests.filter.support import frames
from wiredecode.filter import compile_filter


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('amqp091.headers["table"]["a"]["b"] == 1', 2),
        ("amqp091.headers.str", 2),
        ('amqp091.headers["nothing there"]', 0),
        ('amqp091.client_properties.capabilities["basic.nack"] == true', 1),
        ("amqp091.client_properties.capabilities.basic.nack == true", 1),
        ('amqp091.arguments["x-max-length"] == 1000', 3),
    ],
)
def test_a_key_in_brackets_is_a_name(text: str, count: int) -> None:
    select = compile_filter(text)
    found = frames("amqp091/basic.pcap.zst", None, select, link=False)
    assert sum(map(select.matches, found)) == count


@pytest.mark.parametrize(
    ("capture", "text", "count"),
    [
        ("amqp091/basic.pcap.zst", 'amqp.headers["str"]', 2),
        ("amqp091/stream.pcap.zst", 'amqp.arguments.x-queue-type == "stream"', 1),
        ("nats/06-headers.pcap", 'nats.headers["Second-One"] contains "y"', 2),
        ("nats/06-headers.pcap", "nats.headers.nothing", 0),
        ("rabbitmq-stream/c43_amqp.pcap", 'rabbitmq_stream.properties["product"] == "RabbitMQ Stream"', 4),
        ("rabbitmq-stream/c43_amqp.pcap", 'amqp.application_properties["str"]', 2),
        ("rabbitmq-stream/c43_amqp.pcap", "rabbitmq_stream.messages.amqp.header.priority == 4", 1),
    ],
)
def test_each_protocol_has_the_names_of_its_maps(capture: str, text: str, count: int) -> None:
    select = compile_filter(text)
    assert sum(map(select.matches, frames(capture, None, select, link=False))) == count
