"""Columns hold what the row decoder's records hold, for every frame that they call plain; whole frames are plain."""

from __future__ import annotations

import random
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from tests.protocols import rabbitmq_vectors
from tests.support import RABBITMQ, STYLE, capture
from wiredecode import fields as kinds
from wiredecode.fields.columns import steps as columns_steps
from wiredecode.fields.columns.reader import reader
from wiredecode.fields.columns.rows import Rows, Source
from wiredecode.fields.columns.steps import FIXED, NO_NULL, SIGNED, SIZED, UNLESS
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.textfields import Token
from wiredecode.protocols.cursus.layers_kinds import DecimalText
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Publish, PublishConfirm, StoreOffset, Tune
from wiredecode.protocols.registry import protocols
from wiredecode.tables import schema
from wiredecode.testing.mutations import MUTATIONS
from wiredecode.testing.parity import columns_agree, read_columns, whole_record
from wiredecode.testing.samples import samples

CAPTURES = Path(RABBITMQ).parent


@cache
def vectors() -> dict[type[Layer], list[bytes]]:
    """The frames of RabbitMQ's vectors by layer, and some made from the declarations of all others."""
    found: dict[type[Layer], list[bytes]] = defaultdict(list)
    for vector in rabbitmq_vectors.VECTORS:
        found[vector.layer].append(vector.raw)
    for layer in (layer for protocol in protocols() for layer in protocol.layers()):
        if layer not in found and (frames := samples(layer)):
            found[layer] = frames
    return found


def captured(*names: str) -> dict[type[Layer], list[bytes]]:
    """The whole frames of captures, one of each size and layer."""
    found: dict[type[Layer], list[bytes]] = defaultdict(list)
    seen = set()
    for name in names:
        for frame in capture(CAPTURES / name).whole:
            if frame.layer is not None and (frame.layer, frame.length) not in seen:
                seen.add((frame.layer, frame.length))
                found[frame.layer].append(frame.data)
    return found


@pytest.mark.slow
def test_every_prefix_is_not_plain() -> None:
    """The bytes of the next frame are right behind it in the buffer."""
    for layer, frames in list(vectors().items())[::4]:
        columns = reader(layer, STYLE)
        if columns is not None:
            frame = max(frames, key=len)[:200]
            stops = np.arange(len(frame))
            found = columns.read(frame * 2, np.zeros(len(stops), np.int64), stops)
            whole = [whole_record(layer, frame[:stop]) is not None for stop in stops]
            assert not (found.plain & ~np.array(whole, np.bool_)).any()


def test_on_captured_frames() -> None:
    tank = "tank/tank_05_keys_timestamps.pcap", "tank/tank_08_consume_positions.pcap"
    cases = captured("rabbitmq-stream/c43_filter.pcap", *tank)
    found = {layer.__name__: sum(columns_agree(layer, frames)) for layer, frames in cases.items()}
    assert {name for name in found if found[name]} >= {"PublishV2", "Deliver", "Produce", "Consume", "ConsumeResponse"}


def test_secrets_are_hidden_unless_asked_for() -> None:
    layer = LAYERS[19, 1]
    frames = vectors()[layer]
    hidden, shown = read_columns(layer, frames), read_columns(layer, frames, Style(bytes.hex, secrets=True))
    assert hidden is not None and shown is not None
    assert "<redacted 12 bytes>" in hidden.fields["data"].to_pylist()
    assert b"\0guest\0guest".hex() in shown.fields["data"].to_pylist()
    assert all(columns_agree(layer, frames, Style(lambda data: data.decode("latin-1"), secrets=True)))


@pytest.mark.parametrize(
    "kind", [kinds.UInt8, kinds.Boolean, kinds.Flags, kinds.Uuid, kinds.Timestamp, Token, DecimalText]
)
def test_a_secret_of_a_kind_that_hides_nothing_has_no_column(kind: type[kinds.Kind]) -> None:
    secret: kinds.Kind = kind("value", secret=True)
    layer = type("Secret", (Layer,), {"fields_desc": [secret], "__module__": __name__})
    assert reader(layer, STYLE) is None


def test_bytes_stay_bytes_or_are_shown_in_the_style() -> None:
    frames = vectors()[Publish]
    raw, text = (
        read_columns(Publish, frames, raw=True),
        read_columns(Publish, frames, Style(lambda data: f"{len(data)} bytes")),
    )
    assert raw is not None and text is not None
    for kept, shown in zip(raw.struct().to_pylist(), text.struct().to_pylist(), strict=True):
        for one, two in zip(kept["messages"], shown["messages"], strict=True):
            assert f"{len(one['data'])} bytes" == two["data"]


def test_what_an_array_counts_is_made_only_when_it_can_be_there() -> None:
    for layer, head in ((PublishConfirm, "00030001 00"), (Publish, "00020001 00")):
        frame = bytes.fromhex("000000ff" + head + "ffffffff") + bytes(40)
        assert columns_agree(layer, [frame, *vectors()[layer]])[0] is False


def test_frames_may_come_in_any_order_and_overlap() -> None:
    frame = vectors()[StoreOffset][0]
    buffer, size = frame * 4, len(frame)
    starts = np.array([2, 0, 3, 0], np.int64) * size
    found = reader(StoreOffset, STYLE)
    assert found is not None
    columns = found.read(buffer, starts, starts + size)
    assert columns.plain.all()
    assert columns.fields["stream"].to_pylist() == 4 * [whole_record(StoreOffset, frame)["stream"]]  # type: ignore[index]
    outside = found.read(buffer, np.array([-1, 0, 3 * size + 1, size]), np.array([size, size, 5 * size, 0]))
    assert outside.plain.tolist() == [False, True, False, False]


def test_no_frames_and_no_bytes() -> None:
    nothing = np.empty(0, np.int64)
    for layer in vectors():
        found = reader(layer, STYLE)
        if found is not None:
            assert len(found.read(b"", nothing, nothing).plain) == 0
            assert found.read(b"", np.zeros(1, np.int64), np.zeros(1, np.int64)).plain.tolist() == [
                whole_record(layer, b"") is not None
            ]


def test_a_kind_that_shows_its_value_otherwise_has_no_column() -> None:
    class Doubled(kinds.UInt8):
        def present(self, value: int, show: Any) -> int:
            return 2 * value

    class Odd(Layer):
        fields_desc: ClassVar[list[kinds.Kind]] = [kinds.UInt8("a"), Doubled("b")]

    assert reader(Odd, STYLE) is None


# Declarations that no protocol has in this form.


class Note(Layer):
    fields_desc: ClassVar[list[kinds.Kind]] = [
        kinds.UInt8("kind", names={0: "bare", 1: "noted"}),
        kinds.Optional(kinds.Text("note", length=kinds.UInt8), kinds.When("kind == 1")),
    ]


class Middle(Layer):
    fields_desc: ClassVar[list[kinds.Kind]] = [
        kinds.Struct("inner", Note),
        kinds.Binary("blob", length=kinds.UInt16, null=0xFFFF),
        kinds.Array("more", Note, count=kinds.UInt8),
    ]


class Outer(Layer):
    filter_name: ClassVar[str] = "outer"
    fields_desc: ClassVar[list[kinds.Kind]] = [
        kinds.UInt16("size", little=True),
        kinds.Array("middles", Middle, count=None, size="size"),
        kinds.UInt32("last", little=True),
        kinds.Array("numbers", kinds.UInt64("numbers"), count="last"),
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
    assert all(columns_agree(Outer, frames))
    for mutate in MUTATIONS:
        columns_agree(Outer, [mutate(frame, chance) for frame in frames])


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
        columns = read_columns(layer, vectors()[layer][:1], raw=True)
        if columns is not None:
            table = pa.struct(schema.merged_fields(schema.layer_fields(layer, raw=True)))
            for name, array in columns.fields.items():
                if name not in generated | hinted | {"messages", "chunk"}:
                    assert fits(array.type, table.field(name).type), (layer, name)


def test_readers_of_columns_are_made_once() -> None:
    assert reader(Tune, STYLE) is reader(Tune, STYLE)


@pytest.mark.parametrize(("starts", "lengths"), [([0, 1], [4, 4]), ([4, 0], [2, 3]), ([2, 2, 5], [0, 3, 1])])
def test_slices_may_overlap_and_stand_in_any_order(starts: list[int], lengths: list[int]) -> None:
    found = Source(b"abcdefgh").slices(np.array(starts, np.int64), np.array(lengths, np.int64))
    expected = [b"abcdefgh"[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    assert found.to_pylist() == expected
