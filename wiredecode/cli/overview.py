"""The overview of a capture before the lines of ``pcap``: packets, protocols, problems, and what to do next."""

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from wiredecode.capture.errors import CaptureError
from wiredecode.check import Checker, Problem
from wiredecode.cli.judging import feed_checker
from wiredecode.cli.options import CaptureReading
from wiredecode.cli.session import CaptureSession
from wiredecode.dissect.dissector import DEFAULT
from wiredecode.frames.escape import counted
from wiredecode.frames.record import rfc3339
from wiredecode.frames.totals import Totals
from wiredecode.protocols.registry import title_of

MAX_BYTES = 16 * 1024 * 1024
"""Larger captures are not read twice."""


def overview(captures: CaptureReading) -> str:
    """Five lines and an empty one; empty for large inputs, other than files, or without packets."""
    files = captures.files
    if not all(map(os.path.isfile, files)) or sum(map(os.path.getsize, files)) > MAX_BYTES:
        return ""
    checker = Checker()
    session = CaptureSession.of(captures, files, demand=checker.demand(DEFAULT), on_end=checker.end)
    with suppress(CaptureError):  # the pass that shows the frames says so
        for _ in feed_checker(session, checker):
            pass
    problems = checker.finish()
    if not session.totals.packets:
        return ""
    rows = _rows(session.totals, problems, " ".join(map(shlex.quote, files)))
    return "".join(f"{name:<13}{text}\n" for name, text in rows) + "\n"


def _rows(totals: Totals, problems: Sequence[Problem], files: str) -> list[tuple[str, str]]:
    frames: Counter[str] = Counter()
    for (protocol, _, _), count in totals.frames.items():
        frames[title_of(protocol) or protocol.upper()] += count
    first_ns = totals.first_ns or 0
    begin = rfc3339(first_ns)[:19].replace("T", " ")
    texts = ", ".join(f"{title} ({counted(count, 'frame')})" for title, count in frames.most_common())
    return [
        ("packets", f"{totals.packets:,} in {(totals.last_ns - first_ns) / 1e9:.3f} s, from {begin} UTC"),
        ("protocols", texts or "none that wiredecode knows"),
        ("connections", f"{totals.connections:,}"),
        ("problems", _problems(problems, files)),
        ("next", f"wiredecode check, stats, follow, ui {files}"),
    ]


def _problems(problems: Sequence[Problem], files: str) -> str:
    counts = Counter(each.severity for each in problems if each.severity != "note")
    if not counts:
        return "none"
    texts = ", ".join(counted(counts[each], each) for each in ("error", "warning") if counts[each])
    return f"{texts}: wiredecode check {files}"
