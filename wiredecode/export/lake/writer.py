"""Rows of a level as files of tables: one table, or of frames one per protocol, by day (UTC)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.export.lake.run import LakeError, TableRun
from wiredecode.export.lake.table import Lake, Written
from wiredecode.export.partition import PartitionWriter
from wiredecode.export.writers import ParquetWriter, Settings
from wiredecode.tables.narrow import PROTOCOL, of_protocol
from wiredecode.tables.reader import FRAMES

TABLES = "captures"
CAPTURES = pa.schema(
    [
        *((name, pa.string()) for name in ("run", "level", "capture", "digest", "selection")),
        ("bytes", pa.int64()),
    ]
)
"""Which captures the tables are of. A run is complete when it is there."""
DATE, DAY = "date", "day"
FILE_BYTES = 256 << 20
"""A file of so many bytes is finished, and the next row begins another."""


@dataclass
class TableFiles:
    """New files of a table; they are named after the run, and after who writes."""

    lake: Lake
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
        return self.lake.create(self.table, path)

    def end(self, place: str, stream: BinaryIO, rows: int) -> None:
        day = place.partition("=")[2] if self.by_day and self.lake.day is not None else None
        self.complete.append(Written(self.table, self._paths.pop(place), rows, stream.tell(), day))

    def remove(self) -> None:
        """Remove what was written."""
        for path in self.begun:
            with suppress(LakeError, OSError):
                self.lake.remove(self.table, path)
        self.begun.clear()
        self.complete.clear()


class LakeWriter:
    """Writes batches of ``level``, with columns as on Spark (``time`` and, of frames, ``protocol`` among them)."""

    def __init__(self, lake: Lake, level: str, run: TableRun, *, compression: str | None = None) -> None:
        self.lake, self.level, self.run = lake, level, run
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
            day = [] if self.lake.day is None else [pa.field(self.lake.day, pa.date32())]
            files = self._table(table, pa.schema([*schema, *day]))
            self._writers[table] = PartitionWriter(files, schema, [DATE], self._parquet, FILE_BYTES)
        return self._writers[table]

    def _table(self, table: str, schema: pa.Schema) -> TableFiles:
        if table not in self._files:
            self.lake.prepare(table, schema)
            self._files[table] = TableFiles(self.lake, table, self.run)
        return self._files[table]

    def _parquet(self, stream: BinaryIO, schema: pa.Schema) -> ParquetWriter:
        return ParquetWriter(stream, schema, self._settings)

    def close(self) -> None:
        """Complete all files."""
        for writer in self._writers.values():
            writer.close()

    def complete(self) -> list[Written]:
        """The files that are complete."""
        return [file for files in self._files.values() for file in files.complete]

    def adopt(self, file: Written, schema: pa.Schema) -> None:
        """A file that somebody else has written; ``schema`` of its table."""
        files = self._table(file.table, schema)
        files.begun.append(file.path)
        files.complete.append(file)

    def commit(self, selection: str, *, overwrite: bool) -> list[str]:
        """Make the files part of their tables, that of the captures last; the names of the tables."""
        found = {name: files.complete for name, files in self._files.items()}
        for name in self._others(found):
            self.lake.commit(name, self.run, [], overwrite=True)
        for name, files in found.items():
            if self.lake.commit(name, self.run, files, overwrite=overwrite):
                self._files[name].begun.clear()
        if self.run.captures:
            self._commit_captures(selection, overwrite=overwrite)
        return sorted(found)

    def _others(self, found: dict[str, list[Written]]) -> list[str]:
        """Tables of the level that hold rows of the captures, and get none now."""
        if not self.run.captures:
            return []
        names = (name for name in self.lake.tables() if name == self.level or name.startswith(f"{self.level}_"))
        return [name for name in names if name not in found and self.lake.known(name, self.run)]

    def _commit_captures(self, selection: str, *, overwrite: bool) -> None:
        self.lake.prepare(TABLES, CAPTURES)
        files = TableFiles(self.lake, TABLES, self.run, by_day=False)
        rows = [
            (self.run.name, self.level, capture.name, capture.digest, selection, capture.size)
            for capture in self.run.captures
        ]
        columns = [pa.array(column, kind.type) for column, kind in zip(zip(*rows, strict=True), CAPTURES, strict=True)]
        try:
            with files.begin("", 0) as stream:
                writer = self._parquet(stream, CAPTURES)
                writer.write(pa.record_batch(columns, schema=CAPTURES))
                writer.close()
                files.end("", stream, len(rows))
            if self.lake.commit(TABLES, self.run, files.complete, overwrite=overwrite):
                files.begun.clear()
        finally:
            files.remove()

    def discard(self) -> None:
        """Remove what has not become part of a table."""
        for writer in self._writers.values():
            writer.discard()
        for files in self._files.values():
            files.remove()
        self._files.clear()
