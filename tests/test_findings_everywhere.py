"""Findings of a frame are the same with and without records, columns and messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import sampled
from tests.damage import CAPTURES, STYLE, read, small_captures
from wiredecode.capture import PacketBatch
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.fields.layer import Style
from wiredecode.frames.message import Messages
from wiredecode.tables.reader import FRAMES, TableReader

PAYLOAD = 54
"""Bytes of a packet before which its headers are."""
OCTETS = (0x00, 0x80, 0xC0, 0xFF)
TOLD = ("frame", "type", "status", "findings")

FindingsOf = list[tuple[Any, ...]]


def mutated(packets: PacketBatch, seed: str) -> PacketBatch:
    """Every other packet with one or two wrong bytes."""
    chance, buffer = random.Random(seed), bytearray(packets.buffer)
    for start, size in zip(packets.start.tolist(), packets.captured.tolist(), strict=True):
        if size > PAYLOAD + 4 and chance.random() < 0.5:
            for _ in range(chance.randrange(1, 3)):
                buffer[start + chance.randrange(PAYLOAD, size)] = chance.choice([*OCTETS, chance.randrange(256)])
    return replace(packets, buffer=bytes(buffer))


def findings_of(packets: PacketBatch, style: Style | None, messages: Messages | None = None) -> FindingsOf:
    dissector = Dissector(Demand(style=style, messages=messages, link_responses=False))
    found = dissector.frames([packets])
    return [(each.number, each.type, each.status, [one.record() for one in each.findings]) for each in found]


def findings_by_columns(packets: PacketBatch) -> FindingsOf:
    columns = [*TOLD, "layers"]
    rows = [row for batch in TableReader([packets], FRAMES, columns=columns, blocks=True) for row in batch.to_pylist()]
    return [tuple(row[name] for name in TOLD) for row in sorted(rows, key=lambda row: row["frame"])]


def all_ways(packets: PacketBatch) -> Iterator[tuple[str, FindingsOf]]:
    yield "no records", findings_of(packets, None)
    yield "messages", findings_of(packets, None, Messages())
    yield "records and messages", findings_of(packets, STYLE, Messages())
    yield "columns", findings_by_columns(packets)


def hostile_and_small() -> list[Path]:
    return [*sorted((CAPTURES / "hostile").glob("*.pcap")), *small_captures()]


@pytest.mark.parametrize("capture", sampled(hostile_and_small(), 8), ids=lambda path: path.name)
def test_every_way_of_reading_gives_the_same_findings(capture: Path) -> None:
    packets = read(capture)
    for variant in (packets, mutated(packets, capture.name)):
        expected = findings_of(variant, STYLE)
        for way, found in all_ways(variant):
            differing = [(one, other) for one, other in zip(found, expected, strict=True) if one != other]
            assert differing == [], way


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("hostile/12a-controls-rabbitmq.pcap", "invalid-utf8"),
        ("hostile/02-rabbitmq-zstd-subentry-bomb.pcap.zst", "decompressed-size"),
    ],
)
def test_a_summary_has_findings_inside_arrays_and_sub_batches(name: str, code: str) -> None:
    assert code in {
        finding["code"] for *_, findings in findings_of(read(CAPTURES / name), None) for finding in findings
    }
