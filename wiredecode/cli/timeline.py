"""The timeline of ``wiredecode stats --timeline`` and ``wiredecode check --timeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli.options import Decoding, Span, Verbosity
    from wiredecode.cli.session import Session
    from wiredecode.filter import Filter


def run(
    files: list[str], decoding: Decoding, span: Span, verbosity: Verbosity, display: Filter | None, *, json: bool
) -> int:
    """Read the captures and show what changed when; return the exit code."""
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli.session import Session
    from wiredecode.net.types import Connection

    timeline = Timeline()
    chosen: set[Connection] = set()

    def over(connection: Connection, other: str | None) -> None:
        if display is None or connection in chosen:
            timeline.end(connection, other)

    session = Session.of(files, decoding, span, verbosity, display, on_over=over)

    def work() -> None:
        try:
            for frame in session.frames():
                chosen.add(frame.connection)
                timeline.frame(frame)
        finally:
            show(session, timeline, json=json)

    return session.work(work)


def show(session: Session, timeline: Timeline, *, json: bool) -> None:
    """Write it: a screen for people, or one JSON object."""
    from wiredecode.check.timeline import lines, record

    if not timeline.last_ns:
        return
    begin, end = session.span()
    events = [
        each
        for each in timeline.finish(session.first_ns)
        if (begin is None or each.time_ns >= begin) and (end is None or each.time_ns <= end)
    ]
    if json:
        import orjson

        session.output.write(orjson.dumps(record(timeline, events), option=orjson.OPT_APPEND_NEWLINE))
        return
    for line in lines(timeline, events):
        session.output.text(f"{line}\n")
