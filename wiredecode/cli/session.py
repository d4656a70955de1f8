"""One run over a capture: reads, selects, shows, and closes with totals, errors and an exit code."""

from __future__ import annotations

import gc
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self, TypeVar

from wiredecode.capture import CaptureError, CaptureInfo, PacketBatch, open_capture
from wiredecode.cli import interrupt
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.options import DecodingWithoutNames, Span, Verbosity
from wiredecode.cli.output import Output, complain, say

if TYPE_CHECKING:
    from rich.progress import Progress

    from wiredecode.dissect.build import ConnectionCallback
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.filter import Filter
    from wiredecode.frames.frame import Frame
    from wiredecode.frames.totals import Totals
    from wiredecode.net.types import Event
    from wiredecode.tables.connections import ConnectionTable

Rendered = TypeVar("Rendered")


class PacketReader(Protocol):
    """Whatever reads the packets, and tells what became of them."""

    @property
    def totals(self) -> Totals: ...


GC_THRESHOLDS = (200_000, 20, 100)
"""Frames are many and mostly free of cycles: rarer collections save a tenth to a sixth of the time."""
COLLECT_CONNECTIONS = 16_384
"""Connections are cycles: after so many that are over, they are collected."""
MOST_LISTED = 10_000
"""Connections of ``--summary-json``; of more only the number is told."""
PROGRESS_AFTER_SECONDS = 1.0
TOTALS_WIDTH = 120
"""Most columns of the totals."""
READING_SLACK_NS = 1_000_000_000
"""Packets of a capture may be out of order by so much: reading goes on so far beyond ``--to``."""
ALWAYS = Span()


class Packets(Protocol):
    """What is read: the capture that some files make, or a live one."""

    info: CaptureInfo

    @property
    def bytes_read(self) -> int: ...

    @property
    def bytes_total(self) -> int | None: ...

    def __iter__(self) -> Iterator[PacketBatch]: ...


class Session:
    """Runs ``dissector`` over ``source`` (files, or what was opened) and hands the selected frames to what shows them.

    Without a dissector, ``work`` reads :meth:`batches` by itself, and sets ``counted_reader``.
    """

    def __init__(
        self,
        source: list[str] | list[str | BinaryIO] | Packets,
        dissector: Dissector | None,
        output: Output,
        *,
        count: int | None = None,
        span: Span = ALWAYS,
        display: Filter | None = None,
        verbosity: Verbosity,
    ) -> None:
        self.capture: Packets = open_capture(source) if isinstance(source, list) else source
        self.dissector, self.output = dissector, output
        self.counted_reader: PacketReader | None = dissector
        self.count, self.times, self.display = count, span, display
        self.quiet, self.verbose = verbosity.quiet, verbosity.verbose
        self.first_ns = 0
        """Time of the first packet."""
        self.reads_on = False
        """Read to the end all the same: more than the frames is wanted."""
        self.stopped = False
        """As much as was asked for has been shown."""
        self.look: Callable[[PacketBatch], None] | None = None
        """Is shown the packets before they are decoded."""
        self.shown: int | None = None
        """Frames shown so far, where not all are."""
        self.on_terminal = sys.stdout.isatty()
        """What is written goes to the terminal, where progress would be in its way."""
        self.connections: ConnectionTable | None = None
        """Those that are over, where they are to be told."""
        self._progress: Progress | None = None
        self._collected = 0
        """Connections that were over when they were last collected."""
        self._began = time.monotonic()

    @classmethod
    def of(
        cls,
        source: list[str] | list[str | BinaryIO] | Packets,
        decoding: DecodingWithoutNames,
        verbosity: Verbosity,
        *,
        count: int | None = None,
        span: Span = ALWAYS,
        display: Filter | None = None,
        colors: Filter | None = None,
        analyse: bool = False,
        on_end: ConnectionCallback | None = None,
        on_over: ConnectionCallback | None = None,
        on_events: Callable[[list[Event]], None] | None = None,
        **demand: Any,
    ) -> Self:
        """Build the session and its dissector.

        No request waits for its answer, and plain messages are not told what they copy, unless ``display``, ``colors``
        (a filter that only colours output) or ``demand`` (see :class:`Demand`) ask for that.
        """
        from wiredecode.dissect.build import build_dissector
        from wiredecode.dissect.demand import Demand

        dissector = build_dissector(
            Demand(**{"link_responses": False, "copies": False, "decode_as": decoding.ports, **demand}),
            decoding.limits,
            filters=(display, colors),
            analyse=analyse,
            on_end=on_end,
            on_over=on_over,
            on_events=on_events,
        )
        return cls(*(source, dissector, Output()), count=count, span=span, display=display, verbosity=verbosity)

    def run(self, show: Callable[[Iterable[Frame]], None], summary_json: Path | None = None) -> int:
        """Show everything, then the totals; return the exit code."""
        return self.work(lambda: show(self.frames()), summary_json)

    def work(self, work: Callable[[], None], summary_json: Path | None = None) -> int:
        """Do the work, then tell the totals; return the exit code."""
        collect_less()
        failure: CaptureError | None = None
        interrupted = False
        if summary_json is not None:
            self._list_connections()
        try:
            work()
        except CaptureError as error:
            failure = error
        except KeyboardInterrupt:
            interrupt.arrived()
            interrupted = True
        finally:
            if self._progress is not None:
                self._progress.stop()
        self.output.flush()
        if not self.quiet:
            self._close(interrupted, failure)
        for each in failure.errors if failure else ():
            complain(str(_single_error(each)))
        if summary_json is not None:
            self._write_totals(summary_json, failure)
        return INTERRUPTED if interrupted else 2 if failure or self._report_failures() else 0

    def _report_failures(self) -> bool:
        """Say that some frames were not read or shown, by mistakes of ours."""
        if self.counted_reader is None or not (failures := self.totals.failures):
            return False
        what, others = failures.most_common(1)[0][0], len(failures) - 1
        more = f", and others: {others:,}" if others else ""
        complain(f"{what} (frames: {failures.total():,}{more}); only their bytes were shown")
        return True

    def guarded(self, make: Callable[[Frame], Rendered]) -> Callable[[Frame], Rendered]:
        """``make``, what shows a frame; where it fails by a mistake of ours, the frame is shown without contents."""
        from wiredecode.frames.failure import strip

        def safely(frame: Frame) -> Rendered:
            try:
                return make(frame)
            except Exception as error:
                self.totals.failures[strip(frame, error, "show").message] += 1
                return make(frame)

        return safely

    def frames(self) -> Iterator[Frame]:
        """The selected frames. All frames are decoded: what comes later may depend on them."""
        frames = self.decoded()
        if self.shows_all:
            return frames
        return self._selected(frames)

    @property
    def shows_all(self) -> bool:
        """Whether every frame is shown."""
        return self.count is None and self.times.is_whole and self.display is None

    def decoded(self) -> Iterator[Frame]:
        """All frames."""
        assert self.dissector is not None
        return self.dissector.frames(self.batches())

    def _selected(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        shown, matches = 0, None if self.display is None else self.display.matches
        self.shown = 0
        for frame in frames:
            if (
                self.stopped
                or shown == self.count
                or not self.within(frame.time_ns)
                or (matches is not None and not matches(frame))
            ):
                continue
            yield frame
            shown += 1
            self.shown = shown
            if shown == self.count and not self.reads_on:
                self.stopped = True

    def within(self, time_ns: int) -> bool:
        start, end = self.span()
        return (start is None or time_ns >= start) and (end is None or time_ns <= end)

    def span(self) -> tuple[int | None, int | None]:
        """The times asked for, in nanoseconds since the epoch; known when the first packets have been read."""
        return self.times.since(self.first_ns)

    def batches(self) -> Iterator[PacketBatch]:
        """The packets, until enough has been shown; what was shown is written out before more is waited for."""
        first = True
        for batch in self.capture:
            if first and len(batch):
                first, self.first_ns = False, int(batch.time_ns[0])
                if self.display is not None:
                    self.display.clock.first_ns = self.first_ns
            if self._is_past_end(batch):
                self.stopped = True  # never back to False: an interrupt sets it, too
            if not self.stopped:
                if self.look is not None:
                    self.look(batch)
                yield batch
            if self.stopped:
                return
            self.output.flush()
            self._collect()
            self.advance(self.capture.bytes_read)

    def _collect(self) -> None:
        over = 0 if self.counted_reader is None else self.totals.connections
        if over - self._collected >= COLLECT_CONNECTIONS:
            self._collected = over
            gc.collect()

    def _is_past_end(self, batch: PacketBatch) -> bool:
        _, end = self.span()
        return not (end is None or self.reads_on) and len(batch) > 0 and int(batch.time_ns[0]) > end + READING_SLACK_NS

    def advance(self, bytes_read: int) -> None:
        """Progress on standard error, for longer work whose output goes elsewhere."""
        if self._progress is None:
            late = time.monotonic() - self._began > PROGRESS_AFTER_SECONDS
            if self.quiet or not late or self.on_terminal or not sys.stderr.isatty():
                return
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

            columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._progress.add_task("reading", total=self.capture.bytes_total)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=bytes_read, refresh=True)

    def _close(self, interrupted: bool, failure: CaptureError | None) -> None:
        from wiredecode.view.totals import files_text, shown_text, totals_text

        if self.verbose:
            say(files_text(self.capture.info))
        totals = self.totals
        if failure is not None and not totals.packets:
            return
        how = "interrupted" if interrupted else "stopped" if self.stopped else ""
        shown = ""
        if self.shown is not None:
            shown = shown_text(
                totals, self.shown, whole=not how and self.shown != self.count, matching=self.display is not None
            )
        say(totals_text(totals, how=how, verbose=self.verbose, width=totals_width(), shown=shown))

    @property
    def totals(self) -> Totals:
        assert self.counted_reader is not None
        return self.counted_reader.totals

    def totals_record(self) -> dict[str, Any]:
        """What ``--summary-json`` tells."""
        from wiredecode.frames.record import totals_record

        return totals_record(self.totals)

    def _list_connections(self) -> None:
        """``--summary-json`` tells every connection."""
        dissector = self.dissector or getattr(self.counted_reader, "dissector", None)
        if dissector is None:
            return
        from wiredecode.tables.connections import ConnectionTable

        self.connections = ConnectionTable(most=MOST_LISTED)
        dissector.watch_connections(self.connections.end)

    def _write_totals(self, path: Path, failure: CaptureError | None) -> None:
        row = self.totals_record()
        if self.connections is not None:
            row["connection_list"] = self.connections.records()
            row["connections_not_listed"] = self.connections.untold
        row["errors"] = [str(error) for error in failure.errors] if failure else []
        write_summary(path, row)


@contextmanager
def rereadable(files: list[str]) -> Iterator[list[str | BinaryIO]]:
    """The same files; standard input, which is to be read twice, is copied into one that goes away."""
    with ExitStack() as opened:
        source: list[str | BinaryIO] = [*files]
        if "-" in files and sys.stdin is not None and not sys.stdin.isatty():
            file = opened.enter_context(tempfile.TemporaryFile())
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.seek(0)
            source = [file if name == "-" else name for name in files]
        yield source


def collect_less() -> None:
    """Collect garbage, which until now was not done."""
    gc.freeze()  # what was imported is never garbage
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def totals_width() -> int:
    """Columns of the totals."""
    return min(shutil.get_terminal_size((TOTALS_WIDTH, 24)).columns, TOTALS_WIDTH)


def write_summary(path: Path, row: dict[str, Any]) -> None:
    """Write the file of ``--summary-json``."""
    import orjson

    from wiredecode.export.atomic import NewFile

    with NewFile(path, follow=False) as file:
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2))


def _single_error(error: CaptureError) -> CaptureError:
    """The same error, without word of the others."""
    return CaptureError(error.path, error.what, error.offset, error.packet, error.advice)
