"""Tables of Delta and Iceberg from Spark: the rows of one machine, once, in steps and all at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.export.test_lake import A, expected, export, out, parquet, plain, table, versions
from tests.export.test_lake import pytestmark as libraries
from tests.spark.test_streaming import Replay
from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import AlreadyThere, selection
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.reading import read
from wiredecode.spark.stats import statistics
from wiredecode.tables.narrow import members

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["out"]
pytestmark = [*libraries, pytest.mark.slow]


def add(spark: SparkSession, out: str, level: str, *files: Path) -> None:
    from wiredecode.spark import lake, pipeline

    demand, names = TableDemand(level), [str(file) for file in files]
    captures = lake.captures(names, selection(level))
    run = lake.LakeRun(out, level, demand.schema.names, captures, selection(level), overwrite=False)
    run.commit(pipeline.rows(spark, names, demand, sink=run.sink, partitions=3))


def test_rows_are_those_of_an_export_and_both_know_the_captures_of_the_other(spark: SparkSession, out: str) -> None:
    add(spark, out, "messages", A)
    assert plain(table(out, "messages")) == expected(A)
    export(out, A)
    assert versions(out, "messages") == versions(out, "captures")
    with pytest.raises(AlreadyThere):
        add(spark, out, "messages", A)
    export(out, A, level="frames")
    with pytest.raises(AlreadyThere):
        add(spark, out, "frames", A)
    found = read(spark, out)
    assert found["messages"].count() == len(expected(A))
    assert statistics(**found, tables=["throughput"])["throughput"].count()
    late = found["frames"].where("time >= timestamp '2026-01-31 12:00:00'")._jdf.queryExecution()  # type: ignore[operator]
    assert "GreaterThanOrEqual(time" in late.executedPlan().toString(), "Spark skips row groups by time"


def test_a_stream_adds_each_step_once_and_finish_brings_the_last_rows(
    spark: SparkSession, out: str, tmp_path: Path
) -> None:
    replay = Replay(tmp_path, 6)
    replay.out = out  # type: ignore[assignment]
    demand = TableDemand("frames", buckets=2)
    replay.put(4)
    replay.run(spark, demand, files=2)
    before = sum(len(table(out, name)) for name in open_lake(out).tables())
    replay.put(2)
    replay.run(spark, demand, finish=True)
    wanted = expected(replay.whole, level="frames")
    assert before < len(wanted), "some wait for what may come"
    rows: list[dict[str, Any]] = []
    for name in open_lake(out).tables():
        rows += plain(table(out, name))
    for row in wanted:
        row["layers"] = row["layers"] and {key: row["layers"][key] for key in order(row["layers"], row["protocol"])}
    assert sorted(rows, key=str) == sorted(wanted, key=str)


def order(layers: dict[str, Any], protocol: str) -> list[str]:
    kept = members(protocol)
    return [key for key in layers if key in kept]


def test_a_step_that_is_done_again_adds_nothing_and_leaves_no_files(spark: SparkSession, out: str) -> None:
    from wiredecode.spark import lake, pipeline

    demand = TableDemand("messages")
    for number in (0, 1, 1, 0):
        lake.step(
            out,
            "messages",
            demand.schema.names,
            "stream-1",
            number,
            lambda sink: pipeline.rows(spark, [str(A)], demand, partitions=1, sink=sink),
        )
    assert len(table(out, "messages")) == 2 * len(expected(A))
    assert len(parquet(out)) == 2
