"""One export: where it goes, what is written, and what is told when it ends early."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from wiredecode.capture.remote import NewObject, is_local
from wiredecode.cli import INTERRUPTED, interrupt
from wiredecode.cli.export_job import (
    RECORDS,
    STANDARD_OUTPUT,
    answers,
    check_stable,
    combine,
    form_of,
    has_stable_ids,
    session_of,
)
from wiredecode.cli.options import UsageError
from wiredecode.cli.output import Output, complain, say, text_bytes
from wiredecode.cli.session import Session
from wiredecode.export import target
from wiredecode.export.atomic import NewFile, NewFolder
from wiredecode.export.lake import kind_of
from wiredecode.frames.counted import counted
from wiredecode.frames.escape import escape

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture import PacketBatch
    from wiredecode.cli.export import ExportOptions
    from wiredecode.export.background import Background
    from wiredecode.export.writers import Writer
    from wiredecode.frames.frame import Frame
    from wiredecode.tables.reader import TableReader

UNREADABLE = 2


def run(job: ExportOptions) -> int:
    """Do the job; return the exit code."""
    if kind_of(job.out):
        from wiredecode.cli.exporting_lake import run as run_into_tables

        interrupt.begin_at(signal.SIGTERM)
        return run_into_tables(job)
    form = form_of(job)
    combine(job, form)
    interrupt.begin_at(signal.SIGTERM)  # so that it, too, leaves nothing behind
    if job.level == "frames" and form.name in RECORDS and not job.partitions:
        return Records(job, form).run()
    return Tables(job, form).run()


class Export:
    """What all exports have in common: an output that is committed or discarded, and the lines at the end."""

    unit = "frame"

    def __init__(self, job: ExportOptions, form: target.Form) -> None:
        self.job, self.form = job, form
        self.columns = job.chosen
        """The columns that are written; None: all."""
        self.done = 0
        """Rows handed to the writer."""
        self.place: NewFile | NewFolder | NewObject | None = None
        self.raw: BinaryIO = text_bytes() if form.is_text else sys.stdout.buffer
        self.packed = self.raw
        """What is written to: it compresses into ``raw``, or is the same."""

    def prepare(self) -> Session:
        """Check what was asked for, then open the output."""
        raise NotImplementedError

    def work(self, session: Session) -> None:
        """Write everything but the end."""
        raise NotImplementedError

    def end(self) -> None:
        """Write what ends the format."""

    def run(self) -> int:
        try:
            session = self.prepare()
            code = session.work(partial(self.work, session), self.job.summary_json)
            if code == INTERRUPTED:
                raise KeyboardInterrupt
            if code and not session.totals.packets:
                self.discard()
                return code
            self.finish()
        except KeyboardInterrupt:
            interrupt.end()  # removing what was written is not interrupted again
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            self.discard()
            complain(self.undone("interrupted"))
            return INTERRUPTED
        except (OSError, target.Unclear) as error:
            self.discard()
            if isinstance(error, BrokenPipeError) and self.place is None:
                raise
            complain(self.undone(f"cannot write: {escape(getattr(error, 'strerror', None) or str(error))}"))
            return UNREADABLE
        except BaseException:
            self.discard()
            raise
        self.write_totals(code)
        return code

    def open(self) -> None:
        """Open the output; a folder is opened by who fills it."""
        if self.job.out != STANDARD_OUTPUT:
            self.place = NewFile(Path(self.job.out)) if is_local(self.job.out) else NewObject(self.job.out)
            self.raw = self.place.stream
        self.packed = target.packing(self.raw, self.form) if self.form.is_text else self.raw

    def finish(self) -> None:
        """Everything has been handed over: write the end, and give the output its name."""
        self.end()
        if self.packed is not self.raw:
            self.packed.close()
        self.raw.flush()
        if self.place is not None:
            self.place.commit()

    def discard(self) -> None:
        if self.place is not None:
            self.place.discard()

    def undone(self, why: str) -> str:
        """Why there is no output, and how far it had come."""
        so_far = f"{why}, after {counted(self.done, self.unit)}"
        if self.job.out == STANDARD_OUTPUT:
            return f"{so_far}; what was written is not complete"
        before = ", what was there before is untouched" if Path(self.job.out).is_file() else ""
        return f"{so_far}; {escape(self.job.out)} was not written{before}"

    def write_totals(self, code: int) -> None:
        """Say what was written."""
        if code:
            complain(f"{self.name} holds what could be decoded, {counted(self.done, self.unit)}")
        elif not self.job.verbosity.quiet and self.job.out != STANDARD_OUTPUT:
            say(f"{'written':<10}{counted(self.done, self.unit)} to {self.name}{self.size()}")

    @property
    def name(self) -> str:
        return "standard output" if self.job.out == STANDARD_OUTPUT else escape(self.job.out)

    def size(self) -> str:
        path = Path(self.job.out)
        return f", {path.stat().st_size:,} bytes" if path.is_file() else ""


class Records(Export):
    """Frames as records, byte for byte as ``pcap --json`` writes them."""

    def prepare(self) -> Session:
        from wiredecode.dissect.build import build_dissector
        from wiredecode.dissect.demand import Demand
        from wiredecode.export.columns import UnknownColumn, checked, record_columns
        from wiredecode.fields.layer import Style
        from wiredecode.frames.record import BYTES

        job = self.job
        try:
            if self.columns is not None:
                self.columns = checked(self.columns, record_columns())
        except UnknownColumn as error:
            raise UsageError(str(error)) from None
        if job.display is not None and has_stable_ids(job):
            check_stable(job.display)
        demand = Demand(
            style=Style(BYTES[job.bytes_ or "hex"], job.show_secrets),
            answers=answers(job),
            select=job.display,
            decode_as=job.decoding.ports,
            stable_ids=has_stable_ids(job),
        )
        session = session_of(job, build_dissector(demand, job.decoding.limits))
        self.open()
        session.output = Output(binary=self.packed)
        return session

    def work(self, session: Session) -> None:
        frames = self.count_frames(session.frames())
        if self.form.name == "ndjson" and self.columns is None:
            from wiredecode.cli.pcap import record_lines

            record_lines(session, self.job.ranges, self.job.bytes_ or "hex")(frames)
        else:
            self._rest(frames, session.output.write)

    def _rest(self, frames: Iterable[Frame], write: Callable[[bytes], None]) -> None:
        """Records in an array, or some of their columns."""
        from wiredecode.export.columns import picker
        from wiredecode.frames.record import BYTES, dumps, record

        pick, show = picker(self.columns) if self.columns else dict, BYTES[self.job.bytes_ or "hex"]
        before, between, after = (b"[\n", b",\n", b"") if self.form.name == "json" else (b"", b"", b"\n")
        for frame in frames:
            row = dumps(pick(record(frame, ranges=self.job.ranges)), show)
            write(before + row[:-1] + after)
            before = between

    def end(self) -> None:
        if self.form.name == "json":
            self.packed.write(b"\n]\n" if self.done else b"[]\n")

    def count_frames(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        for frame in frames:
            self.done += 1
            yield frame


class Tables(Export):
    """Rows of any level through Arrow, in one file or in partitions."""

    texts_encoded = True
    """Whether texts of messages may be dictionaries, where the format has them."""

    def __init__(self, job: ExportOptions, form: target.Form) -> None:
        super().__init__(job, form)
        self.unit = job.level.removesuffix("s")
        self.writer: Writer | None = None
        self.portable: pa.Schema | None = None
        """Of rows that go to Parquet."""
        self.background: Background[pa.RecordBatch] | None = None
        """Writes to files in a thread; text is made by Python, which gains nothing by it."""

    def prepare(self) -> Session:
        from wiredecode.tables import bound_memory, without_pandas

        try:
            bound_memory()
            without_pandas()
            return self._prepared()
        except (FileExistsError, NotADirectoryError, ValueError) as error:
            raise UsageError(str(error)) from None

    def _prepared(self) -> Session:
        from wiredecode.export.background import Background
        from wiredecode.export.selection import Projection
        from wiredecode.export.writers import size

        session = self._opened()
        schema = self.reader.schema if self.portable is None else self.portable
        self.projection = Projection.of(schema, self._columns(schema))
        self.writer = self._writer()
        on_disk = isinstance(self.place, NewFolder) or (self.place is not None and not self.place.is_direct)
        if on_disk and not self.form.is_text and (os.cpu_count() or 1) > 1:
            self.background = Background(self.writer.write, size)
        return session

    def _opened(self) -> Session:
        """The captures, and the reader of their rows."""
        from wiredecode.tables.portable import portable_schema
        from wiredecode.tables.reader import prefer_bulk

        session = session_of(self.job, None)
        self.bulk = prefer_bulk(session.capture)
        self.reader = session.counted_reader = self._reader(session.batches())
        if self.form.name == "parquet":
            self.portable = portable_schema(self.reader.schema)
        return session

    def _needed(self) -> list[str] | None:
        """The columns that are read; those of Parquet are made of them."""
        from wiredecode.export.selection import needed
        from wiredecode.tables.portable import portable_schema, table_columns
        from wiredecode.tables.reader import table_schema
        from wiredecode.tables.schema import named

        by, timed = self.job.partitions, not self.job.span.is_whole
        if self.form.name != "parquet" or self.columns is None:
            return needed(self.columns, by, timed=timed)
        self.columns = named(portable_schema(table_schema(self.job.level)), self.columns)
        return table_columns(needed(self.columns, by, timed=timed))

    def _reader(self, packets: Iterator[PacketBatch]) -> TableReader:
        from wiredecode.tables.reader import TableReader

        job = self.job
        return TableReader(
            packets,
            job.level,
            columns=self._needed(),
            **job.decoding.arguments,
            bytes_choice=job.bytes_ if job.bytes_ and not self.form.is_text else "raw",
            show_secrets=job.show_secrets,
            encoded=self.texts_encoded and self.form.name == "parquet" and not job.partitions,
            bulk=self.bulk,
            display=job.display,
            stable_ids=has_stable_ids(job),
            answers=answers(job),
        )

    def _columns(self, schema: pa.Schema) -> list[str]:
        """What is written: what was asked for, and what the partitions are made of."""
        from wiredecode.export.partition import TIMES, check_partition
        from wiredecode.export.selection import TIME

        by = [TIME if name in TIMES else name for name in self.job.partitions]
        for name in by:
            check_partition(schema, name)
        return list(dict.fromkeys([*(self.columns or schema.names), *by]))

    def _writer(self) -> Writer:
        from wiredecode.export.partition import LocalFiles, PartitionWriter
        from wiredecode.export.writers import ROW_GROUP, WRITERS, Settings
        from wiredecode.frames.record import BYTES

        job, make = self.job, WRITERS[self.form.name]
        groups = job.row_group or ROW_GROUP
        settings = Settings(BYTES[job.bytes_ or "hex"], self.form.compression, groups, job.csv_formulas == "guard")
        if not job.partitions:
            self.open()
            return make(self.packed, self.projection.schema, settings)
        self.place = NewFolder(Path(job.out), overwrite=job.overwrite)
        return PartitionWriter(
            LocalFiles(self.place.part, self.form.suffix),
            self.projection.schema,
            job.partitions,
            lambda stream, schema: make(stream, schema, settings),
        )

    def work(self, session: Session) -> None:
        from wiredecode.export.selection import within

        assert self.writer is not None
        write = self.writer.write if self.background is None else self.background.put
        for batch in self.reader:
            if session.stopped:  # the reader goes on to the end, for the sake of the totals
                continue
            rows = within(batch, *session.span())
            if self.job.count is not None:
                rows = rows.slice(0, self.job.count - self.done)
            if len(rows):
                write(self.projected(rows))
            self.done += len(rows)
            if self.done == self.job.count:
                session.stopped = True

    def projected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows as they are written."""
        return self.projection.apply(self.made_portable(rows))

    def made_portable(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        from wiredecode.tables.portable import converted

        return rows if self.portable is None else converted(rows, "", self.portable)

    def end(self) -> None:
        assert self.writer is not None
        if self.background is not None:
            self.background.finish()
        self.writer.close()

    def discard(self) -> None:
        from wiredecode.export.partition import PartitionWriter

        if self.background is not None:
            self.background.give_up()
        if isinstance(self.writer, PartitionWriter):
            self.writer.discard()
        super().discard()
