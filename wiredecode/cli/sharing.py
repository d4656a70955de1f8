"""One capture in several processes: sessions that show the frames of their own connections."""

from __future__ import annotations

from collections.abc import Callable

from wiredecode.capture.errors import Postponed
from wiredecode.cli.jobs import MERGING, Jobs, Merger, Others, Sender
from wiredecode.cli.session import CaptureSession, collect_less
from wiredecode.dissect.share import Share
from wiredecode.frames.totals import Totals


def shared(
    count: int, open_session: Callable[[Share], CaptureSession], write: Callable[[CaptureSession], None]
) -> tuple[int, CaptureSession]:
    """Write the frames of a capture, each process those of its connections; the exit code, and the first session.

    ``open_session``: of one of the processes; ``write``: writes its frames. Raises OSError.
    """
    speeds = (1.0, *[MERGING] * (count - 1))

    def work(number: int, others: Others) -> Totals:
        session = open_session(Share(number, speeds, others))
        session.shared = Sender(others)
        session.mute()
        collect_less()
        with Postponed():  # all processes find the same error
            write(session)
        return session.totals

    def all_written() -> None:
        try:
            with Postponed() as postponed:
                write(session)
            for totals in others.results():
                session.totals.add_connections(totals)
        except KeyboardInterrupt:
            session.shows_totals = False  # they are of some connections only
            raise
        postponed.raise_again()

    with Jobs(count, work) as others:
        session = open_session(Share(0, speeds, others))
        session.shared = Merger(others, count)
        return session.work(all_written), session
