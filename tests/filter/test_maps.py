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
