"""A condition on presence is one expression: Scapy's reader and the compiled decoders agree on it."""

from __future__ import annotations

import itertools
import random
from typing import Any, ClassVar

import pytest

from wiredecode.fields import Int16, Optional, Rest, UInt8, UInt16, When, compiler
from wiredecode.layer import Layer

EXPRESSIONS = (
    *("left", "left >= 3", "not left - 1", "left == size", "0 < left == size", "True"),
    *("flags & 4 == 4", "flags & 6", "not flags & 4", "flags >> 1 == 3", "flags in (0, 1, 6)", "flags not in (3, 4)"),
    *("flags == size", "flags - size > -3", "size == 0x0102", "2 < flags < 6", "-1 == size", "flags | 1 == 7"),
    *("has(early)", "not has(early)", "early == 258", "not early == 258", "early > 1 or flags == 6", "early & 1"),
    *("peek(1) & 0x80 == 0x80", "peek(2) == left - 2", "peek(4) > 0x01020304", "not peek(2)", "flags == peek(1)"),
    *("left_of(size) > 0", "left_of(size) >= 2 and peek(2) == 0", "flags == 2 and not (left == 2 or has(early))"),
)


def layer(expression: str) -> type[Layer]:
    class Made(Layer):
        fields_desc: ClassVar[Any] = [
            UInt8("flags"),
            Int16("size"),
            Optional(UInt16("early"), When("flags in (1, 5, 6)")),
            Optional(UInt8("late"), When(expression)),
            Rest("end"),
        ]

    return Made


def inputs() -> list[bytes]:
    dice = random.Random(7)
    sizes = [b"\0\0", b"\0\1", b"\0\2", b"\1\2", b"\xff\xff", b"\0\5"]
    ends = [b"", b"\0", b"\0\0", b"\0\2\3", b"\1\2\1\2", b"\x81\1\7", b"\1\2\3\4\5", b"\0\0\0\0\0\0\0"]
    made = [bytes([flags]) + size + end for flags, size, end in itertools.product(range(8), sizes, ends)]
    return made + [bytes(dice.choices((0, 1, 2, 5, 6, 0x81, 0xFF), k=dice.randrange(12))) for _ in range(300)]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_readers_agree_on_presence(expression: str) -> None:
    made, raws = layer(expression), inputs()
    expected = [made.within(raw, 0, len(raw)) for raw in raws]
    there = {"late" in packet.fields for packet in expected if packet.problem is None}
    assert there == ({True} if expression == "True" else {True, False})
    for raw, packet in zip(raws, expected, strict=True):
        careful = compiler.careful(made, raw, 0, len(raw))
        assert (careful.values, careful.ranges) == (packet.values(), packet.flat_ranges()), raw
        if packet.problem is None:
            assert compiler.walk(made, b"\xff" + raw + b"\xff", 1, 1 + len(raw))[0] == packet.values()


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("flags &", "not a condition"),
        ("flags.bit", "cannot hold 'flags.bit'"),
        ("[flags]", "cannot hold"),
        ("flags if 1 else 2", "cannot hold"),
        ("(lambda: 1)()", "cannot hold"),
        ("flags / 2", "cannot hold"),
        ("flags ** 9999999", "cannot hold"),
        ("open('x')", r"open\(\) cannot be called so"),
        ("peek(flags)", r"peek\(\) cannot be called so"),
        ("peek(9)", r"peek\(\) cannot be called so"),
        ("has('early')", r"has\(\) cannot be called so"),
        ("flags == 1.5", "cannot hold '1.5'"),
        ("flgas == 1", "no field flgas before it"),
        ("end == b''", "no field end before it"),
        ("has(later)", "no field later before it"),
    ],
)
def test_an_invalid_condition_is_refused_at_declaration(expression: str, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        layer(expression)
