"""What an export was asked for, and what of it cannot be done."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiredecode.capture.remote import is_local
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import Output
from wiredecode.cli.session import Session
from wiredecode.export import target

if TYPE_CHECKING:
    from wiredecode.cli.options import Moment
    from wiredecode.dissect.identify import DecodeAs
    from wiredecode.dissect.lookahead import Known
    from wiredecode.filter import Filter
    from wiredecode.net.limits import Limits

STANDARD_INPUT = STANDARD_OUTPUT = "-"
RECORDS = ("ndjson", "json")
"""Formats in which frames are the records that ``pcap --json`` writes."""


@dataclass
class Job:
    """What the command line asked for."""

    files: list[str]
    out: str
    format: str | None
    compression: str | None
    level: str
    columns: list[str] | None
    partition_by: list[str]
    overwrite: bool
    row_group: int | None
    guard_formulas: bool
    count: int | None
    start: Moment | None
    end: Moment | None
    display: Filter | None
    decode_as: dict[int, DecodeAs]
    limits: Limits
    bytes: str | None
    ranges: bool
    stable_ids: bool
    two_passes: bool
    show_secrets: bool
    summary_json: Path | None
    quiet: bool
    verbose: bool

    def session(self, dissector: Any, output: Output) -> Session:
        session = Session(
            *(self.files, dissector, output),
            count=self.count,
            start=self.start,
            end=self.end,
            display=self.display,
            quiet=self.quiet,
            verbose=self.verbose,
        )
        session.on_terminal = self.out == STANDARD_OUTPUT and sys.stdout.isatty()
        return session

    def answers(self) -> Mapping[int, Known] | None:
        """What a first pass finds of requests that are answered late, where one is wanted."""
        if not self.two_passes or self.level not in ("frames", "messages"):
            return None
        from wiredecode.capture import open_capture
        from wiredecode.dissect.answers import find_answers

        return find_answers(open_capture(self.files), self.limits, self.decode_as, stable_ids=self.stable_ids)


def form_of(job: Job) -> target.Form:
    try:
        if job.out == STANDARD_OUTPUT and job.format is None:
            raise target.Unclear(f"standard output needs a --format ({', '.join(target.STREAMS)})")
        if job.partition_by and job.format is None and not Path(job.out).suffix:
            return target.form(job.out, "parquet", job.compression)
        return target.form(job.out, job.format, job.compression)
    except target.Unclear as error:
        raise UsageError(str(error)) from None


def combine(job: Job, form: target.Form) -> None:
    """Refuse what cannot be done, before anything is read."""
    if job.out == STANDARD_OUTPUT:
        if job.partition_by:
            raise UsageError("--partition-by makes a folder, and - is standard output")
        if form.name not in target.STREAMS:
            raise UsageError(f"{form.name} cannot go to standard output; {', '.join(target.STREAMS)} can")
        if not form.is_text and sys.stdout.isatty():
            raise UsageError(f"{form.name} is not for terminals; name a file or a pipe")
    if job.ranges and (job.level != "frames" or form.name not in RECORDS or job.partition_by or job.columns):
        raise UsageError("--ranges goes with whole frames as ndjson or json")
    if job.overwrite and not job.partition_by:
        raise UsageError("--overwrite goes with --partition-by; a single file is replaced when the new one is complete")
    if job.partition_by and (form.name in RECORDS or (form.is_text and form.compression)):
        raise UsageError("partitions are parquet, arrow or plain csv")
    if job.two_passes and STANDARD_INPUT in job.files:
        raise UsageError("--two-passes reads the captures twice, and standard input can be read only once")
    if job.row_group and form.name != "parquet":
        raise UsageError(f"--row-group goes with parquet, not with {form.name}")
    if job.guard_formulas and form.name != "csv":
        raise UsageError(f"--csv-formulas goes with csv, not with {form.name}")
    if job.out != STANDARD_OUTPUT:
        _check_place(job)


def _check_place(job: Job) -> None:
    if not is_local(job.out):
        if job.partition_by:
            raise UsageError("a folder of partitions is local; elsewhere tables are, as with -o delta:URI")
        return
    out = Path(job.out)
    if not out.resolve().parent.is_dir():
        raise UsageError(f"there is no folder {out.parent} to write {out.name} into")
    if out.is_dir() and not job.partition_by:
        raise UsageError(f"{job.out} is a folder; name a file, or say --partition-by")
    for file in job.files:
        if Path(file).is_file() and os.path.realpath(file) == os.path.realpath(job.out):
            raise UsageError(f"{job.out} is one of the captures")


def check_stable(display: Filter) -> None:
    try:
        display.check_stable()
    except ValueError as error:
        raise UsageError(str(error)) from None
