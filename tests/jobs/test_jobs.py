"""Several processes must write what one writes: the same rows, numbers and totals, in the same order."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

import numpy as np
import pyarrow as pa

from tests.cli.conftest import Run
from tests.support import RABBITMQ
from wiredecode.capture import CaptureError, open_capture
from wiredecode.frames import framer
from wiredecode.frames.totals import Totals
from wiredecode.jobs import Unsplittable
from wiredecode.jobs.dissector import SharedDissector
from wiredecode.jobs.merge import Merge
from wiredecode.jobs.worker import Done, Worker
from wiredecode.net import Network
from wiredecode.net.segments import COLUMNS, Segments
from wiredecode.net.share import Share
from wiredecode.tables.reader import TableReader

CAPTURES = sorted(RABBITMQ.parent.glob("*/*.pcap*"))
TOGETHER = frozenset({4222, 6222, 7222, 7422})


@pytest.fixture
def every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever can be a run is one, however short."""
    for name in ("RUN_FRAMES", "RUN_BYTES", "LEAST_RUN_BYTES"):
        monkeypatch.setattr(framer, name, 1)


def by_one(path: Path, level: str) -> tuple[pa.Table, Totals]:
    reader = TableReader(open_capture([path]), level, bulk=level == "messages")
    batches: list[pa.RecordBatch] = []
    with suppress(CaptureError):  # one of them is cut
        batches.extend(reader)
    return pa.Table.from_batches(batches, reader.schema), reader.totals


def by_several(path: Path, level: str, jobs: int, batch_bytes: int = 3000) -> tuple[pa.Table, Totals]:
    def work(index: int, peers: object, pipe: object) -> Done:
        dissector = partial(SharedDissector, Share(index, jobs, TOGETHER), peers, TOGETHER)  # type: ignore[arg-type]
        reader = TableReader(iter(()), level, bulk=level == "messages", dissector=dissector)
        worker = Worker(pipe, lambda batch: batch)  # type: ignore[arg-type]
        packets = iter(open_capture([path], batch_bytes=batch_bytes))
        error = worker.run(reader.dissector, reader.rows(), packets, lambda: 0)  # type: ignore[arg-type]
        return Done(reader.totals, open_capture([path]).info, error, stopped=False)

    merge = Merge(jobs, work, lambda size: None)
    schema = TableReader(iter(()), level).schema
    batches: list[pa.RecordBatch] = []
    with suppress(CaptureError):
        batches.extend(merge)
    return pa.Table.from_batches(batches, schema), merge.totals


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_all_write_what_one_writes(path: Path, every_run: None) -> None:
    for level, jobs in (("messages", 3), ("frames", 2)):
        expected, totals = by_one(path, level)
        try:
            found, found_totals = by_several(path, level, jobs)
        except Unsplittable:  # what passes inside compressed links and WebSockets
            assert path.parent.name in ("nats", "liftbridge")
            continue
        assert found.equals(expected)
        assert found_totals == totals


@pytest.mark.parametrize("form", ["ndjson", "json", "csv"])
def test_text_is_the_same_byte_for_byte(run: Run, captures: Path, tmp_path: Path, form: str) -> None:
    path = captures / "rabbitmq-stream" / "c43_basic.pcap"
    for level in ("frames", "messages"):
        files = []
        for jobs in (1, 2):
            out = tmp_path / f"{jobs}.{form}"
            assert run("export", path, "-o", out, "--level", level, "-q", "--jobs", jobs).code == 0
            files.append(out.read_bytes())
        assert files[0] == files[1]


def test_a_process_that_is_killed_is_one_line(
    run: Run, captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Worker, "run", killed)
    path, out = captures / "rabbitmq-stream" / "c43_basic.pcap", tmp_path / "a.ndjson"
    result = run("export", path, "-o", out, "-q", "--jobs", 2)
    assert result.code == 70
    assert "ended by signal 9" in result.err
    assert len(result.err.splitlines()) == 1
    assert not [*tmp_path.iterdir()]


def test_standard_input_cannot_be_read_by_several(run: Run, tmp_path: Path) -> None:
    result = run("export", "-", "-o", tmp_path / "a.ndjson", "--jobs", 2)
    assert result.code == 2
    assert "--jobs reads a capture several times" in result.err


def test_share_deals_every_connection_to_one_process(captures: Path) -> None:
    path = captures / "rabbitmq-stream" / "c43_basic.pcap"
    seen: list[set[tuple[str, ...]]] = []
    for index in range(3):
        network = Network(share=Share(index, 3))
        for batch in open_capture([path], batch_bytes=3000):
            network.feed(batch)
        network.finish()
        seen.append({tuple(sorted(connection.endpoints)) for connection in network.take_forgotten()})
    assert sum(map(len, seen)) == len(set.union(*seen)) == 7
    assert max(map(len, seen)) - min(map(len, seen)) <= 1


def segments(*sent: tuple[int, int, int]) -> Segments:
    """One segment per client, server port and length."""
    clients, servers, length = np.array(sent, np.int64).T
    columns: dict[str, Any] = {name: np.zeros(len(sent), np.int64) for name in COLUMNS}
    columns |= {
        name: np.zeros(len(sent), np.uint64) for name in ("source_high", "source_low", "target_high", "target_low")
    }
    columns |= {"ports": (50_000 + clients) << 16 | servers, "length": length, "row": np.arange(len(sent))}
    return Segments(b"", **columns)


def owners(*parts: Segments, foresee: bool) -> list[int]:
    """Who keeps each segment of the first part."""
    kept = []
    for index in range(2):
        share = Share(index, 2, TOGETHER)
        if foresee:
            share.foresee(parts)
        kept.append(share.keep(parts[0]).row.tolist())
    assert sorted(kept[0] + kept[1]) == [*range(len(parts[0]))]
    return [0 if row in kept[0] else 1 for row in range(len(parts[0]))]


def test_connections_that_begin_alike_are_dealt_by_what_follows() -> None:
    hello = segments((1, 5552, 60), (2, 5552, 50), (3, 5552, 40), (4, 5552, 30))
    bulk = segments((1, 5552, 900_000), (4, 5552, 900_000))
    assert owners(hello, bulk, foresee=False) == [0, 1, 1, 0]  # all the bytes to one
    first, _, _, last = owners(hello, bulk, foresee=True)
    assert first != last


def test_connections_of_one_session_are_foreseen_together() -> None:
    nats = segments((1, 4222, 9), (2, 4222, 9), (3, 4222, 9), (4, 12345, 9), (5, 12345, 9))
    bulk = segments((1, 4222, 70_000), (2, 4222, 70_000), (3, 4222, 70_000), (4, 12345, 80_000), (5, 12345, 80_000))
    found = owners(nats, bulk, foresee=True)
    assert len({*found[:3]}) == 1
    assert found[3] != found[4]  # a byte of another protocol may cost several times as much
