"""``pcap --jobs``, ``export``, ``sql`` and ``flows``: several processes write what one writes, byte for byte."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from pyarrow import feather, parquet

from tests.cli.conftest import Run
from tests.conftest import CAPTURES, sampled
from wiredecode.cli import jobs, processes, sharing
from wiredecode.dissect import dissector
from wiredecode.protocols.rabbitmq_stream.conversation import RabbitMQConversation
from wiredecode.tables import windows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
SEVERAL = (
    *("rabbitmq-stream/c43_multi.pcap", "rabbitmq-stream/d_drop1pct.pcap", "rabbitmq-stream/d_cutfile.pcap"),
    *("rabbitmq-stream/d_shuffled_dups.pcap", "nats/14-cluster-routes.pcap", "nats/60-limits.pcap"),
    *("cursus/group.pcap", "stories/advertised-refused.pcap", "tank/tank_08_consume_positions.pcap"),
    *(
        "nats/50-server-links.pcap",
        "pravega/read_cuts.pcap",
        "liftbridge/30-lb-publish-ack.pcap",
        "kafka/coordinators.pcap.zst",
    ),
    *(
        "amqp091/basic.pcap.zst",
        "nats/50-server-links.pcap",
        "flows/k-reset-latest.pcap.zst",
        "hostile/12a-controls-rabbitmq.pcap",
    ),
)
MULTI = CAPTURES / SEVERAL[0]
FORMS = (
    *(["--summary"], ["--json"], ["-T", "json"], ["-T", "tabs"], ["--json", "-Y", "frame.length > 40"]),
    *(["-T", "fields", "-e", "frame.number", "-e", "frame.response", "-E", "header=y"],),
    *(["--summary", "--color", "always", "--time", "epoch", "-Y", "connection == 2 || frame.number < 40"],),
    *(["--summary", "--from", "0.01", "--to", "1"],),
)


@pytest.mark.parametrize("path", sampled(SEVERAL, 4))
def test_lines_and_records_equal_those_of_one_process(run: Run, path: str) -> None:
    """Numbers, responses, widths of columns, totals, errors and exit code."""
    for words in FORMS:
        expected = run("pcap", CAPTURES / path, *words)
        for count in (2, 3):
            assert run("pcap", CAPTURES / path, *words, "--jobs", count) == expected, (words, count)


def test_many_steps_have_the_frames_of_one_process(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of some packets, each a step: notes of carried protocols, connections that begin in later ones."""
    for path in SEVERAL[4], "liftbridge/30-lb-publish-ack.pcap", "kafka/coordinators.pcap.gz":
        for words in (["--summary"], ["--json"]):
            expected = run("pcap", CAPTURES / path, *words)
            with monkeypatch.context() as patched:
                patched.setattr(dissector, "SHARED_PART_BYTES", 15_432)
                patched.setattr(dissector, "MIN_PART_BYTES", 15_432)
                assert run("pcap", CAPTURES / path, *words, "--jobs", 3) == expected, (path, words)


@pytest.mark.parametrize("words", [["--format", "ndjson"], ["--format", "json", "-Y", "frame.response"]])
def test_exported_records_equal_those_of_one_process(run: Run, tmp_path: Path, words: list[str]) -> None:
    for path in SEVERAL[:4]:
        found = []
        for count in (1, 3):
            result = run("export", CAPTURES / path, "-o", tmp_path / "out", *words, "--jobs", count)
            found.append((result, (tmp_path / "out").read_bytes()))
        assert found[0] == found[1]


@pytest.mark.parametrize("path", sampled(SEVERAL, 3))
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    "words",
    [
        ["--level", "frames", "--format", "csv"],
        ["--level", "frames", "--format", "parquet", "-Y", "frame.length > 40"],
        ["--level", "frames", "--format", "arrow", "--ids", "stable"],
        ["--level", "messages", "--format", "parquet"],
        ["--level", "messages", "--format", "ndjson", "--columns", "topic,offset,confirm_frame", "--to", "1"],
        ["--level", "connections", "--format", "arrow"],
        ["--level", "flows", "--format", "csv"],
    ],
    ids=lambda words: "-".join(word.strip("-") for word in words),
)
def test_exported_tables_equal_those_of_one_process(
    run: Run, tmp_path: Path, path: str, words: list[str], count: int
) -> None:
    """Text in each byte, other files in rows and schema."""
    found: list[Any] = []
    for number in (1, count):
        result = run("export", CAPTURES / path, "-o", tmp_path / "out", *words, "-q", "--jobs", number)
        read = {"arrow": feather.read_table, "parquet": parquet.read_table}.get(words[3], Path.read_bytes)
        found.append((result, read(tmp_path / "out")))
    assert found[0] == found[1]


def test_many_windows_have_the_rows_of_one_process(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of few frames, at which requests still wait for their responses."""
    monkeypatch.setattr(windows, "WINDOW_FRAMES", 3)
    monkeypatch.setattr(windows, "SHARED_NULLS", 7)
    for path in SEVERAL[1], SEVERAL[4], SEVERAL[-3]:
        for level in ("frames", "messages", "connections", "flows"):
            words = ["export", CAPTURES / path, "-o", tmp_path / "out", "--format", "csv", "--level", level, "--jobs"]
            found = []
            for count in (1, 3):
                result = run(*words, count)
                found.append((result, (tmp_path / "out").read_bytes()))
            assert found[0] == found[1], (path, level)


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) n, sum(length) size from frames",
        "select type, topic, count(*) n from frames f join messages m using (frame, type) group by all order by all",
        "select connection, client_bytes from connections",
        "select frame, time from frames limit 3",
        "select count(*) n from packets",
        "select * from frames where nothing = 1",
    ],
)
def test_queries_have_the_answers_of_one_process(run: Run, query: str) -> None:
    pytest.importorskip("duckdb")
    for path in SEVERAL[:4]:
        assert run("sql", CAPTURES / path, query, "--jobs", 3) == run("sql", CAPTURES / path, query)


@pytest.mark.parametrize("path", sampled((*SEVERAL, "flows/k-dup-group.pcap.zst", "flows/n-discard-old.pcap.zst"), 4))
def test_flows_equal_those_of_one_process(run: Run, path: str) -> None:
    """Also the order of publishers, and the times from publish to delivery."""
    for words in (["--json", "--by", "partition"], ["--by", "second", "-Y", "frame.number > 5"]):
        assert run("flows", CAPTURES / path, *words, "--jobs", 3) == run("flows", CAPTURES / path, *words)


def test_a_process_need_not_know_the_virtual_host_of_a_queue(run: Run) -> None:
    """Another one has the only connection that names it."""
    path = Path(__file__).parents[1] / "check" / "arrivals" / "r_no_consume.pcap.zst"
    for count in (2, 3, 4):
        assert run("flows", path, "--json", "--jobs", count) == run("flows", path, "--json"), count


@pytest.mark.parametrize("count", [1, 2])
def test_a_bug_in_one_process_costs_the_contents_of_one_frame(
    run: Run, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    plain = RabbitMQConversation.decode

    def failing(self: RabbitMQConversation, frame: object, *rest: object, **named: object) -> None:
        if frame.number == 20:  # type: ignore[attr-defined]
            raise KeyError
        plain(self, frame, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(RabbitMQConversation, "decode", failing)
    result = run("pcap", MULTI, "--summary", "--jobs", count)
    assert (result.code, len(result.lines)) == (2, 560)
    assert "[error: wiredecode could not" in result.lines[19] and result.err.count("please report it") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pcap", "-V"], "goes with --summary, --json and -T"),
        (["pcap", "--summary", "--time", "delta"], "does not know the frame before"),
        (["pcap", "--summary", "-c", "5"], "does not go with -c"),
        (["export", "-o", "out.parquet", "--level", "packets"], "is for files of frames, messages"),
        (["export", "-o", "delta:out"], "is for files of frames, messages"),
        (["sql", "select 1", "-2"], "does not go with -2"),
        (["flows", "-2"], "does not go with -2"),
    ],
    ids=["trees", "delta", "count", "packets", "lake", "sql", "flows"],
)
def test_work_for_one_process_is_refused(run: Run, words: list[str], said: str) -> None:
    result = run(words[0], MULTI, *words[1:], "--jobs", 2)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert said in result.err


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many processes each command began with: captures of this size are large, and there are three cores."""
    counts: list[int] = []

    class Recorded(jobs.Jobs):
        def __init__(self, count: int, work: jobs.Work) -> None:
            counts.append(count)
            super().__init__(count, work)

    monkeypatch.setattr(sharing, "Jobs", Recorded)
    monkeypatch.setattr(processes, "LARGE", MULTI.stat().st_size)
    monkeypatch.setattr(processes, "cores", lambda: 3)
    return counts


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["pcap", "--summary"], 3),
        (["pcap", "-T", "json"], 3),
        (["export", "-o", "-", "--level", "messages", "--format", "csv"], 3),
        (["sql", "select count(*) from frames"], 3),
        (["flows"], 3),
        (["stats", "--table", "frames"], 3),
        (["pcap", "--summary", "--jobs", "1"], None),
        (["pcap"], None),
        (["pcap", "--json", "-c", "5"], None),
        (["stats"], None),
        (["stats", "--table", "latency"], None),
        (["flows", "-2"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_large_captures_are_decoded_by_all_cores(
    run: Run, started: list[int], words: list[str], count: int | None
) -> None:
    """Where several processes cannot do it, or may do it twice, one does, without a word."""
    named = [words[0], MULTI, *words[1:]]
    result = run(*named)
    assert result.code == 0 and started == ([] if count is None else [count])
    assert result == run(*named, *([] if "--jobs" in words else ["--jobs", 1]))


def test_small_captures_and_pipes_are_decoded_by_one_core(run: Run, started: list[int]) -> None:
    assert run("pcap", CAPTURES / "cursus" / "group.pcap", "--summary").code == 0
    run("pcap", MULTI, "/dev/null", "--summary")  # no regular file
    assert started == []


@pytest.mark.parametrize(("limit", "count"), [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 4), (None, 4)])
def test_cores_are_those_that_a_container_may_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str | None, count: int
) -> None:
    if limit is not None:
        (tmp_path / "cpu.max").write_text(f"{limit}\n")
    monkeypatch.setattr(processes, "CPU_LIMIT", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7})
    assert processes.cores() == count


def test_a_connection_with_most_bytes_is_named(run: Run) -> None:
    """One process decodes it: more of them gain little."""
    busy, line = CAPTURES / "hostile" / "12a-controls-rabbitmq.pcap", "jobs      one process decodes 100 % of the bytes"
    assert [line in run("pcap", busy, "--summary", "--jobs", 2, *words).err for words in ((), ("-v",))] == [False, True]
    assert "one process" not in run("pcap", MULTI, "--summary", "--jobs", 2, "-v").err


def test_a_process_that_is_killed_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs.TextExchange, "frames", lambda self, frames: frames if self.is_first else os._exit(9))
    result = run("pcap", MULTI, "--json", "--jobs", 2, "-q")
    assert result.code == 2
    assert result.err == "wiredecode: a process of --jobs was ended (exit code 9); what was shown is not complete\n"


def test_every_process_has_connections_to_decode() -> None:
    """A new connection goes to the process with the least to do; each is in one process."""
    from wiredecode.capture import open_capture
    from wiredecode.net.buckets import Dealt
    from wiredecode.net.limits import DEFAULT_LIMITS
    from wiredecode.net.network import Network

    firsts = []
    for number in range(3):
        network = Network(DEFAULT_LIMITS, Dealt(number, (1.0, 1.0, 1.0)))
        network.opened = opened = []
        for batch in open_capture([str(MULTI)]):
            network.feed(batch)
        firsts.append([connection.first for connection in opened])
    assert all(firsts)
    whole = Network()
    whole.opened = every = []
    for batch in open_capture([str(MULTI)]):
        whole.feed(batch)
    assert sorted(first for some in firsts for first in some) == [connection.first for connection in every]
