"""Connections that know of each other, in several buckets, have the rows of one reader. No Spark is needed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.conftest import CAPTURES, sampled
from tests.spark.support import same_rows
from tests.spark.test_core import dealt, decoded_levels, file_rows, files_of, first_ns, read, shuffled
from tests.support import packets
from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.dissect import ledger
from wiredecode.dissect.dissector import FRAMES_ONLY, Dissector
from wiredecode.dissect.following import NoteEntry, packed, unpacked
from wiredecode.spark import decode as notes_module
from wiredecode.spark import parcels as module
from wiredecode.spark.decode import TableDemand, decode, write_notes
from wiredecode.spark.parcels import HEADS, File
from wiredecode.spark.pipeline import Plan, ReadablePart, deal
from wiredecode.spark.splits import FileSplit
from wiredecode.tables.reader import TableReader

LEVELS = ("frames", "messages", "connections")
REPLIES = CAPTURES / "nats" / "04-request-reply.pcap"
LOSSY = CAPTURES / "nats" / "08-pipelined-small.drop1pct.pcap"
ROUTES = CAPTURES / "nats" / "14-cluster-routes.pcap"
OPEN_AT_THE_END = CAPTURES / "reports" / "lo_wrongns.pcap"
FAILOVER = CAPTURES / "kafka" / "failover.pcap.zst"


def ports_of(path: Path) -> dict[int, str]:
    """The ports of all connections that know of others."""
    dissector = Dissector(FRAMES_ONLY)
    try:
        for _ in dissector.frames(open_capture([path])):
            pass
    except CaptureError:
        return {}
    return {port: name for name, port in dissector.accounts.sessions}


def demand_of(path: Path, levels: Any, buckets: int) -> TableDemand:
    return dealt(TableDemand(levels, buckets=buckets, decode_as=ports_of(path), linked=True))


def notes_of(files: Iterable[tuple[str, list[PacketBatch], int]], demand: TableDemand) -> list[pa.RecordBatch]:
    parts = [row for file in files for row in file_rows(*file, demand, sessions_only=True)]
    return [*write_notes(shuffled(parts), demand)] if parts else []


def linked_rows(path: Path, demand: TableDemand) -> dict[str, pa.Table]:
    file = path.name, [*open_capture([path], batch_packets=100)], first_ns(path)
    return decoded_levels([*file_rows(*file, demand), *notes_of([file], demand)], demand)[0]


def with_sessions() -> list[Path]:
    folders = (CAPTURES / name for name in ("nats", "liftbridge", "kafka"))
    return [path for folder in folders for path in sorted(folder.iterdir()) if ".pcap" in path.name]


@pytest.mark.parametrize("path", sampled(with_sessions(), 12, pytest.mark.nightly), ids=lambda path: path.name)
def test_linked_buckets_have_the_rows_of_one_reader(path: Path) -> None:
    """In every column; also of captures with loss, that begin late, and of one side."""
    ports = ports_of(path)
    wanted = {level: read(open_capture([path]), TableDemand(level, decode_as=ports)) for level in LEVELS if ports}
    for buckets, every in ((2, [("messages",)]), (7, [LEVELS]), (64, [("frames",)])):
        for levels in every if ports else ():
            found = linked_rows(path, demand_of(path, levels, buckets))
            for level in levels:
                same_rows(found[level], wanted[level])


@pytest.mark.parametrize("path", [FAILOVER, CAPTURES / "nats" / "50-server-links.pcap"], ids=lambda path: path.name)
def test_unusual_ports_that_the_sample_shows_have_the_rows_of_one_reader(path: Path) -> None:
    part = ReadablePart(FileSplit(File(str(path), "s", first_ns(path))), path.stat().st_size)
    demand, _ = deal(Plan([part], TableDemand("frames", buckets=7, linked=True), 7))
    same_rows(linked_rows(path, demand)["frames"], read(open_capture([path]), TableDemand("frames")))
    with pytest.raises(AssertionError):
        same_rows(linked_rows(path, replace(demand, seen={}))["frames"], read(open_capture([path]), demand))


@pytest.mark.parametrize("path", [REPLIES, ROUTES, FAILOVER], ids=lambda path: path.name)
def test_without_notes_links_are_missing(path: Path) -> None:
    demand = demand_of(path, "frames", 7)
    file = path.name, [*open_capture([path])], first_ns(path)
    found = decoded_levels(file_rows(*file, demand), demand)[0]["frames"]
    with pytest.raises(AssertionError, match="layers"):
        same_rows(found, read(open_capture([path]), replace(demand, linked=False)))


@pytest.mark.parametrize("most", [1, 1 << 20])
@pytest.mark.parametrize("path", [REPLIES, LOSSY, OPEN_AT_THE_END], ids=lambda path: path.name)
def test_notes_are_in_order_with_packets_of_files_that_overlap(
    path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PARCEL_BYTES", most)
    monkeypatch.setattr(module, "WAITING_BYTES", 3 * most)
    monkeypatch.setattr(notes_module, "NOTES_TOGETHER", most)
    every, demand = packets(path), demand_of(path, "frames", 5)
    some = [every[::3], every[1::3], every[2::3]]
    some += files_of(every, sorted(random.Random(1).sample(range(1, len(every)), 5)))
    files = [(f"{number}", [PacketBatch.from_packets(each)], each[0][0]) for number, each in enumerate(some)]
    parts = [row for file in files[3:] for row in file_rows(*file, demand)]
    overlapping = [row for file in files[:3] for row in file_rows(*file, demand)]
    wanted = read([PacketBatch.from_packets(every)], demand)
    for rows, chosen in ((parts, files[3:]), (overlapping, files[:3])):
        notes = notes_of(chosen, demand)
        random.Random(3).shuffle(rows)
        same_rows(decoded_levels([*rows, *notes], demand)[0]["frames"], wanted)


def contents(rows: Iterable[pa.RecordBatch]) -> Iterator[NoteEntry]:
    for row in rows:
        at, data = 0, row["data"][0].as_py()
        for head in np.frombuffer(row["heads"][0].as_py(), HEADS):
            yield from unpacked(data[at : at + head["captured"]])
            at += head["captured"]


def test_notes_are_data_with_any_texts_and_bytes() -> None:
    """Also names with lone surrogates, which are no UTF-8, and payloads of carried protocols."""
    plain = [7, ["a.b", 5]], [8, ["MSG", {"subject": "\udce4", "size": 3}, b"\0\xff", True, False]]
    entries = [
        NoteEntry(1, 0, 5, "client", [*map(tuple, plain)], ("nats", ("a:1", "b:2"), (1, 2))),
        NoteEntry(1, 0, 0, None, [], None),
        NoteEntry(2, 1, 6, None, [(9, (None, [["", "t"]])), (10, ("", {}, None, True, b"end"))], None),
    ]
    content = packed(entries)
    found = [*unpacked(content)]
    assert [list(entry.notes) for entry in found] == [
        [*map(list, plain)],
        [],
        [[9, [None, [["", "t"]]]], [10, ["", {}, None, True, b"end"]]],
    ]
    assert [entry[:4] for entry in found] == [entry[:4] for entry in entries]
    with pytest.raises(ValueError):
        unpacked(content[:20])


def test_notes_have_no_payload() -> None:
    path = CAPTURES / "nats" / "03-pubsub.pcap"
    demand = demand_of(path, "frames", 3)
    notes = [*contents(notes_of([(path.name, [*open_capture([path])], 0)], demand))]
    assert len([note for entry in notes for note in entry.notes]) > 10
    bodies = {body for body in read(open_capture([path]), TableDemand("messages"))["body"].to_pylist() if len(body) > 9}
    text = repr(notes)
    assert bodies
    assert not [body for body in bodies if repr(body)[2:-1] in text]


def test_plain_messages_of_others_are_no_notes_if_only_messages_are_wanted() -> None:
    """Copies are not shown there, and subjects of plain messages answer no requests."""
    path = CAPTURES / "nats" / "08-pipelined-small.pcap"
    file = path.name, [*open_capture([path])], 0

    def count(level: str) -> int:
        return sum(len(entry.notes) for entry in contents(notes_of([file], demand_of(path, level, 3))))

    assert count("messages") < 20
    assert count("frames") > 100


def test_connections_of_others_are_forgotten_at_their_end() -> None:
    path = CAPTURES / "nats" / "22-port-reuse-abort.pcap"
    file = path.name, [*open_capture([path])], first_ns(path)
    ended = [label for label, *_, some, _ in contents(notes_of([file], demand_of(path, "frames", 3))) if not some]
    assert ended


@pytest.mark.parametrize("level", ["frames", "messages"])
@pytest.mark.parametrize("path", [REPLIES, FAILOVER, CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"])
def test_the_limit_on_all_held_requests_costs_no_response(
    path: Path, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later rows overtake a request that waits: else it depends on how busy the other connections of a task are."""
    demand = TableDemand(level)
    wanted = read(open_capture([path]), demand)
    monkeypatch.setattr(ledger, "HELD_FRAMES", 1)
    same_rows(read(open_capture([path]), demand), wanted)
    in_order = TableReader(open_capture([path]), level)
    assert sum(map(len, in_order)) == len(wanted)
    assert in_order.totals.limits[ledger.LIMIT] or not any(wanted["outcome"].to_pylist())


def test_overtaken_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    path = FAILOVER
    wanted = read(open_capture([path]), TableDemand("frames"))
    monkeypatch.setattr(ledger, "HELD_FRAMES", 1)
    monkeypatch.setattr(ledger, "OVERTAKEN_FRAMES", 0)
    found = read(open_capture([path]), TableDemand("frames"))
    assert len(found) == len(wanted)
    assert found["response"].null_count > wanted["response"].null_count


def test_captures_of_other_protocols_need_no_notes() -> None:
    path = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
    demand = TableDemand("frames", buckets=3, linked=True)
    assert not notes_of([(path.name, [*open_capture([path])], 0)], demand)


def test_a_filter_by_response_sees_responses_of_other_buckets() -> None:
    demand = replace(demand_of(REPLIES, "frames", 7), filter="frame.response")
    wanted = read(open_capture([REPLIES]), replace(demand, linked=False))
    assert len(wanted) > 5
    same_rows(linked_rows(REPLIES, demand)["frames"], wanted)


def test_a_bucket_is_decoded_without_notes_if_it_is_the_only_one() -> None:
    demand = replace(demand_of(REPLIES, "frames", 1), linked=False)
    file = REPLIES.name, [*open_capture([REPLIES])], first_ns(REPLIES)
    rows = [item[1] for item in decode(shuffled(file_rows(*file, demand)), demand) if not isinstance(item, str)]
    assert sum(map(len, rows)) == len(read(open_capture([REPLIES]), demand))
