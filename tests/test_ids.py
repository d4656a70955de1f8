"""Stable ids: equal for any reader of any part of a capture, and different for every frame."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiredecode
from tests.conftest import sampled
from tests.support import capture_files, packets
from wiredecode.capture import PacketBatch
from wiredecode.dissect.dissector import Demand, Dissector
from wiredecode.filter import compile_filter
from wiredecode.frames.frame import connection_id, frame_id, frame_ids
from wiredecode.frames.record import record
from wiredecode.tables.frames import style_for
from wiredecode.tables.reader import TableReader

ROOT = Path(__file__).parent.parent / "captures"
SEVERAL = ROOT / "rabbitmq-stream" / "c43_basic.pcap"
LINKS = ("request", "response")


def records(batches: Any, **options: Any) -> list[dict[str, Any]]:
    dissector = Dissector(Demand(style=style_for(), stable_ids=True, **options))
    return [record(frame) for frame in dissector.frames(batches)]


def test_ids_computed_in_bulk_equal_single_ones() -> None:
    offsets = [0, 1, 2, 1 << 40, (1 << 62) - 1, 77]
    for connection in (0, 1, (1 << 63) - 1, 0x123456789ABCDEF):
        for side in (0, 1):
            ids = [frame_id(connection, side, offset) for offset in offsets]
            assert frame_ids(connection, side, np.array(offsets, np.int64)).tolist() == ids


def test_ids_fit_into_63_bits_and_differ_by_every_part() -> None:
    ends = ("10.0.0.1:4000", "10.0.0.2:5552")
    connections = {connection_id(ends, 1), connection_id(ends, 2), connection_id(ends[::-1], 1)}
    frames = {frame_id(1, 0, 0), frame_id(1, 1, 0), frame_id(1, 0, 1), frame_id(1, 0, 0, 1), frame_id(2, 0, 0)}
    assert (len(connections), len(frames)) == (3, 5)
    assert all(0 <= each < 1 << 63 for each in connections | frames)


@pytest.mark.filterwarnings("ignore::wiredecode.api.DamagedCapture")
@pytest.mark.parametrize("path", sampled(capture_files()), ids=lambda path: path.name)
def test_ids_correspond_to_numbers(path: Path) -> None:
    numbered = wiredecode.read(path, columns=["frame", "connection", *LINKS], strict=False).table().to_pydict()
    stable = wiredecode.read(path, columns=["frame", "connection", *LINKS], strict=False, ids="stable")
    called = stable.table().to_pydict()
    for name in ("frame", "connection"):
        meaning = dict(zip(numbered[name], called[name], strict=True))
        assert len(set(meaning.values())) == len(meaning), f"two of one {name} id"
        assert [meaning[number] for number in numbered[name]] == called[name]
    meaning = dict(zip(numbered["frame"], called["frame"], strict=True))
    for name in LINKS:
        assert [number and meaning[number] for number in numbered[name]] == called[name]


def test_a_separate_connection_has_the_same_ids() -> None:
    whole = records([PacketBatch.from_packets(packets(SEVERAL))])
    port = whole[-1]["src"].rpartition(":")[2]
    port = whole[-1]["dst"].rpartition(":")[2] if port == "5552" else port
    asked = int(port).to_bytes(2, "big")
    alone = [(time, data) for time, data in packets(SEVERAL) if asked in data[30:42]]
    assert len(alone) < len(packets(SEVERAL))
    among_others = [each for each in whole if port in (each["src"] + each["dst"])]
    assert records([PacketBatch.from_packets(alone)]) == among_others


def test_batches_do_not_matter() -> None:
    every = packets(SEVERAL)
    edges = [*range(0, len(every), 7), len(every)]
    parts = [PacketBatch.from_packets(every[a:b], first_number=a + 1) for a, b in pairwise(edges)]
    assert records(parts) == records([PacketBatch.from_packets(every)])


def test_blocks_have_the_ids_of_single_frames() -> None:
    for level in ("frames", "messages"):
        for name in ("rabbitmq-stream/c43_basic.pcap", "nats/08-pipelined-small.pcap"):
            batches = [PacketBatch.from_packets(packets(ROOT / name))]
            ways = [TableReader(batches, level, blocks=blocks, stable_ids=True) for blocks in (False, True)]
            rows, runs = ([batch.to_pydict() for batch in way] for way in ways)
            for name_ in ("frame", "connection"):
                assert [x for each in rows for x in each[name_]] == [x for each in runs for x in each[name_]]


def test_a_filter_about_numbers_is_refused_with_its_name() -> None:
    for text in ("frame.number == 3", "tcp.stream in {1, 2} || frame.type == 'Publish'"):
        display = compile_filter(text.replace("'", '"'))
        with pytest.raises(ValueError, match=r"frame\.number|tcp\.stream"):
            TableReader([], "frames", display=display, stable_ids=True)
