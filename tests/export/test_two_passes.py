"""Requests whose response comes too late for one pass: a second pass finds their outcome.

Issue 12, point 7.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import wiredecode
from tests.damage import CAPTURES, read
from tests.pcap import write_pcap
from wiredecode.capture import PacketBatch
from wiredecode.cli import main
from wiredecode.dissect import dissector
from wiredecode.dissect.dissector import Demand, find_answers
from wiredecode.dissect.ledger import KnownOutcome
from wiredecode.frames.frame import LATE
from wiredecode.tables.messages import CONFIRM_COLUMNS
from wiredecode.tables.reader import FRAMES, MESSAGES, TableReader

APART_NS = 10_000_000_000
LINKED = ["frame", "request", "response", "outcome"]
CONFIRMED = ["frame", "outcome", "refusal", "confirm_frame"]


def slowly(packets: PacketBatch) -> PacketBatch:
    """The same packets, ten seconds apart."""
    return replace(packets, time_ns=packets.time_ns[0] + np.arange(len(packets)) * APART_NS)


def rows(
    packets: PacketBatch, level: str, columns: list[str], known: Mapping[int, KnownOutcome] | None = None, **how: bool
) -> list[dict[str, Any]]:
    reader = TableReader([packets], level, columns=columns, answers=known, **how)  # type: ignore[arg-type]
    return [row for batch in reader for row in batch.to_pylist()]


@pytest.mark.parametrize(
    "name",
    [
        "rabbitmq-stream/c43_puberr.pcap",
        "rabbitmq-stream/c43_dedup.pcap",
        "tank/tank_07_produce_multi_errors.pcap",
        "cursus/txn.pcap",
        "pravega/append_basic.pcap",
        "nats/30-lb-publish-ack.pcap",
    ],
)
@pytest.mark.parametrize("stable", [False, True])
def test_two_passes_link_late_responses_as_one_pass_links_timely_ones(name: str, stable: bool) -> None:
    whole = read(next(CAPTURES.rglob(Path(name).name)))
    late = slowly(whole)
    known = find_answers([late], Demand(stable_ids=stable))
    places = {}
    for level, columns in ((FRAMES, LINKED), (MESSAGES, CONFIRMED)):
        expected, found = rows(whole, level, columns), rows(late, level, columns, known, stable_ids=stable)
        if stable:
            for old, new in zip(expected, found, strict=True):
                places[new["frame"]] = old["frame"]
            found = [{name: places.get(value, value) for name, value in row.items()} for row in found]
        assert found == expected
        assert any(row["outcome"] for row in expected) or level == MESSAGES


def test_one_pass_reports_late_and_not_unanswered() -> None:
    whole = read(CAPTURES / "rabbitmq-stream" / "c43_puberr.pcap")
    once, known = rows(slowly(whole), FRAMES, LINKED), rows(whole, FRAMES, LINKED)
    differing = [(one, other) for one, other in zip(once, known, strict=True) if one != other]
    assert differing
    assert {one["outcome"] for one, _ in differing} == {LATE}


def test_messages_have_the_time_of_a_late_confirm() -> None:
    late = slowly(read(CAPTURES / "rabbitmq-stream" / "c43_dedup.pcap"))
    known = find_answers([late], Demand())
    table = rows(late, MESSAGES, ["frame", *CONFIRM_COLUMNS], known)
    answered = [row for row in table if row["confirm_frame"] is not None]
    assert answered
    assert all(row["latency_ns"] >= APART_NS and row["outcome"] in ("ok", "refused") for row in answered)


def test_export_reads_twice(tmp_path: Path) -> None:
    capture, out = tmp_path / "late.pcap", tmp_path / "out.ndjson"
    late = slowly(read(CAPTURES / "rabbitmq-stream" / "c43_puberr.pcap"))
    rows = zip(late.time_ns.tolist(), late.start.tolist(), late.captured.tolist(), strict=True)
    write_pcap(capture, [(time_ns, bytes(late.buffer[start : start + size])) for time_ns, start, size in rows])
    found = []
    for option in ([], ["--two-passes"]):
        assert main(["export", str(capture), "-q", "-o", str(out), *option]) == 0
        found.append(Counter(json.loads(line).get("outcome") for line in out.read_text().splitlines()))
    assert found[0][LATE] and not found[1][LATE]
    assert found[1]["ok"] > found[0]["ok"]
    query = "select outcome from frames order by frame"
    assert main(["sql", str(capture), query, "--two-passes", "-o", str(out)]) == 0
    assert Counter(json.loads(line)["outcome"] for line in out.read_text().splitlines()) == found[1]
    answered = wiredecode.read(capture, two_passes=True)
    assert Counter(frame.outcome for frame in answered) == Counter(answered.table()["outcome"].to_pylist()) == found[1]


def test_every_command_reads_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A filter on outcomes counts late ones and names the option for two passes; check and trace always find them."""
    capture = tmp_path / "late.pcap"
    late = slowly(read(CAPTURES / "rabbitmq-stream" / "c43_puberr.pcap"))
    rows = zip(late.time_ns.tolist(), late.start.tolist(), late.captured.tolist(), strict=True)
    write_pcap(capture, [(time_ns, bytes(late.buffer[start : start + size])) for time_ns, start, size in rows])
    asked = ["-Y", 'frame.outcome == "ok"']

    def output(*words: str) -> tuple[str, str]:
        assert main([words[0], str(capture), *words[1:]]) == 0
        printed = capsys.readouterr()
        return printed.out, printed.err

    written = tmp_path / "out.csv"
    query = "select count(*) from frames"
    for command in (
        ["pcap", "--summary"],
        ["stats", "--table", "frames"],
        ["export", "-o", str(written)],
        ["sql", query],
    ):
        once, twice = output(*command, *asked), output(*command, *asked, "-2")
        assert "12 requests without an answer in the time that one pass waits (late): -2" in once[1], command
        assert "(late)" not in twice[1]
        assert twice != once
    assert (
        '"outcome":"late"' in output("pcap", "--json")[0]
        and '"outcome":"late"' not in output("pcap", "--json", "-2")[0]
    )
    assert output("check", "-q") == output("check", "-q", "-2")
    assert output("trace", "--frame", "14", "-q", "-2")[0] == output("trace", "--frame", "14", "-q")[0]


@pytest.mark.parametrize(
    "words",
    [
        ["export", "-", "-q", "-o", "-", "--format", "ndjson"],
        ["sql", "-", "from frames"],
        *(["pcap", "-"], ["stats", "-"], ["check", "-"]),
    ],
    ids=itemgetter(0),
)
def test_standard_input_is_not_read_twice(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--two-passes"]) == 2
    assert "standard input can be read only once" in capsys.readouterr().err


def test_query_about_packets_has_no_first_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = Mock(wraps=dissector.find_answers)
    monkeypatch.setattr(dissector, "find_answers", passes)
    capture, out = str(CAPTURES / "nats" / "06-headers.pcap"), str(tmp_path / "n.csv")
    for table, count in (("packets", 0), ("connections", 0), ("frames f, messages m", 1)):
        assert main(["sql", capture, f"select count(*) from {table}", "--two-passes", "-o", out]) == 0
        assert passes.call_count == count
