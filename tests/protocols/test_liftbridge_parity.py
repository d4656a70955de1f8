"""Scapy, careful, walk, head and record decoders agree on Liftbridge's layers: vectors, captures, mutations of them."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from tests.protocols.liftbridge_vectors import VECTORS
from tests.protocols.test_liftbridge_captures import FOLDER, KNOWN
from tests.protocols.test_liftbridge_vectors import layer_of, payload_of
from tests.support import STYLE, dissect
from wiredecode.capture import open_capture
from wiredecode.fields import compiler
from wiredecode.fields.layer import Layer

Case = tuple[type[Layer], bytes]


def counted(values: dict[str, Any]) -> dict[str, Any]:
    """Careful values as ``walk`` gives them: of the stored messages only the number."""
    bulk = {name: len(values[name]) for name in ("entries",) if name in values and "high_watermark" in values}
    return values | bulk


def agree(layer: type[Layer], raw: bytes) -> bool:
    """Hold all readers against each other; tell whether the bytes are well-formed."""
    packet = layer(raw)
    decoded = compiler.careful(layer, b"~" + raw + b"~", 1, 1 + len(raw))
    assert decoded.values == packet.values()
    assert decoded.ranges == dict(packet.flat_ranges())
    shown = layer.present(packet, STYLE)
    assert shown == layer.present(decoded.values, STYLE)
    try:
        record, stop = compiler.record(layer, raw, 0, len(raw), STYLE)
    except compiler.FAILED:
        record = None
    if decoded.problem is not None:
        assert packet.problem is not None
        assert packet.problem.args == decoded.problem.args
        assert record is None
        return False
    assert bytes(packet) == raw
    if record is not None:
        assert (record, list(record), stop) == (shown, list(shown), decoded.stop)
        assert compiler.walk(layer, raw, 0, len(raw)) == (counted(decoded.values), decoded.stop)
        head = compiler.head(layer, raw, 0, len(raw))
        assert head == {name: value for name, value in counted(decoded.values).items() if name in head}
    return True


@cache
def cases() -> list[Case]:
    """The vectors, and one payload of each size and type of the captures."""
    found = {(layer_of(vector), payload_of(vector)) for vector in VECTORS if vector.layer}
    for name in ("30-lb-publish-ack", "31-lb-all-types"):
        for frame in dissect(open_capture([FOLDER / f"{name}.pcap"]), **KNOWN).frames:
            found |= {(inner.layer, inner.data) for inner in frame.inner}
    return sorted(found, key=lambda case: (case[0].__name__, case[1]))


def test_vectors_and_captures() -> None:
    well_formed = [agree(*case) for case in cases()]
    assert well_formed.count(False) == 3, "L11, L13, L23"
    assert len(well_formed) > 80


def test_a_large_response() -> None:
    run = dissect(open_capture([FOLDER / "34-lb-replication.pcap"]), **KNOWN)
    largest = max((inner for frame in run.frames for inner in frame.inner), key=lambda inner: len(inner.data))
    assert len(largest.data) > 150_000
    assert agree(largest.layer, largest.data)


def test_every_truncation() -> None:
    for vector in VECTORS:
        if vector.layer:
            raw = payload_of(vector)
            for length in range(1, len(raw)):
                agree(layer_of(vector), raw[:length])


@pytest.mark.parametrize("seed", range(4))
def test_mutations(seed: int) -> None:
    chance = random.Random(seed)
    outcomes = set()
    for layer, raw in cases():
        for _ in range(2):
            damaged = bytearray(raw)
            for _ in range(chance.randint(1, 3)):
                at = chance.randrange(len(damaged))
                damaged[at] = chance.choice((0, 1, 0x08, 0x7F, 0x80, 0xC0, 0xFF, chance.randrange(256)))
            outcomes.add(agree(layer, bytes(damaged)))
    assert outcomes == {True, False}
