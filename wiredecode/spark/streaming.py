"""A ring of captures that grows, as a stream: rows as soon as a file is closed (docs/spark.md, "Streaming").

Files of a micro-batch become packets, which go to the state of their bucket (``spark/state.py``): there the connections
go on where the last micro-batch left them. Between the stages a row is a batch of Arrow's, as bytes: Spark hands rows
to and from functions with state by way of pandas, which would change nested columns, and takes long for them.

What is taken, and when, is in Spark's checkpoint: offsets (``spark/ring.py``) say which files a micro-batch has, states
are those of the micro-batch before, and tables remember the last micro-batch that they have. So each row is written
exactly once, whatever was killed.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from wiredecode.capture import CaptureError, open_capture
from wiredecode.capture.remote import open_file
from wiredecode.export.lake import kind_of
from wiredecode.spark import lake, output, session
from wiredecode.spark.decode import REPORTED, TableDemand, pieces, report_row
from wiredecode.spark.files import Problem
from wiredecode.spark.packets import File, report_text
from wiredecode.spark.pipeline import Sink, problem_row, read_rows
from wiredecode.spark.prepare import Stopped, cores
from wiredecode.spark.ring import UNREADABLE, Closed, Next, Offset, Ring
from wiredecode.spark.state import BucketState, in_order
from wiredecode.spark.writing import KEPT
from wiredecode.tables import bound_memory
from wiredecode.tables.reader import CONNECTIONS, PACKETS

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # sources could not limit themselves, nor remember between runs
    raise ImportError("streams need pyspark 4.2 or newer: pip install -U 'pyspark>=4.2'") from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.state import GroupState

NAME = "wiredecode_ring"
REPORTS = -1
"""In place of a bucket: rows that are finished, which no state has to see."""
PARCELS = "source string, bucket int, data binary"
"""``data``: a batch of packets of the bucket; none at all: nothing more will come."""
PARCEL = pa.schema([("source", pa.string()), ("bucket", pa.int32()), ("data", pa.binary())])
FILES, IDLE_SECONDS, EVERY_SECONDS = 100, 60.0, 10.0
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER, TASKS = "spark.sql.streaming.stateStore.providerClass", "spark.sql.shuffle.partitions"
EMPTY = "spark.sql.streaming.noDataMicroBatches.enabled"
"""With times at which states expire Spark would run micro-batches without files, one after the other, for ever."""


def stream(
    spark: SparkSession,
    paths: str | Sequence[str],
    demand: TableDemand,
    *,
    source: str = "none",
    files: int = FILES,
    idle: float = IDLE_SECONDS,
    expire: float | None = None,
    finish: bool = False,
) -> DataFrame:
    """The rows of ``demand`` out of files that come, with reports in the last column, as a streaming DataFrame.

    ``paths``, ``source``: as for :func:`wiredecode.spark.files.find`. A file is taken when its source has a newer one,
    or when it has not changed for ``idle`` seconds; ``files``: at most so many in a micro-batch, which bounds its
    memory: the packets of one bucket are in memory together. The state of ``demand.buckets`` buckets per source is
    kept; neither ``demand`` nor ``source`` may change as long as a checkpoint lives.

    ``expire``: a bucket to which nothing came for so many seconds (of the clock on the wall) is brought to its end with
    the next files that come to others: what waited in it comes out, and its connections begin anew afterwards.
    ``finish``, with the trigger ``availableNow``: the capture is over, so all files are closed and, when they are
    taken, all connections brought to their end.

    Raises ``ValueError`` for what is wrong.
    """
    _check(spark, files=files, idle=idle, expire=expire)
    if demand.level == CONNECTIONS:
        raise ValueError("connections have no rows before they end; streams give frames, messages and packets")
    listed = [paths] if isinstance(paths, str) else list(paths)
    settings = listed, source, idle, files, finish, demand, cores(spark)
    Ring(listed, source)  # raises ValueError
    spark.dataSource.register(RingSource)
    text = base64.b64encode(pickle.dumps(settings)).decode()
    parcels = spark.readStream.format(NAME).option("settings", text).load()
    if demand.level != PACKETS:
        parcels = parcels.groupBy("source", "bucket").applyInPandasWithState(
            MicroBatch(demand, expire),
            outputStructType="data binary",
            stateStructType="data binary",
            outputMode="append",
            timeoutConf="NoTimeout" if expire is None else "ProcessingTimeTimeout",
        )
    from pyspark.sql.pandas.types import from_arrow_schema

    return parcels.select("data").mapInArrow(unwrapped, from_arrow_schema(demand.row_schema()))


def _check(spark: SparkSession, **numbers: float | None) -> None:
    release = tuple(int(part) for part in spark.version.split(".")[:2])
    if release < (4, 2):
        raise ValueError(f"streams need Spark 4.2 or newer, this is {spark.version}")
    for name, value in numbers.items():
        if value is not None and value < (1 if name == "files" else 0):
            raise ValueError(f"{name} cannot be {value}")


# From files to parcels.


class RingSource(DataSource):
    """Closed files as parcels of packets."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return PARCELS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - the name is Spark's
        return RingReader(*pickle.loads(base64.b64decode(self.options["settings"])))


class TaskFiles(InputPartition):
    """What one task reads."""

    def __init__(self, files: Sequence[Next], finished: Iterable[str] = ()) -> None:
        self.files, self.finished = files, list(finished)


class RingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark asks it in the driver what there is, and in tasks to read it; the names of methods are Spark's."""

    def __init__(
        self, paths: list[str], source: str, idle: float, files: int, finish: bool, demand: TableDemand, tasks: int
    ) -> None:
        self.ring = Ring(paths, source, idle)
        self.demand, self.most, self.finish, self.tasks = demand, files, finish, tasks
        self.target: list[Closed] | None = None
        """The files that are to be taken before the query ends by itself."""

    def initialOffset(self) -> Offset:  # noqa: N802
        return self.ring.first()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxFiles(self.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self.target = self.ring.closed(all_of_them=self.finish)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        closed = self.ring.closed() if self.target is None else self.target
        found = self.ring.after(start, closed, None if isinstance(limit, ReadAllAvailable) else self.most)
        if found is start and self.finish and self.target is not None and self.demand.level != PACKETS:
            return self.ring.over(start)
        return found

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if start == end:
            return []
        files = self.ring.files(start, end)
        tasks = [TaskFiles(files[first :: self.tasks]) for first in range(min(self.tasks, len(files)))]
        return [*tasks, TaskFiles([], end["last"])] if end["over"] else tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        bound_memory()
        if not isinstance(partition, TaskFiles):  # of no partitions Spark makes one that is None
            return
        for file in partition.files:
            yield from parcels(file, self.demand)
        for source in partition.finished:
            yield from (_parcel(source, bucket, b"") for bucket in range(self.demand.buckets))


def parcels(file: Next, demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """The packets of a file, by bucket; reports, and at level ``packets`` its rows, as rows that are finished."""
    schema, source = demand.row_schema(), file.source
    if file.late:
        text = f"{file.name}: begins before files that were taken earlier; rows of connections in both may differ"
        yield _parcel(source, REPORTS, wrapped(report_row(report_text(source, problem=text, file=file.name), schema)))
    for rows in _rows(file, demand):
        if demand.level == PACKETS:
            yield _parcel(source, REPORTS, wrapped(rows))
            continue
        for (_, bucket), part in pieces(rows):
            if bucket is None:
                for text in part.column("data").to_pylist():
                    yield _parcel(source, REPORTS, wrapped(report_row(text.decode(), schema)))
            else:
                yield _parcel(source, bucket, wrapped(part))


def _rows(file: Next, demand: TableDemand) -> Iterator[pa.RecordBatch]:
    """Rows of a file as the batch pipeline has them; one that cannot be read is a report.

    A file that could not be read when it was looked for, but now can, is another one: it is taken next time.
    """
    try:
        batches = iter(open_capture([open_file(file.name)]))
        first = next(batches, None) if file.first_ns == UNREADABLE else None
    except CaptureError as error:
        if demand.fail_fast:
            raise Stopped(str(error)) from None
        yield problem_row(Problem(file.source, file.name, str(error)), demand)
        return
    if first is None:
        yield from read_rows(File(file.name, file.source, max(file.first_ns, 0)), batches, demand)


def _parcel(source: str, bucket: int, data: bytes) -> pa.RecordBatch:
    return pa.record_batch([pa.array([source]), pa.array([bucket], pa.int32()), pa.array([data])], schema=PARCEL)


def wrapped(rows: pa.RecordBatch) -> bytes:
    """A batch as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unwrapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches in a column of such bytes."""
    for batch in batches:
        for data in batch.column(0):
            yield from pa.ipc.open_stream(data.as_buffer())


# From parcels to rows.


class MicroBatch:
    """What Spark does with the parcels of a bucket in one micro-batch; it is handed the bucket's state."""

    def __init__(self, demand: TableDemand, expire: float | None) -> None:
        self.demand, self.expire = demand, expire

    def __call__(self, key: Any, frames: Iterable[Any], state: GroupState) -> Iterator[Any]:
        """``frames`` are pandas', and so is what comes out."""
        import pandas as pd

        bound_memory()
        source, bucket = str(key[0]), int(key[1])
        parcels = (data for frame in frames for data in frame["data"])
        made = parcels if bucket == REPORTS else map(wrapped, self.rows(source, bucket, parcels, state))
        for data in made:
            yield pd.DataFrame({"data": [data]})

    def rows(self, source: str, bucket: int, parcels: Iterable[bytes], state: GroupState) -> Iterator[pa.RecordBatch]:
        """The rows that come out, and the state in place of the one before."""
        known = None
        if state.exists:
            known = BucketState.loads(self.demand, source, bucket, bytes(state.get[0]))
        if state.hasTimedOut:
            ending, batches = True, list[pa.RecordBatch]()
        else:
            found = list(parcels)
            ending = b"" in found
            batches = [batch for data in found if data for batch in pa.ipc.open_stream(data)]
        if batches:
            known = known or BucketState(self.demand, source, bucket)
            for rows in in_order(batches):
                yield from known.feed(rows)
        if known is None:
            return
        if ending:
            yield from known.finish()
            if state.exists:
                state.remove()
            return
        state.update((known.dumps(),))
        if self.expire is not None:
            state.setTimeoutDuration(max(1, int(self.expire * 1000)))


# To files.


def write(
    rows: DataFrame,
    out: str,
    checkpoint: str,
    *,
    level: str = "frames",
    every: str | None = "10 seconds",
    partitions: int | None = None,
) -> StreamingQuery:
    """Start a query that writes the rows of :func:`stream` to the tables of ``level`` (``spark/folder.py``).

    ``every``: how long micro-batches are apart; None: take what there is, and end (the trigger
    ``availableNow``). ``partitions``: tasks of the stage with state, by default the cores that there are; like the
    options of :func:`stream` it stays as it is as long as the checkpoint lives. States are in RocksDB, where no other
    provider was set.

    ``out`` may be a place of tables, ``delta:PATH`` or ``iceberg:CATALOG``: there each micro-batch is a commit, which
    remembers its number. Raises ``ValueError`` where columns that the tables need are not there.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    columns = [name for name in rows.columns if name != REPORTED.name]
    if missing := [name for name in KEPT[level] if name not in columns]:
        raise ValueError(f"tables of {level} need the column {missing[0]}")
    started: Future[str] = Future()

    def save(batch: DataFrame, number: int) -> None:
        def rows_of(sink: Sink) -> DataFrame:
            return batch.mapInArrow(sink, from_arrow_schema(sink.schema))

        step: Any = output.step if kind_of(out) is None else lake.step
        step(out, level, columns, started.result(), number, rows_of)

    writer = rows.writeStream.foreachBatch(save).option("checkpointLocation", checkpoint)
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    spark = rows.sparkSession
    settings = {TASKS: str(partitions or cores(spark)), EMPTY: "false"}
    if PROVIDER not in spark.conf.getAll:
        settings[PROVIDER] = ROCKSDB
    with session.having(spark, settings):  # a query keeps the settings with which it was started
        query = writer.start()
    started.set_result(str(query.id))
    return query
