"""Rows of a level as files of tables: one table, or of frames one per protocol, by day (UTC)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.export.lake.run import LakeError, TableRun
from wiredecode.export.lake.table import Lake, Store, Written
from wiredecode.export.partition import PartitionWriter
from wiredecode.export.writers import ParquetWriter, Settings
from wiredecode.tables.portable import PROTOCOL, of_protocol
from wiredecode.tables.reader import FRAMES

TABLES = "captures"
CAPTURES = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "level", "capture", "digest", "selection")),
        ("bytes", pa.int64()),
    ]
)
"""Captures of the tables. A run is complete when it is there."""
DATE, DAY = "date", "day"
FILE_BYTES = 256 << 20
"""A file of this size is finished, and the next row begins another."""


@dataclass
class TableFiles:
    """New files of a table; they are named after the run, and after who writes."""

    store: Store
    table: str
    run: TableRun
    by_day: bool = True
    complete: list[Written] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    _writer: str = field(default_factory=lambda: os.urandom(4).hex())
    _paths: dict[str, str] = field(default_factory=dict)
    """The file that is being written, by place."""

    def begin(self, place: str, number: int) -> BinaryIO:
        day = place.partition("=")[2]
        folder = f"{DAY}={day}/" if self.by_day else ""
        path = self._paths[place] = f"{folder}{self.run.name}-{self._writer}-{len(self.begun)}.parquet"
        self.begun.append(path)
        return self.store.create(self.table, path)

    def end(self, place: str, stream: BinaryIO, rows: int) -> None:
        day = place.partition("=")[2] if self.by_day and self.store.day is not None else None
        self.complete.append(Written(self.table, self._paths.pop(place), rows, stream.tell(), day))

    def remove(self) -> None:
        """Remove what was written."""
        for path in self.begun:
            with suppress(LakeError, OSError):
                self.store.remove(self.table, path)
        self.begun.clear()
        self.complete.clear()


class LakeWriter:
    """Writes batches of ``level``, with columns as on Spark (``time`` and, of frames, ``protocol`` among them)."""

    def __init__(self, store: Store, level: str, run: TableRun, *, compression: str | None = None) -> None:
        self.store, self.level, self.run = store, level, run
        self._settings = Settings(compression=compression)
        self._files: dict[str, TableFiles] = {}
        self._writers: dict[str, PartitionWriter] = {}

    def write(self, rows: pa.RecordBatch) -> None:
        for table, part in self._parts(rows):
            self._writer(table, part.schema).write(part)

    def _parts(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.level != FRAMES:
            yield self.level, rows
            return
        found = rows.column(PROTOCOL)
        for protocol in pc.unique(found).to_pylist():
            if protocol is None:
                yield f"{FRAMES}_other", rows.filter(pc.is_null(found))
            else:
                yield f"{FRAMES}_{protocol}", of_protocol(rows.filter(pc.equal(found, protocol)))

    def _writer(self, table: str, schema: pa.Schema) -> PartitionWriter:
        if table not in self._writers:
            day = [] if self.store.day is None else [pa.field(self.store.day, pa.date32())]
            self.store.prepare(table, pa.schema([*schema, *day]))
            files = self._files[table] = TableFiles(self.store, table, self.run)
            self._writers[table] = PartitionWriter(files, schema, [DATE], self._parquet, FILE_BYTES)
        return self._writers[table]

    def _parquet(self, stream: BinaryIO, schema: pa.Schema) -> ParquetWriter:
        return ParquetWriter(stream, schema, self._settings)

    def close(self) -> None:
        """Complete all files."""
        for writer in self._writers.values():
            writer.close()

    def take(self) -> list[Written]:
        """The complete files: the caller commits or removes them."""
        found = [file for files in self._files.values() for file in files.complete]
        self._writers.clear()
        self._files.clear()
        return found

    def discard(self) -> None:
        """Remove what was written and not taken."""
        for writer in self._writers.values():
            writer.discard()
        for files in self._files.values():
            files.remove()
        self._files.clear()


def commit(
    lake: Lake, level: str, run: TableRun, files: Sequence[Written], selection: str, *, overwrite: bool
) -> list[str]:
    """Make files part of their tables, that of the captures last; return the names of the tables.

    Files that do not become part of a table are removed.
    """
    names = sorted({file.table for file in files})
    left = {name: [file for file in files if file.table == name] for name in names}
    try:
        if run.captures:
            others = (name for name in lake.tables() if name == level or name.startswith(f"{level}_"))
            for name in others:  # they hold rows of the captures, and get none now
                if name not in left and lake.known(name, run):
                    lake.commit(name, run, [], overwrite=True)
        for name in names:
            if lake.commit(name, run, left[name], overwrite=overwrite):
                del left[name]
        if run.captures:
            _commit_captures(lake, level, run, selection, overwrite=overwrite)
    finally:
        for some in left.values():
            remove(lake, some)
    return names


def remove(store: Store, files: Iterable[Written]) -> None:
    """Remove files that are part of no table, as far as that can still be done."""
    for file in files:
        with suppress(LakeError, OSError):
            store.remove(file.table, file.path)


def _commit_captures(lake: Lake, level: str, run: TableRun, selection: str, *, overwrite: bool) -> None:
    lake.prepare(TABLES, CAPTURES)
    files = TableFiles(lake, TABLES, run, by_day=False)
    rows = [
        {**capture._asdict(), "run": run.name, "level": level, "capture": capture.name, "selection": selection}
        | {"bytes": capture.size}
        for capture in run.captures
    ]
    try:
        with files.begin("", 0) as stream:
            writer = ParquetWriter(stream, CAPTURES, Settings())
            writer.write(pa.RecordBatch.from_pylist(rows, CAPTURES))
            writer.close()
            files.end("", stream, len(rows))
        if lake.commit(TABLES, run, files.complete, overwrite=overwrite):
            files.begun.clear()
    finally:
        files.remove()
