"""One capture in several processes: each shows the frames, or makes the rows, of its own connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

from wiredecode.capture import open_capture
from wiredecode.capture.errors import Postponed
from wiredecode.cli.jobs import Jobs, Others, TextExchange
from wiredecode.cli.output import say
from wiredecode.cli.session import CaptureSession, collect_less
from wiredecode.dissect.share import Share
from wiredecode.frames.totals import Totals

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture import Capture, PacketBatch
    from wiredecode.tables.reader import LevelsReader, Since

MERGING = 0.08
"""Part of all work that is merging and writing lines."""
LEAST = 0.02
"""Share of the first process of the decoding, at least, as part of that of others."""


Pass = TypeVar("Pass", "CaptureSession", "LevelsReader")


class Shared(Generic[Pass]):
    """One pass in several processes, running; ``first`` is that of this process.

    ``open_``: opens the pass of a process; ``write``: does the work of others; ``alone``: the part of all work that
    the first one does for all, merging and writing; ``together``: of :class:`Dealt`.
    """

    def __init__(
        self,
        count: int,
        open_: Callable[[Share, TextExchange], Pass],
        write: Callable[[Pass], None],
        alone: float = MERGING,
        together: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        speeds = max(1 - alone * count, LEAST), *[1.0] * (count - 1)

        def work(number: int, others: Others) -> tuple[Totals, tuple[int, str]]:
            exchange = TextExchange(others, number, count)
            opened = open_(Share(number, speeds, others, together), exchange)
            exchange.totals = opened.totals
            collect_less()
            with Postponed():  # all processes find the same error
                write(opened)
            return opened.totals, opened.dissector.accounts.largest

        with ExitStack() as running:
            self._others = running.enter_context(Jobs(count, work))
            self.first: Pass = open_(Share(0, speeds, self._others, together), TextExchange(self._others, 0, count))
            self._running = running.pop_all()
        self.largest = 0, ""
        """At the end: the connection with most bytes, see :attr:`Accounts.largest`."""

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Around the work of this process: then its totals are those of all, and the others end."""
        with self._running:
            with Postponed() as postponed:
                yield
            self.largest = self.first.dissector.accounts.largest
            for totals, largest in self._others.results():
                self.first.totals.add_connections(totals)
                self.first.totals.copies += totals.copies
                self.largest = max(self.largest, largest)
            postponed.raise_again()


def shared(
    count: int,
    open_session: Callable[[Share], CaptureSession],
    write: Callable[[CaptureSession], None],
    alone: float = MERGING,
    together: Mapping[int, str] = MappingProxyType({}),
) -> tuple[int, CaptureSession]:
    """Write the frames of a capture; the exit code, and the first session. See :class:`Shared`. Raises OSError."""

    def open_(share: Share, exchange: TextExchange) -> CaptureSession:
        session = open_session(share)
        session.shared = exchange
        if not exchange.is_first:
            session.mute()
        return session

    def all_written() -> None:
        try:
            with passes.merging():
                write(session)
        except KeyboardInterrupt:
            assert session.shared is not None
            session.shows_totals = session.shows_totals and bool(session.shared.decoded)
            for totals in session.shared.decoded:
                session.totals.add_connections(totals)
            raise
        finally:
            if session.shown is not None and session.shared is not None:
                session.shown += session.shared.received
            size, ends = passes.largest
            if session.verbose and not session.quiet and size > session.totals.captured / 2:
                part = size * 100 // session.totals.captured
                say(f"{'jobs':<10}one process decodes {part} % of the bytes: the connection of {ends}")

    passes = Shared(count, open_, write, alone, together)
    session = passes.first
    return session.work(all_written), session


def shared_rows(
    count: int,
    open_reader: Callable[[Share], LevelsReader],
    files: list[str],
    along: Callable[[Capture], Iterable[PacketBatch]],
    since: Since | None,
) -> tuple[LevelsReader, Iterator[pa.RecordBatch]]:
    """The first reader of a table, and the rows of all; see :class:`Shared` and :meth:`LevelsReader.rows`.

    ``along``: passes the packets of the first process on.
    """

    def open_(share: Share, exchange: TextExchange) -> LevelsReader:
        reader = open_reader(share)
        reader.share(exchange)
        return reader

    def read(reader: LevelsReader) -> None:
        for _ in reader.rows(open_capture(files), since):
            pass

    def rows() -> Iterator[pa.RecordBatch]:
        with passes.merging():
            yield from (batch for _, batch in passes.first.rows(along(open_capture(files)), since))

    passes = Shared(count, open_, read)
    return passes.first, rows()
