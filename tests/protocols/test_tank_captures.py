"""TANK on captures of the project: truth, accounts, readers, derived captures, other segments, other ports."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.net.craft import batches
from tests.protocols import truth_tank
from tests.protocols.tank_vectors import VECTORS
from tests.protocols.test_tank_vectors import decoded
from tests.protocols.truth_tank import tank
from tests.support import (
    Cutting,
    Run,
    craft,
    dialogue,
    dissect,
    every,
    lossy,
    meaning,
    seen,
)
from wiredecode.capture import CaptureError, open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.catalogue import catalogue, generated_entries
from wiredecode.protocols.tank.protocol import Tank

CAPTURES = Path(__file__).parent.parent.parent / "captures"
FOLDER = CAPTURES / "tank"
ORIGINALS = sorted(path for path in FOLDER.glob("*.pcap*") if "_d" not in path.name)
DERIVED = sorted(path for path in FOLDER.glob("*.pcap*") if "_d" in path.name)
SMALL = [path for path in ORIGINALS if path.stat().st_size < 13_000]
"""Of larger frames the readers are compared on the vectors."""


def by_name(path: Path) -> str:
    return path.name.partition(".")[0]


def truth_of(path: Path) -> dict[str, object]:
    records_by_place: dict[str, object] = json.loads((FOLDER / f"{by_name(path)}.truth.json").read_text())
    return records_by_place


@pytest.mark.parametrize("path", ORIGINALS, ids=by_name)
def test_a_capture_agrees_with_the_accounts_of_client_and_broker(path: Path) -> None:
    assert truth_tank.check(path, truth_of(path)) == []


@pytest.mark.parametrize("path", ORIGINALS + DERIVED, ids=by_name)
def test_every_byte_is_accounted_for(path: Path) -> None:
    totals = tank(path).totals
    assert totals.closes
    assert (totals.undecoded, dict(totals.other)) == (0, {})
    assert (totals.missing > 0) == ("snaplen" in path.name)


@pytest.mark.parametrize("path", ORIGINALS, ids=by_name)
def test_real_traffic_has_no_findings(path: Path) -> None:
    for frame in tank(path).frames:
        assert frame.status == "ok"
        assert {finding.group for finding in frame.findings} <= {"response"}
        assert frame.expects_response == (frame.response is not None) or frame.type == "Consume"


def test_a_truth_that_was_changed_is_noticed() -> None:
    path = FOLDER / "tank_08_consume_positions.pcap"
    truth = truth_of(path)
    for change in (
        lambda consumed: consumed["msgs"][0].update(seq=2**40),
        lambda consumed: consumed["msgs"][-1].update(sha256="0" * 64),
        lambda consumed: consumed["msgs"].pop(),
        lambda consumed: consumed.update(drained=not consumed["drained"]),
    ):
        changed = copy.deepcopy(truth)
        change(next(r["consumed"][0] for r in truth_tank.results(changed["operations"]) if r["consumed"][0]["msgs"]))
        assert truth_tank.check(path, changed)


# Derived captures.


def test_truncated_packets_invent_nothing() -> None:
    path = FOLDER / "tank_d1_snaplen96.pcap"
    base, damaged = tank(FOLDER / "tank_06_produce_snappy.pcap"), tank(path)
    wrong, lost = lossy(base, damaged, seen(open_capture([path])))
    assert (wrong, lost) == ([], [])
    assert len(damaged.frames) == len(base.frames)
    assert damaged.totals.framed + damaged.totals.missing == base.totals.framed


def test_a_late_start_gives_the_same_later_frames() -> None:
    base = tank(FOLDER / "tank_04_produce_batches.pcap").frames
    late = tank(FOLDER / "tank_d4_midconnection.pcap").frames
    assert by_side(late) == by_side(base[-len(late) :])
    assert {finding.code for frame in late for finding in frame.findings} <= {"results-unnamed"}


# The same bytes in other segments, on other ports.


def records_by_place(frames: list[Frame]) -> list[object]:
    """The records of frames in stream order; links are given by place, since frame numbers depend on packets."""
    places = {frame.number: (frame.connection.number, frame.side, frame.offset) for frame in frames}
    places_of = []
    for frame in frames:
        said = meaning(frame)
        for name in ("request", "response"):
            said[name] = places.get(said[name])
        said["number"] = None
        places_of.append((places[frame.number], said))
    return [said for _, said in sorted(places_of, key=lambda each: each[0])]


def by_side(frames: list[Frame]) -> list[tuple[object, ...]]:
    """The frames in order of each side: a side that needs a search is framed later than it was sent."""
    ordered = sorted(frames, key=lambda frame: (frame.connection.number, frame.sender or "", frame.offset))
    return [(frame.connection.number, frame.sender, frame.type, frame.data) for frame in ordered]


def crafted(path: Path, cut: Cutting, port: int = 11011, handshake: bool = True) -> Run:
    packets = craft(dialogue(tank(path)), cut, server_port=port, handshake=handshake)
    return dissect(batches(packets), known=(Tank(),))


@pytest.mark.parametrize("path", ORIGINALS, ids=by_name)
def test_frames_are_found_on_another_port(path: Path) -> None:
    moved = crafted(path, every(1460), port=40404)
    assert by_side(moved.frames) == by_side(crafted(path, every(1460)).frames)
    assert moved.totals.undecoded == 0


@pytest.mark.parametrize("port", [11011, 40404])
def test_a_connection_without_its_handshake_gives_the_same_frames(port: int) -> None:
    path = FOLDER / "tank_06_produce_snappy.pcap"
    late, whole = crafted(path, every(1460), port, handshake=False), crafted(path, every(1460))
    assert by_side(late.frames) == by_side(whole.frames)
    assert late.totals.undecoded == 0


# Other protocols.

FOREIGN = sorted(path for path in CAPTURES.glob("*/*.pcap*") if path.parent.name != "tank" and path.suffix != ".json")


@pytest.mark.parametrize("folder", sorted({path.parent.name for path in FOREIGN}))
def test_traffic_of_other_protocols_is_not_claimed(folder: str) -> None:
    for path in FOREIGN:
        if path.parent.name == folder and path.stat().st_size < 200_000:
            found = dissect(open_capture([path]), known=(Tank(),)).frames
            assert [frame for frame in found if frame.protocol != "tls"] == [], path.name


def test_other_protocols_are_not_claimed_on_the_port_of_tank() -> None:
    for path in FOREIGN:
        if path.stat().st_size > 9_000:
            continue
        try:
            other = dissect(open_capture([path]))
        except CaptureError:
            continue
        for handshake in (True, False):
            packets = craft(dialogue(other), every(1460), server_port=11011, handshake=handshake)
            claimed = dissect(batches(packets), known=(Tank(),)).frames
            assert claimed == [], path.name


def paths(value: Any, prefix: str) -> Iterator[str]:
    """The names of all keys of a record, as the catalogue spells them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{prefix}.{key}"
            yield from paths(inner, f"{prefix}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, prefix)


def test_every_key_of_a_record_is_in_the_catalogue() -> None:
    entries = [*catalogue(Tank().layers()), *generated_entries((Tank(),))]
    known = {entry.name for entry in entries}
    records = [frame.layers for path in ORIGINALS for frame in tank(path).frames]
    records += [decoded(vector).layers for vector in VECTORS]
    used = {name for record in records if record for name in paths(record["tank"], "tank")}
    assert used <= known, sorted(used - known)
