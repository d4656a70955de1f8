"""AMQP 1.0 messages: both readers agree, and hostile ones are refused."""

from __future__ import annotations

import json
import math
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.effort import calls, grows_with_length_only
from wiredecode.protocols.shared.amqp import AmqpNode, message, plain, reader, record
from wiredecode.protocols.shared.amqp.constructors import (
    CONSTRUCTORS,
    MAX_DEPTH,
    MAX_ZERO_WIDTH_ELEMENTS,
    Category,
    key_text,
    unused_key,
)

# Entries of real streams, by various clients and brokers.
VECTORS = {
    name: bytes.fromhex(text)
    for name, text in {
        "M01": ("005375a00f706c61696e206461746120626f6479"),
        "M02": (
            "005373c05b0da1056d69642d31a0056775657374a107616464722d746fa1047375626aa1027274a1056369642d31"
            "a30a746578742f706c61696ea3057574662d38830000018bcfe5687b830000018bcfe569c8a103677270522aa104"
            "72677270005375a00f776974682070726f70657274696573"
        ),
        "M03": ("005373c0130da00301020340404040534d40404040404040005375a00a62696e61727920696473"),
        "M04": ("005373c01e0d9812345678123456781234567812345678404040404040404040404040005375a00775756964206964"),
        "M05": (
            "005374c16914a103737472a10576616c7565a103696e745407a1036e656754fba103626967810000010000000000"
            "a104626f6f6c5601a1026e6f5600a105666c6f617482400a000000000000a1056279746573a002ff00a1046e6f6e"
            "6540a107756e69636f6465a105c3a9e6bca2005375a0096170702070726f7073"
        ),
        "M06": ("005372c11304a305782d6f7074a10176a3016e710000012c005375a009616e6e6f7461746564"),
        "M07": ("005370c00e0556015004700000ea6056015203005375a00b7769746820686561646572"),
        "M08": ("005377a114616e20616d71702d76616c756520737472696e67"),
        "M09": ("005377c11204a1016b5401a1016cc00703540154025403"),
        "M10": ("005376c011035401a10374776f824008000000000000"),
        "M11": ("005375a006666f6f746572005378c10702a30166a10176"),
        "M12": (
            "005373d0000000700000000d8000000b3a73ce2ff2a0056775657374a102746fa1077375626a656374a102727498"
            "0102030405060708090a0b0c0d0e0f10a3106170706c69636174696f6e2f6a736f6ea304677a6970830000018bcf"
            "e5687b830000018bcfe5687ba10367696470ffffffffa10472676964005375a017676f2070726f70657274696573"
            "20756c6f6e6720696473"
        ),
        "M13": (
            "005372d10000003c00000006a305782d737472a10176a306782d6c697374d00000000c000000035401a10374776f"
            "41a305782d6d6170d10000000900000002a1016b5501005375a00e676f20616e6e6f746174696f6e73"
        ),
        "M14": ("005375a000"),
        "M15": (
            "005372d10000002100000006a107782d6f70742d61a103616e6ea1036e756d7100000005a1016250c8005373d000"
            "0000590000000da1056d73672d31a0056775657374a102746fa1047375626aa1027274a106636f72722d31a30a74"
            "6578742f706c61696ea3057574662d38830000018bcfe5687b830000018bcfe569c8a101677000000007a1027267"
            "005374d10000001200000004a10161a10178a1016e710000002a005375a00f776974682065766572797468696e67"
        ),
        "M16": (
            "005370c00b05415003700000ea604143005372c15108a30d782d726f7574696e672d6b6579a1126334335f66726f"
            "6d3039312d73747265616da30a782d65786368616e6765a100a30c782d62617369632d74797065a1027479a30578"
            "2d6f7074a1046b657074005373c0480ba1036d2d31a00567756573744040a10a2f7175657565732f7271a103632d"
            "31a3106170706c69636174696f6e2f6a736f6ea3057574662d3840830000018bcfe56800a103617070005374c12f"
            "08a105682d737472a10176a105682d696e745405a106682d626f6f6c5601a106682d6c6f6e678100000100000000"
            "00005375a00a30393120626f64792031"
        ),
        "M17": (
            "005372c14c06a30d782d726f7574696e672d6b6579a113633331305f66726f6d3039312d73747265616da30a782d"
            "65786368616e6765a100a315782d62617369632d64656c69766572792d6d6f64655001005373c0330da124313233"
            "34353637382d313233342d353637382d313233342d35363738313233343536373840404040404040404040404000"
            "5375a00a30393120626f64792032"
        ),
        "M18": ("005377d0000000240000000571000000017100000002a105746872656540d000000009000000017100000004"),
        "M19": ("005377830000018bcfe5687b"),
        "M20": ("005377a30373796d"),
    }.items()
}

EXPIRY, CREATION = "2023-11-14T22:13:20.123Z", "2023-11-14T22:13:20.456Z"


def _data(text: bytes) -> list[str]:
    return [text.hex()]


EXPECTED: dict[str, dict[str, Any]] = {
    "M01": {"data": _data(b"plain data body")},
    "M02": {
        "properties": {
            "message_id": "mid-1",
            "user_id": b"guest".hex(),
            "to": "addr-to",
            "subject": "subj",
            "reply_to": "rt",
            "correlation_id": "cid-1",
            "content_type": "text/plain",
            "content_encoding": "utf-8",
            "absolute_expiry_time": EXPIRY,
            "creation_time": CREATION,
            "group_id": "grp",
            "group_sequence": 42,
            "reply_to_group_id": "rgrp",
        },
        "data": _data(b"with properties"),
    },
    "M03": {"properties": {"message_id": "010203", "correlation_id": 77}, "data": _data(b"binary ids")},
    "M04": {"properties": {"message_id": "12345678-1234-5678-1234-567812345678"}, "data": _data(b"uuid id")},
    "M05": {
        "application_properties": {
            "str": "value",
            "int": 7,
            "neg": -5,
            "big": 1099511627776,
            "bool": True,
            "no": False,
            "float": 3.25,
            "bytes": "ff00",
            "none": None,
            "unicode": "é漢",
        },
        "data": _data(b"app props"),
    },
    "M06": {"message_annotations": {"x-opt": "v", "n": 300}, "data": _data(b"annotated")},
    "M07": {
        "header": {
            "durable": True,
            "priority": 4,
            "ttl": 60000,
            "first_acquirer": True,
            "delivery_count": 3,
        },
        "data": _data(b"with header"),
    },
    "M08": {"value": "an amqp-value string"},
    "M09": {"value": {"k": 1, "l": [1, 2, 3]}},
    "M10": {"sequence": [[1, "two", 3.0]]},
    "M11": {"data": _data(b"footer"), "footer": {"f": "v"}},
    "M12": {
        "properties": {
            "message_id": 12345678901234,
            "user_id": b"guest".hex(),
            "to": "to",
            "subject": "subject",
            "reply_to": "rt",
            "correlation_id": "01020304-0506-0708-090a-0b0c0d0e0f10",
            "content_type": "application/json",
            "content_encoding": "gzip",
            "absolute_expiry_time": EXPIRY,
            "creation_time": EXPIRY,
            "group_id": "gid",
            "group_sequence": 4294967295,
            "reply_to_group_id": "rgid",
        },
        "data": _data(b"go properties ulong ids"),
    },
    "M13": {
        "message_annotations": {"x-str": "v", "x-list": [1, "two", True], "x-map": {"k": 1}},
        "data": _data(b"go annotations"),
    },
    "M14": {"data": [""]},
    "M15": {
        "message_annotations": {"x-opt-a": "ann", "num": 5, "b": 200},
        "properties": {
            "message_id": "msg-1",
            "user_id": b"guest".hex(),
            "to": "to",
            "subject": "subj",
            "reply_to": "rt",
            "correlation_id": "corr-1",
            "content_type": "text/plain",
            "content_encoding": "utf-8",
            "absolute_expiry_time": EXPIRY,
            "creation_time": CREATION,
            "group_id": "g",
            "group_sequence": 7,
            "reply_to_group_id": "rg",
        },
        "application_properties": {"a": "x", "n": 42},
        "data": _data(b"with everything"),
    },
    "M16": {
        "header": {
            "durable": True,
            "priority": 3,
            "ttl": 60000,
            "first_acquirer": True,
            "delivery_count": 0,
        },
        "message_annotations": {
            "x-routing-key": "c43_from091-stream",
            "x-exchange": "",
            "x-basic-type": "ty",
            "x-opt": "kept",
        },
        "properties": {
            "message_id": "m-1",
            "user_id": b"guest".hex(),
            "reply_to": "/queues/rq",
            "correlation_id": "c-1",
            "content_type": "application/json",
            "content_encoding": "utf-8",
            "creation_time": "2023-11-14T22:13:20.000Z",
            "group_id": "app",
        },
        "application_properties": {"h-str": "v", "h-int": 5, "h-bool": True, "h-long": 1099511627776},
        "data": _data(b"091 body 1"),
    },
    "M17": {
        "message_annotations": {
            "x-routing-key": "c310_from091-stream",
            "x-exchange": "",
            "x-basic-delivery-mode": 1,
        },
        "properties": {"message_id": "12345678-1234-5678-1234-567812345678"},
        "data": _data(b"091 body 2"),
    },
    "M18": {"value": [1, 2, "three", None, [4]]},
    "M19": {"value": EXPIRY},
    "M20": {"value": "sym"},
}


def _plain(node: AmqpNode, data: bytes, show: Callable[[bytes], str]) -> Any:
    """The value of a node as ``record`` gives it."""
    children = node.children
    match node.constructor.category:
        case Category.LIST:
            return [_plain(child, data, show) for child in children]
        case Category.MAP:
            entries: dict[str, Any] = {}
            for index, (key, value) in enumerate(zip(children[::2], children[1::2], strict=True)):
                text = key_text(plain(key, show)) if key.is_scalar else show(data[key.start : key.end])
                entries[unused_key(text, index, entries)] = _plain(value, data, show)
            return entries
        case Category.ARRAY:
            elements = [_plain(child, data, show) for child in children[1:]]
            return _described(children[0], elements, data, show) if children else elements
        case Category.DESCRIBED:
            return {"descriptor": _plain(children[0], data, show), "value": _plain(children[1], data, show)}
    return plain(node, show)


def _described(constructor: AmqpNode, value: Any, data: bytes, show: Callable[[bytes], str]) -> Any:
    """An array's elements share one descriptor, which is shown once around all elements."""
    if not constructor.children:
        return value
    descriptor, inner = constructor.children
    return {"descriptor": _plain(descriptor, data, show), "value": _described(inner, value, data, show)}


def _values(data: bytes, show: Callable[[bytes], str]) -> dict[str, Any]:
    """The record of a message, made from its nodes."""
    result: dict[str, Any] = {}
    for node in message(data) or []:
        body = node.children[1]
        if node.name in ("header", "properties"):
            fields = (child for child in body.children if child.code != 0x40)
            result[node.name] = {child.name: _plain(child, data, show) for child in fields}
        elif node.name in ("data", "sequence"):
            result.setdefault(node.name, []).append(_plain(body, data, show))
        else:
            result[node.name] = _plain(body, data, show)
    return result


def _both(data: bytes) -> dict[str, Any] | None:
    """The record, after making sure that both readers agree and that the nodes' bytes are the message."""
    fast, nodes = record(data, bytes.hex), message(data)
    assert (fast is None) == (nodes is None), data.hex()
    if nodes is None:
        return None
    assert [node.end for node in nodes] == [*(node.start for node in nodes[1:]), len(data)]
    slow = _values(data, bytes.hex)
    assert slow == fast and json.dumps(slow) == json.dumps(fast)  # the latter distinguishes True from 1
    return fast


def _value(encoded: str) -> Any:
    """The value of an amqp-value message, by both readers."""
    got = _both(bytes.fromhex("005377" + encoded))
    assert got is not None and list(got) == ["value"]
    return got["value"]


def _node(encoded: str) -> AmqpNode:
    nodes = message(bytes.fromhex("005377" + encoded))
    assert nodes is not None
    return nodes[0].children[1]


def _refused(encoded: str) -> bool:
    return _both(bytes.fromhex(encoded)) is None


@pytest.mark.parametrize("name", VECTORS)
def test_real_message(name: str) -> None:
    assert _both(VECTORS[name]) == EXPECTED[name]
    assert list(_both(VECTORS[name]) or {}) == list(EXPECTED[name])


def test_all_twenty_vectors_are_present() -> None:
    assert list(VECTORS) == list(EXPECTED) == [f"M{number:02}" for number in range(1, 21)]


@pytest.mark.parametrize("name", VECTORS)
def test_node_ranges_tile_the_message(name: str) -> None:
    data = VECTORS[name]

    def check(node: AmqpNode) -> None:
        position = None
        for child in node.children:
            assert node.start <= child.start <= child.end <= node.end
            assert position in (None, child.start)
            position = child.end
            check(child)
        if node.children:
            assert position == node.end

    sections = message(data)
    assert sections is not None
    assert [(node.start, node.end) for node in sections] == list(
        zip([0, *(node.end for node in sections[:-1])], [node.end for node in sections], strict=True)
    )
    assert sections[-1].end == len(data)
    for section in sections:
        check(section)


def test_names_types_and_encodings_of_nodes() -> None:
    properties = (message(VECTORS["M03"]) or [])[0]
    assert (properties.name, properties.type, properties.start, properties.end) == (
        "properties",
        "described",
        0,
        24,
    )
    descriptor, fields = properties.children
    assert (descriptor.type, descriptor.encoding, descriptor.value) == ("ulong", "smallulong", 0x73)
    assert (fields.type, fields.encoding, len(fields.children)) == ("list", "list8", 13)
    found = [(node.name, node.type, node.encoding, node.value, node.start, node.end) for node in fields.children]
    assert found[0] == ("message_id", "binary", "vbin8", b"\1\2\3", 6, 11)
    assert found[4] == ("reply_to", "null", "null", None, 14, 15)
    assert found[5] == ("correlation_id", "ulong", "smallulong", 77, 15, 17)
    pairs = (message(VECTORS["M06"]) or [])[0].children[1].children
    assert [(node.name, node.encoding) for node in pairs] == [
        ("key", "sym8"), ("x-opt", "str8-utf8"), ("key", "sym8"), ("n", "int"),
    ]  # fmt: skip


SCALARS = [
    ("40", "null", None),
    ("41", "true", True),
    ("42", "false", False),
    ("5600", "boolean", False),
    ("5601", "boolean", True),
    ("43", "uint0", 0),
    ("52ff", "smalluint", 255),
    ("70ffffffff", "uint", 2**32 - 1),
    ("44", "ulong0", 0),
    ("53ff", "smallulong", 255),
    ("80ffffffffffffffff", "ulong", 2**64 - 1),
    ("50ff", "ubyte", 255),
    ("5180", "byte", -128),
    ("60fffe", "ushort", 65534),
    ("618000", "short", -32768),
    ("54ff", "smallint", -1),
    ("7180000000", "int", -(2**31)),
    ("55fe", "smalllong", -2),
    ("818000000000000000", "long", -(2**63)),
    ("7240500000", "ieee-754", 3.25),
    ("727fc00000", "ieee-754", "NaN"),
    ("72ff800000", "ieee-754", "-Infinity"),
    ("82400a000000000000", "ieee-754", 3.25),
    ("827ff0000000000000", "ieee-754", "Infinity"),
    ("827ff8000000000001", "ieee-754", "NaN"),
    ("730001f600", "utf32", "\U0001f600"),
    ("730000d800", "utf32", 0xD800),
    ("73ffffffff", "utf32", 2**32 - 1),
    ("7401020304", "ieee-754", "01020304"),
    ("840102030405060708", "ieee-754", "0102030405060708"),
    ("94" + "0f" * 16, "ieee-754", "0f" * 16),
    ("830000000000000000", "ms64", "1970-01-01T00:00:00.000Z"),
    ("83ffffffffffffffff", "ms64", "1969-12-31T23:59:59.999Z"),
    ("83ffffc77cedd32800", "ms64", "0001-01-01T00:00:00.000Z"),
    ("83ffffc77cedd327ff", "ms64", -62135596800001),
    ("830000e677d21fdbff", "ms64", "9999-12-31T23:59:59.999Z"),
    ("830000e677d21fdc00", "ms64", 253402300800000),
    ("837fffffffffffffff", "ms64", 2**63 - 1),
    ("98" + "12345678" * 4, "uuid", "12345678-1234-5678-1234-567812345678"),
    ("a002ff00", "vbin8", "ff00"),
    ("b000000002ff00", "vbin32", "ff00"),
    ("a103c3a978", "str8-utf8", "éx"),
    ("b100000000", "str32-utf8", ""),
    ("b100000003c3a978", "str32-utf8", "éx"),
    ("a302616c", "sym8", "al"),
    ("b300000002616c", "sym32", "al"),
]
COMPOUNDS = [
    ("45", "list0", []),
    ("c00100", "list8", []),
    ("c0020140", "list8", [None]),
    ("d00000000500000001" + "45", "list32", [[]]),
    ("c10100", "map8", {}),
    ("c1050254015402", "map8", {"1": 2}),
    ("d10000000800000002" + "a1016b40", "map32", {"k": None}),
    ("e00100", "array8", []),
    ("e0020071", "array8", []),
    ("e004025401ff", "array8", [1, -1]),
    ("f00000000d0000000271" + "00000001" + "fffffffe", "array32", [1, -2]),
    ("e00702a1" + "0161" + "026263", "array8", ["a", "bc"]),
    ("e0020341", "array8", [True, True, True]),
    ("e0020245", "array8", [[], []]),
    ("e00702c0" + "0100" + "020140", "array8", [[], [None]]),
    ("e00601e0" + "03015005", "array8", [[5]]),
    ("e00601c1" + "03024040", "array8", [{"null": None}]),
    ("e00702" + "00530150" + "0506", "array8", {"descriptor": 1, "value": [5, 6]}),
    (
        "e00901" + "005301" + "005302" + "5007",
        "array8",
        {"descriptor": 1, "value": {"descriptor": 2, "value": [7]}},
    ),
    ("00a301645305", "described", {"descriptor": "d", "value": 5}),
    ("0000a3016145a10178", "described", {"descriptor": {"descriptor": "a", "value": []}, "value": "x"}),
]


@in_one_test(("encoded", "encoding", "expected"), SCALARS)
def test_scalar(encoded: str, encoding: str, expected: Any) -> None:
    got = _value(encoded)
    assert got == expected and type(got) is type(expected)
    assert _node(encoded).encoding == encoding
    assert _node(encoded).end == 3 + len(encoded) // 2


def test_every_assigned_code_is_tested() -> None:
    tested = {int(encoded[:2], 16) for encoded, *_ in SCALARS + COMPOUNDS}
    assert tested == {row.code for row in CONSTRUCTORS if row and row.type != "unknown"}


@in_one_test(("encoded", "encoding", "expected"), COMPOUNDS)
def test_compound(encoded: str, encoding: str, expected: Any) -> None:
    got = _value(encoded)
    assert got == expected and json.dumps(got) == json.dumps(expected)
    assert _node(encoded).encoding == encoding
    assert _node(encoded).end == 3 + len(encoded) // 2


def _payload_width(code: int) -> tuple[int, int]:
    """Width of the size field and of the payload that this test gives a code (part 1, section 1.2)."""
    fixed = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
    high = code >> 4
    return (0, fixed[high]) if high in fixed else (1 if high in (0xA, 0xC, 0xE) else 4, 3)


@in_one_test("code", [row.code for row in CONSTRUCTORS if row and row.type == "unknown"])
def test_unassigned_code_has_the_width_of_its_group(code: int) -> None:
    size, width = _payload_width(code)
    payload = bytes(range(1, width + 1))
    encoded = bytes([code]) + (width.to_bytes(size, "big") if size else b"") + payload
    assert _value(encoded.hex()) == payload.hex()
    body = bytes([2]) + encoded + b"\x54\x07"
    assert _value((b"\xc0" + bytes([len(body)]) + body).hex()) == [payload.hex(), 7]
    assert _node(encoded.hex()).type == "unknown"


@in_one_test("code", range(1, 0x40))
def test_no_constructor_below_0x40(code: int) -> None:
    assert _refused(f"005377{code:02x}00000000")
    for count in ("00", "01"):
        assert _refused(f"005377e002{count}{code:02x}")


def test_payloads_not_recoverable_from_their_value() -> None:
    for encoded, expected in [
        ("5602", True),
        ("a103c328ff", "\\xc3(\\xff"),
        ("a3045c786666", "\\xff"),  # the four characters, not one byte
        ("a301ff", "\\xff"),
        ("727f800001", "NaN"),
    ]:
        assert _value(encoded) == expected
    assert math.isnan(float(_node("727f800001").value or 0))


def test_bytes_are_shown_in_every_style() -> None:
    data = bytes.fromhex("005374c10d04a10162a003616263a0017840" + "005375a0026162")
    assert _both(data) is not None
    length = lambda payload: f"<{len(payload)}>"  # noqa: E731
    expected = {"application_properties": {"b": "<3>", "<1>": None}, "data": ["<2>"]}
    assert record(data, length) == expected
    assert _values(data, length) == expected


def test_map_keys_that_are_not_strings() -> None:
    keys = {
        "40": "null",
        "41": "true",
        "54ff": "-1",
        "5307": "7",
        "a0020102": "0102",
        "98" + "00" * 16: "00000000-0000-0000-0000-000000000000",
        "7240500000": "3.25",
        "45": "45",  # compound keys are shown as their bytes
        "c00100": "c00100",
        "c103024040": "c103024040",
        "0053015302": "0053015302",
    }
    items = b"".join(bytes.fromhex(key) + b"\x42" for key in keys)
    encoded = (b"\xc1" + bytes([len(items) + 1, 2 * len(keys)]) + items).hex()
    assert _value(encoded) == dict.fromkeys(keys.values(), False)
    assert [node.name for node in _node(encoded).children[1::2]] == list(keys.values())


def test_duplicate_keys_lose_nothing() -> None:
    items = "a1016b5401a1016b5402a1036b23315403a1016b5404"
    body = bytes([8]) + bytes.fromhex(items)
    got = _value((b"\xc1" + bytes([len(body)]) + body).hex())
    assert got == {"k": 1, "k#1": 2, "k#1#2": 3, "k#3": 4}


def test_surplus_fields_of_a_list_are_kept() -> None:
    assert _both(bytes.fromhex("005370c0080641504040404354ff".replace("4150", "4141"))) is None  # size is wrong
    got = _both(bytes.fromhex("005370c00907414040404054ff40"))
    assert got == {"header": {"durable": True, "field_5": -1}}


def test_header_and_properties_as_empty_list() -> None:
    assert _both(bytes.fromhex("00537045005373c00100005377" + "40")) == {
        "header": {},
        "properties": {},
        "value": None,
    }


@pytest.mark.parametrize(
    ("descriptor", "section"),
    [
        ("800000000000000075", "data"),
        ("a310" + b"amqp:data:binary".hex(), "data"),
        ("b300000010" + b"amqp:data:binary".hex(), "data"),
        ("5375", "data"),
    ],
)
def test_descriptor_spellings(descriptor: str, section: str) -> None:
    assert _both(bytes.fromhex(f"00{descriptor}a00161")) == {section: ["61"]}
    assert _both(bytes.fromhex(f"00{descriptor}b00000000161")) == {section: ["61"]}


@pytest.mark.parametrize(
    ("symbol", "name", "body"),
    [
        ("amqp:header:list", "header", "45"),
        ("amqp:delivery-annotations:map", "delivery_annotations", "c10100"),
        ("amqp:message-annotations:map", "message_annotations", "c10100"),
        ("amqp:properties:list", "properties", "45"),
        ("amqp:application-properties:map", "application_properties", "c10100"),
        ("amqp:amqp-sequence:list", "sequence", "45"),
        ("amqp:amqp-value:*", "value", "40"),
        ("amqp:footer:map", "footer", "c10100"),
    ],
)
def test_symbolic_descriptors(symbol: str, name: str, body: str) -> None:
    got = _both(b"\0\xa3" + bytes([len(symbol)]) + symbol.encode() + bytes.fromhex(body))
    assert got is not None and list(got) == [name]


SECTION_BYTES = {
    "header": "00537045",
    "delivery_annotations": "005371c10100",
    "message_annotations": "005372c10100",
    "properties": "00537345",
    "application_properties": "005374c10100",
    "data": "005375a00161",
    "sequence": "00537645",
    "value": "00537740",
    "footer": "005378c10100",
}
ORDER = list(SECTION_BYTES)
RANK = {name: min(index, 5) if name != "footer" else 6 for index, name in enumerate(ORDER)}


@in_one_test("first", ORDER)
@in_one_test("second", ORDER)
def test_order_of_sections(first: str, second: str) -> None:
    got = _both(bytes.fromhex(SECTION_BYTES[first] + SECTION_BYTES[second]))
    if RANK[first] < RANK[second]:
        assert got is not None and list(got) == [first, second]
    elif first == second and first in ("data", "sequence"):
        assert got is not None and len(got[first]) == 2
    else:
        assert got is None


def test_all_sections_with_two_bodies() -> None:
    order = [*ORDER[:6], "data", "footer"]
    got = _both(bytes.fromhex("".join(SECTION_BYTES[name] for name in order)))
    assert got is not None
    assert list(got) == [*ORDER[:6], "footer"]
    assert got["data"] == ["61", "61"]


@pytest.mark.parametrize("name", [name for name in ORDER if name != "value"])
def test_section_with_a_value_of_another_type(name: str) -> None:
    for wrong in ("40", "5401", "a10161", "00534045"):
        assert _refused(SECTION_BYTES[name][:6] + wrong)


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "00",
        "0053",
        "005375",
        "005375a0",
        "005375a001",
        "005375a0016162",  # a byte too many
        "005375a00161" + "00",
        "005375a00161" + "61",
        "105375a00161",
        "005279a00161",  # unknown section
        "0052" + "75a00161",  # uint, not ulong
        "004175a00161",
        "0080" + "0000000000000175" + "a00161",
        "0080000075",
        "00a310" + b"amqp:data:binar".hex(),
        b"b".hex() * 40,
        "005375b0ffffffff61",
        "005377c00240",
        "005377c0",
        "005377c000",
        "005377c00000",
        "005377c0020240",  # two items announced
        "005377c0030140" + "40",  # one announced, two there
        "005377c103034040" + "40",
        "005377c10201" + "40",  # odd map
        "005377d0ffffffff00000001" + "40",
        "005377d000000005ffffffff" + "40",
        "005377c00501" + "c0040140" + "40",  # inner list longer than the outer
        "005377c00401a1056162",
        "0053777100",
        "005377" + "00",
        "005377" + "0040",
        "005377e0020171",
        "005377e0050171000000",
        "005377e00102",
        "005370c0080a4040404040" + "40",
    ],
)
def test_bytes_that_are_not_amqp(encoded: str) -> None:
    assert _refused(encoded)


def _nested(levels: int, opening: bytes = b"\xd0") -> bytes:
    heads = [opening + (5 + 9 * inside).to_bytes(4, "big") + b"\0\0\0\1" for inside in reversed(range(levels - 1))]
    return b"\0\x53\x77" + b"".join(heads) + b"\x45"


def test_nesting_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _both(_nested(MAX_DEPTH)) is not None
    assert _both(_nested(MAX_DEPTH + 1)) is None
    monkeypatch.setattr(reader, "MAX_DEPTH", MAX_DEPTH + 1)
    assert _both(_nested(MAX_DEPTH + 1)) is not None


HEAD = b"\0\x53\x77"
ENDLESS: dict[str, Callable[[int], bytes]] = {
    "lists": lambda count: _nested(count // 8),
    "zeros": lambda count: HEAD + b"\0" * count,
    "described nulls": lambda count: HEAD + b"\0\x40" * count,
    "an array of described nulls": lambda count: HEAD + b"\xf0\0\1\0\0\0\0\0\1" + b"\0\x40" * count,
    "an array of zeros": lambda count: HEAD + b"\xf0\0\1\0\0\0\0\0\1" + b"\0" * count,
    "short lists": lambda count: HEAD + b"\xc0\xff\1" * count,
    "short arrays": lambda count: HEAD + b"\xe0\xff\1" * count,
    "short maps": lambda count: HEAD + b"\xc1\xff\2" * count,
    "no section": lambda count: b"\0" * count,
}


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_nesting_is_refused_quickly(name: str) -> None:
    def refuse(count: int) -> Callable[[], None]:
        data = ENDLESS[name](count)

        def both() -> None:
            assert _both(data) is None

        return both

    assert grows_with_length_only(refuse, 4_000)


def test_element_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"\0\x53\x77\xd0" + (4 + 1000).to_bytes(4, "big") + (1000).to_bytes(4, "big") + b"\x40" * 1000
    assert _both(data) == {"value": [None] * 1000}
    for limit, fits in [(1001, True), (1000, False)]:  # the section counts as well
        monkeypatch.setattr(reader, "MAX_ELEMENTS", limit)
        assert (_both(data) is not None) == fits


def test_elements_without_width_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def array(count: int) -> bytes:
        return b"\0\x53\x77\xf0\0\0\0\5" + count.to_bytes(4, "big") + b"\x40"

    assert _both(array(MAX_ZERO_WIDTH_ELEMENTS)) == {"value": [None] * MAX_ZERO_WIDTH_ELEMENTS}
    for count in (MAX_ZERO_WIDTH_ELEMENTS + 1, 2**32 - 1):
        assert _both(array(count)) is None
    two = b"\0\x53\x77\xc0\x09\2" + b"\xe0\2\x03\x40" * 2
    for limit, fits in [(6, True), (5, False)]:  # counted over the whole message
        monkeypatch.setattr(reader, "MAX_ZERO_WIDTH_ELEMENTS", limit)
        assert (_both(two) is not None) == fits


@pytest.mark.parametrize("code", ["d0", "d1", "f0"])
@pytest.mark.parametrize("item", ["50", "a1", "80", "c0"])
def test_counts_larger_than_the_bytes_cost_nothing(code: str, item: str) -> None:
    def refuse(count: str) -> Callable[[], None]:
        data = bytes.fromhex(f"005377{code}00000006{count}{item}00")

        def both() -> None:
            assert _both(data) is None

        return both

    few = calls(refuse("00000008"))
    assert max(calls(refuse("fffffffe")), calls(refuse("0003fff0"))) <= few + 8


@pytest.mark.parametrize("unit", ["5375a000", "00a3", "e0020041", "c10100", "45", "a100", "c1010040"])
def test_time_grows_with_length_only(unit: str) -> None:
    def read(repeats: int) -> Callable[[], None]:
        items = bytes.fromhex(unit) * repeats
        count = repeats if unit in ("45", "a100", "c10100", "e0020041") else 2 * repeats
        data = HEAD + b"\xd0" + (4 + len(items)).to_bytes(4, "big") + count.to_bytes(4, "big") + items

        def both() -> None:
            record(data, bytes.hex)
            message(data)

        return both

    assert grows_with_length_only(read, 300)


def test_many_duplicate_keys_are_not_quadratic() -> None:
    def read(pairs: int) -> Callable[[], None]:
        items = b"\xa1\1k\x40" * pairs
        data = HEAD + b"\xd1" + (4 + len(items)).to_bytes(4, "big") + (2 * pairs).to_bytes(4, "big") + items

        def values() -> None:
            got = record(data, bytes.hex)
            assert got is not None and len(got["value"]) == pairs

        return values

    assert grows_with_length_only(read, 500)


def test_plain_text_and_json_are_not_amqp() -> None:
    for text in (b"hello world", b'{"a": 1}', b"\0", b"\0\0\0\x05hello", b"\0Sunday"):
        assert _both(text) is None


def _mutant(dice: random.Random) -> bytes:
    data = bytearray(dice.choice(POOL))
    for _ in range(dice.choice([1, 1, 1, 2, 3])):
        where = dice.randrange(len(data))
        match dice.randrange(5):
            case 0:
                data[where] = dice.randrange(256)
            case 1:
                data[where] ^= 1 << dice.randrange(8)
            case 2:
                data[where] = dice.choice(CODES)
            case 3:
                del data[where : where + dice.randint(1, 3)]
            case _:
                data[where:where] = bytes(dice.choice(CODES) for _ in range(dice.randint(1, 3)))
        if not data:
            return b""
    return bytes(data)


CODES = [row.code for row in CONSTRUCTORS if row and row.type != "unknown"] + [0x53, 0xFF, 0x7F, 0x01, 0x02]
POOL = [
    *VECTORS.values(),
    *(bytes.fromhex("005377" + encoded) for encoded, *_ in SCALARS + COMPOUNDS),
    bytes.fromhex("".join(SECTION_BYTES[name] for name in [*ORDER[:6], "footer"])),
]


def test_mutations_never_raise_and_both_readers_agree() -> None:
    dice = random.Random("amqp")
    outcomes = [_both(_mutant(dice)) is not None for _ in range(8000)]
    assert 1000 < sum(outcomes) < 7000


def test_random_bytes_after_a_section_start() -> None:
    dice = random.Random("amqp tail")
    accepted = 0
    for _ in range(8000):
        tail = bytes(
            dice.choice(CODES) if dice.random() < 0.5 else dice.randrange(8) for _ in range(dice.randint(1, 12))
        )
        accepted += _both(b"\0\x53\x77" + tail) is not None
    assert accepted > 100


def test_numbers_equal_those_of_struct() -> None:
    dice = random.Random("numbers")
    for code, layout in [(0x70, ">I"), (0x71, ">i"), (0x80, ">Q"), (0x81, ">q"), (0x82, ">d"), (0x61, ">h")]:
        for _ in range(20):
            payload = dice.randbytes(struct.calcsize(layout))
            expected = struct.unpack(layout, payload)[0]
            if expected == expected:
                assert _value(f"{code:02x}{payload.hex()}") == expected
