"""One export: its columns, rows, format and destination, and the checks before anything is read."""

from __future__ import annotations

import os
import sys
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from wiredecode.capture import open_capture
from wiredecode.capture.remote import NewObject, is_local
from wiredecode.capture.source import STANDARD_INPUT
from wiredecode.dataclasses import dataclass, field, replace
from wiredecode.export import target
from wiredecode.export.atomic import STANDARD_OUTPUT, NewFile, NewFolder
from wiredecode.export.lake import kind_of
from wiredecode.export.target import ExportError
from wiredecode.frames.escape import counted, escape

if TYPE_CHECKING:
    from wiredecode.dissect.dissector import Demand, Dissector
    from wiredecode.tables.reader import LevelsReader

RECORDS = ("ndjson", "json")
"""Formats in which frames are the records that ``pcap --json`` writes."""


@dataclass(frozen=True, kw_only=True)
class ExportJob:
    """Columns, rows, format and destination of an export."""

    files: list[str]
    out: str
    format: str | None = None
    compression: str | None = None
    demand: Demand
    """The pass over the captures: its only level, the columns and the frames that were asked for."""
    partitions: list[str] = field(default_factory=list)
    """Columns that name folders."""
    overwrite: bool = False
    row_group: int | None = None
    guard_formulas: bool = False
    count: int | None = None
    start: Any = None
    end: Any = None
    """Times between which rows are written, as they were asked for; None: no bound."""
    bytes: str | None = None
    ranges: bool = False

    @property
    def level(self) -> str:
        """Content of a row."""
        return self.demand.levels[0]

    @property
    def writes(self) -> bool:
        """False if another process writes the rows of this one."""
        return self.demand.share is None or not self.demand.share.number

    @property
    def is_lake(self) -> bool:
        """True if rows are added to tables of Iceberg or Delta."""
        return kind_of(self.out) is not None

    @property
    def is_records(self) -> bool:
        """True if frames become records, without Arrow."""
        return self.level == "frames" and self.form.name in RECORDS and not self.partitions

    @cached_property
    def form(self) -> target.OutputFormat:
        """Format and compression. Raises ExportError."""
        if self.is_lake:
            form = target.output_format("tables.parquet", self.format, self.compression)
            if form.name != "parquet":
                raise ExportError(f"{self.out} is a place of tables, whose files are parquet")
            return form
        if self.out == STANDARD_OUTPUT and self.format is None:
            raise ExportError(f"standard output needs a --format ({', '.join(target.STREAMS)})")
        folder = self.partitions and self.format is None and not Path(self.out).suffix
        return target.output_format(self.out, "parquet" if folder else self.format, self.compression)

    def read_twice(self) -> Demand:
        """The demand with what a first pass finds, if one is wanted. Rows of many exports in one table: stable ids."""
        demand = replace(self.demand, stable_ids=self.demand.stable_ids or self.is_lake)
        return demand.read_twice(partial(open_capture, self.files))

    def check(self) -> None:
        """Raise ExportError for options that do not fit together, and for an unsuitable output."""
        if self.is_lake:
            self._check_lake()
            return
        if self.out == STANDARD_OUTPUT:
            self._check_standard_output()
        form = self.form
        if self.ranges and (not self.is_records or self.demand.columns):
            raise ExportError("--ranges goes with whole frames as ndjson or json")
        if self.overwrite and not self.partitions:
            raise ExportError(
                "--overwrite goes with --partition-by; a single file is replaced when the new one is complete"
            )
        if self.partitions and (form.name in RECORDS or (form.is_text and form.compression)):
            raise ExportError("partitions are parquet, arrow or plain csv")
        if self.demand.two_passes and STANDARD_INPUT in self.files:
            raise ExportError("--two-passes reads the captures twice, and standard input can be read only once")
        if self.row_group and form.name != "parquet":
            raise ExportError(f"--row-group goes with parquet, not with {form.name}")
        if self.guard_formulas and form.name != "csv":
            raise ExportError(f"--csv-formulas goes with csv, not with {form.name}")
        if self.out != STANDARD_OUTPUT:
            self._check_destination()

    def _check_lake(self) -> None:
        if STANDARD_INPUT in self.files:
            raise ExportError(
                f"{self.out} knows captures by their content, and standard input is read once: save it first"
            )
        for option, given in (("--partition-by", self.partitions), ("--ranges", self.ranges), ("--bytes", self.bytes)):
            if given:
                raise ExportError(f"{option} does not go with {self.out}")
        if self.demand.select is not None:
            self.demand.select.check_stable()
        _ = self.form

    def _check_standard_output(self) -> None:
        form = self.form
        if self.partitions:
            raise ExportError("--partition-by makes a folder, and - is standard output")
        if form.name not in target.STREAMS:
            raise ExportError(f"{form.name} cannot go to standard output; {', '.join(target.STREAMS)} can")
        if not form.is_text and sys.stdout.isatty():
            raise ExportError(f"{form.name} is not for terminals; name a file or a pipe")

    def _check_destination(self) -> None:
        if not is_local(self.out):
            if self.partitions:
                raise ExportError("a folder of partitions is local; elsewhere tables are, as with -o delta:URI")
            return
        out = Path(self.out)
        target.check_folder(out)
        if out.is_dir() and not self.partitions:
            raise ExportError(f"{self.out} is a folder; name a file, or say --partition-by")
        for file in self.files:
            if Path(file).is_file() and os.path.realpath(file) == os.path.realpath(self.out):
                raise ExportError(f"{self.out} is one of the captures")


class Export:
    """An output that is committed or discarded. ``standard``: the stream of standard output."""

    unit = "frame"

    def __init__(self, job: ExportJob, standard: BinaryIO) -> None:
        self.job, self.form = job, job.form
        self.done = 0
        """Rows handed to the writer."""
        self.output: NewFile | NewFolder | NewObject | None = None
        self.raw = self.packed = standard
        """``packed`` compresses into ``raw``, or is the same."""

    def begin(self, *, analyse: bool) -> Dissector | LevelsReader:
        """Open the output; return what reads the captures. ``analyse``: connections have TCP analysis.

        Raises ValueError, FileExistsError, NotADirectoryError.
        """
        raise NotImplementedError

    def end(self) -> None:
        """Write what ends the format."""

    def open(self) -> None:
        """Open the output, if it is a file or object: its writer opens a folder."""
        if not self.job.writes:
            self.raw = self.packed = BytesIO()
            return
        if self.job.out != STANDARD_OUTPUT:
            self.output = NewFile(Path(self.job.out)) if is_local(self.job.out) else NewObject(self.job.out)
            self.raw = self.output.stream
        self.packed = target.compressing(self.raw, self.form) if self.form.is_text else self.raw

    def finish(self) -> None:
        """Write the end, and give the output its name."""
        self.end()
        if self.packed is not self.raw:
            self.packed.close()
        self.raw.flush()
        if self.output is not None:
            self.output.commit()

    def discard(self) -> None:
        """Remove the unfinished output."""
        if self.output is not None:
            self.output.discard()

    @property
    def rows(self) -> str:
        """The number of rows written: ``12 frames``."""
        return counted(self.done, self.unit)

    @property
    def name(self) -> str:
        return "standard output" if self.job.out == STANDARD_OUTPUT else escape(self.job.out)

    def size(self) -> str:
        """Details of the complete output, for the line that names it."""
        path = Path(self.job.out)
        return f", {path.stat().st_size:,} bytes" if path.is_file() else ""

    def describe_failure(self, why: str) -> str:
        """The reason why there is no output, and the number of rows until then."""
        if self.job.out == STANDARD_OUTPUT:
            return f"{why}, after {self.rows}; what was written is not complete"
        before = ", what was there before is untouched" if Path(self.job.out).is_file() else ""
        return f"{why}, after {self.rows}; {escape(self.job.out)} was not written{before}"
