"""Common parts of Iceberg and Delta: files of rows, added to a table by one commit, which also records the run."""

import os
import random
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from wiredecode.capture.remote import location_of
from wiredecode.dataclasses import dataclass, field
from wiredecode.export.lake.run import AlreadyThere, KnownRun, LakeError, TableRun, run_name
from wiredecode.export.partition import PartitionWriter
from wiredecode.export.writers import ParquetWriter, WriterSettings
from wiredecode.frames.escape import escape
from wiredecode.tables.portable import TIME, by_protocol
from wiredecode.tables.reader import FRAMES

TRIES, WAIT_SECONDS = 60, 0.2
"""Number of attempts of a commit while others commit to the same table, and the first wait."""
MAX_WAIT_SECONDS = 3.0
PREFIX = "wiredecode"
"""Prefix of the properties of tables."""


@dataclass(frozen=True)
class Written:
    """A complete file that is not part of its table yet. ``path`` is below the table; ``day`` None: not by day."""

    table: str
    path: str
    rows: int
    size: int
    day: str | None


class Conflict(Exception):
    """Another writer has committed to the table in between."""


class Store(ABC):
    """Where files of tables are written. Raises :class:`LakeError` for what cannot be reached or written."""

    day: str | None = None
    """The column that a table is divided by; None: the table divides by the day of ``time`` without a column."""

    @abstractmethod
    def prepare(self, name: str, schema: pa.Schema) -> None:
        """Make a table, or add missing columns of ``schema``. Other writers may do so meanwhile."""

    @abstractmethod
    def create(self, name: str, path: str) -> BinaryIO:
        """A new file below a table that is prepared."""

    @abstractmethod
    def remove(self, name: str, path: str) -> None:
        """Remove a file that is part of no table."""


@dataclass
class TaskStore(Store):
    """Store for tasks that write files but do not commit; it can be pickled."""

    base: str
    """URI of the folder of tables that are not there yet."""
    folders: Mapping[str, str]
    """Tables that exist, by name."""
    below: str
    """Where in a table the files are."""
    day: str | None
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    """Schemas of the tables written, by name."""

    def prepare(self, name: str, schema: pa.Schema) -> None:
        """The committing process makes the table."""
        self.schemas[name] = schema

    def create(self, name: str, path: str) -> BinaryIO:
        return create_file(self._path(name, path))

    def remove(self, name: str, path: str) -> None:
        location = location_of(self._path(name, path))
        location.system.delete_file(location.path)

    def _path(self, name: str, path: str) -> str:
        return f"{self.folders.get(name) or f'{self.base}/{name}'}{self.below}/{path}"


class Lake(Store):
    """Tables at one place."""

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of the tables that are there."""

    @abstractmethod
    def files(self, name: str) -> list[str]:
        """Where the files of a table are now."""

    @abstractmethod
    def find_known(self, name: str, run: TableRun) -> dict[int, KnownRun]:
        """The runs of a table that share captures with this one; none if there is no such table."""

    @abstractmethod
    def make(self, name: str, schema: pa.Schema) -> None:
        """As :meth:`prepare`. Raises :class:`Conflict` if another writer was faster."""

    @abstractmethod
    def add(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> None:
        """Add files, in place of those of the runs that ``run`` replaces, as one commit.

        Existing rows are read in the same version of the table that is committed upon. Raises :class:`Conflict` if
        that is no longer the newest, and AlreadyThere.
        """

    @abstractmethod
    def task_store(self) -> TaskStore:
        """Store for files that tasks write and this process commits."""

    def is_rewritten(self, name: str, run: TableRun) -> bool:
        """Whether files of runs that share captures with this one were rewritten (compacted): no run replaces them."""
        earlier = self.find_known(name, run)
        there = Counter(path.rpartition("/")[2].partition("-")[0] for path in self.files(name)) if earlier else {}
        return any(there.get(run_name(number), 0) != known.files for number, known in earlier.items())

    def prepare(self, name: str, schema: pa.Schema) -> None:
        self._again(name, lambda: self.make(name, schema))

    def commit(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> bool:
        """Make files part of a table; false if it has this run already. Other writers may commit meanwhile."""
        try:
            self._again(name, lambda: self.add(name, run, files, overwrite=overwrite))
        except AlreadyThere:
            return False
        return True

    def _again(self, name: str, work: Callable[[], None]) -> None:
        why = ""
        for attempt in range(TRIES):
            try:
                work()
            except Conflict as error:
                why = str(error)
                time.sleep(random.uniform(0.1, 1) * min(WAIT_SECONDS * 2**attempt, MAX_WAIT_SECONDS))
            else:
                return
        raise LakeError(f"table {name} is changed by others again and again; {TRIES} times: {why}")


@contextmanager
def one_line_errors(what: str, *conflicts: type[BaseException]) -> Iterator[None]:
    """Turn errors of a library into a LakeError of one line; ``conflicts`` into :class:`Conflict`."""
    try:
        yield
    except (LakeError, AlreadyThere, Conflict, ImportError):
        raise
    except conflicts as error:
        raise Conflict(str(error)) from error
    except Exception as error:
        raise LakeError(f"{what}: {escape(_reason(error))}") from error


CAUSE = re.compile(r"\s*(?:\x1b\[\d+m)?\u21b3(?:\x1b\[0m)?\s*")
"""Before a cause in the errors of delta-rs, one to a line, perhaps in colour."""

NO_CREDENTIALS = "no credentials found"


def _reason(error: Exception) -> str:
    """The first line of an error, with the causes that follow; of several attempts only that there were some."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    first, *causes = [lines[0], *takewhile(lambda line: CAUSE.match(line), lines[1:])]
    shown = [first, *(CAUSE.sub("", cause, count=1).partition(". Attempted:")[0] for cause in causes)]
    if NO_CREDENTIALS in shown[-1]:  # which delta-rs calls an operation that is not supported
        return f"{NO_CREDENTIALS}: set those of the store, such as AWS_ACCESS_KEY_ID or AWS_PROFILE for S3"
    return ": ".join(shown)


def files_of(paths: Mapping[str, Any], earlier: Mapping[int, KnownRun], replaced: Sequence[int]) -> list[Any]:
    """Contents for the paths of the files that runs have written, which are named after them."""
    files = []
    for run in replaced:
        some = [item for path, item in paths.items() if path.rpartition("/")[2].startswith(f"{run_name(run)}-")]
        if len(some) != earlier[run].files:
            raise LakeError(
                "some of the captures are in the table already, whose files have been rewritten since (compacted), so "
                "their rows cannot be distinguished; delete them there, or export only captures that are new"
            )
        files += some
    return files


def create_file(uri: str) -> BinaryIO:
    """A new file of a table, local or not."""
    location = location_of(uri)
    if isinstance(location.system, pafs.LocalFileSystem):
        location.system.create_dir(location.path.rpartition("/")[0], recursive=True)
    return cast(BinaryIO, location.system.open_output_stream(location.path))


TABLES = "captures"
CAPTURES = pa.schema(
    [*((name, pa.string()) for name in ("run", "level", "capture", "digest", "selection")), ("bytes", pa.int64())]
)
"""Captures of the tables. A run is complete when it is there."""
DAY = "day"
FILE_BYTES = 256 << 20
"""A file of this size is finished, and the next row begins another."""


@dataclass
class TableFiles:
    """New files of a table; they are named after the run and the writer."""

    store: Store
    table: str
    run: TableRun
    complete: list[Written] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    _writer: str = field(default_factory=lambda: os.urandom(4).hex())
    _paths: dict[str, str] = field(default_factory=dict)
    """The file that is being written, by folder."""

    def begin(self, folder: str, number: int) -> BinaryIO:
        name = f"{self.run.name}-{self._writer}-{len(self.begun)}.parquet"
        path = self._paths[folder] = f"{folder}/{name}" if folder else name
        self.begun.append(path)
        return self.store.create(self.table, path)

    def end(self, folder: str, stream: BinaryIO, rows: int) -> None:
        day = folder.partition("=")[2] if folder and self.store.day is not None else None
        self.complete.append(Written(self.table, self._paths.pop(folder), rows, stream.tell(), day))

    def remove(self) -> None:
        """Remove what was written."""
        for path in self.begun:
            with suppress(LakeError, OSError):
                self.store.remove(self.table, path)
        self.begun.clear()
        self.complete.clear()


class LakeWriter:
    """Writes batches of ``level``, with columns as on Spark (``time`` and, of frames, ``protocol`` among them).

    Frames are a table for each protocol.
    """

    order: str | None = None
    """The column by which the rows of a row group are sorted."""

    def __init__(self, store: Store, level: str, run: TableRun, *, compression: str | None = None) -> None:
        self.store, self.level, self.run = store, level, run
        self.beside: list[PartitionWriter] = []
        self._settings = WriterSettings(compression=compression, order=self.order)
        self._files: dict[str, TableFiles] = {}
        self._writers: dict[str, PartitionWriter] = {}

    def write(self, rows: pa.RecordBatch) -> None:
        for table, part in self.parts(rows):
            dated = with_day(part)
            if table not in self._writers:
                files = self._files[table] = TableFiles(self.store, table, self.run)
                self.store.prepare(table, self.schema(part))
                self._writers[table] = self.writer(files, dated.schema)
            self._writers[table].write(dated)

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The tables that rows belong to."""
        if self.level != FRAMES:
            yield self.level, rows
            return
        for protocol, part in by_protocol(rows):
            yield f"{FRAMES}_{'other' if protocol is None else protocol}", part

    def schema(self, rows: pa.RecordBatch) -> pa.Schema:
        return pa.schema([*rows.schema, *([] if self.store.day is None else [pa.field(DAY, pa.date32())])])

    def writer(self, files: TableFiles, schema: pa.Schema) -> PartitionWriter:
        """Divides rows of a table, with their day, into files."""
        return PartitionWriter(files, schema, [DAY], self.parquet, FILE_BYTES, self.beside)

    def parquet(self, stream: BinaryIO, schema: pa.Schema) -> ParquetWriter:
        return ParquetWriter(stream, schema, self._settings)

    def close(self) -> None:
        """Complete all files."""
        for writer in self._writers.values():
            writer.close()

    def take(self) -> list[Written]:
        """The complete files: the caller commits or removes them."""
        complete = [file for files in self._files.values() for file in files.complete]
        self._writers.clear()
        self._files.clear()
        return complete

    def discard(self) -> None:
        """Remove what was written and not taken."""
        for writer in self._writers.values():
            writer.discard()
        for files in self._files.values():
            files.remove()
        self._files.clear()


def with_day(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, and their day (UTC)."""
    days = rows.column(TIME).cast(pa.timestamp("us")).cast(pa.date32())  # without a zone no database of zones is needed
    return rows.append_column(DAY, days)


def commit(
    lake: Lake, level: str, run: TableRun, files: Sequence[Written], selection: str, *, overwrite: bool
) -> list[str]:
    """Make files part of their tables, that of the captures last; return the names of the tables.

    Files that do not become part of a table are removed.
    """
    names = sorted({file.table for file in files})
    uncommitted = {name: [file for file in files if file.table == name] for name in names}
    try:
        if run.captures:
            others = (name for name in lake.tables() if name == level or name.startswith(f"{level}_"))
            for name in others:  # they have rows of the captures, which are replaced by none
                if name not in uncommitted and lake.find_known(name, run):
                    lake.commit(name, run, [], overwrite=True)
        for name in names:
            if lake.commit(name, run, uncommitted[name], overwrite=overwrite):
                del uncommitted[name]
        if run.captures:
            _commit_captures(lake, level, run, selection, overwrite=overwrite)
    finally:
        for some in uncommitted.values():
            remove(lake, some)
    return names


def remove(store: Store, files: Iterable[Written]) -> None:
    """Remove files that are part of no table, as far as that can still be done."""
    for file in files:
        with suppress(LakeError, OSError):
            store.remove(file.table, file.path)


def _commit_captures(lake: Lake, level: str, run: TableRun, selection: str, *, overwrite: bool) -> None:
    rows = [
        {**capture._asdict(), "run": run.name, "level": level, "capture": capture.name, "selection": selection}
        | {"bytes": capture.size}
        for capture in run.captures
    ]
    commit_table(lake, TABLES, run, pa.Table.from_pylist(rows, CAPTURES), overwrite=overwrite)


def commit_table(lake: Lake, name: str, run: TableRun, rows: pa.Table, *, overwrite: bool) -> None:
    """Add rows without time to a table, as one file."""
    lake.prepare(name, rows.schema)
    if not len(rows) and not lake.find_known(name, run):
        return
    files = TableFiles(lake, name, run)
    try:
        if len(rows):
            with files.begin("", 0) as stream:
                pq.write_table(rows, stream, compression="zstd")
                files.end("", stream, len(rows))
        if lake.commit(name, run, files.complete, overwrite=overwrite):
            files.begun.clear()
    finally:
        files.remove()
