"""Messages of Cursus as rows: batches in all layouts, compressed or damaged, and messages as text in each dialect."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import pytest

from tests.net.craft import batches
from tests.protocols.message_rows import Row, agree, column, expected, mutated, rows
from tests.protocols.test_cursus_surprises import C, S, cmd, framed
from tests.support import Part, craft, dissect, every
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.cursus.evidence_body import inflate
from wiredecode.protocols.cursus.layers_batch import BATCHES, batch_layer, message_fields
from wiredecode.protocols.cursus.protocol import Cursus

FOLDER = Path(__file__).parent.parent.parent / "captures" / "cursus"
CAPTURES = sorted(FOLDER.glob("*.pcap"))
PORT = 9000
END = 2**64 - 1
PUBLISHING = ("PUBLISH", "TXN_PUBLISH", "APPEND_STREAM", "PUBLISH_IDEMPOTENT")


def said(frame: Frame) -> Iterator[Row]:
    """The messages of a frame from its record; of text frames, those that commands contain."""
    layers = frame.layers or {}
    record = layers.get("cursus_batch") or layers.get("cursus", {})
    compression = layers.get("cursus_compressed", {}).get("compression")
    if frame.type in PUBLISHING and "message" in record and not frame.missing:
        key, sequence = record.get("key"), record.get("seq_num")
        chosen = isinstance(record.get("partition"), int) and record["partition"] >= 0
        place = frame.number, published(frame), record.get("topic"), record["partition"] if chosen else None
        sequence = sequence if isinstance(sequence, int) else None
        body = record["message"].encode()
        yield Row(*place, None if key is None else key.encode(), None, sequence, None, compression, body)
    elif frame.type in ("Batch", "INTERNAL_BATCH"):
        yield from of_batch(frame, record, compression)


def published(frame: Frame) -> str:
    return "forward" if (frame.layers or {}).get("cursus", {}).get("forwarded") else "publish"


def of_batch(frame: Frame, record: dict[str, Any], compression: str | None) -> Iterator[Row]:
    dialect = frame.dialect if frame.dialect in BATCHES else "cur"
    last = message_fields(dialect, False)[-1].name
    messages = [each for each in record.get("messages", ()) if last in each]
    placed = any(each.get("offset") for each in messages)
    operation = "deliver" if frame.sender == "server" or (frame.sender is None and placed) else published(frame)
    for each in messages:
        key = each["key"].encode() if "key" in each else None
        offset = each.get("offset") if placed or operation == "deliver" else None
        body = each["data"].encode() if each["data"].startswith("<") else bytes.fromhex(each["data"])
        place = frame.number, operation, record["topic"], record["partition"]
        yield Row(*place, key, offset, each["seq"], None, compression, body)


def packets(*turns: tuple[int, bytes], size: int = 1460) -> list[bytes]:
    return craft([Part(1, side, data) for side, data in turns], every(size), server_port=PORT)


def talk(*turns: tuple[int, bytes]) -> list[Row]:
    """The message rows of a conversation, after asserting that they equal the records."""
    agree(packets(*turns), Cursus, said)
    return rows(batches(packets(*turns)), Cursus())


def texts(*turns: tuple[int, bytes]) -> list[Row]:
    """The message rows of a conversation in text, whose records hold only the text."""
    return rows(batches(packets(*turns)), Cursus())


def batch(dialect: str = "cur", *bodies: bytes, topic: str = "orders", **fields: Any) -> bytes:
    layer = batch_layer(dialect, False)
    element = layer.fields_desc[-1].element.layer
    partition = "10" if dialect == "seed" else 10
    return bytes(layer(topic=topic, partition=partition, messages=[element(data=body, **fields) for body in bodies]))


# Captures.


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_rows_of_a_capture_equal_its_records(path: Path) -> None:
    assert rows(open_capture([path]), Cursus()) == expected(open_capture([path]), Cursus(), said)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_as_many_rows_as_client_and_broker_counted(path: Path) -> None:
    truth = json.loads(path.with_suffix(".truth.json").read_text())
    decoded = [frame.get("decode", {}) for stream in truth["streams"] for frame in stream["frames"]]
    if "frames_by_status" in truth:  # the truth of a derived capture names whole frames only
        return
    published = sum(each.get("command") in PUBLISHING for each in decoded)
    wanted = published + sum(each["count"] for each in decoded if each.get("kind") == "batch")
    assert len(rows(open_capture([path]), Cursus())) == wanted


@pytest.mark.parametrize("name", ["comp-gzip", "consume", "txn"])
def test_damaged_frames_give_their_whole_messages(name: str) -> None:
    run = dissect(open_capture([FOLDER / f"{name}.pcap"]), known=(Cursus(),))
    assert sum(agree(mutated(run, seed, 10, PORT), Cursus, said) for seed in range(6)) > 0
    assert agree(mutated(run, 1, 0, PORT), Cursus, said, snaplen=300) > 0


# Batches.


@pytest.mark.parametrize("dialect", BATCHES)
def test_every_layout_of_a_batch(dialect: str) -> None:
    found = talk((C, batch(dialect, b"a", b"", seq=END)), (C, batch(dialect, b"c")))
    assert [(row.topic, row.partition, row.sequence, row.body) for row in found] == [
        ("orders", 10, END, b"a"),
        ("orders", 10, END, b""),
        ("orders", 10, 0, b"c"),
    ]
    assert column(found, "operation") == ["publish"] * 3
    assert column(found, "offset") == [None] * 3


def test_batches_from_a_broker_have_offsets() -> None:
    found = talk((C, cmd("CONSUME topic=orders partition=10 offset=0")), (S, batch("cur", b"a", offset=0, key="k")))
    found += talk((C, cmd("LIST")), (S, batch("cur", b"b", offset=END)))
    assert [(row.operation, row.offset, row.key) for row in found] == [("deliver", 0, b"k"), ("deliver", END, b"")]


@pytest.mark.parametrize(("offset", "operation"), [(0, "publish"), (5, "deliver")])
def test_offsets_alone_determine_the_direction(offset: int, operation: str) -> None:
    data = batch("cur", b"a", b"b", offset=offset)
    late = craft([Part(1, 0, data * 3)], every(1460), server_port=PORT, handshake=False)
    assert column(rows(batches(late), Cursus()), "operation") == [operation] * 6


def test_an_empty_batch() -> None:
    assert talk((C, batch("cur")), (C, batch("cur", b"a")))[0].frame == 2


@pytest.mark.parametrize(("codec", "compress"), [("gzip", gzip.compress), ("snappy", cramjam.snappy.compress_raw)])
def test_compressed_batches(codec: str, compress: Any) -> None:
    found = talk((C, framed(bytes(compress(batch("cur", b"a" * 90, b"b")[4:])))))
    assert [(row.compression, row.body) for row in found] == [(codec, b"a" * 90), (codec, b"b")]


def test_truncated_and_too_large_compressed_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real limit is tested by test_decompression_bomb_is_stopped."""
    monkeypatch.setattr(inflate, "__defaults__", (100_000,))
    inner = batch("cur", bytes(99_000))[4:]
    assert column(talk((C, cmd("LIST")), (C, framed(gzip.compress(inner, 1)))), "body") == [bytes(99_000)]
    inner = batch("cur", bytes(100_000))[4:]
    assert talk((C, cmd("LIST")), (C, framed(gzip.compress(inner, 1)))) == []
    assert talk((C, cmd("LIST")), (C, framed(gzip.compress(batch("cur", bytes(900))[4:])[:-9]))) == []


def test_a_batch_forwarded_between_brokers() -> None:
    payload = base64.b64encode(batch("cur", b"a", b"b", seq=3)[4:]).decode()
    found = talk((C, cmd(f"INTERNAL_BATCH internal_token=s3 payload={payload}")))
    assert [(row.operation, row.topic, row.partition, row.sequence, row.body) for row in found] == [
        ("forward", "orders", 10, 3, b"a"),
        ("forward", "orders", 10, 3, b"b"),
    ]
    assert talk((C, cmd("INTERNAL_BATCH internal_token=s3 payload=???"))) == []


def test_a_forwarded_publish_is_not_counted_twice() -> None:
    (client,) = talk((C, cmd("PUBLISH topic=a acks=1 producerId=p message=hello")))
    (between,) = talk((C, cmd("PUBLISH internal_token=s3 topic=a acks=1 producerId=p message=hello")))
    assert (client.operation, between.operation) == ("publish", "forward")
    assert client.body == between.body == b"hello"


def test_a_message_that_holds_a_token_is_hidden() -> None:
    found = talk((C, batch("cur", b"hello auth_token=s3cret", b"plain")))
    assert column(found, "body") == [b"<redacted 23 bytes>", b"plain"]


def test_names_and_keys_that_are_not_utf8() -> None:
    data = batch("cur", b"a", key="kkk").replace(b"kkk", b"k\xff\xfe").replace(b"orders", b"order\xff")
    found = rows(batches(packets((C, data))), Cursus())
    assert [(row.topic, row.key) for row in found] == [("order\\xff", b"k\xff\xfe")]


def test_a_batch_whose_length_field_is_too_large() -> None:
    data = batch("cur", b"first", b"second!")
    broken = data.replace(b"\0\0\0\7second!", b"\0\0\1\7second!")
    assert column(talk((C, cmd("LIST")), (C, broken)), "body") == [b"first"]


def test_a_gap_in_the_middle_of_a_batch() -> None:
    bodies = [bytes([index]) * 300 for index in range(12)]
    sent = packets((C, batch("cur", *bodies)), (C, batch("cur", b"z")), size=1000)
    del sent[5]  # handshake, two segments, and then this one
    source = list(batches(sent))
    found = rows(source, Cursus())
    assert found == expected(source, Cursus(), said)
    assert column(found, "body") == [*bodies[:5], b"z"]


@pytest.mark.parametrize(("partition", "wanted"), [("7", 7), ("-1", None), ("9999999999", None)])
def test_partitions_as_text(partition: str, wanted: int | None) -> None:
    layer = batch_layer("seed", False)
    element = layer.fields_desc[-1].element.layer
    data = bytes(layer(topic="t", partition=partition, messages=[element(data=b"a")]))
    assert column(texts((C, data)), "partition") == [wanted]


# Text.


def test_publishing_commands() -> None:
    found = talk(
        (C, cmd("PUBLISH topic=t partition=2 key=k producerId=p seqNum=18446744073709551615 message=a  b=c")),
        (C, cmd("TXN_PUBLISH transactional_id=x topic=out seqNum=1 message=two")),
        (C, cmd("APPEND_STREAM topic=s key=order-1 version=1 message={}")),
        (C, framed(gzip.compress(b"\0\0PUBLISH topic=t message=packed"))),
        (C, cmd("PUBLISH topic=t")),
    )
    assert [row[2:] for row in found] == [
        ("t", 2, b"k", None, END, None, None, b"a  b=c"),
        ("out", None, None, None, 1, None, None, b"two"),
        ("s", None, b"order-1", None, None, None, None, b"{}"),
        ("t", None, None, None, None, None, "gzip", b"packed"),
    ]


@pytest.mark.parametrize("number", ["-1", "abc", "18446744073709551616"])
def test_partitions_and_numbers_that_are_not_numeric(number: str) -> None:
    row = texts((C, cmd(f"TXN_PUBLISH topic=out partition={number} seqNum={number} message=a")))[0]
    assert (row.partition, row.sequence) == (None, None)


def test_bytes_that_are_not_utf8_stay_bytes() -> None:
    assert texts((C, framed(b"\0\0PUBLISH topic=t message=a\xff\0b")))[0].body == b"a\xff\0b"


def test_a_token_after_message_is_hidden() -> None:
    assert texts((C, cmd("PUBLISH topic=t message=x auth_token=s3 y")))[0].body == b"x auth_token=<redacted 2 bytes> y"


def test_publishing_and_consuming_in_2025() -> None:
    found = texts(
        (C, framed(b"\0\5adminPUBLISH orders hello there")),
        (C, framed(b"\0\5adminPUBLISH_IDEMPOTENT orders p1 7 0 once")),
        (C, framed(b"\0\6ordersPUBLISH:1:other:a:b")),
        (C, framed(b"\0\6ordersIDEMPOTENT:1:p1:8:0:c")),
        (C, framed(b"\0\6ordersbare")),
    )
    assert [(row.topic, row.sequence, row.body) for row in found] == [
        ("orders", None, b"hello there"),
        ("orders", 7, b"once"),
        ("other", None, b"a:b"),
        ("orders", 8, b"c"),
        ("orders", None, b"bare"),
    ]
    consume = framed(b"\0\6ordersCONSUME orders 1 0 g")
    delivered = texts((C, consume), (S, framed("hello")), (S, framed("world")))
    assert [row[1:4] + row[-1:] for row in delivered] == [
        ("deliver", "orders", 1, b"hello"),
        ("deliver", "orders", 1, b"world"),
    ]


def test_texts_without_messages() -> None:
    assert texts((C, cmd("LIST x=1")), (C, cmd("CREATE topic=t")), (C, framed(b"\0\5adminDELATE topic=t"))) == []
    assert texts((C, cmd("LIST")), (S, framed("a, b")), (C, cmd("HELP")), (S, framed("OK messages=3"))) == []
