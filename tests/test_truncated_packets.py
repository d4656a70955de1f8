"""Scapy's packets and trees show no value of truncated bytes (issue 12, point 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.damage import CAPTURES, cut_packets, dissect, read, topic
from wiredecode.fields.layer import Layer
from wiredecode.frames.frame import Frame
from wiredecode.view.notebook import frame_text

TEXT = {
    path.parent.name + "/" + path.name: path
    for path in (
        CAPTURES / "nats" / "06-headers.pcap",
        CAPTURES / "nats" / "12-grammar-variants.pcap",
        CAPTURES / "nats" / "04-request-reply.pcap",
        CAPTURES / "cursus" / "produce.pcap",
        CAPTURES / "cursus" / "seed-dialect.pcap",
        CAPTURES / "cursus" / "consume.pcap",
        CAPTURES / "pravega" / "errors.pcap",
    )
}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Layer):
        for name, inner in value.fields.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{index}]")
    else:
        yield path, value


def packet_fields(frame: Frame) -> dict[str, Any]:
    """The fields of the frame's packet, without blanks, whose place before the truncation is unknown."""
    return {path: value for path, value in leaves(frame.packet()) if not path.endswith("gap")}


@pytest.mark.parametrize("name", TEXT)
def test_fields_of_a_truncated_packet_equal_those_of_the_whole_one_or_are_missing(name: str) -> None:
    packets = read(TEXT[name])
    whole = {place: (frame, packet_fields(frame)) for place, frame in dissect(packets).frames.items() if frame.layer}
    compared = absent = 0
    for size in range(60, 131, 3):
        for place, frame in dissect(cut_packets(packets, size)).frames.items():
            if not frame.missing or place not in whole:
                continue
            other, said = whole[place]
            if frame.layer is not other.layer:  # the bytes that choose its layout are truncated
                continue
            cut = packet_fields(frame)
            assert {path: value for path, value in cut.items() if path not in said or said[path] != value} == {}, size
            compared += len(cut)
            absent += len(said.keys() - cut.keys())
    assert compared > 50 and absent > 50


def test_a_tree_shows_no_truncated_text() -> None:
    packets = read(TEXT["cursus/produce.pcap"]).part(0, 160)
    whole = {place: frame for place, frame in dissect(packets).frames.items() if topic(frame)}
    names = {topic(frame) for frame in whole.values()}
    seen = 0
    for size in range(76, 100, 3):
        kinds = set()  # of the same type, topic and number of missing bytes: truncated alike
        for place, frame in dissect(cut_packets(packets, size)).frames.items():
            kind = frame.type, frame.missing, place in whole and topic(whole[place])
            if frame.missing and place in whole and kind not in kinds:
                kinds.add(kind)
                topics = re.findall(r'─ topic: "(.*?)"', frame_text(frame, 100))
                assert {*topics} <= names
                seen += len(topics)
    assert seen > 20
