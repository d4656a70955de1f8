"""The line of a frame that was said before is put together from texts: byte for byte what the encoder makes of it."""

from __future__ import annotations

from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.net.craft import batches
from tests.protocols.rabbitmq_vectors import BY_NAME, VECTORS
from tests.support import Part, capture_files, craft, dissect, every
from wiredecode.capture import open_capture
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import BYTES, RecordLines, dumps, record
from wiredecode.protocols import reading
from wiredecode.protocols.rabbitmq_stream import layers as rs
from wiredecode.protocols.rabbitmq_stream.conversation import DECODERS

CAPTURES = Path(__file__).parent.parent / "captures"
SMALL = [path for path in capture_files() if path.stat().st_size < 50_000]
HANDSHAKES = "c43_tls.pcap"
"""Frames of TLS alone, no two of which are the same."""
NASTY = ["", 'a"b', "back\\slash", "\x00\x1f\x7f\n\t", "ü€😀", "\u2028</script>", "x" * 400, "{}{{%s"]


def made_of(parts: list[Part]) -> Any:
    return batches(craft(parts, every(1460)))


def same_lines(source: Any, style: Style, *, ranges: bool = False) -> tuple[int, int]:
    """Hold the lines of a capture, read twice over, to its records; how many there are, and how many were texts."""
    as_text = Style(style.show, style.secrets, text=True)
    expected = [dumps(record(frame, ranges=ranges)) for frame in dissect(source(), style=style).frames]
    texts = 0
    for _ in range(2):
        lines, frames = RecordLines(ranges=ranges), dissect(source(), style=as_text).frames
        for line, frame in zip_longest(expected, frames):
            assert lines.line(frame) == line
        texts = sum(frame.layers_text is not None for frame in frames)
    return len(expected), texts


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_every_capture_gives_the_same_lines(path: Path) -> None:
    count, texts = same_lines(partial(open_capture, [path]), Style())
    assert texts or not count or path.name == HANDSHAKES, "read a second time, there are texts"


@pytest.mark.parametrize("protocol", ["nats", "tank", "cursus", "pravega", "liftbridge"])
def test_other_protocols_give_the_same_lines(protocol: str) -> None:
    path = min((CAPTURES / protocol).glob("*.pcap*"), key=lambda path: path.stat().st_size)
    assert same_lines(partial(open_capture, [path]), Style())[0]


@pytest.mark.parametrize("secrets", [False, True])
@pytest.mark.parametrize("choice", BYTES)
def test_vectors_in_every_style(choice: str, secrets: bool) -> None:
    parts = [Part(index, side, vector.raw) for side in (0, 1) for index, vector in enumerate(VECTORS, 1)]
    count, texts = same_lines(partial(made_of, parts), Style(BYTES[choice], secrets), ranges=choice == "hex")
    assert texts > count // 3


@pytest.mark.parametrize("words", NASTY, ids=range(len(NASTY)))
def test_nasty_text_and_extremes_of_numbers(words: str) -> None:
    frames: list[Any] = [BY_NAME["V01"].layer(BY_NAME["V01"].raw)]
    frames += [rs.Subscribe(stream=words, offset_type=4, offset=number) for number in (0, 2**63, 2**64 - 1)]
    frames += [rs.Subscribe(stream=words, offset_type=5, timestamp=number) for number in (-(2**63), -1, 0, 2**63 - 1)]
    frames += [rs.DeclarePublisher(correlation_id=7, publisher_reference=words, stream=words)]
    raw = [bytes(frame) for frame in frames]
    count, texts = same_lines(partial(made_of, [Part(1, 0, b"".join(raw * 2))]), Style())
    assert (count, texts) == (2 * len(raw), 2), "properties may hold secrets: only DeclarePublisher is remembered"


def test_text_that_is_not_utf_8_has_no_fast_way() -> None:
    for bad in (b"\xff", b"\xed\xa0\x80", b"ok\xc3"):
        raw = bytes(rs.Create(stream="abcd"[: len(bad)])).replace(b"abcd"[: len(bad)], bad)
        assert same_lines(partial(made_of, [Part(1, 0, BY_NAME["V01"].raw), Part(1, 0, raw * 3)]), Style()) == (4, 0)


def test_a_frame_with_a_hole_or_surplus_bytes_is_never_taken_for_one_that_was_whole() -> None:
    whole = bytes(rs.Open(correlation_id=1, virtual_host="/"))
    surplus = (int.from_bytes(whole[:4], "big") + 1).to_bytes(4, "big") + whole[4:] + b"x"
    cut = len(whole).to_bytes(4, "big") + whole[4:]
    parts = [Part(1, 0, BY_NAME["V01"].raw), Part(1, 0, whole * 2 + surplus * 2 + cut)]
    style = Style(text=True)
    frames = dissect(made_of(parts), style=style).frames
    assert [frame.layers_text is not None for frame in frames[:6]] == [False, False, True, False, False, False]
    same_lines(partial(made_of, parts), Style())


def test_frames_said_again_are_told_apart_by_every_byte_and_by_who_says_them() -> None:
    parts = [
        Part(connection, 0, bytes(rs.Open(correlation_id=correlation, virtual_host=host)))
        for connection in range(1, 4)
        for correlation in (1, 2, 1)
        for host in "/a"
    ]
    assert same_lines(partial(made_of, parts), Style()) == (18, 18)


def remembered() -> int | None:
    """How many Open frames are remembered; None if that was given up."""
    known = DECODERS[0x15 << 16 | 1]._known
    return None if known is None else len(known)


def test_what_is_never_said_again_is_not_remembered_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_KNOWN", 8)
    style = Style(text=True)
    new = [bytes(rs.Open(correlation_id=number, virtual_host="/")) for number in range(40)]
    dissect(made_of([Part(1, 0, BY_NAME["V01"].raw), Part(1, 0, b"".join(new))]), style=style)
    assert remembered() is None
    style = Style(text=True)
    again = [raw for raw in new for _ in range(3)]
    dissect(made_of([Part(1, 0, BY_NAME["V01"].raw), Part(1, 0, b"".join(again))]), style=style)
    assert 0 < (remembered() or 0) <= 8


def test_secrets_are_not_remembered() -> None:
    style = Style(text=True)
    login = bytes(rs.SaslAuthenticate(correlation_id=1, mechanism="PLAIN", data=b"\0user\0password"))
    frames = dissect(made_of([Part(1, 0, BY_NAME["V01"].raw), Part(1, 0, login * 3)]), style=style).frames
    assert [frame.layers_text for frame in frames[1:]] == [None, None, None]


def second_time(path: Path) -> list[Frame]:
    """The frames of a capture that was read before."""
    style = Style(text=True)
    dissect(open_capture([path]), style=style)
    return dissect(open_capture([path]), style=style).frames


def test_keys_of_an_object_are_unique_with_generated_fields() -> None:
    texts = 0
    for path in SMALL:
        for frame in second_time(path):
            if frame.layers_text is not None and frame.layer is not None:
                texts += 1
                assert not frame.generated.keys() & {kind.name for kind in frame.layer.fields_desc}
    assert texts > 100


def test_a_record_can_be_had_of_a_frame_that_has_a_text() -> None:
    path = SMALL[0]
    frames = second_time(path)
    assert any(frame.layers_text is not None for frame in frames)
    for frame, as_text in zip(dissect(open_capture([path])).frames, frames, strict=True):
        assert record(frame) == record(as_text)
