"""SQL over captures: DuckDB pulls batches of the tables that a query names, and only those are decoded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wiredecode.capture import CaptureError
from wiredecode.extras import need
from wiredecode.tables.reader import LEVELS, table_schema

if TYPE_CHECKING:
    from wiredecode.tables.reader import LevelsReader

    Open = Callable[[str, list[str] | None], tuple[LevelsReader, Iterator[pa.RecordBatch]]]
    """Opens the captures anew, for a level and columns: what reads them, and the rows."""


MEMORY = "256MiB"
"""Memory limit of DuckDB; larger sorts and groups use temporary files."""
BATCH_ROWS = 8_192
TIME, TIME_NS = "time", "time_ns"
LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}
"""Settings that keep a query from files, the network, extensions and other settings; in this order."""
UNKNOWN_TABLE = "Catalog Error: Table with name"
NEEDS_FILES = "; --allow-files lets queries read and write files"
SCAN = "PYTHON_ARROW_SCAN"


class QueryError(Exception):
    """A query that cannot be answered; ``str()`` is one line."""


class Table:
    """A level as DuckDB sees it: every scan opens the captures anew.

    Times are in microseconds, since DuckDB can hardly count with others; ``time_ns`` beside ``time`` is exact.
    Columns that no query reads are not decoded: they are null.
    """

    def __init__(self, level: str, open_: Open) -> None:
        self.level = level
        self._open = open_
        self.needed: set[str] | None = None
        """Columns that the query reads; None: all."""
        self.errors: list[CaptureError] = []
        """Read errors of the scans."""
        self.unreadable = False
        """True if no packet could be read."""
        self.failure: BaseException | None = None
        """A scan ended with this; DuckDB would show its text only."""
        self.schema = pa.schema(_fields(table_schema(level)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            reader, rows = self._read()
            try:
                yield from map(self._convert, rows)
            except CaptureError as error:
                self.errors += error.errors
                self.unreadable = not reader.totals.packets
        except GeneratorExit:  # the query has enough
            raise
        except BaseException as error:
            self.failure = error
            raise

    def _read(self) -> tuple[LevelsReader, Iterator[pa.RecordBatch]]:
        if self.needed is None:
            return self._open(self.level, None)
        wanted = {TIME if name == TIME_NS else name for name in self.needed}
        names = [name for name in self.schema.names if name in wanted]
        return self._open(self.level, names or self.schema.names[:1])

    def _convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        there = set(batch.schema.names)
        columns = []
        for field in self.schema:
            if field.name == TIME_NS and TIME in there:
                columns.append(batch.column(TIME).cast(pa.int64()))
            elif field.name in there:
                columns.append(batch.column(field.name).cast(field.type, safe=False))
            else:
                columns.append(pa.nulls(len(batch), field.type))
        return pa.record_batch(columns, schema=self.schema)


def _fields(schema: pa.Schema) -> list[pa.Field]:
    fields = []
    for field in schema:
        exact = pa.types.is_timestamp(field.type) and field.type.unit == "ns"
        fields.append(field.with_type(pa.timestamp("us", field.type.tz)) if exact else field)
        if field.name == TIME:
            fields.append(pa.field(TIME_NS, pa.int64()))
    return fields


class Database:
    """The tables ``frames``, ``messages``, ``packets``, ``connections`` and ``flows``; a context manager.

    ``once``: the captures can be read once. ``files``: queries may read and write files, load extensions and change
    settings; else they see the tables, and nothing else. Raises extras.NotInstalled.
    """

    def __init__(self, open_: Open, *, once: bool = False, files: bool = False) -> None:
        need("duckdb", "SQL")
        import duckdb

        self._error: type[Exception] = duckdb.Error
        self._once = once
        self._open = ExitStack()
        folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="wiredecode-sql-"))
        self._connection: Any = self._open.enter_context(duckdb.connect())
        for name, value in (("memory_limit", MEMORY), ("temp_directory", folder), ("TimeZone", "UTC")):
            self._connection.execute(f"set {name} = '{value}'")
        self._connection.execute("set python_enable_replacements = false")
        self.tables = [Table(level, open_) for level in LEVELS]
        for table in self.tables:
            self._connection.register(table.level, table)
        if not files:
            for name, value in LOCKED.items():
                self._connection.execute(f"set {name} = {value}")

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def errors(self) -> list[CaptureError]:
        """Read errors, each once."""
        errors = {str(error): error for table in self.tables for error in table.errors}
        return list(errors.values())

    @property
    def unreadable(self) -> bool:
        """True if no packet of a capture could be read; known once the first batch of the answer is there."""
        return any(table.unreadable for table in self.tables)

    def answer(self, query: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The schema of the answer, and its batches as they are made. Raises QueryError, also while iterating."""
        try:
            self._explain(query)
            relation = self._connection.sql(query)
            if relation is None:
                return pa.schema([]), iter(())
            reader = relation.to_arrow_reader(BATCH_ROWS)
        except self._error as error:
            raise self._query_error(error) from None
        schema = pa.schema(_answer_columns(reader.schema))
        return schema, self._batches(reader, schema)

    def _batches(self, reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                columns = [_texts(column) for column in batch.columns]
                yield pa.record_batch(columns, schema=schema)
        except (self._error, pa.ArrowException, OSError) as error:
            raise self._query_error(error) from None

    def _explain(self, query: str) -> None:
        """Find out which columns are read, from DuckDB's plan; this finds mistakes before anything is decoded."""
        statements = self._connection.extract_statements(query)
        if len(statements) != 1:
            raise QueryError(
                f"one query at a time; there are {len(statements)}" if statements else "the query is empty"
            )
        if statements[0].type.name != "SELECT":
            return
        scans = []
        for _, plan in self._connection.execute(f"explain (format json) {query}").fetchall():
            scans += list(_scans(json.loads(plan)))
        if self._once and len(scans) > 1:
            raise QueryError(f"standard input can be read once, and this query reads it {len(scans)} times")
        needed = _columns(scans)
        for table in self.tables:
            table.needed = needed

    def _query_error(self, error: Exception) -> QueryError:
        for table in self.tables:
            if table.failure is not None:
                raise table.failure
        text = str(error).split("\n\nLINE ")[0]
        advice = NEEDS_FILES if type(error).__name__ == "PermissionException" else ""
        levels = [each.level for each in self.tables]
        if UNKNOWN_TABLE in text and not any(f'"{level}"' in text for level in levels):  # another one is suggested
            text, advice = text.split("!")[0], f"; there is {', '.join(levels)}"
        return QueryError(" ".join(text.split()) + advice)


def _scans(plan: Any) -> Iterator[dict[str, Any]]:
    """Parameters of each scan of a table in the plan."""
    for node in plan if isinstance(plan, list) else [plan]:
        if node["name"] == SCAN:
            yield node.get("extra_info", {})
        yield from _scans(node.get("children", []))


def _columns(scans: list[dict[str, Any]]) -> set[str] | None:
    """The columns that the scans read; None (all) if the plan has an unknown form."""
    needed = set()
    for scan in scans:
        names = scan.get("Projections")
        if names is None or "Filters" in scan:
            return None
        needed |= {name.split(".")[0].strip('"') for name in ([names] if isinstance(names, str) else names)}
    return needed


def _answer_columns(schema: pa.Schema) -> list[pa.Field]:
    """The columns of an answer: each name once, intervals as text."""
    columns: dict[str, pa.Field] = {}
    for field in schema:
        name, number = field.name, 1
        while name in columns:
            number += 1
            name = f"{field.name}_{number}"
        columns[name] = pa.field(name, pa.string() if pa.types.is_interval(field.type) else field.type)
    return list(columns.values())


def _texts(column: pa.Array) -> pa.Array:
    if not pa.types.is_interval(column.type):
        return column
    return pa.array([None if value is None else _interval(*value) for value in column.to_pylist()], pa.string())


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """``1 month 2 days 0.25 s``."""
    parts = [f"{number} {unit}{'' if abs(number) == 1 else 's'}" for number, unit in ((months, "month"), (days, "day"))]
    seconds = f"{nanoseconds / 1e9:.9f}".rstrip("0").rstrip(".")
    return " ".join([part for part in parts if not part.startswith("0 ")] + [f"{seconds} s"])
