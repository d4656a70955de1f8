"""The plan: what the index says of files, who decodes what, and that rows are the same with a shuffle and without."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.support import expected, same_rows
from tests.spark.test_core import NATS_PORTS, fragmented, shuffled
from tests.spark.test_output import job, visible, write
from tests.spark.test_pipeline import BASIC, CAPTURES, NATS, cut, run
from tests.support import capture_files, packets
from wiredecode.capture import write_pcap
from wiredecode.spark import planner
from wiredecode.spark.accounts import combined
from wiredecode.spark.decode import TableDemand, decode
from wiredecode.spark.files import find
from wiredecode.spark.folder import DONE, Folder
from wiredecode.spark.index import INDEX, Indexer, settings_of
from wiredecode.spark.packets import PacketRows, unpacked
from wiredecode.spark.parcels import opened, parcels
from wiredecode.spark.planner import Divide, Division, direct, divided
from wiredecode.spark.splits import merged
from wiredecode.tables.reader import TableReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def division(
    paths: list[Path], demand: TableDemand, tasks: int = 3, cores: int = 3, divide: Divide = "direct"
) -> Division:
    """The plan for some files, without Spark."""
    found = find([str(path) for path in paths])
    rows = []
    for file in found.files:
        made = Indexer(file, demand.reassembly, demand.sessions)
        rows.append(made.row(merged([file]), found.sizes[file.name], settings_of(demand, 0)))
    index = pa.Table.from_batches(rows, INDEX)
    return divided(index, found.files, demand, tasks, cores, divide)


def decoded(made: Division, demand: TableDemand) -> tuple[pa.Table, list[dict[str, object]]]:
    """The rows of all tasks, and their reports."""
    table = pa.Table.from_batches([batch for task in made.tasks for batch in direct(task, demand)], demand.row_schema())
    reports = [json.loads(text) for text in table["report"].drop_null().to_pylist()]
    return table.filter(table["report"].is_null()).drop_columns(["report"]), reports


@pytest.mark.parametrize("path", capture_files(), ids=lambda path: path.name)
def test_tasks_that_read_the_files_of_their_connections_have_the_rows_of_one_machine(path: Path) -> None:
    demand = TableDemand("messages", decode_as=NATS_PORTS)
    made = division([path], demand)
    if made.tasks:
        same_rows(decoded(made, demand)[0], expected([path], demand))
    else:
        assert made.shuffles


def test_connections_that_cross_files_are_decoded_once_and_totals_are_those_of_one_machine(tmp_path: Path) -> None:
    demand = TableDemand("frames")
    files = sorted(cut(tmp_path, packets(BASIC), 10))
    made = division(files, demand)
    rows, reports = decoded(made, demand)
    same_rows(rows, expected(files, demand))
    assert len(made.tasks) > 1
    totals = [(("bucket" in told), unpacked(str(told["totals"]))) for told in reports if "totals" in told]
    found = combined([each for whole, each in totals if not whole], [each for whole, each in totals if whole])
    reader = TableReader(merged(find([str(tmp_path)]).files), "frames", stable_ids=True)
    assert sum(map(len, reader)) == len(rows)
    assert found == reader.totals


def mixture(folder: Path) -> list[Path]:
    """Files with connections of their own, and one capture whose connections are in all of them."""
    folder.mkdir()
    whole, files = packets(NATS)[:300], []
    ring = sorted((CAPTURES / "rabbitmq-stream").glob("c4*.pcap"))[:6]
    share, begin, step = 50, whole[0][0], 100 * 1_000_000_000
    for number, path in enumerate(ring):
        own, slot = packets(path), begin + number * step
        shifted = [(slot + time_ns - own[0][0], data) for time_ns, data in own]
        part = [(slot + at * 1_000, data) for at, (_, data) in enumerate(whole[share * number :][:share])]
        files.append(folder / f"ring-{number}.pcap")
        write_pcap(files[-1], sorted(shifted + part, key=lambda packet: packet[0]))
    return files


@pytest.mark.slow
def test_what_is_in_few_files_is_decoded_there_and_the_rest_is_shuffled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planner, "MOST_READS", 1.0)
    demand, files = TableDemand("messages"), mixture(tmp_path / "ring")
    made = division(files, demand, tasks=4, cores=2, divide="auto")
    assert made.tasks and made.shuffles, made.lines
    wanted = expected(sorted(files), demand)
    for divide in ("auto", "shuffle", "direct"):
        found, reports = run(spark, [tmp_path / "ring"], demand, partitions=4, divide=divide)
        same_rows(found, wanted)
        read = [told for told in reports if "totals" in told and "bucket" not in told]
        assert {told["file"] for told in read} == {str(path) for path in files}


def test_tasks_decrypt_with_key_logs_and_with_secrets_that_a_file_brings() -> None:
    tls = CAPTURES / "rabbitmq-stream" / "c43_tls.pcap"
    log, columns = tls.with_suffix(".keylog"), ["type", "frame", "connection"]
    keyed, demand = (
        TableDemand("frames", columns=columns, keylog=[str(log)]),
        TableDemand("frames", columns=columns, buckets=3),
    )
    rows, _ = decoded(division([tls], keyed), keyed)
    assert {"Publish", "Open", "Tune"} <= set(rows["type"].to_pylist())
    same_rows(sent(tls, keyed), rows)
    same_rows(sent(tls, demand, log.read_bytes()), rows)
    (file,) = find([str(tls)]).files
    batches = [replace(batch, secrets=(log.read_bytes(),)) for batch in merged([file])]
    row = Indexer(file, demand.reassembly, demand.sessions).row(batches, 1, "")
    assert not row["whole"][0].as_py(), "connections in other files may need them"


def sent(path: Path, demand: TableDemand, *secrets: bytes) -> pa.Table:
    """The rows of a file whose packets are sent; ``secrets`` come with them."""
    (file,) = find([str(path)]).files
    batches = (replace(batch, secrets=secrets) for batch in merged([file]))
    found = shuffled(parcels(PacketRows(file, demand.dealt, demand.reassembly).rows(batches)))
    table = pa.Table.from_batches(decode(opened(found), demand), demand.row_schema())
    return table.filter(table["report"].is_null()).drop_columns(["report"])


def test_the_plan_names_the_largest_connection_and_what_knows_of_each_other(tmp_path: Path) -> None:
    made = division([BASIC], TableDemand("frames"), divide="auto")
    assert "without a shuffle" in made.lines[0]
    assert "127.0.0.1:5552" in made.lines[-1] or ":5552" in made.lines[-1]
    (line,) = [line for line in division([NATS], TableDemand("frames")).lines if "largest" in line]
    assert "connections of nats, which know of each other and are not divided" in line


def test_fragments_of_ip_are_shuffled(tmp_path: Path) -> None:
    path = tmp_path / "fragments.pcap"
    write_pcap(path, fragmented(packets(BASIC), 128))
    made = division([path], TableDemand("frames"))
    assert not made.tasks and made.shuffles
    assert "fragments" in made.lines[0]


def test_the_index_is_kept_and_files_that_are_the_same_are_not_read_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wiredecode.spark import prepare

    files, out = sorted(cut(tmp_path / "ring", packets(BASIC), 5)), tmp_path / "lake"
    write(spark, job([tmp_path / "ring"], out, level="messages"))
    assert visible(out) == {"messages", "totals", "problems", DONE}
    read: list[str] = []
    dealt = prepare.dealt

    def told(parts: list[prepare.Part], parallel: int) -> list[list[prepare.Part]]:
        read.extend(str(part.what.file.name) for part in parts)  # type: ignore[union-attr]
        return dealt(parts, parallel)

    monkeypatch.setattr(prepare, "dealt", told)
    known = Folder(str(out)).index()
    assert known is not None
    write_pcap(files[2], packets(BASIC)[:7])
    planned = prepare.prepared(spark, [str(tmp_path / "ring")], TableDemand("messages"), partitions=3, known=known)
    assert read == [str(files[2])]
    assert planned.index is not None and len(planned.index) == 5


def test_plan_says_who_would_decode_what_and_writes_no_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from wiredecode.cli.spark_job import SparkRun

    wanted = job([BASIC], tmp_path / "lake", plan_only=True)
    assert SparkRun(wanted, wanted.demand()).show_plan(spark) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "without a shuffle" in shown[0]
    assert "largest of" in shown[-1]
    assert visible(tmp_path / "lake") == set()
    write(spark, job([BASIC], tmp_path / "lake", level="messages"))
