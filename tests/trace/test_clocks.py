"""Captures of hosts with different clocks: one capture divided by host, with the times of one shifted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, run
from tests.pcap import write_pcap
from tests.support import packets as stored
from wiredecode.trace.clocks import compare

__all__ = ["run"]

CAPTURES = Path(__file__).parent.parent.parent / "captures"
MULTI = CAPTURES / "rabbitmq-stream/c43_multi.pcap"
BROKER = bytes([127, 0, 0, 3])
TEXT = "c43_multi-0:1-0-3"
AWAY_NS = 20_000
"""Delay between the two hosts: from the capture at the sender to the capture at the receiver."""


def divided(folder: Path, ahead_ns: int, *, only_sent: bool) -> list[Path]:
    """Captures of the clients and the broker, whose clock is ahead; ``only_sent``: each has its sent packets."""
    packets = [(time_ns, data, data[26:30] == BROKER) for time_ns, data in stored(MULTI)]
    hosts = []
    for at_broker in (False, True):
        taken = [
            (time_ns + AWAY_NS * (of_broker != at_broker) + ahead_ns * at_broker, data)
            for time_ns, data, of_broker in packets
            if of_broker == at_broker or not only_sent
        ]
        path = folder / ("broker.pcap" if at_broker else "clients.pcap")
        write_pcap(path, sorted(taken))
        hosts.append(path)
    return hosts


def hops(run: Run, *files: Path, note: bool = False) -> Any:
    words = () if note else ("-q",)
    result = run("trace", *files, "--text", TEXT, "--json", *words)
    assert result.code == 0
    return json.loads(result.out), result.err


@pytest.mark.parametrize("only_sent", [False, True])
@pytest.mark.parametrize("ahead_ns", [100_000_000, 3_000_000_000, -3_000_000_000])
def test_a_message_is_followed_over_two_hosts_whose_clocks_differ(
    ahead_ns: int, only_sent: bool, run: Run, tmp_path: Path
) -> None:
    files = divided(tmp_path, ahead_ns, only_sent=only_sent)
    whole, _ = hops(run, MULTI)
    record, note = hops(run, *files, note=True)
    assert [hop["type"] for hop in record["hops"]] == [hop["type"] for hop in whole["hops"]]
    for found, true in zip(record["hops"], whole["hops"], strict=True):
        assert abs(found["since_first_ns"] - true["since_first_ns"]) < 100_000
    first, second = record["clocks"]
    assert (first["offset_ns"], second["file"]) == (0, str(files[1]))
    assert abs(second["offset_ns"] - ahead_ns) <= second["error_ns"] < 100_000
    assert f"{'ahead of' if ahead_ns > 0 else 'behind'} that of" in note


def test_captures_on_one_clock_are_not_shifted(run: Run, tmp_path: Path) -> None:
    record, note = hops(run, *divided(tmp_path, 0, only_sent=True), note=True)
    assert ([clock["offset_ns"] for clock in record["clocks"]], note) == ([0, 0], "")


def test_a_single_direction_does_not_compare_clocks(run: Run, tmp_path: Path) -> None:
    """As with rotated files: packets of the second one were sent later."""
    packets = stored(MULTI)
    halves = [tmp_path / "1.pcap", tmp_path / "2.pcap"]
    for path, part in zip(halves, (packets[:200], packets[200:]), strict=True):
        write_pcap(path, part)
    assert [None if each is None else each.offset_ns for each in compare(halves)] in ([0, None], [0, 0])


def test_clocks_are_not_shifted_on_request(run: Run, tmp_path: Path) -> None:
    files = divided(tmp_path, 3_000_000_000, only_sent=True)
    result = run("trace", *files, "--text", TEXT, "--json", "--own-clocks")
    assert json.loads(result.out)["clocks"] == []
    assert "clock" not in result.err
