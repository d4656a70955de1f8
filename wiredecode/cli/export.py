"""``wiredecode export``: captures as files that other programs read."""

from __future__ import annotations

import signal
import sys
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from typer import Option

from wiredecode.cli import interrupt, options
from wiredecode.cli.interrupt import INTERRUPTED
from wiredecode.cli.output import Output, complain, reason_of, say
from wiredecode.dataclasses import replace
from wiredecode.export.atomic import STANDARD_OUTPUT
from wiredecode.export.target import ExportError
from wiredecode.frames.escape import escape, text_bytes

if TYPE_CHECKING:
    from wiredecode.cli.session import CaptureSession
    from wiredecode.dissect.share import Share
    from wiredecode.export.job import Export, ExportJob
    from wiredecode.filter import Filter
WRITING = {"frames": 0.3}
"""Part of the work that one process does for all, writing tables."""
UNREADABLE = 2
"""Exit code."""


@options.group
class ExportOptions(options.CaptureReading):
    """Options of the export: selection and target."""

    out: str = Option(
        ...,
        "-o",
        "--output",
        metavar="OUT",
        help="File or, partitioned, folder; delta:PATH, iceberg:CATALOG; - is standard output.",
    )
    format_: Literal["ndjson", "json", "csv", "parquet", "arrow", "arrows"] | None = Option(
        None, "--format", help="File format, if the name does not show it. arrow: IPC file; arrows: IPC stream."
    )
    level: options.Level = "frames"
    columns: str | None = Option(None, metavar="A,B,...", help="Only these, by the names that records or filters have.")
    partition_by: str | None = Option(
        None, metavar="A,B,...", help="A folder per value of these columns, or hour, date."
    )
    overwrite: bool = Option(
        False,
        "--overwrite",
        help="With --partition-by: replace a folder that is not empty. Tables: write captures again.",
    )
    compression: str | None = Option(
        None,
        metavar="CODEC",
        help="parquet: zstd (default), snappy, gzip, lz4, none. arrow: lz4, zstd (frames), none. Text: gzip, zstd.",
    )
    row_group: int | None = Option(None, min=1, metavar="ROWS", help="Parquet: most rows of a row group.")
    csv_formulas: options.CsvFormulas = "keep"
    count: int | None = Option(None, "-c", "--count", min=1, metavar="N", help="Stop after N rows.")
    display_filter: options.DisplayFilter = None
    bytes_: options.BytesForm | None = Option(
        None, "--bytes", help="Form of bytes. [default: hex; parquet and arrow hold them as they are]"
    )
    ranges: bool = Option(False, "--ranges", help="Frames as ndjson or json: byte range of every field.")
    ids: Literal["capture", "stable"] = Option(
        "capture", help="stable: ids that do not depend on the rest of the capture, in place of numbers."
    )
    two_passes: options.TwoPasses = False
    show_secrets: options.ShowSecrets = False
    summary_json: options.SummaryJson = None
    jobs: options.Jobs = None

    @cached_property
    def number_of_processes(self) -> int:
        """Number of processes that decode. Raises UsageError."""
        apart = self.level != "packets" and not self.job.is_lake
        return self.processes(
            self.jobs,
            (self.jobs is None and self.level == "connections", "has other orders"),
            (not apart, "is for files of frames, messages, connections and flows"),
            (self.count, "does not go with -c"),
            (self.two_passes, "does not go with -2"),
            (self.summary_json, "does not go with --summary-json"),
        )

    @cached_property
    def display(self) -> Filter | None:
        return options.display_filter(self.display_filter, secrets=self.show_secrets, utc=self.span.utc)

    @cached_property
    def job(self) -> ExportJob:
        """The export. Raises ExportError."""
        from wiredecode.export.job import ExportJob

        demand = replace(
            self.decoding.demand,
            levels=(self.level,),
            columns=options.names(self.columns, "--columns"),
            select=self.display,
            stable_ids=self.ids == "stable",
            two_passes=self.two_passes,
            show_secrets=self.show_secrets,
        )
        job = ExportJob(
            files=self.files,
            out=self.out,
            format=self.format_,
            compression=self.compression,
            demand=demand,
            partitions=options.names(self.partition_by, "--partition-by") or [],
            overwrite=self.overwrite,
            row_group=self.row_group,
            guard_formulas=self.csv_formulas == "guard",
            count=self.count and min(self.count, sys.maxsize),
            start=self.span.start,
            end=self.span.end,
            bytes=self.bytes_,
            ranges=self.ranges,
        )
        job.check()
        return job


def export(settings: ExportOptions) -> int:
    """Write captures as ndjson, json, csv, parquet or arrow, by the ending of OUT or --format.

    OUT appears when it is complete: an interrupted export leaves nothing. Of a damaged capture it holds what could be
    decoded, and the exit code is 2. Totals go to standard error.
    """
    from wiredecode.export.lake.run import AlreadyThere

    try:
        job = settings.job
    except ValueError as error:
        raise options.UsageError(str(error)) from None
    _ = settings.number_of_processes  # refused before a file is opened
    interrupt.raise_on(signal.SIGTERM)  # so that it, too, removes unfinished files
    stream = text_bytes() if job.form.is_text else sys.stdout.buffer
    try:
        return run(settings, kind_of_export(job)(job, stream))
    except AlreadyThere as there:
        if not settings.verbosity.quiet:
            say(f"{'nothing':<10}to do: {escape(job.out)} {there}")
        return 0


def kind_of_export(job: ExportJob) -> type[Export]:
    """The class that does the job; only modules that it needs are imported."""
    if job.is_records:
        from wiredecode.export.records import RecordExport

        return RecordExport
    from wiredecode.tables import bound_memory, without_pandas

    bound_memory()
    without_pandas()
    if job.is_lake:
        from wiredecode.export.lake.export import LakeExport

        return LakeExport
    from wiredecode.export.tables import TableExport

    return TableExport


def run(settings: ExportOptions, export: Export) -> int:
    """Do the job; return the exit code."""
    job = export.job
    try:
        code, session = work(settings, export)
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if code and not session.totals.packets:
            export.discard()
            return code
        export.finish()
    except KeyboardInterrupt:
        interrupt.ignore_signals()  # removing what was written is not interrupted again
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        export.discard()
        complain(export.describe_failure("interrupted"))
        return INTERRUPTED
    except (OSError, ExportError) as error:
        export.discard()
        if isinstance(error, BrokenPipeError) and export.output is None:
            raise
        complain(export.describe_failure(escape(reason_of(error))))
        return UNREADABLE
    except BaseException:
        export.discard()
        raise
    if code:
        complain(f"{export.name} holds what could be decoded, {export.rows}")
    elif not settings.verbosity.quiet and job.out != STANDARD_OUTPUT:
        say(f"{'written':<10}{export.rows} to {export.name}{export.size()}")
    return code


def open_session(settings: ExportOptions, export: Export) -> CaptureSession:
    """The pass over the captures, and the output opened."""
    from wiredecode.cli.session import CaptureSession, Selection

    summary = settings.summary_json
    try:
        reader = export.begin(analyse=summary is not None)
    except (FileExistsError, NotADirectoryError, ValueError) as error:
        raise options.UsageError(str(error)) from None
    return CaptureSession(
        settings.files,
        settings.verbosity,
        reader,
        Selection(export.job.count, settings.span, settings.display),
        summary_json=summary,
        to_stdout=settings.out == STANDARD_OUTPUT,
        output=Output(binary=export.packed),
    )


def work(settings: ExportOptions, export: Export) -> tuple[int, CaptureSession]:
    """Write everything but the end; the exit code, and the session."""
    if settings.number_of_processes == 1:
        session = open_session(settings, export)
        return session.work(partial(write, export, session)), session
    from wiredecode.cli.sharing import MERGING, shared

    def opened(share: Share) -> CaptureSession:
        export.job = replace(export.job, demand=replace(export.job.demand, share=share))
        return open_session(settings, export)

    alone = MERGING if export.job.is_records else WRITING.get(export.job.level, MERGING)
    return shared(settings.number_of_processes, opened, partial(write, export), alone)


def write(export: Any, session: CaptureSession) -> None:
    """Write everything but the end."""
    if export.job.is_records:
        export.write(session.frames(), session.output, session.guard)
        return
    if session.shared is not None:
        export.share(session.reader, session.shared)
    export.write(session.rows() if session.shared is not None else map(export.shape_rows, session.rows()))
