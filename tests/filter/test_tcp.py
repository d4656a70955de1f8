"""TCP analysis in filters: matching frames are those whose packets tshark classifies alike."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

import wiredecode
from tests.cli.conftest import Run, run
from tests.filter.support import CAPTURES, frames
from tests.net.test_analysis import DIFFERENT, tsharks
from wiredecode.filter import compile_filter
from wiredecode.filter.tables import TableFilter
from wiredecode.filter.wireshark_names import ALIASES
from wiredecode.frames.frame import Frame
from wiredecode.net.health import KINDS

__all__ = ["run"]

LOSSY = [
    *("nats/08-pipelined-small.drop1pct.pcap", "cursus/produce.drop1pct.pcap", "rabbitmq-stream/d_drop1pct.pcap"),
    "stories/slow-consumer.pcap.zst",
]


@cache
def analysed(name: str) -> list[Frame]:
    """Read once: all flags are set for any filter."""
    return frames(name, None, compile_filter("tcp.flags || frame.number > 0"))


def matching(name: str, text: str) -> set[int]:
    display = compile_filter(text)
    assert display.needs.analysis
    return {frame.number for frame in analysed(name) if display.matches(frame)}


@pytest.mark.parametrize("name", LOSSY)
def test_frames_match_as_tshark_classifies_their_packets(name: str) -> None:
    if shutil.which("tshark") is None and not os.environ.get("CI"):
        pytest.skip("tshark is not installed")
    theirs = tsharks(CAPTURES / name)
    packets = {frame.number: set(frame.packets) for frame in analysed(name)}
    some = False
    for kind in KINDS:
        expected = {number for number, carried in packets.items() if carried & theirs[kind]}
        assert matching(name, f"tcp.analysis.{kind}") == expected, kind
        some = some or bool(expected)
    assert some


def test_short_names_are_equivalent() -> None:
    name = "nats/08-pipelined-small.drop1pct.pcap"
    assert matching(name, "tcp.lost_segment") == matching(name, "tcp.analysis.lost_segment") != set()
    assert all(compile_filter(alias).text == alias for alias in ALIASES)


def test_every_packet_has_each_flag_and_few_have_it_set() -> None:
    name = "stories/slow-consumer.pcap.zst"
    last = matching(name, "tcp.flags.fin == 1")
    assert last
    assert last == matching(name, "tcp.flags.fin == true")
    assert len(matching(name, "tcp.flags.fin == 0")) > 100
    assert not last & matching(name, "all tcp.flags.fin == 0")


def test_connections_are_analysed_only_if_a_filter_needs_it() -> None:
    name = "cursus/stream.pcap"
    assert frames(name, None, compile_filter("tcp.port > 1"))[0].connection.health is None
    assert frames(name, None, compile_filter("!tcp.analysis.flags"))[0].connection.health is not None


def test_every_command_with_a_filter_analyses(run: Run) -> None:
    path, text = CAPTURES / "rabbitmq-stream/d_drop1pct.pcap", "frame && tcp.analysis.flags"
    shown = run("pcap", path, "-q", "--summary", "-Y", text).lines
    assert 0 < len(shown) < 20
    assert len(run("export", path, "-q", "-o", "-", "--format", "ndjson", "-Y", text).lines) == len(shown)
    assert len(run("follow", path, "-q", "-Y", text).lines) > 0


BLACK_HOLE = CAPTURES / "stories/mtu-black-hole.pcap"
REPEATED = [42, 116, 117, 118, 119, 120, 121, 122, 123, 124]
"""The retransmissions of that capture, as tshark numbers them; no frame has them."""


def test_retransmissions_without_a_frame_are_lines(run: Run) -> None:
    shown = run("pcap", BLACK_HOLE, "--summary", "-Y", "tcp.retransmission")
    assert [int(line.split()[0]) for line in shown.lines] == REPEATED
    assert "[retransmission, spurious_retransmission]" in shown.lines[0]
    assert "10 of 124 packets match the filter" in shown.err
    assert len(run("pcap", BLACK_HOLE, "-q", "-Y", "tcp.retransmission", "-c", 3).lines) == 3
    assert len(run("pcap", BLACK_HOLE, "-q", "-Y", "tcp.retransmission", "--to", 2).lines) == 6


def test_retransmissions_are_records_with_the_columns_of_the_table_of_packets(run: Run) -> None:
    exported = run(
        *("export", BLACK_HOLE, "-q", "--level", "packets", "-o", "-", "--format", "ndjson", "-Y", "tcp.retransmission")
    )
    assert run("pcap", BLACK_HOLE, "-q", "--json", "-Y", "tcp.retransmission").lines == exported.lines
    assert [orjson.loads(line)["packet"] for line in exported.lines] == REPEATED
    array = run("pcap", BLACK_HOLE, "-q", "-T", "json", "-Y", "tcp.retransmission").out
    assert orjson.loads(array) == [orjson.loads(line) for line in exported.lines]
    counted = run("sql", BLACK_HOLE, "SELECT count(*) AS n FROM packets", "-q", "-Y", "tcp.retransmission")
    assert counted.lines == ['{"n":10}']


@pytest.mark.parametrize(("whole", "packets"), [((), 10), (("--whole-connections",), 99)])
def test_retransmissions_are_written(run: Run, tmp_path: Path, whole: tuple[str, ...], packets: int) -> None:
    out = tmp_path / "out.pcapng"
    result = run("pcap", BLACK_HOLE, "-Y", "tcp.retransmission", "-w", out, *whole)
    assert (result.code, f": {packets} packets\n" in result.err) == (0, True)
    assert wiredecode.read(out, level="packets").table().num_rows == packets


def test_retransmissions_before_the_end_of_a_truncated_file_are_written(run: Run, tmp_path: Path) -> None:
    cut, out = tmp_path / "cut.pcap", tmp_path / "out.pcapng"
    cut.write_bytes(BLACK_HOLE.read_bytes()[:-100])
    lines = run("pcap", cut, "-q", "--summary", "-Y", "tcp.retransmission")
    written = run("pcap", cut, "-Y", "tcp.retransmission", "-w", out)
    assert (lines.code, len(lines.lines), written.code) == (2, 9, 2)
    assert wiredecode.read(out, level="packets").table().num_rows == 9


def test_a_filter_on_frames_selects_frames(run: Run, tmp_path: Path) -> None:
    for text, packets in (
        ("tcp.retransmission && ip.addr == 10.77.0.1 && tcp.stream == 1", True),
        ("!tcp.flags.reset || tcp.port == 5552", True),
        ("frame && tcp.retransmission", False),
        ("tcp.retransmission && rabbitmq_stream", False),
        ("tcp.port == 5552", False),
    ):
        assert compile_filter(text).chooses_packets is packets, text
    assert "none of 69 matches" in run("pcap", BLACK_HOLE, "--summary", "-Y", "frame && tcp.retransmission").err
    query = "select count(*) from frames"
    for command in (["stats"], ["follow"], ["export", "-o", tmp_path / "o.csv"], ["sql", query]):
        said = run(command[0], BLACK_HOLE, *command[1:], "-Y", "tcp.retransmission").err
        assert "pcap --summary -Y 'tcp.retransmission'" in said, command
    refused = run("pcap", BLACK_HOLE, "-T", "pdml", "-Y", "tcp.retransmission")
    assert (refused.code, "for frames use -Y 'frame && (" in refused.err) == (2, True)


WHOLE = [str(path.relative_to(CAPTURES)) for path in sorted(CAPTURES.rglob("*.pcap*")) if "cutfile" not in path.name]


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_matching_packets_equal_those_of_tshark_in_all_captures(name: str) -> None:
    if shutil.which("tshark") is None and not os.environ.get("CI"):
        pytest.skip("tshark is not installed")
    theirs = tsharks(CAPTURES / name)
    for kind in {"retransmission", "fast_retransmission", "spurious_retransmission"} - DIFFERENT.get(name, set()):
        chosen = wiredecode.read(CAPTURES / name, level="packets", filter=f"tcp.{kind}").table()
        assert set(chosen["packet"].to_pylist()) == theirs[kind], kind


def test_flags_of_packets_without_tcp_are_unknown() -> None:
    kinds = pa.array([["retransmission", "fast_retransmission"], None, None], pa.list_(pa.string()))
    rows = {"tcp_analysis": kinds, "flags_code": [0x14, 0x10, None], "connection": [1, 2, None], "packet": [1, 2, 3]}
    batch = pa.RecordBatch.from_pydict(rows)

    def kept(text: str) -> list[int]:
        found: list[int] = TableFilter(compile_filter(text), "packets").apply(batch)["packet"].to_pylist()
        return found

    assert kept("tcp.fast_retransmission") == kept("tcp.flags.reset == 1") == [1]
    assert kept("!tcp.analysis.flags") == [2, 3]
    assert kept("tcp.flags.reset == 0") == kept("tcp.stream != 1") == [2]


def test_stable_ids_exclude_filters_on_packet_numbers(run: Run) -> None:
    """The error uses the words of the filter."""
    for text, name in (
        ("tcp.retransmission", "tcp.retransmission (tcp.analysis.retransmission)"),
        ("frame.length > 3 && frame.number > 3", "frame.number"),
        ("!(connection == 1)", "connection (tcp.stream)"),
    ):
        result = run(
            *("export", CAPTURES / "cursus/stream.pcap", "-o", "-", "--format", "ndjson", "--ids", "stable", "-Y", text)
        )
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert f"{name} depends on the rest of the capture" in result.err
