"""``wiredecode sql``: answers, decoded columns, and errors."""

from __future__ import annotations

import gc
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.view.frames import CLIENT, packets, write
from wiredecode.protocols.rabbitmq_stream import layers

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Other commands freeze the garbage collector; DuckDB's bindings then fail at the end of the process."""
    yield
    gc.unfreeze()


def test_frames_messages_and_packets_are_tables(run: Run, basic: Path) -> None:
    query = (
        "select (select count(*) from frames) as f, (select count(*) from messages) as m, count(*) as p from packets"
    )
    assert json.loads(run("sql", basic, query).out) == {"f": 142, "m": 64, "p": 230}


def test_the_answer_agrees_with_the_records(run: Run, basic: Path) -> None:
    records = [json.loads(line) for line in run("pcap", basic, "--json", "-q").lines]
    query = "select frame, time_ns, type, packets, layers.rabbitmq_stream.stream as stream from frames order by frame"
    found = [json.loads(line) for line in run("sql", basic, query).lines]
    assert found == [
        {name: record[name] for name in ("frame", "time_ns", "type", "packets")}
        | {"stream": record["layers"]["rabbitmq_stream"].get("stream")}
        for record in records
    ]


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("select type, count(*) from frames where length > 5 group by all", {"type", "length"}),
        ("select max(time_ns) from frames", {"time_ns"}),
        ("select f.type from frames f join frames g on f.request = g.frame", {"type", "request", "frame"}),
        ("select count(status) from (select status, layers from frames)", {"status"}),
        ("from frames select layers.rabbitmq_stream.stream", {"layers"}),
    ],
)
def test_only_columns_that_a_query_reads_are_decoded(captures: Path, query: str, columns: set[str]) -> None:
    from wiredecode.capture import open_capture
    from wiredecode.export.query import Database
    from wiredecode.tables.reader import TableReader

    asked: list[tuple[str, set[str]]] = []

    def opener(level: str, names: list[str] | None) -> tuple[TableReader, Iterator[Any]]:
        if names is not None:
            asked.append((level, set(names)))
        reader = TableReader(open_capture([captures / "rabbitmq-stream" / "c43_basic.pcap"]), level, columns=names)
        return reader, iter(reader)

    with Database(opener) as database:
        assert sum(len(batch) for batch in database.answer(query)[1]) > 0
        assert database.tables[0].needed == columns
    wanted = {"time" if name == "time_ns" else name for name in columns}
    assert asked
    assert all(found == ("frames", wanted) for found in asked)


@pytest.mark.parametrize("name", ["x.csv", "x.json", "x.ndjson", "x.parquet", "x.arrow"])
def test_answers_go_into_files(run: Run, basic: Path, tmp_path: Path, name: str) -> None:
    form, query = name.removeprefix("x."), "select 'a' as a, sum(length) as total, 1, 1 from frames"
    result = run("sql", basic, query, "-o", tmp_path / name, "--format", form)
    assert (result.code, result.raw, result.err) == (0, b"", "")
    data = (tmp_path / name).read_bytes()
    row = {"a": "a", "total": 9692, "1": 1, "1_2": 1}
    if name == "x.csv":
        assert data == b'"a","total","1","1_2"\n"a",9692,1,1\n'
    elif name == "x.parquet":
        import pyarrow.parquet as pq

        assert pq.read_table(io.BytesIO(data)).to_pylist() == [row]
    elif name == "x.arrow":
        import pyarrow.ipc

        assert pyarrow.ipc.open_file(data).read_all().to_pylist() == [row]
    else:
        assert json.loads(data) == ([row] if name == "x.json" else row)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_table_fits_and_is_escaped(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    evil = "\x1b[2J\x1b]0;owned\x07\u202e[red]" + "x" * 300
    path = write(tmp_path / "evil.pcap", packets([(CLIENT, layers.Create(correlation_id=3, stream=evil))]))
    query = "select layers.rabbitmq_stream.stream, null as nothing, interval 90 seconds from frames"
    result = run("sql", path, query, "--format", "table")
    assert result.code == 0
    assert not {"\x1b", "\x07", "\u202e"} & set(result.out)
    assert "\\x1b[2J" in result.out
    assert "nothing" in result.out and "null" not in result.out
    assert max(map(len, result.lines)) <= 80


def test_a_long_answer_is_shortened_on_terminals_only(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wiredecode.cli.sql.MAX_ROWS", 10)
    result = run("sql", basic, "select frame from frames", "--format", "table")
    assert len(result.lines) == 12
    assert result.err == "wiredecode: these are the first 10 rows; -o FILE writes all of them\n"
    assert run("sql", basic, "select frame from frames", "--format", "table", "-q").err == ""
    assert len(run("sql", basic, "select frame from frames").lines) == 142


@pytest.mark.parametrize("level", ["frames", "messages", "packets", "connections"])
@pytest.mark.parametrize("chosen", [["--from", "0.01", "--to", "0.02"], ["-Y", "tcp.port == 37492"]])
def test_tables_have_the_rows_that_export_writes(
    level: str, chosen: list[str], run: Run, basic: Path, tmp_path: Path
) -> None:
    if level == "packets" and "-Y" in chosen:
        chosen = ["-Y", "tcp.srcport == 37492"]
    out = tmp_path / "rows.ndjson"
    assert run("export", "-q", basic, "--level", level, *chosen, "-o", out).code == 0
    answer = json.loads(run("sql", basic, f"select count(*) as n from {level}", *chosen).out)
    every = json.loads(run("sql", basic, f"select count(*) as n from {level}").out)
    assert answer["n"] == len(out.read_text().splitlines())
    assert answer["n"] < every["n"] or level == "messages"


def test_a_filter_that_does_not_fit_a_table_is_one_line(run: Run, basic: Path) -> None:
    for query, display in (("from packets", 'frame.type == "Publish"'), ("from frames", "frame.typ == 1")):
        result = run("sql", basic, query, "-Y", display)
        assert (result.code, result.out) == (2, "")
        assert "frame.typ" in result.err
    assert json.loads(run("sql", basic, "select count(*) as n from frames", "-Y", 'frame.type == "Publish"').out) == {
        "n": sum(line.endswith('"Publish"}') for line in run("sql", basic, "select type from frames").lines)
    }


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("selec", "Parser Error: syntax error at or near"),
        ("select tpye from frames", 'Candidate bindings: "type"'),
        ("select * from frams", 'Did you mean "frames"?'),
        ("select 1; select 2", "one query at a time; there are 2"),
        ("", "the query is empty"),
        ("select cast(type as int) from frames", "Conversion Error"),
    ],
)
def test_a_wrong_query_is_one_line(run: Run, basic: Path, query: str, said: str) -> None:
    result = run("sql", basic, query)
    assert (result.code, result.raw) == (2, b"")
    (line,) = result.err.splitlines()
    assert line.startswith("wiredecode: ")
    assert said in line


def test_damage_is_reported_and_earlier_rows_count(run: Run, captures: Path) -> None:
    result = run("sql", captures / "rabbitmq-stream" / "d_cutfile.pcap", "select count(*) as n from frames, packets")
    assert (result.code, json.loads(result.out)) == (2, {"n": 95 * 155})
    assert result.err.count("is truncated in the middle") == result.err.count("\n") == 1


@pytest.mark.parametrize("query", ["select count(*) from frames", "select * from messages", "select 1 from packets"])
@pytest.mark.parametrize("out", [["--format", "table"], ["--format", "csv"], ["-o", "answer.csv"]])
def test_unreadable_captures_give_no_answer(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, out: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("no capture at all, but long enough to have had a header\n")
    for name in ("missing.pcap", "notes.txt"):
        result = run("sql", name, query, *out)
        assert (result.code, result.raw, result.err.count("\n")) == (2, b"", 1)
        assert name in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_standard_input_serves_one_mention(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(basic.read_bytes())))
    assert "this query reads it 2 times" in run("sql", "-", "select 1 from frames, packets").err
    assert json.loads(run("sql", "-", "select count(*) as n from frames").out) == {"n": 142}


def test_a_failure_while_decoding_is_no_answer(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("wiredecode.tables.reader.FrameBatches.add", fail)
    result = run("sql", basic, "select count(*) from frames")
    assert (result.code, result.raw) == (70, b"")
    assert "internal error: RuntimeError: boom" in result.err


def test_without_duckdb_it_says_what_to_install(run: Run, basic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = run("sql", basic, "select 1")
    assert result.code == 2
    assert "pip install '.[sql]'" in result.err


def test_markdown_cells_escape_bars(run: Run, basic: Path) -> None:
    result = run("sql", basic, "select 'a|b' as x, unhex('00ff') as y, 'c'::blob as z", "--format", "markdown")
    assert result.lines == ["| x | y | z |", "| --- | --- | --- |", "| a\\|b | 0x00ff | c |"]
