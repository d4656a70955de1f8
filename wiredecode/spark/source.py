"""``spark.read.format("wiredecode")``: captures as a data source (docs/spark.md, "Data source").

A data source cannot shuffle. So at the levels ``frames`` and ``messages`` every partition reads all files of its source
and keeps its share of the connections, which suits captures that one machine can read; for more,
:mod:`wiredecode.spark.pipeline` shuffles. At the level ``packets`` every file, or part of a large one, is a partition:
``interface`` counts within the file, and an IP datagram whose fragments are in two of them is not reassembled.

A damaged file cannot be reported beside the rows: it is a warning of the logger ``wiredecode.spark`` in the task,
and rows before the damage are in the result; ``failFast`` makes it an error.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from wiredecode.capture import CaptureError, PacketBatch, open_capture
from wiredecode.dataclasses import dataclass, replace
from wiredecode.spark import sample
from wiredecode.spark.decode import BucketReader, TableDemand
from wiredecode.spark.files import NONE, UnreadableFile, find_readable
from wiredecode.spark.parcels import File
from wiredecode.spark.splits import SPLIT_BYTES, FileSplit, packets, splits
from wiredecode.tables import bound_memory
from wiredecode.tables.reader import FLOWS, FRAMES, PACKETS

NAME = "wiredecode"
OLDEST = 4, 1
"""The oldest Spark whose Python data sources read Arrow batches as this one does."""
HIDE_TRACEBACK = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"
LOGGER = logging.getLogger("wiredecode.spark")
OPTIONS = (
    "level",
    "columns",
    "decodeAs",
    "limits",
    "filter",
    "showSecrets",
    "source",
    "partitions",
    "splitBytes",
    "failFast",
    "path",
    "paths",
)
PARTITION_BYTES, MAX_PARTITIONS = 64 << 20, 8
"""A source gets a partition for every this many bytes, but only a few: each one reads all packets of the source."""


def register(spark: SparkSession) -> None:
    """Register the format ``wiredecode`` with a session, and errors of one line. Raises ValueError: Spark is old."""
    release = ".".join(spark.version.split(".")[:2])
    if tuple(map(int, release.split("."))) < OLDEST:
        least = ".".join(map(str, OLDEST))
        raise ValueError(f"format('wiredecode') needs Spark {least} or newer, this is {spark.version}; frames() does")
    if HIDE_TRACEBACK not in spark.conf.getAll:
        spark.conf.set(HIDE_TRACEBACK, "true")
    spark.dataSource.register(Captures)


@dataclass(frozen=True)
class ReadOptions:
    """The options of the data source, read."""

    demand: TableDemand
    paths: tuple[str, ...]
    source: str = NONE
    partitions: int | None = None
    split_bytes: int = SPLIT_BYTES

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options; capital letters do not matter. Raises ``ValueError``."""
        given = {name.lower(): value for name, value in options.items()}
        allowed = {name.lower() for name in OPTIONS}
        if unknown := sorted(given.keys() - allowed):
            raise ValueError(f"there is no option {unknown[0]}; there is {', '.join(OPTIONS)}")
        columns = given.get("columns")
        if given.get("level") == FLOWS:
            raise ValueError("flows of several partitions are added: use wiredecode.spark.flows")
        demand = TableDemand(
            given.get("level", FRAMES),
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            filter=given.get("filter"),
            decode_as={_number("decodeAs", port, 1): name for port, name in _pairs("decodeAs", given)},
            limits={name: _limit(name, value) for name, value in _pairs("limits", given)},
            show_secrets=_flag("showSecrets", given),
            fail_fast=_flag("failFast", given),
        )
        partitions = given.get("partitions")
        return cls(
            demand,
            tuple(json.loads(given["paths"])) if "paths" in given else (given["path"],) if "path" in given else (),
            given.get("source", NONE),
            None if partitions is None else _number("partitions", partitions, 1),
            _number("splitBytes", given.get("splitbytes", str(SPLIT_BYTES)), 0),
        )


def _pairs(name: str, given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """``a=b,c=d``"""
    for pair in filter(None, map(str.strip, given.get(name.lower(), "").split(","))):
        left, sign, right = pair.partition("=")
        if not sign:
            raise ValueError(f"{name}: {pair!r} is not of the form name=value")
        yield left.strip(), right.strip()


def _flag(name: str, given: Mapping[str, str]) -> bool:
    text = given.get(name.lower(), "false").lower()
    if text not in ("true", "false"):
        raise ValueError(f"{name} is {text!r}; it can be true or false")
    return text == "true"


def _number(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name}: {text!r} is no number from {least} on")
    return int(text)


def _limit(name: str, text: str) -> float:
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        raise ValueError(f"limits: {name} needs a number, not {text!r}") from None


class Captures(DataSource):
    """The data source; see the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def read_options(self) -> ReadOptions:
        return ReadOptions.of(self.options)

    def schema(self) -> StructType:
        return from_arrow_schema(self.read_options().demand.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        if schema.fieldNames() != self.schema().fieldNames():
            raise ValueError("the schema is fixed; choose columns with the option columns")
        return CaptureReader(self.read_options())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return NoStream()


class NoStream(DataSourceStreamReader):
    """Refuses a stream when it begins: Spark replaces what :meth:`Captures.streamReader` raises by its own error."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # of this process, which ends with it
        raise ValueError("there is no readStream: wiredecode spark --stream reads new captures as they come")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Abstract in Spark's class; never called, as no stream begins."""
        raise NotImplementedError


class BucketPartition(NamedTuple):
    """A partition of frames or messages: one bucket, of several, of all files of a source."""

    source: str
    files: tuple[File, ...]
    bucket: int
    demand: TableDemand


class CaptureReader(DataSourceReader):
    """Reads partitions as Arrow batches."""

    def __init__(self, wanted: ReadOptions) -> None:
        self.wanted = wanted

    def partitions(self) -> Sequence[InputPartition]:
        """The partitions to read. Raises UnreadableFile as :func:`wiredecode.spark.files.find_readable` does."""
        wanted = self.wanted
        if not wanted.paths:
            raise ValueError("nothing to read: load() needs a path")
        inputs = find_readable(wanted.paths, wanted.source, fail_fast=wanted.demand.fail_fast)
        for problem in inputs.problems:
            LOGGER.warning("%s", problem.text)
        files = inputs.files
        if wanted.demand.level == PACKETS:
            sizes = inputs.sizes
            parts = [part for file in files for part in splits(file, sizes[file.name], wanted.split_bytes)]
            return [InputPartition(part) for part in parts]
        return [InputPartition(each) for each in self._bucket_partitions(files, inputs.sizes)]

    def _bucket_partitions(self, files: Iterable[File], sizes: Mapping[str, int]) -> Iterator[BucketPartition]:
        for source, group in groupby(files, lambda file: file.source):
            own = tuple(group)
            wanted = self.wanted.partitions
            if wanted is None:
                size = sum(sizes[file.name] for file in own)
                wanted = min(max(math.ceil(size / PARTITION_BYTES), 1), MAX_PARTITIONS)
            demand = replace(self.wanted.demand, buckets=wanted)
            if wanted > 1:
                taken = sample.take([(FileSplit(file), sizes[file.name]) for file in own], demand.reassembly)
                demand = replace(demand, seen=sample.session_ports(taken, demand))
            yield from (BucketPartition(source, own, bucket, demand) for bucket in range(wanted))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a partition."""
        part: FileSplit | BucketPartition | None = partition.value
        if part is None:  # what Spark makes of no partitions
            return
        bound_memory()
        demand = self.wanted.demand
        if isinstance(part, FileSplit):
            reader = BucketReader(demand, part.file.source, 0)
            read: Iterable[PacketBatch] = packets(part)
        else:
            read = open_capture([file.name for file in part.files])
            reader = BucketReader(part.demand, part.source, part.bucket)
        try:
            yield from (batch for _, batch in reader.table_rows(read))
        except CaptureError as error:
            for each in error.errors:
                if demand.fail_fast:
                    raise UnreadableFile(str(each)) from None
                LOGGER.warning("%s", each)
