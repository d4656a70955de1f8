"""Frames do not depend on the division into segments and batches."""

from __future__ import annotations

from typing import Any

from tests.net.craft import batches
from tests.support import (
    RABBITMQ,
    Run,
    capture,
    craft,
    dialogue,
    dissect,
    every,
    meaning,
    random_cuts,
    reorder,
)
from wiredecode.capture import open_capture


def said(run: Run) -> list[dict[str, Any]]:
    assert run.totals.closes
    assert run.totals.undecoded == run.totals.missing == 0
    return [meaning(frame) for frame in run.frames]


def test_a_large_frame_in_many_segments() -> None:
    """The connection that publishes 400 kB in one frame, until that is confirmed."""
    whole = capture(RABBITMQ / "c43_large.pcap")
    large = next(frame for frame in whole.frames if frame.length > 400_000)
    frames = [frame for frame in whole.frames if frame.connection is large.connection][:24]
    some = dialogue(Run(frames, whole.totals))
    expected = said(dissect(batches(craft(some, every(60_000)))))
    assert [frame["length"] for frame in expected] == [frame.length for frame in frames]
    assert ("Publish", 400_493) in [(frame["type"], frame["length"]) for frame in expected]
    for cutting in (every(1448), random_cuts(7, 500), reorder(8, 30)):
        assert said(dissect(batches(craft(some, cutting), 50))) == expected


def test_responses_are_linked_after_any_wait() -> None:
    run = dissect(open_capture([RABBITMQ / "c43_basic.pcap"]), link_responses=False)
    for mine, theirs in zip(run.frames, capture(RABBITMQ / "c43_basic.pcap").frames, strict=True):
        assert (mine.number, mine.request) == (theirs.number, theirs.request)
