"""Lines show the values that distinguish messages: committed offsets, operations of log entries."""

from __future__ import annotations

from pathlib import Path

import pytest

from wiredecode import read
from wiredecode.frames.frame import Frame
from wiredecode.protocols.liftbridge.names import entries_text
from wiredecode.view.screen import ScreenLines
from wiredecode.view.summary import SummaryLines

CAPTURES = Path(__file__).parents[2] / "captures"


def lines(name: str, kind: str) -> list[tuple[Frame, str]]:
    made = SummaryLines()
    return [(frame, made.line(frame)) for frame in read(CAPTURES / name) if frame.type == kind]


def test_a_batch_commit_shows_its_offsets() -> None:
    found = lines("cursus/group.pcap", "BATCH_COMMIT")
    assert " commits=0:12,1:3,2:0" in found[0][1]
    for frame, line in found:
        offsets = frame.record()["layers"]["cursus"].get("offsets")
        offset = ",".join(f"{each['partition']}:{each['offset']}" for each in offsets or ())
        assert (f" commits={offset}" in line) == bool(offsets)
        assert "commits" not in frame.record()["layers"]["cursus"]


def test_the_reason_of_a_refusal_fits_80_columns_without_the_finding() -> None:
    screen = ScreenLines(width=lambda: 80)
    frames = [*read(CAPTURES / "rabbitmq-stream/c43_errors.pcap")]
    found = [screen.line(frame) for frame in frames if frame.findings]
    assert any('="Stream already exists"' in line for line in found)
    assert any('="Stream does not exist"' in line for line in found)


@pytest.mark.slow
def test_append_entries_shows_its_operations() -> None:
    found = lines("stories/leader-killed.pcap.zst", "AppendEntries")
    lines_ = [line for _, line in found if " operations=" in line]
    assert any("CHANGE_LEADER orders-stream[" in line for line in lines_)
    assert any("CREATE_STREAM" in line for line in lines_)
    assert any("entries)=18" in line for line in lines_)
    for frame, line in found:
        entries = frame.record()["layers"]["raft"].get("entries")
        assert (" operations=" in line) == bool(entries)


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ([], ""),
        ([{"log_type": 1}], "LogNoop"),
        (
            [{"raft_log": {"op": 3, "change_leader_op": {"stream": "s", "partition": 7, "leader": "b"}}}] * 2,
            "CHANGE_LEADER s[7], leader b; CHANGE_LEADER s[7], leader b",
        ),
        ([{"raft_log": {"op": "DELETE_STREAM", "op_code": 5, "delete_stream_op": {"stream": "s"}}}], "DELETE_STREAM s"),
        ([{"log_type": 1}] * 6, "LogNoop; LogNoop; LogNoop; LogNoop; 2 more"),
        ([{"raft_log": {"op": 0x01020304}}, "cut"], "operation 16909060"),
    ],
)
def test_summaries_of_entries(entries: list[object], text: str) -> None:
    assert entries_text(entries) == text
