"""One export into tables of Iceberg or Delta: what is there already is not decoded again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wiredecode.capture.remote import is_local
from wiredecode.cli.export_job import STANDARD_OUTPUT, check_stable
from wiredecode.cli.exporting import Tables
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import say
from wiredecode.export import target
from wiredecode.export.lake.run import AlreadyThere, run_of, selection
from wiredecode.frames.counted import counted
from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.cli.export import ExportOptions
    from wiredecode.cli.session import Session

NEEDED = {"frames": ("time", "protocol")}
"""Columns that tables are divided by; of other levels it is ``time``."""


def run(job: ExportOptions) -> int:
    """Do the job; return the exit code."""
    _combine(job)
    try:
        form = target.form("tables.parquet", job.format_, job.compression)
        if form.name != "parquet":
            raise target.Unclear(f"{job.out} is a place of tables, whose files are parquet")
    except target.Unclear as error:
        raise UsageError(str(error)) from None
    export = LakeExport(job, form)
    try:
        return export.run()
    except AlreadyThere as there:
        if not job.verbosity.quiet:
            say(f"{'nothing':<10}to do: {escape(job.out)} {there}")
        return 0


def _combine(job: ExportOptions) -> None:
    """Refuse what cannot be done, before anything is read."""
    if STANDARD_OUTPUT in job.files:
        raise UsageError(f"{job.out} knows captures by their content, and standard input is read once: save it first")
    for option, given in (("--partition-by", job.partition_by), ("--ranges", job.ranges), ("--bytes", job.bytes_)):
        if given:
            raise UsageError(f"{option} does not go with {job.out}")
    if job.display is not None:
        check_stable(job.display)


def chosen(job: ExportOptions) -> str:
    """What of the captures is written."""
    display = None if job.display is None else job.display.text
    return selection(job.level, display, count=job.count, **{"from": job.span.start, "to": job.span.end})


class LakeExport(Tables):
    """Rows of any level, as files that one commit for each table makes part of it."""

    texts_encoded = False

    def _prepared(self) -> Session:
        from wiredecode.export.background import Background
        from wiredecode.export.lake import open_lake
        from wiredecode.export.lake.writer import TABLES, LakeWriter
        from wiredecode.export.writers import size

        job = self.job
        if self.columns is not None:
            self.columns = list(dict.fromkeys([*NEEDED.get(job.level, ("time",)), *self.columns]))
        self.lake = open_lake(job.out)
        self.captures = run_of(job.files, chosen(job))
        self.captures.replaces(self.lake.known(TABLES, self.captures), overwrite=job.overwrite)
        session = self._opened()
        self.into = self.writer = LakeWriter(self.lake, job.level, self.captures, compression=self.form.compression)
        self.committing = False
        if is_local(job.out) and (os.cpu_count() or 1) > 1:
            self.background = Background(self.writer.write, size)
        return session

    def projected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return self.made_portable(rows)

    def finish(self) -> None:
        self.end()
        self.committing = True
        self.tables = self.into.commit(chosen(self.job), overwrite=self.job.overwrite)

    def discard(self) -> None:
        if self.background is not None:
            self.background.give_up()
        if self.writer is not None:
            self.into.discard()

    def undone(self, why: str) -> str:
        so_far, out = f"{why}, after {counted(self.done, self.unit)}", escape(self.job.out)
        if self.writer is not None and self.committing:
            return f"{so_far}; some tables of {out} may have them, and the same command completes it"
        return f"{so_far}; {out} has nothing of them"

    def size(self) -> str:
        return f" ({', '.join(self.tables) or 'no table'})"
