"""Files to tables on Spark: the rows of one machine, for any split of the capture and any order of files."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import wiredecode.spark as wiredecode_spark
from tests.pcap import write_pcap
from tests.spark.support import expected, same_rows
from tests.spark.test_core import NATS_PORTS
from tests.support import packets
from wiredecode.capture import remote
from wiredecode.cli import main
from wiredecode.spark import pipeline
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import FileProblem, UnreadableFile
from wiredecode.spark.parcels import unpack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURES = Path(__file__).parent.parent.parent / "captures"
BASIC = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
NATS = CAPTURES / "nats" / "08-pipelined-small.drop1pct.pcap"
SLOW = pytest.mark.slow
Packets = list[tuple[int, bytes]]


def run(
    spark: SparkSession, paths: Sequence[object], demand: TableDemand, **how: Any
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """The rows, and the reports."""
    from wiredecode.spark.pipeline import rows

    table = rows(spark, [str(path) for path in paths], demand, **how).toArrow()
    reports = [json.loads(text) for text in table["report"].drop_null().to_pylist()]
    return table.filter(table["report"].is_null()).drop_columns(["report"]), reports


def cut(folder: Path, every: Packets, count: int, *, seam: int = 0) -> list[Path]:
    """Split into ``count`` files; the last ``seam`` packets of each are also the first ones of the next."""
    edges = [0, *sorted(random.Random(1).sample(range(1, len(every)), count - 1)), len(every)]
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, (first, last) in enumerate(pairwise(edges)):
        paths.append(folder / f"ring-{number:03}.pcap")
        write_pcap(paths[-1], every[max(0, first - seam) : last])
    random.Random(2).shuffle(paths)
    return paths


@pytest.mark.parametrize("level", [pytest.param("frames", marks=pytest.mark.slow), "messages", "packets"])
def test_captures_of_all_protocols_have_the_rows_of_one_machine(spark: SparkSession, level: str) -> None:
    """Rows as they pass through Java; other tests cover all captures without it."""
    demand = TableDemand(level, decode_as=NATS_PORTS)
    folders = [path for path in sorted(CAPTURES.iterdir()) if path.is_dir() and path.name != "stories"]
    sizes = {path: path.stat().st_size for path in CAPTURES.rglob("*.pcap") if path.parent in folders}
    small = sorted((path for path, size in sizes.items() if size < 30_000), key=sizes.__getitem__)
    paths = [path for folder in folders for path in [each for each in small if each.parent == folder][-2:]]
    found, _ = run(spark, paths, demand, source="captures/(.+)", buckets=2, partitions=2)
    assert len(paths) > 9
    for path in paths:
        source = str(path.relative_to(CAPTURES))
        same_rows(found.filter(pc.equal(found["source"], source)), expected([path], demand, source))


def test_workers_have_no_pandas(spark: SparkSession) -> None:
    """Importing it took 30 MB per worker."""

    def modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        for batch in batches:
            found = [{"here": name in sys.modules} for name in ("pandas", "wiredecode.spark.pipeline")]
            yield pa.RecordBatch.from_pylist(found * len(batch))

    rows = spark.range(1).mapInArrow(modules, "here boolean").collect()
    assert [row.here for row in rows] == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize("path", [BASIC, pytest.param(NATS, marks=SLOW)], ids=lambda path: path.name)
def test_connections_cross_fifty_files_given_in_any_order(spark: SparkSession, tmp_path: Path, path: Path) -> None:
    every, demand = packets(path), TableDemand("frames", decode_as=NATS_PORTS)
    files = cut(tmp_path, every, 50)
    found, reports = run(spark, files, demand, buckets=3, partitions=3)
    assert len(found) > 100
    same_rows(found, expected([path], demand))
    assert len({report["file"] for report in reports if "file" in report}) == 50


def test_connections_are_those_of_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    demand = TableDemand("connections")
    files = cut(tmp_path, packets(CAPTURES / "rabbitmq-stream" / "c43_puberr.pcap"), 3)
    wanted = expected(sorted(files), demand)
    assert len(wanted)
    same_rows(run(spark, files, demand, buckets=2, partitions=2)[0], wanted)


@pytest.mark.slow
def test_packets_twice_at_the_seams_count_once(spark: SparkSession, tmp_path: Path) -> None:
    demand = TableDemand("frames")
    files = cut(tmp_path, packets(BASIC), 10, seam=4)
    found, _ = run(spark, files, demand, buckets=3)
    rows = {key: [*found[key].to_pylist()] for key in ("frame", "type", "status")}
    wanted = expected([BASIC], demand)
    assert sorted(zip(*rows.values(), strict=True)) == sorted(
        zip(*(wanted[key].to_pylist() for key in rows), strict=True)
    )
    same_rows(found, expected(files, demand))


@pytest.mark.slow
def test_two_capture_points_with_the_same_connections_are_separate(spark: SparkSession, tmp_path: Path) -> None:
    every, demand = packets(BASIC), TableDemand("frames")
    later = [(time_ns + 40_000, data) for time_ns, data in every]
    client, broker = cut(tmp_path / "client", every, 3), cut(tmp_path / "broker", later, 4)
    found, _ = run(spark, [tmp_path], demand, source="folder", buckets=2)
    parts = [expected(client, demand, "client"), expected(broker, demand, "broker")]
    same_rows(found, pa.concat_tables(parts))


def test_one_bad_file_among_twenty_is_reported_and_stops_no_other(spark: SparkSession, tmp_path: Path) -> None:
    demand = TableDemand("frames")
    files = sorted(cut(tmp_path, packets(BASIC), 20))
    bad = files[7]
    bad.write_bytes(bad.read_bytes()[:-3])
    metrics = pipeline.Metrics(spark)
    found, reports = run(spark, [tmp_path], demand, buckets=2, metrics=metrics)
    same_rows(found, expected(files, demand))
    assert (metrics.packets.value, metrics.problems.value) == (len(packets(BASIC)) - 1, 1)
    assert metrics.frames.value == len(found)
    before = metrics.packets.value
    rows = pipeline.frames(spark, [BASIC], metrics=metrics)
    assert rows.count() == rows.count() and metrics.packets.value == before + len(packets(BASIC))  # not once per action
    assert metrics.undecoded_bytes.value == sum(
        unpack(report["totals"]).undecoded for report in reports if "totals" in report
    )
    (report,) = [report for report in reports if "problem" in report]
    assert report["file"] == str(bad)
    assert "is truncated in the middle of a packet" in report["problem"]
    assert "at byte" in report["problem"]


@pytest.mark.slow
def test_fail_fast_names_the_file_and_stops(spark: SparkSession, tmp_path: Path) -> None:
    from wiredecode.spark.session import one_line

    (tmp_path / "cut.pcap").write_bytes(BASIC.read_bytes()[:-3])
    with pytest.raises(Exception, match="UnreadableFile") as raised:
        run(spark, [tmp_path, BASIC], TableDemand("frames", fail_fast=True))
    assert one_line(raised.value).startswith(f"{tmp_path / 'cut.pcap'}: is truncated in the middle")


@pytest.mark.slow
def test_a_file_that_is_read_in_parts_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    every = packets(BASIC)
    step = every[-1][0] - every[0][0] + 1_000_000
    long = [(time_ns + lap * step, data) for lap in range(60) for time_ns, data in every]
    path = tmp_path / "long.pcap"
    write_pcap(path, long)
    demand = TableDemand("frames", columns=["frame", "connection", "time_ns", "type", "packets"])
    found, reports = run(spark, [path], demand, split_bytes=1 << 20, buckets=2)
    assert len({report["place"] for report in reports if "place" in report}) > 1
    same_rows(found, expected([path], demand))


@pytest.mark.slow
def test_functions_give_tables_without_reports(spark: SparkSession) -> None:
    from wiredecode.spark import frames, messages

    table = frames(spark, str(BASIC), columns=["source", "type", "length"], filter='frame.type == "Publish"').toArrow()
    assert table.column_names == ["source", "type", "length"]
    assert set(table["type"].to_pylist()) == {"Publish"}
    assert messages(spark, [str(BASIC)]).count() == len(expected([BASIC], TableDemand("messages")))
    with pytest.raises(ValueError, match="colums"):
        frames(spark, str(BASIC), colums=["type"])
    with pytest.raises(ValueError, match="no protocol"):
        frames(spark, str(BASIC), decode_as={1: "gopher"})


@pytest.mark.parametrize("reader", ["frames", "messages", "connections", "packets", "statistics", "flows"])
def test_a_path_that_does_not_exist_is_an_error_of_every_reader(reader: str, tmp_path: Path) -> None:
    """No table is empty because nothing could be read; a path may be a Path, and others of the call can be read."""
    call = getattr(wiredecode_spark, reader)
    with pytest.raises(UnreadableFile, match=r"nowhere: does not exist"):
        call(None, tmp_path / "nowhere")
    with pytest.raises(UnreadableFile, match=r"nowhere: does not exist"):
        call(None, [BASIC, str(tmp_path / "nowhere")])
    (tmp_path / "text.pcap").write_text("this is no capture")
    with pytest.raises(UnreadableFile, match=r"text\.pcap: is not a pcap or pcapng file"):
        call(None, [tmp_path])


def test_a_store_without_credentials_is_an_error_of_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("s3fs")
    pytest.importorskip("deltalake")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    remote.file_system.cache_clear()
    with pytest.raises(UnreadableFile, match=r"^s3://nobodys-bucket/ring: cannot be listed: .*credentials"):
        wiredecode_spark.messages(None, "s3://nobodys-bucket/ring/")
    for command in ("export", "spark"):
        assert main([command, str(BASIC), "-o", "delta:s3://nobodys-bucket/lake"]) == 2
        error = capfd.readouterr().err
        assert error.count("\n") == 1
        assert "s3://nobodys-bucket/lake/captures: no credentials found: set those of the store" in error


def test_as_many_tasks_as_the_input_needs(tmp_path: Path) -> None:
    from wiredecode.spark.parcels import File
    from wiredecode.spark.pipeline import PARTITION_BYTES, ReadablePart, group_parts, size_run
    from wiredecode.spark.splits import FileSplit

    demand = TableDemand("frames")
    cases = [  # bytes by source, cores, partitions and buckets
        ({"": 1000}, 8, 1, 1),
        ({"": 2 << 20}, 8, 8, 8),
        ({"": 100 * PARTITION_BYTES}, 8, 104, 104),
        ({"a": 50 * PARTITION_BYTES, "b": 50 * PARTITION_BYTES}, 8, 104, 52),
    ]
    for sizes, cores, partitions, buckets in cases:
        made, count = size_run(demand, sizes, cores, None, None)
        assert (count, made.buckets) == (partitions, buckets)
    assert size_run(demand, {"": 5}, 8, 3, 7)[0].buckets == 7
    parts = [ReadablePart(FileSplit(File(str(number), "", 0)), 1 << 20) for number in range(1000)]
    tasks = group_parts(parts, 2)
    assert sum(map(len, tasks)) == 1000
    assert max(map(len, tasks)) <= 64
    assert [len(task) for task in group_parts(parts[:4], 2)] == [1, 1, 1, 1]
    sizes = [3 << 20, 70 << 20, 1 << 20, 128 << 20, 90 << 20, 2 << 20]
    uneven = [ReadablePart(FileSplit(File(str(number), "", 0)), size) for number, size in enumerate(sizes)]
    assert [sum(part.size for part in task) >> 20 for task in group_parts(uneven, 2)] == [128, 90, 70, 3, 2, 1], (
        "the largest first"
    )


def test_one_problem_and_no_file_are_a_task() -> None:
    bad = pipeline.ReadablePart(FileProblem("", "a.pcap", "a.pcap: does not exist"), 0)
    assert pipeline.group_parts([bad], 2) == [[bad]]
