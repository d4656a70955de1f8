"""The predicate on columns chooses the rows that the predicate on frames chooses."""

from __future__ import annotations

from functools import cache

import pytest

from tests.filter.support import BASIC, known
from wiredecode.filter import compile_filter
from wiredecode.layer import Style

pa = pytest.importorskip("pyarrow")

FILTERS = [
    "frame.number > 100",
    'frame.type == "Publish" || frame.type contains "Query"',
    "!(latency > 1ms)",
    "latency != 1640us and frame.number < 9",
    "frame.request xor frame.response",
    "tcp.stream == 2 && frame.length >= 65",
    "frame.time >= 2026-11-20T19:45:00.5Z",
    "rabbitmq_stream.key == Open",
    "rabbitmq_stream.key != 2",
    "rabbitmq_stream.correlation_id <= 3",
    'not rabbitmq_stream.stream == "x"',
    "1 == 1",
]
FRAME_BY_FRAME = [
    "tcp.port == 5552",
    "ip.addr == 127.0.0.1 and frame.number < 9",
    "frame.packets == 4",
    'frame.type matches "P"',
    "rabbitmq_stream.messages.publishing_id == 1",
    "finding",
    "frame.number > 1.5",
    "frame.number > 99999999999999999999999",
    "frame.length * 2 > 100",
]


@cache
def table() -> pa.Table:
    from wiredecode.tables.frames import FrameTable, style_for
    from wiredecode.tables.schema import type_schema

    schema = type_schema("rabbitmq_stream")
    style: Style = style_for()
    return pa.Table.from_batches([FrameTable(schema).batch(known(BASIC, style))])


@pytest.mark.parametrize("text", FILTERS)
def test_same_rows(text: str) -> None:
    chosen = compile_filter(text)
    expression = chosen.arrow(table().schema)
    assert expression is not None
    rows = table().filter(expression)["frame"].to_pylist()
    assert rows == [frame.number for frame in known(BASIC, None) if chosen.matches(frame)] != []


@pytest.mark.parametrize("text", FRAME_BY_FRAME)
def test_what_is_no_column_is_left_to_frames(text: str) -> None:
    assert compile_filter(text).arrow(table().schema) is None


def test_column_that_was_not_chosen() -> None:
    assert compile_filter("frame.number > 3").arrow(pa.schema([("type", pa.string())])) is None
