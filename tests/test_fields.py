"""The field kinds: each reads, writes, reports missing bytes and shows its value, equally in both decoders."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from tests.conftest import in_one_test
from wiredecode.fields import (
    Array,
    Binary,
    Boolean,
    CompactLength,
    Flags,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    Optional,
    Rest,
    Struct,
    Text,
    Timestamp,
    Truncated,
    UInt8,
    UInt16,
    UInt24,
    UInt32,
    UInt64,
    Uuid,
    Varint,
    When,
    ZigZag,
    compiler,
    printable,
    redact,
    rfc3339_ms,
    text,
)
from wiredecode.fields.layer import Layer, Style
from wiredecode.protocols.registry import protocols


def layer(*kinds: Kind) -> type[Layer]:
    return type("Made", (Layer,), {"fields_desc": list(kinds), "filter_name": "made"})


class Point(Layer):
    fields_desc: ClassVar[list[Kind]] = [Int16("x"), Int16("y")]


class Pair(Layer):
    fields_desc: ClassVar[list[Kind]] = [Text("left", length=UInt8), Text("right", length=UInt8)]


NAMES = {1: "one", 2: "two"}

# Kind, its bytes, the value, what a record shows.
CASES: list[tuple[str, Kind, str, Any, Any]] = [
    ("uint8", UInt8("v"), "ff", 255, 255),
    ("uint16", UInt16("v"), "0102", 258, 258),
    ("uint16_little", UInt16("v", little=True), "0102", 513, 513),
    ("uint24", UInt24("v"), "010203", 66051, 66051),
    ("uint24_little", UInt24("v", little=True), "010203", 197121, 197121),
    ("uint32", UInt32("v"), "ffffffff", 2**32 - 1, 2**32 - 1),
    ("uint64", UInt64("v"), "ff" * 8, 2**64 - 1, 2**64 - 1),
    ("uint64_little", UInt64("v", little=True), "01" + "00" * 7, 1, 1),
    ("int8", Int8("v"), "80", -128, -128),
    ("int16", Int16("v"), "fffe", -2, -2),
    ("int32", Int32("v"), "80000000", -(2**31), -(2**31)),
    ("int32_little", Int32("v", little=True), "feffffff", -2, -2),
    ("int64", Int64("v"), "ff" * 8, -1, -1),
    ("named", UInt16("v", names=NAMES), "0002", 2, "two"),
    ("not_named", UInt16("v", names=NAMES), "0003", 3, 3),
    ("true", Boolean("v"), "01", 1, True),
    ("false", Boolean("v"), "00", 0, False),
    ("neither", Boolean("v"), "02", 2, 2),
    ("flags", Flags("v", names={1: "a", 4: "b"}), "05", 5, ["a", "b"]),
    ("flags_unknown", Flags("v", names={1: "a"}), "81", 0x81, ["a", "0x80"]),
    ("timestamp", Timestamp("v"), "0000018bcfe5687b", 1700000000123, "2023-11-14T22:13:20.123Z"),
    ("timestamp_before_1970", Timestamp("v"), "ff" * 8, -1, -1),
    ("varint", Varint("v"), "ac02", 300, 300),
    ("varint_one_byte", Varint("v"), "7f", 127, 127),
    ("varint_longest", Varint("v"), "ff" * 9 + "01", 2**64 - 1, 2**64 - 1),
    ("zigzag", ZigZag("v"), "ac02", 150, 150),
    ("zigzag_negative", ZigZag("v"), "03", -2, -2),
    ("zigzag_longest", ZigZag("v"), "ff" * 9 + "01", -(2**63), -(2**63)),
    ("float64", Float64("v"), "3ff8000000000000", 1.5, 1.5),
    ("text_varint", Text("v", length=Varint), "03" + b"abc".hex(), "abc", "abc"),
    ("text_long_varint", Text("v", length=Varint), "c801" + "61" * 200, "a" * 200, "a" * 200),
    ("text_zigzag", Text("v", length=ZigZag, null=-1), "06" + b"abc".hex(), "abc", "abc"),
    ("text_zigzag_null", Text("v", length=ZigZag, null=-1), "01", None, None),
    ("text_compact", Text("v", length=CompactLength), "04" + b"abc".hex(), "abc", "abc"),
    ("text_compact_long", Text("v", length=CompactLength), "c901" + "61" * 200, "a" * 200, "a" * 200),
    ("text_compact_null", Text("v", length=CompactLength, null=-1), "00", None, None),
    ("binary_compact_empty", Binary("v", length=CompactLength, null=-1), "01", b"", ""),
    ("text_int16_null", Text("v", length=Int16, null=-1), "ffff", None, None),
    ("text", Text("v"), "0003" + b"abc".hex(), "abc", "abc"),
    ("text_empty", Text("v"), "0000", "", ""),
    ("text_null", Text("v", null=0xFFFF), "ffff", None, None),
    ("text_unicode", Text("v"), "0003" + "漢".encode().hex(), "漢", "漢"),
    ("text_not_utf8", Text("v"), "0002ff41", "\udcffA", "\\xffA"),
    ("text_short_length", Text("v", length=UInt8), "0161", "a", "a"),
    ("text_fixed", Text("v", length=2), "6162", "ab", "ab"),
    ("binary", Binary("v"), "00000002ff00", b"\xff\0", "ff00"),
    ("binary_null", Binary("v", null=0xFFFFFFFF), "ffffffff", None, None),
    ("binary_fixed", Binary("v", length=3), "010203", b"\1\2\3", "010203"),
    ("rest", Rest("v"), "aabbcc", b"\xaa\xbb\xcc", "aabbcc"),
    ("rest_empty", Rest("v"), "", b"", ""),
    ("secret", Binary("v", secret=True), "00000002ff00", b"\xff\0", "<redacted 2 bytes>"),
    ("secret_null", Binary("v", null=0xFFFFFFFF, secret=True), "ffffffff", None, None),
    (
        "uuid",
        Uuid("v"),
        "12345678123456781234567812345678",
        bytes.fromhex("12345678123456781234567812345678"),
        "12345678-1234-5678-1234-567812345678",
    ),
    ("struct", Struct("v", Point), "0001ffff", {"x": 1, "y": -1}, {"x": 1, "y": -1}),
    ("array", Array("v", UInt16("v"), count=UInt8), "0200010002", [1, 2], [1, 2]),
    ("array_empty", Array("v", UInt16("v")), "00000000", [], []),
    ("array_little", Array("v", UInt16("v", little=True), count=UInt8), "020100ff00", [1, 255], [1, 255]),
    ("array_named", Array("v", UInt16("v", names=NAMES), count=UInt8), "0200010009", [1, 9], ["one", 9]),
    ("array_uint24", Array("v", UInt24("v"), count=UInt8), "02000001000002", [1, 2], [1, 2]),
    ("array_boolean", Array("v", Boolean("v"), count=UInt8), "020100", [1, 0], [True, False]),
    ("array_text", Array("v", Text("v", length=UInt8), count=UInt8), "0201610162", ["a", "b"], ["a", "b"]),
    ("array_varint", Array("v", Varint("v"), count=UInt8), "02ac0201", [300, 1], [300, 1]),
    ("array_of_compact_count", Array("v", UInt16("v"), count=CompactLength), "0300010002", [1, 2], [1, 2]),
    ("array_of_varint_count", Array("v", Text("v", length=UInt8), count=Varint), "0101" + "61", ["a"], ["a"]),
    ("array_null", Array("v", Int32("v"), count=Int32, null=-1), "ffffffff", None, None),
    ("array_empty_but_not_null", Array("v", Int32("v"), count=Int32, null=-1), "00000000", [], []),
    ("array_compact_null", Array("v", Pair, count=CompactLength, null=-1), "00", None, None),
    ("array_not_null", Array("v", Pair, count=CompactLength, null=-1), "020000", *[[{"left": "", "right": ""}]] * 2),
    ("array_to_the_end", Array("v", UInt16("v"), count=None), "00010002", [1, 2], [1, 2]),
    (
        "array_struct",
        Array("v", Pair, count=UInt8),
        "02016101620000",
        [{"left": "a", "right": "b"}, {"left": "", "right": ""}],
        [{"left": "a", "right": "b"}, {"left": "", "right": ""}],
    ),
]
by_case = in_one_test(("kind", "raw", "value", "shown"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])


@by_case
def test_each_kind_reads_and_writes(kind: Kind, raw: str, value: Any, shown: Any) -> None:
    data = bytes.fromhex(raw)
    made = layer(UInt8("before"), kind)
    packet = made(b"\x07" + data)
    assert packet.values() == {"before": 7, "v": value}
    assert packet.problem is None
    assert bytes(packet) == b"\x07" + data
    decoded = compiler.careful(made, b"\x07" + data, 0, 1 + len(data))
    assert decoded.values == packet.values()
    assert decoded.ranges == packet.flat_ranges()
    assert decoded.ranges["v"] == (1, 1 + len(data))


@by_case
def test_each_kind_shows_its_value(kind: Kind, raw: str, value: Any, shown: Any) -> None:
    data = bytes.fromhex(raw)
    made = layer(kind)
    expected = {"v": shown} | ({"v_code": value} if getattr(kind, "code_name", None) else {})
    assert made.present(compiler.careful(made, data, 0, len(data)).values, Style()) == expected
    try:
        record, stop = compiler.record(made, data, 0, len(data), Style())
    except UnicodeDecodeError:
        assert "\\x" in shown
        return
    assert (record, stop) == (expected, len(data))


@by_case
def test_missing_bytes_are_reported_with_their_place(kind: Kind, raw: str, value: Any, shown: Any) -> None:
    data = bytes.fromhex(raw)
    made = layer(UInt8("before"), kind)
    if isinstance(kind, Rest) or (isinstance(kind, Array) and kind.count is None) or not data:
        return
    for length in range(len(data)):
        cut = b"\x07" + data[:length]
        packet = made(cut)
        decoded = compiler.careful(made, b"other" + cut, 5, 5 + len(cut))
        assert packet.problem is not None and decoded.problem is not None
        assert packet.problem.args == decoded.problem.args
        assert decoded.problem.field.startswith("v")
        assert decoded.problem.had < decoded.problem.needed
        assert decoded.problem.start + decoded.problem.had == len(cut)
        assert packet.values() == decoded.values
        for mode in ("walk", "record", "head"):
            with pytest.raises(compiler.FAILED):
                compiler.decoder(made, mode, Style() if mode == "record" else None)(cut, 0, len(cut))


def test_numbers_that_do_not_fit_are_refused_when_building() -> None:
    with pytest.raises(OverflowError):
        bytes(layer(UInt8("v"))(v=256))
    with pytest.raises(OverflowError):
        bytes(layer(UInt16("v"))(v=-1))


def test_a_varint_without_end_is_short_not_endless() -> None:
    made = layer(Varint("v", max_bytes=3))
    decoded = compiler.careful(made, b"\x80" * 50, 0, 50)
    assert decoded.problem is not None
    assert made(b"\x80" * 50).problem is not None


@pytest.mark.parametrize("kind", [Text("v", length=CompactLength), Array("v", UInt8("v"), count=CompactLength)])
def test_null_is_malformed_unless_it_is_declared(kind: Kind) -> None:
    made = layer(kind)
    assert made(b"\0").problem is not None
    for mode in ("walk", "head", "values"):
        with pytest.raises(compiler.FAILED):
            compiler.decoder(made, mode)(b"\0", 0, 1)


def test_a_negative_count_is_malformed_not_empty() -> None:
    made = layer(Int32("count"), Array("v", Pair, count="count"))
    data = b"\xff\xff\xff\xff"
    problem = made(data).problem
    assert problem is not None and problem.reason == "a count of -1"
    with pytest.raises(compiler.FAILED):
        compiler.walk(made, data, 0, 4)


def test_a_count_in_an_earlier_field_can_be_null() -> None:
    made = layer(Int32("count"), Array("v", Int32("v"), count="count", null=-1))
    assert bytes(made(v=None)) == b"\xff\xff\xff\xff"
    assert compiler.walk(made, b"\xff\xff\xff\xff", 0, 4) == ({"count": -1, "v": None}, 4)
    with pytest.raises(TypeError, match="cannot be null"):
        Array("v", Pair, count=Int32, null=-1, bulk=True)


def test_renaming_an_array_renames_its_elements_and_count() -> None:
    array = Array("v", Text("v", length=UInt8), count=UInt8)
    array.rename("topics")
    made = layer(array)
    for data, field in ((b"", "topics"), (b"\2\1a", "topics[1]"), (b"\1\2a", "topics[0]")):
        problem = made(data).problem if data else made.within(data, 0, 0).problem
        assert problem is not None and problem.field == field


def test_an_array_whose_elements_may_be_empty_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be counted safely"):
        Array("v", Rest("v"))


def test_names_that_scapy_uses_are_refused() -> None:
    for name in ("fields", "payload", "time", "name", "values"):
        with pytest.raises(TypeError, match="Scapy uses that name"):
            layer(UInt8(name))


@pytest.mark.parametrize(
    "kind", [Binary("v", length="later"), Array("v", UInt8("v"), count="later"), Array("v", UInt8("v"), size="later")]
)
def test_a_length_without_an_earlier_field_is_refused(kind: Kind) -> None:
    with pytest.raises(TypeError, match=r"v: no field later before it, for its (length|count|size)$"):
        layer(kind, UInt8("later"))


OPTIONAL = layer(
    UInt8("kind"),
    Optional(UInt16("wide"), When("kind in (1, 2)")),
    Optional(UInt8("narrow"), When("not has(wide)")),
    Optional(Array("rest", UInt8("rest"), count=UInt8), When("left")),
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("010007", {"kind": 1, "wide": 7}),
        ("020007" + "0109", {"kind": 2, "wide": 7, "rest": [9]}),
        ("0305", {"kind": 3, "narrow": 5}),
        ("030500", {"kind": 3, "narrow": 5, "rest": []}),
    ],
)
def test_presence(raw: str, expected: dict[str, Any]) -> None:
    data = bytes.fromhex(raw)
    packet = OPTIONAL(data)
    assert packet.values() == expected == compiler.careful(OPTIONAL, data, 0, len(data)).values
    assert compiler.record(OPTIONAL, data, 0, len(data), Style()) == (expected, len(data))
    assert bytes(packet) == data
    assert bytes(OPTIONAL(**expected)) == data


LOOKS = layer(
    UInt8("size"),
    Optional(Binary("high", length=2), When("peek(1) & 0x80 == 0x80")),
    Optional(Binary("short", length=UInt16), When("peek(2) == left - 2")),
    Optional(Binary("exact", length=2), When("0 < left == size")),
)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("00", {"size": 0}),
        ("028001", {"size": 2, "high": b"\x80\1"}),
        ("020001", {"size": 2, "exact": b"\0\1"}),
        ("030001", {"size": 3}),
        ("0000024142", {"size": 0, "short": b"AB"}),
        ("008001000143", {"size": 0, "high": b"\x80\1", "short": b"C"}),
    ],
)
def test_presence_by_lookahead(raw: str, expected: dict[str, Any]) -> None:
    data = bytes.fromhex(raw)
    packet = LOOKS(data)
    assert packet.values() == expected
    assert compiler.careful(LOOKS, b"\xff" + data + b"\xff", 1, 1 + len(data)).values == expected
    shown = {name: value.hex() if isinstance(value, bytes) else value for name, value in expected.items()}
    assert compiler.record(LOOKS, data + b"\xff", 0, len(data), Style())[0] == shown


def test_sizes_and_counts_in_earlier_fields() -> None:
    made = layer(
        UInt8("count"),
        UInt8("length"),
        Array("pairs", Pair, count="count"),
        Binary("data", length="length"),
        UInt8("size"),
        Array("bounded", UInt8("bounded"), count=None, size="size"),
        Rest("rest"),
    )
    data = bytes.fromhex("01 03 016101 62 aabbcc 02 0708 ff")
    expected = {
        "count": 1,
        "length": 3,
        "pairs": [{"left": "a", "right": "b"}],
        "data": b"\xaa\xbb\xcc",
        "size": 2,
        "bounded": [7, 8],
        "rest": b"\xff",
    }
    packet = made(data)
    assert packet.values() == compiler.careful(made, data, 0, len(data)).values == expected
    assert compiler.walk(made, data, 0, len(data)) == (expected, len(data))
    assert bytes(packet) == data


def test_an_element_must_not_reach_beyond_the_size_of_its_array() -> None:
    made = layer(UInt8("size"), Array("bounded", Text("called", length=UInt8), count=None, size="size"), Rest("rest"))
    data = bytes.fromhex("02 03616263")
    decoded = compiler.careful(made, data, 0, len(data))
    packet = made(data)
    assert decoded.problem is not None and packet.problem is not None
    assert decoded.problem.args == packet.problem.args
    with pytest.raises(compiler.FAILED):
        compiler.walk(made, data, 0, len(data))


def test_scapy_shows_names_and_units() -> None:
    made = layer(UInt16("v", names=NAMES), UInt32("size", unit="bytes"), Text("name_", length=UInt8))
    shown = str(made(bytes.fromhex("0001 00000007 0161")).show(dump=True))
    assert "one (1)" in shown
    assert "7 bytes" in shown


def test_missing_bytes_name_the_field_and_its_needs() -> None:
    short = Truncated("v", 4, 1, 9)
    assert (short.field, short.needed, short.had, short.start) == ("v", 4, 1, 9)


@pytest.mark.parametrize("raw", [b"plain", "漢".encode(), b"\xff\xfe", b"a\x80b", b"\xed\xa0\x80"])
def test_any_text_survives(raw: bytes) -> None:
    value = text(raw)
    assert value.encode("utf-8", "surrogateescape") == raw
    printable(value).encode("utf-8")


def test_redacted_values_show_the_length_only() -> None:
    assert redact(b"hunter2") == "<redacted 7 bytes>"


@pytest.mark.parametrize(
    ("milliseconds", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, -1),
        (951_782_400_001, "2000-02-29T00:00:00.001Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, 253_402_300_800_000),
    ],
)
def test_rfc3339_ms(milliseconds: int, expected: str | int) -> None:
    assert rfc3339_ms(milliseconds) == expected


def test_generated_layers_belong_to_the_package_that_made_them() -> None:
    made = type("Made", (Layer,), {"fields_desc": [UInt8("value")]})
    assert (made.__module__, made.__qualname__) == (Layer.__module__, "Made")
    for protocol in protocols():
        for layer in protocol.layers():
            assert layer.__module__.startswith("wiredecode.protocols."), layer
