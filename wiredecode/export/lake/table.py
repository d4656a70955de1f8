"""Common parts of Iceberg and Delta: files are added to a table by one commit, which also remembers the run."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.fs as pafs

from wiredecode.capture.remote import place_of
from wiredecode.export.lake.run import AlreadyThere, Known, LakeError, TableRun, run_name
from wiredecode.frames.escape import escape

TRIES, WAIT_SECONDS = 60, 0.2
"""Number of attempts of a commit while others commit to the same table, and the first wait."""
MOST_WAIT_SECONDS = 3.0
PREFIX = "wiredecode"
"""Of everything that is remembered in a table."""


@dataclass(frozen=True)
class Written:
    """A complete file that is not part of its table yet. ``path`` is below the table; ``day`` None: not by day."""

    table: str
    path: str
    rows: int
    size: int
    day: str | None


class Conflict(Exception):
    """Somebody else has committed to the table in between."""


class Store(ABC):
    """Where files of tables are written. Raises :class:`LakeError` for what cannot be reached or written."""

    day: str | None = None
    """The column that a table is divided by; None: the table divides by the day of ``time`` without a column."""

    @abstractmethod
    def prepare(self, name: str, schema: pa.Schema) -> None:
        """Make a table, or give it the columns of ``schema`` that it does not have. Others may do so meanwhile."""

    @abstractmethod
    def create(self, name: str, path: str) -> BinaryIO:
        """A new file below a table that is prepared."""

    @abstractmethod
    def remove(self, name: str, path: str) -> None:
        """Remove a file that is part of no table."""


@dataclass
class Places(Store):
    """Where files are written by others than who commits, in a form that goes to them."""

    base: str
    """URI of the folder of tables that are not there yet."""
    known: Mapping[str, str]
    """Those of tables that are."""
    below: str
    """Where in a table the files are."""
    day: str | None
    schemas: dict[str, pa.Schema] = field(default_factory=dict)
    """Of the tables that were written to."""

    def prepare(self, name: str, schema: pa.Schema) -> None:
        """The committing process makes the table."""
        self.schemas[name] = schema

    def create(self, name: str, path: str) -> BinaryIO:
        return create_file(self._path(name, path))

    def remove(self, name: str, path: str) -> None:
        place = place_of(self._path(name, path))
        place.system.delete_file(place.path)

    def _path(self, name: str, path: str) -> str:
        return f"{self.known.get(name) or f'{self.base}/{name}'}{self.below}/{path}"


class Lake(Store):
    """Tables at one place."""

    @abstractmethod
    def tables(self) -> list[str]:
        """The names of the tables that are there."""

    @abstractmethod
    def files(self, name: str) -> list[str]:
        """Where the files of a table are now."""

    @abstractmethod
    def known(self, name: str, run: TableRun) -> dict[int, Known]:
        """The runs of a table that share captures with this one; none where there is no such table."""

    @abstractmethod
    def make(self, name: str, schema: pa.Schema) -> None:
        """As :meth:`prepare`. Raises :class:`Conflict` where others were faster."""

    @abstractmethod
    def add(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> None:
        """Add files, in place of those of the runs that ``run`` replaces, as one commit.

        Existing rows are read in the same version of the table that is committed upon. Raises :class:`Conflict` if
        that is no longer the newest, and AlreadyThere.
        """

    @abstractmethod
    def places(self) -> Places:
        """Where others may write files that are committed here."""

    def prepare(self, name: str, schema: pa.Schema) -> None:
        self._again(name, lambda: self.make(name, schema))

    def commit(self, name: str, run: TableRun, files: Sequence[Written], *, overwrite: bool) -> bool:
        """Make files part of a table, unless it has this run already: false then. Others may commit meanwhile."""
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
                time.sleep(random.uniform(0.1, 1) * min(WAIT_SECONDS * 2**attempt, MOST_WAIT_SECONDS))
            else:
                return
        raise LakeError(f"table {name} is changed by others again and again; {TRIES} times: {why}")


@contextmanager
def plainly(what: str, *conflicts: type[BaseException]) -> Iterator[None]:
    """Errors of a library in one line; ``conflicts`` are those that say that others were faster."""
    try:
        yield
    except (LakeError, AlreadyThere, Conflict, ImportError):
        raise
    except conflicts as error:
        raise Conflict(str(error)) from error
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise LakeError(f"{what}: {escape(lines[0])}") from error


def files_of(paths: Mapping[str, Any], known: Mapping[int, Known], replaced: Sequence[int]) -> list[Any]:
    """Contents for the paths of the files that runs have written, which are named after them."""
    found = []
    for run in replaced:
        some = [item for path, item in paths.items() if path.rpartition("/")[2].startswith(f"{run_name(run)}-")]
        if len(some) != known[run].files:
            raise LakeError(
                "some of the captures are in the table already, whose files have been rewritten since (compacted), so "
                "their rows cannot be distinguished; delete them there, or export only captures that are new"
            )
        found += some
    return found


def create_file(uri: str) -> BinaryIO:
    """A new file of a table, local or not."""
    place = place_of(uri)
    if isinstance(place.system, pafs.LocalFileSystem):
        place.system.create_dir(place.path.rpartition("/")[0], recursive=True)
    return cast(BinaryIO, place.system.open_output_stream(place.path))
