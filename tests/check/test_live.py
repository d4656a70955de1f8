"""``wiredecode check -i``: problems as they begin and as they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.metrics.conftest import Replay, replay
from tests.support import RABBITMQ
from wiredecode.capture import open_capture
from wiredecode.check import Checker, live, publishes
from wiredecode.check.live import BEGAN, ENDED, OVER_NS, Watch
from wiredecode.dissect.dissector import Demand, Dissector

__all__ = ["replay", "run"]

STORIES = RABBITMQ.parent / "stories"
PAUSED = STORIES / "broker-paused.pcap"


def watched(path: Path) -> tuple[list[tuple[str, str]], set[str]]:
    """The problems reported during a capture, and those of a check of the whole capture."""
    watch, events, now = Watch(), [], 0
    checker = watch.checker
    demand = Demand(link_responses=False, copies=False, analyse=True)
    for frame in Dissector(demand, on_end=checker.end).frames(open_capture([str(path)])):
        if not checker.report.first_ns:
            checker.report.first_ns = frame.time_ns
        checker.frame(frame)
        now = max(now, frame.time_ns)
        events += [(event.change, event.problem.name) for event in watch.look(now)]
    events += [(event.change, event.problem.name) for event in watch.look(now + 2 * OVER_NS)]
    events += [(event.change, event.problem.name) for event in watch.finish()]
    return events, {each.name for each in watch.problems}


def test_latencies_of_days_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_TIMES", 3)
    checker = Watch().checker
    demand, capture = Demand(link_responses=False, copies=False), open_capture([str(RABBITMQ / "c43_basic.pcap")])
    for frame in Dissector(demand).frames(capture):
        checker.frame(frame)
    times = max((each.times for each in checker._publishes._confirmed.values()), key=lambda each: each.count)
    times.percentile(500)
    assert times.count > 3 >= len(times._values)


def test_subjects_with_ids_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishes are counted by connection and subject; the most recently used ones are kept."""
    monkeypatch.setattr(publishes, "MAX_PLACES", 2)
    checker, capture = Checker(), open_capture([str(RABBITMQ / "c43_multi.pcap")])
    for frame in Dissector(Demand(link_responses=False, copies=False)).frames(capture):
        checker.frame(frame)
    assert len(checker._publishes._published) == 2


def test_every_problem_begins_once_and_a_pause_ends() -> None:
    events, problems = watched(PAUSED)
    began = [name for what, name in events if what == BEGAN]
    assert problems <= {*began} and (ENDED, "server.stalled") in events


def test_asking_again_and_again_changes_no_verdict() -> None:
    for path in sorted(STORIES.glob("*.pcap")):
        found = set()
        for often in (False, True):
            checker = Checker()
            demand = Demand(link_responses=False, copies=False, analyse=True)
            dissector = Dissector(demand, on_end=checker.end)
            for number, frame in enumerate(dissector.frames(open_capture([str(path)]))):
                checker.frame(frame)
                if often and number % 257 == 0:
                    checker.so_far()
            found.add(tuple((each.name, each.title, each.count, each.first_ns) for each in checker.finish()))
        assert len(found) == 1, path


def test_lines_and_exit_code(run: Run, replay: Replay) -> None:
    replay(PAUSED)
    said = run("check", "-i", "lo", "--fail-on", "warning", "--utc")
    assert said.code == 1 and any("began" in line and "[server.stalled]" in line for line in said.lines)
    replay(PAUSED)
    *events, verdict = map(json.loads, run("check", "-i", "lo", "--json", "-q").lines)
    assert "verdict" in verdict and {each["event"] for each in events} <= {BEGAN, ENDED}
    assert "server.stalled" in {each["code"] for each in events}


def test_files_and_an_interface_exclude_each_other(run: Run) -> None:
    for words in (["a.pcap", "-i", "lo"], ["-i", "lo", "-w", "x.pcapng"], [str(PAUSED), "-f", "tcp"], []):
        result = run("check", *words)
        assert result.code == 2 and "Traceback" not in result.err
