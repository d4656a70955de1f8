"""What was cut is not told: frames and values of damaged captures are those of the whole ones, or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.damage import (
    CAPTURES,
    compare,
    cut_packets,
    damaged_captures,
    dissect,
    read,
    small_captures,
    snaplens,
    whole_captures,
)
from wiredecode.frames.frame import Frame


@pytest.mark.parametrize(("whole", "damaged"), damaged_captures(), ids=lambda path: path.name)
def test_a_damaged_capture_says_what_the_whole_one_says(whole: Path, damaged: Path) -> None:
    assert compare(dissect(read(whole)), dissect(read(damaged))).wrong == []


@pytest.mark.parametrize("capture", small_captures(), ids=lambda path: path.name)
def test_a_snapshot_length_cuts_no_text_and_no_list_into_others(capture: Path) -> None:
    assert snaplens(capture, (79, 96, 113, 128)).wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("capture", whole_captures(), ids=lambda path: path.name)
def test_every_snapshot_length(capture: Path) -> None:
    assert snaplens(capture, range(70, 131) if capture in small_captures() else (79, 96, 128)).wrong == []


def test_the_topic_of_a_cut_command_is_not_told_by_its_reply() -> None:
    packets = read(CAPTURES / "cursus" / "produce.pcap")
    told = {topic(frame) for frame in dissect(packets).frames.values()}
    for size in range(80, 100):
        frames = dissect(cut_packets(packets, size)).frames
        assert {topic(frame) for frame in frames.values()} <= told | {None}


def topic(frame: Frame) -> str | None:
    return (frame.layers or {}).get("cursus", {}).get("topic")
