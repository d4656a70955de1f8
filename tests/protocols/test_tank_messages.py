"""TANK's messages as rows: equal to records; bundles truncated, damaged, compressed, sparse or empty."""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cramjam
import orjson
import pytest

from tests.net.craft import batches
from tests.protocols import truth_tank
from tests.protocols.message_rows import Row, agree, by_ports, column, expected, mutated, nanoseconds, rows
from tests.protocols.test_tank_captures import DERIVED, ORIGINALS, by_name, truth_of
from tests.protocols.test_tank_surprises import END, TIME, consume, consumed, framed, message, plain, produce, sized
from tests.support import Part, craft, dissect, every
from wiredecode import budget
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.fields.numbers import shortest
from wiredecode.frames.frame import Frame
from wiredecode.frames.message import Messages
from wiredecode.protocols.tank.protocol import Tank

NS = TIME * 1_000_000
PORT = 11011
U64 = struct.Struct("<Q")


def said(frame: Frame) -> Iterator[Row]:
    """The messages of a frame from its record."""
    record = (frame.layers or {}).get("tank", {})
    if frame.type in ("Produce", "ProduceWithBaseSequenceNumber"):
        for topic in record.get("topics", ()):
            for entry in topic.get("partitions", ()):
                yield from of_bundle(frame, "publish", topic["topic"], entry.get("partition"), entry.get("bundle", {}))
    for chunk in record.get("chunks", ()) if frame.type in ("ConsumeResponse", "ConsumeAsPeerResponse") else ():
        bundles = [entry.get("bundle", {}) for entry in chunk.get("bundles", ())]
        for bundle in [*bundles, chunk.get("partial_bundle", {})]:
            yield from of_bundle(frame, "deliver", chunk.get("topic"), chunk.get("partition"), bundle)


def of_bundle(
    frame: Frame, operation: str, topic: str | None, partition: int | None, bundle: dict[str, Any]
) -> Iterator[Row]:
    codec = bundle.get("codec", "none")
    for each in bundle.get("messages", ()):
        key = bytes.fromhex(each["key"]) if "key" in each else None
        place, compression = (frame.number, operation, topic, partition), None if codec == "none" else codec
        body, time_ns = bytes.fromhex(each["body"]), nanoseconds(each["timestamp"])
        yield Row(*place, key, each.get("sequence_number"), None, time_ns, compression, body)


def talk(*turns: bytes) -> list[Row]:
    """The message rows of a conversation, client first, after asserting that they equal the records."""
    parts = [Part(1, index % 2, data) for index, data in enumerate(turns)]
    packets = craft(parts, every(1460), server_port=PORT)
    assert agree(packets, Tank, said) == len(rows(batches(packets), Tank()))
    return rows(batches(packets), Tank())


def produced(*bundles: bytes) -> list[Row]:
    return talk(produce((b"foo", [(index, each) for index, each in enumerate(bundles)])))


def fetched(*bundles: bytes, base: int = 1, lie: int = 0) -> list[Row]:
    return talk(consume({0: base}), consumed([sized(*bundles)], base=base, lie=lie))


def sparse(first: int, delta: int, *messages: bytes) -> bytes:
    return bytes([0x40 | len(messages) << 2]) + U64.pack(first) + shortest(delta) + b"".join(messages)


def snappy(*messages: bytes) -> bytes:
    return bytes([1 | len(messages) << 2]) + bytes(cramjam.snappy.compress_raw(b"".join(messages)))


def fact(row: Row) -> tuple[Any, ...]:
    """A message in the form of the truth."""
    body = row.body or b""
    milliseconds = None if row.time_ns is None else row.time_ns // 1_000_000
    return row.offset, milliseconds, (row.key or b"").hex(), len(body), hashlib.sha256(body).hexdigest()


# Damaged frames.


@pytest.mark.parametrize(
    "payload",
    [
        produce((b"f\xffo", [(0x0102, plain(message(b"body")))])),
        framed(1, produce((b"foo", [(0x0102, plain(message(b"body")))]))[5:].replace(b"\1\3foo", b"\2\3foo")),
    ],
    ids=["topic-not-utf8", "second-topic-cut"],
)
def test_messages_and_records_of_a_damaged_frame(payload: bytes) -> None:
    out = Messages()
    dissector = Dissector(Demand(style=Style(), messages=out, decode_as=by_ports(Tank())))
    (frame,) = dissector.frames(batches(craft([Part(1, 0, payload)], every(1460), server_port=PORT)))
    assert "internal" not in {finding.code for finding in frame.findings}
    assert [body for part in out.parts for body in part.bodies] == [b"body"]


# Captures.


@pytest.mark.parametrize("path", ORIGINALS + DERIVED, ids=by_name)
def test_rows_of_a_capture_equal_its_records(path: Path) -> None:
    wanted = [row for frame in truth_tank.tank(path).frames for row in said(frame)]
    assert rows(open_capture([path]), Tank()) == wanted


@pytest.mark.parametrize("path", ORIGINALS, ids=by_name)
def test_produced_messages_are_published(path: Path) -> None:
    operations = truth_of(path)["operations"]
    claimed = Counter(
        (number, time if time < (1 << 63) // 1_000_000 else None, *rest)
        for number, time, *rest in truth_tank.claimed_messages(operations)
    )
    found = rows(open_capture([path]), Tank())
    assert not claimed - Counter(fact(row) for row in found if row.operation == "publish")


@pytest.mark.parametrize("name", ["tank_05_keys_timestamps", "tank_13_produce_base_seqnum", "tank_14_mirror"])
def test_damaged_frames_give_their_whole_messages(name: str) -> None:
    run = dissect(open_capture([next(path for path in ORIGINALS if path.stem == name)]), known=(Tank(),))
    assert sum(agree(mutated(run, seed, 6, PORT), Tank, said) for seed in range(8)) > 0
    assert agree(mutated(run, 1, 0, PORT), Tank, said, snaplen=400) > 0


# Bundles.


def test_topics_partitions_keys_times_and_bodies() -> None:
    keyed = b"\1" + U64.pack(TIME + 5) + b"\3key" + b"\2ab"
    assert produced(plain(message(b"a"), keyed)) == [
        Row(1, "publish", "foo", 0, None, None, None, NS, None, b"a"),
        Row(1, "publish", "foo", 0, b"key", None, None, NS + 5_000_000, None, b"ab"),
    ]


def test_the_first_and_later_frames_give_the_same_messages() -> None:
    once = produce((b"foo", [(0, plain(message(b"a"), message(b"b")))]))
    found = talk(once + once + once)
    assert column(found, "body") == [b"a", b"b"] * 3
    assert column(found, "frame") == [1, 1, 2, 2, 3, 3]


def test_message_demand_does_not_change_counts() -> None:
    data = produce((b"foo", [(0, plain(message(b"a"), message(b"b")))])) * 2
    dissector = Dissector(Demand(messages=Messages(), link_responses=False, protocols=(Tank(),)))
    frames = list(dissector.frames(batches(craft([Part(1, 0, data)], every(1460), server_port=PORT))))
    assert [frame.values["topics"][0]["partitions"][0]["bundle"]["messages"] for frame in frames] == [2, 2]


def test_sequence_numbers_continue_over_the_bundles_of_a_chunk() -> None:
    found = fetched(plain(message(), message()), snappy(message(), message(b"c")), plain(message()), base=7)
    assert column(found, "offset") == [7, 8, 9, 10, 11]
    assert column(found, "compression") == [None, None, "snappy", "snappy", None]


def test_gaps_of_a_sparse_bundle() -> None:
    assert column(
        fetched(sparse(100, 8, message(), message(gap=2), message(flags=4), message()), plain(message())), "offset"
    ) == [100, 103, 104, 109, 110]


def test_a_message_takes_the_time_of_the_one_before_it() -> None:
    found = produced(plain(message(flags=2), message(), message(flags=2), message(time=TIME + 1)))
    assert column(found, "time_ns") == [0, NS, NS, NS + 1_000_000]


@pytest.mark.parametrize(("time", "wanted"), [(0, 0), (END, None), ((1 << 63) // 1_000_000 + 1, None)])
def test_times_that_do_not_fit_are_null(time: int, wanted: int | None) -> None:
    assert column(produced(plain(message(time=time), message())), "time_ns") == [wanted, NS]


def test_sequence_numbers_at_the_end_of_their_range() -> None:
    answer = consumed([sized(plain(message(), message(), message()))], base=END - 1)
    assert column(talk(consume({0: 1}), answer), "offset") == [END - 1, END, 0]
    packets = craft([Part(1, 0, consume({0: 1})), Part(1, 1, answer)], every(1460), server_port=PORT)
    assert orjson.dumps([frame.layers for frame in dissect(batches(packets), known=(Tank(),)).frames])
    assert column(fetched(sparse(END, 0, message(), message())), "offset") == [END, 0]


def test_an_empty_bundle_and_an_empty_body() -> None:
    assert column(produced(b"\0\0", plain(message(b""))), "body") == [b""]


def test_a_bundle_that_ends_inside_a_message() -> None:
    assert column(produced(plain(message(b"a"), message(b"b")[:-1])), "body") == [b"a"]


def test_a_chunk_that_ends_inside_a_bundle() -> None:
    cut = sized(plain(message(b"c"), message(b"d")))[:-1]
    found = talk(consume({0: 5}), consumed([sized(plain(message(b"a"), message(b"b"))) + cut], base=5))
    assert [(row.offset, row.body) for row in found] == [(5, b"a"), (6, b"b"), (7, b"c")]


def test_a_gap_in_the_middle_of_a_bundle() -> None:
    bodies = [bytes([index]) * 400 for index in range(12)]
    data = produce((b"foo", [(0, plain(*map(message, bodies)))]))
    after = produce((b"foo", [(0, plain(message(b"z")))]))
    packets = craft([Part(1, 0, data), Part(1, 0, after)], every(1000), server_port=PORT)
    del packets[5]  # handshake, two segments of 1000 bytes, and then this one
    source = list(batches(packets))
    found = rows(source, Tank())
    assert found == expected(source, Tank(), said)
    assert column(found, "body") == [*bodies[:4], b"z"]


def test_unknown_codec_and_damaged_snappy_are_counted() -> None:
    damaged = bytes([1 | 2 << 2]) + b"\xff\xff\xff\xff\xff"
    unknown, nothing = bytes([2 | 1 << 2]) + b"?" * 20, bytes([1 | 1 << 2])
    assert column(produced(unknown, damaged, nothing, plain(message(b"a"))), "partition") == [3]
    assert column(fetched(damaged, plain(message(b"a")), base=5), "offset") == [7]


def test_too_large_compressed_messages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "FRAME_BYTES", 3000)
    large = snappy(message(bytes(2000)))
    data = produce((b"foo", [(0, large), (1, large)]))
    frames = dissect(batches(craft([Part(1, 0, data)], every(1460), server_port=PORT)), known=(Tank(),)).frames
    assert [row.partition for row in said(frames[0])] == [0]
    assert column(produced(large, large), "partition") == [0]
