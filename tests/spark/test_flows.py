"""Flows on Spark: tasks report those of their connections, the driver adds; rows equal those of one machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wiredecode
from tests.check.support import CAPTURES
from tests.spark.test_core import file_rows, first_ns, shuffled
from wiredecode.capture import open_capture
from wiredecode.spark.accounts import TaskReports, flows_table
from wiredecode.spark.decode import TableDemand, decode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pa = pytest.importorskip("pyarrow")
FOLDER = CAPTURES / "flows"
SEVERAL = "k-dup-group", "k-wrong-cluster", "n-discard-old", "n-wrong-account", "r-conn-churn", "r-other-vhost"


def wanted(name: str) -> list[dict[str, Any]]:
    """The rows of one machine."""
    path = FOLDER / f"{name}.pcap.zst"
    return shown(wiredecode.read(path, level="flows", ids="stable").table())


def shown(table: Any) -> list[dict[str, Any]]:
    there = {"source", "time", "time_ns"}.intersection(table.column_names)
    rows: list[dict[str, Any]] = table.drop_columns([*there]).to_pylist()
    return rows


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("others", [(), ("messages",)])
def test_reports_of_buckets_add_up_to_the_rows_of_the_whole(name: str, others: tuple[str, ...]) -> None:
    path = FOLDER / f"{name}.pcap.zst"
    demand = TableDemand(("flows", *others), buckets=5)
    parcels = file_rows("a", open_capture([str(path)]), first_ns(path), demand)
    items = [*decode(shuffled(parcels), demand)]
    assert {level for level, _ in (each for each in items if not isinstance(each, str))} == set(others)
    reports = TaskReports.of(reversed([each for each in items if isinstance(each, str)]))
    assert shown(flows_table(reports)) == wanted(name)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name in SEVERAL[2:4]:
        shutil.copy(FOLDER / f"{name}.pcap.zst", tmp_path)
    yield tmp_path


def test_sources_are_separate(spark: SparkSession, folder: Path) -> None:
    from wiredecode.spark import flows

    found = flows(spark, str(folder), source="/([^/]*)[.]pcap", buckets=3, partitions=2)
    assert shown(found) == [row for name in SEVERAL[2:4] for row in wanted(name)]
    assert found["source"].unique().to_pylist() == [*SEVERAL[2:4]]


def test_wrong_demands_are_refused() -> None:
    with pytest.raises(ValueError, match="flows have all of their columns"):
        TableDemand("flows", columns=["topic"])
    with pytest.raises(ValueError, match="packets need no decoding"):
        TableDemand(["flows", "packets"])
