"""One line per frame."""

from __future__ import annotations

import pytest

from tests.net.craft import START_NS
from tests.view.frames import CLIENT, SERVER, dissected
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers
from wiredecode.view.summary import SummaryLines

FIRST = START_NS + 1_000_000

DECLARE = layers.DeclarePublisher(correlation_id=2, publisher_id=7, publisher_reference="ref", stream="orders")
DECLARED = layers.LAYERS[0x8001, 1](correlation_id=2)


def lines(*messages: tuple[int, Layer | bytes], color: bool = False) -> list[str]:
    summary = SummaryLines(color=color)
    return [summary.line(frame) for frame in dissected(messages)]


def test_a_line_has_number_time_arrow_type_facts_and_latency() -> None:
    asked, answered = lines((CLIENT, DECLARE), (SERVER, DECLARED))
    assert asked == (
        "      3    0.005000  #1   10.0.0.1:40000 → 10.0.0.2:5552  rabbitmq_stream  DeclarePublisher        "
        " publisher_id=7 publisher_reference=ref stream=orders\n"
    )
    assert "10.0.0.1:40000 ← 10.0.0.2:5552" in answered, "the client stays on the left"
    assert answered.endswith("response_code=OK publisher_id=7 stream=orders  (1.000 ms)\n")


def test_a_line_without_facts_ends_with_the_type() -> None:
    assert lines((CLIENT, layers.Heartbeat()))[0].endswith("  Heartbeat\n")


def test_facts_are_formatted_by_kind() -> None:
    messages = [
        layers.PublishedMessage(publishing_id=1, data=b"x"),
        layers.PublishedMessage(publishing_id=2, data=b"y"),
    ]
    shown = lines(
        (CLIENT, DECLARE),
        (CLIENT, layers.Publish(publisher_id=7, messages=messages)),
        (CLIENT, layers.Metadata(correlation_id=9, streams=["a", "b", "c"])),
        (CLIENT, layers.Subscribe(correlation_id=10, stream="o", offset_type=5, timestamp=0, credit=2)),
        (SERVER, layers.Close(correlation_id=1, closing_code=14, closing_reason="too large")),
        (SERVER, layers.ConsumerUpdate(correlation_id=1, subscription_id=0, active=1)),
    )
    assert "publisher_id=7 count(messages)=2 stream=orders" in shown[1], "a bulk array is only counted"
    assert "count(streams)=3" in shown[2]
    assert "offset_type=timestamp timestamp=1970-01-01T00:00:00.000Z credit=2" in shown[3]
    assert "offset=" not in shown[3], "an absent field is not invented"
    assert 'closing_code="Frame too large" closing_reason="too large"' in shown[4]
    assert "active=true" in shown[5]


def test_hostile_names_stay_on_their_line_and_are_shortened() -> None:
    (line,) = lines((CLIENT, layers.Create(correlation_id=2, stream="\x1b]0;owned\x07\nfake \u202e" + "x" * 500)))
    assert "\\x1b]0;owned\\x07\\nfake \\u202exxx" in line
    assert line[:-1].isprintable()
    assert len(line) < 250


@pytest.mark.parametrize("color", [False, True])
def test_findings_and_status_are_shown(color: bool) -> None:
    cut = bytes(layers.Create(correlation_id=2, stream="orders"))[:-4]
    cut = (len(cut) - 4).to_bytes(4, "big") + cut[4:]
    (line,) = lines((CLIENT, cut), color=color)
    assert "[malformed]" in line
    assert "[error: arguments needs 4 bytes, the frame has 0 left]" in line
    assert ("\x1b[31m" in line) is color
