"""Protobuf messages as field kinds: usual, unusual and invalid encodings."""

from __future__ import annotations

import random
from typing import Any

import pytest

from wiredecode.fields import UInt16, compiler, protobuf
from wiredecode.fields.layer import Layer, Style
from wiredecode.fields.numbers import write_varint
from wiredecode.fields.protobuf import kinds, message, messages

STYLE = Style()


class Inside(protobuf.Message):
    fields_desc = message(protobuf.String(1, "text"), protobuf.Repeated(protobuf.Int32(2, "integers")))


class Everything(protobuf.Message):
    fields_desc = message(
        protobuf.Int64(1, "long"),
        protobuf.Int32(2, "int"),
        protobuf.UInt64(3, "ulong"),
        protobuf.UInt32(4, "uint"),
        protobuf.Bool(5, "truth"),
        protobuf.Enum(6, "choice", names={0: "NONE", 1: "ONE"}),
        protobuf.String(7, "text"),
        protobuf.Bytes(8, "raw", secret=True),
        protobuf.TimestampNs(9, "moment"),
        protobuf.Embedded(10, "inside", Inside),
        protobuf.Repeated(protobuf.Embedded(11, "many", Inside)),
        protobuf.Repeated(protobuf.String(12, "texts")),
        protobuf.Repeated(protobuf.Bool(20, "truths")),
    )


class Framed(protobuf.Message):
    """Ordinary fields precede the message."""

    fields_desc = message(UInt16("size"), protobuf.String(1, "text"))


def agree(layer: type[Layer], raw: bytes) -> tuple[dict[str, Any], str | None]:
    """Compare all readers; return the built values and the field of the problem, if there is one."""
    packet = layer(raw)
    decoded = compiler.careful(layer, b"~~" + raw + b"~", 2, 2 + len(raw))
    assert decoded.values == packet.values()
    assert decoded.ranges == packet.flat_ranges()
    shown = layer.present(packet.values(), STYLE)
    try:
        record, stop = compiler.record(layer, b"~~" + raw + b"~", 2, 2 + len(raw), STYLE)
    except compiler.FAILED:
        pass
    else:
        assert (record, list(record), stop - 2) == (shown, list(shown), decoded.stop)
        assert compiler.walk(layer, raw, 0, len(raw)) == (decoded.without_defaults(), decoded.stop)
        assert compiler.head(layer, raw, 0, len(raw)) == decoded.without_defaults()
        assert decoded.problem is None
    if decoded.problem is None:
        assert bytes(packet) == raw
        return decoded.without_defaults(), None
    assert packet.problem is not None
    assert packet.problem.args == decoded.problem.args
    return decoded.values, decoded.problem.field


def is_fast(raw: bytes) -> bool:
    """Whether the generated decoder reads it without help."""
    try:
        compiler.record(Everything, raw, 0, len(raw), STYLE)
    except compiler.FAILED:
        return False
    return True


USUAL = [
    ("", {}),
    ("08ffffffffffffffffff01", {"long": -1}),
    ("0880808080808080808001", {"long": -(1 << 63)}),
    ("10ffffffffffffffffff01", {"int": -1}),
    ("18ffffffffffffffffff01", {"ulong": (1 << 64) - 1}),
    ("20ffffffff0f", {"uint": (1 << 32) - 1}),
    ("2801", {"truth": True}),
    ("3001", {"choice": 1}),
    ("3007", {"choice": 7}),
    ("3a02c3a9", {"text": "é"}),
    ("4200", {"raw": b""}),
    ("4805", {"moment": 5}),
    ("52030a0178", {"inside": {"text": "x"}}),
    ("5200", {"inside": {}}),
    ("520612040102ac02", {"inside": {"integers": [1, 2, 300]}}),
    ("5a005a030a0178", {"many": [{}, {"text": "x"}]}),
    ("6201616200", {"texts": ["a", ""]}),
    ("a201020001", {"truths": [False, True]}),
]


@pytest.mark.parametrize(("spelled", "values"), USUAL, ids=[spelled for spelled, _ in USUAL])
def test_canonical_encodings(spelled: str, values: dict[str, Any]) -> None:
    raw = bytes.fromhex(spelled)
    assert agree(Everything, raw) == (values, None)
    assert is_fast(raw)


def test_all_fields_together() -> None:
    each = {next(iter(values)): spelled for spelled, values in USUAL if values}
    raw = bytes.fromhex("".join(each.values()))
    values, problem = agree(Everything, raw)
    assert (len(values), problem, is_fast(raw)) == (13, None, True)


def test_building_new_messages() -> None:
    """Ascending numbers, packed lists, no unset field."""
    made = Everything(many=[Inside(), Inside(integers=[1, -1])], long=0, text="x", truths=[True])
    assert bytes(made).hex() == "0800" + "3a0178" + "5a00" + "5a0d120b01ffffffffffffffffff01" + "a2010101"


LEGAL = [
    ("088100", {"long": 1}),
    ("880001", {"long": 1}),
    ("8880800001", {"long": 1}),
    ("10ffffffff0f", {"int": -1}),
    ("2802", {"truth": True}),
    ("28808000", {"truth": False}),
    ("3a820061 62", {"text": "ab"}),
    ("52041001 1002", {"inside": {"integers": [1, 2]}}),
    ("5205 1001 120102", {"inside": {"integers": [1, 2]}}),
    ("5202 1200", {"inside": {"integers": []}}),
    ("5207 1203 810002 1003", {"inside": {"integers": [1, 2, 3]}}),
    ("10010801", {"int": 1, "long": 1}),
    ("5a00 0801 5a00", {"many": [{}, {}], "long": 1}),
]


@pytest.mark.parametrize(("spelled", "values"), LEGAL, ids=[spelled for spelled, _ in LEGAL])
def test_unusual_spellings_survive(spelled: str, values: dict[str, Any]) -> None:
    """Wide varints, several forms of one list, any order: equal values, and built to the same bytes."""
    assert agree(Everything, bytes.fromhex(spelled)) == (values, None)


KEPT = [
    ("7801", [(15, 0, 1)]),
    ("7a0161", [(15, 2, b"a")]),
    ("7d01020304", [(15, 5, b"\1\2\3\4")]),
    ("790102030405060708", [(15, 1, bytes(range(1, 9)))]),
    ("0a0161", [(1, 2, b"a")]),
    ("f8ffffff0f05", [((1 << 29) - 1, 0, 5)]),
    ("78808000", [(15, 0, 0)]),
    ("7a810061", [(15, 2, b"a")]),
]


@pytest.mark.parametrize(("spelled", "kept"), KEPT, ids=[spelled for spelled, _ in KEPT])
def test_unknown_fields_are_kept(spelled: str, kept: list[tuple[int, int, Any]]) -> None:
    """Undeclared numbers, and declared ones of another wire type."""
    raw = bytes.fromhex("0802" + spelled + "3a0178")
    values, problem = agree(Everything, raw)
    names = ("number", "wire_type", "value")
    assert problem is None
    assert values == {"long": 2, "unknown_fields": [dict(zip(names, one, strict=True)) for one in kept], "text": "x"}


def test_the_last_of_repeated_single_fields_counts() -> None:
    raw = bytes.fromhex("0801 3a0161 0802 52020a00 0803 5200")
    values, problem = agree(Everything, raw)
    assert problem is None
    assert (values["long"], values["inside"]) == (3, {})
    assert [(kept["number"], kept["value"]) for kept in values["unknown_fields"]] == [(1, 1), (1, 2), (10, b"\x0a\x00")]


BROKEN = [
    ("08", "long"),
    ("0880", "long"),
    ("08ffffffffffffffffffff01", "long"),
    ("3a0561", "text"),
    ("3aff", "text"),
    ("80", "tag"),
    ("0005", "tag"),
    ("0b", "tag"),
    ("0c", "tag"),
    ("0e", "tag"),
    ("52030a0578", "inside.text"),
    ("5a005a030a0578", "many[1].text"),
    ("52021205", "inside.integers"),
    ("5203120180", "inside.integers"),
    ("7a05", "unknown_fields.15"),
    ("7d0102", "unknown_fields.15"),
]


@pytest.mark.parametrize(("spelled", "field"), BROKEN, ids=[spelled for spelled, _ in BROKEN])
def test_invalid_encodings_are_reported_with_their_place(spelled: str, field: str) -> None:
    values, problem = agree(Everything, bytes.fromhex("2801" + spelled))
    assert problem == field
    assert values["truth"] is True, "what came before is there"


def test_text_that_is_not_utf8_survives() -> None:
    values, problem = agree(Everything, bytes.fromhex("3a02ff41"))
    assert (values, problem) == ({"text": "\udcffA"}, None)
    assert Everything.present(values, STYLE) == {"text": "\\xffA"}


def test_secrets_are_hidden_by_all_readers() -> None:
    raw = bytes.fromhex("4203616263")
    assert compiler.record(Everything, raw, 0, 5, STYLE)[0]["raw"] == "<redacted 3 bytes>"
    assert Everything.present(Everything(raw).values(), STYLE)["raw"] == "<redacted 3 bytes>"


class Present(protobuf.Message):
    """Fields with explicit presence in proto3, and one without."""

    fields_desc = message(
        protobuf.UInt32(1, "plain"),
        protobuf.UInt32(2, "chosen", optional=True),
        protobuf.String(3, "named", optional=True),
        protobuf.Embedded(4, "inside", Inside),
        protobuf.Repeated(protobuf.UInt32(5, "many")),
    )


def test_defaults_are_values_except_where_presence_means_something() -> None:
    assert compiler.record(Present, b"", 0, 0, STYLE)[0] == {"plain": 0}
    assert Present().values() == compiler.careful(Present, b"", 0, 0).values == {"plain": 0}
    raw = bytes.fromhex("1000 1a00 2200")
    said = {"plain": 0, "chosen": 0, "named": "", "inside": {"text": ""}}
    assert compiler.record(Present, raw, 0, len(raw), STYLE)[0] == Present.present(Present(raw).values(), STYLE) == said
    agree(Present, raw)


def test_all_defaults_of_a_message_in_the_order_of_the_declaration() -> None:
    everything = {
        "long": 0,
        "int": 0,
        "ulong": 0,
        "uint": 0,
        "truth": False,
        "choice": "NONE",
        "choice_code": 0,
        "text": "",
        "raw": "<redacted 0 bytes>",
        "moment": "1970-01-01T00:00:00.000000000Z",
    }
    assert list(compiler.record(Everything, b"", 0, 0, STYLE)[0].items()) == list(everything.items())


def test_a_default_is_not_written_and_has_no_range() -> None:
    packet = Everything(bytes.fromhex("52030a0178"))
    assert (packet.long, packet.text, packet.truth) == (0, "", False)
    assert bytes(packet).hex() == "52030a0178"
    assert list(packet.flat_ranges()) == ["inside", "inside.text"]


def test_a_truncated_message_invents_no_field() -> None:
    decoded = compiler.careful(Everything, bytes.fromhex("2801 3a0561"), 0, 5)
    assert decoded.values == {"truth": True}
    assert compiler.careful(Everything, bytes.fromhex("52030a0578"), 0, 5).values == {"inside": {}}


def test_changing_a_value_keeps_the_spelling_of_others() -> None:
    packet = Everything(bytes.fromhex("3a82006162 088100 788000"))
    packet.text = "longer"
    assert bytes(packet).hex() == "3a86006c6f6e676572" + "088100" + "788000"
    packet.long = 300
    assert bytes(packet).hex() == "3a86006c6f6e676572" + "08ac02" + "788000"


def test_elements_can_be_removed_and_added() -> None:
    packet = Everything(bytes.fromhex("620161 0801 620162"))
    packet.texts = ["a"]
    assert bytes(packet).hex() == "6201610801"
    packet.texts = ["a", "b", "c"]
    assert bytes(packet).hex() == "6201610801" + "620162" + "620163"


def test_fields_before_the_message() -> None:
    assert agree(Framed, bytes.fromhex("00053a00")) == (
        {"size": 5, "unknown_fields": [{"number": 7, "wire_type": 2, "value": b""}]},
        None,
    )
    assert agree(Framed, bytes.fromhex("00050a0178")) == ({"size": 5, "text": "x"}, None)
    assert bytes(Framed(size=3, text="x")).hex() == "00030a0178"


def test_members_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_MEMBERS", 3)
    decoded = compiler.careful(Everything, b"\x7a\x00" * 10, 0, 20)
    assert decoded.problem is not None
    assert "more than 3 members" in decoded.problem.reason
    assert len(decoded.values["unknown_fields"]) == 4
    for inside, fits in ((b"\x5a\x00" * 3, True), (b"\x5a\x00" * 4, False), (b"\x5a\x02\x7a\x00" * 2, False)):
        assert (compiler.careful(Everything, inside, 0, len(inside)).problem is None) == fits, inside.hex()


def test_built_field_numbers_are_ascending() -> None:
    with pytest.raises(TypeError, match="order of their numbers"):
        type("Wrong", (protobuf.Message,), {"fields_desc": message(protobuf.Bool(2, "b"), protobuf.Bool(1, "a"))})


def test_readers_agree_on_mutations() -> None:
    chance = random.Random(7)
    base = b"".join(bytes.fromhex(spelled) for spelled, _ in USUAL)
    broken = 0
    for _ in range(600):
        raw = bytearray(base)
        for _ in range(chance.randint(0, 3)):
            raw[chance.randrange(len(raw))] = chance.choice((0, 1, 0x08, 0x52, 0x5A, 0x80, 0xFF, chance.randrange(256)))
        broken += agree(Everything, bytes(raw))[1] is not None
    assert 100 < broken < 590


@pytest.mark.parametrize("width", range(1, 10))
def test_long_varints_of_every_width(width: int) -> None:
    """The compiled decoders' reader, on values that differ in every byte, followed by any bytes."""
    for value in (1 << 7 * width, 0x8182838485868788 & (1 << 7 * width) - 1 | 1 << 7 * width, (1 << 7 * width + 1) - 1):
        raw = write_varint(value & kinds.U64)
        for rest in (b"", b"\xff" * 9, b"\0" * 9):
            data = b"x" + raw + rest
            assert kinds.fast_varint(data, 1, len(data)) == (value & kinds.U64, 1 + len(raw))
        with pytest.raises(compiler.FAILED):
            kinds.fast_varint(b"x" + raw, 1, len(raw))


def test_a_packed_number_that_crosses_the_end_of_its_list_is_malformed_for_all_readers() -> None:
    """Found by mutation: the fast decoder took the byte after the list."""
    assert agree(Inside, bytes.fromhex("12018001"))[1] == "integers"
    assert agree(Inside, bytes.fromhex("12028001")) == ({"integers": [128]}, None)
    assert agree(Inside, bytes.fromhex("12018001 0a00"))[1] == "integers"
