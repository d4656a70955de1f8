"""What of an export cannot be done, and what it reads."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from wiredecode.capture.remote import is_local
from wiredecode.cli.options import UsageError, require_folder
from wiredecode.cli.output import Output
from wiredecode.cli.session import Session
from wiredecode.export import target
from wiredecode.export.lake import kind_of

if TYPE_CHECKING:
    from wiredecode.cli.export import ExportOptions
    from wiredecode.dissect.dissector import Dissector
    from wiredecode.dissect.lookahead import KnownOutcome
    from wiredecode.filter import Filter

STANDARD_INPUT = STANDARD_OUTPUT = "-"
RECORDS = ("ndjson", "json")
"""Formats in which frames are the records that ``pcap --json`` writes."""


def session_of(job: ExportOptions, dissector: Dissector | None) -> Session:
    session = Session(
        *(job.files, dissector, Output()),
        count=job.count,
        span=job.span,
        display=job.display,
        verbosity=job.verbosity,
    )
    session.on_terminal = job.out == STANDARD_OUTPUT and sys.stdout.isatty()
    return session


def answers(job: ExportOptions) -> Mapping[int, KnownOutcome] | None:
    """What a first pass finds of requests that are answered late, where one is wanted."""
    if not job.two_passes or job.level not in ("frames", "messages"):
        return None
    return job.decoding.late_answers(job.files, stable_ids=has_stable_ids(job))


def has_stable_ids(job: ExportOptions) -> bool:
    """Rows of many exports stand in one table, so their ids depend on nothing else."""
    return job.ids == "stable" or kind_of(job.out) is not None


def form_of(job: ExportOptions) -> target.Form:
    try:
        if job.out == STANDARD_OUTPUT and job.format_ is None:
            raise target.Unclear(f"standard output needs a --format ({', '.join(target.STREAMS)})")
        if job.partitions and job.format_ is None and not Path(job.out).suffix:
            return target.form(job.out, "parquet", job.compression)
        return target.form(job.out, job.format_, job.compression)
    except target.Unclear as error:
        raise UsageError(str(error)) from None


def combine(job: ExportOptions, form: target.Form) -> None:
    """Refuse what cannot be done, before anything is read."""
    if job.out == STANDARD_OUTPUT:
        if job.partitions:
            raise UsageError("--partition-by makes a folder, and - is standard output")
        if form.name not in target.STREAMS:
            raise UsageError(f"{form.name} cannot go to standard output; {', '.join(target.STREAMS)} can")
        if not form.is_text and sys.stdout.isatty():
            raise UsageError(f"{form.name} is not for terminals; name a file or a pipe")
    if job.ranges and (job.level != "frames" or form.name not in RECORDS or job.partitions or job.chosen):
        raise UsageError("--ranges goes with whole frames as ndjson or json")
    if job.overwrite and not job.partitions:
        raise UsageError("--overwrite goes with --partition-by; a single file is replaced when the new one is complete")
    if job.partitions and (form.name in RECORDS or (form.is_text and form.compression)):
        raise UsageError("partitions are parquet, arrow or plain csv")
    if job.two_passes and STANDARD_INPUT in job.files:
        raise UsageError("--two-passes reads the captures twice, and standard input can be read only once")
    if job.row_group and form.name != "parquet":
        raise UsageError(f"--row-group goes with parquet, not with {form.name}")
    if job.csv_formulas == "guard" and form.name != "csv":
        raise UsageError(f"--csv-formulas goes with csv, not with {form.name}")
    if job.out != STANDARD_OUTPUT:
        _check_place(job)


def _check_place(job: ExportOptions) -> None:
    if not is_local(job.out):
        if job.partitions:
            raise UsageError("a folder of partitions is local; elsewhere tables are, as with -o delta:URI")
        return
    out = Path(job.out)
    require_folder(out)
    if out.is_dir() and not job.partitions:
        raise UsageError(f"{job.out} is a folder; name a file, or say --partition-by")
    for file in job.files:
        if Path(file).is_file() and os.path.realpath(file) == os.path.realpath(job.out):
            raise UsageError(f"{job.out} is one of the captures")


def check_stable(display: Filter) -> None:
    try:
        display.check_stable()
    except ValueError as error:
        raise UsageError(str(error)) from None
