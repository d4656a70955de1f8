"""A filter that skips hidden frames gives the lines and totals of decoding all."""

from __future__ import annotations

from functools import cache

import pytest

from tests.filter.support import BASIC, CAPTURES
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.filter import compile_filter
from wiredecode.frames.frame import Frame
from wiredecode.frames.totals import Totals
from wiredecode.view.summary import SummaryLines

NATS = "nats/06-headers.pcap"
FILTERS = [
    "tcp.port == 1",
    "tcp.stream == 3",
    "tcp.srcport in {4222, 5552} and frame.number % 2 == 0",
    "frame.number == 77 or frame.length > 100",
    "frame.type == PublishConfirm xor frame.time_relative > 200ms",
    "!(frame.sender == client) and frame.code != 3",
    "finding or latency > 1ms",
    'nats.subject contains "a"',
    "rabbitmq_stream.publisher_id == 0",
    'rabbitmq_stream.messages.data contains "m:1"',
]


@cache
def by_rows(name: str) -> tuple[list[Frame], Totals]:
    dissector = Dissector(Demand(link_responses=False))
    return list(dissector.frames(open_capture([CAPTURES / name]))), dissector.totals


@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("name", [BASIC, NATS, "rabbitmq-stream/d_snap96.pcap"])
def test_lines_and_totals_of_skipped_frames(name: str, text: str) -> None:
    select, lines = compile_filter(text), SummaryLines()
    dissector = Dissector(Demand(link_responses=False, select=select))
    frames = dissector.frames(open_capture([CAPTURES / name]))
    shown = [lines.line(frame) for frame in frames if select.matches(frame)]
    every, totals = by_rows(name)
    lines = SummaryLines()
    assert shown == [lines.line(frame) for frame in every if select.matches(frame)]
    assert dissector.totals.frames == totals.frames
    assert (dissector.totals.framed, dissector.totals.closes) == (totals.framed, True)
