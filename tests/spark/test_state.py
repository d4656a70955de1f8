"""Buckets between micro-batches: rows do not depend on the division into batches. No Spark is needed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.support import same_rows
from wiredecode.capture import PacketBatch, open_capture
from wiredecode.dissect import stored
from wiredecode.spark.decode import Decoded, TableDemand, decode
from wiredecode.spark.increments import FORMAT, LOG, BucketState, Increment, OtherState, ProcessedFiles
from wiredecode.spark.parcels import ORDER, REPORTS, File, PacketParcels, by_bucket, unpack
from wiredecode.spark.parcels import packets as in_order

ROOT = Path(__file__).parent.parent.parent / "captures"
DAY_NS = 86_400 * 10**9
BASIC = ROOT / "rabbitmq-stream" / "c43_basic.pcap"


def rows(path: Path, demand: TableDemand) -> list[pa.RecordBatch]:
    """The parcels of a capture in the order in which they are decoded."""
    batches = open_capture([path], batch_packets=100)
    made = PacketParcels(File(path.name, "s", 0), demand.bucketing("s"), demand.reassembly).rows(batches)
    table = pa.Table.from_batches(made).sort_by([(name, "ascending") for name in ORDER])
    return [part for batch in table.to_batches() for part in (batch.slice(at, 1) for at in range(len(batch)))]


def of_buckets(parcels: list[pa.RecordBatch]) -> Iterator[tuple[int, list[PacketBatch]]]:
    """The packets of each bucket."""
    for _, bucket, parts in by_bucket(parcels):
        if bucket != REPORTS:
            yield bucket, list(in_order(parts))


def cut(batches: list[PacketBatch], low: int, high: int) -> Iterator[PacketBatch]:
    """Packets ``low`` up to ``high`` of a bucket."""
    for batch in batches:
        first = int(batch.number[0]) - 1
        begin, end = max(low - first, 0), min(high - first, len(batch))
        if begin < end:
            yield batch.part(begin, end)


def in_turns(parcels: list[pa.RecordBatch], demand: TableDemand, turns: int) -> tuple[pa.Table, list[str]]:
    """The rows and reports if each bucket is split at random and its state is stored in between."""
    chance, found = random.Random(7), list[Decoded]()
    for bucket, batches in of_buckets(parcels):
        count = sum(map(len, batches))
        inner = sorted(chance.sample(range(1, count), min(turns, count) - 1))
        stored = BucketState(demand, "s", bucket).dumps()
        for low, high in pairwise([0, *inner, count]):
            state = BucketState.loads(demand, "s", bucket, stored)
            for batch in cut(batches, low, high):
                found += state.feed(batch)
            stored = state.dumps()
        found += BucketState.loads(demand, "s", bucket, stored).finish()
    return divided(found, demand)


def divided(items: Iterable[Decoded], demand: TableDemand, level: str = "") -> tuple[pa.Table, list[str]]:
    """The rows of a level, or of the only one, and the reports."""
    made, level = list(items), level or demand.level
    rows = [item[1] for item in made if not isinstance(item, str) and item[0] == level]
    return pa.Table.from_batches(rows, demand.schemas[level]), [item for item in made if isinstance(item, str)]


@pytest.mark.parametrize(
    ("name", "level", "display"),
    [
        ("rabbitmq-stream/c43_basic.pcap", "frames", None),
        ("rabbitmq-stream/c43_basic.pcap", "messages", "frame.length > 60"),
        ("rabbitmq-stream/d_drop1pct.pcap", "messages", None),
        ("nats/08-pipelined-small.drop1pct.pcap", "frames", "frame.response"),
        ("nats/50-server-links.pcap", "frames", None),
        ("nats/10-split-writes.midconn.pcap", "messages", None),
        ("cursus/comp-gzip.pcap", "frames", "cursus"),
        ("cursus/group.ooo-dup.pcap", "frames", None),
    ],
)
def test_storing_the_state_in_between_does_not_change_rows(name: str, level: str, display: str | None) -> None:
    demand = TableDemand(level, buckets=2, filter=display)
    packets = rows(ROOT / name, demand)
    found, _ = in_turns(packets, demand, 6)
    wanted, _ = divided(decode(packets, demand), demand)
    assert len(wanted) > 0
    same_rows(found, wanted)


def test_connections_that_are_decrypted_continue_from_a_state() -> None:
    tls = ROOT / "rabbitmq-stream" / "c43_tls.pcap"
    demand = TableDemand("frames", buckets=2, keylog=[str(tls.with_suffix(".keylog"))])
    packets = rows(tls, demand)
    found, _ = in_turns(packets, demand, 9)
    wanted, _ = divided(decode(packets, demand), demand)
    assert "Publish" in wanted["type"].to_pylist()
    same_rows(found, wanted)


def test_the_last_report_has_the_totals_of_all_turns() -> None:
    demand = TableDemand("frames", buckets=2)
    packets = rows(BASIC, demand)
    found, reports = in_turns(packets, demand, 5)
    stored = [json.loads(text) for text in reports]
    assert [each["bucket"] for each in stored] == [0, 1]
    totals = [unpack(each["totals"]) for each in stored]
    assert sum(sum(one.frames.values()) for one in totals) == len(found) > 100
    assert all(one.closes for one in totals)


def test_a_request_waits_in_the_state_for_its_response() -> None:
    """A split between the two: the row of the request comes with the turn of the response, and is linked to it."""
    demand = TableDemand("frames", columns=["frame", "request", "response"])
    ((bucket, packets),) = of_buckets(rows(BASIC, demand))
    count, at = sum(map(len, packets)), 0
    state, before = BucketState(demand, "s", bucket), list[Decoded]()
    while not state.dissector._held:
        before += [row for batch in cut(packets, at, at + 1) for row in state.feed(batch)]
        at += 1
    (request,) = state.dissector._held
    state = BucketState.loads(demand, "s", bucket, state.dumps())
    after = divided((row for batch in cut(packets, at, count) for row in state.feed(batch)), demand)[0].to_pylist()
    assert request.id not in divided(before, demand)[0]["frame"].to_pylist()
    (stored,) = (row for row in after if row["frame"] == request.id)
    assert [row["frame"] for row in after if row["request"] == request.id] == [stored["response"]]


def test_the_state_does_not_grow_over_a_month() -> None:
    """New connections each day, as in a ring of captures; a request stays unanswered."""
    demand = TableDemand("frames", columns=["frame", "time_ns", "status", "latency_ns"])
    ((bucket, packets),) = of_buckets(rows(BASIC, TableDemand("frames")))
    day = list(cut(packets, 0, sum(map(len, packets)) - 5))
    stored, sizes, counts = BucketState(demand, "s", bucket).dumps(), [], []
    for number in range(30):
        state, made = BucketState.loads(demand, "s", bucket, stored), 0
        for batch in day:
            later = replace(batch, time_ns=batch.time_ns + number * DAY_NS, number=batch.number + state.packets)
            made += sum(len(rows) for _, rows in state.feed(later))
        counts.append(made)
        stored = state.dumps()
        sizes.append(len(stored))
    assert len(set(counts[2:])) == 1, "rows of a day"
    assert max(sizes[10:]) <= max(sizes[2:10]) * 1.02, sizes


def states(folder: Path, demand: TableDemand, out: str = "delta:lake") -> Increment:
    """Runs whose states are in a folder."""
    return Increment(out, ProcessedFiles(str(folder)), demand, lambda level: level)


@pytest.mark.parametrize("other", [("frames", 1, None, "nats"), ("messages",)])
def test_states_of_another_plan_are_refused_in_one_line(other: tuple[Any, ...], tmp_path: Path) -> None:
    ProcessedFiles(str(tmp_path)).keep(states(tmp_path, TableDemand("frames")).log())
    with pytest.raises(OtherState, match=r"written with other options: .* a new folder of states"):
        states(tmp_path, TableDemand(*other)).log()
    with pytest.raises(ValueError, match=r"the states of delta:lake; name another folder for delta:pond"):
        states(tmp_path, TableDemand("frames"), "delta:pond").log()
    assert states(tmp_path, TableDemand("frames", 7)).log().buckets == 1


def test_states_of_another_version_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ProcessedFiles(str(tmp_path)).keep(states(tmp_path, TableDemand("frames")).log())
    monkeypatch.setattr("wiredecode.spark.increments.version", lambda name: "99.1")
    refused = rf"written by wiredecode .*, and this is 99\.1 \(format {FORMAT}\): finish .* --finish"
    with pytest.raises(OtherState, match=refused):
        states(tmp_path, TableDemand("frames")).log()


def test_a_log_of_another_format_is_refused_before_it_is_read(tmp_path: Path) -> None:
    increment, book = states(tmp_path, TableDemand("frames")), ProcessedFiles(str(tmp_path))
    book.keep(increment.log())
    kept, other = book.read(LOG)["mark"].partition(" ")[2], FORMAT + 1
    book.write(LOG, {"mark": f"{other} {kept}", "what": "this version does not know"})
    refused = rf"written by wiredecode .* \(format {other}\), and this is .*: finish .* --finish"
    with pytest.raises(OtherState, match=refused):
        increment.log()


@pytest.mark.parametrize(
    "nodes",
    [
        [["call", 0, None, "touch {}"]],
        [["name", 0]],
        [["object", 0]],
        [["named tuple", 0]],
        [["dict", 0, None, None]],
        [["value", 0, "x", None]],
        [["defaultdict", None, [1], None], ["name", 0]],
        [["ndarray", "O", 1, 1, 0, 8]],
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "builtins:type",
        "subprocess:Popen",
        "wiredecode.capture.remote:open_file",
        "wiredecode.net.flows:socket.socket",
        "wiredecode.protocols.registry:import_module",
        "wiredecode.protocols.registry:protocol_entries",
        "wiredecode.export.atomic:NewFile",
    ],
)
def test_a_state_names_only_classes_and_marked_functions_of_the_map(
    nodes: list[Any], name: str, tmp_path: Path
) -> None:
    """Who can write to the folder of states can change rows, but run no program."""
    text = json.dumps([[0], [name], nodes]).replace("{}", str(tmp_path / "touched"))
    with pytest.raises((stored.NotStorable, TypeError)):
        stored.load(text.encode(), bytes(8))
    assert not list(tmp_path.iterdir())


def test_equal_objects_stay_apart_and_one_object_stays_one() -> None:
    """Frames, connections and shared lists refer to each other, also in circles."""
    shared: list[Any] = [1.5, float("inf"), "\ud800", 1 << 70]
    shared.append({"self": shared, (1, b"\0"): frozenset([None])})
    state = shared, [[], []], shared
    first, (left, right), second = stored.load(*stored.dump(state))
    assert first is second is first[4]["self"] and left is not right
    assert first[:4] == shared[:4] and first[4][1, b"\0"] == frozenset([None])


def test_a_state_excludes_the_plan() -> None:
    """This keeps thousands of buckets small."""
    demand = TableDemand("frames", filter='nats.subject == "a.subject.that.is.looked.for"')
    assert len(BucketState(demand, "s", 0).dumps()) < 2048
