"""Rows of Liftbridge's messages, compared with the records of the same frames."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.net.craft import batches
from tests.protocols.liftbridge_vectors import VECTORS
from tests.protocols.test_nats_bulk import CAPTURES, CONNECT, INFO, PUBLISHED, envelope, pub
from tests.protocols.test_nats_messages import collected, records, unhex
from tests.protocols.test_nats_messages import expected as expected_of_nats
from tests.support import Part, craft, dissect, every
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import record
from wiredecode.net.types import Connection
from wiredecode.protocols.liftbridge.layers import Publish
from wiredecode.protocols.liftbridge.layers_reading import MAX_KNOWN, READERS, read
from wiredecode.protocols.nats.protocol import Nats

DEFAULTS = {"key": "", "partition": 0, "timestamp": "1970-01-01T00:00:00.000000000Z"}
"""Records say them, rows do not: there a null is what the publisher left out."""
FILES = sorted((CAPTURES / "liftbridge").glob("*.pcap*"))


def expected(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows that the record of a NATS message with an envelope implies."""
    fields = record["layers"].get("liftbridge", {})
    for row in expected_of_nats(record):
        stored = [entry for entry in fields.get("entries", ()) if "value" in entry]
        if fields.get("message_type") == "Publish" and fields["version"] == 0:
            body = unhex(fields.get("value", "" if record["status"] == "ok" else None))
            topic = fields.get("stream") or row["topic"]
            given = {name: value for name, value in fields.items() if name not in DEFAULTS or value != DEFAULTS[name]}
            more = {"topic": topic, "partition": given.get("partition"), "body": body}
            yield row | more | message(given) | {"offset": None}
        elif stored:
            for index, entry in enumerate(stored):
                more = {"index": index, "topic": fields.get("stream", row["topic"]), "body": unhex(entry["value"])}
                yield row | more | message({"headers": [], **entry}) | {"partition": fields.get("partition")}
        else:
            yield row


def message(fields: dict[str, Any]) -> dict[str, Any]:
    """Key, offset, time and headers."""
    headers = fields.get("headers")
    shown = (
        None if headers is None else [(header.get("key", ""), unhex(header.get("value") or "")) for header in headers]
    )
    time = nanoseconds(fields.get("timestamp"))
    return {"key": unhex(fields.get("key")), "offset": fields.get("offset"), "timestamp": time, "headers": shown}


def nanoseconds(shown: str | int | None) -> int | None:
    if shown is None or isinstance(shown, int):
        return shown
    seconds, fraction = shown.rstrip("Z").split(".")
    return int(datetime.fromisoformat(seconds + "+00:00").timestamp()) * 1_000_000_000 + int(fraction)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_rows_equal_records(path: Path) -> None:
    rows = [row for each in records(path) for row in expected(each)]
    assert collected(open_capture([path])) == rows
    assert any(row["key"] is not None for row in rows)


@in_one_test("vector", VECTORS, ids=[vector.nr for vector in VECTORS])
def test_vectors(vector: Any) -> None:
    payload = bytes.fromhex(vector.hex)
    record = list(records_of(pub(payload, b"foo")))
    assert rows(pub(payload, b"foo")) == [row for each in record for row in expected(each)]


def packets(data: bytes) -> Any:
    return batches(craft([Part(1, 1, INFO), Part(1, 0, CONNECT + data)], every(1460), server_port=4222))


def rows(data: bytes) -> list[dict[str, Any]]:
    return collected(packets(data))


def records_of(data: bytes) -> Iterator[dict[str, Any]]:
    return map(record, dissect(packets(data), known=(Nats(),)).frames)


def test_a_published_message() -> None:
    (row,) = rows(pub(envelope(PUBLISHED)))
    assert (row["topic"], row["partition"], row["key"], row["body"]) == ("orders", 2, b"key", b"value")
    assert row["headers"] == [("n", b"\xff\0"), ("m", b"")]
    assert row["timestamp"] == 1_700_000_000_000_000_000


def test_fields_left_out_of_a_message() -> None:
    (row,) = rows(pub(envelope(b"")))
    assert (row["topic"], row["key"], row["body"], row["headers"], row["timestamp"]) == ("a.b", None, b"", None, None)


def test_the_expected_offset_is_not_the_offset() -> None:
    assert rows(pub(envelope(b"\x08\x2a")))[0]["offset"] is None


def test_mutated_vectors() -> None:
    chance = random.Random(3)
    data = bytearray()
    for vector in VECTORS * 4:
        payload = bytearray(bytes.fromhex(vector.hex))
        if len(payload) > 8:
            payload[chance.randrange(4, len(payload))] = chance.randrange(256)
        data += pub(bytes(payload), b"foo")
    assert rows(bytes(data)) == [row for each in records_of(bytes(data)) for row in expected(each)]


def test_a_replication_response_truncated_at_every_byte() -> None:
    stored = max((vector for vector in VECTORS if vector.layer == "ReplicationResponse"), key=lambda one: len(one.hex))
    data = pub(bytes.fromhex(stored.hex))
    assert rows(data)[0]["offset"] is not None
    for stop in range(20, len(data), 7):
        assert rows(data[:stop]) == [row for each in records_of(data[:stop]) for row in expected(each)]


@pytest.mark.parametrize("stop", range(30, 75, 4))
def test_a_truncated_message(stop: int) -> None:
    data = pub(envelope(PUBLISHED))[:stop]
    assert rows(data) == [row for each in records_of(data) for row in expected(each)]


def test_acks_are_nats_messages() -> None:
    ack = envelope(b"\x0a\x01s", kind=1)
    (row,) = rows(pub(ack, b"acks"))
    assert (row["topic"], row["body"], row["key"]) == ("acks", ack, None)


def test_remembered_messages_are_few_and_short() -> None:
    payloads = [envelope(b"\x1a\x03%03d" % number) for number in range(MAX_KNOWN + 1)]
    frame = Frame(Connection(1, ("a", "b"), (1, 4222)), 0, b"", 0, 0, 0, 0, 0, [1], 1, 0, 0)
    first = read(frame, Publish, payloads[0], 0, None)
    assert read(frame, Publish, payloads[0], 0, None).fields is first.fields
    long = envelope(b"\x1a\xac\x02" + bytes(300))
    assert [read(frame, Publish, each, 0, None).fields["value"] for each in [*payloads, long]][:2] == [b"000", b"001"]
    assert 0 < len(READERS[Publish].cache) <= MAX_KNOWN
    assert long not in READERS[Publish].cache
