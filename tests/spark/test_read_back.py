"""Spark reads our tables of Delta and Iceberg with the packages of their makers.

These come from Maven's registry, for one version of Spark each, so it runs only on request::

    WIREDECODE_MAVEN=1 python -m pytest tests/spark/test_read_back.py -m slow      with pyspark 4.1
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.export.test_lake import expected
from tests.spark.conftest import ROOT
from tests.support import RABBITMQ
from wiredecode.cli import main

pyspark = pytest.importorskip("pyspark")
A = RABBITMQ / "c43_basic.pcap"
PACKAGES = {
    "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0,org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
VERSION = ".".join(pyspark.__version__.split(".")[:2])
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
folder, packages = sys.argv[1:]
settings = {
    "spark.jars.packages": packages,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.files": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.files.type": "hadoop",
    "spark.sql.catalog.files.warehouse": folder + "/nothing",
}
builder = SparkSession.builder.master("local[1]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
metadata = sys.stdin.read().strip()
tables = {
    "delta": spark.read.format("delta").load(folder + "/delta/messages"),
    "iceberg": spark.read.format("iceberg").load(metadata),
}
found = {}
for name, rows in tables.items():
    middle = rows.selectExpr("percentile_approx(time_ns, 0.5)").first()[0]
    some = rows.where(f"time >= timestamp_micros({middle} div 1000)")
    found[name] = {
        "rows": rows.count(),
        "size": rows.selectExpr("sum(size)").first()[0],
        "since": [middle, some.count()],
        "pushed": some._jdf.queryExecution().executedPlan().toString(),
        "comment": dict((each.name, each.metadata.get("comment")) for each in rows.schema)["topic"],
    }
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif("WIREDECODE_MAVEN" not in os.environ, reason="needs packages of Java: say WIREDECODE_MAVEN=1")
@pytest.mark.skipif(VERSION not in PACKAGES, reason=f"needs packages for pyspark {', '.join(PACKAGES)}")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning")
def test_spark_reads_what_was_written_and_skips_by_time(tmp_path: Path) -> None:
    for out in (f"delta:{tmp_path}/delta", f"iceberg:{tmp_path}/iceberg"):
        assert main(["export", str(A), "-o", out, "--level", "messages", "-q"]) == 0
    metadata = max(tmp_path.glob("iceberg/**/messages/metadata/*.metadata.json"))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), PACKAGES[VERSION]]
    done = subprocess.run(
        command, input=str(metadata), capture_output=True, text=True, cwd=ROOT, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    wanted = expected(A)
    for found in json.loads(done.stdout.splitlines()[-1]).values():
        assert (found["rows"], found["size"]) == (len(wanted), sum(row["size"] for row in wanted))
        middle, count = found["since"]
        assert count == sum(row["time_ns"] // 1000 >= middle // 1000 for row in wanted)
        assert "filter" in found["pushed"].lower() and "time" in found["pushed"]
        assert found["comment"] == "stream, topic, subject or segment"
