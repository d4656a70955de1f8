"""Tables below one folder, which a reader sees whole or not at all (docs/spark.md, "Output").

::

    OUT/frames/protocol=nats/day=2026-01-31/part-....parquet    or messages, packets: what was asked for
    OUT/findings/  OUT/totals/  OUT/problems/                   what is beside it
    OUT/_SUCCESS                                                JSON; there when the tables are complete

A run writes below ``OUT/.run-<id>``, which readers of tables pass over. When everything is there, it takes these steps,
each of which a file system with directories (local, HDFS) does at once:

1. ``_SUCCESS`` of the run before is removed: from here on nothing looks complete.
2. The tables of the run before are moved to ``OUT/.old-<id>``, one after the other.
3. The new tables get their names, one after the other.
4. ``_SUCCESS`` appears.

So a table is the old one, or absent, or the new one, and never has rows of both; which ones are there together is told
by ``_SUCCESS`` alone. Object stores copy where others rename, file by file: there a table can be seen growing between
steps 2 and 4. A run that ends before step 1 leaves the result of the run before as it was; one that is killed between
1 and 4 leaves no ``_SUCCESS``. The next run removes whatever has been left over. Two runs must not write into one
folder at the same time.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from wiredecode.capture import CaptureError
from wiredecode.capture.remote import place_of
from wiredecode.frames.totals import Totals
from wiredecode.spark import session
from wiredecode.spark.index import INDEX
from wiredecode.spark.merging import Merger, Written, groups
from wiredecode.spark.packets import unpacked
from wiredecode.spark.writing import DAY, FILES
from wiredecode.tables.portable import chosen, spark_schema
from wiredecode.tables.reader import table_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE, RUN, OLD = "_SUCCESS", ".run-", ".old-"
FINDINGS, TOTALS, PROBLEMS = "findings", "totals", "problems"
LEVELS = {
    "frames": ("protocol", DAY),
    "messages": (DAY, "protocol", "operation"),
    "packets": (DAY, "transport"),
}
"""The tables, and what their folders are named after. Frames of each protocol are a table with columns of its own."""
MERGERS = 2
"""Tasks per core that merge files."""
TABLES = (*LEVELS, FINDINGS, TOTALS, PROBLEMS)
KEPT = {
    "frames": ("source", "frame", "time", "time_ns", "connection", "src", "dst", "protocol", "type", "findings"),
    "messages": ("source", "frame", "index", "time", "time_ns", "protocol", "operation"),
    "packets": ("source", "packet", "time", "time_ns", "transport"),
}
"""Columns that are always written: folders, order and findings are made of them."""
FOUND = ("source", "connection", "frame", "time", "time_ns", "src", "dst", "protocol", "type")
"""Columns of the frame that a finding stands with."""
DISCARDS, DISCARD_SECONDS = 30, 0.2
FILE_ROWS = 4_000_000
"""Most rows of a file; Spark's advisory size of partitions, 64 MB before compression, comes first for most."""
WRITING: dict[str, Any] = {
    "compression": "zstd",
    "maxRecordsPerFile": FILE_ROWS,
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # _SUCCESS is for all tables together
}
INDEX_FILE = ".index.parquet"
"""What the files hold, by connection (``spark/index.py``): for the plan of the next run."""
ATTEMPTS, PROBE = "_temporary", "probe"
DAY_NS = 86_400_000_000_000

TOTALS_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("source", "section", "name", "protocol", "type", "status")),
        ("port", pa.int32()),
        ("value", pa.int64()),
    ]
)
PROBLEMS_SCHEMA = pa.schema([(name, pa.string()) for name in ("source", "file", "problem")])


class Occupied(Exception):
    """The folder holds something that no run of this program has written; ``str()`` is one line."""


# Files, on whatever file system Spark reaches.


class Folder:
    """The folder ``out`` of a run, through Hadoop's file systems. Raises :class:`Occupied`, and py4j's errors."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        java: Any = spark
        self._jvm = java._jvm
        path, configuration = self._path(out), java._jsc.hadoopConfiguration()
        self._fs = path.getFileSystem(configuration)
        self.out = str(self._fs.makeQualified(path).toString())
        self.id = secrets.token_hex(6)
        self.run, self._old = f"{self.out}/{RUN}{self.id}", f"{self.out}/{OLD}{self.id}"

    def begin(self) -> None:
        """Remove what runs that were killed have left, and make room for this one."""
        for name in self.check():
            if name.startswith((RUN, OLD)):
                self._delete(f"{self.out}/{name}")
        self._fs.mkdirs(self._path(self.run))

    def check(self) -> list[str]:
        """What is in the folder, if it is all of this program. Raises :class:`Occupied`."""
        names = [name for name in self.names() if name != INDEX_FILE]
        strange = [name for name in names if name not in (*TABLES, DONE) and not name.startswith((".", "_"))]
        ours = DONE in names or any(name.startswith((RUN, OLD)) for name in names)
        if strange or (names and not ours):
            found = (strange or names)[0]
            raise Occupied(f"{self.out} holds {found}, which wiredecode spark has not written; name another folder")
        return names

    def names(self) -> list[str]:
        """What is in the folder."""
        path = self._path(self.out)
        if not self._fs.exists(path):
            return []
        if not self._fs.getFileStatus(path).isDirectory():
            raise Occupied(f"{self.out} is a file; the tables go into a folder")
        return sorted(str(each.getPath().getName()) for each in self._fs.listStatus(path))

    def table(self, name: str) -> str:
        """Where a table is to be written."""
        return f"{self.run}/{name}"

    def attempts(self, name: str) -> str | None:
        """Where tasks may write files of a table, as pyarrow calls it; None where it does not reach this folder.

        It may have other credentials than Hadoop, so it is tried.
        """
        place = f"{self.table(name)}/{ATTEMPTS}"
        self._fs.mkdirs(self._path(place))
        try:
            probe = place_of(f"{plain(place)}/{PROBE}")
            with probe.system.open_output_stream(probe.path) as stream:
                stream.write(b"\n")
        except (OSError, CaptureError, pa.ArrowException):
            return None
        return plain(place) if self._fs.exists(self._path(f"{place}/{PROBE}")) else None

    def publish(self, name: str, files: Iterable[tuple[str, str]]) -> None:
        """Give the files of attempts their places, each in its folder of the table; remove all others."""
        place = self.table(name)
        folders = set[str]()
        for folder, file in files:
            if folder not in folders:
                self._fs.mkdirs(self._path(f"{place}/{folder}"))
                folders.add(folder)
            self._rename(f"{place}/{ATTEMPTS}/{file}", f"{place}/{folder}/{file}")
        self._delete(f"{place}/{ATTEMPTS}")

    def index(self) -> pa.Table | None:
        """What is known of the files that were read before; None: nothing that can be used."""
        import pyarrow.parquet as pq

        try:
            found = place_of(f"{plain(self.out)}/{INDEX_FILE}")
            with found.system.open_input_file(found.path) as file:
                return pq.read_table(file).cast(INDEX)
        except (OSError, ValueError, CaptureError, pa.ArrowException):
            return None

    def keep_index(self, index: pa.Table | None) -> None:
        """Keep it for the next run, in place of what was kept before; where pyarrow does not reach, it is not kept."""
        import pyarrow.parquet as pq

        name, whole = f"{RUN}{self.id}.index", f"{self.out}/{INDEX_FILE}"
        if index is None:
            return
        self._fs.mkdirs(self._path(self.out))
        with suppress(OSError, CaptureError, pa.ArrowException):
            found = place_of(f"{plain(self.out)}/{name}")
            with found.system.open_output_stream(found.path) as file:
                pq.write_table(index, file, compression="zstd")
            self._delete(whole)
            self._rename(f"{self.out}/{name}", whole)

    def write_small(self, name: str, table: pa.Table) -> bool:
        """Write a table as one file, without a job of Spark; False where pyarrow does not reach the folder."""
        import pyarrow.parquet as pq

        path = f"{self.table(name)}/part-0.parquet"
        self._fs.mkdirs(self._path(self.table(name)))
        try:
            found = place_of(plain(path))
            with found.system.open_output_stream(found.path) as file:
                pq.write_table(table, file, compression="zstd")
        except (OSError, CaptureError, pa.ArrowException):
            self._delete(self.table(name))
            return False
        if not self._fs.exists(self._path(path)):
            self._delete(self.table(name))
            return False
        return True

    def commit(self, success: dict[str, Any]) -> None:
        """All tables are complete: they get their names; ``success`` is what ``_SUCCESS`` says."""
        written = [str(each.getPath().getName()) for each in self._fs.listStatus(self._path(self.run))]
        self._fs.mkdirs(self._path(self._old))
        self._delete(f"{self.out}/{DONE}")
        before = [name for name in self.names() if name in TABLES]
        for name in before:
            self._rename(f"{self.out}/{name}", f"{self._old}/{name}")
        for name in written:
            self._rename(f"{self.run}/{name}", f"{self.out}/{name}")
        self._write(f"{self.run}/{DONE}", json.dumps(success, indent=2) + "\n")
        self._rename(f"{self.run}/{DONE}", f"{self.out}/{DONE}")
        self._delete(self._old)
        self._delete(self.run)

    def discard(self) -> None:
        """The run has failed: remove what it wrote, as far as that can still be done.

        Tasks that end only now may still make files, in the midst of it too, so it is tried until it stays away.
        """
        gone = 0
        for _ in range(DISCARDS):
            with suppress(Exception):
                self._delete(self.run)
                time.sleep(DISCARD_SECONDS)
                gone = 0 if self._fs.exists(self._path(self.run)) else gone + 1
            if gone == 2:
                return

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(name)

    def _delete(self, name: str) -> None:
        self._fs.delete(self._path(name), True)

    def _rename(self, name: str, to: str) -> None:
        if not self._fs.rename(self._path(name), self._path(to)):
            raise OSError(f"{name} could not be renamed to {to}")

    def _write(self, name: str, text: str) -> None:
        stream = self._fs.create(self._path(name))
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()


# Reports.


@dataclass
class Accounts:
    """What the tasks reported."""

    totals: Totals = field(default_factory=Totals)
    sources: dict[str, Totals] = field(default_factory=dict)
    """The same of each source."""
    problems: list[tuple[str, str, str]] = field(default_factory=list)
    """Source, file, and what could not be read of it, where."""
    apart: list[tuple[str, int]] = field(default_factory=list)
    """Protocols and ports of connections that know of each other, and were decoded apart."""

    @classmethod
    def of(cls, reports: Iterable[str]) -> Accounts:
        """Put reports together; each counts once, however often it came."""
        found = [json.loads(text) for text in dict.fromkeys(reports)]
        made = cls()
        made.problems = sorted((each["source"], each["file"], each["problem"]) for each in found if "problem" in each)
        made.apart = sorted({(name, port) for each in found for name, port in each.get("apart", ())})
        counted: dict[str, list[dict[str, Any]]] = {}
        for each in found:
            if "totals" in each:
                counted.setdefault(each["source"], []).append(each)
        made.sources = {source: combined(*_totals(some)) for source, some in sorted(counted.items())}
        made.totals = combined(made.sources.values(), made.sources.values())
        return made


def _totals(reports: Sequence[dict[str, Any]]) -> tuple[list[Totals], list[Totals]]:
    """Totals of files, which have the packets, and of buckets, which have everything else."""
    files = [unpacked(each["totals"]) for each in reports if "bucket" not in each]
    return files, [unpacked(each["totals"]) for each in reports if "bucket" in each]


def combined(files: Iterable[Totals], buckets: Iterable[Totals]) -> Totals:
    """One account: packets are counted where they were read, all else where it was decoded."""
    total, decoded = Totals(), list(buckets)
    for part in files:
        total.add_packets(part)
        if not decoded:
            total.limits.update(part.limits)
    for part in decoded:
        total.add_connections(part)
    return total


def totals_rows(accounts: Accounts) -> Iterator[tuple[Any, ...]]:
    """Rows of the table of totals: the numbers of ``--summary-json``, one to a row, by source."""
    from wiredecode.frames.record import totals_record

    for source, totals in accounts.sources.items():
        record = totals_record(totals)

        def row(section: str, name: str | None, value: int, *kind: Any, source: str = source) -> tuple[Any, ...]:
            return source, section, name, *(kind or (None, None, None, None)), value

        packets = record["packets"]
        yield row("packets", "read", packets["read"])
        yield row("packets", "tcp", packets["tcp"])
        if totals.first_ns is not None:
            yield row("packets", "first_ns", totals.first_ns)
            yield row("packets", "last_ns", totals.last_ns)
        yield from (row("not_decoded", name, count) for name, count in packets["not_decoded"].items())
        yield row("connections", "seen", record["connections"])
        for section in ("payload", "reassembly", "limits_hit"):
            yield from (row(section, name, value) for name, value in record[section].items())
        for other in record["other_protocols"]:
            for name in ("bytes", "connections"):
                yield row("other_protocols", name, other[name], other["looks_like"], None, None, other["port"])
        for (protocol, kind, status), count in sorted(totals.frames.items()):
            yield row("frames", "count", count, protocol, kind, status, None)


# Tables.


def write(rows: DataFrame, folder: Folder, level: str, columns: Sequence[str]) -> Accounts:
    """Write the table of a level, and those beside it, to the folder of the run; ``rows`` as ``pipeline.rows`` gives.

    ``columns``: those that are wanted, :data:`KEPT` among them.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812

    spark = rows.sparkSession
    observation = Observation()
    observed = rows.observe(observation, F.collect_list("report").alias("reports"))
    table = observed.where(F.col("report").isNull()).select(*columns, day(F.col("time_ns")).alias(DAY))
    by, place = LEVELS[level], folder.table(level)
    order = list(dict.fromkeys([*by, "source", "time_ns", KEPT[level][1]]))
    # Rows of one folder together, as files of about one size: AQE joins small partitions and cuts large ones.
    arranged = table.hint("rebalance", *by).sortWithinPartitions(*order)
    with session.having(spark, session.TIMES):
        arranged.write.mode("errorifexists").partitionBy(*by).options(**WRITING).parquet(place)
    return _beside(spark, folder, level, Accounts.of(observation.get["reports"]))


def publish(told: DataFrame, folder: Folder, level: str, place: str) -> Accounts:
    """The same, where tasks write the table to ``place``: ``told`` are their files and reports."""
    found = told.collect()
    files = [Written(row.folder, row.file, row.bytes, row.in_order) for row in found if row.file is not None]
    folder.publish(level, merged(told.sparkSession, place, files))
    accounts = Accounts.of(row.report for row in found if row.report is not None)
    return _beside(told.sparkSession, folder, level, accounts)


def merged(spark: SparkSession, place: str, files: Sequence[Written]) -> list[tuple[str, str]]:
    """Folder and name of the files that there are when small ones are joined, and all are in order."""
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted = groups(files)
    gone = {name for group in wanted for name in group.files}
    kept = [(each.folder, each.file) for each in files if each.file not in gone]
    if not wanted:
        return kept
    tasks = min(len(wanted), MERGERS * spark.sparkContext.defaultParallelism)
    numbers = spark.range(0, len(wanted), 1, tasks)
    made = numbers.mapInArrow(Merger(place, tuple(wanted)), from_arrow_schema(FILES)).collect()
    return kept + [(row.folder, row.file) for row in made]


def _beside(spark: SparkSession, folder: Folder, level: str, accounts: Accounts) -> Accounts:
    """Write what stands beside a table that is there."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def small(data: Iterable[tuple[Any, ...]], schema: pa.Schema, name: str) -> None:
        table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in data], schema)
        if not folder.write_small(name, table):
            made = spark.createDataFrame(table.to_pylist(), from_arrow_schema(schema)).coalesce(1)
            made.write.options(**WRITING).parquet(folder.table(name))

    with session.having(spark, session.TIMES):
        small(totals_rows(accounts), TOTALS_SCHEMA, TOTALS)
        small(accounts.problems, PROBLEMS_SCHEMA, PROBLEMS)
        if level == "frames":
            needed = chosen(spark_schema(table_schema(level)), [*FOUND, "findings"])  # what all files have
            found = spark.read.schema(from_arrow_schema(needed)).parquet(literal(folder.table(level)))
            findings(found).coalesce(1).write.options(**WRITING).parquet(folder.table(FINDINGS))
    return accounts


def day(time_ns: Any) -> Any:
    """The day (UTC) of a time, whatever the time zone of the session is."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.date_add(F.lit("1970-01-01").cast("date"), F.floor(time_ns / DAY_NS).cast("int"))


def findings(frames: DataFrame) -> DataFrame:
    """A row per finding, and which frame has it."""
    from pyspark.sql import functions as F  # noqa: N812

    finding = [f"finding.{name}" for name in ("severity", "group", "code", "message", "field", "range")]
    some = frames.where(F.size("findings") > 0).select(*FOUND, F.explode("findings").alias("finding"))
    return some.select(*FOUND, *finding)


def plain(path: str) -> str:
    """A path of Hadoop as pyarrow calls it: that of a local file is a plain path, whatever letters are in it."""
    return f"/{path.removeprefix('file:').lstrip('/')}" if path.startswith("file:") else path


def literal(path: str) -> str:
    """A path that is no pattern."""
    return "".join(f"\\{letter}" if letter in "[]{}*?\\" else letter for letter in path)
