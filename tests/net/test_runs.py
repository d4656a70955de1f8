"""Segments that are placed in runs give the same streams as segments that are placed one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.conftest import CAPTURES
from wiredecode.capture import open_capture
from wiredecode.frames.framer import COLUMNS
from wiredecode.net import runs
from wiredecode.net.limits import DEFAULT_LIMITS
from wiredecode.net.network import Network
from wiredecode.net.types import Chunk, Event

NAMES = (
    *("nats/08-pipelined-small.pcap", "nats/08-pipelined-small.drop1pct.pcap", "nats/10-split-writes.midconn.pcap"),
    *("nats/22-port-reuse-abort.pcap", "rabbitmq-stream/c43_large.pcap", "cursus/produce.ooo-dup.pcap"),
)
PATHS = [path for name in NAMES if (path := CAPTURES / name).exists()]
NEVER = 1 << 40


def streams(path: Path, batch_bytes: int) -> dict[tuple[int, int], list[object]]:
    """Everything about each direction: its bytes with the columns of each piece, and other events in order."""
    network, events = Network(DEFAULT_LIMITS, analyse=True), list[Event]()
    for batch in open_capture([str(path)], batch_bytes=batch_bytes):
        events += network.feed(batch)
    events += network.finish()
    found: dict[tuple[int, int], list[object]] = {}
    for event in events:
        own = found.setdefault((event.direction.connection.number, event.direction.side), [])
        if not isinstance(event, Chunk):
            own.append((type(event), event.offset, event.ready))
            continue
        start = event.offset
        for piece in zip(*(getattr(event, name).tolist() for name in COLUMNS), strict=True):
            own.append((event.data[start - event.offset : piece[0] - event.offset], *piece))
            start = piece[0]
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
@pytest.mark.parametrize("batch_bytes", [1 << 20, 20_000])
def test_runs_give_the_same_streams(path: Path, batch_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SHORTEST", NEVER)
    singly = streams(path, batch_bytes)
    monkeypatch.setattr(runs, "SHORTEST", 2)
    assert streams(path, batch_bytes) == singly


def test_connections_with_the_same_hash_have_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    path = CAPTURES / "nats" / "08-pipelined-small.pcap"
    expected = streams(path, 1 << 20)
    monkeypatch.setattr(runs, "MIX", np.uint64(0))
    assert streams(path, 1 << 20) == expected
