"""Days read one by one give the rows of all days, including frames split at midnight and late files."""

from __future__ import annotations

import json
import time
from collections.abc import Container
from dataclasses import asdict, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from tests.spark.support import capture, expected, in_order, mixed, same_rows
from tests.spark.test_state import divided, rows
from tests.support import packets
from wiredecode.capture.listing import Listed
from wiredecode.export.lake.run import selection
from wiredecode.spark.accounts import TaskReports
from wiredecode.spark.decode import Decoded, TableDemand, decode
from wiredecode.spark.files import FileProblem, Inputs, find, settled_files
from wiredecode.spark.folder import Occupied, lock_folder
from wiredecode.spark.increments import (
    LOG,
    NEXT,
    Increment,
    IncrementStep,
    ProcessedFiles,
    StateDecoder,
    StepFile,
    StepLog,
    mark,
    merge_steps,
    next_step,
)
from wiredecode.spark.writing import REQUIRED_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS = 4


@cache
def plan(level: str) -> TableDemand:
    """Without ``interface``: one machine numbers the interfaces of all files, Spark those of each file."""
    if level == "frames":
        return TableDemand(level, 2, [*REQUIRED_COLUMNS[level], "offset", "length", "status", "latency_ns"])
    if level == "packets":
        return TableDemand(level, 2, [name for name in TableDemand(level).schema.names if name != "interface"])
    return TableDemand(level, 2)


@cache
def keys_only() -> TableDemand:
    return replace(plan("frames"), columns=REQUIRED_COLUMNS["frames"])


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with a file per day; each midnight splits a frame."""
    folder, every = tmp_path_factory.mktemp("days"), mixed()
    whole = tmp_path_factory.mktemp("whole") / "whole.pcap"
    whole.write_bytes(capture(every))
    carried = expected([whole], TableDemand("frames", columns=["packets"]))["packets"].to_pylist()
    second = sorted(times[1] for times in carried if len(times) > 1)
    nights = [second[len(second) * day // DAYS] for day in range(1, DAYS)]
    for day, (low, high) in enumerate(pairwise([0, *nights, 1 << 62])):
        (folder / f"{day}.pcap").write_bytes(capture([each for each in every if low <= each[0] < high]))
    return folder


@pytest.mark.parametrize(
    "levels", [("frames",), ("messages",), ("connections",), ("frames", "messages", "connections")]
)
def test_frames_split_at_midnight_continue_from_the_state(days: Path, tmp_path: Path, levels: tuple[str, ...]) -> None:
    demand, found = plan(levels[0]) if len(levels) == 1 else TableDemand(levels, 2), list[Decoded]()
    files = sorted(days.iterdir())
    known: dict[tuple[str, int], str] = {}
    for number, file in enumerate(files):
        made = list(decode(rows(file, demand), demand, StateDecoder(str(tmp_path), number, known)))
        found += made
        known |= TaskReports.of(divided(made, demand)[1]).states
    ends = [StateDecoder(str(tmp_path), DAYS, known).load(source, bucket, demand) for source, bucket in known]
    found += [item for state in ends for item in state.finish()]
    for level in levels:
        one = replace(demand, levels=level)
        wanted = expected(files, one, "s")
        same_rows(divided(found, demand, level)[0], wanted)
        apart = pa.concat_tables([expected([file], one, "s") for file in files])
        assert not in_order(apart).equals(in_order(wanted)), "days that know nothing of each other have other rows"


class Nights:
    """Runs of consecutive nights."""

    def __init__(self, spark: SparkSession, days: Path, folder: Path, out: str, demand: TableDemand) -> None:
        self.spark, self.days, self.inside, self.demand = spark, sorted(days.iterdir()), folder / "in", demand
        self.out, self.states = out, folder / "states"
        self.inside.mkdir()

    def put(self, *days: int) -> None:
        for day in days:
            (self.inside / self.days[day].name).write_bytes(self.days[day].read_bytes())

    def run(self, **options: Any) -> TaskReports | None:
        increment = Increment(self.out, ProcessedFiles(str(self.states)), self.demand, selection)
        return increment.run(self.spark, find([str(self.inside)]), **options)

    def rows(self) -> pa.Table:
        names = self.demand.schema.names
        tables = [path for path in Path(self.out.removeprefix("delta:")).iterdir() if path.name.startswith(self.level)]
        tables_of = pytest.importorskip("deltalake").DeltaTable
        parts = [tables_of(path).to_pyarrow_table().select(names) for path in tables]
        return pa.concat_tables([part.cast(self.demand.schema) for part in parts])

    @property
    def level(self) -> str:
        return self.demand.level

    def files_of_steps(self) -> list[list[str]]:
        return [sorted(step["files"]) for step in json.loads((self.states / LOG).read_bytes())["steps"]]

    def wanted(self, *days: int) -> pa.Table:
        return expected([self.days[day] for day in days], self.demand)


@pytest.mark.slow
def test_a_late_file_is_inserted_and_no_file_read_twice(spark: SparkSession, days: Path, tmp_path: Path) -> None:
    nights = Nights(spark, days, tmp_path, f"delta:{tmp_path / 'lake'}", plan("frames"))
    nights.put(0)
    assert nights.run() is not None
    nights.put(1, 3)
    result = nights.run()
    read = sum(len(packets(nights.days[day])) for day in (1, 3))
    assert result is not None and result.totals.packets == read, "the first day is not read again"
    assert [len(files) for files in nights.files_of_steps()] == [1, 2]
    (nights.inside / "copy.pcap").write_bytes(nights.days[1].read_bytes())
    assert nights.run() is None, "the same content under another name is the same file"
    nights.put(2)
    assert nights.run(finish=True) is not None
    assert [len(files) for files in nights.files_of_steps()] == [1, 3, 0]
    same_rows(nights.rows(), nights.wanted(0, 1, 2, 3))
    assert nights.run(finish=True) is None
    (nights.inside / "new.pcap").write_bytes(capture([(2 * 10**18, mixed()[0][1])]))
    with lock_folder(str(nights.states)), pytest.raises(Occupied, match="another run writes"):
        nights.run()
    assert not (nights.states / NEXT).exists()


@pytest.mark.slow
@pytest.mark.parametrize("level", ["frames", "messages", "connections", "packets"])
def test_nights_have_the_rows_of_all_days(spark: SparkSession, days: Path, tmp_path: Path, level: str) -> None:
    nights = Nights(spark, days, tmp_path, f"delta:{tmp_path / 'lake'}", plan(level))
    for day in (0, 2, 1, 3):
        nights.put(day)
        nights.run(finish=day == 3)
    same_rows(nights.rows(), nights.wanted(0, 1, 2, 3))


@pytest.mark.slow
def test_a_run_killed_after_writing_rows_is_repeated_identically(
    spark: SparkSession, days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights = Nights(spark, days, tmp_path, f"delta:{tmp_path / 'lake'}", keys_only())
    nights.put(0, 1)
    keep = ProcessedFiles.keep

    def killed(book: ProcessedFiles, log: StepLog, there: Container[str] = ()) -> None:
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
    assert [len(files) for files in nights.files_of_steps()] == [2, 2, 0], "the late file and its neighbours"
    same_rows(nights.rows(), nights.wanted(0, 1, 2, 3))


def test_killed_between_log_and_cleanup_does_not_repeat_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old steps are merged in the log: the place of the step in it has changed."""
    book, demand = ProcessedFiles(str(tmp_path / "states")), keys_only()
    increment = Increment("delta:x", book, demand, selected=str)
    step = IncrementStep(3, {"c": taken(4, "C")}, before=2)
    log = StepLog("delta:x", mark(demand), demand.buckets, number=3, steps=[IncrementStep(2, {}, before=1), step])
    book.write(LOG, asdict(log))
    book.write(NEXT, asdict(step))
    monkeypatch.setattr(Increment, "_do", None)
    assert increment.run(Mock(), Inputs(), finish=False) is None
    assert book.read(NEXT) is None
    assert increment.log() == log


SECOND_NS = 1_000_000_000


def taken(first: int, digest: str) -> StepFile:
    return StepFile("s", first * SECOND_NS, 0x0102, digest)


def test_old_steps_are_merged_and_remember_existing_files() -> None:
    steps = [
        IncrementStep(1, {"a": taken(1, "A"), "b": taken(2, "B")}, last={"s": 3}),
        IncrementStep(2, {"c": taken(4, "C")}, last={"s": 5}),
    ]
    one = merge_steps(steps, {"b", "c"})
    assert (one.number, sorted(one.files), one.last, one.forgotten, one.states) == (2, ["b", "c"], {"s": 5}, 1, None)
    assert merge_steps([one, IncrementStep(3, last={"s": 7})], {"c"}).forgotten == 2


def test_a_file_older_than_forgotten_ones_is_skipped_and_reported(tmp_path: Path) -> None:
    (tmp_path / "late.pcap").write_bytes(capture(mixed()[:3]))
    found = find([str(tmp_path)])
    log = StepLog("delta:x", "mark", 2, number=2, steps=[IncrementStep(2, last={"": 3 * 10**18}, forgotten=7)])
    step, reports = next_step(log, found, lambda before: False, finish=False)
    assert step is None
    assert "together with 7 files that are gone; it is left out" in json.loads(reports[0])["problem"]


@pytest.mark.slow
def test_after_compaction_a_late_file_is_named_and_later_ones_are_added(
    spark: SparkSession, days: Path, tmp_path: Path
) -> None:
    """Also if its step was planned before, and if the file is taken away."""
    nights = Nights(spark, days, tmp_path, f"delta:{tmp_path / 'lake'}", plan("frames"))
    for day in (0, 2):
        nights.put(day)
        nights.run()
    for table in (tmp_path / "lake").iterdir():
        pytest.importorskip("deltalake").DeltaTable(table).optimize.compact()
    nights.put(1)
    for _ in range(2):
        result = nights.run()
        assert result is not None
        (problem,) = result.problems
        assert problem[2].endswith("and the tables were compacted since; it is left out")
    nights.put(3)
    result = nights.run()
    assert result is not None and result.totals.packets == len(packets(nights.days[3]))
    log = StepLog.of(json.loads((nights.states / LOG).read_bytes()))
    late = nights.inside / nights.days[1].name
    pending = IncrementStep(log.number + 1, {str(late): taken(0, "planned by an earlier version")}, before=1)
    (nights.states / NEXT).write_text(json.dumps(asdict(pending)))
    late.unlink()
    result = nights.run(finish=True)
    assert result is not None and [file for _, file, _ in result.problems] == [str(late)]
    assert nights.run() is None and not (nights.states / NEXT).exists()
    same_rows(nights.rows(), nights.wanted(0, 2, 3))


def test_a_file_is_complete_if_a_newer_one_exists_or_writes_stopped(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{2 - number}.pcap").write_bytes(capture(mixed()[number * 3 : number * 3 + 3]))
    heads: dict[Any, int] = {}
    found = find([str(tmp_path)], heads=heads)
    assert len(heads) == 3
    assert find([str(tmp_path)], heads=heads) == found
    heads |= {Listed(f"{tmp_path}/gone.pcap", 0x0102, 3.5): 4}
    assert find([str(tmp_path)], heads=heads) == found
    assert len(heads) == 3, "a ring deletes its files"
    found.problems.append(FileProblem("", "broken", "broken: is no capture"))
    found.changed = dict.fromkeys([*found.sizes, "broken"], 1000.0)

    def names(seconds: float) -> list[str]:
        kept = settled_files(found, seconds, now=1060.0)
        return [Path(each.name).name for each in kept.files] + [each.file for each in kept.problems]

    assert names(60.5) == ["2.pcap", "1.pcap"]
    assert names(59.5) == ["2.pcap", "1.pcap", "0.pcap", "broken"]
    assert settled_files(Inputs(), 1.0, 0.0) == Inputs()


@pytest.mark.slow
def test_a_stream_repeats_increments_until_it_is_interrupted(
    spark: SparkSession, days: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from wiredecode.cli import spark_job

    nights = Nights(spark, days, tmp_path, f"delta:{tmp_path / 'lake'}", keys_only())
    (nights.inside / "broken.pcap").write_text("no capture")
    rounds = iter([(1,), (2, 3), ()])
    nights.put(0)

    def sleep(seconds: float) -> None:
        fresh = next(rounds, None)
        if fresh is None:
            raise KeyboardInterrupt
        nights.put(*fresh)

    clock = SimpleNamespace(monotonic=time.monotonic, time=time.time, sleep=sleep)  # not that of Spark's threads
    monkeypatch.setattr(spark_job, "time", clock)
    options: Any = SimpleNamespace(
        inputs=[str(nights.inside)],
        out=nights.out,
        source="none",
        level="frames",
        partitions=2,
        settle=0.0,
        every=0.0,
        split_bytes=None,
        display_filter=None,
        finish=False,
        stream=str(nights.states),
        verbosity=SimpleNamespace(quiet=False),
    )
    with pytest.raises(KeyboardInterrupt):
        spark_job.SparkRun(options, keys_only(), Inputs()).follow(spark)
    result = capfd.readouterr().err
    assert result.count("broken.pcap") == 1, "a problem is reported once"
    assert result.count("packets to delta:") == 3
    assert [len(files) for files in nights.files_of_steps()] == [1, 1, 2]
    assert nights.run(finish=True) is not None
    same_rows(nights.rows(), nights.wanted(0, 1, 2, 3))
