"""Flows as a table in files, SQL and Python: the rows of ``flows --json``, with exact numbers and fixed types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import wiredecode
from tests.check.support import CAPTURES
from tests.cli.conftest import run as run  # the fixture
from wiredecode.flows.table import Row
from wiredecode.tables.flows import LARGEST, table
from wiredecode.tables.reader import table_schema

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
CAPTURE = CAPTURES / "flows/n-discard-old.pcap.zst"


def rows(run: Any, *options: str) -> list[dict[str, Any]]:
    """The rows of ``flows --json``, as tables have them."""
    return [json.loads(line) for line in run("flows", CAPTURE, "--json", "-q", *options).lines]


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that is not Parquet, without ``time``."""
    found: list[dict[str, Any]]
    if path.suffix == ".arrow":
        found = pa.ipc.open_file(path).read_all().drop_columns("time").to_pylist()
    elif path.suffix == ".parquet":
        found = pq.read_table(path).drop_columns(["source", "time", "time_ns"]).to_pylist()
    else:
        found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "time"} for row in found]


@pytest.mark.parametrize("ending", ["ndjson", "parquet", "arrow"])
@pytest.mark.parametrize("options", [(), ("-Y", 'frame.type == "HPUB"'), ("--from", "+3", "--to", "+6")])
def test_files_have_the_rows_of_the_command(run: Any, tmp_path: Path, ending: str, options: tuple[str, ...]) -> None:
    out = tmp_path / f"flows.{ending}"
    run("export", CAPTURE, "-o", out, "--level", "flows", "-q", *options)
    assert read(out) == rows(run, *options)


def test_python_and_sql_have_the_rows_of_the_command(run: Any) -> None:
    wanted = rows(run)
    assert [{**row, "time": None} for row in wiredecode.read(CAPTURE, level="flows")] == [
        {**row, "time": None} for row in wanted
    ]
    assert wiredecode.read(CAPTURE).flows().table().equals(wiredecode.read(CAPTURE, level="flows").table())
    pytest.importorskip("duckdb")
    found = run("sql", CAPTURE, "select * exclude (time, time_ns) from flows", "-q").lines
    assert [json.loads(line) for line in found] == wanted
    (one,) = run("sql", CAPTURE, 'select "from" as who, skipped from flows where skipped > 0', "-q").lines
    assert json.loads(one)["skipped"] == 226


def test_types_are_those_of_the_schema_also_without_flows() -> None:
    silent = wiredecode.read(CAPTURE, level="flows", filter='frame.type == "PING"').table()
    full = wiredecode.read(CAPTURE, level="flows").table()
    assert silent.schema.equals(full.schema, check_metadata=True)
    assert full.schema.equals(table_schema("flows"), check_metadata=True)
    assert not len(silent)


def test_numbers_are_exact_and_hostile_ones_end_at_63_bits() -> None:
    row = Row("nats", "", "a\ud800", None, ["b"], "c", published=(1 << 62) + 1, skipped=1 << 64, began_ns=1)
    (made,) = table([row]).drop_columns("time").to_pylist()
    assert (made["published"], made["skipped"], made["topic"]) == ((1 << 62) + 1, LARGEST, "a\\ud800")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.filterwarnings("ignore")
def test_lakes_hold_flows_by_day(run: Any, tmp_path: Path, kind: str) -> None:
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[kind])
    from wiredecode.export.lake import open_lake

    run("export", CAPTURE, "-o", f"{kind}:{tmp_path}/lake", "--level", "flows", "-q")
    files = open_lake(f"{kind}:{tmp_path}/lake").files("flows")
    assert sum(len(pq.read_table(file)) for file in files) == len(rows(run))


def test_folders_are_named_after_columns(run: Any, tmp_path: Path) -> None:
    run("export", CAPTURE, "-o", tmp_path / "out", "--level", "flows", "--partition-by", "protocol,topic", "-q")
    assert max(path.name for path in (tmp_path / "out/protocol=nats").iterdir()) == "topic=ord6.new"
