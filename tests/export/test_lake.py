"""Exports into tables of Iceberg and Delta: the rows of an export, once, for any reader and after repeated exports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CAPTURES
from tests.remote import s3_server
from tests.support import RABBITMQ
from wiredecode.capture import open_capture
from wiredecode.cli import main
from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import AlreadyThere, CaptureId, KnownRun, LakeError, TableRun, contents, run_of
from wiredecode.export.lake.table import LakeWriter, commit
from wiredecode.tables.portable import portable_rows, portable_schema
from wiredecode.tables.reader import TableReader

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

A, B = RABBITMQ / "c43_basic.pcap", next(iter(sorted((CAPTURES / "nats").glob("*.pcap"))))
KINDS = ["delta", "iceberg"]
pytestmark = [
    pytest.mark.filterwarnings(f"ignore{what}")
    for what in ("::DeprecationWarning", "::UserWarning", "::ResourceWarning", ":Iceberg scan planning")
]
"""Of the libraries."""


@pytest.fixture(params=KINDS)
def out(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[request.param])
    return f"{request.param}:{tmp_path}/lake"


def export(out: str, *files: Path, level: str = "messages", more: str = "", code: int = 0) -> None:
    words = ["export", *map(str, files), "-o", out, "--level", level, "-q", *more.split()]
    assert main(words) == code


ORDER = ("time_ns", "frame", "index", "digest")


def sort(rows: Any) -> Any:
    return rows.sort_by([(column, "ascending") for column in ORDER if column in rows.schema.names])


def table(out: str, name: str) -> Any:
    """A table as Arrow, in order; through polars, since pyiceberg itself reads lists that are null as empty ones."""
    import polars as pl

    found = open_lake(out)._table(name)  # type: ignore[attr-defined]
    return sort((pl.scan_delta if out.startswith("delta") else pl.scan_iceberg)(found).collect().to_arrow())


def versions(out: str, name: str) -> int:
    found = open_lake(out)._table(name)  # type: ignore[attr-defined]
    return int(found.version()) if out.startswith("delta") else len(found.snapshots())


def expected(*files: Path, level: str = "messages") -> list[dict[str, Any]]:
    """The rows of one machine, with the types of Spark."""
    found: list[dict[str, Any]] = read(files, level).to_pylist()
    return found


@cache
def read(files: tuple[Path, ...], level: str) -> Any:
    reader = TableReader(open_capture([str(file) for file in files]), level, stable_ids=True)
    schema = portable_schema(reader.schema)
    rows = pa.Table.from_batches([portable_rows(batch, "", schema) for batch in reader], schema)
    return sort(rows)


def plain(rows: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (rows.drop_columns(["day"]) if "day" in rows.schema.names else rows).to_pylist()
    return found


def test_messages_equal_those_of_an_export_for_every_reader(out: str) -> None:
    export(out, A, B)
    assert plain(table(out, "messages")) == expected(A, B)
    lake: Any = open_lake(out)
    found = lake._table("messages")
    wanted = len(expected(A, B)), sum(row["size"] or 0 for row in expected(A, B))
    duckdb = pytest.importorskip("duckdb")
    rows = found.to_pyarrow_dataset() if out.startswith("delta") else found.scan().to_arrow_batch_reader()
    assert duckdb.from_arrow(rows).aggregate("count(*), sum(size)").fetchall() == [wanted]


def test_frames_have_a_table_per_protocol_with_its_layers_only(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", str(A), str(B), "-o", out, "--level", "frames"]) == 0
    wanted = expected(A, B, level="frames")
    names = [name for name in open_lake(out).tables() if name.startswith("frames_")]
    assert names == sorted({f"frames_{row['protocol']}" for row in wanted})
    assert capsys.readouterr().err.endswith(f" {len(wanted)} frames to {out} ({', '.join(names)})\n")
    for name in names:
        rows = table(out, name)
        layers = [field.name for field in rows.schema.field("layers").type]
        assert ("tank" in layers) == (name == "frames_tank")
        mine = [row for row in wanted if f"frames_{row['protocol']}" == name]
        for row in mine:
            row["layers"] = row["layers"] and {key: row["layers"][key] for key in layers}
        assert plain(rows) == mine


def test_tables_and_files_document_their_columns(out: str) -> None:
    export(out, A)
    schema = open_lake(out)._table("messages").schema()  # type: ignore[attr-defined]
    wanted = "stream, topic, subject or segment"
    if out.startswith("delta"):
        assert {field.name: field.metadata for field in schema.fields}["topic"]["comment"] == wanted
    else:
        assert schema.find_field("topic").doc == wanted
    (file, *_) = (path for path in parquet(out) if "messages" in str(path))
    assert pq.read_schema(file).field("topic").metadata[b"comment"].decode() == wanted


def test_the_same_captures_are_added_once(out: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    export(out, A, B)
    before = versions(out, "messages")
    copy = tmp_path / "copy of a.pcap"
    copy.write_bytes(A.read_bytes())
    export(out, B, copy)
    export(out, A)
    assert versions(out, "messages") == before
    assert main(["export", str(A), "-o", out, "--level", "messages"]) == 0
    assert f"nothing   to do: {out} has these captures already" in capsys.readouterr().err
    export(out, A, B, more="--overwrite")
    assert versions(out, "messages") > before
    assert plain(table(out, "messages")) == expected(A, B)
    assert table(out, "captures").num_rows == 2


def test_a_larger_set_replaces_its_subset_and_overlaps_are_refused(
    out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    export(out, A)
    export(out, A, B)
    assert plain(table(out, "messages")) == expected(A, B)
    third = sorted((CAPTURES / "nats").glob("*.pcap"))[1]
    export(out, B, third, code=2)
    assert "1 of the captures are in the table already, together with 1 others" in capsys.readouterr().err
    export(out, third)
    assert len(table(out, "messages")) == len(expected(A, B)) + len(expected(third))
    export(out, A, B, third)
    assert plain(table(out, "messages")) == expected(A, B, third)


def test_columns_can_be_added_later_for_all_readers(out: str) -> None:
    export(out, A, more="--columns topic,size")
    names = [name for name in table(out, "messages").schema.names if name != "day"]
    assert names == ["source", "time", "time_ns", "topic", "size"]
    export(out, B)
    rows = table(out, "messages").to_pylist()
    assert {row["body"] for row in rows if row["protocol"] is None} == {None}
    assert len(rows) == len(expected(A)) + len(expected(B))


def test_fields_inside_arrays_can_be_added_later(out: str) -> None:
    kafka = CAPTURES / "kafka" / "small.pcap"
    for file, column in ((kafka, "topic"), (kafka.parent / "errors.pcap.zst", "partition_data.index")):
        export(out, file, level="frames", more=f"--columns type,kafka.topic_data.{column}")
    rows = table(out, "frames_kafka").select(["type", "layers"]).to_pylist()
    found = [row["layers"]["kafka"]["topic_data"] for row in rows if row["type"] == "ProduceRequest"]
    assert [{"topic": "orders", "partition_data": None}] in found
    topics = [topic for each in found for topic in each]
    assert {part["index"] for each in topics for part in each["partition_data"] or ()} >= {0}


def test_all_columns_after_a_selection_need_overwrite(out: str, capsys: pytest.CaptureFixture[str]) -> None:
    export(out, A, more="--columns topic,size")
    before = versions(out, "messages")
    export(out, A, more="--columns topic,size")
    export(out, A, code=2)
    assert "already, with other columns (of an earlier --columns); --overwrite writes" in capsys.readouterr().err
    assert versions(out, "messages") == before
    export(out, A, more="--overwrite")
    assert sorted(map(str, plain(table(out, "messages").select(expected_names())))) == sorted(map(str, expected(A)))
    export(out, A, more="--columns topic")
    assert capsys.readouterr().err == "", "all columns have those of fewer"


def expected_names() -> list[str]:
    return [*expected(A)[0]]


def test_levels_and_selections_are_separate_runs(out: str) -> None:
    export(out, A, level="connections")
    export(out, A, level="packets")
    assert plain(table(out, "connections")) == expected(A, level="connections")
    assert plain(table(out, "packets")) == expected(A, level="packets")
    export(out, A, more="-c 1")
    export(out, A)
    assert len(table(out, "messages")) == 1 + len(expected(A))


def writer(out: str, file: Path) -> tuple[LakeWriter, TableRun]:
    """An export just before its commit."""
    run = run_of(contents([str(file)]), "messages")
    made = LakeWriter(open_lake(out), "messages", run)
    reader = TableReader(open_capture([str(file)]), "messages", stable_ids=True)
    for batch in reader:
        made.write(portable_rows(batch, "", portable_schema(reader.schema)))
    made.close()
    return made, run


@pytest.mark.parametrize("other", [A, B], ids=["the same capture", "another one"])
def test_two_writers_at_the_same_time(out: str, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one commits between the moment when the first one has looked, and its commit."""
    (first, one), (second, two) = writer(out, A), writer(out, other)
    replaces = TableRun.replaces
    calls: list[int] = []

    def between(run: TableRun, known: dict[int, KnownRun], *, overwrite: bool) -> list[int]:
        calls.append(1)
        found = replaces(run, known, overwrite=overwrite)
        if len(calls) == 1:
            commit(open_lake(out), "messages", two, second.take(), "messages", overwrite=False)
        return found

    monkeypatch.setattr(TableRun, "replaces", between)
    commit(open_lake(out), "messages", one, first.take(), "messages", overwrite=False)
    wanted = expected(A) if other == A else sorted([*expected(A), *expected(B)], key=lambda row: row["time_ns"])
    assert sorted(plain(table(out, "messages")), key=lambda row: row["time_ns"]) == wanted
    assert len(parquet(out)) == len({str(path) for path in parquet(out)}) == (2 if other == A else 4)


def parquet(out: str) -> list[Path]:
    return [path for path in Path(out.partition(":")[2]).rglob("*.parquet") if "checkpoint" not in path.name]


def test_a_commit_that_fails_leaves_the_table_and_no_files(
    out: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export(out, A)
    before = parquet(out)
    lake = type(open_lake(out))

    def broken(*_: object, **__: object) -> None:
        raise LakeError("messages: the store is gone")

    monkeypatch.setattr(lake, "add", broken)
    export(out, B, code=2)
    assert "the store is gone" in capsys.readouterr().err
    assert parquet(out) == before
    monkeypatch.undo()
    assert plain(table(out, "messages")) == expected(A)


def test_files_are_skipped_by_time(out: str) -> None:
    """The log or the manifest has the time range of each file."""
    export(out, A, B)
    lake: Any = open_lake(out)
    found = lake._table("messages")
    times = sorted(row["time"] for row in expected(A, B))
    if out.startswith("delta"):
        actions = pa.table(found.get_add_actions(flatten=True)).to_pylist()
        least = min(action["min.time"] for action in actions)
        assert least <= times[0]
        assert max(action["max.time"] for action in actions) >= times[-1]
        assert (times[0] - least).total_seconds() < 0.001
    else:
        assert not list(found.scan(row_filter=f"time > '{times[-1].isoformat()}'").plan_files())
        assert list(found.scan(row_filter=f"time >= '{times[-1].isoformat()}'").plan_files())


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("-o {} -", "standard input is read once"),
        ("-o {} {a} --partition-by protocol", "--partition-by does not go with"),
        ("-o {} {a} --format csv", "whose files are parquet"),
        ("-o iceberg:s3://bucket/x {a}", "Iceberg needs a catalog there"),
        ("-o iceberg:nothing_configured {a}", "for a folder say iceberg:./nothing_configured"),
        ("-o {} {a} -Y frame.number==1", "depends"),
    ],
)
def test_invalid_targets_are_one_line(out: str, words: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *words.format(out, a=A).split()]) == 2
    err = capsys.readouterr().err
    assert error in err
    assert err.count("\n") == 1


def capture(letter: str) -> CaptureId:
    return CaptureId(letter, 1, letter, letter)


@pytest.mark.parametrize(
    ("mine", "known", "replaced"),
    [
        ("abc", {}, []),
        ("abc", {7: KnownRun(2, 1, 2)}, [7]),
        ("abc", {7: KnownRun(1, 1, 1), 5: KnownRun(2, 1, 2)}, [5, 7]),
        ("abc", {7: KnownRun(3, 1, 3)}, AlreadyThere),
        ("abc", {7: KnownRun(4, 1, 3)}, AlreadyThere),
        ("abc", {7: KnownRun(2, 1, 1)}, LakeError),
    ],
)
def test_rows_that_a_run_replaces(mine: str, known: dict[int, KnownRun], replaced: Any) -> None:
    run = TableRun(tuple(map(capture, mine)))
    if isinstance(replaced, list):
        assert run.replaces(known, overwrite=False) == replaced
    else:
        with pytest.raises(replaced):
            run.replaces(known, overwrite=False)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server(monkeypatch) as uri:
        yield uri


@pytest.mark.slow
def test_tables_in_an_object_store(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", f"sqlite:///{tmp_path}/catalog.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__WAREHOUSE", f"{s3}/warehouse")
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__S3__ENDPOINT", os.environ["AWS_ENDPOINT_URL"])
    for out in (f"delta:{s3}/lake", "iceberg:prod:net"):
        export(out, A, B)
        export(out, A, B)
        assert plain(table(out, "messages")) == expected(A, B)
        assert open_lake(out).tables() == ["captures", "messages"]
