"""Reading captures for statistics, with one account of totals and damage: once, or with a filter once per level."""

from __future__ import annotations

import gc
import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, BinaryIO

from wiredecode.capture import CaptureError, open_capture
from wiredecode.cli import INTERRUPTED
from wiredecode.cli.output import Output
from wiredecode.cli.session import Session

if TYPE_CHECKING:
    from wiredecode.cli.options import Decoding, Span, Verbosity
    from wiredecode.filter import Filter
    from wiredecode.stats.store import Store

STANDARD_INPUT = "-"


class StatsReader:
    """Captures, and what of them counts; a context manager."""

    def __init__(
        self,
        files: list[str],
        span: Span,
        display: Callable[[], Filter | None],
        decoding: Decoding,
        verbosity: Verbosity,
    ) -> None:
        self._files, self._start, self._end, self._decoding = files, span.start, span.end, decoding.arguments
        self._display, self._verbosity = display, verbosity
        display()  # a wrong one ends the command before anything is read
        self._open = ExitStack()
        self._kept: Any = None
        self.packets = 0
        """How many were read."""

    def __enter__(self) -> StatsReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def run(self, store: Store) -> int:
        """Hand everything to the store, and tell the totals; return the exit code."""
        levels = store.levels
        if self._display() is None:
            levels = store.one_pass
        if len(levels) > 1:
            self._keep()
        codes = [0]
        try:
            for place, (level, columns) in enumerate(levels.items()):
                codes.append(self._read(store, level, columns, again=place > 0))
                if codes[-1] == INTERRUPTED or (codes[-1] and not self.packets):
                    break
        finally:
            gc.unfreeze()  # DuckDB complains about what it finds at the end of the process
        return max(codes)

    def _read(self, store: Store, level: str, columns: list[str], *, again: bool) -> int:
        from wiredecode.export.selection import within
        from wiredecode.tables.reader import TableReader, prefer_bulk

        display = self._display()
        session = Session(
            open_capture([self._file(name) for name in self._files]),
            None,
            Output(),
            start=self._start,
            end=self._end,
            display=display,
            quiet=self._verbosity.quiet or again,
            verbose=self._verbosity.verbose,
        )
        bulk = prefer_bulk(session.capture)
        timed = self._start is not None or self._end is not None
        store.whole = not timed and display is None
        read = list(dict.fromkeys([*columns, *(["time"] if timed else [])]))
        session.counted_reader = reader = TableReader(
            session.batches(),
            level,
            columns=read,
            bulk=bulk,
            display=display,
            connections=store.connections if level == "frames" else None,
            also=store.also(lambda batch: within(batch, *session.span())) if display is None else None,
            **self._decoding,
        )

        def work() -> None:
            try:
                for batch in reader:
                    if len(rows := within(batch, *session.span())):
                        store.add(level, rows)
            except CaptureError:
                if not again:  # told once
                    raise

        code = session.work(work)
        self.packets = max(self.packets, session.totals.packets)
        return code

    def _file(self, name: str) -> str | BinaryIO:
        if name != STANDARD_INPUT or self._kept is None:
            return name
        kept = self._open.enter_context(io.FileIO(self._kept.name))
        kept.name = "<standard input>"
        return kept

    def _keep(self) -> None:
        """Standard input can be read once: copy it into a file."""
        if STANDARD_INPUT not in self._files or sys.stdin is None or sys.stdin.isatty():
            return
        kept = tempfile.NamedTemporaryFile(prefix="wiredecode-stats-")  # noqa: SIM115 - closed in __exit__
        self._kept = self._open.enter_context(kept)
        shutil.copyfileobj(sys.stdin.buffer, self._kept)
        self._kept.flush()
