"""Tables that were written, as DataFrames: for notebooks and programs (docs/spark.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from wiredecode.export.lake import kind_of, open_lake
from wiredecode.spark.folder import DONE, TABLES, Folder
from wiredecode.tables.reader import FRAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXTS = ("protocol", "type", "operation", "transport")
"""Columns that are names of folders: text, for any values."""
SCHEMES = {"s3": "s3a", "s3n": "s3a"}
"""Schemes with another name in Hadoop."""


class NoTables(Exception):
    """A place that has no tables; ``str()`` is one line."""


def read(spark: SparkSession, out: str) -> dict[str, DataFrame]:
    """The tables at a place: a folder of ``wiredecode spark``, also of a stream, ``delta:PATH`` or ``iceberg:CATALOG``.

    Frames of all protocols are one table, with the columns of all. Spark itself reads the files, so it needs to reach
    them. Raises :class:`NoTables`, LakeError, and what Spark raises.
    """
    tables = {name: _table(spark, files) for name, files in _places(out).items() if files}
    if not tables:
        raise NoTables(f"{out} holds no tables: name a place that wiredecode spark wrote")
    return tables


def common(frames: DataFrame) -> DataFrame:
    """Common columns of frames of all protocols: all but ``layers``, in their order, for any writer."""
    return frames.drop("layers")


def _places(out: str) -> dict[str, list[str]]:
    if kind_of(out) is not None:
        lake = open_lake(out)
        names = {name: FRAMES if name.startswith(f"{FRAMES}_") else name for name in lake.tables()}
        files: dict[str, list[str]] = {}
        for name, level in names.items():
            if level in TABLES:
                files.setdefault(level, []).extend(lake.files(name))
        return files
    folder = Folder(out)
    names_there = folder.names()
    if DONE not in names_there and set(TABLES).intersection(names_there):
        raise NoTables(f"{out} has no {DONE}: the run that wrote it did not end well; run it again")
    return {name: [folder.path_of(name)] for name in names_there if name in TABLES}


def _table(spark: SparkSession, files: Iterable[str]) -> DataFrame:
    from pyspark.sql.types import StringType, StructField, StructType

    paths = [literal(_spark_path(path)) for path in files]
    schema = spark.read.option("mergeSchema", "true").parquet(*paths).schema  # each protocol has its own columns
    fields = [StructField(each.name, StringType()) if each.name in TEXTS else each for each in schema]
    return spark.read.schema(StructType(fields)).parquet(*paths)


def _spark_path(path: str) -> str:
    scheme, sign, rest = path.partition("://")
    return f"{SCHEMES.get(scheme, scheme)}{sign}{rest}" if sign else path


def literal(path: str) -> str:
    """A path that is no pattern."""
    return "".join(f"\\{letter}" if letter in "[]{}*?\\" else letter for letter in path)
