"""A ring of captures that grows: exactly the rows of one reading, whatever is stopped, killed or put in between."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

from tests.capture.build import pcap, record
from tests.spark.support import expected, same_rows
from tests.support import packets
from wiredecode.spark import output
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.folder import STEP
from wiredecode.spark.reading import read
from wiredecode.spark.writing import KEPT, LEVELS

pytest.importorskip("pyspark")
if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROOT = Path(__file__).parent.parent.parent
MIXED = ("rabbitmq-stream/c43_basic.pcap", "nats/04-request-reply.pcap", "cursus/group.pcap")
FRAMES = TableDemand(
    "frames", buckets=2, columns=[*KEPT["frames"], "sender", "offset", "length", "status", "latency_ns"]
)
"""Without layers, which take most of the time."""
SECONDS = 300.0
"""A query that takes longer does not end."""
Packets = list[tuple[int, bytes]]


def mixed() -> Packets:
    """Several captures as if they had been taken at the same time."""
    found: Packets = []
    for name in MIXED:
        every = packets(ROOT / "captures" / name)
        found += [(10**18 + time_ns - every[0][0], data) for time_ns, data in every]
    return sorted(found, key=lambda packet: packet[0])


def capture(some: Packets) -> bytes:
    records = (record(data, time_ns // 10**9, time_ns % 10**9) for time_ns, data in some)
    return pcap(*records, magic=0xA1B23C4D)


class Replay:
    """A folder into which a capture is put in a hundred files, and what a query makes of it."""

    def __init__(self, folder: Path, count: int = 100) -> None:
        self.inside, self.out, self.checkpoint = folder / "in", folder / "out", folder / "checkpoint"
        self.inside.mkdir()
        every = mixed()
        edges = [len(every) * number // count for number in range(count + 1)]
        self.whole = folder / "whole.pcap"
        self.whole.write_bytes(capture(every))
        self.files = [capture(every[low:high]) for low, high in itertools.pairwise(edges)]
        self.put_so_far = 0

    def put(self, count: int) -> None:
        for number in range(self.put_so_far, min(self.put_so_far + count, len(self.files))):
            (self.inside / f"{number:03d}.pcap").write_bytes(self.files[number])
        self.put_so_far += count

    def start(
        self, spark: SparkSession, demand: TableDemand, every: str | None = None, **options: Any
    ) -> StreamingQuery:
        pytest.importorskip("wiredecode.spark.streaming", exc_type=ImportError)  # pyspark 4.2
        from wiredecode.spark.streaming import stream, write

        rows = stream(spark, str(self.inside), demand, **{"idle": 3600.0, **options})
        return write(rows, str(self.out), str(self.checkpoint), every=every, partitions=2, level=demand.level)

    def run(self, spark: SparkSession, demand: TableDemand, **options: Any) -> StreamingQuery:
        """Take what there is."""
        query = self.start(spark, demand, **options)
        assert query.awaitTermination(SECONDS), "it ends by itself"
        return query

    def rows(self, demand: TableDemand) -> pa.Table:
        folders = pads.partitioning(pa.schema([(name, pa.string()) for name in LEVELS[demand.level]]), flavor="hive")
        place = self.out / demand.level
        return pads.dataset(place, schema=demand.schema, partitioning=folders, format="parquet").to_table()

    def small(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table of totals or problems."""
        return [row for path in sorted((self.out / name).iterdir()) for row in pq.read_table(path).to_pylist()]

    def total(self, section: str, name: str) -> int:
        return sum(row["value"] for row in self.small("totals") if (row["section"], row["name"]) == (section, name))


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    return Replay(tmp_path)


def taken(offsets: Path) -> Iterator[str]:
    """The files of all micro-batches, as the checkpoint has them."""
    for path in sorted((path for path in offsets.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)):
        yield from (Path(name).name for name in json.loads(path.read_text().splitlines()[-1])["files"])


@pytest.mark.slow
def test_a_hundred_files_in_steps_with_restarts_are_one_capture(
    spark: SparkSession, replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MANY", 2)
    replay.put(30)
    query = replay.start(spark, FRAMES, every="0 seconds", files=15)
    until = time.monotonic() + SECONDS
    while query.lastProgress is None:
        assert query.isActive and time.monotonic() < until
        time.sleep(0.05)
    query.stop()  # in the middle of a micro-batch, most often
    replay.put(40)
    replay.run(spark, FRAMES, files=60)
    wanted = expected([replay.whole], FRAMES)
    so_far = replay.rows(FRAMES)
    assert 0 < len(so_far) < len(wanted)
    names = list(taken(replay.checkpoint / "offsets"))
    assert len(names) == 69, "the newest file may still grow"
    (replay.inside / "003.pcap").write_bytes(replay.files[3])
    replay.put(30)
    replay.run(spark, FRAMES, files=60, finish=True)
    same_rows(replay.rows(FRAMES), wanted)
    assert replay.total("packets", "read") == len(mixed())
    folders = Counter(path.parent for path in replay.out.glob("frames/**/*.parquet"))
    assert max(folders.values()) <= output.MANY, "small files of steps are joined"
    names = list(taken(replay.checkpoint / "offsets"))
    assert sorted(names) == names[:], "in order of time"
    assert len(names) == len(set(names)) == 100, "a file that was put twice is taken once"
    output.finish(str(replay.out), "frames")
    assert [path.name for path in replay.out.iterdir() if path.name.startswith(".")] == []
    assert replay.total("packets", "read") == len(mixed())
    found = read(spark, str(replay.out))
    assert found["frames"].count() == len(wanted)
    assert found["findings"].count() == sum(len(some or ()) for some in wanted["findings"].to_pylist())


KILLED = """
import os, signal, sys
sys.path.insert(0, {root!r})
from wiredecode.spark import streaming
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.folder import Folder
from wiredecode.spark.session import session

move = Folder.move

def killed(folder, moves):
    moves = list(moves)
    if any("part-" in name and os.path.exists(folder.place("_step.json")) for name, _ in moves):
        if '"number": 1' in open(folder.place("_step.json")).read():
            move(folder, moves[:1])
            os.kill(os.getpid(), signal.SIGKILL)  # complete, but for names; and Spark does not know
    move(folder, moves)

Folder.move = killed
inside, out, checkpoint = sys.argv[1:]
with session("local[2]", settings={{"spark.driver.memory": "1g"}}) as spark:
    rows = streaming.stream(spark, inside, TableDemand("messages", buckets=2), idle=3600.0, files=15)
    streaming.write(rows, out, checkpoint, every=None, partitions=2, level="messages").awaitTermination()
"""


@pytest.mark.slow
def test_killed_between_writing_and_committing_nothing_is_lost_or_there_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    demand, replay = TableDemand("messages", buckets=2), Replay(tmp_path, 40)
    replay.put(40)
    command = [sys.executable, "-c", KILLED.format(root=str(ROOT)), *map(str, (replay.inside, replay.out))]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, str(replay.checkpoint)], env=environment, capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode == -9, done.stderr.decode()
    assert json.loads((replay.out / STEP).read_text())["number"] == 1
    assert [path.name for path in (replay.checkpoint / "commits").iterdir() if path.name.isdecimal()] == ["0"]
    replay.run(spark, demand, files=40, finish=True)
    same_rows(replay.rows(demand), expected([replay.whole], demand))
    assert replay.total("packets", "read") == len(mixed())


@pytest.mark.slow
def test_late_and_damaged_files_are_reported_and_a_silent_bucket_ends(spark: SparkSession, tmp_path: Path) -> None:
    replay, demand = Replay(tmp_path, count=4), replace(FRAMES, buckets=1)
    how = {"idle": 0.0, "expire": 0.001, "source": "folder"}

    def put(folder: str, number: int) -> None:
        (replay.inside / folder).mkdir(exist_ok=True)
        (replay.inside / folder / f"{number}.pcap").write_bytes(replay.files[number])

    put("client", 2)
    (replay.inside / "client" / "text.pcap").write_text("no capture")
    replay.run(spark, demand, **how)
    put("client", 1)
    replay.run(spark, demand, **how)
    problems = {Path(told["file"]).name: told["problem"] for told in replay.small("problems")}
    assert sorted(problems) == ["1.pcap", "text.pcap"]
    assert "begins before files that were taken earlier" in problems["1.pcap"]
    assert "text.pcap" in problems["text.pcap"]
    assert not replay.total("connections", "seen")
    put("broker", 3)
    replay.run(spark, demand, **how)
    assert {row["source"] for row in replay.small("totals") if row["section"] == "frames"} == {"client"}
    rows = replay.rows(demand).filter(pc.equal(replay.rows(demand)["source"], "client"))
    assert replay.total("frames", "count") == len(rows) > 0


@pytest.mark.parametrize(("wrong", "why"), [({"files": 0}, "files"), ({"source": "x"}, "needs a group")])
def test_wrong_options_are_refused_before_a_query_starts(spark: SparkSession, wrong: dict[str, Any], why: str) -> None:
    from wiredecode.spark.streaming import stream

    with pytest.raises(ValueError, match=why):
        stream(spark, "in", TableDemand("frames"), **wrong)


@pytest.mark.slow
def test_packets_need_no_state(spark: SparkSession, tmp_path: Path) -> None:
    demand, replay = TableDemand("packets"), Replay(tmp_path, 9)
    replay.put(9)
    replay.run(spark, demand, finish=True)
    same_rows(replay.rows(demand), expected([replay.whole], demand))
