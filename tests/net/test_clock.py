"""Capture time never goes back, for any times of packets."""

from __future__ import annotations

import pytest

from tests.net.craft import ACK, Talk, batches
from tests.net.script import content, run
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.distribution import MAX_NS, Distribution
from wiredecode.net.logical_time import WaitEnds, logical_time
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize(
    "times", [(2**63 - 1, 5), (0, 2**63 - 1, 0), (-5, 1_795_203_912_862_554_000, 2**63 - 1), (-(2**63), 2**63 - 1)]
)
def test_absurd_packet_times_never_overflow(times: tuple[int, ...], count: int) -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, b"x" * 50 * count, 10), *talk.close()]
    timed = [(times[index % len(times)], packet) for index, packet in enumerate(packets)]
    network = Network()
    events = [*network.feed(PacketBatch.from_packets(timed)), *network.finish()]
    assert b"".join(event.data for event in events if isinstance(event, Chunk)) == b"x" * 50 * count


def test_waits_that_end_together_have_one_logical_time() -> None:
    """Also if bytes that are ready then end further waits; a later packet, or a later time, is another end."""
    ends = WaitEnds()
    first = ends.after(100, 3)
    assert [ends.after(100, 3), ends.after(90, 3), ends.after(100, 2)] == [first] * 3
    assert logical_time(2) < first < ends.after(101, 3) < logical_time(3) < ends.after(101, 4) < logical_time(4)


@pytest.mark.parametrize("step", [0.0, 0.35, 0.9])
def test_times_of_other_connections_end_no_wait(step: float) -> None:
    """Merged files: the other connection's packets are ahead of this one's."""
    talk, other = Talk(), Talk(client=("10.0.0.9", 1))
    first, second, third = talk.send(0, content(0, 30), size=10)
    own = [(0.0, each) for each in talk.handshake()]
    own += [(0.1, first), (0.2, third), (0.2, talk.packet(1, seq=talk.seq[1], flags=ACK)), (1.1, second)]
    packets = [each for time, packet in own for each in ((time, packet), (time + step, other.ack(0)))]
    for size in (1, 7, None):
        assert run(batches(packets, size)).line() == "0-30"


@pytest.mark.parametrize("size", [1, None])
def test_times_of_other_packets_end_no_datagram(size: int | None) -> None:
    """Fragments have a separate clock: an absurd time of another packet once made the second fragment late."""
    first, second = fragments(Talk().packet(0, content(0, 64)))
    other = Talk(client=("10.0.0.9", 1)).ack(0)
    packets = [(0.0, first), (1e6, other), (0.1, second)]
    outcome = run(batches(packets, size))
    assert outcome.network.not_decoded == {}
    assert outcome.network.tcp_packets == 3


def fragments(packet: bytes) -> list[bytes]:
    """A packet of IPv4 as two fragments."""
    ethernet, header, payload = packet[:14], packet[14:34], packet[34:]
    made = []
    for place, data in ((0x2000, payload[:32]), (32 // 8, payload[32:])):
        fields = header[:2] + (20 + len(data)).to_bytes(2) + header[4:6] + place.to_bytes(2) + header[8:]
        made.append(ethernet + fields + data)
    return made


def test_extreme_times_fit_into_64_bits() -> None:
    spread = Distribution()
    spread.add(1 << 64)
    assert spread.largest == spread.percentile(990) == MAX_NS
