"""The timeline of ``wiredecode stats --timeline`` and ``wiredecode check --timeline``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiredecode.check.timeline import Timeline
    from wiredecode.cli.session import Session


def show(session: Session, timeline: Timeline, *, json: bool) -> None:
    """Write it: a screen for people, or one JSON object."""
    from wiredecode.check.timeline import lines, record

    if not timeline.last_ns:
        return
    events = [each for each in timeline.finish(session.first_ns) if session.within(each.time_ns)]
    if json:
        session.output.json(record(timeline, events))
        return
    for line in lines(timeline, events):
        session.output.text(f"{line}\n")
