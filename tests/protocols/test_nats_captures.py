"""Real NATS captures through the whole stack: truth, accounts, round trips, parity of readers, segmentation."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests import damage, truth
from tests.net.craft import START_NS, batches
from tests.protocols import truth_nats
from tests.support import (
    STYLE,
    Run,
    craft,
    dialogue,
    dissect,
    every,
    meaning,
    packets,
    random_cuts,
)
from wiredecode.capture import open_capture
from wiredecode.frames.frame import Frame
from wiredecode.protocols.nats.protocol import Nats

NATS = Path(__file__).parent.parent.parent / "captures" / "nats"
FILES = sorted(path for path in NATS.iterdir() if path.suffix == ".pcap")
DAMAGED = ("snap96", "drop1pct", "midconn")
WHOLE = [path for path in FILES if not any(word in path.name for word in DAMAGED)]
SMALL = [path for path in WHOLE if path.stat().st_size < 30_000]


def read(path: Path) -> Run:
    return dissect(open_capture([path]), known=(Nats(),))


def outer(run: Run) -> Run:
    """Without the operations inside chunks."""
    return Run([frame for frame in run.frames if not truth_nats.is_inside(frame)], run.totals)


each_whole = pytest.mark.parametrize("path", WHOLE, ids=[path.stem for path in WHOLE])


@each_whole
def test_captures_agree_with_their_truth(path: Path) -> None:
    assert truth_nats.check(path, json.loads(path.with_suffix(".truth.json").read_text())) == []


def test_a_changed_truth_is_noticed() -> None:
    path = NATS / "03-pubsub.pcap"
    truth_ = json.loads(path.with_suffix(".truth.json").read_text())
    for op in truth_["connections"][0]["ops"]:
        if op["op"] == "MSG" and op["payload"]["hex"]:
            op["payload"]["hex"] = "00" + op["payload"]["hex"][2:]
            break
    assert len(truth_nats.check(path, truth_)) == 1
    assert truth_nats.secrets(read(path).frames, ["orders.new"]) == ["a secret is shown: orders.new"]


@each_whole
def test_fast_records_equal_the_declaration(path: Path) -> None:
    for frame in read(path).frames[:400]:
        shown_as_declared(frame)


def shown_as_declared(frame: Frame) -> None:
    """Whether the fast record of an operation equals the record made from its declaration."""
    assert frame.layer is not None
    assert frame.layers is not None
    declared = frame.layer.present(frame.layer(frame.data).values(), STYLE)
    row = frame.layers[frame.layer.filter_name]
    assert {name: row[name] for name in declared} == declared
    assert row.keys() <= declared.keys() | frame.generated.keys()


DERIVED = [path for path in FILES if path not in WHOLE]


@pytest.mark.parametrize("path", DERIVED, ids=[path.stem for path in DERIVED])
def test_derived_captures_agree_with_their_source(path: Path) -> None:
    assert truth.compare(path, path.with_suffix(".truth.json"), truth_nats.check) == []


def test_both_protocols_of_a_folder_are_checked() -> None:
    truth_ = json.loads((NATS / "03-pubsub.truth.json").read_text())
    truth_["connections"][0]["ops"].append({"op": "PUB", "subject": "a", "payload": {"len": 4, "hex": "b90e43b4"}})
    wrong = truth.check_of("nats-liftbridge")(NATS / "03-pubsub.pcap", truth_)
    assert {"envelopes" in line for line in wrong} == {True, False}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("08-pipelined-small.drop1pct", 64),
        pytest.param("08-pipelined-small.drop1pct", 1, marks=pytest.mark.slow),
        ("50-server-links", 1),
    ],
)
def test_batch_size_does_not_matter(name: str, size: int) -> None:
    path = NATS / f"{name}.pcap"
    timed = [((time_ns - START_NS) / 1e9, data) for time_ns, data in packets(path)]
    one, many = (dissect(batches(timed, size=each), known=(Nats(),)) for each in (None, size))
    assert [said(frame) for frame in many.frames] == [said(frame) for frame in one.frames]


def test_lost_bytes_are_reported_and_the_other_frames_decoded() -> None:
    base = {(f.connection.endpoints, f.side, f.offset): f.data for f in read(NATS / "08-pipelined-small.pcap").frames}
    lossy = read(NATS / "08-pipelined-small.drop1pct.pcap")
    assert lossy.totals.closes
    assert lossy.totals.missing > 0
    assert any(finding.code == "hole" for frame in lossy.frames for finding in frame.findings)
    for frame in lossy.frames:
        if frame.status == "ok":
            assert base[frame.connection.endpoints, frame.side, frame.offset] == frame.data
    lost = sum(map(len, base.values())) - lossy.totals.framed
    assert lost == lossy.totals.missing + lossy.totals.undecoded
    assert lossy.totals.undecoded < 40  # what was left of two operations


def test_a_late_start_finds_its_first_operation() -> None:
    late = read(NATS / "10-split-writes.midconn.pcap")
    assert late.totals.closes
    assert sum(late.totals.other.values()) == 0
    whole = [frame.data for frame in read(NATS / "10-split-writes.pcap").frames]
    for frame in late.frames:
        assert frame.status == "undecoded" or frame.data in whole
    assert late.totals.undecoded < 100


def test_gossip_about_gateways_shows_a_route_after_a_late_start() -> None:
    """It says nothing of how leaf nodes lose interest (``lnocu``), as a first INFO does."""
    packets = damage.read(NATS / "50-server-links.pcap")
    late = damage.dissect(packets.part(len(packets) // 8, len(packets))).frames.values()
    (gossip, *_) = (frame for frame in late if "gossip" in frame.generated.values())
    links = {frame.dialect for frame in late if frame.connection is gossip.connection}
    assert links == {None, "route"}
    assert not [frame.findings for frame in late if frame.type == "LS-" and frame.findings]


def test_bytes_cut_by_the_snapshot_length_are_missing_not_invented() -> None:
    whole = {frame.data for frame in read(NATS / "03-pubsub.pcap").frames}
    cut = read(NATS / "03-pubsub.snap96.pcap")
    assert cut.totals.closes
    assert all(frame.data in whole for frame in cut.frames if frame.status == "ok")
    assert {"undecoded", "partial"} <= {frame.status for frame in cut.frames}


@pytest.mark.parametrize("late", [0, 30])
def test_nats_on_an_unusual_port(late: int) -> None:
    """Also without its handshake, from the middle of the dialogue."""
    run = read(NATS / "03-pubsub.pcap")
    parts = dialogue(run)[late:]
    moved = dissect(batches(craft(parts, every(1460), 18_222, handshake=not late)), known=(Nats(),))
    assert moved.totals.closes
    assert moved.totals.undecoded == 0
    spoken = {part.connection for part in parts if len(part.data) > 40}
    assert len({frame.connection.number for frame in moved.frames}) >= len(spoken) - (1 if late else 0)


OTHERS = [
    path
    for folder in ("rabbitmq-stream", "tank", "cursus", "pravega")
    for path in sorted((NATS.parent / folder).glob("*.pcap"))[:6]
    if path.stat().st_size < 200_000
]


@pytest.mark.parametrize("path", OTHERS, ids=[path.stem for path in OTHERS])
def test_traffic_of_other_protocols_is_not_claimed(path: Path) -> None:
    run = read(path)
    assert run.frames == []
    assert run.totals.closes


@pytest.mark.parametrize("lost", [5, 9, 14])
def test_an_s2_stream_continues_after_a_gap(lost: int) -> None:
    whole = read(NATS / "50-server-links.pcap")
    route = [part for part in dialogue(outer(whole)) if part.connection == 2]
    made = craft(route, every(300), 6222)
    run = dissect(batches(made[: 3 + lost] + made[4 + lost :]), known=(Nats(),))
    assert run.totals.closes
    assert run.totals.missing > 0
    assert run.totals.undecoded < 3000
    good = [frame for frame in run.frames if frame.generated.get("crc_status") == "good"]
    sound = [frame for frame in whole.frames if frame.connection.number == 2 and "crc_status" in frame.generated]
    assert len(good) >= len(sound) - 3
    assert not any(frame.generated.get("crc_status") == "bad" for frame in run.frames)


@pytest.mark.parametrize("name", ["50-server-links", "14-cluster-routes"])
def test_messages_between_clients_appear_on_server_links(name: str) -> None:
    truth_ = json.loads((NATS / f"{name}.truth.json").read_text())
    links = [frame for frame in read(NATS / f"{name}.pcap").frames if frame.type in ("RMSG", "HMSG", "LMSG")]
    assert truth_nats.not_passed_on(truth_, links) == []
    assert truth_nats.not_passed_on(truth_, [frame for frame in links if frame.values["size"] > 100]) != []


def test_operations_inside_chunks_are_separate_frames() -> None:
    run = read(NATS / "50-server-links.pcap")
    by_number = {frame.number: frame for frame in run.frames}
    assert list(by_number) == list(range(1, len(run.frames) + 1))
    reached: dict[tuple[int, int], int] = {}
    inside = [frame for frame in run.frames if truth_nats.is_inside(frame)]
    assert len(inside) > 250
    for frame in inside:
        way = frame.connection.number, frame.side
        assert frame.offset == reached.get(way, 0), "the plain bytes of a direction, without gaps"
        reached[way] = frame.offset + frame.length
        chunk = by_number[frame.generated["inside"]]
        assert chunk.type in ("S2 chunk", "WebSocket frame")
        assert (chunk.time_ns, chunk.ready, chunk.side) == (frame.time_ns, frame.ready, frame.side)
        assert set(chunk.packets) <= set(frame.packets)
        assert frame.layers is not None
        assert frame.layers["nats"]["inside"] == chunk.number < frame.number
        assert frame.sender is not None
        assert frame.data.endswith(b"\r\n")
    answered = [frame for frame in inside if frame.type == "PONG"]
    assert answered
    assert all(by_number[frame.request or 0].type == "PING" for frame in answered)


def test_bytes_are_accounted_for_in_chunks() -> None:
    run = read(NATS / "50-server-links.pcap")
    assert run.totals.closes
    assert run.totals.framed == sum(frame.length for frame in run.frames if not truth_nats.is_inside(frame))
    assert sum(run.totals.frames.values()) == len(run.frames)


def said(frame: Frame) -> dict[str, object]:
    return meaning(frame) | {"status": frame.status}


def test_s2_streams_in_segments_of_any_size() -> None:
    run = read(NATS / "50-server-links.pcap")
    parts = dialogue(outer(run), 60)
    whole = dissect(batches(craft(parts, every(100_000), 6222)), known=(Nats(),))
    cut = dissect(batches(craft(parts, random_cuts(5, 200), 6222)), known=(Nats(),))
    assert [said(frame) for frame in cut.frames] == [said(frame) for frame in whole.frames]


@pytest.mark.parametrize("seed", range(3))
def test_mutated_streams_are_accounted_for(seed: int) -> None:
    chance = random.Random(seed)
    parts = dialogue(read(NATS / "06-headers.pcap"))
    for part in parts:
        data = bytearray(part.data)
        for _ in range(len(data) // 60):
            data[chance.randrange(len(data))] = chance.randrange(256)
        part.data = bytes(data)
    run = dissect(batches(craft(parts, random_cuts(seed), 4222)), known=(Nats(),))
    assert run.totals.closes
