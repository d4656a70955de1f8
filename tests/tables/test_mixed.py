"""Frames read as columns give the rows that frames read one by one give."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support import RABBITMQ
from wiredecode.capture import CaptureError, open_capture
from wiredecode.fields.columns.reader import ColumnReader, Columns
from wiredecode.fields.columns.reader import reader as column_reader
from wiredecode.fields.columns.rows import Int64s
from wiredecode.fields.layer import Layer, Style
from wiredecode.frames.totals import Totals
from wiredecode.tables import columns_frames, mixed
from wiredecode.tables.reader import TableReader

CAPTURES = RABBITMQ.parent
AMQP, PUBSUB = RABBITMQ / "c43_amqp.pcap", CAPTURES / "nats" / "03-pubsub.pcap"
SELECTION = [
    AMQP,
    RABBITMQ / "c310_basic.pcap",
    RABBITMQ / "c43_offsets.pcap",
    RABBITMQ / "d_snap96.pcap",
    PUBSUB,
    CAPTURES / "nats" / "08-pipelined-small.drop1pct.pcap",
    CAPTURES / "nats" / "10-split-writes.midconn.pcap",
]


pytestmark = pytest.mark.usefixtures("every_run")


@pytest.fixture
def as_columns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames were read as columns, each time."""
    found: list[int] = []
    read = columns_frames.read

    def counting(layer: type[Layer], wanted: columns_frames.Wanted, *more: Any) -> Any:
        part, plain = read(layer, wanted, *more)
        found.append(int(plain.sum()))
        return part, plain

    monkeypatch.setattr(columns_frames, "read", counting)
    monkeypatch.setattr(columns_frames, "FEW", 2)
    return found


def read(path: Path, *, bulk: bool, batch_bytes: int = 1 << 20, **options: Any) -> tuple[pa.Table, Totals]:
    table = TableReader(open_capture([str(path)], batch_bytes=batch_bytes), "frames", bulk=bulk, **options)
    batches: list[pa.RecordBatch] = []
    with suppress(CaptureError):
        batches.extend(table)
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, table.schema).combine_chunks(), table.totals


def agree(path: Path, **options: Any) -> None:
    rows, totals = read(path, bulk=False, **options)
    found, found_totals = read(path, bulk=True, batch_bytes=3000, **options)
    assert found.equals(rows)
    assert found_totals == totals


@pytest.mark.parametrize("path", SELECTION, ids=lambda path: path.stem)
def test_rows_read_as_columns_are_rows_of_frames(path: Path, as_columns: list[int]) -> None:
    agree(path)
    assert sum(as_columns) > 15


@pytest.mark.parametrize("path", [AMQP, PUBSUB], ids=lambda path: path.stem)
def test_batches_end_anywhere(path: Path, monkeypatch: pytest.MonkeyPatch, as_columns: list[int]) -> None:
    columns = ["frame", "response", "packets", "layers.rabbitmq_stream", "layers.nats"]
    monkeypatch.setattr(mixed, "ROWS", 7)
    agree(path, columns=columns)
    monkeypatch.setattr(mixed, "BYTES", 1)
    agree(path, columns=columns)
    assert max(as_columns) > 1


@pytest.mark.parametrize(
    "options",
    [
        {"bytes_choice": "hex"},
        {"bytes_choice": "sha256"},
        {"show_secrets": True},
        {"columns": ["type", "frame"]},
        {"columns": ["layers.rabbitmq_stream.chunk.chunk_id", "layers.nats.subject", "packets"]},
        {"columns": ["layers.rabbitmq_stream", "response"]},
        {"columns": ["layers.rabbitmq_stream.key", "layers.rabbitmq_stream.other", "layers.nats.other"]},
        {"columns": ["layers.rabbitmq_stream.chunk.epoch", "layers.rabbitmq_stream.other"]},
        {"protocol": "tank"},
        {"protocol": "nats"},
    ],
    ids=str,
)
def test_whatever_is_asked_for(options: dict[str, Any]) -> None:
    for path in (AMQP, PUBSUB):
        agree(path, **options)


class Doubting:
    """A reader for which every other frame is not plain, as those with times that cannot be spelled are."""

    def __init__(self, found: ColumnReader) -> None:
        self.found = found

    def read(self, buffer: bytes, starts: Int64s, stops: Int64s) -> Columns:
        columns = self.found.read(buffer, starts, stops)
        columns.plain &= np.arange(len(starts)) % 2 == 0
        return columns


@pytest.mark.parametrize("path", [AMQP, PUBSUB], ids=lambda path: path.stem)
@pytest.mark.parametrize("none", [False, True])
def test_frames_that_columns_cannot_hold_are_read_one_by_one(
    path: Path, none: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reader(layer: type[Layer], style: Style, raw: bool) -> Doubting | None:
        found = column_reader(layer, style, raw)
        return None if none or found is None else Doubting(found)

    monkeypatch.setattr(columns_frames, "reader", reader)
    monkeypatch.setattr(columns_frames, "FEW", 1)
    agree(path)


def test_a_packet_that_carried_a_frame_twice_or_out_of_order_is_told_once_and_in_order() -> None:
    class Carried:
        packet = np.array([4, 9, 4, 7])
        low, high = np.array([0, 1, 3]), np.array([2, 2, 3])

    counts, found = columns_frames.carriers(Carried)  # type: ignore[arg-type]
    assert counts.tolist() == [2, 2, 1]
    assert found.tolist() == [4, 9, 4, 9, 7]
