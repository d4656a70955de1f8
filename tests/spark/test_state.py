"""Buckets between micro-batches: the rows do not depend on how packets were cut. No Spark is needed for this."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.spark.support import same_rows
from wiredecode.capture import open_capture
from wiredecode.spark.decode import TableDemand, decode, parted
from wiredecode.spark.packets import ORDER, File, PacketRows, unpacked
from wiredecode.spark.state import BucketState, OtherState

ROOT = Path(__file__).parent.parent.parent / "captures"
DAY_NS = 86_400 * 10**9
BASIC = ROOT / "rabbitmq-stream" / "c43_basic.pcap"


def rows(path: Path, demand: TableDemand) -> pa.Table:
    """The packets of a capture in the order in which they are decoded."""
    batches = open_capture([path], batch_packets=100)
    table = pa.Table.from_batches(PacketRows(File(path.name, "s", 0), demand.dealt, demand.reassembly).rows(batches))
    return table.sort_by([(name, "ascending") for name in ORDER])


def of_buckets(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    for (_, bucket), parts in parted(table.to_batches()):
        if bucket is not None:
            yield bucket, pa.Table.from_batches(parts).combine_chunks()


def in_turns(table: pa.Table, demand: TableDemand, turns: int) -> tuple[pa.Table, list[str]]:
    """The rows, and the reports, where each bucket is cut at random and its state is stored in between."""
    chance, found = random.Random(7), list[pa.RecordBatch]()
    for bucket, packets in of_buckets(table):
        inner = sorted(chance.sample(range(1, len(packets)), min(turns, len(packets)) - 1))
        stored = BucketState(demand, "s", bucket).dumps()
        for low, high in pairwise([0, *inner, len(packets)]):
            part = packets.slice(low, high - low)
            state = BucketState.loads(demand, "s", bucket, stored)
            for batch in part.combine_chunks().to_batches():
                found += state.feed(batch)
            stored = state.dumps()
        found += BucketState.loads(demand, "s", bucket, stored).finish()
    whole = pa.Table.from_batches(found, demand.row_schema())
    return without_reports(whole), whole["report"].drop_null().to_pylist()


def without_reports(table: pa.Table) -> pa.Table:
    return table.filter(table["report"].is_null()).drop_columns(["report"])


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
def test_rows_are_the_same_whatever_is_stored_in_between(name: str, level: str, display: str | None) -> None:
    demand = TableDemand(level, buckets=2, filter=display)
    packets = rows(ROOT / name, demand)
    found, _ = in_turns(packets, demand, 6)
    wanted = without_reports(pa.Table.from_batches(decode(packets.to_batches(), demand)))
    assert len(wanted) > 0
    same_rows(found, wanted)


def test_the_last_report_has_the_totals_of_all_turns() -> None:
    demand = TableDemand("frames", buckets=2)
    packets = rows(BASIC, demand)
    found, reports = in_turns(packets, demand, 5)
    told = [json.loads(text) for text in reports]
    assert [each["bucket"] for each in told] == [0, 1]
    totals = [unpacked(each["totals"]) for each in told]
    assert sum(sum(one.frames.values()) for one in totals) == len(found) > 100
    assert all(one.closes for one in totals)


def test_a_request_waits_in_the_state_for_its_response() -> None:
    """Cut between the two: the row of the request comes with the turn of the response, and knows it."""
    demand = TableDemand("frames", columns=["frame", "request", "response"])
    ((bucket, packets),) = of_buckets(rows(BASIC, demand))
    state, at = BucketState(demand, "s", bucket), 0
    before: list[dict[str, int | None]] = []
    while not state.reader.dissector._waiting:
        before += pa.Table.from_batches(state.feed(batch_at(packets, at)), demand.row_schema()).to_pylist()
        at += 1
    (request,) = state.reader.dissector._waiting
    state = BucketState.loads(demand, "s", bucket, state.dumps())
    rest = pa.Table.from_batches(state.feed(packets.slice(at).to_batches()[0]), demand.row_schema()).to_pylist()
    assert request.id not in [row["frame"] for row in before]
    (told,) = (row for row in rest if row["frame"] == request.id)
    assert [row["frame"] for row in rest if row["request"] == request.id] == [told["response"]]


def batch_at(packets: pa.Table, at: int) -> pa.RecordBatch:
    return packets.slice(at, 1).combine_chunks().to_batches()[0]


def test_a_state_is_as_large_after_a_month_as_after_some_days() -> None:
    """Each day new connections, as a ring of captures brings them; a request is left without its answer."""
    demand, packets = (
        TableDemand("frames", columns=["frame", "time_ns", "status", "latency_ns"]),
        rows(BASIC, TableDemand("frames")),
    )
    ((bucket, day),) = of_buckets(packets)
    day = day.slice(0, len(day) - 5)
    stored, sizes, counts = BucketState(demand, "s", bucket).dumps(), [], []
    for number in range(30):
        shift = pa.scalar(number * DAY_NS)
        later = day
        for name in ("clock", "time_ns"):
            at = day.schema.get_field_index(name)
            later = later.set_column(at, day.schema.field(at), pc.add(day[name], shift))
        state = BucketState.loads(demand, "s", bucket, stored)
        counts.append(sum(len(made) for batch in later.combine_chunks().to_batches() for made in state.feed(batch)))
        stored = state.dumps()
        sizes.append(len(stored))
    assert len(set(counts[2:])) == 1, "rows of a day"
    assert max(sizes[10:]) <= max(sizes[2:10]) * 1.02, sizes


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (TableDemand("frames", buckets=2), "other options"),
        (TableDemand("frames", filter="nats"), "other options"),
        (TableDemand("messages"), "other options"),
    ],
)
def test_a_state_of_another_plan_is_refused_in_one_line(other: TableDemand, why: str) -> None:
    stored = BucketState(TableDemand("frames"), "s", 0).dumps()
    with pytest.raises(OtherState, match=f"written with {why}: .* begin a new folder of states"):
        BucketState.loads(other, "s", 0, stored)


def test_a_state_of_another_version_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    demand = TableDemand("frames")
    stored = BucketState(demand, "s", 0).dumps()
    monkeypatch.setattr("wiredecode.spark.state.version", lambda name: "99.1")
    with pytest.raises(OtherState, match=r"written with wiredecode .*, this is 99\.1"):
        BucketState.loads(demand, "s", 0, stored)


def test_a_state_knows_nothing_of_what_the_plan_tells() -> None:
    """So that thousands of buckets are small."""
    demand = TableDemand("frames", filter='nats.subject == "a.subject.that.is.looked.for"')
    assert len(BucketState(demand, "s", 0).dumps()) < 2048
