"""Checking captures in tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from wiredecode.capture import PacketBatch, open_capture
from wiredecode.check import Checker, Problem
from wiredecode.dissect.demand import Demand
from wiredecode.dissect.dissector import Dissector
from wiredecode.net import Network

CAPTURES = Path(__file__).parent.parent.parent / "captures"
STORIES = CAPTURES / "stories"


def check(source: Path | Iterable[PacketBatch]) -> list[Problem]:
    """All problems, notes too."""
    checker = Checker()
    dissector = Dissector(Demand(link_responses=False), Network(analyse=True), on_end=checker.end)
    batches = list(open_capture([str(source)]) if isinstance(source, Path) else source)
    checker.report.first_ns = int(batches[0].time_ns[0])
    for batch in batches:
        checker.look(batch)
    return checker.check(dissector.frames(batches))


def worse(problems: list[Problem]) -> list[str]:
    """Names of those that are shown without being asked for."""
    return [problem.name for problem in problems if problem.severity != "note"]
