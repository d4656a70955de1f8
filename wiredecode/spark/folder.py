"""The folder of the tables of a run, which a reader sees whole or not at all (docs/spark.md, "Output").

A run writes below ``OUT/.run-<id>``, which readers of tables ignore. At its end it removes ``_SUCCESS``, moves the old
tables to ``OUT/.old-<id>``, renames the new ones, and writes ``_SUCCESS``. So a table is the old one, absent, or the
new one; ``_SUCCESS`` means that all are complete. Object stores copy file by file in place of renaming: there a table
can be seen growing. A killed run leaves its folders, and perhaps no ``_SUCCESS``; the next run removes them. A second
run into a local folder is refused while one writes (:func:`lock_folder`).
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from wiredecode.capture.remote import location_of, store_errors
from wiredecode.export.lake.run import TableRun
from wiredecode.export.lake.table import TaskStore
from wiredecode.spark.accounts import PROBLEMS, TOTALS, TaskReports, flows_table, tables
from wiredecode.spark.writing import FINDINGS, FOUND, PARTITION_COLUMNS, FolderWriter, TaskSink, findings, write_all
from wiredecode.tables.portable import portable_schema
from wiredecode.tables.reader import FLOWS, FRAMES, table_schema
from wiredecode.tables.schema import select

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DONE, VIEWS, RUN, OLD = "_SUCCESS", "_views.sql", ".run-", ".old-"
SCHEMA = "_common_metadata"
TABLES = (*PARTITION_COLUMNS, FLOWS, FINDINGS, TOTALS, PROBLEMS)
ATTEMPTS = "_temporary"
DISCARDS, DISCARD_SECONDS = 30, 0.2
Move = tuple[str, str]
"""A file, and the name that it gets."""


class Occupied(Exception):
    """The folder holds something that no run of this program has written; ``str()`` is one line."""


@contextmanager
def lock_folder(out: str) -> Iterator[None]:
    """Lock a local folder against other writers, until the process ends. Raises :class:`Occupied`."""
    location = location_of(out)
    if os.name == "nt" or not isinstance(location.system, pafs.LocalFileSystem) or Path(location.path).is_file():
        yield
        return
    import fcntl

    Path(location.path).mkdir(parents=True, exist_ok=True)
    held = os.open(location.path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Occupied(f"another run writes to {out}; wait for its end, or name another folder") from None
        yield
    finally:
        os.close(held)


class Folder:
    """The folder ``out`` of a run, wherever fsspec reaches. Raises :class:`Occupied`, CaptureError and OSError.

    Names are those below it.
    """

    def __init__(self, out: str) -> None:
        location = location_of(out)
        self.out, self._system, self._path = location.name(location.path), location.system, location.path
        self.id = secrets.token_hex(6)
        self.run, self._old = f"{RUN}{self.id}", f"{OLD}{self.id}"
        self.attempts = f"{self.run}/{ATTEMPTS}"
        """Where tasks write; files of failed attempts are removed with it."""

    def begin(self) -> None:
        """Remove what runs that were killed have left, and make room for this one."""
        for name in self.check():
            if name.startswith((RUN, OLD)):
                self._delete(name)
        self.make(self.attempts)

    def sink(self, levels: Iterable[str]) -> TaskSink:
        """Where tasks write the tables of levels."""
        run = TableRun((), (self.id, 0))
        return TaskSink(TaskStore(self.path_of(self.attempts), {}, "", None), dict.fromkeys(levels, run), FolderWriter)

    def publish(self, tasks: DataFrame, levels: Sequence[str]) -> TaskReports:
        """Have the tasks write, and put their files into the tables of the run; ``tasks``: rows of FILES."""
        files, _, accounts = write_all(tasks)
        for level in levels:
            self.make(self.table(level))
        names = [f"{file.table}/{file.path}" for file in files]
        self.move((f"{self.attempts}/{name}", self.table(name)) for name in names)
        written = tables(accounts) | ({FLOWS: flows_table(accounts)} if FLOWS in levels else {})
        for name, table in written.items():
            self.write(f"{self.table(name)}/part-0.parquet", table)
        if FRAMES in levels and not any(file.table == FINDINGS for file in files):
            nothing = pa.RecordBatch.from_pylist([], select(portable_schema(table_schema(FRAMES)), [*FOUND, FINDINGS]))
            self.write(f"{self.table(FINDINGS)}/part-0.parquet", pa.Table.from_batches([findings(nothing)]))
        self._write_schema([file.path for file in files if file.table == FRAMES])
        return accounts

    def _write_schema(self, paths: list[str]) -> None:
        """Write the columns of frames of all protocols where Spark looks for them: else it takes those of one file."""
        import pyarrow.parquet as pq

        of_protocols = {path.partition("/")[0]: self._at(f"{self.table(FRAMES)}/{path}") for path in paths}
        if len(of_protocols) > 1:
            with store_errors():
                schemas = [pq.read_schema(path, filesystem=self._system) for path in of_protocols.values()]
            schema = pa.unify_schemas(schemas, promote_options="permissive")
            self.write(f"{self.table(FRAMES)}/{SCHEMA}", schema.empty_table())

    def check(self) -> list[str]:
        """Contents of the folder, if they are all of this program."""
        names = self.names()
        strange = [name for name in names if name not in (*TABLES, DONE) and not name.startswith((".", "_"))]
        ours = DONE in names or any(name.startswith((RUN, OLD)) for name in names)
        if strange or (names and not ours):
            foreign = (strange or names)[0]
            raise Occupied(f"{self.out} holds {foreign}, which wiredecode spark has not written; name another folder")
        return names

    def names(self, folder: str = "") -> list[str]:
        """Names in it, or in a folder below."""
        return sorted(each.base_name for each in self.list(folder))

    def list(self, folder: str = "", *, recursive: bool = False) -> list[Any]:
        """Arrow's infos of the files in it, or in a folder below; ``path`` differs from the names here."""
        if self._kind(folder) is pafs.FileType.File:
            raise Occupied(f"{self.path_of(folder)} is a file; the tables go into a folder")
        with store_errors():
            selector = pafs.FileSelector(self._at(folder), allow_not_found=True, recursive=recursive)
            return list(self._system.get_file_info(selector))

    def path_of(self, name: str) -> str:
        """The full name, for tasks and engines."""
        return f"{self.out}/{name}".rstrip("/")

    def table(self, name: str) -> str:
        """Where a table of this run is until it is complete."""
        return f"{self.run}/{name}"

    def move(self, moves: Iterable[Move]) -> None:
        """Give files their names."""
        created = set[str]()
        for name, to in moves:
            folder = to.rpartition("/")[0]
            if folder not in created:
                self.make(folder)
                created.add(folder)
            self._rename(name, to)

    def write(self, name: str, table: pa.Table) -> None:
        """Write a table as one file."""
        import pyarrow.parquet as pq

        self.make(name.rpartition("/")[0])
        with store_errors(), self._system.open_output_stream(self._at(name)) as file:
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)

    def commit(self, success: dict[str, Any]) -> None:
        """All tables are complete: they get their names; ``success`` is what ``_SUCCESS`` says."""
        written = [name for name in self.names(self.run) if name in TABLES]
        self.make(self._old)
        self._delete(DONE)
        for name in self.names():
            if name in TABLES:
                self._rename(name, f"{self._old}/{name}")
        for name in written:
            self._rename(self.table(name), name)
        self._write(VIEWS, self.views())
        self._write(DONE, json.dumps(success, indent=2) + "\n")
        self._delete(self.run)
        self._delete(self._old)

    def discard(self) -> None:
        """Remove the files of a failed run. Tasks that end now can still write some, so it tries until none appear."""
        gone = 0
        for _ in range(DISCARDS):
            with suppress(Exception):
                self._delete(self.run)
                time.sleep(DISCARD_SECONDS)
                gone = gone + 1 if self._kind(self.run) is pafs.FileType.NotFound else 0
            if gone == 2:
                return

    def views(self) -> str:
        """The tables as views of DuckDB: frames of all protocols with what they have in common, and those of each."""
        tables = {name: self.names(name) for name in TABLES}
        common = "* exclude (layers)" if self._has_layers() else "*"
        views = [_view(name, self.path_of(name), common if name == FRAMES else "*") for name in TABLES if tables[name]]
        each = [
            _view(f"{FRAMES}_{name.partition('=')[2]}", self.path_of(f"{FRAMES}/{name}"), "*")
            for name in tables[FRAMES]
            if name != SCHEMA
        ]
        return "\n".join(["-- duckdb -init _views.sql", *views, *each, ""])

    def _has_layers(self) -> bool:
        import pyarrow.parquet as pq

        file = next((each.path for each in self.list(FRAMES, recursive=True) if each.path.endswith(".parquet")), None)
        return file is not None and "layers" in pq.read_schema(file, filesystem=self._system).names

    # Operations of file systems.

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    def _kind(self, name: str) -> Any:
        with store_errors():
            return self._system.get_file_info(self._at(name)).type

    def make(self, name: str) -> None:
        """Make a folder, where folders are made."""
        with store_errors():
            self._system.create_dir(self._at(name), recursive=True)

    def _delete(self, name: str) -> None:
        kind = self._kind(name)
        with store_errors():
            if kind is pafs.FileType.Directory:
                self._system.delete_dir(self._at(name))
            elif kind is not pafs.FileType.NotFound:
                self._system.delete_file(self._at(name))

    def _rename(self, name: str, to: str) -> None:
        local = isinstance(self._system, pafs.LocalFileSystem)
        if local or self._kind(name) is not pafs.FileType.Directory:
            with store_errors():
                self._system.move(self._at(name), self._at(to))
            return
        at = len(self._at(name))
        files = [each.path[at:] for each in self.list(name, recursive=True) if each.is_file]
        for folder in {path.rpartition("/")[0] for path in files}:  # HDFS does not make it
            self.make(f"{to}{folder}")
        for path in files:  # stores of objects have no folders
            with store_errors():
                self._system.move(self._at(name) + path, self._at(to) + path)
            if self._kind(f"{to}{path}") is pafs.FileType.NotFound:  # WebHDFS refuses without an error
                raise OSError(f"{self.path_of(name)}{path} cannot be renamed to {self.path_of(to)}{path}")

    def _write(self, name: str, text: str) -> None:
        """Write a text; it is there whole or not at all."""
        self.make(self.run)
        with store_errors(), self._system.open_output_stream(self._at(f"{self.run}/{name}")) as stream:
            stream.write(text.encode())
        self._rename(f"{self.run}/{name}", name)


def _view(name: str, folder: str, columns: str) -> str:
    files = folder.replace("'", "''") + "/**/*.parquet"
    how = "hive_partitioning = true, union_by_name = true"
    return f"create or replace view {name} as select {columns} from read_parquet('{files}', {how});"
