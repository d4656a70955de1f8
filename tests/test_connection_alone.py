"""A connection depends on its own packets only: batches, pickling and other connections change nothing."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import CAPTURES
from tests.readings import differences, outcome_differences, packets_of
from wiredecode.capture.batch import PacketBatch

pytestmark = pytest.mark.timeout(900)  # the longest story takes minutes

SMALL = (
    "rabbitmq-stream/d_shuffled_dups.pcap",
    "nats/03-pubsub.pcap",
    "liftbridge/30-lb-publish-ack.pcap",
    "tank/tank_03_produce_single.pcap",
    "cursus/group.ooo-dup.pcap",
    "pravega/read_cuts.pcap",
)
"""A capture of each protocol."""
MOST = 200
"""Packets of a capture that are damaged."""
LONG = 5_000
"""Packets beyond which batches of one packet, pickled in between, take minutes."""


@pytest.mark.parametrize("path", sorted((Path(__file__).parent / "accidents").iterdir()), ids=lambda path: path.stem)
def test_accidents_of_real_and_damaged_captures(path: Path) -> None:
    """Their frames, findings or order once depended on batches or on other connections."""
    assert list(differences(packets_of(path))) == []


def test_a_capture_of_each_protocol(path: Path) -> None:
    packets = packets_of(path)
    assert list(differences(packets, sizes=(1, 64) if len(packets) <= LONG else (64,))) == []


def test_outcomes_of_requests_and_messages(path: Path, every_block: None) -> None:
    """They once depended on the number of frames of other connections."""
    assert list(outcome_differences(packets_of(path))) == []


def test_lost_packets_and_a_clock_that_is_set_back(path: Path) -> None:
    rng = random.Random(str(path.relative_to(CAPTURES)))  # the same wherever the clone is
    whole = packets_of(path)
    whole = whole.part(0, min(len(whole), MOST))
    kept = np.array([at for at in range(len(whole)) if rng.random() > 0.05])
    damaged = whole.select(kept)
    assert list(differences(damaged, sizes=(1, 64))) == []
    later = set_back(damaged, rng.randrange(len(kept)))
    assert list(differences(later, sizes=(1, 64))) == []


def set_back(packets: PacketBatch, at: int) -> PacketBatch:
    """The packets with the clock set back by 0.35 s at ``at``, as by NTP."""
    packets.time_ns[at:] -= 350_000_000
    return packets


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "path" in metafunc.fixturenames and metafunc.function.__name__ != "test_accidents_of_real_and_damaged_captures":
        every = sorted(each for each in CAPTURES.rglob("*.pcap*") if each.suffix in (".pcap", ".pcapng", ".zst"))
        small = {CAPTURES / name for name in SMALL}
        slow, night = pytest.mark.slow, (pytest.mark.slow, pytest.mark.nightly)  # packed ones are many and large
        marks = ((each, () if each in small else night if each.suffix == ".zst" else slow) for each in every)
        values = [pytest.param(each, marks=mark) for each, mark in marks]
        metafunc.parametrize("path", values, ids=[str(each.relative_to(CAPTURES)) for each in every])
