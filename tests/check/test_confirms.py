"""Publishes that are confirmed late: captures of each protocol in which a broker's confirm was put off."""

from __future__ import annotations

import pytest

from tests.check.support import CAPTURES, check, named
from tests.net import craft
from wiredecode import read
from wiredecode.capture import open_capture
from wiredecode.protocols.kafka.layers import layer_of
from wiredecode.testing import build

CONFIRMS = {
    "tank/tank_04_produce_batches.pcap": ("ProduceResponse", "foo"),
    "cursus/produce.pcap": ("AckResponse", "orders"),
    "pravega/append_basic.pcap": ("DataAppended", "scope/stream/0.#epoch.0"),
    "rabbitmq-stream/c43_basic.pcap": ("PublishConfirm", "c43_basic"),
}
LATE_NS = 2_500_000_000


@pytest.mark.parametrize("name", CONFIRMS)
def test_a_late_confirm_is_reported_with_its_frames_and_stream(name: str) -> None:
    path, (kind, stream) = CAPTURES / name, CONFIRMS[name]
    assert not named(check(path), "publish.slow-confirm")
    confirm = next(frame for frame in read(path) if frame.type == kind and frame.request is not None)
    batches = list(open_capture([str(path)]))
    first = 1
    for batch in batches:
        batch.time_ns[max(confirm.packets[0] - first, 0) :] += LATE_NS
        first += len(batch)
    (problem,) = named(check(batches), "publish.slow-confirm")
    assert problem.severity == "warning" and stream in problem.title
    assert any(f"until frame {confirm.number}" in line for line in problem.details)


def test_an_answer_of_which_a_part_was_not_captured_confirms_nothing_late() -> None:
    asked = {"topic": "orders", "partition_data": [{"index": 3, "batches": b""}]}
    topic = {"topic": "orders", "partition_responses": [{"index": 3, "error": 0, "base_offset": 0x0102030405060708}]}
    produce = {"api_version": 8, "acks": 1, "client_id": "app-1", "topic_data": [asked]}
    answer = bytes(build(layer_of("ProduceResponse", 8), {"responses": [topic]}))
    made = craft.Talk(server=("10.0.0.2", 9092))
    packets: list[bytes | tuple[float, bytes]] = [*made.handshake()]
    packets += [(0.1, part) for part in made.send(0, bytes(build(layer_of("ProduceRequest", 8), produce)))]
    packets += [(2.6, part) for part in made.send(1, answer)]
    whole, truncated = (check(craft.batches(packets, snaplen=size)) for size in (None, 54 + len(answer) - 30))
    assert [named(problems, "publish.slow-confirm") != [] for problems in (whole, truncated)] == [True, False]
