"""Filters over captures, each compared with plain Python over the JSON records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.filter.support import BASIC, first_ns, numbers, records

AMQP, ERRORS = "rabbitmq-stream/c43_amqp.pcap", "rabbitmq-stream/c43_errors.pcap"
SUB_BATCHES = "rabbitmq-stream/c43_subentry.pcap"
NATS, LIFTBRIDGE = "nats/06-headers.pcap", "liftbridge/30-lb-publish-ack.pcap"
CURSUS, PRAVEGA = "cursus/stream.pcap", "pravega/append_basic.pcap"
TANK = "tank/tank_08_consume_positions.pcap"

Row = dict[str, Any]


def at(row: Row, path: str) -> list[Any]:
    """The values at a path below ``layers``, elements one by one."""
    found: list[Any] = [row["layers"]]
    for step in path.split("."):
        found = [each[step] for each in flat(found) if isinstance(each, dict) and step in each]
    return list(flat(found))


def flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from flat(value)
        else:
            yield value


def ports(row: Row) -> list[int]:
    return [int(row[side].rpartition(":")[2]) for side in ("src", "dst")]


def rabbit(row: Row, field: str) -> list[Any]:
    return at(row, f"rabbitmq_stream.{field}")


def data(row: Row) -> list[bytes]:
    return [bytes.fromhex(each) for each in rabbit(row, "messages.data")]


BROKER = 5552
CASES: list[tuple[str, str, Callable[[Row], Any]]] = [
    # frames
    (BASIC, "frame", lambda row: True),
    (BASIC, "frame.number == 31", lambda row: row["frame"] == 31),
    (BASIC, "frame.number in {1, 5..7, 0x10}", lambda row: row["frame"] in (1, 5, 6, 7, 16)),
    (BASIC, "frame.number not in {5..500}", lambda row: row["frame"] < 5),
    (BASIC, "frame.length gt 0x64 and frame.length le 0310", lambda row: 100 < row["length"] <= 200),
    (BASIC, "100 < frame.length", lambda row: row["length"] > 100),
    (BASIC, "frame.length >= 2 * 50 + 7", lambda row: row["length"] >= 107),
    (BASIC, "frame.length % 2 == 1", lambda row: row["length"] % 2),
    (BASIC, "frame.length & 1", lambda row: row["length"] & 1),
    (BASIC, "-frame.length < -1e2", lambda row: row["length"] > 100),
    (BASIC, "abs(frame.length - 100) < 60", lambda row: abs(row["length"] - 100) < 60),
    (BASIC, "frame.offset == 0", lambda row: row["offset"] == 0),
    (BASIC, 'frame.type == "Publish"', lambda row: row["type"] == "Publish"),
    (BASIC, "frame.type == Publish", lambda row: row["type"] == "Publish"),
    (BASIC, "frame.type matches r\"^publish\\w\"", lambda row: re.match("(?i)publish[a-z]", row["type"])),
    (BASIC, 'frame.type contains "Publisher"', lambda row: "Publisher" in row["type"]),
    (BASIC, 'upper(frame.type) == "OPEN"', lambda row: row["type"] == "Open"),
    (BASIC, 'len(frame.type) == 4', lambda row: len(row["type"]) == 4),
    (BASIC, 'frame.type[0:3] == "Pub"', lambda row: row["type"][:3] == "Pub"),
    (BASIC, 'frame.type[-3:] == "rer"', lambda row: False),
    (BASIC, "frame[4:2] == 00:02", lambda row: row["code"] == 2),
    (BASIC, "frame[4-5] == 80.02 or frame[4,5] == 80:03", lambda row: row["code"] in (0x8002, 0x8003)),
    (BASIC, "frame.code > 0x8000", lambda row: row["code"] > 0x8000),
    (BASIC, "frame.sender == server xor frame.number < 5",
     lambda row: (row["sender"] == "server") != (row["frame"] < 5)),
    (BASIC, "frame.packets == 45", lambda row: 45 in row["packets"]),
    (BASIC, "count(frame.packets) > 1", lambda row: len(row["packets"]) > 1),
    (BASIC, 'frame.time >= "2026-11-20 19:45:00"', lambda row: row["time"] >= "2026-11-20T19:45:00"),
    (BASIC, "frame.time < 2026-11-20T19:44:59.999Z", lambda row: row["time"] < "2026-11-20T19:44:59.999"),
    (BASIC, "frame.time - 1s >= 2026-11-20T19:45:00Z", lambda row: row["time"] >= "2026-11-20T19:45:01"),
    (BASIC, "frame.time_relative > 1.2", lambda row: row["time_ns"] - first_ns(BASIC) > 1.2e9),
    (BASIC, "frame.time_relative <= 200ms", lambda row: row["time_ns"] - first_ns(BASIC) <= 2e8),
    (BASIC, "latency", lambda row: row["latency_ns"] is not None),
    (BASIC, "latency > 1ms", lambda row: (row["latency_ns"] or 0) > 1e6),
    (BASIC, "latency * 2 > 2000us", lambda row: (row["latency_ns"] or 0) > 1e6),
    (BASIC, "max(latency, 1ms) == 1ms", lambda row: (row["latency_ns"] or 0) <= 1e6),
    (BASIC, "frame.response == 2", lambda row: row["response"] == 2),
    (BASIC, "frame.request && !(frame.request == 1)", lambda row: (row["request"] or 1) != 1),
    # connections; != holds when all differ, !== when one does
    (BASIC, "tcp.stream == 2", lambda row: row["connection"] == 2),
    (BASIC, "tcp.port == 5552", lambda row: True),
    (BASIC, "tcp.port != 5552", lambda row: False),
    (BASIC, "tcp.port !== 5552", lambda row: True),
    (BASIC, "tcp.port ~= 5552", lambda row: True),
    (BASIC, "tcp.port === 5552", lambda row: False),
    (BASIC, "any tcp.port > 30000", lambda row: any(port > 30000 for port in ports(row))),
    (BASIC, "all tcp.port > 30000", lambda row: all(port > 30000 for port in ports(row))),
    (BASIC, "all tcp.port in {5552, 30000..40000}", lambda row: True),
    (BASIC, "tcp.srcport == 5552", lambda row: ports(row)[0] == BROKER),
    (BASIC, "tcp.dstport < tcp.srcport", lambda row: ports(row)[1] < ports(row)[0]),
    (BASIC, "max(tcp.port) == 37492", lambda row: 37492 in ports(row)),
    (BASIC, "ip.src == 127.0.0.3", lambda row: row["src"].startswith("127.0.0.3:")),
    (BASIC, "ip.addr == 127.0.0.2/31 && ip.dst != 127.0.0.2/31", lambda row: row["src"].startswith("127.0.0.3:")),
    (BASIC, "ip.addr in {127.0.0.2..127.0.0.9}", lambda row: True),
    (BASIC, "ip.addr == ::1", lambda row: False),
    # findings
    (ERRORS, "finding", lambda row: row["findings"]),
    (ERRORS, "not finding", lambda row: not row["findings"]),
    (ERRORS, 'finding.severity == "warning"', lambda row: any(f["severity"] == "warning" for f in row["findings"])),
    (ERRORS, "finding.code == refused", lambda row: any(f["code"] == "refused" for f in row["findings"])),
    # fields: enumerations by name and by number, arrays, bytes, nested
    (BASIC, "rabbitmq_stream.key == 2 or rabbitmq_stream.key == Open", lambda row: row["code"] in (2, 21)),
    (BASIC, 'rabbitmq_stream.key in {3, "Open", 0x12}', lambda row: row["code"] in (3, 21, 18)),
    (BASIC, "rabbitmq_stream.key_code == 2", lambda row: row["code"] == 2),
    (ERRORS, "rabbitmq_stream.response_code != OK",
     lambda row: [c for c in rabbit(row, "response_code") if c != "OK"]),
    (ERRORS, "!(rabbitmq_stream.response_code == OK)", lambda row: rabbit(row, "response_code") != ["OK"]),
    (BASIC, 'rabbitmq_stream.stream contains "basic"', lambda row: any("basic" in s for s in rabbit(row, "stream"))),
    (BASIC, "rabbitmq_stream.messages", lambda row: rabbit(row, "messages.publishing_id")),
    (BASIC, "count(rabbitmq_stream.messages) >= 4", lambda row: len(rabbit(row, "messages.publishing_id")) >= 4),
    (BASIC, "rabbitmq_stream.messages.publishing_id in {3..4}",
     lambda row: any(n in (3, 4) for n in rabbit(row, "messages.publishing_id"))),
    (BASIC, 'rabbitmq_stream.messages.data contains "0"', lambda row: any(b"0" in each for each in data(row))),
    (BASIC, "any len(rabbitmq_stream.messages.data) == 20", lambda row: any(len(each) == 20 for each in data(row))),
    (BASIC, "rabbitmq_stream.messages.data[-1:] == 30", lambda row: any(each[-1:] == b"0" for each in data(row))),
    (BASIC, 'rabbitmq_stream.messages.data matches "[13]$"',
     lambda row: any(re.search(b"[13]$", each) for each in data(row))),
    (BASIC, "rabbitmq_stream.chunk.entries.offset in {3..5}",
     lambda row: any(3 <= n <= 5 for n in rabbit(row, "chunk.entries.offset"))),
    (BASIC, "rabbitmq_stream.chunk.timestamp > 2026-11-20T19:45:00Z",
     lambda row: any(t > "2026-11-20T19:45:00" for t in rabbit(row, "chunk.timestamp"))),
    (BASIC, "rabbitmq_stream.data", lambda row: rabbit(row, "data")),
    (BASIC, 'rabbitmq_stream.properties.key == "platform" and rabbitmq_stream.properties.value contains "OTP"',
     lambda row: any("OTP" in v for v in rabbit(row, "properties.value"))),
    (SUB_BATCHES, "rabbitmq_stream.messages.sub_batch.codec == gzip",
     lambda row: "gzip" in rabbit(row, "messages.sub_batch.codec")),
    (SUB_BATCHES, 'rabbitmq_stream.messages.sub_batch.messages.data contains "1"',
     lambda row: any(b"1" in bytes.fromhex(d) for d in rabbit(row, "messages.sub_batch.messages.data"))),
    (AMQP, "amqp.header.priority == 4",
     lambda row: 4 in rabbit(row, "messages.amqp.header.priority") + rabbit(row, "chunk.entries.amqp.header.priority")),
    (AMQP, "rabbitmq_stream.messages.amqp.header.durable == true",
     lambda row: True in rabbit(row, "messages.amqp.header.durable")),
    # other protocols
    (NATS, 'nats.subject matches "^[a-z]+\\\\."',
     lambda row: any(re.match(r"(?i)[a-z]+\.", s) for s in at(row, "nats.subject"))),
    (NATS, "frame.protocol == nats", lambda row: row["protocol"] == "nats"),
    (NATS, "nats.type in {HMSG HPUB}", lambda row: row["type"] in ("HMSG", "HPUB")),
    (NATS, "nats.headers.key", lambda row: at(row, "nats.headers.key")),
    (NATS, "nats.options.verbose == false", lambda row: False in at(row, "nats.options.verbose")),
    (LIFTBRIDGE, "liftbridge", lambda row: row["protocol"] == "liftbridge"),
    (LIFTBRIDGE, "liftbridge[0:4] == b9:0e:43:b4", lambda row: row["protocol"] == "liftbridge"),
    (LIFTBRIDGE, "liftbridge.crc_status", lambda row: at(row, "liftbridge.crc_status")),
    (CURSUS, "cursus && frame.status == ok", lambda row: row["protocol"] == "cursus" and row["status"] == "ok"),
    (CURSUS, "cursus.topic", lambda row: at(row, "cursus.topic")),
    (PRAVEGA, "pravega.events.data", lambda row: at(row, "pravega.events.data")),
    (PRAVEGA, "pravega.event_count >= 1", lambda row: any(n >= 1 for n in at(row, "pravega.event_count"))),
    (TANK, "tank.request_id == 2", lambda row: 2 in at(row, "tank.request_id")),
]  # fmt: skip


@in_one_test(("name", "text", "expected"), CASES, ids=[case[1] for case in CASES])
def test_filter_and_plain_python_choose_the_same_frames(name: str, text: str, expected: Callable[[Row], Any]) -> None:
    assert numbers(text, name) == [row["frame"] for row in records(name) if expected(row)]


def test_most_filters_match_some_frames_and_not_all() -> None:
    """Otherwise the table above proves little."""
    telling = [0 < len(numbers(text, name)) < len(records(name)) for name, text, _ in CASES]
    assert sum(telling) > 0.7 * len(CASES), [case[1] for case, tells in zip(CASES, telling, strict=True) if not tells]


PRECEDENCE = [
    ("!frame.number == 1 && frame.number < 4", "(!(frame.number == 1)) and (frame.number < 4)"),
    ("frame.number < 9 and frame.number > 3 or tcp.stream == 2",
     "(frame.number < 9 and frame.number > 3) or tcp.stream == 2"),
    ("tcp.stream == 2 or frame.number > 3 and frame.number < 9",
     "tcp.stream == 2 or (frame.number > 3 and frame.number < 9)"),
    ("tcp.stream == 2 or frame.number > 3 xor frame.number < 9",
     "tcp.stream == 2 or (frame.number > 3 xor frame.number < 9)"),
    ("frame.number > 3 xor frame.number < 9 and tcp.stream == 1",
     "frame.number > 3 xor (frame.number < 9 and tcp.stream == 1)"),
    ("frame.length > 10 + 2 * 20", "frame.length > 50"),
    ("frame.length - 10 - 20 > 20", "frame.length > 50"),
    ("frame.length > (10 + 2) * 4", "frame.length > 48"),
    ("frame.length > {10 + 2} * 4", "frame.length > 48"),
    ("not not frame.number < 4", "frame.number < 4"),
    ("1 == 1 && frame.number < 4", "frame.number < 4"),
    ("1 == 2 || frame.number < 4", "frame.number < 4"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "same"), PRECEDENCE)
def test_precedence(text: str, same: str) -> None:
    assert numbers(text) == numbers(same) != []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("\\x41\\102\\u0043", "ABC"),
        ('\\"\\\\\\n\\t', '"\\\n\t'),
        ("x\\0y", "x\0y"),
        ("é\\U0001F600", "é\U0001f600"),
    ],
)
def test_escapes_in_quotes(text: str, meant: str) -> None:
    from wiredecode.filter.grammar import parse
    from wiredecode.filter.syntax import Literal, Relation

    node = parse(f'frame.type == "{text}"')
    assert isinstance(node, Relation)
    assert isinstance(node.right, Literal)
    assert node.right.text == meant


def test_backslashes_in_raw_strings_stay() -> None:
    assert numbers(r'frame.type matches r"^Op\w+$"') == numbers(r'frame.type matches "^Op\\w+$"') != []


def test_regular_expression_reads_a_bounded_part(monkeypatch: pytest.MonkeyPatch) -> None:
    from wiredecode.filter import regular

    monkeypatch.setattr(regular, "MATCHED", 3)
    assert numbers('frame.type matches "Open"') == []
    assert numbers('frame.type matches "Ope"') != []
