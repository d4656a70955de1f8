"""Tables of Delta and Iceberg from Spark: the rows of one machine, once, in one commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.export.test_lake import A, expected, export, out, plain, table, versions
from tests.export.test_lake import pytestmark as libraries
from tests.spark.test_output import job, write
from wiredecode.export.lake.run import AlreadyThere
from wiredecode.spark.written import read

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["out"]
pytestmark = [*libraries, pytest.mark.slow]


def add(spark: SparkSession, out: str, level: str, *files: Path) -> None:
    write(spark, job(files, out, level=level))


def test_rows_equal_those_of_export_and_both_skip_known_captures(spark: SparkSession, out: str) -> None:
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
    late = found["frames"].where("time >= timestamp '2026-01-31 12:00:00'")._jdf.queryExecution()  # type: ignore[operator]
    assert "GreaterThanOrEqual(time" in late.executedPlan().toString(), "Spark skips row groups by time"


def test_levels_are_decoded_together_with_totals_and_problems(spark: SparkSession, out: str, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(A.read_bytes()[:-3])
    accounts = write(spark, job([cut], out, level=None))
    found = read(spark, out)
    assert set(found) == {"messages", "connections", "totals", "problems"}
    (problem,) = found["problems"].collect()
    assert (problem.file, problem.problem) == (str(cut), accounts.problems[0][2])
    totals = {row.name: row.value for row in found["totals"].where("section = 'packets'").collect()}
    assert totals["read"] == accounts.totals.packets
    add(spark, out, "frames,messages", cut)
    later = read(spark, out)
    assert set(later) == {"frames", *found}
    for name, rows in found.items():
        assert later[name].count() == rows.count(), f"{name} are written once"
