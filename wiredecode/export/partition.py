"""One file per value of some columns, in folders as Hive names them: ``protocol=nats/type=MSG/part-0.parquet``.

The columns are in the names of the folders, not in the files: readers of datasets (pyarrow, polars, DuckDB, Spark)
put them back. Rows keep their order within a file.
"""

import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from wiredecode.dataclasses import dataclass
from wiredecode.export.atomic import close_quietly
from wiredecode.export.target import ExportError
from wiredecode.export.writers import Writer
from wiredecode.tables.portable import take_rows
from wiredecode.tables.rows import is_bytes, values
from wiredecode.tables.schema import field_of, select

MAX_OPEN = 64
"""Files that are written at the same time; the one unused for longest is finished, a later row begins another."""
MAX_WAITING_BYTES = 32 * 1024 * 1024
"""Bytes that wait for row groups, over all open files of a task."""
MAX_PARTITIONS = 10_000
"""More folders than that are a mistake, such as partitioning by frame number."""
NULL = "__HIVE_DEFAULT_PARTITION__"
NAME_BYTES = 255
"""Longest name of a folder that file systems take."""
HASH_DIGITS = 16
CUT_ESCAPE = re.compile("%.?$")

TIMES = {"hour": "hour", "date": "day"}
"""Partitions by time (UTC), and the unit that times are rounded down to."""
SHOWN = {"hour": len("2026-01-31T12"), "date": len("2026-01-31")}
"""Characters of the RFC 3339 time that they show."""


def check_partition(schema: pa.Schema, name: str) -> None:
    """Raise ValueError if ``schema`` has no such column, or if folders cannot be named after its values."""
    kind = field_of(select(schema, [name]), name).type
    if pa.types.is_nested(kind) or is_bytes(kind):
        raise ValueError(f"--partition-by {name}: folders are not named after values of type {kind}")


class Files(Protocol):
    """Where the files are."""

    def begin(self, folder: str, number: int) -> BinaryIO:
        """A new file of the folder ``folder``, which has ``number`` already."""
        ...

    def end(self, folder: str, stream: BinaryIO, rows: int) -> None:
        """A file is complete; the stream is closed afterwards."""
        ...


@dataclass(frozen=True)
class LocalFiles:
    """Folders below ``folder``; ``suffix`` ends the names of files."""

    folder: Path
    suffix: str

    def begin(self, name: str, number: int) -> BinaryIO:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / f"part-{number}{self.suffix}").open("xb")

    def end(self, folder: str, stream: BinaryIO, rows: int) -> None:
        """Bring it to the disk."""
        stream.flush()
        os.fsync(stream.fileno())


@dataclass
class _Open:
    stream: BinaryIO
    writer: Writer
    rows: int = 0


class PartitionWriter:
    """Distributes batches of ``schema`` to ``files``.

    ``by``: names of columns, or ``hour`` and ``date``, which are made of ``time``. ``make`` makes the writer of a
    file for a stream and the schema without the columns of ``by``. A file of ``most_bytes`` is finished, and the next
    row begins another. The columns of a file depend on its folder alone. ``beside``: all writers that share
    :data:`MAX_WAITING_BYTES`; it adds itself.
    """

    def __init__(
        self,
        files: Files,
        schema: pa.Schema,
        by: Sequence[str],
        make: Callable[[BinaryIO, pa.Schema], Writer],
        most_bytes: int | None = None,
        beside: "list[PartitionWriter] | None" = None,
    ) -> None:
        self._places, self._by, self._make, self._most_bytes = files, list(by), make, most_bytes
        self._kept = [name for name in schema.names if name not in by]
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._files: dict[str, int] = {}
        """Files begun, by folder."""
        self._beside = [] if beside is None else beside
        self._beside.append(self)

    def write(self, batch: pa.RecordBatch) -> None:
        for folder, part in self._parts(batch):
            rows = part.select(self._kept)
            opened = self._open_file(folder, rows.schema)
            opened.writer.write(rows)
            opened.rows += len(part)
            if self._most_bytes is not None and opened.stream.tell() >= self._most_bytes:
                self._finish(folder)
        self._relieve()

    def _parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each folder, in the order in which the folders first occur."""
        keys = {str(index): _key(batch, name) for index, name in enumerate(self._by)}
        row = pa.array(range(len(batch)), pa.int64())
        groups = pa.table({**keys, "row": row}).group_by(list(keys), use_threads=False).aggregate([("row", "list")])
        columns = [_texts(groups.column(key), name) for key, name in zip(keys, self._by, strict=True)]
        if len(groups) == 1:
            yield "/".join(names for (names,) in columns), batch
            return
        for *names, rows in zip(*columns, groups.column("row_list"), strict=True):
            yield "/".join(names), take_rows(batch, rows.values)

    def _open_file(self, folder: str, schema: pa.Schema) -> _Open:
        opened = self._open.get(folder)
        if opened is None:
            if len(self._open) >= MAX_OPEN:
                self._finish(next(iter(self._open)))
            number = self._files.get(folder, 0)
            if not number and len(self._files) >= MAX_PARTITIONS:
                by = ",".join(self._by)
                raise ExportError(f"--partition-by {by} makes more than {MAX_PARTITIONS:,} folders")
            stream = self._places.begin(folder, number)
            opened = self._open[folder] = _Open(stream, self._make(stream, schema))
            self._files[folder] = number + 1
        self._open.move_to_end(folder)
        return opened

    def _relieve(self) -> None:
        """Write the largest row groups early if too many bytes wait."""
        writers: list[Any] = [opened.writer for each in self._beside for opened in each._open.values()]
        writers = sorted((each for each in writers if hasattr(each, "waiting_bytes")), key=attrgetter("waiting_bytes"))
        total = sum(map(attrgetter("waiting_bytes"), writers))
        while total > MAX_WAITING_BYTES:
            largest = writers.pop()
            total -= largest.waiting_bytes
            largest.flush()

    def _finish(self, folder: str) -> None:
        opened = self._open.pop(folder)
        with opened.stream as stream:
            opened.writer.close()
            self._places.end(folder, stream, opened.rows)

    def discard(self) -> None:
        """Give up: close the files as they are."""
        for opened in self._open.values():
            close_quietly(opened.stream)
        self._open.clear()

    def close(self) -> None:
        """Finish all files."""
        while self._open:
            self._finish(next(iter(self._open)))


def _key(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Key for grouping rows: of times the start of the hour or day."""
    if name not in TIMES or name in batch.schema.names:
        return batch.column(name)
    times = batch.column("time").cast(pa.timestamp("ns"))  # without a zone, so that no database of zones is needed
    return pc.floor_temporal(times, unit=TIMES[name])


def _texts(column: pa.ChunkedArray, name: str) -> list[str]:
    """The names of the folders for the values of one column."""
    texts = values(column.combine_chunks())
    if name in TIMES and pa.types.is_timestamp(column.type):
        texts = [value and value[: SHOWN[name]] for value in texts]
    return [f"{name}={NULL if value is None else _name(value, name)}" for value in texts]


def _name(value: Any, name: str) -> str:
    """A value as part of a folder name: percent-encoded, long ones shortened with a hash, the text ``null`` marked."""
    text = quote(str(value).lower() if isinstance(value, bool) else str(value), safe=" ")
    if text == NULL:
        return f"%5F{text[1:]}"
    room = NAME_BYTES - len(name) - 1
    if len(text) <= room:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]
    return f"{CUT_ESCAPE.sub('', text[: room - HASH_DIGITS - 1])}~{digest}"
