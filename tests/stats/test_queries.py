"""The queries that Spark runs, run by DuckDB over tables of captures: they find what was counted frame by frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.stats.test_numbers import plain
from wiredecode import read
from wiredecode.stats import statistics
from wiredecode.stats.queries import columns, flat, query
from wiredecode.stats.tables import NAMES, STATISTICS
from wiredecode.tables.portable import converted, portable_schema, table_columns
from wiredecode.tables.reader import table_schema
from wiredecode.tables.schema import select

duckdb: Any = pytest.importorskip("duckdb")

CAPTURES = Path(__file__).parents[2] / "captures"
DUCKDB = {
    "`": '"',
    "explode(": "unnest(",
    "size(findings)": "len(findings)",
    " div ": " // ",
    "timestamp_seconds(": "to_timestamp(",
    "array_join(sort_array(collect_set(f.protocol))": "string_agg(distinct f.protocol",
    "', ') as protocol": "', ' order by f.protocol) as protocol",
}
"""What DuckDB spells differently; all else is the text that Spark runs."""
SEVERAL = (
    *("rabbitmq-stream/c43_subentry.pcap", "rabbitmq-stream/c43_puberr.pcap", "nats/14-cluster-routes.pcap"),
    *("liftbridge/30-lb-publish-ack.pcap", "cursus/produce.pcap", "pravega/append_basic.pcap"),
    *("tank/tank_07_produce_multi_errors.pcap", "tank/tank_09_consume_tail.pcap", "nats/13-jetstream.pcap"),
)


def asked(path: Path, name: str) -> list[dict[str, Any]]:
    """A statistic of a capture, as a query over its table."""
    statistic = STATISTICS[NAMES.index(name)]
    names = ["source", *columns(statistic.needs)]
    schema = select(portable_schema(table_schema(statistic.level)), names)
    batches = read(path, level=statistic.level, columns=table_columns(names)).nested()
    rows = pa.Table.from_batches([converted(batch, "here", schema) for batch in batches], schema)
    with duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'")
        database.register("incoming", rows)
        before = f"{statistic.level} as ({flat(statistic.needs, 'incoming')})"
        text = query(statistic, 1, before=before)
        for spark, own in DUCKDB.items():
            text = text.replace(spark, own)
        found = database.sql(text).to_arrow_table()
    return list(found.drop_columns(["source"]).to_pylist())


@pytest.mark.parametrize("capture", SEVERAL)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "connections"])
def test_numbers_and_order_are_those_that_are_counted(name: str, capture: str) -> None:
    counted = statistics(CAPTURES / capture, tables=[name], interval="1s")[name].to_pylist()
    assert [*map(plain, asked(CAPTURES / capture, name))] == [*map(plain, counted)]
