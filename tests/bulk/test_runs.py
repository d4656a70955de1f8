"""Runs and rows must tell the same: numbers, totals, messages."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from tests.conftest import CAPTURES as ROOT
from wiredecode.capture import CaptureError, open_capture
from wiredecode.dissect.demand import Demand, RunsFor
from wiredecode.dissect.dissector import Dissector
from wiredecode.frames.message import Messages
from wiredecode.frames.run import Run
from wiredecode.frames.totals import Totals
from wiredecode.tables.messages import MessageTable

Numbered = list[tuple[int, int, str | None]]


CAPTURES = [path for folder in ("nats", "liftbridge", "stories") for path in sorted((ROOT / folder).glob("*.pcap*"))]
"""Other protocols have no runs."""
WITH_RUNS = {
    "08-pipelined-small.pcap",
    "08-pipelined-small.drop1pct.pcap",
    "leader-killed.pcap.gz",
    "slow-consumer.pcap",
}


def table(messages: Messages) -> pa.Table:
    made = MessageTable()
    for part in messages.parts:
        made.add(part)
    return pa.Table.from_batches([made.batch()])


def by_rows(path: Path) -> tuple[pa.Table, Totals, Numbered]:
    messages = Messages()
    dissector = Dissector(Demand(messages=messages, link_responses=False))
    frames = []
    with suppress(CaptureError):  # one of them is cut
        frames += dissector.frames(open_capture([str(path)]))
    return table(messages), dissector.totals, [(frame.number, frame.time_ns, frame.type) for frame in frames]


def by_runs(path: Path, batch_bytes: int = 1 << 20) -> tuple[pa.Table, Totals, Numbered, int]:
    messages = Messages()
    dissector = Dissector(Demand(messages=messages, link_responses=False, runs=RunsFor.MESSAGES))
    numbered: Numbered = []
    in_runs = 0
    with suppress(CaptureError):
        for items in dissector.mixed(open_capture([str(path)], batch_bytes=batch_bytes)):
            for item in items:
                if isinstance(item, Run):
                    in_runs += len(item)
                    types = [item.types[kind] for kind in item.kinds]
                    numbered += zip(item.numbers.tolist(), item.time_ns.tolist(), types, strict=True)
                else:
                    numbered.append((item.number, item.time_ns, item.type))
    return table(messages), dissector.totals, sorted(numbered), in_runs


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_runs_tell_what_rows_tell(path: Path, every_run: None) -> None:
    expected, totals, numbered = by_rows(path)
    for batch_bytes in (1 << 20, 3000):
        found, found_totals, found_numbered, in_runs = by_runs(path, batch_bytes)
        assert in_runs or path.name not in WITH_RUNS
        assert found_numbered == numbered
        assert found_totals == totals
        assert found.equals(expected)
