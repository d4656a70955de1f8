"""The text of a record is byte for byte what the encoder makes of the record, whatever way it was made."""

from __future__ import annotations

import random
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from tests.net.craft import batches
from tests.protocols.rabbitmq_vectors import BY_NAME, VECTORS
from tests.support import Part, capture_files, craft, dissect, every
from wiredecode import amqp, compiler, jsontext
from wiredecode.capture import open_capture
from wiredecode.export.records import BYTES, RecordLines, dumps, record
from wiredecode.fields import (
    Array,
    Binary,
    Flags,
    Int64,
    Optional,
    Peek,
    Struct,
    Text,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Uuid,
)
from wiredecode.layer import Layer, Style
from wiredecode.protocols.rabbitmq_stream import layers as rs
from wiredecode.protocols.rabbitmq_stream.chunk import Chunk, ChunkEntry

CAPTURES = Path(__file__).parent.parent / "captures"
SMALL = [path for path in capture_files() if path.stat().st_size < 50_000]


def made_of(parts: list[Part]) -> Any:
    return batches(craft(parts, every(1460)))


def lines_of(source: Any, style: Style, *, ranges: bool = False) -> tuple[list[bytes], list[bytes], int]:
    """The lines of a capture by record and by text, and how many of the latter were texts."""
    as_text = Style(style.show, style.secrets, text=True)
    lines = RecordLines(ranges=ranges)
    expected = [dumps(record(frame, ranges=ranges)) for frame in dissect(source(), style=style).frames]
    frames = dissect(source(), style=as_text).frames
    return expected, [lines.line(frame) for frame in frames], sum(frame.text is not None for frame in frames)


def assert_same(expected: list[bytes], found: list[bytes]) -> None:
    for one, other in zip_longest(expected, found):
        assert one == other


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_every_capture_gives_the_same_lines(path: Path) -> None:
    expected, found, texts = lines_of(partial(open_capture, [path]), Style())
    assert_same(expected, found)
    assert texts or not expected, "the fast way was taken"


@pytest.mark.parametrize("protocol", ["nats", "tank", "cursus", "pravega", "liftbridge"])
def test_protocols_without_texts_give_the_same_lines(protocol: str) -> None:
    path = min((CAPTURES / protocol).glob("*.pcap*"), key=lambda path: path.stat().st_size)
    expected, found, _ = lines_of(partial(open_capture, [path]), Style())
    assert expected
    assert_same(expected, found)


@pytest.mark.parametrize("secrets", [False, True])
@pytest.mark.parametrize("choice", BYTES)
def test_vectors_in_every_style(choice: str, secrets: bool) -> None:
    raw = [vector.raw for vector in VECTORS]
    parts = [Part(index, side, frame) for side in (0, 1) for index, frame in enumerate(raw, 1)]
    expected, found, texts = lines_of(partial(made_of, parts), Style(BYTES[choice], secrets), ranges=choice == "hex")
    assert_same(expected, found)
    assert texts > len(raw) // 2


def agree(layer: type[Layer], raw: bytes, style: Style) -> bool:
    """Hold a text to the record; whether there is one."""
    decode = jsontext.decoder(layer, style)
    assert decode is not None
    try:
        values, text, reached = decode(raw, 0, len(raw))
    except compiler.FAILED:
        return False
    shown, stop = compiler.record(layer, raw, 0, len(raw), style)
    number_entries(shown)
    assert orjson.dumps({layer.filter_name: shown}) == f"{text}}}}}".encode()
    assert (values, reached) == (compiler.head(layer, raw, 0, len(raw)), stop)
    return True


def number_entries(shown: dict[str, Any]) -> None:
    """What the conversation adds to records."""
    chunk = shown.get("chunk", {})
    for index, entry in enumerate(chunk.get("entries", ())):
        entry["offset"] = chunk["chunk_id"] + index


def test_mutated_frames_give_the_same_text_and_the_same_values_or_none() -> None:
    chance = random.Random(7)
    texts = failed = 0
    for vector in VECTORS:
        if not jsontext.possible(vector.layer):
            continue
        for _ in range(30):
            raw = bytearray(vector.raw)
            for _ in range(chance.randint(0, 3)):
                raw[chance.randrange(len(raw))] = chance.choice((0, 1, 0x22, 0x5C, 0x7F, 0x80, 0xFF))
            cut = bytes(raw[: chance.choice((len(raw), chance.randint(0, len(raw))))])
            if agree(vector.layer, cut, Style(text=True)):
                texts += 1
            else:
                failed += 1
    assert texts > 300 and failed > 300


class Inside(Layer):
    fields_desc: ClassVar[Any] = [
        Optional(Text("first", length=UInt32), Peek(0xFF, 0)),
        Optional(UInt8("second"), Peek(0x80, 0x80)),
    ]

    @classmethod
    def minimum(cls) -> int:
        return 1


class Everything(Layer):
    filter_name = "everything"
    fields_desc: ClassVar[Any] = [
        Optional(UInt16("maybe"), Peek(0xFF, 1)),
        UInt64("large"),
        Int64("small"),
        UInt8("named", names={1: 'quote " and \\ and \x1b', 2: "ß"}),
        Flags("flags", names={1: 'a"', 2: "b"}),
        Text("words"),
        Text("none", null=0xFFFF),
        Text("hidden", secret=True),
        Binary("nothing", null=0xFFFFFFFF),
        Uuid("uuid"),
        Array("texts", Text("texts")),
        Array("names", UInt8("names", names={1: "one"})),
        Array("numbers", Int64("numbers")),
        Struct("inside", Inside),
        Array("insides", Inside),
        Array("bulk", Inside, bulk=True),
    ]


TEXTS = ["", 'a"b', "back\\slash", "\x00\x1f\x7f\n\t", "ü€😀", "\u2028</script>", "x" * 5000, "{}{{%s"]


@pytest.mark.parametrize("secrets", [False, True])
@pytest.mark.parametrize("choice", BYTES)
@pytest.mark.parametrize("words", TEXTS, ids=range(len(TEXTS)))
def test_every_kind_with_every_nasty_value(words: str, choice: str, secrets: bool) -> None:
    style = Style(BYTES[choice], secrets, text=True)
    for number in (0, 1, 2, 255):
        inside = [Inside(second=0x80), Inside(first=words, second=0xFF), Inside(first=words)]
        made = Everything(
            **({"maybe": 0x0100 + number} if number % 2 else {}),
            large=2**64 - 1 - number,
            small=-(2**63) + number,
            named=number,
            flags=number,
            words=words,
            none=words if number else None,
            hidden=words,
            nothing=words.encode() if number else None,
            uuid=bytes(range(16)),
            texts=[words] * number,
            names=[number, 1],
            numbers=[-1, 2**63 - 1, -(2**63)][:number],
            inside=inside[number % 3],
            insides=inside[: number % 4],
            bulk=inside,
        )
        if not number % 2:
            made.large = number  # does not begin like the optional field
        assert agree(Everything, bytes(made), style)


def test_text_that_is_not_utf_8_has_no_fast_way() -> None:
    for bad in (b"\xff", b"\xed\xa0\x80", b"ok\xc3"):
        raw = bytes(rs.Create(stream="abcd"[: len(bad)])).replace(b"abcd"[: len(bad)], bad)
        assert not agree(rs.Create, raw, Style(text=True))
        parts = [Part(1, 0, BY_NAME["V01"].raw), Part(1, 0, raw)]
        expected, found, texts = lines_of(partial(made_of, parts), Style())
        assert_same(expected, found)
        assert (len(found), texts) == (2, 1)


def test_sub_batches_are_left_to_the_record() -> None:
    raw = bytes(rs.Deliver(chunk=Chunk(entries=[ChunkEntry(data=b"a"), ChunkEntry(data=b"\0Su\xa0\x01b")])))
    assert agree(rs.Deliver, raw, Style(text=True))
    entry = raw.index(b"\0\0\0\x01a")
    assert not agree(rs.Deliver, raw[:entry] + b"\x80" + raw[entry + 1 :], Style(text=True))


@pytest.mark.parametrize("choice", BYTES)
def test_what_a_message_carries_is_the_same_as_text(choice: str) -> None:
    bodies = (b"", b"abc", bytes(range(256)) * 2)
    messages = [b"\0Su\xa0" + bytes([len(body) % 256]) + body for body in bodies]
    messages += [b"\0Su\xb0" + len(body).to_bytes(4, "big") + body for body in bodies]
    messages += [messages[0] + messages[3], messages[1][:-1], messages[4] + b"x", b"", b"\0", b"\0Su\xb0", b"\0Su\xa0"]
    messages += [b'\0Sw\xa1\x03a"\\', b"\0Sr\xc1\x07\x02\xa1\x01\x1b\xa1\x00" + b"\0Sw\x40"]
    show = BYTES[choice]
    known = 0
    for message in messages:
        sections = amqp.record(message, show)
        expected = "" if sections is None else f',"amqp":{orjson.dumps(sections).decode()}'
        assert amqp.text(message, show, message.hex() if choice == "hex" else "") == expected
        known += bool(expected)
    assert known >= 6


def test_frames_said_again_are_not_mixed_up() -> None:
    parts = []
    for connection in range(1, 4):
        for correlation in (1, 2, 1):
            parts.append(Part(connection, 0, bytes(rs.Open(correlation_id=correlation, virtual_host="/"))))
            parts.append(Part(connection, 0, bytes(rs.Open(correlation_id=correlation, virtual_host="a"))))
    expected, found, texts = lines_of(partial(made_of, parts), Style())
    assert_same(expected, found)
    assert texts == len(found) == len(parts)


def test_keys_of_an_object_are_unique_with_generated_fields() -> None:
    for path in SMALL:
        for frame in dissect(open_capture([path]), style=Style(text=True)).frames:
            if frame.text is not None and frame.layer is not None:
                assert not frame.generated.keys() & {kind.name for kind in frame.layer.fields_desc}


def test_a_record_can_be_had_of_a_frame_that_was_read_as_text() -> None:
    path = capture_files()[0]
    frames = zip(
        dissect(open_capture([path])).frames, dissect(open_capture([path]), style=Style(text=True)).frames, strict=True
    )
    for frame, as_text in frames:
        assert record(frame) == record(as_text)


def test_the_generated_decoder_can_be_read() -> None:
    assert '"publishing_id":{publishing_id_' in jsontext.source(rs.Publish)
