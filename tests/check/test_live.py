"""``wiredecode check -i``: problems as they begin and as they end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from tests.metrics.conftest import Replay, replay
from tests.pcap import write_pcap
from tests.support import RABBITMQ
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.check import Checker, live, publishes
from wiredecode.check.live import BEGAN, ENDED, OVER_NS, Watch
from wiredecode.dissect.dissector import Demand, Dissector

__all__ = ["replay", "run"]

STORIES = RABBITMQ.parent / "stories"
PAUSED = STORIES / "broker-paused.pcap.zst"


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


def leaping(path: Path, out: Path, part: float, ahead_ns: int) -> Path:
    """A capture whose clock is set anew after a part of its packets."""
    packets = [each for batch in open_capture([str(path)]) for each in packets_of(batch)]
    cut = int(len(packets) * part)
    write_pcap(out, [*packets[:cut], *((time_ns + ahead_ns, data) for time_ns, data in packets[cut:])])
    return out


def packets_of(batch: PacketBatch) -> Iterator[tuple[int, bytes]]:
    columns = (column.tolist() for column in (batch.start, batch.captured, batch.time_ns))
    return ((time_ns, bytes(batch.buffer[at : at + size])) for at, size, time_ns in zip(*columns, strict=True))


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize(
    ("name", "part"),
    [
        *(("rabbitmq-stream/c43_basic.pcap", 0.5), ("rabbitmq-stream/c43_multi.pcap", 0.35)),
        *(("nats/04-request-reply.pcap", 0.56), ("nats/14-cluster-routes.pcap", 0.6), ("nats/13-jetstream.pcap", 0.23)),
    ],
)
def test_a_clock_that_is_set_accuses_nobody(
    run: Run, replay: Replay, captures: Path, tmp_path: Path, name: str, part: float, hours: int
) -> None:
    """Heartbeats, lags and services seem late by an hour, live and in a file."""

    def codes(*words: object) -> set[str]:
        lines = map(json.loads, run("check", *words, "--json", "-q", "--severity", "note").lines)
        return {each["code"] for each in lines if "code" in each}

    path = leaping(captures / name, tmp_path / "leaps.pcap", part, hours * 3600 * 10**9)
    assert codes(path) - codes(captures / name) == {"capture.clock"}
    replay(path)
    assert codes("-i", "lo") - codes(path) == set()


def test_files_and_an_interface_exclude_each_other(run: Run) -> None:
    for words in (["a.pcap", "-i", "lo"], ["-i", "lo", "-w", "x.pcapng"], [str(PAUSED), "-f", "tcp"], []):
        result = run("check", *words)
        assert result.code == 2 and "Traceback" not in result.err
