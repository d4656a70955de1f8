"""Every test vector: read by every reader, built to its bytes, and through the whole stack."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.net.craft import batches
from tests.protocols.rabbitmq_vectors import BY_NAME, MESSAGE_SECTIONS, MESSAGES, VECTORS, Vector
from tests.support import STYLE, Part, Run, at, build, craft, dissect, every
from wiredecode.fields import compiler
from wiredecode.frames.frame import Frame
from wiredecode.protocols.rabbitmq_stream import layers as rs
from wiredecode.protocols.rabbitmq_stream.layers_chunk import Chunk, ChunkEntry, SubBatch

each_vector = in_one_test("vector", VECTORS, ids=[vector.name for vector in VECTORS])
WELL_FORMED = [vector for vector in VECTORS if vector.problem is None]


def test_the_table_is_complete() -> None:
    assert [vector.name for vector in VECTORS] == [f"V{n:02d}" for n in range(1, 73)]
    assert sorted(MESSAGES) == sorted(MESSAGE_SECTIONS) == [f"M{n:02d}" for n in range(1, 21)]


@each_vector
def test_scapy_reads_the_values(vector: Vector) -> None:
    packet = vector.layer(vector.raw)
    assert packet.values() == vector.all_values
    assert (packet.problem and packet.problem.field) == vector.problem
    if vector.problem is None:
        assert packet.stop == len(vector.raw) - vector.surplus


@each_vector
def test_the_careful_decoder_reads_the_values(vector: Vector) -> None:
    surrounded = b"before" + vector.raw + b"after"
    decoded = compiler.careful(vector.layer, surrounded, 6, 6 + len(vector.raw))
    assert decoded.values == vector.all_values
    assert (decoded.problem and decoded.problem.field) == vector.problem
    if vector.problem is None:
        assert decoded.stop == len(vector.raw) - vector.surplus
        ends = [end for path, (_, end) in decoded.ranges.items() if "." not in path]
        assert ends == sorted(ends), "fields lie one after another"
        assert ends[-1] == decoded.stop


@each_vector
def test_the_record_shows_the_values(vector: Vector) -> None:
    if vector.problem is not None:
        with pytest.raises(compiler.FAILED):
            compiler.record(vector.layer, vector.raw, 0, len(vector.raw), STYLE)
        return
    record, stop = compiler.record(vector.layer, vector.raw, 0, len(vector.raw), STYLE)
    assert stop == len(vector.raw) - vector.surplus
    for path, expected in vector.record.items():
        assert at(record, path) == expected, path
    named = {path.split(".")[0] for path in vector.record}
    for name, value in vector.all_values.items():
        if isinstance(value, int | str) and name not in named and f"{name}_code" not in record:
            assert record[name] == value
    assert record["key_code"] == vector.all_values["key"]


@in_one_test("vector", WELL_FORMED, ids=[vector.name for vector in WELL_FORMED])
def test_building_from_the_values_gives_the_bytes(vector: Vector) -> None:
    values = vector.values | ({} if vector.key is None else {"key": vector.key})
    if vector.surplus:
        values["size"] = len(vector.raw) - 4
    assert bytes(build(vector.layer, values)) == vector.raw[: len(vector.raw) - vector.surplus]


@pytest.mark.parametrize("name", ["V37", "V38", "V39", "V40", "V41"])
def test_counts_lengths_and_crc_of_a_chunk_are_filled_in(name: str) -> None:
    vector = BY_NAME[name]
    values = {key: value for key, value in vector.values.items() if key != "chunk"}
    left_open = ("crc", "data_length", "num_entries", "num_records")
    chunk = {key: value for key, value in vector.values["chunk"].items() if key not in left_open}
    assert bytes(build(vector.layer, values | {"chunk": chunk})) == vector.raw


# Through the whole stack: on a known port, so that one frame of one side is enough.


def run(vector: Vector, pieces: list[bytes]) -> Run:
    side = 0 if vector.sender == "client" else 1
    if vector.problem is not None:  # a malformed frame alone does not identify the protocol
        pieces = [BY_NAME["V53"].raw, *pieces]
    made = dissect(batches(craft([Part(1, side, piece) for piece in pieces], every(1460))))
    if vector.problem is not None:
        assert made.frames.pop(0).type == "Heartbeat"
        made.totals.framed -= len(pieces[0])
        made.totals.captured -= len(pieces[0])
    return made


def check(frame: Frame, vector: Vector) -> None:
    assert frame.layer is vector.layer
    assert frame.sender == vector.sender
    assert frame.data == vector.raw
    assert compiler.careful(vector.layer, frame.buffer, frame.start, frame.stop).values == vector.all_values
    assert frame.status == ("ok" if vector.problem is None else "malformed")
    assert frame.layers is not None
    record = frame.layers["rabbitmq_stream"]
    for path, expected in vector.record.items():
        assert at(record, path) == expected
    surplus = [finding for finding in frame.findings if finding.code == "surplus-bytes"]
    assert bool(surplus) == bool(vector.surplus)
    if vector.problem is not None:
        assert [(f.severity, f.field) for f in frame.findings if f.code == "field-cut"] == [("error", vector.problem)]


FEEDINGS = {
    "whole": lambda raw: [raw],
    "byte_by_byte": lambda raw: [raw[i : i + 1] for i in range(len(raw))],
    "with_the_next_frame_begun": lambda raw: [raw + raw[:7], raw[7:]],
    "twice_in_one_segment": lambda raw: [raw + raw],
}


@each_vector
def test_through_the_whole_stack(vector: Vector) -> None:
    for feeding, cut in FEEDINGS.items():
        made = run(vector, cut(vector.raw))
        count = 1 if feeding in ("whole", "byte_by_byte") else 2
        assert [frame.length for frame in made.frames] == [len(vector.raw)] * count, feeding
        for frame in made.frames:
            check(frame, vector)
        assert made.totals.closes, feeding
        assert (made.totals.framed, made.totals.undecoded) == (count * len(vector.raw), 0), feeding


@in_one_test("name", [vector.name for vector in VECTORS if len(vector.raw) > 9])
def test_a_frame_truncated_by_the_end_of_the_capture_is_partial(name: str) -> None:
    vector = BY_NAME[name]
    made = run(vector, [vector.raw[:-1]])
    assert [frame.status for frame in made.frames] == ["partial"]
    assert made.frames[0].missing == 1


def published(body: bytes) -> bytes:
    message = rs.PublishedMessage(publishing_id=1, data=body)
    return bytes(rs.Publish(publisher_id=1, messages=[message]))


def published_in_a_batch(body: bytes) -> bytes:
    data = struct.pack(">I", len(body)) + body
    batch = SubBatch(codec=0x80, record_count=1, uncompressed_length=len(data), data=data)
    return bytes(rs.Publish(publisher_id=1, messages=[rs.PublishedMessage(publishing_id=1, sub_batch=batch)]))


def delivered(body: bytes) -> bytes:
    chunk = Chunk(chunk_id=41, entries=[ChunkEntry(data=body)])
    assert zlib.crc32(bytes(chunk)[48:]) == int.from_bytes(bytes(chunk)[36 - 4 : 36], "big")
    return bytes(rs.Deliver(subscription_id=1, chunk=chunk))


CARRIERS: dict[str, tuple[Any, int, str]] = {
    "publish": (published, 0, "messages.0"),
    "sub_batch": (published_in_a_batch, 0, "messages.0.sub_batch.messages.0"),
    "deliver": (delivered, 1, "chunk.entries.0"),
}


@pytest.mark.parametrize("carrier", CARRIERS)
@in_one_test("name", sorted(MESSAGES))
def test_message_vectors_inside_frames(name: str, carrier: str) -> None:
    wrap, side, path = CARRIERS[carrier]
    made = dissect(batches(craft([Part(1, side, wrap(MESSAGES[name]))], every(1460))))
    assert [frame.status for frame in made.frames] == ["ok"]
    layers = made.frames[0].layers
    assert layers is not None
    message = at(layers["rabbitmq_stream"], path)
    assert message["data"] == MESSAGES[name].hex()
    assert message["amqp"] == MESSAGE_SECTIONS[name]
    if carrier == "deliver":
        assert message["offset"] == 41
