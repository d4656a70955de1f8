"""What TCP analysis found, as filters: the frames whose packets tshark finds to be of the kind."""

from __future__ import annotations

import os
import shutil
from functools import cache

import pytest

from tests.cli.conftest import Run, run
from tests.filter.support import CAPTURES, frames
from tests.net.test_analysis import tsharks
from wiredecode.filter import compile_filter
from wiredecode.filter.tcp import ALIASES
from wiredecode.frames.frame import Frame
from wiredecode.net.health import KINDS

__all__ = ["run"]

LOSSY = [
    *("nats/08-pipelined-small.drop1pct.pcap", "cursus/produce.drop1pct.pcap", "rabbitmq-stream/d_drop1pct.pcap"),
    "stories/slow-consumer.pcap",
]


@cache
def analysed(name: str) -> list[Frame]:
    """Read once: whichever flag a filter asks for, all of them are found."""
    return frames(name, None, compile_filter("tcp.analysis.flags || frame.number > 0"))


def matching(name: str, text: str) -> set[int]:
    display = compile_filter(text)
    assert display.needs_analysis
    return {frame.number for frame in analysed(name) if display.matches(frame)}


@pytest.mark.parametrize("name", LOSSY)
def test_frames_match_whose_packets_are_of_the_kind_that_tshark_says(name: str) -> None:
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


def test_short_names_say_the_same() -> None:
    name = "nats/08-pipelined-small.drop1pct.pcap"
    assert matching(name, "tcp.lost_segment") == matching(name, "tcp.analysis.lost_segment") != set()
    assert all(compile_filter(alias).text == alias for alias in ALIASES)


def test_a_flag_is_there_for_every_packet_and_set_on_few() -> None:
    name = "stories/slow-consumer.pcap"
    last = matching(name, "tcp.flags.fin == 1")
    assert last
    assert last == matching(name, "tcp.flags.fin == true")
    assert len(matching(name, "tcp.flags.fin == 0")) > 100
    assert not last & matching(name, "all tcp.flags.fin == 0")


def test_connections_are_analysed_only_for_filters_that_ask() -> None:
    name = "cursus/stream.pcap"
    assert frames(name, None, compile_filter("tcp.port > 1"))[0].connection.health is None
    assert frames(name, None, compile_filter("!tcp.analysis.flags"))[0].connection.health is not None


def test_every_command_with_a_filter_analyses(run: Run) -> None:
    path, text = CAPTURES / "rabbitmq-stream/d_drop1pct.pcap", "tcp.analysis.flags"
    shown = run("pcap", path, "-q", "--summary", "-Y", text).lines
    assert 0 < len(shown) < 20
    assert len(run("export", path, "-q", "-o", "-", "--format", "ndjson", "-Y", text).lines) == len(shown)
    assert len(run("follow", path, "-q", "-Y", text).lines) > 0


def test_stable_ids_do_not_go_with_what_needs_packet_numbers(run: Run) -> None:
    """Told in the words of the user."""
    for text, told in (
        ("tcp.retransmission", "tcp.retransmission (tcp.analysis.retransmission)"),
        ("frame.length > 3 && frame.number > 3", "frame.number"),
        ("!(connection == 1)", "connection (tcp.stream)"),
    ):
        result = run(
            *("export", CAPTURES / "cursus/stream.pcap", "-o", "-", "--format", "ndjson", "--ids", "stable", "-Y", text)
        )
        assert (result.code, result.err.count("\n")) == (2, 1)
        assert f"{told} depends on the rest of the capture" in result.err
