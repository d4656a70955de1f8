"""Forms of times in lines and trees."""

from __future__ import annotations

import pytest

from tests.net.craft import START_NS
from tests.view.frames import CLIENT, dissected
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view.summary import SummaryLines
from wiredecode.view.times import Times

FIRST, THEN = START_NS, START_NS + 1_234_567_890


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (Times(), "1.234567"),
        (Times("epoch"), "1700000001.234567"),
        (Times("absolute"), "2023-11-15T07:13:21.234567+09:00"),
        (Times("absolute", utc=True), "2023-11-14T22:13:21.234567Z"),
    ],
    ids=["relative", "epoch", "local", "utc"],
)
def test_each_form(times: Times, said: str, tokyo: None) -> None:
    assert times.text(THEN, FIRST) == said
    assert len(times.column(THEN, FIRST)) == times.width >= len(said)


def test_delta_counts_from_the_frame_before_even_backwards() -> None:
    times = Times("delta")
    assert [times.label(ns, FIRST) for ns in (THEN, THEN + 5_000, THEN)] == [
        "+0.000000 s",
        "+0.000005 s",
        "-0.000005 s",
    ]


@pytest.mark.parametrize("form", ["relative", "delta", "epoch", "absolute"])
def test_all_forms_round_microseconds_down(form: str) -> None:
    times = Times(form, utc=True)
    times.text(1_000_000_000, 1_000_000_000)
    assert ".999999" in times.text(1_999_999_600, 1_000_000_000)


def test_times_before_1970_are_rounded_down() -> None:
    assert Times("epoch").text(-1, 0) == "-0.000001"
    assert Times("absolute", utc=True).text(-1, 0) == "1969-12-31T23:59:59.999999Z"


@pytest.mark.parametrize("form", ["relative", "absolute", "delta", "epoch"])
def test_lines_have_the_time_in_its_column_and_nothing_else_changes(form: str) -> None:
    frames = dissected([(CLIENT, layers.Heartbeat()), (CLIENT, layers.Heartbeat())])
    usual, lines = SummaryLines(), SummaryLines(times=Times(form))
    other = Times(form)
    for frame in frames:
        line = lines.line(frame)
        assert line[8:].startswith(other.column(frame.time_ns, frame.connection.capture_ns) + "  #1 ")
        assert line[8 + other.width :] == usual.line(frame)[19:]
