"""Every test vector of Cursus: read by every reader, built to its bytes, and shown."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import in_one_test
from tests.protocols.cursus_commands import command, positional
from tests.support import STYLE, build
from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import BYTES
from wiredecode.net.types import Connection
from wiredecode.protocols.cursus import conversation_bodies
from wiredecode.protocols.cursus.layers import (
    TEXT_LAYERS,
    Argument,
    Command,
    Detail,
    DiscoveryCommand,
    Empty,
    Failure,
    JsonReply,
    ReplyField,
    Success,
    TextReply,
)
from wiredecode.protocols.cursus.layers_batch import LABELS, Batch, SeedBatch, batch_layer, choose
from wiredecode.testing import readers_agree

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cursus_vectors.json").read_text("utf-8"))
BY_NAME = {vector["name"]: vector for vector in VECTORS}
AS_TEXT = Style(show=BYTES["text"])
LAYERS = [*TEXT_LAYERS, *(batch_layer(dialect, guarded) for dialect in LABELS for guarded in (False, True))]
SECRETS = (b"cluster-s3cret", b"=secret", b'"secret"')

each_vector = in_one_test("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])


def frame_of(raw: bytes, sender: str | None) -> Frame:
    connection: Connection = None  # type: ignore[assignment]
    return Frame(connection, 0, raw, 0, len(raw), 0, len(raw), 0, [1], 1, 0, 0, sender=sender)


def read(raw: bytes, sender: str | None, style: Style | None = STYLE, forced: str | None = None) -> Frame:
    frame = frame_of(raw, sender)
    conversation_bodies.read(frame, style, forced, None)
    return frame


def raw_of(name: str) -> bytes:
    return bytes.fromhex(BY_NAME[name]["hex"])


def layers_of(frame: Frame) -> Iterator[tuple[type[Layer], bytes]]:
    assert frame.layer is not None
    yield frame.layer, frame.data
    for inner in frame.inner:
        yield inner.layer, inner.data


def test_the_table_is_complete() -> None:
    assert [vector["name"] for vector in VECTORS] == [f"V{n:02d}" for n in range(1, 71)]


@each_vector
def test_vectors_decode_to_their_values(vector: dict[str, Any]) -> None:
    frame = read(bytes.fromhex(vector["hex"]), vector["sender"], AS_TEXT)
    assert (frame.type, frame.dialect, frame.status) == (vector["type"], vector["dialect"], "ok")
    assert [finding.code for finding in frame.findings] == vector["findings"]
    assert frame.layers is not None
    if "cursus_compressed" in frame.layers:
        del frame.layers["cursus_compressed"]["data"]
    assert frame.layers == vector["layers"]


@each_vector
def test_building_from_the_values_gives_the_bytes(vector: dict[str, Any]) -> None:
    for layer, raw in layers_of(read(bytes.fromhex(vector["hex"]), vector["sender"])):
        assert bytes(build(layer, compiler.careful(layer, raw, 0, len(raw)).values)) == raw


@each_vector
def test_values_do_not_depend_on_the_direction(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    known, unknown = read(raw, vector["sender"]), read(raw, None)
    assert (unknown.type, unknown.layers) == (known.type, known.layers)


@each_vector
def test_no_secret_in_any_record(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    shown = orjson.dumps(read(raw, vector["sender"], AS_TEXT).layers)
    assert not any(secret in shown for secret in SECRETS)
    if any(secret in raw for secret in SECRETS):
        asked = orjson.dumps(read(raw, vector["sender"], Style(show=BYTES["text"], secrets=True)).layers)
        assert b"secret" in asked or b"cluster-s3cret" in asked
        assert b"redacted" in shown


def hidden_ranges(layer: Layer) -> Iterator[tuple[int, int]]:
    for kind in layer.fields_desc:
        value = layer.fields.get(kind.name)
        inner = getattr(kind, "kind", kind)
        if inner.secret and value is not None:
            yield layer.ranges[kind.name]
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, Layer):
                yield from hidden_ranges(element)


@pytest.mark.parametrize("name", ["V08", "V10", "V15", "V60", "V61", "V65"])
def test_secret_bytes_lie_in_secret_fields(name: str) -> None:
    raw = raw_of(name)
    layer = read(raw, BY_NAME[name]["sender"]).layer
    assert layer is not None
    rest = bytearray(raw)
    for start, stop in hidden_ranges(layer(raw)):
        rest[start:stop] = b"*" * (stop - start)
    assert b"s3cret" not in rest
    assert b"secret" not in rest


MESSAGE = Batch.fields_desc[-1].element.layer
BUILT = {
    "V01": command("PROTOCOL_INFO"),
    "V02": command("LIST", envelope=None),
    "V03": command("CREATE", envelope="admin", topic="orders", partitions=4, idempotent="false"),
    "V12": command(
        "PUBLISH", "hello world with spaces and key=val inside", topic="t1", acks=1, producerId="p1", key="v1"
    ),
    "V15": command("AUTH", principal="alice", token="secret"),
    "V18": Batch(topic="t"),
    "V25": Batch(
        topic="orders",
        seq_start=3,
        seq_end=1,
        messages=[
            MESSAGE(offset=40, seq=3, producer_id="pa", epoch=7, data=b"a"),
            MESSAGE(offset=41, seq=1, producer_id="pb", epoch=2, data=b"b"),
        ],
    ),
    "V29": SeedBatch(topic="orders", partition="3"),
    "V43": Success(
        reply_fields=[
            ReplyField(gap=" ", key="count", equals="=", value="1"),
            ReplyField(gap=" ", key="topics", equals="=", value="__consumer_offsets"),
        ]
    ),
    "V49": Failure(
        gap=" ",
        error_code="NOT_LEADER",
        details=[Detail(gap=" ", value="LEADER_IS"), Detail(gap=" ", value="10.9.0.1:9000")],
    ),
    "V54": JsonReply(json_text='{"error":"topic_not_found topic=nope","status":"ERROR"}'),
    "V58": Empty(),
    "V61": DiscoveryCommand(
        auth="AUTH ",
        token=b"cluster-s3cret",
        gap=" ",
        command_name="HEARTBEAT_CLUSTER",
        json_gap=" ",
        json_text='{"node_id":"10.9.0.1-9000"}',
    ),
    "V66": positional("CREATE", "orders", 12),
    "V69": positional("COMMIT", "orders", "workers", 0, 3),
    "V70": TextReply(text="REBALANCE_REQUIRED"),
}


@pytest.mark.parametrize("name", BUILT)
def test_crafting_gives_the_vector(name: str) -> None:
    assert bytes(BUILT[name]) == raw_of(name)


def test_crafting_an_offset_list() -> None:
    parameters = command("BATCH_COMMIT", None, None, topic="t", group="g", member="m1", generation=1).arguments
    crafted = Command(command_name="BATCH_COMMIT", arguments=[*parameters, Argument(gap=" ", value="P0:100,P1:200")])
    assert bytes(crafted) == raw_of("V07")


def mutated(raw: bytes, chance: random.Random) -> bytes:
    body = bytearray(raw[4:])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(body) + 1)
        what = chance.randrange(3)
        if what == 0 and place < len(body):
            body[place] = chance.choice(b' =\t\n"\\\x00\xff\x80token')
        elif what == 1:
            del body[place : place + chance.randint(1, 5)]
        else:
            body[place:place] = chance.choice([b"token=", b"message=", b" ", b"=", b'"', b"\xc3", b"payload=", b"["])
    return len(body).to_bytes(4, "big") + body


def test_all_readers_agree_on_mutated_vectors() -> None:
    chance = random.Random(17)
    for _ in range(6):
        for vector in VECTORS:
            raw = mutated(bytes.fromhex(vector["hex"]), chance)
            frame = read(raw, chance.choice(["client", "server", None]))
            orjson.dumps(frame.layers)
            for layer, data in layers_of(frame):
                readers_agree(layer, data)
            readers_agree(chance.choice(LAYERS), raw)


def random_batch(dialect: str, chance: random.Random) -> bytes:
    layer = batch_layer(dialect, False)
    element = layer.fields_desc[-1].element.layer

    def text(most: int) -> str:
        return "".join(chance.choice("abc-0é") for _ in range(chance.randrange(most)))

    def fields(kinds: list[Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for kind in kinds:
            if kind.column == "string":
                made[kind.name] = text(9)
            elif kind.column == "binary":
                made[kind.name] = chance.randbytes(chance.randrange(60))
            elif kind.name in ("offset", "seq", "epoch", "schema_version", "aggregate_version", "seq_start", "seq_end"):
                made[kind.name] = chance.randrange(1 << 31)
        return made

    values = fields(layer.fields_desc)
    values["partition"] = chance.choice([chance.randrange(10), chance.randrange(65536)])
    if dialect == "seed":
        values["partition"] = str(values["partition"])
    if "acks" in values:
        values["acks"] = chance.choice(["0", "1", "-1", "all"])
    if dialect in ("cur", "seed", "noes"):
        values["idempotent"] = chance.randrange(2)
    values["messages"] = [element(**fields(element.fields_desc)) for _ in range(chance.randrange(1, 8))]
    return bytes(layer(**values))


@pytest.mark.parametrize("dialect", LABELS)
def test_batch_layout_is_recognised_from_its_bytes(dialect: str) -> None:
    chance = random.Random(23)
    for _ in range(40):
        raw = random_batch(dialect, chance)
        assert choose(raw, 0, len(raw))[0] == dialect, raw.hex()
