"""Passes of ``check`` and ``report`` over frames, and the timeline of ``check`` and ``stats``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from wiredecode.cli.output import terminal

if TYPE_CHECKING:
    from wiredecode.capture.batch import PacketBatch
    from wiredecode.check import Checker
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli.session import Session
    from wiredecode.frames.frame import Frame


def show_timeline(session: Session, timeline: Timeline, *, json: bool, connections: set[int] | None = None) -> None:
    """Write it, of these connections or all: a screen for people, or one JSON object."""
    from wiredecode.check.timeline import lines, record

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


def judged(session: Session, checker: Checker, also: Callable[[PacketBatch], None] | None = None) -> Iterator[Frame]:
    """All frames, each after the checker got it; from the first one on the beginning of the capture is known.

    ``also``: is shown the packets, too.
    """
    report = checker.report

    def look(batch: PacketBatch) -> None:
        checker.look(batch)
        if also is not None:
            also(batch)

    session.look = look
    try:
        for frame in session.decoded():
            if not report.first_ns:
                report.first_ns, report.span = session.first_ns, session.span()
            checker.frame(frame)
            yield frame
    finally:
        report.first_ns, report.span = session.first_ns, session.span()
