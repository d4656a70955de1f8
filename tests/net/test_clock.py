"""Capture time goes on, whatever times the packets claim."""

from __future__ import annotations

import pytest

from tests.net.craft import Talk
from wiredecode.capture.batch import PacketBatch
from wiredecode.net import Chunk, Network


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("times", [(2**63 - 1, 5), (0, 2**63 - 1, 0), (-5, 1_795_203_912_862_554_000, 2**63 - 1)])
def test_absurd_packet_times_never_overflow(times: tuple[int, ...], count: int) -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, b"x" * 50 * count, 10)]
    timed = [(times[index % len(times)], packet) for index, packet in enumerate(packets)]
    network = Network()
    events = [*network.feed(PacketBatch.from_packets(timed)), *network.finish()]
    assert b"".join(event.data for event in events if isinstance(event, Chunk)) == b"x" * 50 * count
