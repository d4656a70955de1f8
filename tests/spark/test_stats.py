"""Statistics on Spark equal those of one machine, row by row."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wiredecode
from tests.conftest import CAPTURES
from tests.stats.test_merge import alone
from wiredecode.stats.tables import NAMES

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

SEVERAL = (
    *("cursus/stream.pcap", "liftbridge/30-lb-publish-ack.pcap", "nats/14-cluster-routes.pcap"),
    *("pravega/read_cuts.pcap", "rabbitmq-stream/c43_puberr.pcap", "rabbitmq-stream/d_drop1pct.pcap"),
    *("rabbitmq-stream/d_shuffled_dups.pcap", "tank/tank_07_produce_multi_errors.pcap"),
    *("rabbitmq-stream/c43_subentry.pcap", "tank/tank_09_consume_tail.pcap", "nats/13-jetstream.pcap"),
)
SOURCE = "/([^/]*)[.]pcap$"
pytest.importorskip("pyspark")


@pytest.fixture(scope="module")
def here() -> dict[str, list[dict[str, Any]]]:
    """The statistics of one machine, capture by capture."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for source, path in sorted((Path(name).stem, CAPTURES / name) for name in SEVERAL):
        for name, table in wiredecode.stats(path, ids="stable").tables.items():
            found[name] += [{"source": source, **row} for row in table.to_pylist()]
    return found


@pytest.fixture(scope="module")
def there(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The statistics of all captures from one run of Spark; each is a source of three buckets."""
    from wiredecode.spark import statistics

    folder = tmp_path_factory.mktemp("captures")
    for name in SEVERAL:
        shutil.copy(CAPTURES / name, folder)
    return statistics(spark, str(folder), source=SOURCE, interval="auto", buckets=3, partitions=2)


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_their_order_are_those_of_one_machine(
    name: str, there: dict[str, pa.Table], here: dict[str, list[dict[str, Any]]]
) -> None:
    found = there[name].to_pylist()
    assert found
    assert alone(name, found) == alone(name, here[name])


def test_the_command_counts_what_a_filter_chooses(
    spark: SparkSession, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    chosen = 'frame.type == "Publish"'
    path = CAPTURES / "rabbitmq-stream/c43_puberr.pcap"
    assert run(spark, str(path), display_filter=chosen, json=True, table=["frames", "connections"]) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    found = {name: [{**row, "source": None} for row in rows] for name, rows in json.loads(out).items()}
    wanted = wiredecode.stats(path, ids="stable", filter=chosen, tables=["frames", "connections"]).tables
    assert {name: len(rows) for name, rows in found.items()} == {name: len(each) for name, each in wanted.items()}
    assert [row["frames"] for row in found["frames"]] == wanted["frames"]["frames"].to_pylist()


@pytest.mark.slow
def test_what_cannot_be_counted_is_reported(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((CAPTURES / "nats/03-pubsub.pcap").read_bytes()[:-3])
    (tmp_path / "empty").mkdir()
    for path, how, said in (
        (cut, {}, "cut.pcap"),
        (cut, {"fail_fast": True}, "cut.pcap"),
        (tmp_path / "empty", {}, "holds no file with the name of a capture"),
        (tmp_path / "missing.pcap", {}, "missing.pcap"),
        (cut, {"source": "["}, "is no regular expression"),
        (cut, {"table": ["latencies"]}, "no statistic is called 'latencies'"),
    ):
        assert run(spark, str(path), **how) == 2
        out, err = capsys.readouterr()
        assert said in err
        assert err.count("\n") == 1
        assert bool(out) == (path is cut and not how)


def run(spark: SparkSession, path: str, **how: Any) -> int:
    from wiredecode.cli import options, spark_stats
    from wiredecode.cli.spark_options import SparkCluster
    from wiredecode.cli.stats_output import StatsOptions

    form = StatsOptions(**{name: how.pop(name) for name in ("json", "table") if name in how})
    groups = {"form": form, "cluster": SparkCluster(), "verbosity": options.Verbosity(), "decoding": options.Decoding()}
    return spark_stats.run(spark_stats.SparkStatsOptions(inputs=[path], **groups, **how), spark)
