"""Files that tasks have written, joined: few, sorted by time, with every row once, and engines skip by time."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import seeds
from tests.spark.support import expected
from tests.spark.test_core import NATS_PORTS
from tests.spark.test_pipeline import BASIC, CAPTURES
from wiredecode.export.writers import Settings
from wiredecode.spark import writing
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.merging import SMALL_BYTES, Merger, TaskFile, groups, merged

LIFTBRIDGE = CAPTURES / "liftbridge" / "31-lb-all-types.pcap"
LOSSY = CAPTURES / "rabbitmq-stream" / "d_drop1pct.pcap"


def run(times: list[int], name: str, size: int) -> Iterator[pa.RecordBatch]:
    rows = pa.record_batch(
        {"time_ns": pa.array(times, pa.int64()), "name": [f"{name}{at}" for at in range(len(times))]}
    )
    return (rows.slice(low, size) for low in range(0, len(times), size))


@pytest.mark.parametrize("seed", seeds(20))
def test_runs_that_overlap_anyhow_become_one_that_is_sorted(seed: int) -> None:
    chance = random.Random(seed)
    given = [sorted(chance.choices(range(40), k=chance.randrange(30))) for _ in range(chance.randrange(1, 6))]
    runs = [run(times, f"{number}.", chance.randrange(1, 9)) for number, times in enumerate(given)]
    rows = [(row["time_ns"], row["name"]) for batch in merged(runs) for row in batch.to_pylist()]
    wanted = [(time, f"{number}.{at}") for number, times in enumerate(given) for at, time in enumerate(times)]
    assert [time for time, _ in rows] == sorted(time for time, _ in wanted)
    for number in range(len(given)):
        own = [row for row in rows if row[1].startswith(f"{number}.")]
        assert own == [row for row in wanted if row[1].startswith(f"{number}.")], "rows of a run keep their order"


def test_small_files_of_a_folder_become_one_and_what_is_not_in_order_is_put_in_order() -> None:
    small, large = SMALL_BYTES - 1, SMALL_BYTES
    files = [TaskFile("a", f"a{number:02}", small, in_order=True) for number in range(20)]
    files += [TaskFile("a", "large", large, in_order=True), TaskFile("a", "mixed", large, in_order=False)]
    files += [TaskFile("b", "alone", 1, in_order=True), TaskFile("c", "y", 2, in_order=True)]
    files += [TaskFile("c", "x", 1, in_order=True), TaskFile("d", "mixed", 1, in_order=False)]
    found = groups(files)
    assert [(group.folder, len(group.files)) for group in found] == [("a", 1), ("a", 16), ("a", 4), ("c", 2), ("d", 1)]
    names = [(group.folder, name) for group in found for name in group.files]
    assert sorted(names) == sorted(set(names))
    assert not {("a", "large"), ("b", "alone")} & set(names)


def written(place: Path, demand: TableDemand, captures: list[Path], monkeypatch: pytest.MonkeyPatch) -> list[TaskFile]:
    """What tasks write of each capture, in row groups of 16 rows that are in no order."""
    monkeypatch.setattr(writing, "Settings", lambda order: Settings(row_group=16, order=order))
    found = []
    for number, capture in enumerate(captures):
        monkeypatch.setattr(writing, "attempt_name", lambda number=number: f"{number}")  # type: ignore[misc]
        rows = expected([capture], demand)
        mixed = rows.take(np.random.default_rng(1).permutation(len(rows))).combine_chunks().to_batches()
        told = pa.Table.from_batches(writing.TaskWriter(str(place))((demand.level, part) for part in mixed)).to_pylist()
        found += [
            TaskFile(row["folder"], row["file"], row["bytes"], row["in_order"])
            for row in told
            if row["folder"].startswith(demand.level)
        ]
    return found


def joined(place: Path, files: list[TaskFile]) -> list[dict[str, Any]]:
    """What the merger tells of its files."""
    wanted = groups(files)
    numbers = pa.record_batch({"id": pa.array(range(len(wanted)))})
    return [row for batch in Merger(str(place), "", tuple(wanted))(iter([numbers])) for row in batch.to_pylist()]


@pytest.mark.slow
def test_files_of_tasks_become_one_of_each_folder_with_the_columns_of_its_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demand = TableDemand("frames", decode_as=NATS_PORTS)
    files = written(tmp_path, demand, [BASIC, LIFTBRIDGE], monkeypatch)
    assert not all(each.in_order for each in files)
    told = joined(tmp_path, files)
    assert sum(row["rows"] for row in told) == sum(len(expected([each], demand)) for each in (BASIC, LIFTBRIDGE))
    layers = {}
    for row in told:
        file = pq.ParquetFile(tmp_path / row["file"])
        times = file.read(["time_ns"])["time_ns"].to_numpy()
        assert row["in_order"] and (np.diff(times) >= 0).all()
        layers[row["folder"].split("/")[1]] = {field.name for field in file.schema_arrow.field("layers").type}
        assert len(file.schema) < 600, "of a thousand columns a protocol has its own"
    assert layers["protocol=rabbitmq_stream"] == {"rabbitmq_stream", "proxy", "other"}
    assert {"nats", "liftbridge"} <= layers["protocol=liftbridge"]
    assert not {"rabbitmq_stream", "tank", "cursus"} & layers["protocol=nats"]


def test_an_engine_skips_row_groups_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As DuckDB tells what it scanned, and as the statistics in the file say."""
    demand = TableDemand("frames", columns=[*writing.KEPT["frames"], "length"])
    (told,) = joined(tmp_path, written(tmp_path, demand, [BASIC], monkeypatch))
    metadata = pq.ParquetFile(tmp_path / told["file"]).metadata
    place = next(at for at in range(metadata.num_columns) if metadata.schema.column(at).path == "time")
    spans = [metadata.row_group(number).column(place).statistics for number in range(metadata.num_row_groups)]
    assert len(spans) > 2
    assert all(one.max <= two.min for one, two in pairwise(spans))
    with duckdb.connect() as database:
        database.execute("set timezone = 'UTC'")
        for test, wanted in (("<", 1), (">=", len(spans) - 1)):
            where = f"time {test} '{spans[1].min}'"
            query = f"explain analyze select sum(length) from '{tmp_path / told['file']}' where {where}"
            scanned = re.search(r"Row Groups Scanned: (\d+) / (\d+)", str(database.execute(query).fetchall()))
            assert scanned is not None and scanned.groups() == (str(wanted), str(len(spans)))
