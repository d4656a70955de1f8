"""Days that are read one by one: the rows of all of them together, what midnight cuts and what comes late included."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.support import expected, in_order, same_rows
from tests.spark.test_state import rows, without_reports
from tests.spark.test_streaming import capture, mixed
from tests.support import packets
from wiredecode.spark.accounts import Accounts
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import find
from wiredecode.spark.folder import Occupied, alone
from wiredecode.spark.increments import LOG, NEXT, Carried, Increment, Log, ProcessedFiles
from wiredecode.spark.writing import KEPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 4
# Several files at once count their interfaces through; Spark counts those of each file.
PLANS = {
    "frames": TableDemand("frames", 2, [*KEPT["frames"], "offset", "length", "status", "latency_ns"]),
    "messages": TableDemand("messages", 2),
    "connections": TableDemand("connections", 2),
    "packets": TableDemand("packets", 2, [name for name in TableDemand("packets").schema.names if name != "interface"]),
}


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture, a file a day; each midnight cuts a frame."""
    folder, every = tmp_path_factory.mktemp("days"), mixed()
    whole = tmp_path_factory.mktemp("whole") / "whole.pcap"
    whole.write_bytes(capture(every))
    carried = expected([whole], TableDemand("frames", columns=["packets"]))["packets"].to_pylist()
    second = sorted(times[1] for times in carried if len(times) > 1)
    nights = [second[len(second) * day // DAYS] for day in range(1, DAYS)]
    for day, (low, high) in enumerate(pairwise([0, *nights, 1 << 62])):
        (folder / f"{day}.pcap").write_bytes(capture([each for each in every if low <= each[0] < high]))
    return folder


@pytest.mark.parametrize("level", ["frames", "messages", "connections"])
def test_what_midnight_cuts_goes_on_from_the_state(days: Path, tmp_path: Path, level: str) -> None:
    demand, found = PLANS[level], list[pa.RecordBatch]()
    files = sorted(days.iterdir())
    known: dict[tuple[str, int], str] = {}
    for number, file in enumerate(files):
        batches = rows(file, demand).to_batches()
        made = list(Carried(str(tmp_path), number, known)(batches, demand))
        found += made
        known |= Accounts.of(reports(made)).states
    ends = [Carried(str(tmp_path), DAYS, known).load(source, bucket, demand) for source, bucket in known]
    found += [batch for state in ends for batch in state.finish()]
    wanted = expected(files, demand, "s")
    same_rows(without_reports(pa.Table.from_batches(found, demand.row_schema())), wanted)
    apart = pa.concat_tables([expected([file], demand, "s") for file in files])
    assert not in_order(apart).equals(in_order(wanted)), "days that know nothing of each other have other rows"


def reports(made: list[pa.RecordBatch]) -> list[str]:
    return [text for batch in made for text in batch.column("report").drop_null().to_pylist()]


class Nights:
    """Runs of one night after the other."""

    def __init__(self, spark: SparkSession, days: Path, folder: Path, out: str, demand: TableDemand) -> None:
        self.spark, self.days, self.inside, self.demand = spark, sorted(days.iterdir()), folder / "in", demand
        self.out, self.states = out, folder / "states"
        self.inside.mkdir()

    def put(self, *days: int) -> None:
        for day in days:
            (self.inside / self.days[day].name).write_bytes(self.days[day].read_bytes())

    def run(self, **options: Any) -> Accounts | None:
        increment = Increment(self.out, ProcessedFiles(str(self.states)), self.demand, self.demand.level, {})
        return increment.run(self.spark, find([str(self.inside)]), **options)

    def rows(self) -> pa.Table:
        from wiredecode.spark.reading import read

        table = read(self.spark, self.out)[self.demand.level]
        return table.select(*self.demand.schema.names).toArrow().cast(self.demand.schema)

    def files_of_steps(self) -> list[list[str]]:
        return [sorted(step["files"]) for step in json.loads((self.states / LOG).read_bytes())["steps"]]

    def wanted(self, *days: int) -> pa.Table:
        return expected([self.days[day] for day in days], self.demand)


@pytest.mark.slow
def test_a_late_file_takes_its_place_and_nothing_is_read_twice(spark: SparkSession, days: Path, tmp_path: Path) -> None:
    nights = Nights(spark, days, tmp_path, str(tmp_path / "lake"), PLANS["frames"])
    nights.put(0)
    assert nights.run() is not None
    nights.put(1, 3)
    told = nights.run()
    read = sum(len(packets(nights.days[day])) for day in (1, 3))
    assert told is not None and told.totals.packets == read, "the first day is not read again"
    assert [len(files) for files in nights.files_of_steps()] == [1, 2]
    (nights.inside / "copy.pcap").write_bytes(nights.days[1].read_bytes())
    assert nights.run() is None, "the same content under another name is the same file"
    nights.put(2)
    assert nights.run(finish=True) is not None
    assert [len(files) for files in nights.files_of_steps()] == [1, 3, 0]
    same_rows(nights.rows(), nights.wanted(0, 1, 2, 3))
    assert nights.run(finish=True) is None
    with alone(nights.out), pytest.raises(Occupied, match="another run writes"):
        nights.put(0)
        (nights.inside / "new.pcap").write_bytes(capture([(2 * 10**18, mixed()[0][1])]))
        nights.run()
    assert (nights.states / NEXT).exists()
    assert nights.run() is not None, "what was begun is done"


@pytest.mark.slow
@pytest.mark.parametrize("level", ["frames", "messages", "connections", "packets"])
@pytest.mark.parametrize("kind", ["folder", "delta:"])
def test_nights_have_the_rows_of_all_days(
    spark: SparkSession, days: Path, tmp_path: Path, level: str, kind: str
) -> None:
    if kind == "delta:":
        pytest.importorskip("deltalake")
    out = f"{kind.removesuffix('folder')}{tmp_path / 'lake'}"
    nights = Nights(spark, days, tmp_path, out, PLANS[level])
    for day in (0, 2, 1, 3):
        nights.put(day)
        nights.run(finish=day == 3)
    if kind == "delta:":
        from deltalake import DeltaTable

        tables = [path for path in Path(out.removeprefix("delta:")).iterdir() if path.name.startswith(level)]
        parts = [DeltaTable(path).to_pyarrow_table().select(nights.demand.schema.names) for path in tables]
        found = pa.concat_tables([part.cast(nights.demand.schema) for part in parts])
    else:
        found = nights.rows()
    same_rows(found, nights.wanted(0, 1, 2, 3))


@pytest.mark.slow
def test_a_run_that_was_killed_behind_its_rows_is_done_again_as_it_was(
    spark: SparkSession, days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = Nights(spark, days, tmp_path, str(tmp_path / "lake"), replace(PLANS["frames"], columns=KEPT["frames"]))
    nights.put(0, 1)
    keep = ProcessedFiles.keep

    def killed(book: ProcessedFiles, log: Log) -> None:
        if log.number:
            raise InterruptedError
        keep(book, log)

    with monkeypatch.context() as patch:
        patch.setattr(ProcessedFiles, "keep", killed)
        with pytest.raises(InterruptedError):
            nights.run()
    nights.put(3)
    assert nights.run() is not None
    assert [len(files) for files in nights.files_of_steps()] == [2, 1]
    nights.put(2)
    assert nights.run(finish=True) is not None
    assert [len(files) for files in nights.files_of_steps()] == [2, 2, 0], "the late file and what it touches"
    same_rows(nights.rows(), nights.wanted(0, 1, 2, 3))
