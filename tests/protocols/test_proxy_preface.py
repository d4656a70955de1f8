"""PROXY prefaces of load balancers before each protocol: they are shown and change no later frame."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.net.craft import batches
from tests.protocols.test_rabbitmq_surprises import PREFACES
from tests.support import Part, Run, craft, dissect, every
from wiredecode.capture import open_capture

C, S = 0, 1
CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = {
    "rabbitmq-stream/c43_authfail.pcap": 5552,
    "nats/04-request-reply.pcap": 4222,
    "tank/tank_03_produce_single.pcap": 11011,
    "pravega/append_basic.pcap": 12345,
    "cursus/negotiate.pcap": 9000,
}


def first_connection(name: str) -> list[Part]:
    """The frames of a capture's first connection, in order."""
    frames = dissect(list(open_capture([str(CAPTURES / name)]))).frames
    of_first = [frame for frame in frames if frame.connection is frames[0].connection]
    return [Part(1, C if frame.sender == "client" else S, frame.data) for frame in of_first]


def frames_without_preface(run: Run) -> list[tuple[object, ...]]:
    frames = [frame for frame in run.frames if frame.protocol != "proxy"]
    places = {frame.number: place for place, frame in enumerate(frames)}
    for frame in frames:
        (frame.layers or {}).get("pravega", {}).pop("block", None)  # the number of a frame
    return [(frame.sender, frame.type, frame.data, frame.layers, places.get(frame.request or 0)) for frame in frames]


@pytest.mark.parametrize("size", [7, 1460])
@pytest.mark.parametrize("version", PREFACES)
@pytest.mark.parametrize("name", NAMES)
def test_a_proxy_preface_changes_no_later_frame(name: str, version: str, size: int) -> None:
    parts, preface, port = first_connection(name), PREFACES[version], NAMES[name]
    at = next(place for place, part in enumerate(parts) if part.side == C)
    with_preface = [*parts[:at], replace(parts[at], data=preface + parts[at].data), *parts[at + 1 :]]
    plain = dissect(batches(craft(parts, every(size), port)))
    run = dissect(batches(craft(with_preface, every(size), port)))
    shown = [frame for frame in run.frames if frame.protocol == "proxy"]
    assert [(frame.type, frame.data, frame.sender) for frame in shown] == [("PROXY", preface, "client")]
    assert frames_without_preface(run) == frames_without_preface(plain)
    assert run.totals.undecoded == 0
