"""``wiredecode stats``: output, files and errors."""

from __future__ import annotations

import csv
import gc
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import wiredecode
from tests.cli.conftest import Run, run
from tests.stats.test_confirms import EVIL, confirm, declare, publish, talk
from tests.view.frames import write
from wiredecode.cli.stats_output import TABLES
from wiredecode.stats.tables import NAMES

__all__ = ["run"]
RABBITMQ = Path(__file__).parent.parent.parent / "captures" / "rabbitmq-stream"
BASIC, CUT = RABBITMQ / "c43_basic.pcap", RABBITMQ / "d_cutfile.pcap"


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Other commands freeze the garbage collector; DuckDB's bindings then fail at the end of the process."""
    yield
    gc.unfreeze()


def rows(text: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(text)
    return found


def test_the_option_lists_the_tables() -> None:
    assert NAMES == TABLES


def test_json_is_one_object_with_the_numbers_of_the_function(run: Run) -> None:
    result = run("stats", BASIC, "--json", "-q")
    assert (result.code, result.err, len(result.lines)) == (0, "", 1)
    found = rows(result.out)
    wanted = wiredecode.stats(BASIC, interval="auto")
    assert tuple(found) == TABLES
    for name in ("frames", "latency", "confirms"):
        assert found[name] == wanted[name].to_pylist()
    assert {name: len(some) for name, some in found.items()} == {name: wanted[name].num_rows for name in TABLES}


def test_a_pipe_gets_all_columns_aligned_and_unwrapped(run: Run) -> None:
    result = run("stats", BASIC, "--table", "latency", "--table", "confirms", "-q")
    heads = [index for index, line in enumerate(result.lines) if line.startswith("─")]
    assert [result.lines[index - 2].strip() for index in heads] == [
        "latency of requests, in microseconds",
        "publish to confirm of messages, in microseconds",
    ]
    assert result.lines[heads[0] - 1].split()[-1] == "unanswered"
    assert "p99_9_us" in result.lines[heads[1] - 1]
    assert len({len(line.rstrip()) for line in result.lines[heads[0] - 1 : heads[1] - 3]}) == 1


def test_output_fits_80_columns_and_is_escaped(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    path = write(tmp_path / "evil.pcap", talk([*declare(EVIL), publish(1), confirm(1)]))
    result = run("stats", path, "-q", "--color", "never")
    assert max(map(len, result.lines)) <= 80
    assert not {"\x1b", "\u202e"} & set(result.out)
    assert "or\\x1b[2Jders [red]\\u202e" in result.out
    heads = [line for line in result.lines if " p50 " in line]
    assert heads and not any("p90" in line for line in heads)
    assert "no room for min, p50, p90, " in result.out and "transfer_max: --json" in " ".join(result.out.split())


def test_a_long_table_is_shortened_on_terminals_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.cli.stats_output.MAX_ROWS", 3)
    assert len(run("stats", BASIC, "--table", "frames", "-q").lines) > 20
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    result = run("stats", BASIC, "--table", "frames", "-q", "--color", "never")
    assert len(result.lines) == 3 + 3 + 1
    assert result.lines[-1] == "in all rows: protocol rabbitmq_stream"
    assert result.err == "wiredecode: the first 3 rows of frames; a pipe, --json and --csv get all\n"


def test_csv_is_one_table(run: Run) -> None:
    result = run("stats", BASIC, "--table", "confirms", "--csv", "-q")
    (row,) = csv.DictReader(io.StringIO(result.out))
    assert (row["stream"], row["confirmed"], row["unknown"]) == ("c43_basic-stream", "32", "0")


@pytest.mark.parametrize("name", ["missing.pcap", "notes.txt"])
@pytest.mark.parametrize("form", [[], ["--json"], ["--csv", "--table", "frames"]])
def test_nothing_is_printed_of_an_unreadable_capture(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("no capture at all, but long enough to have had a header\n")
    result = run("stats", name, *form)
    assert (result.code, result.raw, result.err.count("\n")) == (2, b"", 1)
    assert name in result.err


def test_damage_is_reported_once_and_earlier_frames_count(run: Run) -> None:
    result = run("stats", CUT, "--json", "-q")
    assert (result.code, result.err.count("\n"), result.err.count("is truncated in the middle")) == (2, 1, 1)
    found = rows(result.out)
    assert sum(row["frames"] for row in found["frames"]) == 95
    assert sum(row["messages"] for row in found["throughput"]) == 32


def test_a_missing_file_does_not_stop_the_others(run: Run, tmp_path: Path) -> None:
    result = run("stats", BASIC, tmp_path / "missing.pcap", "--json", "-q")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert rows(result.out) == rows(run("stats", BASIC, "--json", "-q").out)


@pytest.mark.parametrize("path", [BASIC, CUT])
def test_standard_input_is_counted_like_a_file(run: Run, monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    wanted = run("stats", path, "--json", "-q")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    result = run("stats", "-", "--json", "-q")
    assert (result.code, rows(result.out)) == (wanted.code, rows(wanted.out))
    assert result.err == wanted.err.replace(str(path), "<standard input>")


def test_time_and_filter_choose_frames_and_messages(run: Run) -> None:
    def counted(*words: str) -> tuple[int, int]:
        found = rows(run("stats", BASIC, "--json", "-q", *words).out)
        return sum(row["frames"] for row in found["frames"]), sum(row["messages"] for row in found["throughput"])

    assert counted() == (142, 64)
    assert counted("-Y", 'frame.type == "Publish"') == (6, 32)
    early, late = counted("--to", "0.05"), counted("--from", "0.050000001")
    assert (early[0] + late[0], early[1] + late[1]) == (142, 64)
    assert min(*early, *late) >= 0
    assert 0 < early[0] < 142


def test_intervals_divide_and_keep_the_sum(run: Run) -> None:
    def starts(interval: str) -> list[tuple[str, int]]:
        words = ("--table", "throughput", "--json", "-q", "--interval", interval)
        return [(row["start"], row["messages"]) for row in rows(run("stats", BASIC, *words).out)["throughput"]]

    hours, seconds = starts("1h"), starts("1s")
    assert {start[14:19] for start, _ in hours} == {"00:00"}
    assert len(seconds) > len(hours)
    assert sum(count for _, count in seconds) == sum(count for _, count in hours) == 64


def test_totals_are_printed_once(run: Run) -> None:
    assert run("stats", BASIC).err.count("230 read") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--table", "latencies"], "no statistic is called 'latencies'"),
        (["--interval", "soon"], "'soon' is not an interval such as 1h"),
        (["--csv"], "--csv writes one table: name it with --table"),
        (["--csv", "--json", "--table", "frames"], "--json and --csv are two formats"),
        (["-Y", "frame.tpye"], "frame.tpye"),
        (["--from", "yesterday"], "'yesterday' is not a time"),
    ],
)
def test_a_wrong_option_is_reported_before_reading(run: Run, words: list[str], said: str) -> None:
    result = run("stats", "missing.pcap", *words)
    assert (result.code, result.raw) == (2, b"")
    assert said in result.err
    assert "missing.pcap" not in result.err


def test_stats_needs_no_duckdb(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert run("stats", BASIC, "--json", "-q").code == 0
