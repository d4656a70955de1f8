"""Passes of ``check`` and ``report`` over frames, the timeline of ``check`` and ``stats``, the overview of ``pcap``."""

import os
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from wiredecode.capture.batch import PacketBatch
from wiredecode.capture.errors import CaptureError
from wiredecode.check import Checker, Problem
from wiredecode.check.timeline import Timeline, lines, record
from wiredecode.cli.options import Captures
from wiredecode.cli.output import terminal
from wiredecode.cli.session import Session
from wiredecode.dissect.dissector import ANALYSED
from wiredecode.frames.escape import counted
from wiredecode.frames.frame import Frame
from wiredecode.frames.record import rfc3339
from wiredecode.frames.totals import Totals
from wiredecode.protocols.registry import title_of


def show_timeline(session: Session, timeline: Timeline, *, json: bool, connections: set[int] | None = None) -> None:
    """Write it, of these connections or all: a screen for people, or one JSON object."""
    if not timeline.last_ns:
        return
    events = [each for each in timeline.finish(session.first_ns) if session.within(each.time_ns)]
    if connections is not None:
        events = [each for each in events if each.connection in connections]
    if json:
        session.output.json(record(timeline, events))
        return
    for line in lines(timeline, events, terminal()):
        session.output.text(f"{line}\n")


def feed_checker(
    session: Session, checker: Checker, also: Callable[[PacketBatch], None] | None = None
) -> Iterator[Frame]:
    """Pass frames to the checker, then yield them. ``also``: gets every batch of packets before its frames."""

    def look(batch: PacketBatch) -> None:
        checker.look(batch)
        checker.report.span = session.span_ns()
        if also is not None:
            also(batch)

    for frame in session.all_frames(look):
        checker.frame(frame)
        yield frame


MAX_BYTES = 16 * 1024 * 1024
"""Larger captures are not read twice."""


def overview(captures: Captures) -> str:
    """Five lines and an empty one; empty for large inputs, other than files, or without packets."""
    files = captures.files
    if not all(map(os.path.isfile, files)) or sum(map(os.path.getsize, files)) > MAX_BYTES:
        return ""
    checker = Checker()
    session = Session.of(captures, files, demand=ANALYSED, on_end=checker.end)
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
