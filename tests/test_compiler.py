"""The generated decoders: straight-line, readable code, and the fields that each of the four reads."""

from __future__ import annotations

import ast
from typing import Any, ClassVar

import pytest

from tests.protocols.rabbitmq_vectors import BY_NAME
from wiredecode import budget
from wiredecode.fields import (
    Array,
    Binary,
    Bits,
    Kind,
    Optional,
    Struct,
    Text,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    When,
    compiler,
    composition,
    emitter,
)
from wiredecode.fields.layer import Layer, Style
from wiredecode.protocols.rabbitmq_stream.layers import LAYERS, Deliver, Publish, StoreOffset
from wiredecode.testing import readers_agree


class Item(Layer):
    fields_desc: ClassVar[list[Kind]] = [UInt32("number"), Binary("data", length=UInt8)]


class Batch(Layer):
    filter_name: ClassVar[str] = "batch"
    fields_desc: ClassVar[list[Kind]] = [
        UInt8("kind"),
        Array("items", Item, count=UInt16, bulk=True),
        UInt8("end"),
    ]


RAW = bytes.fromhex("05 0002 00000001 02 aabb 00000002 00 09")


def test_head_stops_at_the_bulk_array() -> None:
    assert compiler.head(Batch, RAW, 0, len(RAW)) == {"kind": 5, "items": 2}
    assert compiler.decoder(Batch, "head")(RAW, 0, len(RAW))[1] == 3


def test_walk_skips_the_bulk_array_and_reads_later_fields() -> None:
    assert compiler.walk(Batch, RAW, 0, len(RAW)) == ({"kind": 5, "items": 2, "end": 9}, len(RAW))


def test_walk_notices_truncation_inside_the_bulk_array() -> None:
    for length in range(3, len(RAW)):
        with pytest.raises(compiler.FAILED):
            compiler.walk(Batch, RAW[:length], 0, length)


def test_record_reads_all_of_it() -> None:
    record, stop = compiler.record(Batch, RAW, 0, len(RAW), Style())
    assert stop == len(RAW)
    assert record == {
        "kind": 5,
        "items": [{"number": 1, "data": "aabb"}, {"number": 2, "data": ""}],
        "end": 9,
    }


def test_careful_reads_present_fields_and_reports_missing_bytes() -> None:
    cut = RAW[:9]
    decoded = compiler.careful(Batch, cut, 0, len(cut))
    assert decoded.values == {"kind": 5, "items": [{"number": 1}]}
    assert decoded.problem is not None
    assert decoded.problem.args == ("items[0].data", 2, 1, 8)
    assert decoded.ranges["items[0].number"] == (3, 7)
    assert "items[0]" not in decoded.ranges


@pytest.mark.parametrize("place", [0, 1, 100])
def test_ranges_count_from_the_start_of_the_frame(place: int) -> None:
    buffer = bytes(place) + RAW + bytes(7)
    decoded = compiler.careful(Batch, buffer, place, place + len(RAW))
    assert decoded.ranges == compiler.careful(Batch, RAW, 0, len(RAW)).ranges
    assert decoded.stop == len(RAW)


def test_nothing_is_read_beyond_the_end_of_the_frame() -> None:
    """The bytes of the next frame follow directly in the buffer."""
    buffer = RAW + RAW
    for length in range(1, len(RAW)):
        for mode in ("walk", "record"):
            with pytest.raises(compiler.FAILED):
                compiler.decoder(Batch, mode, Style() if mode == "record" else None)(buffer, 0, length)
        problem = compiler.careful(Batch, buffer, 0, length).problem
        assert problem is not None
        assert problem.start + problem.had == length


def test_fixed_fields_become_one_unpack() -> None:
    class Fixed(Layer):
        fields_desc: ClassVar[list[Kind]] = [UInt8("a"), UInt16("b"), UInt64("c"), UInt32("d")]

    for mode in ("head", "walk", "record"):
        assert compiler.source(Fixed, mode).count("(b, p)") == 1
        assert "for" not in compiler.source(Fixed, mode)


def test_byte_orders_are_not_mixed_in_one_unpack() -> None:
    class Mixed(Layer):
        fields_desc: ClassVar[list[Kind]] = [
            UInt16("a"),
            UInt16("b", little=True),
            UInt8("c"),
            UInt32("d", little=True),
            UInt16("e"),
        ]

    raw = bytes.fromhex("0001 0100 07 01000000 0002")
    expected = {"a": 1, "b": 1, "c": 7, "d": 1, "e": 2}
    assert compiler.walk(Mixed, raw, 0, len(raw)) == (expected, len(raw))
    assert Mixed(raw).values() == expected


@pytest.mark.parametrize("mode", ["head", "walk", "record", "careful"])
def test_every_source_is_readable_python(mode: str) -> None:
    for layer in LAYERS.values():
        text = compiler.source(layer, mode)
        ast.parse(text)
        assert text.startswith("def decode(b, p, e")
        assert max(map(len, text.splitlines())) < 700


def test_decoders_are_made_once() -> None:
    style = Style()
    assert compiler.decoder(Publish, "walk") is compiler.decoder(Publish, "walk")
    assert compiler.decoder(Publish, "record", style) is compiler.decoder(Publish, "record", style)


def test_styles_have_decoders_of_their_own() -> None:
    raw = BY_NAME["V05"].raw
    layer = LAYERS[19, 1]
    hidden, _ = compiler.record(layer, raw, 0, len(raw), Style())
    shown, _ = compiler.record(layer, raw, 0, len(raw), Style(lambda data: data.decode("latin-1"), secrets=True))
    assert hidden["data"] == "<redacted 12 bytes>"
    assert shown["data"] == "\0guest\0guest"


def test_a_field_may_have_the_name_of_a_generated_variable() -> None:
    class Odd(Layer):
        fields_desc: ClassVar[list[Kind]] = [
            UInt8("b"),
            UInt8("p"),
            UInt8("e"),
            UInt8("q"),
            UInt8("d0"),
            UInt8("o"),
            UInt8("r"),
        ]

    raw = bytes(range(7))
    expected = dict(zip(("b", "p", "e", "q", "d0", "o", "r"), range(7), strict=True))
    assert compiler.walk(Odd, raw, 0, 7)[0] == expected
    assert compiler.record(Odd, raw, 0, 7, Style())[0] == expected
    assert compiler.careful(Odd, raw, 0, 7).values == expected


def test_structures_inside_structures_inside_arrays() -> None:
    class Inner(Layer):
        fields_desc: ClassVar[list[Kind]] = [
            UInt8("kind"),
            Optional(Text("note", length=UInt8), When("kind == 1")),
        ]

    class Middle(Layer):
        fields_desc: ClassVar[list[Kind]] = [Struct("inner", Inner), Array("more", Inner, count=UInt8)]

    class Outer(Layer):
        filter_name: ClassVar[str] = "outer"
        fields_desc: ClassVar[list[Kind]] = [Array("middles", Middle, count=UInt8), UInt8("last")]

    raw = bytes.fromhex("02 01 01 61 00  00 02 00 01 01 62  ff")
    expected: dict[str, Any] = {
        "middles": [
            {"inner": {"kind": 1, "note": "a"}, "more": []},
            {"inner": {"kind": 0}, "more": [{"kind": 0}, {"kind": 1, "note": "b"}]},
        ],
        "last": 255,
    }
    assert Outer(raw).values() == expected
    decoded = compiler.careful(Outer, raw, 0, len(raw))
    assert decoded.values == expected
    assert decoded.ranges == Outer(raw).flat_ranges()
    assert decoded.ranges["middles[1].more[1].note"] == (9, 11)
    assert compiler.record(Outer, raw, 0, len(raw), Style())[0] == expected
    assert bytes(Outer(raw)) == raw


def test_inner_decoders_see_earlier_fields_and_add_their_keys() -> None:
    seen: list[dict[str, Any]] = []

    def inner(data: bytes, show: Any, before: dict[str, Any]) -> dict[str, Any] | None:
        seen.append(dict(before))
        return {"upper": data.decode().upper()} if data else None

    class Carrier(Layer):
        filter_name: ClassVar[str] = "carrier"
        fields_desc: ClassVar[list[Kind]] = [
            UInt8("kind"),
            Binary("data", length=UInt8, inner=inner),
            UInt8("after"),
        ]

    record, _ = compiler.record(Carrier, b"\x01\x02ab\x09", 0, 5, Style())
    assert record == {"kind": 1, "data": "6162", "upper": "AB", "after": 9}
    assert Carrier.present(Carrier(b"\x01\x02ab\x09").values(), Style()) == record
    assert all(before["kind"] == 1 and before["data"] == "6162" for before in seen)
    assert "upper" not in compiler.record(Carrier, b"\x01\x00\x09", 0, 3, Style())[0]


def test_a_count_of_billions_fails_immediately() -> None:
    for layer, raw in (
        (LAYERS[3, 1], "000000ff 0003 0001 00 ffffffff"),
        (LAYERS[2, 1], "000000ff 0002 0001 00 ffffffff"),
    ):
        data = bytes.fromhex(raw) + bytes(20)
        with pytest.raises(compiler.FAILED):
            compiler.walk(layer, data, 0, len(data))
        problem = compiler.careful(layer, data, 0, len(data)).problem
        assert problem is not None


def test_careful_is_needed_for_broken_frames_only() -> None:
    for name in ("V25", "V37", "V44"):
        vector = BY_NAME[name]
        assert vector.layer in (Publish, Deliver, StoreOffset)
        compiler.walk(vector.layer, vector.raw, 0, len(vector.raw))


# Mutants of the compiler that no other test noticed.


class Part(Layer):
    fields_desc: ClassVar[list[Kind]] = [
        UInt8("partition"),
        Array("items", Item, count=UInt8, bulk=True),
        Array("numbers", UInt16("numbers"), count=UInt8, bulk=True),
        UInt8("after"),
    ]


class Produced(Layer):
    filter_name: ClassVar[str] = "produced"
    fields_desc: ClassVar[list[Kind]] = [Array("parts", Part, count=UInt8), UInt8("end")]


class ToTheEnd(Layer):
    filter_name: ClassVar[str] = "to_the_end"
    fields_desc: ClassVar[list[Kind]] = [Array("parts", Part, count=None)]


@pytest.mark.parametrize("layer", [Produced, ToTheEnd])
def test_head_skips_a_bulk_array_inside_an_array(layer: type[Layer]) -> None:
    items = [Item(number=7, data=b"ab"), Item(number=9, data=b"")]
    raw = bytes(layer(parts=[Part(partition=1, items=items, numbers=[5, 6], after=3), Part(partition=2, after=4)]))
    assert readers_agree(layer, raw)
    parts = compiler.head(layer, raw, 0, len(raw))["parts"]
    assert [(part["partition"], part["items"], part["after"]) for part in parts] == [(1, 2, 3), (2, 0, 4)]


class Told(Layer):
    """An element of a bulk array, with several bits in a byte."""

    fields_desc: ClassVar[list[Kind]] = [
        UInt32("before"),
        UInt16("number"),
        Bits("high", 3),
        Bits("low", 5),
        UInt64("after"),
        Binary("data", length=UInt8),
    ]


class Carrier(Layer):
    filter_name: ClassVar[str] = "carrier"
    fields_desc: ClassVar[list[Kind]] = [
        Array("items", Told, count=UInt8, bulk=True),
        Array("times", Timestamp("times"), count=UInt8),
        Array("kinds", UInt16("kinds", names={0x0102: "known"}), count=UInt8),
        Binary("token", length=UInt8, secret=True),
    ]


TOLD = (
    bytes.fromhex("02 01020304 1122 a5 0102030405060708 02 aabb")
    + bytes.fromhex("05060708 3344 5a 1112131415161718 00")
    + bytes.fromhex("01 0000018bcfe56800 02 0102 0304 03 616263")
)


def test_values_hold_the_elements_of_bulk_arrays() -> None:
    items = compiler.values(Carrier, TOLD, 0, len(TOLD))["items"]
    assert [item["data"] for item in items] == [b"\xaa\xbb", b""]
    assert [(item["number"], item["low"]) for item in items] == [(0x1122, 0x05), (0x3344, 0x1A)]
    assert compiler.walk(Carrier, TOLD, 0, len(TOLD))[0]["items"] == 2


def test_all_readers_agree_on_bits_and_arrays_of_times_and_names() -> None:
    assert readers_agree(Carrier, TOLD)
    shown = compiler.record(Carrier, TOLD, 0, len(TOLD), Style())[0]
    assert shown["times"] == ["2023-11-14T22:13:20.000Z"]
    assert shown["kinds"] == ["known", 0x0304]


def test_the_source_of_a_record_decoder_hides_secrets_by_default() -> None:
    assert compiler.source(Carrier, "record") == compiler.source(Carrier, "record", Style())
    assert compiler.source(Carrier, "record") != compiler.source(Carrier, "record", Style(secrets=True))
    assert compiler.source(Carrier, "walk") == compiler.source(Carrier, "walk", None)


@pytest.mark.parametrize("count", [None, UInt32])
@pytest.mark.parametrize("element", [UInt8("number"), Text("name", length=UInt8)])
def test_an_array_of_many_tiny_elements_stops_at_the_budget(
    count: Any, element: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = budget.FRAME_BYTES // 16  # the whole takes seconds
    for module in (composition, emitter):
        monkeypatch.setattr(module, "FRAME_BYTES", limit)
    monkeypatch.setattr(budget.BUDGET.own, "remaining", limit)
    layer = Layer.declare(
        "Tiny",
        Array("outer", Layer.declare("Inner", Array("inner", element, count=UInt8))),
        Array("more", element, count=count),
    )
    most = limit // budget.PLAIN_BYTES
    data = bytes(4) + (most + 5).to_bytes(4) * (count is not None) + bytes(most + 5)
    values, problem = compiler.readable(layer, data, 0, len(data))
    assert problem is not None and problem.reason == budget.TOO_MANY
    assert len(values["more"]) == most
