"""Publish to confirm with repeated, late and missing ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import wiredecode
from tests.net.craft import Talk
from tests.view.frames import CLIENT, HANDSHAKE, SERVER, write
from wiredecode.fields.layer import Layer
from wiredecode.protocols.rabbitmq_stream import layers

Step = tuple[int, Layer]
EVIL = "or\x1b[2Jders [red]\u202e"
LARGEST = 2**64 - 1


def publish(*numbers: int, publisher: int = 1) -> Step:
    messages = [layers.PublishedMessage(publishing_id=number, data=b"m") for number in numbers]
    return CLIENT, layers.Publish(publisher_id=publisher, messages=messages)


def confirm(*numbers: int, publisher: int = 1) -> Step:
    return SERVER, layers.PublishConfirm(publisher_id=publisher, publishing_ids=list(numbers))


def refuse(*numbers: int, publisher: int = 1) -> Step:
    errors = [layers.PublishingError(publishing_id=number, response_code=18) for number in numbers]
    return SERVER, layers.PublishError(publisher_id=publisher, errors=errors)


def declare(stream: str, publisher: int = 1, correlation: int = 7) -> list[Step]:
    asked = layers.DeclarePublisher(correlation_id=correlation, publisher_id=publisher, stream=stream)
    return [(CLIENT, asked), (SERVER, layers.LAYERS[0x8001, 1](correlation_id=correlation, response_code=1))]


def talk(steps: list[Step], port: int = 40000) -> list[bytes]:
    """The packets of a connection, one per step."""
    made = Talk(client=("10.0.0.1", port))
    sent = made.handshake()
    for side, layer in [*HANDSHAKE, *steps]:
        sent += made.send(side, bytes(layer))
    return sent


def confirms_of(path: Path, packets: list[bytes], **how: Any) -> list[dict[str, Any]]:
    found = wiredecode.stats(write(path / "talk.pcap", packets), tables=["confirms"], **how)
    rows: list[dict[str, Any]] = found["confirms"].to_pylist()
    return rows


SUMS = ("confirmed", "failed", "unconfirmed", "unknown")
P, C, E = publish, confirm, refuse
CASES: dict[str, tuple[list[Step], tuple[int, int, int, int], tuple[float, float] | None]] = {
    # packets are 1 ms apart: steps, sums, least and most microseconds
    "one confirm for several messages": ([P(1, 2, 3), C(3, 1, 2)], (3, 0, 0, 0), (1000, 1000)),
    "several confirms for one frame": ([P(1, 2), C(1), C(2)], (2, 0, 0, 0), (1000, 2000)),
    "confirmed twice": ([P(1), C(1), C(1)], (1, 0, 0, 0), (1000, 1000)),
    "confirmed twice, then used again": ([P(1), C(1), C(1), P(1), C(1)], (2, 0, 0, 0), (1000, 1000)),
    "sent again before the first was confirmed": ([P(1), P(1), C(1), C(1)], (2, 0, 0, 0), (2000, 2000)),
    "sent again, confirmed once": ([P(1), P(1), C(1)], (1, 0, 1, 0), (2000, 2000)),
    "its publish was not captured": ([C(1), P(2), C(2)], (1, 0, 0, 0), (1000, 1000)),
    "before its publish": ([C(1), P(1)], (0, 0, 1, 0), None),
    "refused": ([P(1, 2), E(1), C(2)], (1, 1, 0, 0), (2000, 2000)),
    "refused, then sent again": ([P(1), E(1), P(1), C(1)], (1, 1, 0, 0), (1000, 1000)),
    "refused and confirmed": ([P(1), E(1), C(1)], (0, 1, 0, 0), None),
    "never confirmed": ([P(1), P(2, 3)], (0, 0, 3, 0), None),
    "the same ids of two publishers": ([P(1), P(1, publisher=2), C(1, publisher=2)], (1, 0, 1, 0), (1000, 1000)),
    "the largest id": ([P(LARGEST, LARGEST - 1), C(LARGEST)], (1, 0, 1, 0), (1000, 1000)),
    "a confirm of nothing": ([P(1), C()], (0, 0, 1, 0), None),
}


@pytest.mark.parametrize(("steps", "sums", "spread"), CASES.values(), ids=list(CASES))
def test_each_confirm_belongs_to_the_oldest_waiting_publish(
    tmp_path: Path, steps: list[Step], sums: tuple[int, int, int, int], spread: tuple[float, float] | None
) -> None:
    (row,) = confirms_of(tmp_path, talk(steps))
    assert tuple(row[name] for name in SUMS) == sums
    assert (row["min_us"], row["max_us"]) == (spread or (None, None))


def test_ids_restart_after_a_reconnect(tmp_path: Path) -> None:
    first = talk([*declare("orders"), publish(1), publish(2), confirm(1)])
    second = talk([*declare("orders"), publish(1), confirm(1), confirm(2)], port=40001)
    (row,) = confirms_of(tmp_path, [*first, *second])
    assert row["stream"] == "orders"
    assert tuple(row[name] for name in SUMS) == (2, 0, 1, 0)
    assert row["max_us"] == 2000  # not from the connection before


def test_a_redeclared_publisher_begins_a_new_row(tmp_path: Path) -> None:
    steps = [*declare("a"), publish(1), confirm(1), *declare("b", correlation=8), publish(1), confirm(1)]
    rows = confirms_of(tmp_path, talk(steps))
    assert [(row["stream"], row["confirmed"], row["broker"]) for row in rows] == [
        ("a", 1, "10.0.0.2:5552"),
        ("b", 1, "10.0.0.2:5552"),
    ]


def test_nothing_is_confirmed_in_a_one_sided_capture(tmp_path: Path) -> None:
    packets = talk([*declare("orders"), publish(1, 2), confirm(1, 2)])
    asked = [packet for packet in packets if packet[26:30] == b"\x0a\0\0\x01"]
    assert [tuple(row[name] for name in SUMS) for row in confirms_of(tmp_path, asked)] == [(0, 0, 0, 2)]
    answered = [packet for packet in packets if packet not in asked]
    assert confirms_of(tmp_path, answered) == []


def test_only_matching_publishes_count(tmp_path: Path) -> None:
    packets = talk([*declare("orders"), publish(1), confirm(1)])
    (row,) = confirms_of(tmp_path, packets, filter='frame.type == "Publish"')
    assert tuple(row[name] for name in SUMS) == (0, 0, 1, 0)


def test_names_from_the_wire_are_not_escaped_in_tables(tmp_path: Path) -> None:
    (row,) = confirms_of(tmp_path, talk([*declare(EVIL), publish(1), confirm(1)]))
    assert row["stream"] == EVIL


def test_a_publish_without_permission_fails_with_and_without_a_reply_subject(tmp_path: Path) -> None:
    denied = b"-ERR 'Permissions Violation for Publish to \"a.b\"'\r\n"
    said = [
        (SERVER, b'INFO {"server_id":"A","version":"2.11.0","headers":true,"max_payload":1048576}\r\n'),
        (CLIENT, b'CONNECT {"verbose":false,"pedantic":false,"lang":"go"}\r\nSUB _INBOX.x.* 1\r\n'),
        (CLIENT, b"PUB a.b _INBOX.x.1 2\r\nhi\r\n"),
        (CLIENT, b"PUB c.d _INBOX.x.2 2\r\nhi\r\n"),
        (SERVER, denied),
        (CLIENT, b"PUB a.b 2\r\nhi\r\n"),
        (SERVER, denied),
        (SERVER, denied.replace(b"Publish", b"Subscription")),
        (CLIENT, b"PUB a.b _INBOX.x.3 2\r\nhi\r\n"),
    ]
    made = Talk(server=("10.0.0.2", 4222))
    packets = [*made.handshake(), *(packet for side, data in said for packet in made.send(side, data))]
    rows = {row["stream"]: tuple(row[name] for name in SUMS) for row in confirms_of(tmp_path, packets)}
    assert rows == {"a.b": (0, 2, 1, 0), "c.d": (0, 0, 1, 0)}


def test_an_unanswered_request_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "talk.pcap", talk([(CLIENT, layers.Create(correlation_id=9, stream="s")), *declare("s")]))
    rows = {row["request"]: row for row in wiredecode.stats(path, tables=["latency"])["latency"].to_pylist()}
    assert (rows["Create"]["count"], rows["Create"]["unanswered"], rows["Create"]["p50_us"]) == (0, 1, None)
    assert (rows["DeclarePublisher"]["count"], rows["DeclarePublisher"]["unanswered"]) == (1, 0)


@pytest.mark.parametrize("packets", [[], talk([])[:3]], ids=["no packets", "no frames"])
def test_no_frames_give_empty_tables(tmp_path: Path, packets: list[bytes]) -> None:
    found = wiredecode.stats(write(tmp_path / "empty.pcap", packets))
    assert [table.num_rows for table in found.tables.values()] == [0] * 5 + [bool(packets), 0, 0]
