"""A packet captured at several interfaces is a copy, not a retransmission."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wiredecode.capture import open_capture
from wiredecode.capture.batch import PacketBatch
from wiredecode.net.network import Network
from wiredecode.net.types import Connection

CAPTURE = Path(__file__).parents[2] / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
TTL, IDENTIFICATION = 14 + 8, 14 + 4
Change = Callable[[bytes], bytes]


def hop(packet: bytes) -> bytes:
    """The packet after one more router."""
    return packet[:TTL] + bytes([packet[TTL] - 1]) + packet[TTL + 1 :]


def renumbered(packet: bytes) -> bytes:
    """The packet as TCP would send it again, with a new IP identification."""
    return packet[:IDENTIFICATION] + bytes([packet[IDENTIFICATION] ^ 0x5A]) + packet[IDENTIFICATION + 1 :]


def same(packet: bytes) -> bytes:
    return packet


def captured(*changes: Change, later: int = 40_000, interfaces: bool = False) -> PacketBatch:
    """The capture with every packet once more for each change, ``later`` ns after the previous one."""
    packets: list[tuple[int, bytes]] = []
    seen: list[int] = []
    for batch in open_capture([str(CAPTURE)]):
        ends = zip(batch.time_ns.tolist(), batch.start.tolist(), batch.captured.tolist(), strict=True)
        for time_ns, start, size in ends:
            for place, change in enumerate((same, *changes)):
                packets.append((time_ns + place * later, change(bytes(batch.buffer[start : start + size]))))
                seen.append(place if interfaces else 0)
    order = sorted(range(len(packets)), key=lambda at: packets[at][0])
    made = PacketBatch.from_packets([packets[at] for at in order])
    return replace(made, interface=np.array([seen[at] for at in order], np.int32))


def analysed(batch: PacketBatch, size: int = 1_000_000) -> tuple[Network, list[tuple[object, ...]]]:
    network, ended = Network(analyse=True), list[Connection]()
    for begin in range(0, len(batch), size):
        network.feed(batch.part(begin, min(len(batch), begin + size)))
        ended += network.pop_forgotten()
    network.finish()
    ended += network.pop_forgotten()
    by_number = sorted(ended, key=lambda each: each.number)
    sides = [side for each in by_number if each.health is not None for side in each.health.directions]
    return network, [(side.packets, side.payload, dict(side.counts)) for side in sides]


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
@pytest.mark.parametrize(
    ("changes", "interfaces"), [((hop,), False), ((same, same), True), ((hop, lambda each: hop(hop(each))), True)]
)
def test_copies_do_not_change_the_analysis(changes: tuple[Change, ...], interfaces: bool, size: int) -> None:
    plain, expected = analysed(captured())
    network, found = analysed(captured(*changes, interfaces=interfaces), size)
    assert found == expected
    assert (plain.copies, network.copies) == (0, len(changes) * plain.tcp_packets)


@pytest.mark.parametrize(
    ("change", "later"), [(same, 40_000), (renumbered, 40_000), (hop, 300_000_000)], ids=["exact", "sent again", "late"]
)
def test_a_retransmission_is_not_a_copy(change: Change, later: int) -> None:
    network, found = analysed(captured(change, later=later))
    assert network.copies == 0
    assert found != analysed(captured())[1]
