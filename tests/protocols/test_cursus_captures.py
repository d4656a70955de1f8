"""Whole captures of Cursus: compared with their truth, in other segments, on other ports, and damaged."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CAPTURES
from tests.net.craft import batches
from tests.protocols.truth_cursus import check
from tests.support import (
    Cutting,
    Run,
    craft,
    dialogue,
    dissect,
    every,
    meaning,
)
from wiredecode.capture import open_capture
from wiredecode.frames.record import record
from wiredecode.protocols.cursus.protocol import Cursus
from wiredecode.protocols.rabbitmq_stream.protocol import RabbitMQStream

FOLDER = CAPTURES / "cursus"
FILES = sorted(FOLDER.glob("*.pcap"))
DAMAGED = {"produce.drop1pct", "produce.midconn", "produce.snap96", "produce.s2c-only"}
WHOLE = [path for path in FILES if path.stem not in DAMAGED]
CUT = [path for path in WHOLE if path.stem in ("stream", "comp-gzip", "seed-dialect", "txn")]

each_file = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
each_whole_file = pytest.mark.parametrize("path", WHOLE, ids=[path.stem for path in WHOLE])

RUNS: dict[Path, Run] = {}


def run_of(path: Path) -> Run:
    if path not in RUNS:
        RUNS[path] = dissect(open_capture([path]), known=(Cursus(),))
    return RUNS[path]


def truth_of(path: Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((FOLDER / f"{path.stem}.truth.json").read_text())
    return truth


def crafted(run: Run, cut: Cutting, port: int = 9000) -> Run:
    return dissect(batches(craft(dialogue(run), cut, server_port=port)), known=(Cursus(),))


def said(run: Run) -> list[dict[str, Any]]:
    """The records of frames without their connection."""
    records = []
    for frame in run.frames:
        what = meaning(frame)
        del what["connection"]
        records.append(what)
    return records


@each_file
def test_a_capture_agrees_with_its_truth(path: Path) -> None:
    assert check(path, truth_of(path)) == []


def test_a_wrong_truth_fails_the_comparison() -> None:
    path = FOLDER / "stream.pcap"
    for change in ("field", "frame", "pair"):
        truth = copy.deepcopy(truth_of(path))
        stream = truth["streams"][0]
        if change == "field":
            stream["frames"][0]["decode"]["params"]["topic"] = "other"
        elif change == "frame":
            stream["frames"].append({**stream["frames"][-1], "stream_offset": 1})
        else:
            stream["pairs"][0]["responses"].pop()
        assert check(path, truth) != [], change


@pytest.mark.parametrize("path", CUT, ids=[path.stem for path in CUT])
def test_the_port_does_not_matter(path: Path) -> None:
    assert said(crafted(run_of(path), every(1460), port=40123)) == said(crafted(run_of(path), every(1460)))


def pairs(run: Run) -> set[tuple[Any, ...]]:
    place = {frame.number: (frame.source, frame.offset) for frame in run.frames}
    return {(place[frame.request], place[frame.number]) for frame in run.frames if frame.request is not None}


def test_reordered_packets_keep_the_pairs() -> None:
    assert pairs(run_of(FOLDER / "group.ooo-dup.pcap")) == pairs(run_of(FOLDER / "group.pcap"))


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_a_damaged_capture_invents_nothing(name: str) -> None:
    base = {(frame.source, frame.data): (frame.type, frame.values) for frame in run_of(FOLDER / "produce.pcap").frames}
    run = run_of(FOLDER / f"{name}.pcap")
    assert run.totals.closes
    for frame in run.frames:
        if frame.status != "partial":
            assert base[frame.source, frame.data] == (frame.type, frame.values)
        else:
            assert frame.missing > 0
            assert any(data.startswith(frame.data) for source, data in base if source == frame.source)


def test_pairing_continues_after_lost_bytes() -> None:
    """A gap inside a frame of known length hides no frame, so the order of replies is still known."""
    assert pairs(run_of(FOLDER / "produce.drop1pct.pcap")) == pairs(run_of(FOLDER / "produce.pcap"))


def test_a_late_start_still_has_senders_and_pairs() -> None:
    run = run_of(FOLDER / "produce.midconn.pcap")
    assert all(frame.sender for frame in run.frames)
    assert sum(frame.request is not None for frame in run.frames) > 20


@each_whole_file
def test_no_other_protocol_claims_cursus(path: Path) -> None:
    run = dissect(open_capture([path]), known=(RabbitMQStream(),))
    assert run.frames == []


class Greedy(Cursus):
    ports = tuple(range(1, 65536))


def test_cursus_claims_no_other_protocol() -> None:
    for path in sorted((CAPTURES / "rabbitmq-stream").glob("c*basic*.pcap")):
        assert dissect(open_capture([path]), known=(Greedy(),)).frames == []


def test_names_of_ranges_are_record_keys() -> None:
    found = 0
    for frame in run_of(FOLDER / "produce.pcap").frames:
        shown = record(frame, ranges=True)
        for key in {key for key, _ in frame.layer.record_paths(frame.values)} if frame.layer is not None else ():
            span, value = shown["ranges"][f"cursus.{key}"], shown["layers"]["cursus"][key]
            assert frame.data[slice(*span)].decode() == (value if isinstance(value, str) else json.dumps(value))
            found += 1
    assert found > 150
