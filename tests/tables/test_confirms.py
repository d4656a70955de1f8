"""Outcomes of published messages: the table of messages compared with frames and with statistics."""

from __future__ import annotations

import json
from collections import Counter
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import wiredecode
from wiredecode.capture import open_capture
from wiredecode.dissect import ledger
from wiredecode.tables.reader import TableReader

duckdb: Any = pytest.importorskip("duckdb")

CAPTURES = Path(__file__).parents[2] / "captures"
PUBLISHING = (
    *("rabbitmq-stream/c43_multi.pcap", "rabbitmq-stream/c43_puberr.pcap", "rabbitmq-stream/c43_subentry.pcap"),
    *("rabbitmq-stream/c43_dedup.pcap", "rabbitmq-stream/d_drop1pct.pcap", "pravega/append_basic.pcap"),
    *("pravega/errors.pcap", "tank/tank_04_produce_batches.pcap", "cursus/produce.pcap"),
    "liftbridge/30-lb-publish-ack.pcap",
)


def table(name: str, level: str, columns: list[str] | None = None, *, blocks: bool = False) -> pa.Table:
    reader = TableReader(open_capture([CAPTURES / name]), level, columns=columns, blocks=blocks)
    return pa.Table.from_batches([*reader], reader.schema)


def asked(query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    with duckdb.connect() as database:
        for name, each in tables.items():
            database.register(name, each)
        rows: list[tuple[Any, ...]] = database.execute(query).fetchall()
    return rows


BOTH = "from messages m join frames p on m.frame = p.frame join frames a on a.frame = m.confirm_frame where"
"""Each answered message, the frame that published it and the one that answers."""
WRONG = (
    "m.confirmed_time_ns != epoch_ns(a.time) or m.latency_ns != epoch_ns(a.time) - epoch_ns(p.time)",
    "a.request > p.frame or p.response < a.frame",
    "a.request = p.frame and p.response = a.frame and a.latency_ns != m.latency_ns",
    "p.outcome = 'ok' and m.outcome != 'ok'",
    "p.outcome = 'refused' and p.response = a.frame and a.request = p.frame and m.refusal is null",
    "m.operation = 'deliver'",
)


@pytest.mark.parametrize("name", PUBLISHING)
def test_each_confirm_has_its_publish_and_time(name: str) -> None:
    columns = ["frame", "time", "request", "response", "outcome", "latency_ns"]
    queried = {"messages": table(name, "messages"), "frames": table(name, "frames", columns)}
    assert asked(f"select count(*) {BOTH} true", **queried)[0][0] > 0
    counts = ", ".join(f"count(*) filter ({wrong})" for wrong in WRONG)
    assert asked(f"select {counts} {BOTH} true", **queried) == [(0,) * len(WRONG)]
    silent = (
        "select count(*) from messages m join frames p on m.frame = p.frame where m.operation = 'publish' "
        "and m.confirm_frame is null and m.outcome is distinct from p.outcome"
    )
    assert asked(silent, **queried) == [(0,)]


@pytest.mark.parametrize("name", PUBLISHING)
def test_blocks_do_not_matter(name: str) -> None:
    assert table(name, "messages", blocks=True).equals(table(name, "messages"))


ACKED = "liftbridge/30-lb-publish-ack.pcap"


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1000])
def test_acks_of_blocks_have_the_same_bounds(most: int, every_block: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "WAIT_FRAMES", most)
    whole = table(ACKED, "messages")
    assert ("ok" if most > 1 else "late") in whole["outcome"].to_pylist()
    for batch_bytes in (1 << 20, 700):
        reader = TableReader(open_capture([CAPTURES / ACKED], batch_bytes=batch_bytes), "messages", blocks=True)
        assert pa.Table.from_batches([*reader], reader.schema).equals(whole)


@pytest.mark.parametrize("name", PUBLISHING)
def test_statistics_equal_counts_of_exported_messages(name: str) -> None:
    """Counts of another engine over exported messages equal the statistics of linked frames."""
    counted = wiredecode.stats(CAPTURES / name, tables=["confirms"])["confirms"].to_pylist()
    distinct = "frame, case protocol when 'rabbitmq_stream' then sequence else index end"  # a sub-batch has one number
    query = (
        "select topic, count(*) filter (outcome = 'ok'), "
        "quantile_cont(latency_ns, 0.99) filter (outcome = 'ok') / 1e3, "
        f"count(*) filter (outcome = 'refused') from (select distinct on ({distinct}) * from messages "
        "where operation = 'publish' and outcome in ('ok', 'refused') and type not in ('MSG', 'HMSG')) group by topic"
    )
    found = asked(query, messages=table(name, "messages"))
    key = itemgetter("stream", "confirmed", "failed")
    expected = {key(each): each["p99_us"] for each in counted if each["confirmed"] or each["failed"]}
    queried = {(stream, confirmed, failed): p99 for stream, confirmed, p99, failed in found}
    assert expected and queried == pytest.approx(expected, abs=0.01)


def test_refused_messages_have_the_name_of_their_code() -> None:
    columns = ["frame", "outcome", "refusal", "confirm_frame"]
    rows = table("rabbitmq-stream/c43_puberr.pcap", "messages", columns).to_pylist()
    assert {tuple(row.values()) for row in rows} == {
        (14, "refused", "Publisher does not exist", 15),
        (18, "ok", None, 19),
        (23, "refused", "Publisher does not exist", 24),
    }


def test_deliveries_have_their_chunk() -> None:
    rows = table("rabbitmq-stream/c43_multi.pcap", "messages", ["operation", "offset", "chunk"]).to_pylist()
    assert all(row["chunk"] <= row["offset"] for row in rows if row["operation"] == "deliver")
    assert {row["chunk"] for row in rows if row["operation"] == "publish"} == {None}


TRUTH = json.loads((CAPTURES / "tank" / "tank_07_produce_multi_errors.truth.json").read_text())


def test_partitions_of_one_produce_are_refused_separately() -> None:
    rows = table("tank/tank_07_produce_multi_errors.pcap", "messages").to_pylist()
    frames = sorted({row["frame"] for row in rows if row["operation"] == "publish"})
    produced = [each for each in TRUTH["operations"] if "produce" in each]
    assert len(frames) == len(produced)
    for frame, each in zip(frames, produced, strict=True):
        stored = {f"{topic}/{partition}" for topic, partition in each["result"].get("acks", ())}
        queried = {f"{row['topic']}/{row['partition']}": row for row in rows if row["frame"] == frame}
        assert queried.keys() == {one["tp"] for one in each["produce"]}
        for name, row in queried.items():
            expected = "ok" if name in stored else "refused"
            assert (row["outcome"], row["refusal"] is None) == (expected, name in stored)
            assert row["confirmed_time_ns"] - row["latency_ns"] < row["confirmed_time_ns"]
    refusals = {fault["type"] for each in produced for fault in each["result"].get("faults", ())}
    assert {row["refusal"] for row in rows} - {None} == {"unknown partition", "unknown topic"}
    assert refusals == {"UnknownPartition", "UnknownTopic"}


def test_publishing_ids_are_confirmed_as_in_the_truth() -> None:
    """Each id of the truth's PublishConfirm and PublishError frames, for any number of publishers."""
    for name in ("c43_multi", "c43_puberr", "c43_dedup", "c43_subentry", "c43_basic"):
        truth = json.loads((CAPTURES / "rabbitmq-stream" / f"{name}.truth.json").read_text())
        expected = Counter[tuple[int, str]]()
        for connection in truth["connections"]:
            for frame in connection["frames"]:
                if frame["frame"] == "PublishConfirm":
                    expected.update((number, "ok") for number in frame["fields"]["publishing_ids"])
                if frame["frame"] == "PublishError":
                    expected.update((error["publishing_id"], "refused") for error in frame["fields"]["errors"])
        assert expected
        queried = asked(
            "select sequence, outcome, count(*) from (select distinct on (frame, sequence) * from messages "
            "where operation = 'publish' and outcome is not null) group by all",
            messages=table(f"rabbitmq-stream/{name}.pcap", "messages"),
        )
        assert {(number, outcome): count for number, outcome, count in queried} == expected, name


@pytest.mark.parametrize("name", ["healthy-tail", "broker-killed"])
def test_as_many_messages_are_confirmed_as_the_client_counted(name: str) -> None:
    says = json.loads((CAPTURES / "stories" / f"{name}.truth.json").read_text())["client_says"]
    path = next((CAPTURES / "stories").glob(f"{name}.pcap*")).name
    messages = table(f"stories/{path}", "messages")
    query = "select count(*), count(*) filter (outcome = 'ok') from messages where operation = 'publish'"
    assert asked(query, messages=messages) == [(says["published"], says["confirmed"])]


@pytest.mark.slow
def test_acks_lie_within_the_waits_of_the_client() -> None:
    """For each stored message of the client's account, the ack on the wire lies within the client's wait."""
    truth = json.loads((CAPTURES / "stories" / "leader-killed.truth.json").read_text())["published"]
    stored = {each["correlation_id"]: each["acked_ns"] - each["sent_ns"] for each in truth if "error" not in each}
    columns = ["frame", "layers.liftbridge.correlation_id"]
    queried = asked(
        "select layers.liftbridge.correlation_id id, outcome, latency_ns from messages m join frames using (frame) "
        "where m.operation = 'publish' and m.type = 'Publish' and id != ''",
        messages=table("stories/leader-killed.pcap.zst", "messages"),
        frames=table("stories/leader-killed.pcap.zst", "frames", columns),
    )
    outcomes = {number: (outcome, latency_ns) for number, outcome, latency_ns in queried}
    assert len(stored) > 200
    for number, waited_ns in stored.items():
        outcome, latency_ns = outcomes[number]
        if outcome == "late":  # the cluster stalled: 1000 frames passed
            assert waited_ns > 1_000_000_000
        else:
            assert outcome == "ok" and latency_ns <= waited_ns


@pytest.mark.parametrize("name", ["rabbitmq-stream/c43_multi.pcap", "cursus/produce.pcap"])
def test_latencies_are_equal_with_stable_ids_and_numbers(name: str) -> None:
    """Stable ids have no order: times decide which frame came first."""
    reader = TableReader(open_capture([CAPTURES / name]), "messages", stable_ids=True, blocks=False)
    stable = pa.Table.from_batches([*reader], reader.schema).column("latency_ns").to_pylist()
    numbered = table(name, "messages").column("latency_ns").to_pylist()
    assert sorted(each for each in stable if each is not None) == sorted(each for each in numbered if each is not None)
    assert any(numbered)
