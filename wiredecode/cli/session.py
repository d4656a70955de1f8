"""One pass over a capture: reads, selects, shows, then reports totals and errors, and returns the exit code."""

from __future__ import annotations

import gc
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeVar

from wiredecode.capture import Capture, CaptureError, PacketBatch, open_capture
from wiredecode.cli import interrupt
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.options import READ_ONCE, Reading, TimeSpan, UsageError, Verbosity
from wiredecode.cli.output import Output, ReadingBar, complain, say
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.dissect.dissector import FRAMES_ONLY, ConnectionCallback, Demand, Dissector, EventCallback
from wiredecode.dissect.share import Reached
from wiredecode.frames.frame import Frame, strip
from wiredecode.frames.record import totals_record
from wiredecode.frames.totals import Totals
from wiredecode.view.totals import files_text, filter_hints, shown_text, totals_text

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture.live.sniffer import Sniffer
    from wiredecode.cli.jobs import TextExchange
    from wiredecode.filter import Filter
    from wiredecode.tables.connections import ConnectionTable
    from wiredecode.tables.reader import LevelsReader

Rendered = TypeVar("Rendered")
Source = list[str] | list[str | BinaryIO] | Capture

GC_THRESHOLDS = (500_000, 20, 100)
"""Frames are many and mostly free of cycles: rarer collections save a tenth to a sixth of the time."""
COLLECT_CONNECTIONS = 65_536
"""Some connections are cycles, as after a bug: after this many ended ones, they are collected."""
MAX_LISTED = 10_000
"""Connections of ``--summary-json``; more are only counted."""
TOTALS_WIDTH = 120
"""Most columns of the totals."""
READING_SLACK_NS = 1_000_000_000
"""Packets of a capture may be out of order by this much: reading continues this far beyond ``--to``."""


@dataclass(frozen=True)
class Selection:
    """The frames that the user asked for: ``-c``, ``--from``, ``--to`` and ``-Y``."""

    count: int | None = None
    span: TimeSpan = field(default_factory=TimeSpan)
    display: Filter | None = None
    phrase: str = "match the filter"
    """Their purpose, in the totals."""
    reads_on: bool = False
    """True if packets are read after the last frame."""

    @property
    def is_everything(self) -> bool:
        return self.count is None and self.span.is_whole and self.display is None


EVERYTHING = Selection()


class CaptureSession:
    """One pass over ``source``: yields the frames of ``selection``, then reports totals and errors.

    ``reader`` reads and counts the packets. With ``summary_json`` its demand has TCP analysis, see :meth:`of`.
    ``totals``: report them, unless the user wants quiet. ``to_stdout``: frames are written there: if that is a
    terminal, there is no progress bar. Records go to ``output``.
    """

    def __init__(
        self,
        source: Source | Sniffer,
        verbosity: Verbosity,
        reader: Dissector | LevelsReader,
        selection: Selection = EVERYTHING,
        *,
        summary_json: Path | None = None,
        totals: bool = True,
        to_stdout: bool = True,
        output: Output | None = None,
    ) -> None:
        for each in source if isinstance(source, list) else ():
            if not isinstance(each, str):
                each.seek(0)  # a copy of standard input, which an earlier pass has read
        self.capture = open_capture(source) if isinstance(source, list) else source
        self.reader, self.output = reader, output or Output()
        self.selection, self._summary_json = selection, summary_json
        self.quiet, self.verbose = verbosity.quiet, verbosity.verbose
        self.shows_totals = totals and not self.quiet
        self.first_ns = 0
        """Time of the first packet; `batches` sets it before the first frame."""
        self.stopped = False
        """True once all frames that were asked for have been shown."""
        self.shown: int | None = None
        """Number of frames shown, if not all are."""
        self.interrupted = False
        self.shared: TextExchange | None = None
        """With ``--jobs``: what goes to, or comes from, other processes."""
        self.connections: ConnectionTable | None = None
        """Ended connections, for ``--summary-json``."""
        if summary_json is not None:
            from wiredecode.tables.connections import ConnectionTable

            self.connections = ConnectionTable(most=MAX_LISTED)
            reader.on_decoded = self.connections.end
        self._bar = ReadingBar(wanted=not (self.quiet or (to_stdout and sys.stdout.isatty())))
        self._collected = 0
        """Number of ended connections at the last garbage collection."""

    @classmethod
    def of(
        cls,
        reading: Reading,
        source: Source | Sniffer,
        selection: Selection = EVERYTHING,
        demand: Demand | None = None,
        *,
        colors: Filter | None = None,
        two_passes: bool = False,
        on_end: ConnectionCallback | None = None,
        on_decoded: ConnectionCallback | None = None,
        on_events: EventCallback | None = None,
        **options: Any,
    ) -> Self:
        """Build the session and its :class:`Dissector`, which gets the callbacks.

        ``demand``: None is `FRAMES_ONLY`; what the selection and ``colors``, a filter that only colours output, need is
        added. ``two_passes``: requests know responses that are too late for one pass. ``options``: of the session.
        """
        demand = reading.decoding.read(demand or FRAMES_ONLY).for_filters(selection.display, colors)
        if two_passes:
            if not isinstance(source, list) or "-" in source:
                raise UsageError(READ_ONCE)
            demand = replace(demand, two_passes=True).read_twice(partial(open_capture, source))
        if options.get("summary_json") is not None:
            demand = replace(demand, analyse=True)
        dissector = Dissector(demand, on_end=on_end, on_decoded=on_decoded, on_events=on_events)
        return cls(source, reading.verbosity, dissector, selection, **options)

    @property
    def dissector(self) -> Dissector:
        """The decoder of the frames."""
        return self.reader if isinstance(self.reader, Dissector) else self.reader.dissector

    def run(self, show: Callable[[Iterable[Frame]], None]) -> int:
        """Show the selected frames, then the totals; return the exit code."""
        return self.work(lambda: show(self.frames()))

    def work(self, work: Callable[[], None]) -> int:
        """Do the work, then report the totals; return the exit code."""
        collect_less()
        failure: CaptureError | None = None
        how = ""
        try:
            work()
        except CaptureError as error:
            failure = error
        except KeyboardInterrupt:
            interrupt.acknowledge()
            self.interrupted, how = True, "interrupted"
        finally:
            self._bar.end()
        self.output.flush()
        if self.shows_totals:
            self._report_totals(how or ("stopped" if self.stopped else ""), failure)
        for each in failure.errors if failure else ():
            complain(str(CaptureError(each.path, each.what, each.offset, each.packet, each.advice)))  # not the others
        if self._summary_json is not None and self.connections is not None:
            row = self.totals_record()
            row["connection_list"] = self.connections.records()
            row["connections_not_listed"] = self.connections.not_listed
            row["errors"] = [str(error) for error in failure.errors] if failure else []
            write_summary(self._summary_json, {**row, "interrupted": True} if self.interrupted else row)
        if self.interrupted:
            return INTERRUPTED
        if failures := self.totals.failures:
            reason, others = failures.most_common(1)[0][0], len(failures) - 1
            more = f", and others: {others:,}" if others else ""
            complain(f"{reason} (frames: {failures.total():,}{more}); only their bytes were shown")
            return 2
        return 2 if failure else 0

    def mute(self) -> None:
        """Show nothing: another process writes what this one makes."""
        self.shows_totals, self.output = False, Output(binary=BytesIO())
        self.output.write = self.output.text = lambda _: None  # type: ignore[method-assign, assignment]
        self._bar.end()

    def guard(
        self, make: Callable[[Frame], Rendered], place: Callable[[Rendered], Rendered] | None = None
    ) -> Callable[[Frame], Rendered]:
        """Wrap a function that shows a frame: if it raises (a bug of ours), the frame is shown without contents.

        ``place``: of :meth:`wiredecode.cli.jobs.TextExchange.making`.
        """

        safely = self.safely(make)
        return safely if self.shared is None else self.shared.making(safely, place)

    def safely(self, make: Callable[[Frame], Rendered]) -> Callable[[Frame], Rendered]:
        """As :meth:`guard`, for frames of this process."""

        def safely(frame: Frame) -> Rendered:
            try:
                return make(frame)
            except Exception as error:
                self.totals.failures[strip(frame, error, "show").message] += 1
                return make(frame)

        return safely

    def frames(self) -> Iterator[Frame]:
        """The selected frames. All frames are decoded, as later ones may depend on them."""
        everything = self.selection.is_everything
        frames = self.all_frames() if everything else self._select(self.all_frames())
        return frames if self.shared is None else self.shared.frames(frames)

    def all_frames(self, on_batch: Callable[[PacketBatch], None] | None = None) -> Iterator[Frame]:
        """All frames; ``on_batch`` as in :meth:`batches`."""
        return self.dissector.frames(self.batches(on_batch))

    def chosen_frames(
        self,
        on_batch: Callable[[PacketBatch], None] | None = None,
        on_reached: Callable[[Reached], None] = lambda _: None,
    ) -> Iterator[tuple[Frame, bool]]:
        """All frames, and whether they are selected; ``on_batch`` as in :meth:`batches`.

        ``on_reached``: is called after each step, with several processes.
        """
        display = self.selection.display
        frames: Iterator[Any] = self.all_frames(on_batch)
        for frame in frames:
            if type(frame) is Reached:
                on_reached(frame)
            else:
                yield frame, self.within(frame.time_ns) and (display is None or display.matches(frame))

    def items(self) -> Iterator[list[Any]]:
        """See :meth:`Dissector.frames_and_blocks`."""
        return self.dissector.frames_and_blocks(self.batches())

    def rows(self, *, counted: bool = False) -> Iterator[pa.RecordBatch]:
        """The selected rows of the reader's table; it continues to the end for the totals. ``counted``: as shown."""
        assert not isinstance(self.reader, Dissector)
        count, done = self.selection.count, 0
        if counted:
            self.count_shown(0)
        for _, batch in self.reader.rows(self.batches(), self.selection.span.since):
            if done == count:
                continue
            rows = batch.slice(0, None if count is None else count - done)
            done += len(rows)
            yield rows
            if counted:
                self.count_shown(len(rows))
            elif done == count:
                self.stopped = True

    def _select(self, frames: Iterable[Any]) -> Iterator[Any]:
        count, display = self.selection.count, self.selection.display
        matches = None if display is None else display.matches
        self.count_shown(0)
        messages = self.dissector.demand.messages
        for frame in frames:
            if type(frame) is Reached:
                yield frame
                continue
            ended = self.interrupted or self.shown == count
            chosen = self.within(frame.time_ns)
            chosen = chosen and (matches is None or matches(frame))
            if ended or not chosen:
                if messages is not None:
                    messages.of(frame)  # no other reader takes them
                continue
            yield frame
            self.count_shown(1)

    def count_shown(self, more: int) -> None:
        """Count shown frames or packets; stop reading once there are enough."""
        self.shown = (self.shown or 0) + more
        if self.shown == self.selection.count and not self.selection.reads_on:
            self.stopped = True

    def within(self, time_ns: int) -> bool:
        """Whether a time is within ``--from`` and ``--to``."""
        start, end = self.span_ns()
        return (start is None or time_ns >= start) and (end is None or time_ns <= end)

    def span_ns(self) -> tuple[int | None, int | None]:
        """``--from`` and ``--to`` in ns since the epoch; known once the first packets were read."""
        return self.selection.span.since(self.first_ns)

    def batches(self, on_batch: Callable[[PacketBatch], None] | None = None) -> Iterator[PacketBatch]:
        """The packets, until all selected frames were shown; flushes the output after each batch.

        ``on_batch`` gets packets before they are decoded. Code after ``yield`` runs once their frames are shown.
        """
        first = True
        for batch in self.capture:
            if len(batch):
                if first:
                    first, self.first_ns = False, int(batch.time_ns[0])
                _, end = self.span_ns()
                if end is not None and not self.selection.reads_on and int(batch.time_ns[0]) > end + READING_SLACK_NS:
                    self.stopped = True  # only ever set: an interrupt sets it, too
            if not self.stopped:
                if on_batch is not None:
                    on_batch(batch)
                yield batch
            if self.stopped:
                break
            self.output.flush()
            if self.totals.connections - self._collected >= COLLECT_CONNECTIONS:
                self._collected = self.totals.connections
                gc.collect()
            self._bar.show(self.capture)
        self._bar.end()

    def _report_totals(self, how: str, failure: CaptureError | None) -> None:
        """Show the totals; ``how``: why reading ended early."""
        if self.verbose:
            say(files_text(self.capture.info))
        totals = self.totals
        if failure is not None and not totals.packets:
            return
        shown, display = "", self.selection.display
        if self.shown is not None:
            whole = not how and self.shown != self.selection.count
            chosen = self.selection.phrase if display is not None else ""
            shown = shown_text(totals, self.shown, whole=whole, chosen=chosen)
        say(totals_text(totals, how=how, verbose=self.verbose, width=totals_width(), shown=shown))
        if display is not None:
            for hint in filter_hints(totals, display):
                say(hint)

    @property
    def totals(self) -> Totals:
        return self.reader.totals

    def totals_record(self) -> dict[str, Any]:
        """The totals of ``--summary-json``."""
        return totals_record(self.totals)


@contextmanager
def rereadable(files: list[str]) -> Iterator[list[str | BinaryIO]]:
    """The files, with standard input copied to a temporary file, so that they can be read twice."""
    with ExitStack() as opened:
        source: list[str | BinaryIO] = [*files]
        if "-" in files and sys.stdin is not None and not sys.stdin.isatty():
            from tempfile import TemporaryFile

            file = opened.enter_context(TemporaryFile())
            shutil.copyfileobj(sys.stdin.buffer, file)
            file.seek(0)
            source = [file if name == "-" else name for name in files]
        yield source


def collect_less() -> None:
    """Turn garbage collection on, which `run` turned off, but rarely."""
    gc.freeze()  # what was imported is never garbage
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()


def totals_width() -> int:
    return min(shutil.get_terminal_size((TOTALS_WIDTH, 24)).columns, TOTALS_WIDTH)


def write_summary(path: Path, row: dict[str, Any]) -> None:
    """Write the file of ``--summary-json``."""
    import orjson

    from wiredecode.export.atomic import NewFile

    with NewFile(path, follow=False) as file:
        file.write(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2))
