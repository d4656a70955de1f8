"""``wiredecode.check``, ``follow``, ``trace``, ``stats`` and ``flows``: what they return, and parts of captures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import wiredecode
from tests.support import RABBITMQ
from wiredecode.protocols.catalogue import UnknownColumn
from wiredecode.results import Tabular
from wiredecode.tables.schema import declared_columns

CAPTURES = RABBITMQ.parent
BASIC = RABBITMQ / "c43_basic.pcap"
CUT = RABBITMQ / "d_cutfile.pcap"
STARVED = CAPTURES / "stories" / "credit-starvation.pcap"
SKIPPED = CAPTURES / "flows" / "r-wrong-offset.pcap.zst"


def command(*args: object) -> str:
    """Output of a command, without its totals."""
    run, environment = [sys.executable, "-m", "wiredecode", *map(str, args), "-q"], {**os.environ}  # not readline's
    return subprocess.run(run, check=True, capture_output=True, text=True, env=environment).stdout


def results() -> dict[str, Tabular]:
    return {
        "check": wiredecode.check(STARVED),
        "stats": wiredecode.stats(BASIC),
        "flows": wiredecode.flows(SKIPPED),
        "trace": wiredecode.trace(BASIC, frame=31),
        "follow": wiredecode.follow(BASIC, 2),
    }


@pytest.mark.parametrize("name", ["check", "stats", "flows", "trace", "follow"])
def test_a_result_has_the_same_columns_and_rows_in_arrow_pandas_polars_and_dataframes(name: str) -> None:
    result = results()[name]
    table = result.table()
    pandas, polars, made = result.to_pandas(), result.to_polars(), pd.DataFrame(result)
    assert table.num_rows == len(pandas) == len(polars) == len(made) > 0
    assert table.column_names == list(pandas.columns) == polars.columns == list(made.columns)
    assert isinstance(polars, pl.DataFrame) and result.to_arrow().equals(table)
    html = result._repr_html_()
    assert html.startswith("<pre>") and "<" not in html[5:-6]


def test_the_text_of_a_result_is_that_of_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    made = results()
    assert str(made["flows"]) == command("flows", SKIPPED).rstrip("\n")
    assert str(made["stats"]) == command("stats", BASIC).rstrip("\n")
    assert str(made["follow"]) == command("follow", BASIC, "-n", 2).rstrip("\n")
    hops, sentences = str(made["trace"]), command("trace", BASIC, "--frame", 31)
    assert hops.split() == sentences.split()
    assert (
        str(made["check"]).split()
        == command("check", STARVED, "-v").replace("2 notes: --severity note", "2 notes.").split()
    )


def test_a_test_can_say_that_there_are_no_errors() -> None:
    healthy, starved = wiredecode.check(BASIC), wiredecode.check(STARVED)
    assert healthy and not healthy.errors and not healthy.warnings
    assert [each.name for each in starved.warnings] == ["rabbitmq_stream.credit-starvation"]
    assert len(starved) == len(starved.warnings) + len(starved.notes) and starved.verdict.whole


def test_a_filter_leaves_the_problems_of_the_connections_that_it_chooses() -> None:
    assert not wiredecode.check(STARVED, filter="tcp.stream == 1").warnings
    assert wiredecode.check(STARVED, filter="tcp.stream == 5").warnings


QUESTIONS: dict[str, Callable[..., Any]] = {
    "check": wiredecode.check,
    "stats": wiredecode.stats,
    "flows": wiredecode.flows,
    "trace": lambda path, **reading: wiredecode.trace(path, frame=31, **reading),
    "follow": lambda path, **reading: wiredecode.follow(path, 1, **reading),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_damage_is_raised_with_the_answer_from_before_it_or_is_a_warning(question: str) -> None:
    ask = QUESTIONS[question]
    with pytest.raises(wiredecode.CaptureError, match="truncated in the middle of a packet record") as raised:
        ask(CUT)
    answer = raised.value.result
    assert answer.damage == raised.value.errors == [raised.value]
    with pytest.warns(wiredecode.DamagedCapture, match="truncated in the middle of a packet record"):
        lenient = ask(CUT, strict=False)
        assert str(lenient) == str(answer)
        assert lenient.table() == answer.table() and answer.table().num_rows
    assert str(answer).splitlines()[-1] == f"not read to the end: {raised.value}"
    assert not ask(BASIC).damage


@pytest.mark.parametrize(
    "ask",
    [
        *QUESTIONS.values(),
        lambda path, **reading: list(wiredecode.read(path, **reading)),
        lambda path, **reading: list(wiredecode.read(path, **reading).messages()),
        lambda path, **reading: wiredecode.read(path, **reading).totals,
        lambda path, **reading: wiredecode.read(path, **reading).reader().read_all(),
        lambda path, **reading: wiredecode.read(path, **reading).to_polars(),
        lambda path, **reading: pd.DataFrame(wiredecode.read(path, **reading)),
    ],
)
def test_the_warning_names_the_line_that_asked(ask: Any) -> None:
    """It named a line of the package, or of the package that read for the user."""
    with pytest.warns(wiredecode.DamagedCapture) as warned:
        ask(CUT, strict=False)
    assert {each.filename for each in warned} == {__file__}


def test_the_verdict_on_a_damaged_capture_says_that_it_is_not_the_whole(tmp_path: Path) -> None:
    """The command printed nothing, and ``whole`` was true in JSON."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(BASIC.read_bytes()[:5000])
    run = [sys.executable, "-m", "wiredecode", "check", str(cut)]
    said, json = (subprocess.run([*run, *more], capture_output=True, text=True) for more in ([], ["--json"]))
    assert (said.returncode, json.returncode) == (2, 2)
    assert "No problems in 28 messages" in said.stdout and "captures were not read to the end" in said.stdout
    assert '"whole":false' in json.stdout
    with pytest.warns(wiredecode.DamagedCapture):
        assert not wiredecode.check(cut, strict=False).verdict.whole


def test_rows_before_damage_are_kept() -> None:
    with pytest.raises(wiredecode.CaptureError) as raised:
        wiredecode.read(CUT).table()
    assert raised.value.result.num_rows == 95
    with pytest.raises(wiredecode.CaptureError) as raised:
        wiredecode.read(CUT).messages().to_pandas()
    assert raised.value.result.num_rows == len(wiredecode.read(CUT).messages())


def test_wrong_words_are_refused_at_once_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"columns=\['type'\]"):
        wiredecode.read(BASIC, columns="type")
    with pytest.raises(ValueError, match="one of raw, hex"):
        wiredecode.read(BASIC, bytes="octal")
    with pytest.raises(ValueError, match=r"packets have no frame\.type"):
        wiredecode.read(BASIC, level="packets", filter="frame.type == Publish")
    with pytest.raises(KeyError, match="there is frames, latency"):
        wiredecode.stats(BASIC)["latncy"]
    assert "no message with 'no such'" in repr(wiredecode.trace(BASIC, text="no such"))


def test_a_trace_that_finds_nothing_is_false_and_says_why() -> None:
    found = wiredecode.trace(BASIC, id="no such")
    assert not found and "no such" in str(found) and found.table().num_rows == 0
    with pytest.raises(LookupError, match="no such"):
        found.record()
    with pytest.raises(ValueError, match="which message"):
        wiredecode.trace(BASIC)
    with pytest.raises(TypeError, match="unexpected"):
        wiredecode.trace(BASIC, frame=31, bod=b"x")


def test_follow_names_the_connections_if_several_fit() -> None:
    with pytest.raises(LookupError, match=r"1, 2, 3, 4, 5, 6, 7$"):
        wiredecode.follow(BASIC)
    with pytest.raises(LookupError, match="no connection"):
        wiredecode.follow(BASIC, 99)
    only = wiredecode.follow(BASIC, filter='frame.type == "StoreOffset"')
    assert {frame.connection.number for frame in only} == {only.connection} == {6}


@pytest.mark.parametrize("module", ["check", "stats", "flows", "trace"])
def test_functions_stay_functions_once_the_packages_of_their_names_are_imported(module: str) -> None:
    code = f"import wiredecode.{module}, wiredecode; from wiredecode import {module} as f; assert callable(f)"
    subprocess.run([sys.executable, "-c", f"{code}; assert f is wiredecode.{module}"], check=True)


@pytest.mark.parametrize("level", ["frames", "messages", "packets", "connections"])
def test_parts_of_a_capture_are_those_of_the_list_of_its_rows(level: str) -> None:
    capture = wiredecode.read(BASIC, level=level)
    count, rows = len(capture), capture.table().to_pylist()
    assert capture.head(3).table().to_pylist() == rows[:3]
    ends = ((2, 5), (3, None), (None, 4), (-3, None), (2, -2), (5, 3), (count, None))
    for part in (slice(*each) for each in ends):
        chosen = capture[part]
        assert chosen.table().to_pylist() == rows[part] and len(chosen) == len(rows[part]) == sum(1 for _ in chosen)
    assert capture[1:][1:3].table().to_pylist() == rows[1:][1:3]


def test_a_number_gives_a_frame_and_one_beyond_the_end_an_index_error() -> None:
    capture = wiredecode.read(BASIC, filter='frame.type == "Publish"')
    frames = list(capture)
    assert (capture[0].number, capture[-1].number) == (frames[0].number, frames[-1].number)
    assert capture.messages()[1]["frame"] == frames[1].number
    for beyond in (len(frames), -len(frames) - 1):
        with pytest.raises(IndexError):
            capture[beyond]
    with pytest.raises(ValueError, match="step"):
        capture[::2]


@pytest.mark.parametrize("level", ["frames", "messages", "packets", "connections", "flows"])
def test_an_unknown_column_is_refused_before_anything_is_read(level: str) -> None:
    with pytest.raises(UnknownColumn, match="no column typ"):
        wiredecode.read("no such file", level=level, columns=["typ"])


def test_instants_and_durations_have_different_names() -> None:
    """An integer that is a time since 1970 is called ``..._time_ns``; other ``..._ns`` are durations."""
    for table, columns in declared_columns().items():
        for name, (_, meaning) in columns.items():
            if name != "packet" and not name.endswith("packet"):
                assert bool(re.search("since 1970", meaning)) == name.endswith("time_ns"), (table, name)
