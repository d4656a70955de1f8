"""Every test vector of Pravega: read by every reader and built to its bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import in_one_test
from tests.protocols.truth_pravega import fields
from tests.support import STYLE, build
from wiredecode.fields import compiler
from wiredecode.fields.compiler import Decoded
from wiredecode.protocols.pravega import layers
from wiredecode.protocols.pravega.conversation_appends import rebuild
from wiredecode.protocols.pravega.evidence import CURRENT, KNOWN, alternatives, choose
from wiredecode.protocols.pravega.layers import HEADER, WireMessage
from wiredecode.protocols.pravega.layers_kinds import JavaString, JavaText, encode_java, lenient_java, strict_java
from wiredecode.protocols.pravega.layers_older import proposal
from wiredecode.protocols.pravega.messages import walk
from wiredecode.protocols.pravega.names import PROPOSAL
from wiredecode.testing import readers_agree

TABLE: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "pravega_vectors.json").read_text())
MESSAGES = TABLE["messages"] + TABLE["encoded"] + TABLE["older"]


def ids(vectors: list[dict[str, Any]]) -> list[str]:
    return [f"{vector['name']} {vector.get('note') or vector.get('release', '')}" for vector in vectors]


each_message = in_one_test("vector", MESSAGES, ids=ids(MESSAGES))


def layer_of(raw: bytes) -> type[WireMessage]:
    code = HEADER.unpack_from(raw)[0]
    layer = choose((CURRENT[code], *alternatives(code)), raw, 0, len(raw))
    assert layer is not None
    return layer


def parity(layer: type[WireMessage], raw: bytes) -> Decoded:
    """Assert that all readers agree on any bytes."""
    readers_agree(layer, raw)
    return compiler.careful(layer, raw, 0, len(raw))


def test_the_table_is_complete() -> None:
    sizes = {name: len(vectors) for name, vectors in TABLE.items()}
    assert sizes == {
        "messages": 58,
        "encoded": 116,
        "sequences": 8,
        "older": 17,
        "proposal": 16,
        "text_read": 30,
        "text_write": 13,
    }
    assert {vector["name"] for vector in TABLE["encoded"]} == {layer.type_name for layer in CURRENT.values()}


@each_message
def test_all_readers_give_the_values(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    layer = layer_of(raw)
    assert layer.type_name == vector["name"]
    assert not list(fields(parity(layer, raw).values, vector["fields"]))


@each_message
def test_rebuilding_from_values_gives_the_same_bytes(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    layer = layer_of(raw)
    values = compiler.careful(layer, raw, 0, len(raw)).values
    assert bytes(build(layer, {**values, "message_length": None})) == raw


@each_message
def test_the_header_and_nested_lengths_are_filled_in(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    layer = layer_of(raw)
    values = compiler.careful(layer, raw, 0, len(raw)).values
    assert bytes(build(layer, without_lengths(values))) == raw


def without_lengths(values: Any) -> Any:
    if isinstance(values, list):
        return [without_lengths(value) for value in values]
    if not isinstance(values, dict):
        return values
    left_out = ("message_length", "message_type", "total", "data_length")
    return {name: without_lengths(value) for name, value in values.items() if name not in left_out}


# Text


@in_one_test("case", TABLE["text_read"], ids=ids(TABLE["text_read"]))
def test_text_is_read_as_java_reads_it(case: dict[str, Any]) -> None:
    announced, raw = int(case["hex"][:4], 16), bytes.fromhex(case["hex"])[2:]
    expected = case["utf16"]
    if announced != len(raw):
        assert expected is None or announced < len(raw)
        raw = raw[:announced]
        if announced > len(raw):
            return
    if expected is None:
        with pytest.raises(UnicodeDecodeError):
            strict_java(raw)
        shown = lenient_java(raw)
        assert isinstance(shown, JavaString) and shown.flaw
    else:
        assert utf16(strict_java(raw)) == expected
    assert encode_java(lenient_java(raw)) == raw


@pytest.mark.parametrize("case", TABLE["text_write"], ids=[case["hex"] for case in TABLE["text_write"]])
def test_text_is_written_as_java_writes_it(case: dict[str, Any]) -> None:
    text = bytes.fromhex(case["utf16"].replace(" ", "")).decode("utf-16-be", "surrogatepass")
    assert JavaText("text").write(text, layers.Hello()) == bytes.fromhex(case["hex"])


def utf16(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex(" ", 2)


def test_text_longer_than_its_length_field_is_refused() -> None:
    assert len(JavaText("text").write("a" * 65_535, layers.Hello())) == 65_537
    with pytest.raises(OverflowError):
        JavaText("text").write("a" * 65_536, layers.Hello())


def test_a_lone_surrogate_is_spelled_out_in_records() -> None:
    raw = bytes(layers.SegmentSealed(request_id=1, segment="\ud83d!"))
    assert compiler.record(layers.SegmentSealed, raw, 0, len(raw), STYLE)[0]["segment"] == "\\ud83d!"


# Append sequences


@pytest.mark.parametrize("vector", TABLE["sequences"], ids=ids(TABLE["sequences"]))
def test_appends_are_reassembled_from_blocks(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["hex"])
    first = HEADER.size + HEADER.unpack_from(raw)[1]
    block = compiler.walk(layers.AppendBlock, raw, 0, first)[0]
    stop = first + HEADER.size + HEADER.unpack_from(raw, first)[1]
    end = compiler.walk(layers.AppendBlockEnd, raw, first, stop)[0]
    rebuilt = rebuild(block["data"], end["size_of_whole_events"], end["data"])
    assert rebuilt.data is not None and rebuilt.problem is None
    walked = walk(rebuilt.data)
    assert [rebuilt.data[start:stop].decode() for start, stop in walked.bounds] == vector["events"]
    assert walked.position == len(rebuilt.data)


@pytest.mark.parametrize(
    ("block", "whole", "rest", "problem"),
    [
        (bytes(11), 99, b"", "block-size"),
        (bytes(11), -1, b"", "block-size"),
        (bytes(14), 11, b"", "block-tail"),
        (HEADER.pack(0, 0), 0, b"", "block-tail"),
        (HEADER.pack(-2, 5) + b"12", 0, b"", "block-tail"),
        (HEADER.pack(-1, 2) + bytes(2), 0, b"x", "padded-event"),
    ],
)
def test_blocks_with_wrong_totals(block: bytes, whole: int, rest: bytes, problem: str) -> None:
    rebuilt = rebuild(block, whole, rest)
    assert rebuilt.problem is not None and rebuilt.problem[0] == problem


# The proposal


@pytest.mark.parametrize("step", TABLE["proposal"], ids=[step["label"] for step in TABLE["proposal"]])
def test_messages_of_the_proposal(step: dict[str, Any]) -> None:
    raw, expected = bytes.fromhex(step["hex"]), step["expect"]
    names = expected.get("types", [expected.get("type")])
    for name in names:
        stop = HEADER.size + HEADER.unpack_from(raw)[1]
        layer = proposal(PROPOSAL)[HEADER.unpack_from(raw)[0]]
        assert layer.type_name == name
        parity(layer, raw[:stop])
        values = compiler.careful(layer, raw, 0, stop).values
        assert bytes(build(layer, {**values, "message_length": None})) == raw[:stop]
        raw = raw[stop:]
    assert not raw


# Keys without bytes


def test_an_empty_key_has_no_version() -> None:
    assert bytes(layers.TableKey()) == bytes.fromhex("0000000c00000000")


def test_an_empty_key_with_a_version_is_read_too() -> None:
    key = bytes.fromhex("0000000c00000000ffffffffffffffff")
    body = HEADER.pack(0, 7) + b"\0\1t\0\0" + (1).to_bytes(4) + key
    raw = HEADER.pack(78, len(body)) + body
    assert layer_of(raw) is layers.ReadTableEager
    parity(layers.ReadTableEager, raw)


def test_type_codes_fit_one_byte() -> None:
    assert all(-127 <= code <= 127 for code in KNOWN)
