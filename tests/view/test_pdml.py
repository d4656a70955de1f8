"""PDML: one XML document for any frames, with the byte ranges of fields and without bytes of secrets."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import wiredecode
from wiredecode.cli.app import run
from wiredecode.view.pdml import attribute

CAPTURES = Path(__file__).parents[2] / "captures"
BASIC = CAPTURES / "rabbitmq-stream" / "c43_basic.pcap"
SOME = (
    BASIC,
    CAPTURES / "liftbridge" / "31-lb-all-types.pcap",
    CAPTURES / "pravega" / "errors.pcap",
    CAPTURES / "cursus" / "seed-dialect.pcap",
    CAPTURES / "tank" / "tank_d1_snaplen96.pcap",
    CAPTURES / "hostile" / "12a-controls-rabbitmq.pcap",
)


def document(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, ElementTree.Element]:
    run(["pcap", *map(str, words), "-T", "pdml", "-q"])
    text = capsys.readouterr().out
    return text, ElementTree.fromstring(text)


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_every_frame_is_a_packet_with_the_bytes_of_its_fields(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, root = document(capsys, path)
    packets = root.findall("packet")
    frames = list(wiredecode.read(path))
    assert [packet.find("proto[@name='geninfo']/field[@name='num']").get("show") for packet in packets] == [
        str(frame.id) for frame in frames
    ]
    fields = 0
    for packet, frame in zip(packets, frames, strict=True):
        for one in packet.findall("proto"):
            if one.get("name") in ("geninfo", "frame"):
                continue
            for field in one.iter("field"):
                value = field.get("value")
                if value is not None:
                    first = int(field.get("pos", ""))
                    assert bytes.fromhex(value) == frame.data[first : first + int(field.get("size", ""))]
                    fields += 1
    assert fields > len(frames)


def test_secrets_have_no_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = (BASIC, "-Y", 'frame.type == "SaslAuthenticate"')
    text, root = document(capsys, *chosen)
    field = root.find(".//field[@name='rabbitmq_stream.data']")
    assert field is not None and field.get("show") == "<redacted 12 bytes>" and field.get("value") is None
    assert b"\0guest\0guest".hex() not in text
    text, _ = document(capsys, *chosen, "--show-secrets")
    assert b"\0guest\0guest".hex() in text


def test_a_capture_without_frames_is_a_valid_document(capsys: pytest.CaptureFixture[str]) -> None:
    _, root = document(capsys, BASIC, "-Y", "frame.length > 999999")
    assert root.tag == "pdml" and len(root) == 0


def test_characters_that_xml_cannot_hold_are_escaped() -> None:
    text = "a\0b\x1b<&\">'\n\ufffe\U0001f600"
    shown = ElementTree.fromstring(f"<x a={attribute(text)}/>").get("a")
    assert shown == "a\\x00b\\x1b<&\">'\n\\xfffe\U0001f600"
