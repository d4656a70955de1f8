"""TCP analysis: ends of connections, lost bytes and times. Kinds of packets: tests/tables/test_connections.py."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from tests.net.craft import ACK, RST, Talk, batches
from wiredecode.capture import open_capture
from wiredecode.net.analysis import ConnectionAnalysis, SegmentHeader, options
from wiredecode.net.distribution import Distribution
from wiredecode.net.health import KINDS, RETRANSMISSION, ConnectionHealth, FirstEnd
from wiredecode.net.network import Network
from wiredecode.net.types import Connection

CAPTURES = Path(__file__).parent.parent.parent / "captures"
LOSSY = [
    *("nats/02-auth.pcap", "nats/08-pipelined-small.drop1pct.pcap", "nats/22-port-reuse-abort.pcap"),
    *("cursus/produce.drop1pct.pcap", "cursus/group.ooo-dup.pcap", "cursus/produce.midconn.pcap"),
    *("rabbitmq-stream/d_drop1pct.pcap", "rabbitmq-stream/d_shuffled_dups.pcap", "rabbitmq-stream/c43_authfail.pcap"),
    *("rabbitmq-stream/d_snap96.pcap", "tank/tank_d4_midconnection.pcap", "stories/slow-consumer.pcap.zst"),
    *("stories/advertised-refused.pcap", "stories/leader-killed.pcap.zst"),
]
DIFFERENT = {
    "cursus/group.ooo-dup.pcap": {"ack_lost_segment"},
    "rabbitmq-stream/d_shuffled_dups.pcap": {
        *("retransmission", "fast_retransmission", "out_of_order", "ack_lost_segment"),
    },
}
"""Packets that a tool reordered: an ACK precedes the acknowledged bytes, and the kinds depend on how often a tool
forgets; at most one packet in ten differs."""


def analysed(path: Path) -> list[Connection]:
    network = Network(analyse=True)
    connections: list[Connection] = []
    for batch in open_capture([path]):
        network.feed(batch)
        connections += network.pop_forgotten()
    network.finish()
    return connections + network.pop_forgotten()


def tsharks(path: Path) -> dict[str, set[int]]:
    """Packets by kind, as tshark says; tests/tables/test_connections.py compares."""
    fields = [word for name in KINDS for word in ("-e", f"tcp.analysis.{name}")]
    command = ["tshark", "-r", path, "-Y", "tcp.analysis.flags", "-T", "fields", "-e", "frame.number", *fields]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, set[int]] = defaultdict(set)
    for line in output.splitlines():
        number, *values = line.split("\t")
        for name, value in zip(KINDS, values, strict=True):
            if value:
                found[name].add(int(number))
    return found


def test_a_window_that_stays_closed() -> None:
    """The consumer of the story stops reading."""
    slow = max(
        analysed(CAPTURES / "stories/slow-consumer.pcap.zst"), key=lambda one: one.health.directions[0].zero_window_ns
    )  # type: ignore[union-attr]
    assert slow.health is not None
    assert slow.health.directions[0].zero_windows == 1
    assert slow.health.directions[0].zero_window_ns > 1_000_000_000


def test_a_connection_that_is_refused() -> None:
    refused = [one for one in analysed(CAPTURES / "stories/advertised-refused.pcap") if one.health.refused]  # type: ignore[union-attr]
    assert [one.endpoints[1] for one in refused] == ["127.0.0.77:5999"]


@pytest.mark.parametrize(("flags", "seq", "refused"), [(RST | ACK, 0, True), (RST | ACK, 1, False), (RST, 0, False)])
def test_a_reset_with_the_sequence_number_0_answers_a_syn_that_was_not_captured(
    flags: int, seq: int, refused: bool
) -> None:
    (connection,) = connections_of([Talk().packet(1, seq=seq, flags=flags)])
    assert connection.health is not None
    assert connection.health.refused is refused


def test_end_of_a_connection_and_its_lost_bytes() -> None:
    talk = Talk()
    packets = [*talk.handshake(), talk.packet(0, b"x" * 0x123)]
    packets.append(talk.packet(1, flags=ACK | 4))
    connection = connections_of(packets)[0]
    assert connection.health is not None
    end = connection.health.end
    assert end is not None
    assert (end.how, end.side, end.packet, end.unread) == ("RST", 1, 5, 0x123)


def test_bytes_are_not_lost_if_their_ack_crossed_the_reset() -> None:
    talk = Talk()
    packets = [*talk.handshake(), *talk.send(0, b"x" * 0x123), talk.packet(0, flags=ACK | RST)]
    assert [end_of(packets).unacknowledged, end_of([*packets, talk.ack(1)]).unacknowledged] == [0x123, 0]


def end_of(packets: list[bytes]) -> FirstEnd:
    (connection,) = connections_of(packets)
    assert connection.health is not None
    assert connection.health.end is not None
    return connection.health.end


def test_reused_ports_start_a_new_analysis() -> None:
    first, second = Talk(), Talk(isn=(0x01020304, 0x05060708))
    packets = [*first.handshake(), first.packet(0, b"abc"), first.packet(1, flags=ACK | 4)]
    packets += [*second.handshake(), second.packet(0, b"abc")]
    connections = connections_of(packets)
    assert [one.health.syns for one in connections if one.health] == [1, 1]
    assert not any(one.health.directions[0].number_of(RETRANSMISSION) for one in connections if one.health)


def test_a_syn_without_an_answer() -> None:
    health = connections_of([Talk().handshake()[0]] * 3)[0].health
    assert health is not None
    assert health.unanswered
    assert health.syns == 3


def connections_of(packets: list[bytes]) -> list[Connection]:
    for size in (1, 1000):
        network = Network(analyse=True)
        for batch in batches(packets, size):
            network.feed(batch)
        network.finish()
        connections = network.pop_forgotten()
    return connections


def test_truncated_options() -> None:
    header = bytes(12) + b"\x70" + bytes(7) + bytes([2, 4, 0x05, 0xB4, 1, 3, 3, 7])
    assert options(header) == (7, 0x05B4, False)
    assert options(header[:26]) == (None, 0x05B4, True)
    assert options(header[:12] + b"\x60" + header[13:20] + bytes([2, 0, 0, 0])) == (None, None, False)


@pytest.mark.parametrize(("left", "right", "needless"), [(0, 0x20, {2}), (0x20, 0x30, set()), (0x08, 0x20, set())])
def test_a_segment_reported_by_dsack_was_not_lost(left: int, right: int, needless: set[int]) -> None:
    """A block of SACK below the ACK says so (D-SACK); one above it, or of another segment, does not."""
    begin, conversation = 0xFFFFFFF0, ConnectionAnalysis(ConnectionHealth())
    for packet, time_ns in ((1, 0), (2, 300_000_000)):
        conversation.analyse(0, SegmentHeader(packet, time_ns, begin, 0x0A0B0C0D, ACK, 0x20, 0x1000))
    blocks = b"".join((begin + each & 0xFFFFFFFF).to_bytes(4) for each in (left, right))
    header = bytes(12) + b"\x80" + bytes(7) + bytes([1, 1, 5, 10]) + blocks
    conversation.acknowledges(1, 300_000_001, begin + 0x20 & 0xFFFFFFFF, header)
    sent = conversation.health.directions[0]
    assert (sent.number_of(RETRANSMISSION), sent.needless) == (1, needless)


def test_percentiles_are_accurate() -> None:
    times = Distribution(1024)
    for ns in range(1000, 101_000, 100):
        times.add(ns)
    assert times.smallest == 1000
    assert times.largest == 100_900
    assert times.percentile(500) == pytest.approx(51_000, rel=0.03)
    assert times.percentile(990) == pytest.approx(100_000, rel=0.03)


@pytest.mark.parametrize("size", [1, 7, None])
def test_a_connection_forgotten_at_the_end_of_a_batch_is_analysed_to_its_end(size: int | None) -> None:
    """Unacknowledged bytes were once counted only if more packets came."""
    talk, other = Talk(), Talk(client=("10.0.0.9", 1))
    packets = [*talk.handshake(), *talk.send(1, bytes(14), 14), talk.packet(0, flags=RST)]
    network, found = Network(analyse=True), []
    for part in batches([*((0.0, each) for each in packets), (9.0, other.ack(0))], size):
        network.feed(part)
        found += network.pop_forgotten()
    assert [each.health.directions[1].unacknowledged for each in found if each.health] == [14]
