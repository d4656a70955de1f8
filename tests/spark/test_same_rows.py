"""One folder with all kinds of real files: the rows of ``export``, in every column, for any number of buckets."""

from __future__ import annotations

import gzip
import random
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.capture.build import Ng
from tests.conftest import CAPTURES
from tests.spark.support import Packets, capture, same_rows
from tests.spark.test_core import decoded_levels
from tests.spark.test_output import job, table, write
from tests.support import packets
from wiredecode.capture import open_capture
from wiredecode.cli import main
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import find
from wiredecode.spark.parcels import PacketParcels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOGETHER = (
    "rabbitmq-stream/c43_basic.pcap",
    "rabbitmq-stream/d_drop1pct.pcap",
    "nats/04-request-reply.pcap",
    "cursus/group.ooo-dup.pcap",
    "pravega/append_basic.pcap",
    "tank/tank_04_produce_batches.pcap",
    "liftbridge/30-lb-publish-ack.pcap",
    "kafka/small.pcap",
)
LEVELS = ("frames", "messages", "connections")
BUCKETS = (1, 2, 7, 64)
PORTS = {4222: "nats"}
TICKS = 9
"""pcapng counts nanoseconds with this resolution."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simultaneous captures in files that overlap, are duplicated, truncated, empty, junk or compressed."""
    made = tmp_path_factory.mktemp("ring")
    every: Packets = []
    for name in TOGETHER:
        some = packets(CAPTURES / name)
        every += [(10**18 + time_ns - some[0][0], data) for time_ns, data in some]
    every.sort(key=lambda packet: packet[0])
    edges = [0, *sorted(random.Random(3).sample(range(1, len(every)), 9)), len(every)]
    files = [capture(every[max(0, low - 5) : high]) for low, high in pairwise(edges)]  # five packets are in two files
    files[4] = files[4][:-7]
    (made / "two.pcapng").write_bytes(two_interfaces(every[edges[2] : edges[4]]))
    for number, data in enumerate(files):
        (made / f"ring.pcap{number}").write_bytes(data)
    (made / "ring.pcap7").rename(made / "seven.pcap")
    (made / "seven.pcap.gz").write_bytes(gzip.compress(files[7]))  # a twin
    (made / "ring.pcap6.zst").write_bytes(zstandard.compress((made / "ring.pcap6").read_bytes()))
    (made / "ring.pcap6").unlink()
    (made / "ring.pcap5").rename(made / "five.pcap")
    (made / "empty.pcap").write_bytes(b"")
    (made / "without-packets.pcap").write_bytes(capture([]))
    (made / "junk.pcap").write_bytes(random.Random(4).randbytes(5000))
    (made / "notes.txt").write_text("no capture")
    return made


def two_interfaces(every: Packets) -> bytes:
    """A pcapng file where packets were seen on two interfaces, 20 us apart."""
    ng = Ng()
    blocks = [ng.interface((TICKS, b"\x09"))] * 2
    for time_ns, data in every:
        blocks += (ng.enhanced(data, time_ns + copy * 20_000, interface=copy) for copy in (0, 1))
    return b"".join([ng.section(), *blocks])


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The rows of ``wiredecode export``, by level."""
    out, tables = tmp_path_factory.mktemp("exported"), {}
    for level in (*LEVELS, "packets"):
        file = str(out / f"{level}.parquet")
        assert main(["export", str(folder), "-q", "-o", file, "--level", level, "--ids", "stable"]) == 2
        tables[level] = pq.read_table(file)
        assert len(tables[level]) > 10
    return tables


@pytest.mark.parametrize("buckets", [pytest.param(count, marks=pytest.mark.slow) for count in (2, 1, 64)])
def test_any_number_of_buckets_has_the_rows_of_export(
    folder: Path, exported: dict[str, pa.Table], buckets: int
) -> None:
    demand = TableDemand(LEVELS, buckets=buckets)
    parcels = [
        row
        for file in find([str(folder)]).files
        for row in PacketParcels(file, demand.bucketing(""), demand.reassembly).rows(open_capture([file.name]))
    ]
    random.Random(buckets).shuffle(parcels)
    found, _ = decoded_levels(parcels, demand)
    for level, rows in found.items():
        same_rows(rows, exported[level].cast(rows.schema))


@pytest.mark.slow
@pytest.mark.parametrize("buckets", BUCKETS)
def test_tables_of_a_run_have_the_rows_of_export(
    spark: SparkSession, folder: Path, exported: dict[str, pa.Table], tmp_path: Path, buckets: int
) -> None:
    options = job([folder], tmp_path / "lake", level=",".join(LEVELS), partitions=buckets)
    accounts = write(spark, options)
    assert {Path(file).name for _, file, _ in accounts.problems} == {"ring.pcap4", "empty.pcap", "junk.pcap"}
    for level in LEVELS:
        demand = TableDemand(level)
        same_rows(table(spark, tmp_path / "lake" / level, demand), exported[level])


@pytest.mark.slow
def test_packets_of_a_run_equal_those_of_export_except_the_interface(
    spark: SparkSession, folder: Path, exported: dict[str, pa.Table], tmp_path: Path
) -> None:
    """Interfaces are numbered within each file."""
    write(spark, job([folder], tmp_path / "lake", level="packets"))
    found = table(spark, tmp_path / "lake" / "packets", TableDemand("packets"))
    same_rows(found.drop_columns("interface"), exported["packets"].drop_columns("interface"))


@pytest.mark.parametrize(
    "name", ["nats/13-jetstream.pcap", "reports/n_max_deliver.pcap.zst", "flows/nh-acknone.pcap.zst"]
)
def test_acks_of_deliveries_have_the_rows_of_export(name: str, tmp_path: Path) -> None:
    """Policies of consumers are known to the task that decodes their connection."""
    file, demand = str(tmp_path / "messages.parquet"), TableDemand(("messages",), buckets=7)
    assert main(["export", str(CAPTURES / name), "-q", "-o", file, "--level", "messages", "--ids", "stable"]) == 0
    (found_file,) = find([str(CAPTURES / name)]).files
    parcels = PacketParcels(found_file, demand.bucketing(""), demand.reassembly).rows(open_capture([found_file.name]))
    found, _ = decoded_levels([*parcels], demand)
    same_rows(found["messages"], pq.read_table(file).cast(found["messages"].schema))
