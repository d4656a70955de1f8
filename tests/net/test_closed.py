"""Closed connections are forgotten: at which time, and to which connection later packets belong."""

from __future__ import annotations

import pytest

from tests.net.craft import ACK, FIN, RST, Talk, batches
from tests.net.script import content, run
from wiredecode.net.limits import Limits
from wiredecode.net.network import Network

SIZES = pytest.mark.parametrize("size", [None, 1, 7], ids=["whole", "single", "sevens"])
OTHER = Talk(client=("10.9.9.9", 9)).ack(0)


def conversation(port: int = 40000, end: int = FIN) -> list[bytes]:
    talk = Talk(client=("10.0.0.1", port))
    packets = [*talk.handshake(), *talk.send(0, content(0, 10))]
    return [*packets, *talk.close()] if end == FIN else [*packets, talk.packet(1, flags=RST | ACK)]


def at(seconds: float, packets: list[bytes]) -> list[tuple[float, bytes]]:
    return [(seconds, packet) for packet in packets]


def forgotten(packets: list[tuple[float, bytes]], size: int | None, limits: Limits) -> list[tuple[int, int]]:
    """(connection, packet at which it was forgotten), before the end of the capture."""
    network, found = Network(limits), []
    for part in batches(packets, size):
        network.feed(part)
        found += [(c.number, c.end_packet) for c in network.pop_forgotten()]
    return found


@SIZES
@pytest.mark.parametrize("end", [FIN, RST], ids=["FIN", "RST"])
def test_a_closed_connection_is_forgotten_by_the_first_packet_after_its_time(end: int, size: int | None) -> None:
    closing = at(0.0, conversation(end=end))
    packets = [*closing, *at(6.0, [OTHER] * 50), *at(6.1, [OTHER] * 3)]
    assert forgotten(packets, size, Limits()) == [(1, len(closing) + 51)]


@SIZES
def test_half_closed_or_open_is_not_closed(size: int | None) -> None:
    half = at(0.0, conversation()[:5])
    assert forgotten([*half, *at(60.0, [OTHER] * 50)], size, Limits()) == []


@SIZES
def test_late_packets_belong_to_the_closed_connection_and_keep_it(size: int | None) -> None:
    closing = conversation()
    again = [*at(4.0, closing[3:4]), *at(8.0, closing[3:4]), *at(12.0, closing[-1:]), *at(16.9, closing[3:4])]
    outcome = run(batches([*at(0.0, closing), *at(1.0, [OTHER] * 50), *again], size))
    assert outcome.network.connections == 2
    assert outcome.directions[0].duplicate == 30


@SIZES
def test_a_packet_after_its_time_belongs_to_a_new_connection(size: int | None) -> None:
    closing = conversation()
    packets = [*at(0.0, closing), *at(1.0, [OTHER] * 50), *at(6.1, [OTHER]), *at(6.2, closing[3:4])]
    outcome = run(batches(packets, size))
    assert outcome.network.connections == 3
    ended = [(c.number, c.end_packet) for c in outcome.network.pop_forgotten()]
    assert ended == [(1, 58), (2, 59), (3, 59)]


@SIZES
def test_a_connection_that_continues_after_a_reset_is_one_connection(size: int | None) -> None:
    talk = Talk()
    packets = [*at(0.0, talk.handshake()), (0.0, talk.packet(1, flags=RST | ACK))]
    packets += [(float(step), talk.send(0, content(step * 10, 10))[0]) for step in range(60)]
    outcome = run(batches(packets, size))
    assert outcome.network.connections == 1
    assert outcome.data() == content(0, 600)


@SIZES
def test_bytes_after_a_gap_are_delivered_before_the_connection_is_forgotten(size: int | None) -> None:
    talk = Talk()
    first, _, third = talk.send(0, content(0, 30), 10)
    packets = at(0.0, [first, third, *talk.close(), *[OTHER] * 50])
    limits = Limits(gap_seconds=9.0, closed_seconds=1.0)
    network, events = Network(limits), []
    for part in batches([*packets, (8.0, OTHER), (10.5, OTHER)], size):
        events += network.feed(part)
    assert [type(e).__name__ for e in events][-3:] == ["Gap", "Chunk", "End"]
    assert [(c.number, c.end_packet) for c in network.pop_forgotten()] == [(1, 57)]


@SIZES
@pytest.mark.parametrize("later", [0.5, 4.0, 6.0, 17.0, 60.0])
def test_a_gap_is_filled_after_both_sides_closed(later: float, size: int | None) -> None:
    """Both sides close simultaneously; the last segment before a FIN was lost and is sent again."""
    talk = Talk()
    opening = talk.handshake()
    first, last = talk.send(0, content(0, 20), 10)
    ends = [talk.packet(0, flags=FIN | ACK)]
    talk.seq[0] -= 10
    ends.append(talk.packet(1, flags=FIN | ACK))
    before = [*at(0.0, [*opening, first, *ends, *[OTHER] * 45]), *at(later, [last]), *at(later + 6.0, [OTHER] * 2)]
    network, events = Network(), []
    for part in batches([*before, (later + 6.1, OTHER)], size):
        events += network.feed(part)
    ended = [(c.number, c.end_packet) for c in network.pop_forgotten()]
    assert [type(e).__name__ for e in events if e.direction.connection.number == 1 and e.direction.side == 0][
        -1
    ] == "End"
    assert not any(type(e).__name__ == "Gap" for e in events)
    assert ended == [(1, len(before) + 1)]


@SIZES
def test_a_closed_connection_is_kept_until_its_last_gap_is_given_up(size: int | None) -> None:
    """The receiver acknowledged the lost bytes with its FIN, so they are not sent again."""
    talk = Talk()
    opening = talk.handshake()
    first, _ = talk.send(0, content(0, 20), 10)
    ends = talk.close()
    acked = talk.packet(1, seq=talk.seq[1], flags=ACK)
    packets = [*at(0.0, [*opening, first, *ends]), *at(0.5, [OTHER] * 45), *at(4.8, [acked])]
    packets += [*at(10.7, [OTHER]), *at(10.9, [OTHER] * 40)]
    assert forgotten(packets, size, Limits(closed_seconds=5.0)) == [(1, len(packets) - 39)]


@pytest.mark.parametrize("size", [None, 1, 63, 64, 65])
def test_the_oldest_closed_connections_are_forgotten_first(size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.net.network.CLOSED_CHECK_PACKETS", 64)
    packets = [packet for port in range(20) for packet in conversation(1000 + port)]
    found = forgotten(at(0.0, packets), size, Limits(closed_connections=3))
    assert found == [(number, 64) for number in range(1, 7)] + [(number, 128) for number in range(7, 16)]


def test_a_live_capture_without_packets_forgets_by_time() -> None:
    network = Network()
    (part,) = batches(at(0.0, conversation()))
    network.feed(part)
    now = int(part.time_ns[-1])
    network.tick(now + 5_000_000_000)
    assert network.pop_forgotten() == []
    network.tick(now + 5_000_000_001)
    assert [(c.number, c.end_packet) for c in network.pop_forgotten()] == [(1, 8)]


def test_finish_returns_connections_without_payload_too() -> None:
    outcome = run(batches([OTHER, *conversation(), Talk(client=("10.0.0.5", 5)).packet(0, b"x", flags=ACK)]))
    ended = [(c.number, c.end_packet) for c in outcome.network.pop_forgotten()]
    assert ended == [(1, 9), (2, 9), (3, 9)]


def test_memory_of_many_short_connections_is_bounded() -> None:
    network, most = Network(), 0
    packets = [packet for port in range(1000) for packet in conversation(1000 + port)]
    for part in batches([(index / 10, packet) for index, packet in enumerate(packets)], 500):
        network.feed(part)
        most = max(most, len(network._connections))
    assert network.connections == 1000
    assert most <= 16
