"""Columns hold what the row decoder's records hold, for every frame that they call plain; whole frames are plain."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa
import pytest

from tests.protocols import nats_vectors, rabbitmq_vectors, tank_vectors, test_cursus_vectors, test_pravega_vectors
from tests.protocols.test_rabbitmq_parity import MUTATIONS
from tests.protocols.test_tank_vectors import layer_of as tank_layer
from tests.support import RABBITMQ, capture
from wiredecode.fields import (
    Array,
    Binary,
    Boolean,
    Flags,
    Kind,
    Optional,
    Struct,
    Text,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Uuid,
    When,
    compiler,
)
from wiredecode.fields.columns import steps as columns_steps
from wiredecode.fields.columns.reader import Columns, covered, reader
from wiredecode.fields.columns.rows import Rows, Source
from wiredecode.fields.columns.steps import FIXED, NO_NULL, SIGNED, SIZED, UNLESS
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.textfields import Token
from wiredecode.fields.textlines import TextLayer
from wiredecode.protocols.cursus.kinds import DecimalText
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Publish, PublishConfirm, StoreOffset, Tune
from wiredecode.protocols.registry import protocols
from wiredecode.tables import schema

Cases = dict[type[Layer], list[bytes]]
STYLE = Style()
USUAL_LINE = re.compile(rb"[A-Z+-]+(?:[ \t]+[^ \t\r\n\v\f]+)*\r\n")
"""A line of tokens without surprises."""
CAPTURES = Path(RABBITMQ).parent
SHARES = {"rabbitmq_stream": (61, 61), "pravega": (126, 126), "tank": (21, 22), "cursus": (10, 21), "nats": (31, 74)}
"""Layers that are read as columns, of how many."""


@cache
def vectors() -> Cases:
    """The frames of all tables of vectors, by layer."""
    found: Cases = defaultdict(list)
    for vector in rabbitmq_vectors.VECTORS:
        found[vector.layer].append(vector.raw)
    for operation in nats_vectors.VECTORS:
        found[operation.layer].append(operation.raw)
    for one in tank_vectors.VECTORS:
        found[tank_layer(one)].append(one.data)
    for table in test_pravega_vectors.MESSAGES:
        raw = bytes.fromhex(table["hex"])
        found[test_pravega_vectors.layer_of(raw)].append(raw)
    for table in test_cursus_vectors.VECTORS:
        layer = test_cursus_vectors.read(bytes.fromhex(table["hex"]), table["sender"]).layer
        if layer is not None:
            found[layer].append(bytes.fromhex(table["hex"]))
    return found


def captured(*names: str) -> Cases:
    """The whole frames of captures, one of each size and layer."""
    found: Cases = defaultdict(list)
    seen = set()
    for name in names:
        for frame in capture(CAPTURES / name).whole:
            if frame.layer is not None and (frame.layer, frame.length) not in seen:
                seen.add((frame.layer, frame.length))
                found[frame.layer].append(frame.data)
    return found


def read(layer: type[Layer], frames: Iterable[bytes], style: Style = STYLE, raw: bool = False) -> Columns | None:
    """The frames as columns, with some bytes between them."""
    found = reader(layer, style, raw)
    if found is None:
        return None
    buffer, starts, stops = b"", [], []
    for index, frame in enumerate(frames):
        buffer += b"\xff" * (index % 3)
        starts.append(len(buffer))
        buffer += frame
        stops.append(len(buffer))
    columns = found.read(buffer, np.array(starts, np.int64), np.array(stops, np.int64))
    assert len(columns.plain) == len(starts)
    for array in columns.fields.values():
        array.validate(full=True)
    return columns


def row_decoded(layer: type[Layer], frame: bytes, style: Style = STYLE) -> dict[str, Any] | None:
    """The record of a frame that ends where its last field ends; None: it is not such a frame."""
    try:
        record, stop = compiler.record(layer, frame, 0, len(frame), style)
    except compiler.FAILED:
        return None
    return record if stop == len(frame) else None


def same(column: Any, value: Any, code: bool = False) -> bool:
    """Whether a value of a column is what a record shows; ``code``: it is the name of an enumeration."""
    if isinstance(column, dict):
        if not isinstance(value, dict) or not {name for name in value if value[name] is not None} <= set(column):
            return False
        return all(same(column[name], value.get(name), f"{name}_code" in column) for name in column)
    if isinstance(column, list):
        return isinstance(value, list) and len(column) == len(value) and all(map(same, column, value))
    if isinstance(column, datetime):
        return bool(f"{column:%Y-%m-%dT%H:%M:%S}.{column.microsecond // 1000:03d}Z" == value)
    if isinstance(value, dict):
        return isinstance(column, str) and orjson.loads(column) == value
    if code and isinstance(value, int):
        return bool(column == str(value))
    return isinstance(column, bool) == isinstance(value, bool) and bool(column == value)


def agree(layer: type[Layer], frames: list[bytes], style: Style = STYLE) -> list[bool]:
    """Hold columns against records; which frames are plain."""
    columns = read(layer, frames, style)
    if columns is None:
        return []
    rows = columns.struct().to_pylist()
    for frame, row, plain in zip(frames, rows, columns.plain.tolist(), strict=True):
        if plain:
            record = row_decoded(layer, frame, style)
            assert record is not None, (layer, frame.hex())
            assert same(row, record), (layer, frame.hex(), row, record)
            order = [name for name in columns.fields if name in record]
            assert order == [name for name in record if name in columns.fields]
    return list(columns.plain.tolist())


def surprising(layer: type[Layer], frame: bytes, record: dict[str, Any]) -> bool:
    """What is well-formed and yet not plain: the few values that are left to the row decoder."""
    shown = orjson.dumps(record).decode()
    if record.get("seq_end", 0) >= 1 << 63:
        return True
    if issubclass(layer, TextLayer) and (not USUAL_LINE.match(frame) or "junk" in record or "queues" in record):
        return True
    if layer.filter_name == "pravega" and (not shown.isascii() or "\\" in shown):
        return True
    words = "sub_batch", "first_sequence_number", "partial_bundle", "extra", "stray"
    return any(f'"{word}"' in shown for word in words)


def test_on_every_vector() -> None:
    """Whole frames are plain; what is not, ends early or late, or is one of a few surprising ones."""
    plain_ones = 0
    for layer, frames in vectors().items():
        for frame, plain in zip(frames, agree(layer, frames), strict=False):
            record = row_decoded(layer, frame)
            assert plain == (record is not None and not surprising(layer, frame, record)), (layer, frame.hex())
            plain_ones += plain
    assert plain_ones > 300


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_on_mutations(mutate: Any) -> None:
    """Cut, flipped, with wrong lengths, with more bytes: what is still called plain has the row decoder's values."""
    chance, plain, damaged = random.Random(mutate.__name__), 0, 0
    for layer, frames in vectors().items():
        if reader(layer, STYLE, False) is not None:
            made = [mutate(frame, chance) for frame in frames if len(frame) > 5 for _ in range(6)]
            found = agree(layer, made)
            plain, damaged = plain + sum(found), damaged + len(found) - sum(found)
    assert damaged > 100
    assert plain > (100 if mutate.__name__ == "bit_flips" else 0)


def test_any_bytes_as_any_layer() -> None:
    chance = random.Random(5)
    for layer in vectors():
        agree(layer, [chance.randbytes(size) for size in (0, 1, 7, 8, 20, 60, 200)] + [bytes(30), b"\xff" * 30])


def test_every_prefix_is_not_plain() -> None:
    """The bytes of the next frame are right behind it in the buffer."""
    for layer, frames in list(vectors().items())[::4]:
        columns = reader(layer, STYLE)
        if columns is not None:
            frame = max(frames, key=len)[:200]
            stops = np.arange(len(frame))
            agree(layer, [frame[:stop] for stop in stops])
            found = columns.read(frame * 2, np.zeros(len(stops), np.int64), stops)
            whole = [row_decoded(layer, frame[:stop]) is not None for stop in stops]
            assert not (found.plain & ~np.array(whole, np.bool_)).any()


def test_on_captured_frames() -> None:
    tank = "tank/tank_05_keys_timestamps.pcap", "tank/tank_08_consume_positions.pcap"
    cases = captured("rabbitmq-stream/c43_filter.pcap", *tank)
    found = {layer.__name__: sum(agree(layer, frames)) for layer, frames in cases.items()}
    assert {name for name in found if found[name]} >= {"PublishV2", "Deliver", "Produce", "Consume", "ConsumeResponse"}


def test_secrets_are_hidden_unless_asked_for() -> None:
    layer = LAYERS[19, 1]
    frames = vectors()[layer]
    hidden, shown = read(layer, frames), read(layer, frames, Style(bytes.hex, secrets=True))
    assert hidden is not None and shown is not None
    assert "<redacted 12 bytes>" in hidden.fields["data"].to_pylist()
    assert b"\0guest\0guest".hex() in shown.fields["data"].to_pylist()
    assert all(agree(layer, frames, Style(lambda data: data.decode("latin-1"), secrets=True)))


@pytest.mark.parametrize("kind", [UInt8, Boolean, Flags, Uuid, Timestamp, Token, DecimalText])
def test_a_secret_of_a_kind_that_hides_nothing_has_no_column(kind: type[Kind]) -> None:
    secret: Kind = kind("value", secret=True)
    layer = type("Secret", (Layer,), {"fields_desc": [secret], "__module__": __name__})
    assert reader(layer, STYLE) is None


def test_bytes_stay_bytes_or_are_shown_in_the_style() -> None:
    frames = vectors()[Publish]
    raw, text = read(Publish, frames, raw=True), read(Publish, frames, Style(lambda data: f"{len(data)} bytes"))
    assert raw is not None and text is not None
    for kept, shown in zip(raw.struct().to_pylist(), text.struct().to_pylist(), strict=True):
        for one, two in zip(kept["messages"], shown["messages"], strict=True):
            assert f"{len(one['data'])} bytes" == two["data"]


def test_what_an_array_counts_is_made_only_when_it_can_be_there() -> None:
    for layer, head in ((PublishConfirm, "00030001 00"), (Publish, "00020001 00")):
        frame = bytes.fromhex("000000ff" + head + "ffffffff") + bytes(40)
        assert agree(layer, [frame, *vectors()[layer]])[0] is False


def test_frames_may_come_in_any_order_and_overlap() -> None:
    frame = vectors()[StoreOffset][0]
    buffer, size = frame * 4, len(frame)
    starts = np.array([2, 0, 3, 0], np.int64) * size
    found = reader(StoreOffset, STYLE)
    assert found is not None
    columns = found.read(buffer, starts, starts + size)
    assert columns.plain.all()
    assert columns.fields["stream"].to_pylist() == 4 * [row_decoded(StoreOffset, frame)["stream"]]  # type: ignore[index]
    outside = found.read(buffer, np.array([-1, 0, 3 * size + 1, size]), np.array([size, size, 5 * size, 0]))
    assert outside.plain.tolist() == [False, True, False, False]


def test_no_frames_and_no_bytes() -> None:
    nothing = np.empty(0, np.int64)
    for layer in vectors():
        found = reader(layer, STYLE)
        if found is not None:
            assert len(found.read(b"", nothing, nothing).plain) == 0
            assert found.read(b"", np.zeros(1, np.int64), np.zeros(1, np.int64)).plain.tolist() == [
                row_decoded(layer, b"") is not None
            ]


def test_a_kind_that_shows_its_value_otherwise_has_no_column() -> None:
    class Doubled(UInt8):
        def present(self, value: int, show: Any) -> int:
            return 2 * value

    class Odd(Layer):
        fields_desc: ClassVar[list[Kind]] = [UInt8("a"), Doubled("b")]

    assert reader(Odd, STYLE) is None


# Declarations that no protocol has in this form.


class Note(Layer):
    fields_desc: ClassVar[list[Kind]] = [
        UInt8("kind", names={0: "bare", 1: "noted"}),
        Optional(Text("note", length=UInt8), When("kind == 1")),
    ]


class Middle(Layer):
    fields_desc: ClassVar[list[Kind]] = [
        Struct("inner", Note),
        Binary("blob", length=UInt16, null=0xFFFF),
        Array("more", Note, count=UInt8),
    ]


class Outer(Layer):
    filter_name: ClassVar[str] = "outer"
    fields_desc: ClassVar[list[Kind]] = [
        UInt16("size", little=True),
        Array("middles", Middle, count=None, size="size"),
        UInt32("last", little=True),
        Array("numbers", UInt64("numbers"), count="last"),
    ]


def outer(chance: random.Random) -> bytes:
    def note() -> Layer:
        kind = chance.choice([0, 1, 1, 7])
        return Note(kind=kind, note="é" * chance.randrange(3)) if kind == 1 else Note(kind=kind)

    def middle() -> Layer:
        blob = chance.choice([None, b"", chance.randbytes(3)])
        return Middle(inner=note(), blob=blob, more=[note() for _ in range(chance.randrange(4))])

    middles = [middle() for _ in range(chance.randrange(5))]
    numbers = [chance.getrandbits(64) for _ in range(chance.randrange(4))]
    return bytes(Outer(size=sum(map(len, map(bytes, middles))), middles=middles, last=len(numbers), numbers=numbers))


def test_arrays_within_arrays_and_optional_fields_in_them() -> None:
    chance = random.Random(1)
    frames = [outer(chance) for _ in range(200)]
    assert all(agree(Outer, frames))
    for mutate in MUTATIONS:
        agree(Outer, [mutate(frame, chance) for frame in frames])


# Where elements start.

PROGRAMS = [
    [(FIXED, 3, 0, 0)],
    [(FIXED, 2, 0, 0), (SIZED, 1, 0, NO_NULL)],
    [(UNLESS, 0x80, 0x80, 0), (SIZED, 2, columns_steps.LITTLE, 0xFFFF), (FIXED, 1, 0, 0)],
    [(SIZED, 1, SIGNED, -1), (SIZED, 1, SIGNED, NO_NULL)],
]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("counted", [True, False])
def test_all_ways_of_stepping_over_elements_agree(program: list[columns_steps.Step], counted: bool) -> None:
    chance, results = np.random.default_rng(3), []
    buffer = chance.choice(np.array([0] * 12 + [1, 2, 3, 9], np.uint8), 4000).tobytes() + b"\x80\xff\xff\xff" * 100
    starts = np.arange(0, 4200, 21)
    counts = chance.integers(0, 5, len(starts)) if counted else np.full(len(starts), -1)
    for known in (program, None):
        rows = Rows.of(Source(buffer), starts, starts + 21)
        found, made = columns_steps.element_starts(rows, counts.copy(), 1, known, lambda some: follow(program, some))
        results.append((found.tolist(), made.tolist(), rows.p.tolist(), rows.good.tolist()))
    assert results[0] == results[1]
    assert sum(results[0][3]) > 10 and len(results[0][0]) > 20


def follow(program: list[columns_steps.Step], rows: Rows) -> None:
    """Step over one element in all rows, by numpy."""
    for operation, a, b, c in program:
        if operation == FIXED:
            rows.advance(a)
        elif operation == UNLESS:
            there = rows.p < rows.e
            octets = rows.source.gather("u1", np.where(there, rows.p, 0))
            rows.require(~there | (octets & a != b))
        else:
            order, sign = "<" if b & columns_steps.LITTLE else ">", "i" if b & SIGNED else "u"
            sizes = rows.number(f"{order}{sign}{a}").astype(np.int64)
            rows.require((sizes >= 0) | (sizes == c))
            rows.advance(np.where(sizes == c, 0, sizes))


# What else must agree.


def fits(column: pa.DataType, table: pa.DataType) -> bool:
    """Whether a column can be cast to the type of the table's."""
    if pa.types.is_struct(column):
        return pa.types.is_struct(table) and all(
            table.get_field_index(field.name) >= 0 and fits(field.type, table.field(field.name).type)
            for field in column
        )
    if pa.types.is_list(column):
        return pa.types.is_list(table) and fits(column.value_type, table.value_type)
    return bool(column == table)


def test_types_are_those_of_the_schema() -> None:
    generated = {"amqp"}
    hinted = {"seq_end", "partition"}
    for layer in vectors():
        columns = read(layer, vectors()[layer][:1], raw=True)
        if columns is not None:
            table = schema.arrow_type(layer)
            for name, array in columns.fields.items():
                if name not in generated | hinted | {"messages", "chunk"}:
                    assert fits(array.type, table.field(name).type), (layer, name)


def test_how_many_layers_are_covered() -> None:
    found = {}
    for protocol in (p for p in protocols() if p.name in SHARES):  # others may be installed
        read, left = covered(protocol.layers())
        found[protocol.name] = len(read), len(read) + len(left)
    assert found == SHARES
    assert reader(Tune, STYLE) is reader(Tune, STYLE)
