from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.net.craft import Talk, batches, ethernet, ipv4, ipv6, of_linktypes, tcp, udp
from tests.net.test_headers import NOT_DECODED
from wiredecode.capture import PacketBatch
from wiredecode.net.network import Network
from wiredecode.tables.packets import FRAGMENT, PacketTable


def rows(*found: PacketBatch) -> list[dict[str, Any]]:
    table = PacketTable()
    made = [table.batch(packets) for packets in found]
    for batch in made:
        batch.validate(full=True)
    whole = pa.Table.from_batches(made, table.schema)
    time = whole.schema.get_field_index("time")  # Python's own times have no nanoseconds
    return whole.set_column(time, "time", whole["time"].cast(pa.int64())).to_pylist()


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "one by one"])
def test_every_packet_without_tcp_has_a_reason(together: bool) -> None:
    """Each reason counted by the network stage is in the row of its packet; a lone fragment has no reason."""
    packets = [(linktype, data) for _, linktype, data in NOT_DECODED]
    made = [of_linktypes(packets)] if together else [of_linktypes([packet]) for packet in packets]
    found = [row["not_decoded"] for row in rows(*made)]
    assert found == [FRAGMENT if reason == "IP fragment incomplete" else reason for reason, _, _ in NOT_DECODED]


def test_counts_equal_those_of_the_network_stage() -> None:
    packets = of_linktypes((linktype, data) for _, linktype, data in NOT_DECODED)
    network, table = Network(), PacketTable()
    network.feed(packets)
    network.finish()
    table.batch(packets)
    table.finish()
    assert table.totals.not_decoded == network.not_decoded
    assert (table.totals.packets, table.totals.tcp_packets) == (len(NOT_DECODED), 0)


@pytest.mark.parametrize("others", [0, 50], ids=["small batch", "columns"])
def test_columns_of_tcp_packets(others: int) -> None:
    talk = Talk(isn=(0xFFFFFFFF, 5000))
    packets = [*talk.handshake(), *talk.send(0, b"x" * 100), *talk.close(), *[talk.ack(0)] * others]
    found = rows(*batches(packets))
    assert [row["flags"] for row in found[:5]] == ["SYN", "SYN ACK", "ACK", "PSH ACK", "FIN ACK"]
    assert [row["flags_code"] for row in found[:4]] == [2, 18, 16, 24]
    assert [row["payload"] for row in found[:5]] == [0, 0, 0, 100, 0]
    assert [(row["seq"], row["ack"]) for row in found[:4]] == [(0xFFFFFFFF, 5001), (5000, 0), (0, 5001), (0, 5001)]
    assert {(row["src"], row["dst"]) for row in found if row["flags"] == "PSH ACK"} == {
        ("10.0.0.1:40000", "10.0.0.2:5552")
    }
    assert {(row["transport"], row["ip_version"], row["not_decoded"]) for row in found} == {("TCP", 4, None)}


def test_addresses_have_ports_if_present() -> None:
    """TCP and UDP have ports; IPv6 is in brackets only with a port; without IP there is no address."""
    packets = [
        ethernet(ipv6(tcp(), "fd00::1", "::"), 0x86DD),
        ethernet(ipv6(udp(bytes(4)), protocol=17), 0x86DD),
        ethernet(ipv4(udp(), protocol=17)),
        ethernet(ipv4(bytes(40), protocol=17, offset=80)),
        ethernet(ipv6(bytes(30), protocol=58), 0x86DD),
        ethernet(bytes(28), 0x0806),
    ]
    assert [(row["src"], row["dst"], row["transport"], row["ip_version"]) for row in rows(*batches(packets))] == [
        ("[fd00::1]:40000", "[::]:5552", "TCP", 6),
        ("[fd00::1]:5353", "[fd00::2]:53", "UDP", 6),
        ("10.0.0.1:5353", "10.0.0.2:53", "UDP", 4),
        ("10.0.0.1", "10.0.0.2", "UDP", 4),
        ("fd00::1", "fd00::2", "ICMPv6", 6),
        (None, None, None, None),
    ]


def test_the_last_fragment_has_the_columns_of_its_datagram() -> None:
    segment = tcp(b"y" * 44)
    pieces = [ethernet(ipv4(segment[at : at + 32], offset=at, more=at + 32 < len(segment))) for at in range(0, 64, 32)]
    first, last = rows(*batches(pieces))
    assert (first["not_decoded"], first["transport"], first["payload"]) == (FRAGMENT, "TCP", None)
    assert (last["not_decoded"], last["transport"], last["payload"], last["flags"]) == (None, "TCP", 44, "ACK")


def test_truncated_packets_have_both_lengths() -> None:
    (row,) = rows(*batches([ethernet(ipv4(tcp(b"z" * 100)))], snaplen=64))
    assert (row["captured"], row["length"], row["payload"], row["payload_captured"]) == (64, 154, 100, 10)


def test_batches_number_on_and_times_keep_nanoseconds() -> None:
    first = PacketBatch.from_packets([(1_700_000_000_123_456_789, ethernet(b"", 0x0806))])
    second = PacketBatch.from_packets([(-1, ethernet(b"", 0x0806))], first_number=2)
    found = rows(first, second, PacketBatch.from_packets([]))
    assert [row["packet"] for row in found] == [1, 2]
    assert [row["time"] for row in found] == [1_700_000_000_123_456_789, -1]


def test_the_reason_of_an_expired_fragment_is_not_given_to_another_packet() -> None:
    alone = [ethernet(ipv4(tcp(bytes(20)), more=True, identification=number)) for number in (1, 2)]
    found = rows(*batches([(0.0, alone[0]), (60.0, alone[1])]))
    assert [row["not_decoded"] for row in found] == [FRAGMENT, FRAGMENT]
