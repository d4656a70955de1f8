"""Statistics on Spark equal those of one machine, number by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wiredecode
from tests.conftest import sampled
from wiredecode.stats.tables import NAMES, STATISTICS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CAPTURES = Path(__file__).parent.parent.parent / "captures"
SEVERAL = (
    *("cursus/stream.pcap", "liftbridge/30-lb-publish-ack.pcap", "nats/14-cluster-routes.pcap"),
    *("pravega/read_cuts.pcap", "rabbitmq-stream/c43_puberr.pcap", "rabbitmq-stream/d_drop1pct.pcap"),
    *("rabbitmq-stream/d_shuffled_dups.pcap", "tank/tank_07_produce_multi_errors.pcap"),
    *("rabbitmq-stream/c43_subentry.pcap", "cursus/produce.pcap", "pravega/append_basic.pcap"),
    *("tank/tank_09_consume_tail.pcap", "nats/13-jetstream.pcap"),
)
pytest.importorskip("pyspark")
pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> dict[str, DataFrame]:
    """Frames and messages of captures, each a separate source."""
    return {level: spark.createDataFrame(wide(level)) for level in ("frames", "messages")}


def wide(level: str) -> pa.Table:
    """All captures as the pipeline's table, with the columns that statistics read."""
    import pyarrow as pa

    from wiredecode.spark import stats
    from wiredecode.tables.portable import portable_rows, portable_schema, table_columns
    from wiredecode.tables.reader import table_schema
    from wiredecode.tables.schema import select

    texts = (
        (field, stats.answer_column(one, each) if each.answer else field) for one, field, each in stats.request_texts()
    )
    nested = (*stats.marks(), *(name for pair in texts for name in pair))
    needed = [name for each in STATISTICS if each.level == level for name in each.needs if name != "layers"]
    names = list(dict.fromkeys(["source", *needed, *(nested if level == "frames" else ())]))
    schema = select(portable_schema(table_schema(level)), names)
    parts = []
    for name in SEVERAL:
        capture = wiredecode.read(CAPTURES / name, level=level, columns=table_columns(names))
        parts += [portable_rows(batch, name, schema) for batch in capture.nested()]
    return pa.Table.from_batches(parts, schema)


@pytest.fixture(scope="module")
def here() -> dict[str, list[dict[str, Any]]]:
    """The statistics of one machine, capture by capture."""
    from wiredecode.stats import statistics

    facts = {each.name: each.facts for each in STATISTICS}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in NAMES}
    for source in SEVERAL:
        made = statistics(CAPTURES / source, interval="1s")
        for name, table in made.items():
            if name not in found:  # counted frame by frame only
                continue
            rows = table.drop_columns(list(facts[name])).to_pylist()
            if name == "connections":
                rows = [row for row in rows if row["client_frames"] or row["server_frames"]]
            found[name] += [{"source": source, **row} for row in rows]
    return found


@pytest.mark.parametrize("name", sampled(NAMES))
def test_numbers_and_order_are_those_of_one_machine(
    name: str, tables: dict[str, DataFrame], here: dict[str, list[dict[str, Any]]]
) -> None:
    from wiredecode.spark.stats import statistics

    made = statistics(tables["frames"], tables["messages"], interval="1s", tables=[name])
    found = comparable(made[name].toArrow().to_pylist())
    assert found
    assert found == comparable(here[name])


LOSSY = "rabbitmq-stream/d_"


def comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by source. With losses, tables and ``stats`` wait differently for a missing response."""
    found = []
    for row in sorted(rows, key=lambda row: str(row["source"])):
        if not row["source"].startswith(LOSSY):
            found.append(row)
        elif row.get("count", 1) and row.get("confirmed", 1):
            kept = {name: value for name, value in row.items() if name not in ("unanswered", "unconfirmed", "unknown")}
            found.append(kept)
    return found


@pytest.fixture(scope="module")
def lake(tables: dict[str, DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both tables as ``wiredecode spark`` writes them, frames and messages in separate folders."""
    folder = tmp_path_factory.mktemp("lake")
    for level, by in (("frames", ("protocol", "type")), ("messages", ("protocol", "operation"))):
        tables[level].coalesce(1).write.partitionBy(*by).parquet(str(folder / level / level))
        (folder / level / "_SUCCESS").write_text("{}")
    return folder


@pytest.mark.slow
def test_the_command_prints_the_numbers_of_one_machine(
    spark: SparkSession, lake: Path, here: dict[str, list[dict[str, Any]]], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    from wiredecode.cli.spark_options import Cluster
    from wiredecode.cli.spark_stats import run
    from wiredecode.cli.stats_output import StatsOptions

    folders = [str(lake / level) for level in ("frames", "messages")]
    names = ["throughput", "confirms"]
    assert run(folders, StatsOptions(json=True, interval="1s", table=names), Cluster(), spark=spark) == 0
    out, err = capsysbinary.readouterr()
    assert err == b""
    found = json.loads(out)
    assert list(found) == ["confirms", "throughput"]
    assert comparable(found["confirms"]) == comparable(here["confirms"])
    assert sum(row["messages"] for row in found["throughput"]) == sum(row["messages"] for row in here["throughput"])


@pytest.mark.slow
def test_missing_tables_of_a_folder_are_reported(
    spark: SparkSession, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from wiredecode.cli.spark_options import Cluster
    from wiredecode.cli.spark_stats import run
    from wiredecode.cli.stats_output import StatsOptions

    (tmp_path / "frames").mkdir()
    for folder, tables, code, said in (
        (str(lake / "messages"), None, 0, "without frames, latency, findings, connections"),
        (str(lake / "frames"), ["throughput"], 2, "throughput is counted from messages, which are not there"),
        (str(tmp_path), None, 2, "has no _SUCCESS: the run that wrote it did not end well"),
        (str(tmp_path / "nothing"), None, 2, "holds no tables"),
        ([str(lake / "frames")] * 2, None, 2, "is another place with frames"),
        (str(lake / "frames"), ["latencies"], 2, "no statistic is called 'latencies'"),
    ):
        folders = [folder] if isinstance(folder, str) else folder
        assert run(folders, StatsOptions(table=tables), Cluster(), spark=spark) == code
        err = capsys.readouterr().err
        assert said in err
        assert err.count("\n") == 1


def test_a_table_without_a_needed_column_is_reported(tables: dict[str, DataFrame]) -> None:
    from wiredecode.spark.stats import statistics

    frames = tables["frames"].drop("layers")
    assert list(statistics(frames, tables=["findings"])) == ["findings"]
    with pytest.raises(ValueError, match="latency needs the column layers"):
        statistics(frames)
