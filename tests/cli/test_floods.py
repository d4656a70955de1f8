"""Floods: memory depends on the limits, not on the number of packets, connections and notes."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.effort import others_frozen
from tests.net.craft import SYN, Talk, batches
from wiredecode.cli import session
from wiredecode.dissect import accounts
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.net.limits import Limits
from wiredecode.net.types import Connection


@pytest.mark.parametrize("payload", [b"", b"\0\0\0\x10abcdefgh"], ids=["syn_flood", "one_packet_each"])
def test_connections_of_a_flood_are_forgotten_with_their_state(payload: bytes) -> None:
    dissector = Dissector(Demand(limits=Limits(connections=100)))
    with others_frozen():
        for first in range(0, 3000, 500):
            talks = [Talk(client=(f"10.1.{n // 250}.{n % 250 + 1}", 40000)) for n in range(first, first + 500)]
            packets = [talk.packet(0, payload, flags=0x18 if payload else SYN) for talk in talks]
            for batch in batches(packets):
                list(dissector.feed(batch))
        gc.collect()
        assert 0 < sum(isinstance(each, Connection) for each in gc.get_objects()) <= 200


def test_connections_are_collected_while_a_capture_is_read(
    run: Run, captures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    plain = gc.collect
    monkeypatch.setattr(session, "COLLECT_CONNECTIONS", 1)
    monkeypatch.setattr(session.gc, "collect", lambda: seen.append(plain()))
    assert (
        run("pcap", captures / "stories" / "slow-consumer.pcap.zst", "--summary", "--limit", "connections=1").code == 0
    )
    assert seen


def test_a_limit_of_0_connections_is_refused(run: Run, captures: Path) -> None:
    found = run("pcap", captures / "stories" / "slow-consumer.pcap.zst", "--limit", "connections=0")
    assert (found.code, found.err.count("\n")) == (2, 1)


def test_differing_retransmissions_give_a_bounded_number_of_notes() -> None:
    talk = Talk()
    again = [
        talk.packet(0, bytes([number & 0xFF, number >> 8]) * 20, seq=talk.seq[0] + 1 + number % 7)
        for number in range(1000)
    ]
    dissector = Dissector()
    for batch in batches([*talk.handshake(), *again]):
        list(dissector.feed(batch))
    kept = [len(notes) for notes in dissector.accounts._notes.values()]
    assert sum(dissector.totals.notes.values()) > 900
    assert kept
    assert max(kept) == accounts.MAX_NOTES
