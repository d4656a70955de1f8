"""Several processes must write what one writes: the same rows, numbers and totals, in the same order."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.conftest import Run
from tests.support import RABBITMQ
from wiredecode import streams
from wiredecode.bulk.order import capture_order
from wiredecode.capture import CaptureError, open_capture
from wiredecode.dissect import Totals
from wiredecode.jobs import Unsplittable
from wiredecode.jobs.dissector import SharedDissector
from wiredecode.jobs.merge import Died, Merge, Source, merged
from wiredecode.jobs.worker import Done, Worker
from wiredecode.net.share import Share
from wiredecode.tables.reader import TableReader

CAPTURES = sorted(RABBITMQ.parent.glob("*/*.pcap*"))
TOGETHER = frozenset({4222, 6222, 7222, 7422})


@pytest.fixture
def every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be a run is one, however short."""
    for name in ("RUN_FRAMES", "RUN_BYTES", "LEAST_RUN_BYTES"):
        monkeypatch.setattr(streams, name, 1)


def by_one(path: Path, level: str) -> tuple[pa.Table, Totals]:
    reader = TableReader(open_capture([path]), level, bulk=level == "messages")
    batches: list[pa.RecordBatch] = []
    try:
        batches.extend(reader)
    except CaptureError:  # one of them is cut
        pass
    return pa.Table.from_batches(batches, reader.schema), reader.totals


def by_several(path: Path, level: str, jobs: int, batch_bytes: int = 3000) -> tuple[pa.Table, Totals]:
    def work(index: int, peers: object, pipe: object) -> Done:
        def dissector(**options: object) -> SharedDissector:
            return SharedDissector(Share(index, jobs, TOGETHER), peers, TOGETHER, **options)  # type: ignore[arg-type]

        reader = TableReader(iter(()), level, bulk=level == "messages", dissector=dissector)
        worker = Worker(pipe, lambda batch: batch)  # type: ignore[arg-type]
        packets = iter(open_capture([path], batch_bytes=batch_bytes))
        error = worker.run(reader.dissector, reader.rows(), packets, lambda: 0)  # type: ignore[arg-type]
        return Done(reader.totals, open_capture([path]).info, error, stopped=False)

    merge = Merge(jobs, work, lambda size: None)
    schema = TableReader(iter(()), level).schema
    batches: list[pa.RecordBatch] = []
    try:
        batches.extend(merge)
    except CaptureError:
        pass
    return pa.Table.from_batches(batches, schema), merge.totals


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_all_write_what_one_writes(path: Path, every_run: None) -> None:
    for level in ("messages", "frames"):
        expected, totals = by_one(path, level)
        for jobs in (2, 3):
            try:
                found, found_totals = by_several(path, level, jobs)
            except Unsplittable:
                assert "nats" in str(path) or "liftbridge" in str(path)
                break
            assert found.equals(expected)
            assert found_totals == totals
