"""Segments analysed as columns give what segments analysed one by one give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import long_are_slow
from tests.net.craft import Talk, batches
from wiredecode.capture import open_capture
from wiredecode.net import Network, analyser, bulk_analysis
from wiredecode.net.health import ConnectionHealth

CAPTURES = Path(__file__).parent.parent.parent / "captures"
ALL = sorted(path for path in CAPTURES.glob("*/*.pcap*") if path.name != "d_cutfile.pcap")
PART = 41
"""Packets of a batch: connections have begun before it."""


def healths(path: Path) -> list[Any]:
    network = Network(analyse=True)
    connections = []
    for batch in open_capture([path]):
        for begin in range(0, len(batch), PART):
            network.feed(batch.part(begin, min(begin + PART, len(batch))))
            connections += network.pop_forgotten()
    network.finish()
    connections += network.pop_forgotten()
    return [facts(one.health) for one in connections if one.health is not None]


def facts(health: ConnectionHealth) -> dict[str, Any]:
    """Everything that is known, histograms too."""
    found = {name: getattr(health, name) for name in ConnectionHealth.__slots__ if name != "directions"}  # type: ignore[attr-defined]
    for side, direction in enumerate(health.directions):
        for name in type(direction).__slots__:  # type: ignore[attr-defined]
            value = getattr(direction, name)
            if name == "rtt":
                value = value.count, value.smallest, value.largest, value._buckets
            found[name, side] = value
    return found


def both(path: Path, monkeypatch: pytest.MonkeyPatch, least: int = 1) -> tuple[list[Any], list[Any]]:
    monkeypatch.setattr(analyser, "COLUMNS_PAY_FROM", 1 << 60)
    slow = healths(path)
    monkeypatch.setattr(analyser, "COLUMNS_PAY_FROM", least)
    return slow, healths(path)


@pytest.mark.parametrize("path", long_are_slow(ALL), ids=lambda path: path.name)
def test_both_ways_give_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = both(path, monkeypatch)
    assert slow == fast


def talk() -> list[bytes]:
    """Two connections in several batches; sequence numbers of one wrap around, the other one lacks a segment."""
    one, other = Talk(), Talk(("10.0.0.1", 40001), isn=(0xFFFFF000, 0xFFFFE000))
    packets = [*one.handshake(), *other.handshake()]
    for turn in range(300):
        packets += [*one.send(0, bytes(0x123)), one.ack(1), *other.send(0, bytes(0x234)), *other.send(0, b"ab")]
        if turn % 7 == 0:
            packets += [*other.send(1, b"answer"), other.ack(0)]
        if turn == 200:
            one.send(0, bytes(0x111))  # nobody sees it
    return packets


@pytest.mark.parametrize("size", [1, 61, 300, 10_000])
def test_batches_of_any_size_give_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def analysed(size: int, least: int) -> list[Any]:
        monkeypatch.setattr(analyser, "COLUMNS_PAY_FROM", least)
        network = Network(analyse=True)
        for batch in batches(talk(), size):
            network.feed(batch)
        network.finish()
        return [facts(one.health) for one in network.pop_forgotten() if one.health is not None]

    assert analysed(size, 1) == analysed(1, 1 << 60)


def test_nearly_all_segments_of_a_quiet_capture_go_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    left = []
    analyse = bulk_analysis.BulkAnalysis.analyse

    def counted(self: bulk_analysis.BulkAnalysis, opened: Any) -> Any:
        rows = analyse(self, opened)
        left.append((int(rows.sum()), len(rows)))
        return rows

    monkeypatch.setattr(bulk_analysis.BulkAnalysis, "analyse", counted)
    network = Network(analyse=True)
    for batch in batches(talk(), 400):
        network.feed(batch)
    network.finish()
    assert left[1] == (0, 400)
    assert 0 < left[-1][0] < left[-1][1]  # one behind its hole, the other one not
