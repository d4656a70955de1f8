"""Tables below one folder: whole or missing, with the totals of one machine, and without repeated rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

import wiredecode
from tests.spark.support import expected, same_rows
from tests.spark.test_core import NATS_PORTS
from tests.spark.test_pipeline import BASIC, CAPTURES, cut
from tests.support import packets
from wiredecode.api import DamagedCapture
from wiredecode.export import footer
from wiredecode.export.lake import table as lake_table
from wiredecode.export.lake.table import TaskStore
from wiredecode.export.writers import WriterSettings
from wiredecode.frames.record import totals_record
from wiredecode.frames.totals import Totals
from wiredecode.spark import sample, writing
from wiredecode.spark.accounts import TaskReports, totals_rows
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.folder import DONE, VIEWS, Folder, Occupied
from wiredecode.spark.parcels import pack, report_text
from wiredecode.spark.written import literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wiredecode.cli.spark_options import SparkOptions

FAULTY = CAPTURES / "rabbitmq-stream" / "d_shuffled_dups.pcap"
LIFTBRIDGE = CAPTURES / "liftbridge" / "31-lb-all-types.pcap"
JETSTREAM = CAPTURES / "nats" / "13-jetstream.pcap"
SERVER_LINKS = CAPTURES / "nats" / "50-server-links.pcap"


def job(
    inputs: Sequence[object], out: object, *, level: str | None = "frames", partitions: int = 3, **chosen: Any
) -> SparkOptions:
    from wiredecode.cli.options import Decoding, Verbosity
    from wiredecode.cli.spark_options import SparkCluster, SparkOptions

    return SparkOptions(
        inputs=[str(path) for path in inputs],
        out=str(out),
        level=level,
        partitions=partitions,
        cluster=SparkCluster(master="local[2]"),
        decoding=Decoding(),
        verbosity=Verbosity(quiet=True),
        **chosen,
    )


def write(spark: SparkSession, wanted: SparkOptions) -> TaskReports:
    """Run the command in this session."""
    from wiredecode.cli.spark_job import SparkRun
    from wiredecode.spark.files import find

    return SparkRun(wanted, wanted.demand(), find(wanted.inputs, wanted.source)).work(spark)


def table(spark: SparkSession, place: Path, demand: TableDemand | None = None) -> pa.Table:
    """A written table with the columns of a demand, some of which may be missing in files."""
    reader = spark.read if demand is None else spark.read.schema(from_arrow_schema(demand.schema))
    found = reader.parquet(literal(str(place)))
    return (found if demand is None else found.select(*demand.schema.names)).toArrow()


def visible(folder: Path) -> set[str]:
    """The files that a reader sees, without views."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")} - {VIEWS}


def test_a_run_leaves_its_tables_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "lake [1]"
    accounts = write(spark, job([BASIC], out))
    assert visible(out) == {"frames", "findings", "totals", "problems", DONE}
    assert not [path for path in out.iterdir() if path.name.startswith((".run", ".old"))]
    same_rows(table(spark, out / "frames", TableDemand("frames")), expected([BASIC], TableDemand("frames")))
    capture = wiredecode.read(str(BASIC), level="messages")
    capture.table()
    assert accounts.totals == capture.totals
    done = json.loads((out / DONE).read_text())
    assert {name: done[name] for name in totals_record(capture.totals)} == totals_record(capture.totals)
    folders = {str(path.parent.relative_to(out / "frames")) for path in out.rglob("frames/**/*.parquet")}
    assert {name.partition("/")[0] for name in folders} == {"protocol=rabbitmq_stream"}


@pytest.mark.slow
def test_times_are_microseconds_with_statistics_and_numbers_are_bigint(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, job([BASIC], tmp_path / "a", columns="time,type"))
    write(spark, job([BASIC], tmp_path / "b", level="messages"))
    for name in ("a/frames", "b/messages"):
        file = pq.ParquetFile(next((tmp_path / name).rglob("*.parquet")))
        place = [file.schema.column(index).path for index in range(len(file.schema))].index("time")
        kind = json.loads(file.schema.column(place).logical_type.to_json())
        assert (kind["timeUnit"], kind["isAdjustedToUTC"]) == ("microseconds", True)
        assert file.metadata.row_group(0).column(place).statistics.has_min_max
    numbers = table(spark, tmp_path / "b" / "messages").schema
    assert {numbers.field(name).type for name in ("offset", "sequence", "chunk")} == {pa.int64()}


def test_files_are_placed_and_those_of_other_attempts_removed(tmp_path: Path) -> None:
    out = tmp_path / "100% [1]"
    folder = Folder(str(out))
    folder.begin()
    for name in ("part-1-1.parquet", "part-1-2.parquet"):
        (out / folder.attempts / name).write_text(name)
    folder.move([(f"{folder.attempts}/part-1-2.parquet", folder.table("messages/day=2026-01-31/type=a%2Fb/x.parquet"))])
    folder.commit({})
    found = [path for path in out.rglob("*") if path.suffix == ".parquet"]
    assert [path.read_text() for path in found] == ["part-1-2.parquet"]
    assert found[0].parent.name == "type=a%2Fb"


def written(place: Path, demand: TableDemand, rows: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Reports of a task's files, written in row groups of 16 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake_table, "WriterSettings", lambda **how: WriterSettings(row_group=16, order=how["order"]))
        sink = replace(Folder(str(place)).sink(demand.levels), task_store=TaskStore(str(place), {}, "", None))
        return pa.Table.from_batches(sink((demand.level, part) for part in rows)).to_pylist()


def test_a_file_that_is_large_is_finished_and_another_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES", 1)
    monkeypatch.setattr(footer, "BUFFER_BYTES", 1)
    monkeypatch.setitem(writing.PARTITION_COLUMNS, "messages", ("day",))
    demand = TableDemand("messages", columns=["time", "time_ns", "protocol", "offset"])
    rows = expected([BASIC], demand).combine_chunks().to_batches(max_chunksize=16)
    written_rows = written(tmp_path, demand, [row.select(["time", "time_ns", "offset"]) for row in rows])
    assert len(written_rows) == len(rows) > 1
    assert sum(row["rows"] for row in written_rows) == sum(map(len, rows))
    files = {str(path.relative_to(tmp_path / "messages")): path.stat().st_size for path in tmp_path.rglob("*.parquet")}
    assert {row["path"]: row["size"] for row in written_rows} == files


def test_frames_have_the_columns_of_their_protocol(tmp_path: Path) -> None:
    demand = TableDemand("frames", decode_as=NATS_PORTS)
    written_rows = written(tmp_path, demand, expected([BASIC, LIFTBRIDGE], demand).to_batches())
    layers = {}
    for row in written_rows:
        if row["table"] == "frames":
            file = pq.ParquetFile(tmp_path / "frames" / row["path"])
            assert len(file.schema) < 600, "of a thousand columns a protocol has its own"
            layers[row["path"].split("/")[0]] = {field.name for field in file.schema_arrow.field("layers").type}
    assert layers["protocol=rabbitmq_stream"] == {"rabbitmq_stream", "proxy", "other"}
    assert {"nats", "liftbridge"} <= layers["protocol=liftbridge"]
    assert not {"rabbitmq_stream", "tank", "cursus"} & layers["protocol=nats"]


@pytest.mark.slow
def test_spark_reads_the_layers_of_every_protocol_from_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes the columns of one file, unless it finds those of all."""
    write(spark, job([BASIC, SERVER_LINKS, CAPTURES / "cursus" / "group.pcap"], tmp_path / "lake"))
    found = spark.read.parquet(str(tmp_path / "lake" / "frames"))
    counts = found.selectExpr(*(f"count(layers.{name})" for name in ("rabbitmq_stream", "nats", "cursus"))).first()
    assert counts is not None and all(counts), counts
    views = duckdb.sql(f"select count(*) from read_parquet('{tmp_path}/lake/frames/**/*.parquet')").fetchall()
    assert views == [(found.count(),)]
    assert "frames__" not in (tmp_path / "lake" / VIEWS).read_text()


def test_an_engine_skips_row_groups_by_time(tmp_path: Path) -> None:
    """According to DuckDB's scan and the statistics in the file; rows came in any order."""
    demand = TableDemand("frames", columns=[*writing.REQUIRED_COLUMNS["frames"], "length"])
    mixed = [rows.take(list(reversed(range(len(rows))))) for rows in expected([BASIC], demand).to_batches(16)]
    path = tmp_path / "frames" / written(tmp_path, demand, mixed)[0]["path"]
    metadata = pq.ParquetFile(path).metadata
    place = next(at for at in range(metadata.num_columns) if metadata.schema.column(at).path == "time")
    spans = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
    assert len(spans) > 2
    assert all(one.max <= two.min for one, two in pairwise(spans))
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for test, wanted in (("<", 1), (">=", len(spans) - 1)):
            query = f"explain analyze select sum(length) from '{path}' where time {test} '{spans[1].min}'"
            scanned = re.search(r"Row Groups Scanned: (\d+) / (\d+)", str(database.execute(query).fetchall()))
            assert scanned is not None and scanned.groups() == (str(wanted), str(len(spans)))


@pytest.mark.slow
def test_another_run_replaces_tables_and_removes_leftovers(spark: SparkSession, tmp_path: Path) -> None:
    out, demand = tmp_path / "lake", TableDemand("messages")
    write(spark, job([BASIC], out, columns="type", display_filter='frame.type == "Publish"'))
    (out / ".run-dead").mkdir()
    (out / ".run-dead" / "frames").write_text("half a table")
    (out / ".old-dead").mkdir()
    for _ in range(2):
        write(spark, job([BASIC], out, level="messages"))
        assert visible(out) == {"messages", "totals", "problems", DONE}
        same_rows(table(spark, out / "messages", demand), expected([BASIC], demand))
    assert not [path for path in out.iterdir() if path.name.startswith((".run", ".old"))]


def test_a_foreign_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(Occupied, match=r"holds thesis.txt"):
        Folder(str(tmp_path)).begin()
    other = tmp_path / "other"
    (other / "frames").mkdir(parents=True)
    with pytest.raises(Occupied, match="holds frames"):
        Folder(str(other)).begin()
    with pytest.raises(Occupied, match="is a file"):
        Folder(str(tmp_path / "thesis.txt")).begin()
    assert visible(tmp_path) == {"thesis.txt", "other"}


@pytest.mark.parametrize("fails_at", range(1, 8))
def test_a_commit_that_is_killed_at_any_step_leaves_nothing_that_looks_complete(
    tmp_path: Path, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are deletions and renames; after each one the marker is valid, and the next run works."""
    monkeypatch.setattr(Folder, "views", lambda folder: "")
    steps = 0

    def run(content: str, *, killed: bool) -> None:
        folder = Folder(str(tmp_path))
        folder.begin()
        for name in ("frames", "totals"):
            (tmp_path / folder.table(name)).write_text(content)
        if killed:
            for name in ("_rename", "_delete"):
                monkeypatch.setattr(folder, name, counted(getattr(folder, name)))
        folder.commit({"run": content})

    def counted(step: Any) -> Any:
        def wrapper(*names: str) -> None:
            nonlocal steps
            steps += 1
            if steps == fails_at:
                raise KeyboardInterrupt
            step(*names)

        return wrapper

    run("old", killed=False)
    with suppress(KeyboardInterrupt):
        run("new", killed=True)
    found = {name: (tmp_path / name).read_text() for name in ("frames", "totals") if (tmp_path / name).exists()}
    if (tmp_path / DONE).exists():
        run_told = json.loads((tmp_path / DONE).read_text())["run"]
        assert found == {"frames": run_told, "totals": run_told}
    run("newest", killed=False)
    assert {path.name for path in tmp_path.iterdir()} == {"frames", "totals", DONE, VIEWS}
    assert (tmp_path / "frames").read_text() == "newest"


@pytest.mark.slow
def test_findings_problems_and_totals_by_source_are_written(spark: SparkSession, tmp_path: Path) -> None:
    for source in ("client", "broker"):
        for path in cut(tmp_path / source, packets(FAULTY), 3):
            last = path
    last.write_bytes(last.read_bytes()[:-3])
    out = tmp_path / "out"
    accounts = write(spark, job([tmp_path / "client", tmp_path / "broker"], out, source="folder"))
    files = {source: sorted((tmp_path / source).iterdir()) for source in ("client", "broker")}
    demand = TableDemand("frames")
    wanted = pa.concat_tables([expected(some, demand, source) for source, some in files.items()])
    same_rows(table(spark, out / "frames", demand), wanted)
    found = table(spark, out / "findings")
    assert len(found) == pc.sum(pc.list_value_length(wanted["findings"])).as_py() > 0
    codes = sorted(each["code"] for some in wanted["findings"].to_pylist() for each in some or ())
    assert sorted(found["code"].to_pylist()) == codes
    assert set(found["frame"].to_pylist()) <= set(wanted["frame"].to_pylist())
    with duckdb.connect() as database:
        database.execute((out / "_views.sql").read_text())
        assert database.execute("select count(*), count(distinct protocol) from frames").fetchall() == [
            (len(wanted), 1)
        ]
        assert "layers" in [row[0] for row in database.execute("describe frames_rabbitmq_stream").fetchall()]
        assert database.execute("select count(*) from findings").fetchall() == [(len(found),)]
    (problem,) = table(spark, out / "problems").to_pylist()
    assert (problem["source"], problem["file"]) == ("broker", str(last))
    assert "at byte" in problem["problem"]
    totals = table(spark, out / "totals")
    for source, some in files.items():
        capture = wiredecode.read(map(str, some), strict=False)
        with pytest.warns(DamagedCapture) if source == "broker" else nullcontext():
            capture.table()
        assert accounts.sources[source] == capture.totals
        rows = totals.filter(pc.equal(totals["source"], source)).to_pylist()
        frames = {
            (row["protocol"], row["type"], row["status"]): row["value"] for row in rows if row["section"] == "frames"
        }
        assert frames == capture.totals.frames
    assert accounts.totals.closes


def test_several_levels_are_decoded_together(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    write(spark, job([BASIC, JETSTREAM], out, level="messages,connections"))
    assert visible(out) == {"messages", "connections", "totals", "problems", DONE}
    for level in ("messages", "connections"):
        demand = TableDemand(level)
        same_rows(table(spark, out / level, demand), expected([BASIC, JETSTREAM], demand))


@pytest.mark.slow
def test_packets_have_their_totals_too(spark: SparkSession, tmp_path: Path) -> None:
    accounts = write(spark, job([BASIC], tmp_path / "out", level="packets", columns="length"))
    assert accounts.totals.packets == len(packets(BASIC)) == len(table(spark, tmp_path / "out" / "packets"))


@pytest.mark.slow
def test_connections_decoded_in_different_buckets_are_reported(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample, "SHOWN_BYTES", 0)
    accounts = write(spark, job([SERVER_LINKS], tmp_path / "out", columns="type"))
    assert {port for name, port in accounts.apart if name == "nats"} == set(NATS_PORTS)


def test_a_repeated_report_counts_once() -> None:
    first, second = (
        Totals(packets=3, tcp_packets=2, first_ns=5, last_ns=9),
        Totals(packets=3, connections=1, captured=7),
    )
    second.framed, second.frames = 7, {("nats", "PUB", "ok"): 1}
    reports = [
        report_text("a", totals=pack(first), file="x", place=0),
        report_text("a", totals=pack(first), file="y", place=0),
        report_text("a", totals=pack(second), apart=[["nats", 1]], bucket=0),
        report_text("a", totals=pack(second), apart=[["nats", 1]], bucket=1),
        report_text("a", problem="y: is cut", file="y"),
    ]
    accounts = TaskReports.of([*reports, *reports])
    assert (accounts.totals.packets, accounts.totals.connections, accounts.totals.captured) == (6, 2, 14)
    assert accounts.totals.frames == {("nats", "PUB", "ok"): 2}
    assert (accounts.totals.first_ns, accounts.totals.last_ns) == (5, 9)
    assert accounts.totals.closes
    assert accounts.problems == [("a", "y", "y: is cut")]
    assert accounts.apart == [("nats", 1)]
    assert ("a", "frames", "count", "nats", "PUB", "ok", None, 2) in list(totals_rows(accounts))


@pytest.mark.slow
@pytest.mark.parametrize("level", ["messages", "packets"])
def test_a_filter_that_nothing_matches_gives_an_empty_table_and_the_totals(
    spark: SparkSession, tmp_path: Path, level: str
) -> None:
    out = tmp_path / "lake"
    accounts = write(spark, job([BASIC], out, level=level, display_filter="frame.length > 1000000"))
    assert accounts.totals.packets == 230
    assert visible(out) == {level, "totals", "problems", DONE}
    assert not [*out.rglob(f"{level}/**/*.parquet")]


@pytest.mark.slow
def test_the_only_input_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    accounts = write(spark, job([tmp_path / "missing.pcap"], out))
    assert [problem.rsplit(": ", 1)[1] for _, _, problem in accounts.problems] == ["does not exist"]
    assert not visible(out)
