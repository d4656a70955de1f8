"""How the bytes were cut into segments and the segments into batches never changes the frames."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.net.craft import batches
from tests.support import (
    RABBITMQ,
    Cutting,
    Part,
    Run,
    capture,
    craft,
    dialogue,
    dissect,
    duplicated,
    every,
    meaning,
    overlapped,
    random_cuts,
    reordered,
)
from wiredecode.capture import open_capture

# How many frames of each capture: what is long adds nothing.
CAPTURES = {"c43_basic": 79, "c43_multi": 130, "c43_subentry": 60, "c43_filter": 80, "c43_sac": None}
CUTTINGS: dict[str, Cutting] = {
    "every_2": every(2),
    "every_9": every(9),
    "random": random_cuts(1),
    "random_again": random_cuts(2),
    "reordered": reordered(3),
    "reordered_far": reordered(4, window=40),
    "duplicated": duplicated(5),
    "overlapped": overlapped(6),
}


@cache
def parts(name: str) -> list[Part]:
    return dialogue(capture(RABBITMQ / f"{name}.pcap"), CAPTURES.get(name, 40))


@cache
def reference(name: str) -> list[dict[str, Any]]:
    """What the frames say when each part travels in one segment."""
    return said(dissect(batches(craft(parts(name), every(60_000)))))


def said(run: Run) -> list[dict[str, Any]]:
    assert run.totals.closes
    assert run.totals.undecoded == run.totals.missing == 0
    return [meaning(frame) for frame in run.frames]


@pytest.mark.parametrize("name", CAPTURES)
def test_whole_parts_give_the_frames_of_the_capture(name: str) -> None:
    ours = reference(name)
    assert len(ours) > 50
    keys = ("side", "offset", "length", "type", "status", "values", "layers", "findings", "request", "sender")
    for mine, frame in zip(ours, capture(RABBITMQ / f"{name}.pcap").frames, strict=False):
        theirs = meaning(frame)
        assert {key: mine[key] for key in keys} == {key: theirs[key] for key in keys}


@pytest.mark.parametrize("cutting", CUTTINGS)
@pytest.mark.parametrize("name", CAPTURES)
def test_segmentation_does_not_matter(name: str, cutting: str) -> None:
    packets = craft(parts(name), CUTTINGS[cutting])
    assert said(dissect(batches(packets))) == reference(name)


@pytest.mark.parametrize("name", ["c43_basic", "c43_subentry"])
def test_byte_by_byte(name: str) -> None:
    packets = craft(parts(name), every(1))
    assert said(dissect(batches(packets))) == reference(name)


@pytest.mark.parametrize("size", [1, 7, None])
@pytest.mark.parametrize("cutting", ["reordered_far", "duplicated"])
def test_batches_do_not_matter_when_segments_are_out_of_order(cutting: str, size: int | None) -> None:
    packets = craft(parts("c43_multi"), CUTTINGS[cutting])
    assert said(dissect(batches(packets, size))) == reference("c43_multi")


def test_a_large_frame_in_many_segments() -> None:
    """The connection that publishes 400 kB in one frame, until that is confirmed."""
    whole = capture(RABBITMQ / "c43_large.pcap")
    large = next(frame for frame in whole.frames if frame.length > 400_000)
    frames = [frame for frame in whole.frames if frame.connection is large.connection][:24]
    some = dialogue(Run(frames, whole.totals))
    expected = said(dissect(batches(craft(some, every(60_000)))))
    assert [frame["length"] for frame in expected] == [frame.length for frame in frames]
    assert ("Publish", 400_493) in [(frame["type"], frame["length"]) for frame in expected]
    for cutting in (every(1448), random_cuts(7, 500), reordered(8, 30)):
        assert said(dissect(batches(craft(some, cutting), 50))) == expected


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("name", ["c43_basic.pcap", "c43_sac.pcap", "d_shuffled_dups.pcap", "d_snap96.pcap"])
def test_batch_size_changes_nothing_at_all(name: str, size: int) -> None:
    """Neither numbers nor packets nor times, on real captures, whole and damaged."""
    path = RABBITMQ / name
    one = dissect(open_capture([path], batch_packets=size))
    all_at_once = capture(path)
    assert len(one.frames) == len(all_at_once.frames)
    for mine, theirs in zip(one.frames, all_at_once.frames, strict=True):
        assert meaning(mine) == meaning(theirs)
        assert (mine.packets, mine.time_ns, mine.first_ns) == (
            theirs.packets,
            theirs.time_ns,
            theirs.first_ns,
        )
        assert (mine.ready, mine.latency_ns) == (theirs.ready, theirs.latency_ns)
    assert one.totals == all_at_once.totals


@pytest.mark.parametrize("name", ["c43_basic.pcap", "c43_subentry.pcap", "c43_large.pcap"])
def test_without_records_the_frames_are_the_same(name: str) -> None:
    path = RABBITMQ / name
    bare = dissect(open_capture([path]), style=None)
    for mine, theirs in zip(bare.frames, capture(path).frames, strict=True):
        assert mine.layers is None
        told, known = meaning(mine), meaning(theirs)
        del told["layers"], known["layers"]
        assert told == known
    assert bare.totals == capture(path).totals


def test_responses_are_linked_however_long_the_request_waits() -> None:
    run = dissect(open_capture([RABBITMQ / "c43_basic.pcap"]), link_responses=False)
    for mine, theirs in zip(run.frames, capture(RABBITMQ / "c43_basic.pcap").frames, strict=True):
        assert (mine.number, mine.request) == (theirs.number, theirs.request)
