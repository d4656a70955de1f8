"""Every number of every table, compared with a recount frame by frame and with the truth of the captures."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import wiredecode
from tests.conftest import sampled
from tests.damage import read
from tests.stats.recount import recounted
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.stats.tables import NAMES, STATISTICS, fitting

CAPTURES = Path(__file__).parent.parent.parent / "captures"
RECOUNTED = (
    *("rabbitmq-stream/c43_puberr.pcap", "rabbitmq-stream/c43_subentry.pcap", "rabbitmq-stream/c43_dedup.pcap"),
    *("rabbitmq-stream/d_drop1pct.pcap", "rabbitmq-stream/d_snap96.pcap", "rabbitmq-stream/d_shuffled_dups.pcap"),
    *("nats/14-cluster-routes.pcap", "nats/03-pubsub.snap96.pcap", "liftbridge/30-lb-publish-ack.pcap"),
    *(
        "nats/13-jetstream.pcap",
        "cursus/stream.pcap",
        "cursus/produce.s2c-only.pcap",
        "tank/tank_d4_midconnection.pcap",
    ),
    *("pravega/read_cuts.pcap", "pravega/seed_dialect.pcap"),
)
TRUTHS = ("c43_basic", "c43_puberr", "c43_multi", "c43_dedup", "c43_filter", "c43_large", "c43_errors", "c43_amqp")


def plain(row: dict[str, Any]) -> str:
    """A row as text that can be compared and sorted."""
    shown = {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
    for name in {"start", "first"} & shown.keys():
        day, _, fraction = shown[name].removesuffix("+00:00").removesuffix("Z").partition(".")
        shown[name] = f"{day}.{fraction:0<6}"
    return json.dumps(shown, sort_keys=True)


@pytest.mark.parametrize("name", sampled(RECOUNTED, 2))
def test_tables_equal_a_recount(name: str) -> None:
    found = wiredecode.stats(CAPTURES / name, interval="1s", strict=False)
    wanted = recounted(CAPTURES / name)
    assert tuple(found) == NAMES == (*wanted, "deliveries", "consumers")
    there = {each.name: found[each.name].drop_columns(list(each.facts)).to_pylist() for each in STATISTICS}
    there["connections"] = [row for row in there["connections"] if row["client_frames"] or row["server_frames"]]
    for table, rows in wanted.items():
        mine = there[table]
        assert sorted(map(plain, mine)) == sorted(map(plain, rows)), table


@pytest.mark.parametrize("name", TRUTHS)
def test_confirms_equal_those_of_the_truth(name: str) -> None:
    truth = json.loads((CAPTURES / "rabbitmq-stream" / f"{name}.truth.json").read_text())
    sent: Counter[str] = Counter()
    for connection in truth["connections"]:
        for frame in connection["frames"]:
            fields = frame.get("fields", {})
            sent["published"] += len(fields.get("messages", ())) if frame["frame"] == "Publish" else 0
            sent["confirmed"] += len(fields.get("publishing_ids", ()))
            sent["failed"] += len(fields.get("errors", ())) if frame["frame"] == "PublishError" else 0
    rows = wiredecode.stats(CAPTURES / "rabbitmq-stream" / f"{name}.pcap", tables=["confirms"])["confirms"].to_pylist()
    found = {key: sum(row[key] for row in rows) for key in ("confirmed", "failed", "unconfirmed", "unknown")}
    assert found["confirmed"] + found["failed"] == sent["confirmed"] + sent["failed"]
    assert found["confirmed"] + found["failed"] + found["unconfirmed"] == sent["published"]
    assert found["unknown"] == 0


def test_rows_come_in_the_documented_order() -> None:
    found = wiredecode.stats(CAPTURES / "rabbitmq-stream" / "c43_multi.pcap")
    frames = [(row["protocol"], -row["frames"], row["type"]) for row in found["frames"].to_pylist()]
    assert frames == sorted(frames)
    assert [row["connection"] for row in found["connections"].to_pylist()] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_columns_equal_the_declared_ones() -> None:
    found = wiredecode.stats(CAPTURES / "nats" / "03-pubsub.pcap")
    for statistic in STATISTICS:
        columns = (*statistic.columns, *statistic.facts)
        assert tuple(found[statistic.name].schema.names) == columns
        assert set(statistic.narrow) <= set(columns)


@pytest.mark.slow
def test_a_cluster_is_counted_by_exchanges_and_not_by_hops() -> None:
    """255 of 261 publishes were acked, as clients say (the truth file); 28 AppendEntries met a server that was gone."""
    path = CAPTURES / "stories/leader-killed.pcap.zst"
    rows = {row["request"]: row for row in wiredecode.stats(path, tables=["latency"])["latency"].to_pylist()}
    assert (rows["Publish"]["count"], rows["Publish"]["unanswered"]) == (255, 6)
    assert (rows["AppendEntries"]["count"], rows["AppendEntries"]["unanswered"]) == (1447, 28)
    hops = {row["request"]: row for row in wiredecode.stats(path, tables=["latency"], hops=True)["latency"].to_pylist()}
    assert hops["AppendEntries"]["count"] == 2895


def test_requests_that_wait_for_data_are_separate() -> None:
    rows = wiredecode.stats(CAPTURES / "tank/tank_09_consume_tail.pcap", tables=["latency"])["latency"].to_pylist()
    assert [row["request"] for row in rows if row["long_poll"]] == ["Consume"]
    pulls = wiredecode.stats(CAPTURES / "nats/13-jetstream.pcap", tables=["latency"])["latency"].to_pylist()
    assert [row["request"] for row in pulls if row["long_poll"]] == ["pull"]
    assert [row["long_poll"] for row in rows] == sorted(row["long_poll"] for row in rows)


@pytest.mark.parametrize(("seconds", "interval"), [(0, 1), (20, 1), (21, 2), (3_600, 300), (10**9, 86_400)])
def test_default_interval_of_a_duration(seconds: int, interval: int) -> None:
    assert fitting(seconds * 10**9) == interval


def test_connections_without_frames_are_listed_unless_a_filter_is_given() -> None:
    path = CAPTURES / "stories/advertised-refused.pcap"
    rows = wiredecode.stats(path, tables=["connections"])["connections"].to_pylist()
    assert [(row["name"], row["began"], row["ended_by"], row["ended"]) for row in rows] == [
        ("orders-publisher", "handshake", "client", "FIN"),
        ("orders-publisher", "handshake", "client", "FIN"),
        (None, "refused", "server", "RST"),
    ]
    chosen = wiredecode.stats(path, tables=["connections"], filter="frame.length > 0")["connections"]
    assert chosen["connection"].to_pylist() == [1, 2]


@pytest.mark.parametrize("name", ["cursus", "liftbridge", "nats", "pravega", "rabbitmq-stream", "tank"])
def test_request_types_are_those_that_expect_a_response(name: str) -> None:
    """Requests of unknown type are never counted as unanswered."""
    from wiredecode.protocols.registry import protocols

    waits: Counter[tuple[str | None, str | None, bool]] = Counter()
    for path in sorted((CAPTURES / name).glob("*[!e].pcap")):
        for frame in Dissector(Demand()).frames([read(path)]):
            if frame.status == "ok":
                waits[frame.protocol, frame.type, frame.expects_response] += 1
    asking = [asked for one in protocols() for asked in one.requests.items()]
    for protocol, types in asking:
        wrong = {
            kind: count for (of, kind, asks), count in waits.items() if of == protocol and kind in types and not asks
        }
        assert sum(wrong.values()) == 0, wrong


@pytest.mark.parametrize("interval", ["", "1", "h", "0s", "-1h", "1h ", "1w", "1.5h", "9999999s", "1h\n", "\u0661h"])
def test_a_wrong_interval_is_reported(interval: str) -> None:
    with pytest.raises(ValueError, match="is not an interval such as 1h"):
        wiredecode.stats(CAPTURES / "nats" / "03-pubsub.pcap", interval=interval)


def test_an_unknown_table_is_reported() -> None:
    with pytest.raises(ValueError, match="no statistic is called 'latencies'; there is frames, latency"):
        wiredecode.stats(CAPTURES / "nats" / "03-pubsub.pcap", tables=["latencies"])


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("rabbitmq-stream/c43_tracking.pcap", [("position", "c43_tracking-stream, consumer ref-a", 3, 0, 5, 5)]),
        (
            "nats/13-jetstream.pcap",
            [
                ("lag", "ORD, consumer puller", 7, 0, 5, 0),
                ("lag", "ORD, consumer pusher", 6, 0, 5, 0),
                ("position", "ORD, consumer puller", 4, 1, 5, 5),
                ("position", "ORD, consumer pusher", 6, 1, 6, 6),
            ],
        ),
        (
            "cursus/group.pcap",  # what was accepted, of COMMIT_OFFSET and BATCH_COMMIT
            [
                ("position", "orders[0], group workers", 3, 11, 12, 12),
                ("position", "orders[1], group workers", 1, 3, 3, 3),
                ("position", "orders[2], group workers", 2, 0, 20, 20),
                ("position", "orders[3], group workers", 2, 9, 20, 20),
            ],
        ),
        (
            "pravega/midstream.pcap",  # 60 bytes, and 218 up to the tail
            [
                ("lag", "scope/stream/0.#epoch.0, bytes, reader #1", 1, 0, 0, 0),
                ("position", "scope/stream/0.#epoch.0, bytes, reader #1", 4, 0, 278, 278),
            ],
        ),
        (
            "tank/tank_08_consume_positions.pcap",  # 60 messages, read from their sequence numbers 1 to 51 on
            [("lag", "foo[0] of #1", 6, 10, 60, 60), ("position", "foo[0] of #1", 6, 1, 51, 1)],
        ),
    ],
)
def test_positions_of_consumers_equal_their_commits(name: str, rows: list[tuple[object, ...]]) -> None:
    """A number above 2**63, which some clients store for none, is no position."""
    found = wiredecode.stats(CAPTURES / name, tables=["consumers"])["consumers"].to_pylist()
    assert [tuple(row.values())[1:] for row in found] == rows


def test_service_requests_are_no_jetstream_publishes() -> None:
    rows = wiredecode.stats(CAPTURES / "nats/13-jetstream.pcap", tables=["latency"])["latency"].to_pylist()
    kinds = {row["topic"]: row["request"] for row in rows}
    assert (kinds["ord.dup"], kinds["$JS.ACK.*"], kinds["$JS.API.INFO"]) == (
        *("JetStream publish", "request", "JetStream API"),
    )
    large = wiredecode.stats(CAPTURES / "rabbitmq-stream/c43_large.pcap", tables=["confirms"])["confirms"].to_pylist()
    assert all(row["transfer_max_us"] > 0 and row["first_byte_max_us"] > row["max_us"] for row in large)
    assert all(row["first_byte_max_us"] <= row["max_us"] + row["transfer_max_us"] for row in large)
