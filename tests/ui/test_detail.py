"""The lines of a frame's tree know their field: its name, whole value and bytes."""

from __future__ import annotations

from typing import cast

from rich.tree import Tree

from tests.ui.support import CAPTURES
from wiredecode.capture import open_capture
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.frame import Frame
from wiredecode.ui.detail import Branch, branches
from wiredecode.view.tree import frame_tree
from wiredecode.view.values import Raw, whole_text


def lines(name: str) -> list[tuple[Frame, Branch]]:
    frames = Dissector(Demand(style=Style(Raw))).frames(open_capture([CAPTURES / name]))
    return [(frame, each) for frame in frames for each in branches(cast("Tree", frame_tree(frame)))]


def test_a_value_is_copied_whole() -> None:
    assert whole_text("é" * 400) == "é" * 400
    assert whole_text(Raw(b"\xff" * 300)) == "0x" + "ff" * 300
    assert whole_text([Raw(b"a" * 400), None, 7]) == f"[{'a' * 400}, null, 7]"
    shortened = [(frame, each) for frame, each in lines("rabbitmq-stream/c43_large.pcap") if "…" in each.line.plain]
    assert shortened and all(len(each.value) > 300 and "…" not in each.value for _, each in shortened)


def test_a_value_of_an_amqp_message_has_its_name_and_its_bytes() -> None:
    found = [
        (frame.data[each.line.span[0] : each.line.span[1]], each.value)
        for frame, each in lines("rabbitmq-stream/c43_filter.pcap")
        if each.path.endswith(".amqp.application_properties.region") and each.line.span is not None
    ]
    assert found and all(data.endswith(value.encode()) for data, value in found)


def test_ranges_of_decompressed_bytes_mark_no_bytes_of_the_frame() -> None:
    spans = [(each.line.span, frame) for frame, each in lines("cursus/comp-gzip.pcap") if each.line.span is not None]
    assert spans and all(span[1] <= len(frame.data) for span, frame in spans)
