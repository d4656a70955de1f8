"""One capture in several processes: sessions that show the frames of their own connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING

from wiredecode.capture import open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.cli.jobs import Jobs, Merger, Others, Sender
from wiredecode.cli.output import say
from wiredecode.cli.session import CaptureSession, collect_less
from wiredecode.dissect.share import Share
from wiredecode.frames.totals import Totals

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture import Capture, PacketBatch
    from wiredecode.tables.reader import LevelsReader, Since

MERGING = 0.065
"""Part of all work that is merging and writing lines."""
LEAST = 0.02
"""Share of the first process of the decoding, at least, as part of that of others."""


def shared(
    count: int,
    open_session: Callable[[Share], CaptureSession],
    write: Callable[[CaptureSession], None],
    alone: float = MERGING,
    together: Mapping[int, str] = MappingProxyType({}),
) -> tuple[int, CaptureSession]:
    """Write the frames of a capture, each process those of its connections; the exit code, and the first session.

    ``open_session``: of one of the processes; ``write``: writes its frames; ``alone``: the part of all work that the
    first one does for all, merging and writing; ``together``: of :class:`Dealt`. Raises OSError.
    """
    speeds = speeds_of(count, alone)

    def work(number: int, others: Others) -> tuple[Totals, tuple[int, str]]:
        session = open_session(Share(number, speeds, others, together))
        session.shared = Sender(others, count)
        session.mute()
        collect_less()
        with Postponed():  # all processes find the same error
            write(session)
        return session.totals, session.dissector.accounts.largest

    def all_written() -> None:
        try:
            with Postponed() as postponed:
                write(session)
            largest = session.dissector.accounts.largest
            for totals, other in others.results():
                session.totals.add_connections(totals)
                session.totals.copies += totals.copies
                largest = max(largest, other)
            if session.verbose and not session.quiet and largest[0] > session.totals.captured / 2:
                part = largest[0] * 100 // session.totals.captured
                say(f"{'jobs':<10}one process decodes {part} % of the bytes: the connection of {largest[1]}")
        except KeyboardInterrupt:
            session.shows_totals = False  # they are of some connections only
            raise
        postponed.raise_again()

    with Jobs(count, work) as others:
        session = open_session(Share(0, speeds, others, together))
        session.shared = Merger(others, count)
        return session.work(all_written), session


def shared_rows(
    count: int,
    open_reader: Callable[[Share], LevelsReader],
    files: list[str],
    along: Callable[[Capture], Iterable[PacketBatch]],
    since: Since | None,
) -> tuple[LevelsReader, Iterator[pa.RecordBatch]]:
    """The first reader of a table that several processes read, and the rows; see :meth:`LevelsReader.rows`.

    ``along``: passes the packets of the first process on.
    """
    speeds = speeds_of(count, MERGING)

    def work(number: int, others: Others) -> Totals:
        reader = open_reader(Share(number, speeds, others))
        reader.share(Sender(others, count))
        collect_less()
        with Postponed():  # all processes find the same error
            for _ in reader.rows(open_capture(files), since):
                pass
        return reader.totals

    def rows() -> Iterator[pa.RecordBatch]:
        with running:
            with Postponed() as postponed:
                yield from (batch for _, batch in reader.rows(along(open_capture(files)), since))
            for totals in others.results():
                reader.totals.add_connections(totals)
            postponed.raise_again()

    running = ExitStack()
    others = running.enter_context(Jobs(count, work))
    reader = open_reader(Share(0, speeds, others))
    reader.share(Merger(others, count))
    return reader, rows()


def speeds_of(count: int, alone: float) -> tuple[float, ...]:
    """Of :class:`Share`; ``alone``: as of :func:`shared`."""
    return max(1 - alone * count, LEAST), *[1.0] * (count - 1)
