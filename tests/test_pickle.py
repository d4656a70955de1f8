"""A dissector pickled in the middle of a capture continues unchanged."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.frame import NOTHING
from wiredecode.protocols.registry import protocols

ROOT = Path(__file__).parent.parent
BATCH, EVERY = 48, 3
"""Packets in a batch, and after how many of these there is a new dissector."""
FRESH = """
import pickle, sys
made = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([(one.__module__, one.__name__, len(one.fields_desc)) for one in made]))
"""


def test_generated_layers_are_pickled_by_their_factory() -> None:
    """Another process may not have made them yet."""
    layers: list[type[Layer]] = [layer for protocol in protocols() for layer in protocol.layers()]
    assert [layer for layer in layers if pickle.loads(pickle.dumps(layer)) is not layer] == []
    wanted = [(layer.__module__, layer.__name__, len(layer.fields_desc)) for layer in layers]
    command = [sys.executable, "-c", FRESH]
    done = subprocess.run(command, input=pickle.dumps(layers), stdout=subprocess.PIPE, cwd=ROOT, check=True)
    assert pickle.loads(done.stdout) == wanted


def test_the_empty_fields_stay_one_object() -> None:
    assert pickle.loads(pickle.dumps(NOTHING)) is NOTHING, "frames are asked whether they have it"


def test_a_dissector_without_packets_is_small() -> None:
    assert len(pickle.dumps(Dissector(Demand(style=Style())))) < 4096
