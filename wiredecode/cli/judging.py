"""Frames on their way past the rules, for ``check``, ``report`` and ``metrics``; and the timeline."""

from collections.abc import Callable, Iterator

from wiredecode.capture.batch import PacketBatch
from wiredecode.check import Checker
from wiredecode.check.timeline import Timeline, lines, record
from wiredecode.cli.output import terminal
from wiredecode.cli.session import CaptureSession
from wiredecode.frames.frame import Frame


def show_timeline(
    session: CaptureSession, timeline: Timeline, *, json: bool, connections: set[int] | None = None
) -> None:
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
    session: CaptureSession, checker: Checker, also: Callable[[PacketBatch], None] | None = None
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
