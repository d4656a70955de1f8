"""A dissector that is pickled in the middle of a capture goes on as if nothing had happened."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wiredecode.capture import CaptureError, open_capture
from wiredecode.dissect.demand import Demand
from wiredecode.dissect.dissector import Dissector
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import NOTHING, Frame
from wiredecode.protocols.registry import protocols

ROOT = Path(__file__).parent.parent
CAPTURES = sorted(path for path in ROOT.glob("captures/*/*") if ".pcap" in path.name)
BATCH, EVERY = 48, 3
"""Packets in a batch, and after how many of these there is a new dissector."""
FRESH = """
import pickle, sys
made = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([(one.__module__, one.__name__, len(one.fields_desc)) for one in made]))
"""


def again(dissector: Dissector) -> Dissector:
    made: Dissector = pickle.loads(pickle.dumps(dissector))
    made.resume(dissector.demand)
    return made


def told(frame: Frame) -> tuple[Any, ...]:
    findings = [finding.record() for finding in frame.findings]
    ids = frame.id, frame.number, frame.request, frame.response, frame.latency_ns
    return *ids, frame.packets, frame.time_ns, frame.type, frame.status, frame.sender, repr(frame.layers), findings


def frames(path: Path, every: int | None) -> tuple[list[tuple[Any, ...]], Any]:
    """What the frames of a capture say, and the totals; ``every`` so many batches the dissector is pickled."""
    dissector, found = Dissector(Demand(style=Style(), stable_ids=True)), []
    try:
        for number, batch in enumerate(open_capture([path], batch_packets=BATCH), 1):
            found += map(told, list(dissector.feed(batch)))
            if every is not None and number % every == 0:
                dissector = again(dissector)
    except CaptureError:
        pass  # a capture that is cut
    found += map(told, list(dissector.finish()))
    return found, dissector.totals


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_pickled_dissector_gives_the_same_frames(path: Path) -> None:
    assert frames(path, EVERY) == frames(path, None)


def test_layers_that_are_made_while_running_are_pickled_by_what_makes_them() -> None:
    """In another process nobody has made them yet."""
    layers: list[type[Layer]] = [layer for protocol in protocols() for layer in protocol.layers()]
    assert [layer for layer in layers if pickle.loads(pickle.dumps(layer)) is not layer] == []
    wanted = [(layer.__module__, layer.__name__, len(layer.fields_desc)) for layer in layers]
    command = [sys.executable, "-c", FRESH]
    done = subprocess.run(command, input=pickle.dumps(layers), stdout=subprocess.PIPE, cwd=ROOT, check=True)
    assert pickle.loads(done.stdout) == wanted


def test_having_no_fields_stays_one_object() -> None:
    assert pickle.loads(pickle.dumps(NOTHING)) is NOTHING, "frames are asked whether they have it"


def test_a_dissector_without_packets_is_small() -> None:
    assert len(pickle.dumps(Dissector(Demand(style=Style())))) < 4096
