"""Delta tables: a folder per table below one path; the library is delta-rs (``deltalake``), which needs no Java.

A run is recorded as Delta's own transaction ids: of each capture the number of the run, of each run its number of
captures and files. They stay when the history of the log is cleaned up; two writers of the same capture conflict.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from wiredecode.capture.remote import ALIASES, is_local, location_of
from wiredecode.export.lake.run import KnownRun, TableRun
from wiredecode.export.lake.table import PREFIX, Lake, TaskStore, Written, files_of, one_line_errors
from wiredecode.tables.schema import members_of

DAY = "day"
MS_US = 1000
BIGGEST_TEXT = 64
"""Longest text that is logged as least or greatest of a column."""


class DeltaLake(Lake):
    """Tables in folders below ``uri``, local or not; credentials are those of the environment."""

    day = DAY

    def __init__(self, uri: str) -> None:
        import deltalake  # so that it is missed here

        del deltalake
        scheme, sign, rest = uri.partition("://")
        self.uri = f"{ALIASES.get(scheme, scheme)}{sign}{rest}" if sign else os.path.abspath(uri)  # noqa: PTH100
        self.uri = self.uri.rstrip("/")

    @cached_property
    def options(self) -> dict[str, str]:
        """Options that the library does not take from the environment itself."""
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        return {"AWS_ALLOW_HTTP": "true"} if plain and not is_local(self.uri) else {}

    def tables(self) -> list[str]:
        import pyarrow.fs as pafs

        with one_line_errors(self.uri):
            location = location_of(self.uri)
            infos = location.system.get_file_info(pafs.FileSelector(location.path, allow_not_found=True))
            return sorted(each.base_name for each in infos if self._is_table(each.base_name))

    def _uri_of(self, name: str) -> str:
        return f"{self.uri}/{name}"

    def _is_table(self, name: str) -> bool:
        from deltalake import DeltaTable

        return bool(DeltaTable.is_deltatable(self._uri_of(name), self.options))

    def _table(self, name: str) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self._uri_of(name), storage_options=self.options)

    def files(self, name: str) -> list[str]:
        with one_line_errors(self._uri_of(name)):
            return list(self._table(name).file_uris())

    def find_known(self, name: str, run: TableRun) -> dict[int, KnownRun]:
        with one_line_errors(self._uri_of(name)):
            return _find_known(self._table(name), run) if self._is_table(name) else {}

    def make(self, name: str, schema: pa.Schema) -> None:
        from deltalake import DeltaTable
        from deltalake.exceptions import CommitFailedError
        from deltalake.schema import Schema

        by = [DAY] if DAY in schema.names else []
        with one_line_errors(self._uri_of(name), CommitFailedError):
            if not self._is_table(name):
                DeltaTable.create(
                    self._uri_of(name),
                    Schema.from_arrow(schema),
                    mode="ignore",
                    partition_by=by,
                    storage_options=self.options,
                )
            table = self._table(name)
            there = pa.schema(table.schema().to_arrow())
            if _lacks(there, schema):
                table.alter.add_columns(list(Schema.from_arrow(schema).fields))

    def create(self, name: str, path: str) -> BinaryIO:
        with one_line_errors(self._uri_of(name)):
            return self.task_store().create(name, path)

    def remove(self, name: str, path: str) -> None:
        with one_line_errors(self._uri_of(name)):
            self.task_store().remove(name, path)

    def task_store(self) -> TaskStore:
        return TaskStore(self.uri, {}, "", DAY)

    def add(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> None:
        from deltalake import CommitProperties
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import RemoveAction

        now = int(time.time() * 1000)
        with one_line_errors(self._uri_of(name), CommitFailedError):
            table = self._table(name)
            earlier = _find_known(table, run)
            if run.stream is not None:
                run.check_step(table.transaction_version(_stream(run)))
            replaced = run.replaces(earlier, overwrite=overwrite)
            actions: list[Any] = [self._add_action(file, now) for file in files]
            if replaced:
                there = table.get_add_actions(flatten=True)
                rows = pa.table(there).select(["path", "size_bytes"]).to_pylist()
                partitioned = DAY in table.schema().to_arrow().names
                old = files_of({row["path"]: row for row in rows}, earlier, replaced)
                for path, size in ((row["path"], row["size_bytes"]) for row in old):
                    day = {DAY: path.partition("/")[0].partition("=")[2]} if partitioned else {}
                    actions.append(RemoveAction(path, True, now, size, day))
            by = [DAY] if any(file.day is not None for file in files) else []
            remembered = CommitProperties(
                custom_metadata={"wiredecodeRun": run.name}, app_transactions=_to_remember(run, len(files))
            )
            table.create_write_transaction(actions, "append", table.schema(), by, commit_properties=remembered)

    def _add_action(self, file: Written, now: int) -> Any:
        from deltalake.transaction import AddAction

        days = {DAY: file.day} if file.day is not None else {}
        location = location_of(f"{self.uri}/{file.table}/{file.path}")
        with location.system.open_input_file(location.path) as opened:
            stats = statistics(pq.read_metadata(opened))
        return AddAction(file.path, file.size, days, now, True, json.dumps(stats))


def _lacks(there: Iterable[pa.Field], wanted: Iterable[pa.Field]) -> bool:
    """Whether a column is missing, or a member of one, also inside arrays."""
    types = {field.name: field.type for field in there}
    return any(
        field.name not in types or _lacks(members_of(types[field.name]), members_of(field.type)) for field in wanted
    )


def _find_known(table: Any, run: TableRun) -> dict[int, KnownRun]:
    def remembered(*words: str) -> int:
        return table.transaction_version(":".join((PREFIX, *words))) or 0

    shared = Counter(number for token in run.tokens if (number := remembered("capture", token)))
    return {
        number: KnownRun(
            captures=remembered("captures", str(number)),
            files=remembered("files", str(number)),
            shared=count,
            columns=remembered("columns", str(number)),
        )
        for number, count in shared.items()
    }


def _stream(run: TableRun) -> str:
    """Name of a stream among the transactions."""
    return f"{PREFIX}:stream:{run.stream[0]}" if run.stream is not None else ""


def _to_remember(run: TableRun, files: int) -> list[Any]:
    from deltalake import Transaction

    if run.stream is not None:
        return [Transaction(_stream(run), run.stream[1])]
    sizes = {"captures": len(run.tokens), "files": files, "columns": run.chosen_columns}
    return [
        *(Transaction(f"{PREFIX}:capture:{token}", run.id) for token in sorted(run.tokens)),
        *(Transaction(f"{PREFIX}:{fact}:{run.id}", size) for fact, size in sizes.items()),
    ]


# Statistics with which engines skip files.


def statistics(metadata: Any) -> dict[str, Any]:
    """Rows, and the least and greatest values of the columns at the top, of a Parquet file, as Delta's log has them."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: Counter[str] = Counter()
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name = column.path_in_schema
            if "." in name:
                continue
            stats = column.statistics if column.is_stats_set else None
            if stats is None or not stats.has_null_count or (not stats.has_min_max and stats.num_values):
                unknown.add(name)
                continue
            nulls[name] += stats.null_count
            if stats.has_min_max:
                least[name] = min(least.get(name, stats.min), stats.min)
                greatest[name] = max(greatest.get(name, stats.max), stats.max)
    bounded = [name for name in least if name not in unknown and _has_bound(least[name], greatest[name])]
    return {
        "numRecords": metadata.num_rows,
        "minValues": {name: _log_value(least[name], up=False) for name in bounded},
        "maxValues": {name: _log_value(greatest[name], up=True) for name in bounded},
        "nullCount": {name: count for name, count in nulls.items() if name not in unknown},
    }


def _has_bound(*values: Any) -> bool:
    """Whether values are of a kind that is logged; long texts are not."""
    return all(
        isinstance(value, int | float | date) or (isinstance(value, str) and len(value) <= BIGGEST_TEXT)
        for value in values
    )


def _log_value(value: Any, *, up: bool) -> Any:
    """A value for the log: times have milliseconds there, and bounds must include their values."""
    if isinstance(value, datetime):
        over = timedelta(microseconds=value.microsecond % MS_US)
        shown = value - over + (timedelta(milliseconds=1) if up and over else timedelta(0))
        return shown.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    return value.isoformat() if isinstance(value, date) else value
