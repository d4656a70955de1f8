"""Rows of tables, counted in parts and merged: what was counted frame by frame in one pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from tests.stats.test_numbers import plain
from wiredecode import read
from wiredecode.stats import statistics
from wiredecode.stats.rows import EXCHANGE, IS_ANSWER, always_asking, counted, flat, merged, wide_columns
from wiredecode.stats.tables import CONNECTION_FACTS, NAMES, STATISTICS, Statistic
from wiredecode.tables.portable import converted, portable_schema, table_columns
from wiredecode.tables.reader import table_schema
from wiredecode.tables.schema import select

CAPTURES = Path(__file__).parents[2] / "captures"
SEVERAL = (
    *("rabbitmq-stream/c43_subentry.pcap", "rabbitmq-stream/c43_puberr.pcap", "nats/14-cluster-routes.pcap"),
    *("liftbridge/30-lb-publish-ack.pcap", "cursus/produce.pcap", "pravega/append_basic.pcap"),
    *("tank/tank_07_produce_multi_errors.pcap", "tank/tank_09_consume_tail.pcap", "nats/13-jetstream.pcap"),
)
PARTS = 3


def flattened(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Rows whose nested columns have their whole names, as Spark selects them."""
    found = []
    for row in rows:
        made: dict[str, Any] = {}
        for name in names:
            value: Any = row
            for step in name.split("."):
                value = None if value is None else value.get(step)
            made[flat(name)] = value
        found.append(made)
    return found


def arranged(rows: list[dict[str, Any]], statistic: Statistic) -> list[list[dict[str, Any]]]:
    """Rows in parts as the tasks of Spark get them: by exchange, by frame, or just so."""
    key = "frame" if statistic.name == "confirms" else None
    if statistic.name == "latency":
        key, always = EXCHANGE, set(always_asking())
        asked = [row for row in rows if row["outcome"] is not None or (row["protocol"], row["type"]) in always]
        answers = [row for row in rows if row["request"] is not None and row["latency_ns"] is not None]
        rows = [{**row, EXCHANGE: row["frame"], IS_ANSWER: False} for row in asked]
        rows += [{**row, EXCHANGE: row["request"], IS_ANSWER: True} for row in answers]
        rows.sort(key=lambda row: (row[EXCHANGE], row[IS_ANSWER], row["time_ns"]))
    parts: list[list[dict[str, Any]]] = [[] for _ in range(PARTS)]
    for place, row in enumerate(rows):
        parts[(place if key is None else row[key]) % PARTS].append(row)
    return parts


def asked(path: Path, statistic: Statistic) -> list[dict[str, Any]]:
    """A statistic of a capture, of the rows of its table."""
    names = wide_columns(statistic)
    schema = select(portable_schema(table_schema(statistic.level)), names)
    batches = read(path, level=statistic.level, columns=table_columns(names)).nested()
    rows = flattened(
        pa.Table.from_batches([converted(each, "here", schema) for each in batches], schema).to_pylist(), names
    )
    states = []
    for part in arranged(rows, statistic):
        states += counted(statistic.name, 1, pa.Table.from_pylist(part).to_batches())
    return [row for batch in merged(statistic, 1, states) for row in batch.drop_columns(["source"]).to_pylist()]


@pytest.mark.parametrize("capture", SEVERAL)
@pytest.mark.parametrize("name", NAMES)
def test_numbers_and_order_are_those_that_are_counted(name: str, capture: str) -> None:
    table = statistics(CAPTURES / capture, tables=[name], interval="1s")[name]
    rows = table.to_pylist()
    if name == "connections":
        rows = table.drop_columns(list(CONNECTION_FACTS)).to_pylist()
        rows = [row for row in rows if row["client_frames"] or row["server_frames"]]
    found = asked(CAPTURES / capture, STATISTICS[NAMES.index(name)])
    assert [*map(plain, found)] == [*map(plain, rows)]
