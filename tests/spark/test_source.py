"""``spark.read.format("wiredecode")`` gives the rows of one machine."""

from __future__ import annotations

import gzip
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from tests.conftest import CAPTURES
from tests.pcap import write_pcap
from tests.spark.support import expected, same_rows
from tests.support import packets
from wiredecode.capture import remote as places
from wiredecode.spark.decode import TableDemand

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812 - everybody calls it so
from pyspark.sql.pandas.types import to_arrow_schema

from tests.spark.conftest import release
from wiredecode.spark.files import UnreadableFile
from wiredecode.spark.source import CaptureReader, Captures, ReadOptions, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BASIC = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
NATS = CAPTURES / "nats" / "03-pubsub.pcap"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
FEW = "source,frame,time,connection,src,dst,protocol,type,offset,length"


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    register(spark)
    return spark


def load(spark: SparkSession, paths: str | list[str], **options: Any) -> DataFrame:
    return spark.read.format("wiredecode").options(**options).load(paths)


@pytest.mark.slow
@pytest.mark.nightly
def test_frames_are_those_of_one_machine(session: SparkSession) -> None:
    columns = ["source", "time", "time_ns", "frame", "connection", "packets", "layers.rabbitmq_stream", "findings"]
    found = load(session, str(BASIC), partitions=2, columns=",".join(columns)).toArrow()
    same_rows(found, expected([BASIC], TableDemand("frames", columns=columns)))


@pytest.mark.parametrize("level", ["frames", "messages", "packets"])
def test_schema_equals_that_of_the_tables(level: str) -> None:
    schema = Captures({"level": level, "path": "x"}).schema()
    zone = {"timezone": "UTC"} if release() >= (4, 2) else {}
    assert to_arrow_schema(schema, **zone).equals(TableDemand(level).schema)


@pytest.mark.slow
@pytest.mark.nightly
def test_messages_of_a_folder_with_compressed_files(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.pcap.gz").write_bytes(gzip.compress(BASIC.read_bytes()))
    shutil.copy(NATS, tmp_path / "b.pcap1")
    (tmp_path / "notes.txt").write_text("no capture")
    found = load(session, tmp_path.as_uri(), level="messages", partitions=2).toArrow()
    same_rows(found, expected([BASIC, NATS], TableDemand("messages")))


@pytest.mark.slow
def test_packets_have_a_partition_per_file(session: SparkSession) -> None:
    found = load(session, [str(NATS), str(BASIC)], level="packets", source=POINTS)
    assert found.rdd.getNumPartitions() == 2
    demand = TableDemand("packets")
    wanted = [expected([NATS], demand, "nats"), expected([BASIC], demand, "rabbitmq")]
    same_rows(found.toArrow(), pa.concat_tables(wanted))


@pytest.mark.slow
def test_rotated_files_in_any_order_are_one_capture(session: SparkSession, tmp_path: Path) -> None:
    every = packets(BASIC)
    for number, low in enumerate(range(0, len(every), 20)):
        write_pcap(tmp_path / f"{number * 7919 % 100}.pcap", every[low : low + 20])
    paths = [str(path) for path in tmp_path.iterdir()]
    random.Random(3).shuffle(paths)
    found = load(session, paths, columns=FEW, partitions=2).toArrow()
    same_rows(found, expected([BASIC], TableDemand("frames", columns=FEW.split(","))))


def test_options_reach_the_engine(session: SparkSession) -> None:
    options = {"columns": FEW, "filter": 'frame.type == "MSG"', "decodeAs": "4222=nats", "limits": "gap_seconds=2"}
    found = load(session, str(NATS), **options).toArrow()
    assert found.num_rows
    demand = TableDemand("frames", columns=FEW.split(","), filter='frame.type == "MSG"')
    same_rows(found, expected([NATS], demand))


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_pushed_down_filters_give_the_same_rows(session: SparkSession, enabled: str) -> None:
    every = frames_of_both()
    middle = every["time"][every.num_rows // 2]
    session.conf.set(PUSHDOWN, enabled)
    try:
        condition = F.col("type").isin("MSG", "Publish", "no such") & (F.col("time") >= middle.as_py())
        rows = load(session, [str(NATS), str(BASIC)], columns=FEW, source=POINTS)
        found = rows.where(condition).toArrow()
        counts = rows.count(), rows.where(F.col("type") == "no such").count(), rows.count()
    finally:
        session.conf.unset(PUSHDOWN)
    wanted = every.filter(pc.field("type").isin(["MSG", "Publish"]) & (pc.field("time") >= middle))
    assert 0 < wanted.num_rows < every.num_rows
    same_rows(found, wanted)
    assert counts == (every.num_rows, 0, every.num_rows), "a filter of one query reached another"


POINTS = "/(nats|rabbitmq)"


def frames_of_both() -> pa.Table:
    demand = TableDemand("frames", columns=FEW.split(","))
    return pa.concat_tables([expected([NATS], demand, "nats"), expected([BASIC], demand, "rabbitmq")])


def test_bad_files_are_skipped_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = CAPTURES / "rabbitmq-stream" / "d_cutfile.pcap"
    shutil.copy(damaged, tmp_path)
    (tmp_path / "text.pcap").write_text("this is no capture")
    for level in ("frames", "packets"):
        caplog.clear()
        reader = CaptureReader(ReadOptions.of({"path": str(tmp_path), "level": level}))
        (part,) = reader.partitions()
        same_rows(pa.Table.from_batches(reader.read(part)), expected([damaged], TableDemand(level)))
        first, second = (record.getMessage() for record in caplog.records)
        assert first.startswith(f"{tmp_path}/text.pcap: is not a pcap or pcapng file")
        assert second.startswith(f"{tmp_path}/d_cutfile.pcap: is truncated in the middle of a packet record")


@pytest.mark.slow
def test_bad_files_are_errors_if_requested(session: SparkSession, tmp_path: Path) -> None:
    damaged = CAPTURES / "rabbitmq-stream" / "d_cutfile.pcap"
    with pytest.raises(
        Exception, match=r"UnreadableFile: .*d_cutfile\.pcap: is truncated in the middle of a packet"
    ) as error:
        load(session, str(damaged), columns=FEW, failFast=True).toArrow()
    assert "Traceback" not in str(error.value)
    with pytest.raises(Exception, match="no level is called 'bytes'") as error:
        load(session, str(damaged), level="bytes")
    assert "Traceback" not in str(error.value) and str(error.value).strip().count("\n") <= 1
    (tmp_path / "text.pcap").write_text("this is no capture")
    shutil.copy(damaged, tmp_path)
    with pytest.raises(UnreadableFile, match=r"text\.pcap: is not a pcap or pcapng file"):
        CaptureReader(ReadOptions.of({"path": str(tmp_path), "failFast": "true"})).partitions()


def test_connections_on_unusual_ports_are_linked() -> None:
    """All partitions know the ports that a sample of the files shows."""
    path = CAPTURES / "kafka" / "failover.pcap.zst"
    reader = CaptureReader(ReadOptions.of({"path": str(path), "partitions": "3"}))
    parts = reader.partitions()
    assert [{*part.value.demand.seen} for part in parts] == [{9192, 9392}] * 3
    rows = [batch for part in parts for batch in reader.read(part)]
    demand = TableDemand("frames")
    same_rows(pa.Table.from_batches(rows, demand.schema), expected([path], demand))


def test_files_of_other_file_systems_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = packets(BASIC)
    for number, low in enumerate(range(0, len(every), 30)):
        write_pcap(tmp_path / f"{number * 7919 % 100}.pcap", every[low : low + 30])
    monkeypatch.setattr(places, "file_system", lambda uri: (SubTreeFileSystem(str(tmp_path), LocalFileSystem()), ""))
    for level in ("frames", "messages"):
        reader = CaptureReader(ReadOptions.of({"path": "gs://bucket/*.pcap", "level": level}))
        (part,) = reader.partitions()
        same_rows(pa.Table.from_batches(reader.read(part)), expected([BASIC], TableDemand(level)))


@pytest.mark.slow
def test_an_empty_folder_has_no_rows_and_a_missing_one_is_an_error(session: SparkSession, tmp_path: Path) -> None:
    assert load(session, str(tmp_path), columns=FEW).toArrow().num_rows == 0
    with pytest.raises(UnreadableFile, match=r"nowhere: does not exist"):
        CaptureReader(ReadOptions.of({"path": str(tmp_path / "nowhere")})).partitions()
    with pytest.raises(ValueError, match=r"load\(\) needs a path"):
        CaptureReader(ReadOptions.of({})).partitions()


@pytest.mark.slow
def test_views_of_sql_and_file_names_work(session: SparkSession) -> None:
    session.sql(f"create temporary view nats using wiredecode options (path '{NATS}', columns '{FEW}')")
    wanted = expected([NATS], TableDemand("frames", columns=FEW.split(",")))
    same_rows(session.sql(f"select {FEW} from nats").toArrow(), wanted)
    same_rows(session.table("nats").select("time", "type").toArrow(), wanted.select(["time", "type"]))
    named = load(session, [str(NATS), str(BASIC)], level="packets", source="(.*)").select("source").distinct()
    assert sorted(row.source for row in named.collect()) == sorted(map(str, (NATS, BASIC)))


def stream(session: SparkSession) -> None:
    rows = session.readStream.format("wiredecode").option("columns", FEW).load(str(NATS))
    rows.writeStream.format("noop").start().processAllAvailable()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("do", "error"),
    [
        (stream, "ValueError: there is no readStream: wiredecode spark --stream reads new captures"),
        (lambda session: load(session, str(NATS)).select("_metadata.file_path"), "UNRESOLVED_COLUMN"),
        (lambda session: session.sql(f"select type from wiredecode.`{NATS}`"), "UNSUPPORTED_DATASOURCE_FOR_DIRECT"),
        (
            lambda session: session.sql(f"create table t using wiredecode options (path '{NATS}')"),
            "ValueError: there is no option location",
        ),
        (
            lambda session: session.read.format("wiredecode").schema("time timestamp").load(str(NATS)).collect(),
            "ValueError: the schema is fixed; choose columns with the option columns",
        ),
        (
            lambda session: session.range(1).write.format("wiredecode").mode("append").save("out"),
            "writer is not implemented",
        ),
    ],
    ids=["readStream", "file_path", "files", "table", "schema", "write"],
)
def test_what_a_data_source_cannot_do_is_refused_without_a_traceback(
    session: SparkSession, do: Callable[[SparkSession], Any], error: str
) -> None:
    with pytest.raises(Exception, match=error) as raised:
        do(session)
    assert "Traceback" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"colums": "time"}, "there is no option colums; there is level, columns"),
        ({"level": "bytes"}, "no level is called 'bytes'"),
        ({"columns": "time,nothing"}, "nothing"),
        ({"decodeAs": "5552"}, "decodeAs: '5552' is not of the form name=value"),
        ({"decodeAs": "5552=smtp"}, "no protocol is called 'smtp'"),
        ({"limits": "gap_seconds=soon"}, "limits: gap_seconds needs a number, not 'soon'"),
        ({"limits": "speed=1"}, "'speed' is no limit"),
        ({"filter": "frame.size > 1"}, "frame.size"),
        ({"failFast": "maybe"}, "failFast is 'maybe'; it can be true or false"),
        ({"partitions": "0"}, "partitions: '0' is no number from 1 on"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        ReadOptions.of(options)


def test_capital_letters_of_options_do_not_matter() -> None:
    asked = ReadOptions.of({"SHOWSECRETS": "True", "splitbytes": "0", "path": "x"})
    assert asked.demand.show_secrets
    assert (asked.split_bytes, asked.paths) == (0, ("x",))


@pytest.mark.slow
def test_large_files_are_split(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "large.pcap"
    every = packets(CAPTURES / "rabbitmq-stream" / "c43_large.pcap")
    write_pcap(path, [(time_ns + step * 100_000_000_000, data) for step in range(3) for time_ns, data in every])
    found = load(session, str(path), level="packets", splitBytes=1 << 20)
    assert found.rdd.getNumPartitions() > 2
    same_rows(found.toArrow(), expected([path], TableDemand("packets")))
