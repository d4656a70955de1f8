"""Packets distributed to buckets and decoded there give the same rows as on one machine. No Spark is needed."""

from __future__ import annotations

import importlib
import json
import pkgutil
import random
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.conftest import sampled
from tests.spark.support import same_rows
from tests.support import capture_files, packets
from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.net.buckets import SLOTS
from wiredecode.spark import parcels as module
from wiredecode.spark.accounts import TaskReports
from wiredecode.spark.decode import TableDemand, decode
from wiredecode.spark.parcels import ORDER, REPORTS, File, PacketParcels, by_bucket, unpack
from wiredecode.spark.parcels import packets as in_order
from wiredecode.tables.portable import portable_rows
from wiredecode.tables.reader import TableReader

ROOT = Path(__file__).parent.parent.parent / "captures"
BASIC = ROOT / "rabbitmq-stream" / "c43_basic.pcap"
DECODED = ("frames", "messages", "connections")
KEYS = ("source", "connection", "frame", "index")
NATS_PORTS = dict.fromkeys((14222, 14223, 14224, 14225, 16222, 17222, 17224, 17422, 18080), "nats")
"""Ports of a capture that are not usual for its protocols."""
Packets = list[tuple[int, bytes]]


def file_rows(
    name: str, batches: Iterable[PacketBatch], first_ns: int, demand: TableDemand, **how: bool
) -> Iterator[pa.RecordBatch]:
    return PacketParcels(File(name, "s", first_ns), demand.bucketing("s"), demand.reassembly, **how).rows(batches)


def shuffled(parts: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(parts)
    order = pc.sort_indices(table, [(name, "ascending") for name in ORDER])
    batches: list[pa.RecordBatch] = table.take(order).to_batches(max_chunksize=3)
    return batches


def decoded(parts: Iterable[pa.RecordBatch], demand: TableDemand) -> tuple[pa.Table, list[dict[str, Any]]]:
    """The rows in a fixed order, and the reports."""
    tables, reports = decoded_levels(parts, demand)
    return tables[demand.level], reports


def decoded_levels(
    parts: Iterable[pa.RecordBatch], demand: TableDemand
) -> tuple[dict[str, pa.Table], list[dict[str, Any]]]:
    """The rows of each level in a fixed order, and the reports."""
    batches: dict[str, list[pa.RecordBatch]] = {level: [] for level in demand.levels}
    reports = []
    for item in decode(shuffled(parts), demand):
        if isinstance(item, str):
            reports.append(json.loads(item))
        else:
            batches[item[0]].append(item[1])
    return {
        level: ordered(pa.Table.from_batches(some, demand.schemas[level])) for level, some in batches.items()
    }, reports


def ordered(table: pa.Table) -> pa.Table:
    keys = [(name, "ascending") for name in KEYS if name in table.column_names]
    return table.take(pc.sort_indices(table, keys))


def read(batches: Iterable[PacketBatch], demand: TableDemand) -> pa.Table:
    """The rows of one reader."""
    found: list[pa.RecordBatch] = []
    reader = TableReader(*(batches, demand.level), decode_as=demand.decoding, display=demand.display(), stable_ids=True)
    with suppress(CaptureError):
        found.extend(portable_rows(batch, "s", demand.schema) for batch in reader)
    return ordered(pa.Table.from_batches(found, demand.schema))


def first_ns(path: Path) -> int:
    return int(next(batch for batch in open_capture([path]) if len(batch)).time_ns[0])


def files_of(every: Packets, edges: list[int]) -> list[Packets]:
    return [every[a:b] for a, b in zip([0, *edges], [*edges, len(every)], strict=True)]


def rows_of_files(files: list[Packets], demand: TableDemand) -> list[pa.RecordBatch]:
    """The rows of a capture point's files, in any order."""
    parts = []
    for number, file in enumerate(files):
        parts += file_rows(f"{number}.pcap", [PacketBatch.from_packets(file)], file[0][0], demand)
    random.Random(5).shuffle(parts)
    return parts


def dealt(demand: TableDemand) -> TableDemand:
    """With 64 buckets, all connections of source "s" in buckets chosen at random, as by their sizes."""
    rng, most = random.Random(7), demand.buckets
    return (
        replace(demand, large={"s": {key: rng.randrange(most) for key in range(2 * SLOTS)}}) if most == 64 else demand
    )


@pytest.mark.parametrize("path", sampled(capture_files(), 40, pytest.mark.nightly), ids=lambda path: path.name)
def test_buckets_have_the_rows_of_one_reader(path: Path) -> None:
    """For any number of buckets, each level separately and all levels together."""
    wanted = {level: read(open_capture([path]), TableDemand(level, decode_as=NATS_PORTS)) for level in DECODED}
    for buckets in (1, 2, 7, 64):
        demand = dealt(TableDemand(DECODED, buckets=buckets, decode_as=NATS_PORTS))
        parts: list[pa.RecordBatch] = list(
            file_rows(path.name, open_capture([path], batch_packets=100), first_ns(path), demand)
        )
        found, _ = decoded_levels(parts, demand)
        for level, rows in wanted.items():
            same_rows(found[level], rows)
            if buckets == 7:
                same_rows(decoded(parts, replace(demand, levels=level))[0], rows)


@pytest.mark.parametrize(
    ("display", "levels"),
    [
        *((display, DECODED) for display in ("frame.length > 60", "frame.response", 'frame.type == "Publish"')),
        *(("frame.length > 60", levels) for levels in (("messages", "connections"), ("frames", "connections"))),
    ],
)
def test_a_filter_chooses_the_rows_of_several_levels(levels: tuple[str, ...], display: str) -> None:
    demand = TableDemand(levels, buckets=3, filter=display)
    found, _ = decoded_levels(file_rows("a", open_capture([BASIC]), first_ns(BASIC), demand), demand)
    for level in levels:
        wanted = read(open_capture([BASIC]), TableDemand(level, filter=display))
        assert len(wanted)
        same_rows(found[level], wanted)


@pytest.mark.parametrize("name", ["rabbitmq-stream/c43_basic.pcap", "nats/08-pipelined-small.drop1pct.pcap"])
def test_fifty_files_in_any_order_are_one_capture(name: str) -> None:
    every, demand = packets(ROOT / name), TableDemand("frames", buckets=3)
    edges = sorted(random.Random(1).sample(range(1, len(every)), 49))
    rows, _ = decoded(rows_of_files(files_of(every, edges), demand), demand)
    assert rows.equals(read([PacketBatch.from_packets(every)], demand))


def test_copies_of_packets_at_another_interface_are_no_retransmissions() -> None:
    every = [(time_ns + copy * 1_000, data) for time_ns, data in packets(BASIC) for copy in (0, 1)]
    batch = replace(PacketBatch.from_packets(every), interface=np.arange(len(every), dtype=np.int32) % 2)
    demand = TableDemand("connections", buckets=3)
    rows, _ = decoded(file_rows("a.pcapng", [batch], every[0][0], demand), demand)
    assert not any(rows["client_retransmissions"].to_pylist())
    assert rows.equals(read([batch], demand))


def test_packets_in_two_files_count_once() -> None:
    every, demand = packets(BASIC), TableDemand("frames", buckets=3)
    half = len(every) // 2
    twice = [every[: half + 5], every[half:]]
    rows, _ = decoded(rows_of_files(twice, demand), demand)
    assert rows.equals(read([PacketBatch.from_packets(every)], demand))


@pytest.mark.parametrize("most", [1, 2_000, 50_000, 1 << 20])
def test_parcels_of_files_that_overlap_are_put_in_order(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARCEL_BYTES", most)
    monkeypatch.setattr(module, "WAITING_BYTES", 3 * most)
    every, demand = packets(BASIC), TableDemand("frames", buckets=3)
    files = [every[::3], every[1::3], every[2::3], every[50:60], every[:1]]
    wanted: dict[int, list[tuple[int, int, str, int, bytes]]] = {}
    sent = []
    for number, several in enumerate(files):
        same = [(time_ns // 1_000_000 * 1_000_000, data) for time_ns, data in several]  # many at the same time
        batches = [PacketBatch.from_packets(same[low : low + 7]) for low in range(0, len(same), 7)]
        file = File(f"{number}.pcap", "s", same[0][0])
        sent += list(PacketParcels(file, demand.bucketing("s"), demand.reassembly).rows(batches))
        for bucket, place in buckets_of(same, demand):
            wanted.setdefault(bucket, []).append((same[place][0], same[0][0], file.name, place, same[place][1]))
    for _, bucket, parcels in by_bucket(shuffled(sent)):
        if bucket == REPORTS:
            continue
        found: list[PacketBatch] = list(in_order(parcels))
        assert [number for batch in found for number in batch.number] == list(range(1, len(wanted[bucket]) + 1))
        assert [each for batch in found for each in pieces(batch)] == [
            (key[0], key[-1]) for key in sorted(wanted.pop(bucket))
        ]
    assert not wanted


def buckets_of(every: Packets, demand: TableDemand) -> Iterator[tuple[int, int]]:
    """Bucket and place of each packet, sent alone."""
    for place, packet in enumerate(every):
        rows = PacketParcels(File("", "s", 0), demand.bucketing("s"), demand.reassembly).rows(
            [PacketBatch.from_packets([packet])]
        )
        yield from ((row["bucket"][0].as_py(), place) for row in rows if row["bucket"][0].as_py() != REPORTS)


def pieces(batch: PacketBatch) -> Iterator[tuple[int, bytes]]:
    for time_ns, start, captured in zip(batch.time_ns, batch.start, batch.captured, strict=True):
        yield int(time_ns), batch.buffer[start : start + captured]


def fragmented(every: Packets, most: int) -> Packets:
    """IPv4 packets as fragments of at most ``most`` bytes."""
    found = []
    for time_ns, data in every:
        link, header, body = data[:14], data[14:34], data[34:]
        (total,) = struct.unpack_from("!H", header, 2)
        body = body[: total - 20]
        for number, at in enumerate(range(0, len(body), most)):
            part = body[at : at + most]
            more = 0x2000 if at + most < len(body) else 0
            fields = struct.pack("!HHH", 20 + len(part), len(found) - number & 0xFFFF, more | at // 8)
            found.append((time_ns, link + header[:2] + fields + header[8:] + part))
    return found


def test_fragments_reach_their_connection_also_across_files() -> None:
    every, demand = fragmented(packets(BASIC), 128), TableDemand("frames", buckets=4)
    edges = [number for number in range(1, len(every)) if number % 13 == 0]
    rows, reports = decoded(rows_of_files(files_of(every, edges), demand), demand)
    assert len(rows) > 100
    assert rows.equals(read([PacketBatch.from_packets(every)], demand))
    frames = sum(sum(unpack(report["totals"]).frames.values()) for report in reports)
    assert frames == len(rows), "a fragment that went to all buckets is decoded in one"


def test_totals_of_all_reports_are_those_of_one_reader() -> None:
    demand = TableDemand("frames", buckets=4)
    reader = TableReader(open_capture([BASIC]), "frames", stable_ids=True)
    assert sum(map(len, reader)) > 0
    _, reports = decoded(file_rows("a", open_capture([BASIC]), first_ns(BASIC), demand), demand)
    packets_read, whole = unpack(reports[0]["totals"]), TaskReports.of(map(json.dumps, reports)).totals
    assert (packets_read.packets, packets_read.tcp_packets) == (reader.totals.packets, reader.totals.tcp_packets)
    assert (whole.frames, whole.captured, whole.framed) == (
        *(reader.totals.frames, reader.totals.captured, reader.totals.framed),
    )


def test_related_connections_in_different_buckets_are_reported() -> None:
    path = ROOT / "nats" / "50-server-links.pcap"
    cases: list[tuple[dict[int, str], set[int]]] = [({}, set(NATS_PORTS)), (NATS_PORTS, set())]
    for decode_as, apart in cases:
        demand = TableDemand("frames", buckets=3, decode_as=decode_as)
        _, reports = decoded(file_rows("a", open_capture([path]), first_ns(path), demand), demand)
        found = {port for report in reports for name, port in report.get("apart", ()) if name == "nats"}
        assert found == apart


def test_a_damaged_file_is_reported_with_name_and_place() -> None:
    demand, path = TableDemand("frames"), ROOT / "rabbitmq-stream" / "d_cutfile.pcap"
    _, reports = decoded(file_rows("cut.pcap", open_capture([path]), first_ns(path), demand), demand)
    problems = [(report["file"], report["problem"]) for report in reports if "problem" in report]
    assert [name for name, _ in problems] == ["cut.pcap"]
    assert "at byte 18970" in problems[0][1]


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"levels": "bytes"}, "bytes"),
        ({"levels": ["frames", "packets"]}, "packets"),
        ({"levels": ["frames", "messages"], "columns": ["time"]}, "one level"),
        ({"columns": ["tiem"]}, "time"),
        ({"decode_as": {1: "amqp"}}, "amqp"),
        ({"limits": {"gaps": 1}}, "gaps"),
        ({"filter": "frame.number == 1"}, r"frame\.number"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_read(wrong: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        TableDemand(**{"levels": "frames", **wrong})


def test_functions_of_the_package_do_not_shadow_modules() -> None:
    import wiredecode.spark as package

    for each in pkgutil.iter_modules(package.__path__):
        if each.name != "daemon":
            importlib.import_module(f"{package.__name__}.{each.name}")
    assert all(callable(getattr(package, name)) for name in package.__all__)
