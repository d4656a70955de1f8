"""Statistics on one machine: the flat tables in a database file of DuckDB, which is gone afterwards."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiredecode.extras import install, installed
from wiredecode.stats.dialects import DUCKDB
from wiredecode.stats.queries import COPY_OF, NO_COPIES, columns, flat, query
from wiredecode.stats.tables import FRAMES, HOUR, MESSAGES, Statistic, fitting, needed
from wiredecode.stats.told import joined
from wiredecode.tables.connections import ConnectionTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from wiredecode.tables.batches import AlsoMessages

MEMORY = "192MiB"
"""Of DuckDB; what needs more goes to temporary files."""
CONNECTIONS = "connections"
HERE = ""
"""The one source there is."""


def require_duckdb() -> None:
    """Raise ``ImportError``, with what to install, where DuckDB is missing. It is not imported."""
    if not installed("duckdb"):
        raise ImportError(f"statistics need DuckDB, which is not installed: {install('sql')}")


class CannotCount(Exception):
    """DuckDB gave up, as on a disk that is full; ``str()`` is one line."""


class Store:
    """Takes batches of frames and messages, then counts; a context manager. Raises :class:`CannotCount`, also later.

    Raises ``ImportError``, with what to install, where DuckDB is missing.
    """

    def __init__(self, statistics: Sequence[Statistic], interval: int | None = HOUR, *, hops: bool = False) -> None:
        require_duckdb()
        import duckdb

        self.statistics, self._interval = statistics, interval
        self._copy_of = NO_COPIES if hops else COPY_OF
        self._error: type[Exception] = duckdb.Error
        self._schemas: dict[str, pa.Schema] = {}
        self.connections = ConnectionTable() if any(each.name == CONNECTIONS for each in statistics) else None
        """Collects what frames do not tell about connections, from whoever reads them."""
        self.whole = True
        """Whether all frames were chosen."""
        self._open = ExitStack()
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="wiredecode-stats-")))
        self._database: Any = self._open.enter_context(duckdb.connect(str(folder / "stats.duckdb")))
        for name, value in (("memory_limit", MEMORY), ("temp_directory", folder), ("TimeZone", "UTC")):
            self._database.execute(f"set {name} = '{value}'")
        self._database.execute("set preserve_insertion_order = false")  # sorts and copies need less memory
        for level in (FRAMES, MESSAGES):
            self._make(level)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def levels(self) -> dict[str, list[str]]:
        """What is to be read: level to the columns of its table, as ``TableReader`` calls them."""
        from wiredecode.tables.portable import table_columns

        wanted = {level: needed(self.statistics, level) for level in (FRAMES, MESSAGES)}
        return {level: table_columns(columns(names, copies=True)) or [] for level, names in wanted.items() if names}

    @property
    def one_pass(self) -> dict[str, list[str]]:
        """What is to be read where messages come :meth:`also`: only of a filter they need a pass of their own."""
        levels = self.levels
        return {FRAMES: levels[FRAMES]} if FRAMES in levels else levels

    def also(self, chosen: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch) -> AlsoMessages | None:
        """Takes the messages of the pass that reads frames, if they are ``chosen``; None: only one is wanted."""
        from wiredecode.tables.batches import AlsoMessages

        levels = self.levels
        if len(levels) == 1:
            return None
        return AlsoMessages(levels[MESSAGES], lambda batch: self.add(MESSAGES, chosen(batch)))

    def add(self, level: str, batch: pa.RecordBatch) -> None:
        """Take rows of a level."""
        if not len(batch):
            return
        from wiredecode.tables.portable import converted

        self._insert(level, converted(batch, HERE, self._schemas[level]))

    def table(self, statistic: Statistic) -> pa.Table:
        """The statistic of all rows taken; without the column ``source``."""
        with self._told():
            answer = self._database.sql(query(statistic, DUCKDB, self._length(statistic)))
            found: pa.Table = answer.to_arrow_table()
        found = found.select(list(statistic.columns))
        if self.connections is None or statistic.name != CONNECTIONS:
            return found
        return joined(found, self.connections.rows, whole=self.whole)

    def _length(self, statistic: Statistic) -> int:
        """The interval, or one that fits the messages."""
        if self._interval is not None or statistic.level != MESSAGES:
            return self._interval or HOUR
        ((span,),) = self._database.execute("select max(time_ns) - min(time_ns) from messages").fetchall()
        return fitting(span or 0)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise CannotCount(" ".join(str(error).split())) from None

    def _make(self, level: str) -> None:
        from wiredecode.tables.portable import SOURCE, chosen, spark_schema
        from wiredecode.tables.reader import COPY_OF as COPIES
        from wiredecode.tables.reader import table_schema

        names = needed(self.statistics, level)
        if not names:
            return
        whole = table_schema(level) if level == MESSAGES else table_schema(level).append(COPIES)
        schema = chosen(spark_schema(whole), [SOURCE.name, *columns(names, copies=True)])
        self._schemas[level] = schema
        self._insert(level, schema.empty_table(), create=True)

    def _insert(self, level: str, rows: pa.RecordBatch | pa.Table, *, create: bool = False) -> None:
        import pyarrow as pa

        if isinstance(rows, pa.RecordBatch):
            rows = pa.Table.from_batches([rows])
        what = f"create table {level} as" if create else f"insert into {level}"
        with self._told():
            self._database.register("incoming", rows)
            self._database.execute(
                f"{what} {flat(DUCKDB, needed(self.statistics, level), 'incoming', copy_of=self._copy_of)}"
            )
            self._database.unregister("incoming")
