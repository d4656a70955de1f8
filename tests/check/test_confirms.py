"""Publishes that are confirmed late: captures of each protocol in which a broker's confirm was put off."""

from __future__ import annotations

import pytest

from tests.check.support import CAPTURES, check, named
from wiredecode import read
from wiredecode.capture import open_capture

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
    assert problem.severity == "warning" and stream in problem.what
    assert any(f"until frame {confirm.number}" in line for line in problem.details)
