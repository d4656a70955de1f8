"""Names of single packets in filters and fields: a frame has the values of its last packet, and these are tshark's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.filter.support import CAPTURES
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.filter import compile_filter
from wiredecode.filter.names import Names
from wiredecode.filter.wireshark_names import FACTS
from wiredecode.net.segment_facts import KEPT, FactsLog
from wiredecode.net.segments import SegmentFacts
from wiredecode.view.fieldlines import FieldLines, Form

__all__ = ["run"]

FIELDS = [name for name in FACTS if name != "eth"]
BLACK_HOLE = CAPTURES / "stories/mtu-black-hole.pcap"
TRUTH = {  # by tshark 4.0.17; the last packet of a frame of several, an answer, a frame sent in pieces
    4: "0x0018 125 1 1 126 2216932924 997131840 64512 63 0.003440000 0.003440000 0.003872000  0 0 0 1 1 0 0 0",
    109: "0x0018 21 846 1005 867 2628855032 3320932459 65536 64 0.000574000 0.000574000 1.055910000 0.000574000 "
    "0 0 0 1 1 0 0 0",
    114: "0x0018 693 5349 867 6042 3320936803 2628855053 64512 63 0.000001000 0.000001000 1.109918000  0 0 0 1 1 0 0 0",
}
"""Of the fields, in their order."""


def by_names(path: Path, names: list[str], batch: int | None = None) -> dict[int, list[str]]:
    """Our texts of every packet that is the last one of a frame."""
    lines = FieldLines(names, Form(), show=bytes.hex)
    texts: dict[int, list[str]] = {}
    packets = iter(open_capture([path]))
    parts = packets if batch is None else (b.part(at, at + batch) for b in packets for at in range(0, len(b), batch))
    for frame in Dissector(Demand(facts=True, link_responses=False)).frames(parts):
        texts[max(frame.packets)] = lines.line(frame).rstrip("\n").split("\t")
    return texts


def tsharks(path: Path, names: list[str]) -> dict[int, list[str]]:
    found = shutil.which("tshark")
    if found is None:
        assert not os.environ.get("CI"), "tshark has to be there"
        pytest.skip("tshark is not installed")
    typed = [word for name in ["frame.number", *names] for word in ("-e", name)]
    command = [found, "-r", str(path), "-T", "fields", *typed]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(row.split("\t")[0]): row.split("\t")[1:] for row in rows}


SAME = [
    *("nats/08-pipelined-small.drop1pct.pcap", "cursus/group.ooo-dup.pcap", "rabbitmq-stream/d_drop1pct.pcap"),
    *("stories/mtu-black-hole.pcap", "cursus/produce.s2c-only.pcap", "nats/22-port-reuse-abort.pcap"),
    *("tank/tank_d4_midconnection.pcap", "liftbridge/30-lb-publish-ack.pcap", "pravega/midstream.pcap"),
    *("kafka/small.pcap", "rabbitmq-stream/c43_tls.pcap"),
]


@pytest.mark.parametrize("name", SAME)
def test_values_of_the_last_packets_are_those_of_tshark(name: str) -> None:
    theirs, ours = tsharks(CAPTURES / name, FIELDS), by_names(CAPTURES / name, FIELDS)
    assert ours
    assert ours == {number: theirs[number] for number in ours}


def test_values_of_the_last_packets_are_known_without_tshark_and_for_any_batches() -> None:
    values = by_names(BLACK_HOLE, FIELDS)
    assert {number: " ".join(values[number]) for number in TRUTH} == TRUTH
    assert by_names(BLACK_HOLE, FIELDS, batch=1) == values


def test_what_tshark_users_type(run: Run) -> None:
    """One name of packets, with addresses at most, chooses packets as in tshark; beside other names, frames."""
    for text, packets, frames in (
        ("tcp.len > 1000", 12, 0),  # by tshark, but for the numbers of frames
        ("tcp.flags.reset == 1", 0, 0),
        ("tcp.flags == 0x11 && eth", 2, 0),
        ("tcp.flags.fin == 1 && tcp.flags.ack == 1", 2, 0),
        ("tcp.analysis.ack_rtt > 5ms && ip", 13, 8),
        ("frame.time_delta > 0.1", 7, 0),
        ("tcp.window_size > 65000 && tcp.stream == 2", 32, 27),
        ("tcp.seq == 1 && tcp.len > 0", 4, 4),
        ("!tcp.flags.push", 0, 0),
    ):
        shown = run("-r", BLACK_HOLE, "-q", "-T", "fields", "-e", "frame.number", "-e", "tcp.len", "-Y", text).lines
        assert len(shown) == packets, text
        assert len(run("-r", BLACK_HOLE, "-q", "-T", "text", "-Y", text).lines) == packets
        assert len(run("-r", BLACK_HOLE, "-q", "-T", "text", "-Y", f"frame && ({text})").lines) == frames, text
        exported = run("export", BLACK_HOLE, "--level", "packets", "-q", "-o", "-", "--format", "ndjson", "-Y", text)
        assert [json.loads(row)["packet"] for row in exported.lines] == [int(line.split()[0]) for line in shown]


def test_fields_of_packets_equal_those_of_tshark(run: Run) -> None:
    names = ["frame.number", "frame.time_epoch", "ip.src", "tcp.srcport", "frame.len", "tcp.seq", "tcp.window_size"]
    typed = [word for name in names for word in ("-e", name)]
    lines = run("-r", BLACK_HOLE, "-q", "-Y", "tcp.len >= 0", "-T", "fields", *typed).lines
    assert {int(line.split("\t")[0]): line.split("\t")[1:] for line in lines} == tsharks(BLACK_HOLE, names[1:])
    tabs = run("-r", BLACK_HOLE, "-q", "-T", "tabs", "-Y", "tcp.flags.fin == 1").lines
    assert tabs[0].split("\t")[2:5] == ["10.77.0.2:40544", "10.77.0.1:5552", "TCP"]
    refused = run("-r", BLACK_HOLE, "-T", "fields", "-e", "frame.type", "-Y", "tcp.len > 0")
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert "these have no frame.type: for frames use -Y 'frame && (...)'" in refused.err


def test_packets_without_tcp_only_have_their_times(run: Run) -> None:
    """``udp`` at the beginning of a capture: its time counts, its ports do not."""
    path = CAPTURES / "nats/50-server-links.pcap"
    every = run("-r", path, "-q", "-T", "text", "-Y", "frame.time_delta >= 0").lines
    assert len(every) == len(run("-r", path, "-q", "-T", "text", "-Y", "tcp.len >= 0").lines)


def test_facts_are_made_only_if_asked_for_and_the_oldest_are_forgotten() -> None:
    def facts(text: str) -> object:
        dissector = Dissector(Demand(select=compile_filter(text)))
        frame = next(iter(dissector.frames(open_capture([BLACK_HOLE]))))
        return frame.connection.health and frame.connection.health.facts

    assert not facts("tcp.port > 1") and not facts("frame && tcp.analysis.flags || frame.number > 0")
    assert facts("tcp.len > 1 && frame.number > 0")
    log = FactsLog()
    log.by_packet = dict.fromkeys(range(KEPT + 3), SegmentFacts())
    log.begin()
    assert (len(log.by_packet), min(log.by_packet)) == (KEPT, 3)
    assert all(Names().find(name) for name in FACTS)


def test_the_command_of_a_tcp_problem_shows_the_packets_that_matter(run: Run) -> None:
    """``tcp.flags.syn`` alone is true of every packet, as in Wireshark: all 99 were shown."""
    found = next(line for line in run("check", BLACK_HOLE).lines if "show" in line and "tcp.stream" in line)
    shown = run("pcap", BLACK_HOLE, "-q", "--summary", "-Y", found.split("'")[1]).lines
    assert len(shown) == 14
    assert all("[" in line or "SYN" in line for line in shown)
