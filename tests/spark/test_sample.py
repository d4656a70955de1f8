"""A sample of the files shows sizes of connections, and ports. No Spark is needed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import CAPTURES
from tests.spark.support import capture
from tests.spark.test_core import NATS_PORTS
from tests.support import packets
from wiredecode.capture import open_capture
from wiredecode.dataclasses import replace
from wiredecode.spark.decode import TableDemand
from wiredecode.spark.files import FileProblem
from wiredecode.spark.parcels import File, PacketParcels
from wiredecode.spark.pipeline import Plan, ReadablePart, deal
from wiredecode.spark.sample import deal as deal_sizes
from wiredecode.spark.splits import FileSplit
from wiredecode.testing import Talk

SIZES = (300, 37, 160, 120, 74, 44, 21, 14)
NATS, RABBITMQ, KAFKA = 4222, 5552, 9092
INFO, CONNECT = b'INFO {"server_id":"a","version":"2.10.7","max_payload":1048576}\r\n', b"CONNECT {}\r\nPING\r\n"


def skewed(path: Path, port: int) -> Path:
    """A capture of connections of very different sizes, at the same time."""
    packets = []
    for number, size in enumerate(SIZES):
        talk = Talk(client=("10.0.0.3", 41_000 + number), server=("10.0.0.2", port))
        packets += [(turn * 10**9 // size, talk.packet(0, bytes(1000))) for turn in range(size)]
    path.write_bytes(capture(sorted(packets)))
    return path


def by_task(path: Path, demand: TableDemand, tasks: int) -> list[int]:
    """Bytes of each task, as the shuffle divides the packets of one source."""
    part = ReadablePart(FileSplit(File(str(path), "s", 0)), path.stat().st_size)
    demand, tasks_of = deal(Plan([part], replace(demand, buckets=tasks), tasks))
    parcels = PacketParcels(File(str(path), "s", 0), demand.bucketing("s"), demand.reassembly)
    sizes = Counter[int]()
    for row in parcels.rows(open_capture([path])):
        for bucket, data in zip(row["bucket"].to_pylist(), row["data"], strict=True):
            sizes[int(tasks_of["s"][bucket])] += data.as_buffer().size if bucket >= 0 else 0
    return [sizes[task] for task in range(tasks)]


def test_connections_of_very_different_sizes_are_dealt_largest_first(tmp_path: Path) -> None:
    sizes = by_task(skewed(tmp_path / "a.pcap", RABBITMQ), TableDemand("frames"), 4)
    assert sizes[0] < 0.4 * sum(sizes)  # the largest connection is 0.39
    assert sizes[3] > 0.17 * sum(sizes)


def test_linked_connections_are_dealt_too_and_others_stay_together(tmp_path: Path) -> None:
    path = skewed(tmp_path / "a.pcap", NATS)
    assert by_task(path, TableDemand("frames", linked=True), 4)[0] < 0.4 * path.stat().st_size
    assert [size > 0 for size in by_task(path, TableDemand("frames"), 4)] == [True, False, False, False]


def test_small_connections_are_spread_by_hash(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    talks = [Talk(client=("10.0.0.3", 41_000 + number), server=("10.0.0.2", RABBITMQ)) for number in range(200)]
    path.write_bytes(capture([(0, talk.packet(0, b"x")) for talk in talks]))
    demand, _ = deal(Plan([ReadablePart(FileSplit(File(str(path), "s", 0)), 1)], TableDemand("frames", buckets=2), 2))
    assert demand.large == {"s": {}}


def test_buckets_of_several_sources_fill_tasks_evenly() -> None:
    parts = [
        ReadablePart(FileSplit(File("absent", source, 0)), size) for source, size in (("a", 6), ("b", 2), ("c", 4))
    ]
    _, tasks = deal(Plan(parts, TableDemand("frames", buckets=2), 4))
    assert {source: sorted(some[:2].tolist()) for source, some in tasks.items()} == {
        "a": [0, 1],
        "b": [2, 3],
        "c": [2, 3],
    }


def test_files_that_cannot_be_read_are_dealt_nowhere(tmp_path: Path) -> None:
    absent = str(tmp_path / "a.pcap")
    problem = ReadablePart(FileProblem("s", absent, f"{absent}: does not exist"), 0)
    assert deal(Plan([problem], TableDemand("frames", buckets=2), 2))[1] == {}
    part = ReadablePart(FileSplit(File(absent, "s", 0)), 5)
    demand, tasks = deal(Plan([problem, part], TableDemand("frames", buckets=2), 2))
    assert demand.large == {"s": {}}
    assert sorted(tasks["s"][:2].tolist()) == [0, 1]


def seen(paths: dict[Path, str], **how: Any) -> dict[int, str]:
    """The ports that the sample of files shows, by their sources."""
    parts = [ReadablePart(FileSplit(File(str(path), source, 0)), path.stat().st_size) for path, source in paths.items()]
    return dict(deal(Plan(parts, TableDemand("frames", buckets=3, **how), 3))[0].seen)


def nats(path: Path, port: int) -> Path:
    """The beginning of a connection of NATS, and packets of another port whose protocol is unknown."""
    talk, other = Talk(server=("10.0.0.2", port)), Talk(server=("10.0.0.2", 14_999))
    packets = [*talk.handshake(), talk.packet(1, INFO), talk.packet(0, CONNECT), other.packet(0, bytes(500))]
    path.write_bytes(capture(list(enumerate(packets))))
    return path


def test_the_sample_shows_unusual_ports_in_several_sources(tmp_path: Path) -> None:
    every = {nats(tmp_path / "a.pcap", 14_222): "a", nats(tmp_path / "b.pcap", 18_080): "b"}
    assert seen(every) == {14_222: "nats", 18_080: "nats"}


def test_a_port_that_speaks_something_else_is_seen(tmp_path: Path) -> None:
    assert seen({nats(tmp_path / "a.pcap", RABBITMQ): ""}) == {RABBITMQ: "nats"}
    assert seen({skewed(tmp_path / "b.pcap", 14_222): ""}) == {}


def test_the_users_choice_and_known_ports_are_not_seen_again(tmp_path: Path) -> None:
    path = {nats(tmp_path / "a.pcap", 14_222): ""}
    assert seen(path, decode_as={14_222: "nats"}) == seen(path, decode_as={14_222: "rabbitmq_stream"}) == {}
    assert seen({nats(tmp_path / "b.pcap", KAFKA): ""}) == {}


@pytest.mark.parametrize(
    ("name", "ports"),
    [("kafka/failover.pcap.zst", {9192, 9392}), ("nats/50-server-links.pcap", {*NATS_PORTS})],
)
def test_the_ports_of_servers_are_seen_in_mid_stream(name: str, ports: set[int], tmp_path: Path) -> None:
    path, every = tmp_path / "a.pcap", packets(CAPTURES / name)
    path.write_bytes(capture(every[len(every) // 3 :]))
    assert len(ports & seen({path: ""}).keys()) > 1


def test_the_first_task_has_most() -> None:
    assert deal_sizes(np.array([3.0, 20, 7, 1, 9]), 3).tolist() == [2, 0, 2, 1, 1]
