"""Real captures of Liftbridge envelopes through a NATS server: truth, accounts, pairs, segmentation."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.net.craft import batches
from tests.protocols.liftbridge_nats import Said, carried
from tests.protocols.truth_liftbridge import check
from tests.support import Cutting, Run, craft, dialogue, dissect, every, random_cuts, reorder
from wiredecode.capture import open_capture
from wiredecode.protocols.liftbridge.layers import Publish
from wiredecode.protocols.nats.protocol import Nats

FOLDER = Path(__file__).parent.parent.parent / "captures" / "liftbridge"
NAMES = ("30-lb-publish-ack", "31-lb-all-types", "34-lb-replication")
KNOWN = {"known": (Nats(),)}


def capture_of(name: str) -> Path:
    return next(FOLDER.glob(f"{name}.pcap*"))


def truth_of(name: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((FOLDER / f"{name}.truth.json").read_text())
    return truth


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    return {name: dissect(open_capture([capture_of(name)]), **KNOWN) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_capture_agrees_with_the_accounts_of_the_clients(name: str) -> None:
    assert check(capture_of(name), truth_of(name)) == []


def test_a_wrong_truth_is_noticed() -> None:
    truth = copy.deepcopy(truth_of("31-lb-all-types"))
    op = next(op for op in truth["connections"][0]["ops"] if "liftbridge" in op)
    op["liftbridge"]["decoded"]["offset"] += 1
    assert len(check(FOLDER / "31-lb-all-types.pcap", truth)) == 1


def test_every_frame_is_whole(runs: dict[str, Run]) -> None:
    assert {frame.status for run in runs.values() for frame in run.frames} == {"ok"}


def test_every_message_type_is_captured(runs: dict[str, Run]) -> None:
    met = {frame.code for frame in runs["31-lb-all-types"].frames if frame.protocol == "liftbridge"}
    assert met == set(range(15))


def test_every_stored_message_is_checked(runs: dict[str, Run]) -> None:
    responses = [frame for frame in runs["34-lb-replication"].of("ReplicationResponse") if frame.sender == "client"]
    followers = {"server-b": [], "server-c": []}  # type: dict[str, list[int]]
    for frame in responses:
        record = (frame.layers or {})["liftbridge"]
        followers[record["replica_id"]] += [entry["offset"] for entry in record["entries"]]
        assert {entry["crc_status"] for entry in record["entries"]} <= {"good"}
    assert followers == {"server-b": [*range(57)], "server-c": [*range(57)]}, "each follower got the whole log"


def test_requests_are_paired_on_the_connection_that_sent_them(runs: dict[str, Run]) -> None:
    """Each hop has its own pair: the follower's and the leader's."""
    for name in ("31-lb-all-types", "34-lb-replication"):
        frames = {frame.number: frame for frame in runs[name].frames}
        paired = 0
        for frame in runs[name].frames:
            if frame.protocol == "liftbridge" and frame.code in (3, 5, 7, 9, 13):
                assert frame.request is not None
                request = frames[frame.request]
                assert (request.connection, request.side) == (frame.connection, 1 - frame.side)
                assert request.code == frame.code - 1
                paired += 1
        assert paired > 30


def test_acks_are_paired_with_publishes_across_connections(runs: dict[str, Run]) -> None:
    """The publisher's connection has publish and ack; the leader receives and acks on different connections."""
    frames = {frame.number: frame for frame in runs["30-lb-publish-ack"].frames}
    by_id = {}
    for frame in runs["30-lb-publish-ack"].of("Ack"):
        record = (frame.layers or {})["liftbridge"]
        if frame.request is not None:
            asked = (frames[frame.request].layers or {})["liftbridge"]
            assert asked["correlation_id"] == record["correlation_id"]
            by_id.setdefault(record["correlation_id"], []).append(frame.sender)
    assert len(by_id) == 6
    assert all(sorted(sides) == ["client", "server"] for sides in by_id.values())


def test_forwarded_messages_are_copies(runs: dict[str, Run]) -> None:
    for frame in runs["30-lb-publish-ack"].of("Publish"):
        assert ("copy_of" in frame.generated) == (frame.sender == "server")


def test_plain_payloads_stay_nats(runs: dict[str, Run]) -> None:
    plain = [frame for frame in runs["30-lb-publish-ack"].of("PUB", "HPUB", "MSG", "HMSG") if frame.values["data"]]
    assert {frame.protocol for frame in plain} == {"nats"}
    assert len(plain) == 4
    assert all(not frame.inner for frame in plain)


@pytest.mark.parametrize("cut", [every(1), random_cuts(3), reorder(5)], ids=["byte by byte", "random", "reordered"])
def test_segmentation_does_not_matter(runs: dict[str, Run], cut: Cutting) -> None:
    base = runs["31-lb-all-types"]
    again = dissect(batches(craft(dialogue(base), cut, server_port=4222)), **KNOWN)
    said = [(frame.type, frame.status, frame.layers) for frame in base.frames if frame.protocol == "liftbridge"]
    # Frames of the two connections may be complete in another order: each connection by itself stays in order.
    found = [(frame.type, frame.status, frame.layers) for frame in again.frames if frame.protocol == "liftbridge"]
    assert sorted(map(essence, found)) == sorted(map(essence, said))
    assert again.totals.closes


def essence(truth: tuple[str | None, str, dict[str, Any] | None]) -> str:
    """A record without the numbers of other frames."""
    record = copy.deepcopy((truth[2] or {})["liftbridge"])
    record.pop("copy_of", None)
    return json.dumps([truth[0], truth[1], record], sort_keys=True)


LARGE = bytes(Publish(key=b"k", value=b"v" * 4000))
"""In a PUB, three segments."""


@pytest.mark.parametrize("lost", [[-1], [-2], [-2, -1]])
def test_a_truncated_envelope(lost: list[int]) -> None:
    (frame,) = [frame for frame in carried([Said(LARGE)], lost) if frame.values["operation"] == "PUB"]
    assert (frame.protocol, frame.type, frame.status) == ("liftbridge", "Publish", "partial")
    assert frame.layers is not None
    assert frame.layers["liftbridge"]["key"] == b"k".hex()
    assert "crc_status" not in frame.generated
    assert {finding.group for finding in frame.findings} == {"reassembly"}
    (inner,) = frame.inner
    assert inner.start is not None
    assert LARGE.startswith(inner.data)
    assert frame.data[inner.start :] == inner.data
