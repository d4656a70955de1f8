"""TCP analysis of batches of any size gives the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.net.craft import Talk, batches
from wiredecode.net.health import ConnectionHealth
from wiredecode.net.network import Network


def facts(health: ConnectionHealth) -> dict[str, Any]:
    """All figures, including histograms."""
    found = {name: getattr(health, name) for name in ConnectionHealth.__slots__ if name != "directions"}  # type: ignore[attr-defined]
    for side, direction in enumerate(health.directions):
        for name in type(direction).__slots__:  # type: ignore[attr-defined]
            value = getattr(direction, name)
            if name == "rtt":
                value = value.count, value.columns()
            found[name, side] = value
    return found


def talk() -> list[bytes]:
    """Two connections in several batches; sequence numbers of one wrap around, the other one has a missing segment."""
    one, other = Talk(), Talk(("10.0.0.1", 40001), isn=(0xFFFFF000, 0xFFFFE000))
    packets = [*one.handshake(), *other.handshake()]
    for turn in range(300):
        packets += [*one.send(0, bytes(0x123)), one.ack(1), *other.send(0, bytes(0x234)), *other.send(0, b"ab")]
        if turn % 7 == 0:
            packets += [*other.send(1, b"answer"), other.ack(0)]
        if turn == 200:
            one.send(0, bytes(0x111))  # not captured
    return packets


@pytest.mark.parametrize("size", [61, 300, 10_000])
def test_batch_size_does_not_change_the_analysis(size: int) -> None:
    def analysed(size: int) -> list[Any]:
        network = Network(analyse=True)
        for batch in batches(talk(), size):
            network.feed(batch)
        network.finish()
        return [facts(one.health) for one in network.pop_forgotten() if one.health is not None]

    assert analysed(size) == analysed(1)
