"""Iceberg tables of a catalog: one that pyiceberg is configured for, or a SQLite file in a local folder.

A run is remembered as a property of the table, set by the commit that adds its files; its snapshot names it, too.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa

from wiredecode.export.lake.run import KnownRun, LakeError, TableRun
from wiredecode.export.lake.table import PREFIX, Lake, TaskStore, Written, files_of, one_line_errors

NAMESPACE = "wiredecode"
CATALOG = "catalog.db"
TIME = "time"
BELOW = "/data"
"""Where in a table its files are."""
RETRIES = "commit.retry.num-retries"
LOCK_SECONDS = 30
"""Time that a writer waits for another one that holds the file of the catalog."""


def catalog_of(text: str) -> tuple[Any, str]:
    """Catalog and namespace of ``CATALOG[:NAMESPACE]``, or of a folder, which has a ``/``. Raises LakeError."""
    if "://" in text:
        raise LakeError(f"{text}: Iceberg needs a catalog there: configure one for pyiceberg, and say iceberg:NAME")
    if "/" in text or text.startswith("."):
        from pyiceberg.catalog.sql import SqlCatalog

        folder = Path(os.path.abspath(text))  # noqa: PTH100 - links stay
        with one_line_errors(text):
            folder.mkdir(parents=True, exist_ok=True)
            uri = f"sqlite:///{folder / CATALOG}?timeout={LOCK_SECONDS}"
            return SqlCatalog("wiredecode", uri=uri, warehouse=folder.as_uri()), NAMESPACE
    from pyiceberg.catalog import load_catalog
    from pyiceberg.utils.config import Config

    name, _, namespace = text.partition(":")
    properties: Any = Config().get_catalog_config(name)
    if properties is None:
        raise LakeError(
            f"pyiceberg has no catalog {name!r}: write it into .pyiceberg.yaml, or set PYICEBERG_CATALOG__"
            f"{name.upper()}__URI; for a folder say iceberg:./{name}"
        )
    with one_line_errors(name):
        return load_catalog(name, **properties), namespace or NAMESPACE


class IcebergLake(Lake):
    """Tables of a namespace; credentials are those of the catalog."""

    def __init__(self, text: str) -> None:
        import pyiceberg.io.pyarrow  # so that it is missed here

        del pyiceberg
        logging.getLogger("pyiceberg").setLevel(logging.ERROR)  # it warns of every column without statistics
        self.catalog, self.namespace = catalog_of(text)

    def tables(self) -> list[str]:
        with one_line_errors(self.namespace):
            if not self.catalog.namespace_exists(self.namespace):
                return []
            return sorted(name[-1] for name in self.catalog.list_tables(self.namespace))

    def _table(self, name: str) -> Any:
        return self.catalog.load_table((*self.namespace.split("."), name))

    def files(self, name: str) -> list[str]:
        with one_line_errors(name):
            return [str(task.file.file_path) for task in self._table(name).scan().plan_files()]

    def find_known(self, name: str, run: TableRun) -> dict[int, KnownRun]:
        with one_line_errors(name):
            identifier = (*self.namespace.split("."), name)
            if not self.catalog.namespace_exists(self.namespace) or not self.catalog.table_exists(identifier):
                return {}
            return _find_known(self._table(name), run)

    def make(self, name: str, schema: pa.Schema) -> None:
        from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError

        identifier = (*self.namespace.split("."), name)
        with one_line_errors(name, CommitFailedException, NamespaceAlreadyExistsError, TableAlreadyExistsError):
            self.catalog.create_namespace_if_not_exists(self.namespace)
            if not self.catalog.table_exists(identifier):
                self._create(identifier, schema)
            table = self._table(name)
            with table.transaction() as transaction, transaction.update_schema() as update:
                update.union_by_name(schema)

    def _create(self, identifier: tuple[str, ...], schema: pa.Schema) -> None:
        from pyiceberg.transforms import DayTransform

        base = self._base()
        location = None if base is None else f"{base}/{identifier[-1]}"
        with self.catalog.create_table_transaction(identifier, schema=schema, location=location) as transaction:
            if TIME in schema.names:
                with transaction.update_spec() as spec:
                    spec.add_field(TIME, DayTransform(), "day")

    def _base(self) -> str | None:
        """The folder of the namespace; None: the catalog alone knows."""
        folder: str | None = self.catalog.load_namespace_properties(self.namespace).get("location")
        warehouse = self.catalog.properties.get("warehouse")
        if folder is None and warehouse is not None and "/" in warehouse:
            folder = f"{warehouse.rstrip('/')}/{self.namespace}"
        return folder and folder.rstrip("/")

    def task_store(self) -> TaskStore:
        with one_line_errors(self.namespace):
            self.catalog.create_namespace_if_not_exists(self.namespace)
            base = self._base()
            if base is None:
                raise LakeError(f"the catalog has no location for tables: give namespace {self.namespace} a location")
            folders = {name: self._table(name).location().rstrip("/") for name in self.tables()}
        return TaskStore(base, folders, BELOW, None)

    def create(self, name: str, path: str) -> BinaryIO:
        with one_line_errors(name):
            return cast(BinaryIO, self._output(name, path).create())

    def _output(self, name: str, path: str) -> Any:
        table = self._table(name)
        return table.io.new_output(_stored_path(table, path))

    def remove(self, name: str, path: str) -> None:
        with one_line_errors(name):
            table = self._table(name)
            table.io.delete(_stored_path(table, path))

    def add(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> None:
        from pyiceberg.exceptions import CommitFailedException

        with one_line_errors(name, CommitFailedException):
            table = self._table(name)
            earlier = _find_known(table, run)
            if run.stream is not None:
                last = table.properties.get(_stream(run))
                run.check_step(None if last is None else int(last))
            replaced = run.replaces(earlier, overwrite=overwrite)
            # Its own retries would add the files without looking again whether they are there.
            metadata = table.metadata
            table.metadata = metadata.model_copy(update={"properties": {**metadata.properties, RETRIES: "0"}})
            old: list[Any] = []
            if replaced:
                tasks = table.scan().plan_files()
                old = files_of({task.file.file_path: task.file for task in tasks}, earlier, replaced)
            properties = {PREFIX + ".run": run.name}
            with table.transaction() as transaction:
                if old:
                    with transaction.update_snapshot(snapshot_properties=properties).overwrite() as snapshot:
                        for file in old:
                            snapshot.delete_data_file(file)
                for number in replaced:
                    if number != run.id:
                        transaction.remove_properties(_property(number))
                tokens = " ".join(sorted(run.tokens))
                properties_set = {_property(run.id): f"{len(files)}:{run.chosen_columns} {tokens}"}
                if run.stream is not None:
                    properties_set = {_stream(run): str(run.stream[1])}
                transaction.set_properties(properties_set)
                if files:
                    paths = [_stored_path(table, file.path) for file in files]
                    transaction.add_files(paths, snapshot_properties=properties, check_duplicate_files=False)


def _stored_path(table: Any, path: str) -> str:
    return f"{table.location().rstrip('/')}{BELOW}/{path}"


def _stream(run: TableRun) -> str:
    return f"{PREFIX}.stream.{run.stream[0]}" if run.stream is not None else ""


def _property(run: int) -> str:
    return f"{PREFIX}.run.{run}"


def _find_known(table: Any, run: TableRun) -> dict[int, KnownRun]:
    runs, tokens = {}, run.tokens
    for name, value in table.properties.items():
        if name.startswith(_property(0)[:-1]):
            counts, *theirs = value.split(" ")
            files, _, columns = counts.partition(":")
            if shared := tokens.intersection(theirs):
                runs[int(name.rpartition(".")[2])] = KnownRun(len(theirs), int(files), len(shared), int(columns or 0))
    return runs
