"""Bit fields, and computed lengths and counts: declared once, equal in all three readers."""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

import pytest

from tests.conftest import in_one_test
from wiredecode.fields import (
    Array,
    Binary,
    Bits,
    CountOf,
    LengthOf,
    Optional,
    PresenceOf,
    UInt8,
    UInt16,
    UInt32,
    When,
    compiler,
)
from wiredecode.fields.layer import Layer, Style


class Connect(Layer):
    fields_desc: ClassVar[Any] = [
        *(Bits("named", 1, fill=PresenceOf("user", "alias")), Bits("spare", 3), Bits("size", 12, fill=LengthOf())),
        Optional(UInt16("user"), When("named")),
        Optional(UInt8("alias"), When("named and left")),
    ]


@pytest.mark.parametrize(
    ("values", "raw"),
    [
        ({}, "0000"),
        ({"user": 0x0102}, "80020102"),
        ({"alias": 3}, "800103"),
        ({"user": 0x0102, "named": 0}, "00020102"),
    ],
)
def test_bits_are_computed(values: dict[str, int], raw: str) -> None:
    assert bytes(Connect(**values)).hex() == raw


class Publish(Layer):
    fields_desc: ClassVar[Any] = [
        Bits("type", 4, default=3, names={3: "PUBLISH"}),
        Bits("dup", 1),
        Bits("qos", 2),
        Bits("retain", 1),
        UInt8("remaining", fill=LengthOf()),
        Bits("high", 13, default=0x1234),
        Bits("low", 3),
        Optional(UInt16("packet_id"), When("qos > 0")),
        UInt16("size"),
        UInt8("count"),
        UInt32("crc", fill=lambda layer, following: zlib.crc32(following["data"])),
        Binary("data", length="size"),
        Array("numbers", UInt16("number"), count="count"),
    ]


BUILT = bytes(Publish(qos=2, retain=1, low=5, packet_id=0x0102, data=b"abc", numbers=[0x0304, 0x0506]))


def test_bits_lengths_and_counts_are_computed() -> None:
    expected = "35 12 91a5 0102 0003 02 352441c2 616263 0304 0506"
    assert bytes.fromhex(expected) == BUILT
    assert Publish(BUILT).qos == 2
    assert bytes(Publish(BUILT)) == BUILT


def test_explicit_values_are_kept() -> None:
    packet = Publish(remaining=9, size=1, count=0, crc=7, data=b"abc")
    assert bytes(packet) == bytes.fromhex("30 09 91a0 0001 00 00000007 616263")


@in_one_test("change", range(256))
def test_the_readers_agree_on_every_value_of_the_bits(change: int) -> None:
    raw = bytes([change, BUILT[1], BUILT[2], change, *BUILT[4:]])
    scapy, careful = Publish.within(raw, 0, len(raw)), compiler.careful(Publish, raw, 0, len(raw))
    assert careful.values == scapy.values()
    assert careful.ranges == scapy.flat_ranges()
    assert careful.ranges["type"] == careful.ranges["retain"] == (0, 1)
    assert careful.ranges["low"] == (2, 4)
    if careful.problem is None:
        assert compiler.walk(Publish, raw, 0, len(raw))[0] == {**scapy.values()}
        assert bytes(scapy)[: scapy.stop] == raw[: scapy.stop]
        record, reached = compiler.record(Publish, raw, 0, len(raw), Style())
        assert (record, reached) == (Publish.present(scapy.values(), Style()), scapy.stop)


def test_bits_must_fill_an_integer() -> None:
    with pytest.raises(TypeError, match="a, b: 7 bits fill no integer"):
        type("Odd", (Layer,), {"fields_desc": [Bits("a", 3), Bits("b", 4), UInt8("c")]})


def test_a_length_can_count_some_fields_and_more() -> None:
    class Made(Layer):
        fields_desc: ClassVar[Any] = [
            UInt8("total", fill=LengthOf("label", "data", plus=2)),
            UInt8("items", fill=CountOf("numbers", plus=1)),
            Binary("label", length=UInt8),
            Binary("data", length=UInt8),
            Array("numbers", UInt8("number"), count=UInt8),
        ]

    assert bytes(Made(label=b"xy", data=b"z", numbers=[7, 8])) == b"\x07\x03\x02xy\x01z\x02\x07\x08"
