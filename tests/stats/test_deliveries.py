"""Publish to delivery: only the first delivery of a message counts, and only from a client's publish."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import wiredecode
from tests.net.craft import Talk
from tests.view.frames import CLIENT, SERVER, write

CAPTURES = Path(__file__).parent.parent.parent / "captures"
HELLO = b'INFO {"server_id":"A","max_payload":1048576}\r\n'
ROUTE = b'INFO {"server_id":"A","cluster":"c","host":"10.0.0.2","port":6222,"import":null,"export":null}\r\n'
Row = dict[str, Any]
Said = tuple[str, int, bytes]


def deliveries(path: Path) -> list[Row]:
    rows: list[Row] = wiredecode.stats(path, tables=["deliveries"])["deliveries"].to_pylist()
    return rows


def delivery_times(path: Path, *said: Said) -> list[tuple[str, str, int, float, float]]:
    """Topic, broker, number, least and most microseconds of a capture with a packet each millisecond."""
    talks: dict[str, Talk] = {}
    packets: list[bytes] = []
    for port, (who, side, data) in enumerate(said, 40000):
        if who not in talks:
            server = ("10.0.0.2", 6222 if who == "route" else 4222)
            talks[who] = Talk(client=("10.0.0.1", port), server=server)
            packets += talks[who].handshake()
        packets += talks[who].send(side, data)
    columns = ("topic", "broker", "delivered", "min_us", "max_us")
    return [tuple(row[name] for name in columns) for row in deliveries(write(path / "talk.pcap", packets))]


SUB: list[Said] = [("consumer", SERVER, HELLO), ("consumer", CLIENT, b"SUB a 1\r\n"), ("producer", SERVER, HELLO)]
PUB: Said = ("producer", CLIENT, b"PUB a 1\r\nx\r\n")
MSG: Said = ("consumer", SERVER, b"MSG a 1 1\r\nx\r\n")
STORED: list[Said] = [
    ("producer", CLIENT, b"PUB a _INBOX.p.1 1\r\nx\r\n"),
    ("producer", SERVER, b'MSG _INBOX.p.1 9 22\r\n{"stream":"S","seq":7}\r\n'),
]


def kept(deliveries: int, sequence: int = 7) -> Said:
    reply = f"$JS.ACK.S.c.{deliveries}.{sequence}.1.1700000000000000000.0"
    return "consumer", SERVER, f"MSG a 1 {reply} 1\r\nx\r\n".encode()


A = "10.0.0.2:4222"
CASES: dict[str, tuple[list[Said], list[tuple[str, str, int, float, float]]]] = {
    "in turn": ([*SUB, PUB, MSG], [("a", A, 1, 1000, 1000)]),
    "the same contents again": ([*SUB, PUB, PUB, MSG, MSG], [("a", A, 2, 2000, 2000)]),
    "not captured": ([*SUB, MSG], []),
    "seen first between servers": (
        [*SUB, ("route", SERVER, ROUTE), ("route", CLIENT, b"RMSG $G a 1\r\nx\r\n"), MSG],
        [],
    ),
    "of JetStream": ([*SUB, *STORED, kept(1)], [("a", A, 1, 2000, 2000)]),
    "of JetStream, again": ([*SUB, *STORED, kept(1), kept(2)], [("a", A, 1, 2000, 2000)]),
    "of JetStream, another one": ([*SUB, *STORED, kept(1, sequence=8)], []),
    "of a request": (
        [*SUB, ("producer", CLIENT, b"PUB a _IN.2 1\r\nx\r\n"), ("consumer", SERVER, b"MSG a 1 _IN.2 1\r\nx\r\n")],
        [("a", A, 1, 1000, 1000)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "rows"), CASES.values(), ids=list(CASES))
def test_a_delivery_counts_once_from_its_publish(
    tmp_path: Path, said: list[Said], rows: list[tuple[str, str, int, float, float]]
) -> None:
    assert delivery_times(tmp_path, *said) == rows


def test_kafka_records_come_from_the_produce_with_the_same_bytes() -> None:
    """Contents and time of a record are unique in its partition, so this links the same records as checksums."""
    path = CAPTURES / "kafka/small.pcap"
    sent: dict[tuple[Any, ...], datetime] = {}
    waits: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one in wiredecode.read(path).messages():
        key = one["topic"], one["partition"], one["timestamp"], one["body"]
        time = datetime.fromisoformat(one["time"])
        if one["operation"] == "publish":
            sent.setdefault(key, time)
        elif one["operation"] == "deliver" and key in sent:
            waits[one["topic"], one["src"]].append((time - sent[key]) / timedelta(microseconds=1))
    rows = {(row["topic"], row["broker"]): row for row in deliveries(path)}
    assert rows
    assert {key: (len(each), min(each), max(each)) for key, each in waits.items()} == {
        key: (row["delivered"], row["min_us"], row["max_us"]) for key, row in rows.items()
    }
