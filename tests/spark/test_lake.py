"""Tables of Delta and Iceberg from Spark: the rows of one machine, once, all at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.export.test_lake import A, expected, export, out, plain, table, versions
from tests.export.test_lake import pytestmark as libraries
from wiredecode.export.lake.run import AlreadyThere, run_of, selection
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.stats import read, statistics

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["out"]
pytestmark = [*libraries, pytest.mark.slow]


def add(spark: SparkSession, out: str, level: str, *files: Path) -> None:
    from wiredecode.spark import lake, pipeline
    from wiredecode.spark.files import find
    from wiredecode.spark.pipeline import planned

    levels, names = level.split(","), [str(file) for file in files]
    runs = {each: run_of(names, selection(each)) for each in levels}
    run = lake.LakeRun(out, runs, selection, overwrite=False)
    plan = planned(spark, find(names), TableDemand(levels), partitions=3)
    run.commit(pipeline.decoded(spark, plan, run.sink))


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
