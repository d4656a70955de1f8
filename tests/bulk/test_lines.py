"""Lines that are made of blocks equal those that are made frame by frame."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bulk.test_blocks import packets
from tests.conftest import CAPTURES
from wiredecode.dissect.dissector import FRAMES_ONLY, Demand, Dissector
from wiredecode.frames.block import FrameBlock, has_blocks
from wiredecode.frames.frame import Frame
from wiredecode.view.summary import SummaryLines, divide, first_number

NATS = sorted((CAPTURES / "nats").glob("*.pcap"))
BLOCKS = {"08-pipelined-small.pcap", "08-pipelined-small.drop1pct.pcap"}
"""Captures that certainly have blocks."""
LINES = Demand(link_responses=False, copies=False, blocks=True)


def by_frames(path: Path, batch_bytes: int) -> list[str]:
    lines = SummaryLines()
    return [lines.line(frame) for frame in Dissector(FRAMES_ONLY).frames(packets(path, batch_bytes))]


@pytest.mark.parametrize("path", NATS, ids=lambda path: path.stem)
@pytest.mark.parametrize("batch_bytes", [1 << 20, 5000])
def test_lines_of_blocks_equal_those_of_frames(path: Path, batch_bytes: int, every_block: None) -> None:
    lines, made, in_blocks = SummaryLines(), "", 0
    for items in Dissector(LINES).frames_and_blocks(packets(path, batch_bytes)):
        in_blocks += sum(isinstance(each, FrameBlock) for each in items)
        made += lines.of_items(items, lines.line)
    assert made.splitlines(keepends=True) == by_frames(path, batch_bytes)
    assert in_blocks or path.name not in BLOCKS


def test_only_lines_after_a_long_address_are_wider(every_block: None) -> None:
    path = CAPTURES / "nats" / "08-pipelined-small.pcap"
    items = next(each for each in Dissector(LINES).frames_and_blocks(packets(path, 1 << 20)) if has_blocks(each))
    block = next(each for each in items if isinstance(each, FrameBlock) and len(each) > 9)
    late = Frame(block.connection, 1 - block.side, b"", 0, 0, 0, 0, 0, [], 0, 0, 0)
    late.number = int(block.numbers[5])
    before, after = divide([block, late], late.number)
    assert [len(each) for each in before if isinstance(each, FrameBlock)] == [5]
    assert sorted(map(first_number, after)) == [late.number, late.number]
