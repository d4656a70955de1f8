"""Blocks and rows give the same numbers, totals and messages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import CAPTURES as ROOT
from tests.conftest import long_are_slow
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.dissect.order import BlockOrder
from wiredecode.frames.block import FrameBlock
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.frames.totals import Totals
from wiredecode.net.types import Connection
from wiredecode.tables.messages import MessageTable

Numbered = list[tuple[int, int, str | None]]


NAMES = ("leader-killed.pcap.zst", "never-acknowledged.pcap", "slow-consumer.pcap.zst", "publishes-refused.pcap")
CAPTURES = [ROOT / "stories" / name for name in NAMES]
"""Stories of NATS, the only protocol with blocks, and one of another protocol."""
"""Captures of the protocols' own folders: the test kit, ``test_blocks_give_the_rows_of_frames``."""
WITH_BLOCKS = {"slow-consumer.pcap.zst"}
MOST = 9000
"""Packets of a capture that are read: two elections, a load, and a server that is stopped."""


def table(messages: Messages) -> pa.Table:
    made = MessageTable()
    for part in messages.parts:
        made.add(part)
    return pa.Table.from_batches([made.batch()])


def packets(path: Path, batch_bytes: int) -> Iterator[PacketBatch]:
    left = MOST
    for batch in open_capture([str(path)], batch_bytes=batch_bytes):
        yield batch.part(0, min(left, len(batch)))
        left -= len(batch)
        if left <= 0:
            return


def by_rows(path: Path) -> tuple[pa.Table, Totals, Numbered]:
    messages = Messages()
    dissector = Dissector(Demand(messages=messages, link_responses=False))
    frames = list(dissector.frames(packets(path, 1 << 20)))
    return table(messages), dissector.totals, [(frame.number, frame.time_ns, frame.type) for frame in frames]


def by_blocks(path: Path, batch_bytes: int) -> tuple[pa.Table, Totals, Numbered, int]:
    messages = Messages()
    dissector = Dissector(Demand(messages=messages, link_responses=False, blocks=True))
    numbered: Numbered = []
    in_blocks = 0
    for items in dissector.frames_and_blocks(packets(path, batch_bytes)):
        for item in items:
            if isinstance(item, FrameBlock):
                in_blocks += len(item)
                types = [item.bulk.types[kind] for kind in item.kinds]
                numbered += zip(item.numbers.tolist(), item.time_ns.tolist(), types, strict=True)
            else:
                numbered.append((item.number, item.time_ns, item.type))
    return table(messages), dissector.totals, sorted(numbered), in_blocks


@pytest.mark.parametrize("path", long_are_slow(CAPTURES), ids=lambda path: path.stem)
def test_blocks_equal_rows(path: Path, every_block: None) -> None:
    expected, totals, numbered = by_rows(path)
    for batch_bytes in (1 << 20, 3000):
        found, found_totals, found_numbered, in_blocks = by_blocks(path, batch_bytes)
        assert in_blocks or path.name not in WITH_BLOCKS
        assert found_numbered == numbered
        assert found_totals == totals
        assert found.equals(expected)


def test_a_waiting_block_costs_nothing_for_earlier_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[int, int]] = []
    whole = FrameBlock.part
    monkeypatch.setattr(
        FrameBlock, "part", lambda block, low, high: parts.append((low, high)) or whole(block, low, high)
    )
    owner, pending = Connection(1, ("10.0.0.1:1", "10.0.0.2:4222"), (1, 4222), first=1), []
    for packet in range(2, 402, 2):
        at = np.array([packet + 1])
        pending.append(Frame(owner, 0, b"", 0, 0, packet, 0, 0, [packet], packet, packet, packet))
        pending.append(FrameBlock(owner, 0, b"", packet, at, at, np.ones(1, np.uint8), {}, *(at,) * 6, None, "nats"))  # type: ignore[arg-type]
    order = BlockOrder([pending], 0)
    found = [number or item.numbers.tolist() for item, number in order]  # type: ignore[union-attr]
    assert found == [number if number % 2 else [number] for number in range(1, 401)]
    assert len(parts) < 3 * 200, "it was 200 for each frame"
