"""Whole captures of Pravega: against their truth, in other segments, on other ports, damaged, and other protocols."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CAPTURES
from tests.net.craft import batches
from tests.protocols.truth_pravega import check, started_late
from tests.support import (
    Cutting,
    Part,
    Run,
    craft,
    dialogue,
    dissect,
    every,
    meaning,
)
from wiredecode.capture import CaptureError, open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.base import Rejected, Undecided, Verdict
from wiredecode.protocols.pravega.names import SERVER_TYPES
from wiredecode.protocols.pravega.protocol import Pravega
from wiredecode.protocols.registry import DecodeAs

FOLDER = CAPTURES / "pravega"
FILES = sorted(FOLDER.glob("*.pcap"))
WHOLE = [path for path in FILES if path.stem != "midstream"]
PORT = 12345
SEGMENTS = every(1460)
OTHERS_BYTES = 100_000
"""Captures of other protocols above this size take too long for a test."""

each_file = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
each_whole_file = pytest.mark.parametrize("path", WHOLE, ids=[path.stem for path in WHOLE])

RUNS: dict[Path, Run] = {}


def run_of(path: Path) -> Run:
    if path not in RUNS:
        RUNS[path] = dissect(open_capture([path]), known=(Pravega(),))
    return RUNS[path]


def crafted(parts: list[Part], cut: Cutting = SEGMENTS, port: int = PORT, **options: Any) -> Run:
    return dissect(batches(craft(parts, cut, server_port=port)), known=(Pravega(),), **options)


def truth_of(path: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(path.with_suffix(".truth.json").read_text())
    return truth


def said(run: Run) -> list[dict[str, Any]]:
    """The contents of frames by connection and direction, without times."""
    keep = ("side", "offset", "length", "type", "code", "status", "values", "layers", "findings", "sender")
    frames = [{**{key: meaning(frame)[key] for key in keep}, "dialect": frame.dialect} for frame in run.frames]
    number = {frame.number: index for index, frame in enumerate(run.frames)}
    for frame, contents in zip(run.frames, frames, strict=True):
        contents["request"] = number.get(frame.request or 0)
    return frames


@each_file
def test_the_capture_agrees_with_its_truth(path: Path) -> None:
    assert check(path, truth_of(path)) == []


@each_file
def test_every_byte_is_accounted_for(path: Path) -> None:
    totals = run_of(path).totals
    assert totals.closes and not totals.other
    assert (totals.undecoded > 0) == any(started_late(truth_of(path)))


@each_whole_file
def test_every_reply_has_its_request(path: Path) -> None:
    alone = [frame for frame in run_of(path).frames if frame.type in SERVER_TYPES and frame.request is None]
    assert alone == []


@each_whole_file
@pytest.mark.parametrize("port", [40404, 5552, 4222])
def test_the_port_does_not_matter(path: Path, port: int) -> None:
    parts = dialogue(run_of(path))
    moved = crafted(parts, port=port)
    assert said(moved) == said(crafted(parts))
    assert not moved.totals.undecoded and not moved.totals.other


@pytest.mark.parametrize("stem", ["append_basic", "read_cuts", "tables", "segment_admin"])
def test_a_late_start_costs_no_later_frame(stem: str) -> None:
    parts = dialogue(run_of(FOLDER / f"{stem}.pcap"))
    whole = crafted(parts)
    for start in range(2, 12):
        late = late_start(parts[start:])
        base = {(frame.type, frame.data) for frame in whole.frames}
        assert late.totals.closes
        assert all((frame.type, frame.data) in base for frame in late.frames if frame.type)
        assert not late.totals.undecoded, start


def late_start(parts: list[Part], cut_first: int = 0) -> Run:
    first = parts[0]
    parts = [Part(first.connection, first.side, first.data[cut_first:]), *parts[1:]]
    packets = craft(parts, every(1460), server_port=PORT, handshake=False)
    return dissect(batches(packets), known=(Pravega(),))


@pytest.mark.parametrize("cut", [1, 3, 7, 9, 20, 40, 60])
def test_a_late_start_inside_a_message_finds_the_next_one(cut: int) -> None:
    parts = dialogue(run_of(FOLDER / "append_basic.pcap"))
    run = late_start(parts[6:], cut)
    assert run.totals.closes
    assert run.totals.undecoded < 600
    assert len([frame for frame in run.frames if frame.type]) >= len(dialogue(run_of(FOLDER / "append_basic.pcap"))) - 9


@pytest.mark.parametrize("stem", ["append_basic", "read_cuts", "tables", "seed_dialect"])
def test_a_lost_segment_invents_nothing(stem: str) -> None:
    parts = dialogue(run_of(FOLDER / f"{stem}.pcap"))
    packets = craft(parts, every(97), server_port=PORT)
    base = {place(frame): (frame.type, frame.length) for frame in crafted(parts).frames}
    for lost in range(3, len(packets), 5):
        damaged = dissect(batches([*packets[:lost], *packets[lost + 1 :]]), known=(Pravega(),))
        assert damaged.totals.closes
        for frame in damaged.frames:
            if frame.type is not None:
                assert base.get(place(frame)) == (frame.type, frame.length), (lost, frame.type, frame.offset)


def place(frame: Frame) -> tuple[str, str, int]:
    return frame.source, frame.destination, frame.offset


def test_a_dialect_can_be_forced() -> None:
    parts = dialogue(run_of(FOLDER / "seed_dialect.pcap"))
    forced = crafted(parts, decode_as={PORT: DecodeAs(Pravega(), "proposal")})
    assert [frame.type for frame in forced.frames] == [
        frame.type for frame in run_of(FOLDER / "seed_dialect.pcap").frames
    ]
    assert {frame.dialect for frame in forced.frames} == {"proposal"}
    other = crafted(parts, decode_as={PORT: DecodeAs(Pravega(), "wire")})
    assert {frame.dialect for frame in other.frames} == {"wire"}
    assert "PartialEvent" in {frame.type for frame in other.frames}


def others() -> list[Path]:
    return [
        path
        for path in sorted(CAPTURES.glob("*/*"))
        if path.parent.name not in ("pravega", "hostile", "reports")
        and ".pcap" in path.name
        and not path.name.endswith(".json")
        and path.stat().st_size < OTHERS_BYTES
    ]


class Everywhere(Pravega):
    """Pravega with every port as usual port."""

    def recognise(self, data: bytes, *, started: bool, final: bool, port: bool) -> Verdict | Undecided | Rejected:
        return super().recognise(data, started=started, final=final, port=True)


@pytest.mark.parametrize("protocol", [Pravega(), Everywhere()], ids=["no port", "its port"])
def test_traffic_of_other_protocols_is_not_claimed(protocol: Pravega) -> None:
    claimed = []
    for path in others():
        try:
            run = dissect(open_capture([path]), known=(protocol,), style=None)
        except CaptureError:
            continue
        claimed += [(path.name, frame.type) for frame in run.frames if frame.protocol != "tls"]
    assert claimed == []
