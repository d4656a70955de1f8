"""Packets to connections: port reuse, sides, numbers, and the limit on remembered connections."""

from __future__ import annotations

import pytest

from tests.net.craft import ACK, RST, SYN, Talk, batches
from tests.net.script import Outcome, content, run
from wiredecode.net.limits import Limits

SIZES = pytest.mark.parametrize("size", [None, 1, 2, 30], ids=["whole", "single", "pairs", "thirties"])


def lines(outcome: Outcome) -> dict[int, str]:
    """The first side of every connection in words."""
    return {d.connection.number: outcome.line(d.connection.number) for d in outcome.directions if d.side == 0}


def incarnation(isn: int, length: int, close: bool = True) -> list[bytes]:
    talk = Talk(isn=(isn, isn + 77))
    return [*talk.handshake(), *talk.send(0, content(0, length), 10), *(talk.close() if close else [])]


@SIZES
def test_port_reuse_after_fin(size: int | None) -> None:
    outcome = run(batches(incarnation(1000, 30) + incarnation(90000, 200) + incarnation(7, 20), size))
    assert lines(outcome) == {1: "0-30", 2: "0-200", 3: "0-20"}


@SIZES
def test_port_reuse_with_the_same_isn_after_fin(size: int | None) -> None:
    outcome = run(batches(incarnation(1000, 30) + incarnation(1000, 20), size))
    assert lines(outcome) == {1: "0-30", 2: "0-20"}


@SIZES
def test_port_reuse_without_fin_gives_up_the_gaps_of_the_old_connection(size: int | None) -> None:
    old = incarnation(1000, 30, close=False)
    del old[4]
    outcome = run(batches(old + incarnation(90000, 20), size))
    assert lines(outcome) == {1: "0-10 [10-20] 20-30", 2: "0-20"}
    assert [(c.number, c.end_packet) for c in outcome.network.pop_forgotten()] == [(1, 6), (2, 13)]
    assert outcome.network.pop_forgotten() == []


@SIZES
def test_port_reuse_after_reset_seen_from_the_server_only(size: int | None) -> None:
    packets = []
    for isn in (5000, 6000):
        talk = Talk(isn=(100, isn))
        packets += [talk.packet(1, seq=isn, flags=SYN | ACK), *talk.send(1, content(0, 20), 10)]
        packets.append(talk.packet(1, flags=RST))
    outcome = run(batches(packets, size))
    assert lines(outcome) == {1: "0-20", 2: "0-20"}
    connection = outcome.directions[0].connection
    assert (connection.endpoints[0], connection.initiator, connection.closed) == ("10.0.0.2:5552", 1, "RST")


@SIZES
def test_port_reuse_after_a_start_in_mid_stream(size: int | None) -> None:
    talk = Talk(isn=(3_000_000_000, 1))
    packets = talk.send(0, content(0, 100), 10) + incarnation(1000, 20)
    assert lines(run(batches(packets, size))) == {1: "0-100", 2: "0-20"}


@SIZES
def test_a_retransmitted_syn_is_not_a_new_connection(size: int | None) -> None:
    packets = incarnation(1000, 30, close=False)
    packets = packets[:1] + packets[:4] + packets[:2] + packets[4:]
    outcome = run(batches(packets, size))
    assert outcome.network.connections == 1
    assert lines(outcome) == {1: "0-30"}


@SIZES
def test_a_handshake_in_the_wrong_order_is_one_connection(size: int | None) -> None:
    syn, syn_ack, ack, *data = incarnation(1000, 30, close=False)
    late = [ack, data[0], syn, syn_ack, *data[1:]]
    for packets in ([syn_ack, syn, ack, *data], [*data, ack, syn_ack, syn], late):
        outcome = run(batches(packets, size))
        assert outcome.network.connections == 1
        assert outcome.line(side=1 if packets[0] is syn_ack else 0) == "0-30"


@SIZES
def test_connections_are_numbered_by_first_packet_also_without_payload(size: int | None) -> None:
    talks = [Talk(client=("10.0.0.1", 1000 + i)) for i in range(5)]
    packets = [talks[3].handshake()[0], talks[1].ack(1), *talks[0].send(0, b"ab", 1)]
    packets.append(talks[4].packet(0, flags=RST))
    packets += [talk.send(0, b"payload")[0] for talk in talks]
    outcome = run(batches(packets, size))
    numbers = {d.connection.ports: d.connection.number for d in outcome.directions}
    assert numbers == {(1003, 5552): 1, (5552, 1001): 2, (1000, 5552): 3, (1004, 5552): 4, (1002, 5552): 5}
    assert outcome.network.connections == 5


@SIZES
def test_each_side_of_a_connection_has_a_stream(size: int | None) -> None:
    talk = Talk()
    packets = talk.handshake()
    for at in range(0, 300, 10):
        packets += talk.send(0, content(at, 10)) + talk.send(1, content(at * 2, 20))
    outcome = run(batches(packets + talk.close(1), size))
    assert (outcome.line(), outcome.line(side=1)) == ("0-300", "0-600")
    connection = outcome.directions[0].connection
    assert (connection.endpoints, connection.initiator) == (("10.0.0.1:40000", "10.0.0.2:5552"), 0)
    assert connection.closed == "FIN"


def test_ipv6_and_ipv4_endpoints_with_the_same_bits_are_different() -> None:
    four = Talk(client=("0.0.0.1", 5), server=("0.0.0.2", 6))
    six = Talk(client=("::1", 5), server=("::2", 6))
    outcome = run(batches([packet for talk in (four, six) for packet in talk.send(0, content(0, 300), 10)]))
    assert outcome.network.connections == 2
    ends = [d.connection.endpoints for d in outcome.directions]
    assert ends == [("0.0.0.1:5", "0.0.0.2:6"), ("[::1]:5", "[::2]:6")]


@SIZES
def test_a_socket_that_talks_to_itself_has_one_direction(size: int | None) -> None:
    talk = Talk(client=("127.0.0.1", 7), server=("127.0.0.1", 7))
    assert lines(run(batches(talk.send(0, content(0, 300), 10), size))) == {1: "0-300"}


@SIZES
def test_the_least_recently_seen_connection_is_forgotten_first(size: int | None) -> None:
    talks = [Talk(client=("10.0.0.1", 1000 + i)) for i in range(4)]
    order = [0, 1, 2, 0, 3, 0, 1]  # 3 takes the place of 1, which comes back as a new one in place of 2
    packets = [talks[i].send(0, content(0, 10))[0] for i in order]
    outcome = run(batches(packets, size), Limits(connections=3))
    ports = [d.connection.ports[0] for d in outcome.directions]
    assert ports == [1000, 1001, 1002, 1003, 1001]
    assert outcome.network.limits_hit == {"connections": 2}
    forgotten = [(c.ports[0], c.end_packet) for c in outcome.network.pop_forgotten()]
    assert forgotten == [(1001, 5), (1000, 7), (1002, 7), (1003, 7), (1001, 7)]


def test_a_forgotten_connection_gives_up_its_gap() -> None:
    first, _, third = Talk().send(0, content(0, 30), 10)
    other = Talk(client=("10.0.0.9", 9)).ack(0)
    assert lines(run(batches([first, third, other]), Limits(connections=1)))[1] == "0-10 [10-20] 20-30"
