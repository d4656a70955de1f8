"""One capture in several processes: sessions that show the frames of their own connections."""

from __future__ import annotations

import math
from collections.abc import Callable

from wiredecode.capture.errors import Postponed
from wiredecode.cli.jobs import MERGING, Jobs, Merger, Send, Sender
from wiredecode.cli.session import CaptureSession, collect_less
from wiredecode.dissect.share import Share
from wiredecode.frames.totals import Totals


def shared(
    count: int, open_session: Callable[[Share], CaptureSession], write: Callable[[CaptureSession], None]
) -> tuple[int, CaptureSession]:
    """Write the frames of a capture, each process those of its connections; the exit code, and the first session.

    ``open_session``: of one of the processes; ``write``: writes its frames. Raises NumbersInside, OSError.
    """
    speeds = (1.0, *[MERGING] * (count - 1))

    def work(number: int, send: Send) -> Totals:
        session = open_session(Share(number, speeds))
        session.shared = sender = Sender(number, send)
        session.mute()
        collect_less()
        with Postponed():  # all processes find the same error
            write(session)
        sender.send(math.inf)
        return session.totals

    def all_written() -> None:
        try:
            with Postponed() as postponed:
                write(session)
            for totals in jobs.results():
                session.totals.add_connections(totals)
        except KeyboardInterrupt:
            session.shows_totals = False  # they are of some connections only
            raise
        postponed.raise_again()

    with Jobs(count, work) as jobs:
        session = open_session(Share(0, speeds))
        session.shared = Merger(jobs, count)
        return session.work(all_written), session
