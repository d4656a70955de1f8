"""The toy passes the kit, as a protocol of another package would."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import ClassVar

import pytest

from tests.conftest import in_one_test
from tests.toy.kv import KV, Error, Get, KVConversation, Value
from wiredecode.fields import Array, Float64, UInt8
from wiredecode.layer import Layer
from wiredecode.protocols.base import Start
from wiredecode.protocols.catalogue import catalogue
from wiredecode.testing import Case, Part, ProtocolTests, every, readers_agree

ASKED = bytes(Get(request_id=7, key="lamp")) + bytes(Get(request_id=8, key="door"))
TOLD = bytes(Error(request_id=8)) + bytes(Value(request_id=7, value=b"on"))


def test_readers_agree_on_unnamed_enumeration_values_in_arrays() -> None:
    class Results(Layer):
        filter_name = "results"
        fields_desc: ClassVar = [Array("results", UInt8("result", names={1: "good"}), count=None)]

    assert [readers_agree(Results, raw) for raw in (b"\x01\x80", b"")] == [True, True]
    assert [(entry.type, entry.values) for entry in catalogue([Results])] == [("array of names", {1: "good"})]


def test_in_one_test_runs_all_cases_and_names_those_that_fail() -> None:
    run = []

    @in_one_test("number", [1, 2, 3, 4], ids=["one", "two", "three", "four"])
    def odd(number: int, more: str) -> None:
        run.append(f"{number}{more}")
        assert number % 2, "even"

    assert [*signature(odd).parameters] == ["more"]
    with pytest.raises(AssertionError, match=r"^2 of 4 fail: two, four$") as failed:
        odd(more="x")
    assert "even" in str(failed.value.__cause__)
    assert run == ["1x", "2x", "3x", "4x"]


def test_readers_agree_on_nan_and_infinity() -> None:
    class Share(Layer):
        filter_name = "share"
        fields_desc: ClassVar = [Float64("share")]

    assert all(readers_agree(Share, raw) for raw in (b"\xff" * 8, b"\x7f\xf0" + bytes(6)))


def test_two_layers_of_one_name_are_both_tested() -> None:
    twins: list[type[Layer]] = [Get, type("Get", (Get,), {})]
    read: set[type[Layer]] = set()

    class Twins(ProtocolTests):
        protocol = KV

        @classmethod
        def layers(cls) -> list[type[Layer]]:
            return twins

        @classmethod
        def agree(cls, cases: Iterable[Case], **_: object) -> list[bool]:
            read.update(layer for layer, _ in cases)
            return [True]

    Twins().test_readers_agree_on_frames_made_from_the_declaration()
    assert read == {*twins}


class Broken(KV):
    def conversation(self, start: Start) -> KVConversation:
        made = KVConversation(start)
        made.waiting = None  # type: ignore[assignment]
        return made


class Silent(KV):
    def recognise(self, data: bytes, **_: object) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    ("one", "error"),
    [
        (Broken, r"AttributeError \(dissect/dissector.py:\d+, toy/kv.py:\d+\)"),
        (Silent, r"TypeError \(dissect/identify.py:\d+\)"),
    ],
)
def test_the_kit_reports_the_line_of_a_bug_in_a_protocol(one: type[KV], error: str) -> None:
    class TestBroken(ProtocolTests):
        protocol = one

    with pytest.raises(AssertionError, match=error):
        TestBroken.crafted([Part(1, 0, ASKED)], every(99))


class TestKV(ProtocolTests):
    protocol = KV
    vectors: ClassVar = [(Error, TOLD[:6]), (Value, TOLD[6:])]
    dialogues: ClassVar = {"asked and answered": [Part(1, 0, ASKED), Part(1, 1, TOLD)]}
    captures: ClassVar = [Path(__file__).with_name("kv.pcap")]
    steady: ClassVar = frozenset({"size"})
