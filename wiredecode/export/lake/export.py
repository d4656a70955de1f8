"""One export into tables of Iceberg or Delta: captures that are there already are not decoded again."""

import pyarrow as pa

from wiredecode.export.lake import open_lake
from wiredecode.export.lake.run import contents, run_of, selection
from wiredecode.export.lake.table import TABLES, LakeWriter, commit
from wiredecode.export.tables import TableExport
from wiredecode.frames.escape import escape
from wiredecode.tables.reader import LevelsReader

NEEDED = {"frames": ("time", "protocol")}
"""Columns that tables are divided by; of other levels it is ``time``."""


class LakeExport(TableExport):
    """Rows of any level, as files that one commit per table adds."""

    inner_comments = True

    def begin(self, *, analyse: bool) -> LevelsReader:
        """Open the tables; return the reader of rows. Raises AlreadyThere, ValueError."""
        job = self.job
        if self.columns is not None:
            self.columns = list(dict.fromkeys([*NEEDED.get(job.level, ("time",)), *self.columns]))
        lake = open_lake(job.out)
        captures = run_of(contents(job.files), self._selection_text(), self.columns)
        captures.replaces(lake.find_known(TABLES, captures), overwrite=job.overwrite)
        reader = self._read(analyse=analyse)
        self.lake, self.captures = lake, captures
        self.into = self.writer = LakeWriter(lake, job.level, captures, compression=self.form.compression)
        self.committing = False
        return reader

    def _selection_text(self) -> str:
        """The selection of rows, as the tables record it."""
        job = self.job
        display = None if job.demand.select is None else job.demand.select.text
        return selection(job.level, display, count=job.count, **{"from": job.start, "to": job.end})

    def shape_rows(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they are written: all columns, in the order of the tables."""
        return self.made_portable(rows)

    def finish(self) -> None:
        """Commit the files."""
        self.end()
        self.committing = True
        files, job = self.into.take(), self.job
        self.tables = commit(
            self.lake, job.level, self.captures, files, self._selection_text(), overwrite=job.overwrite
        )

    def discard(self) -> None:
        """Remove the files."""
        if self.writer is not None:
            self.into.discard()

    def describe_failure(self, why: str) -> str:
        """The reason why the tables have nothing new, and the number of rows until then."""
        so_far, out = f"{why}, after {self.rows}", escape(self.job.out)
        if self.writer is not None and self.committing:
            return f"{so_far}; some tables of {out} may have them, and the same command completes it"
        return f"{so_far}; {out} has nothing of them"

    def size(self) -> str:
        """The tables that were written."""
        return f" ({', '.join(self.tables) or 'no table'})"
