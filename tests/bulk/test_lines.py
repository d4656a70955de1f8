"""Summaries made of runs are those made of frames."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.bulk.test_runs import CAPTURES
from wiredecode.capture import CaptureError, open_capture
from wiredecode.dissect import streams
from wiredecode.dissect.dissector import Dissector
from wiredecode.view.summary import SummaryLines
from wiredecode.view.times import Times


@pytest.mark.parametrize("form", ["relative", "delta"])
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_lines_of_runs_are_those_of_frames(path: Path, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = SummaryLines(times=Times(form))
    expected: list[str] = []
    with suppress(CaptureError):
        frames = Dissector(link_responses=False).frames(open_capture([path]))
        expected += (rows.line(frame, 0) for frame in frames)
    for name in ("RUN_FRAMES", "RUN_BYTES", "LEAST_RUN_BYTES"):
        monkeypatch.setattr(streams, name, 1)
    for batch_bytes in (1 << 20, 3000):
        found: list[str] = []
        lines = SummaryLines(times=Times(form))
        dissector = Dissector(link_responses=False, runs=True, facts=True)
        with suppress(CaptureError):
            for items in dissector.mixed(open_capture([path], batch_bytes=batch_bytes)):
                found += lines.mixed(items, 0)
        assert found == expected
