"""Statistics of what the pipeline wrote, or of any tables of frames and messages on Spark (docs/stats.md).

For notebooks and programs: :func:`statistics` gives a DataFrame per table. They hold the numbers of
``wiredecode stats``, by the same counters, with the column ``source`` before the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from wiredecode.spark.reading import Unusable, read
from wiredecode.stats.tables import FRAMES, MESSAGES, SOURCE, Statistic, chosen, seconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HOUR = "1h"


def statistics(
    frames: DataFrame | None = None,
    messages: DataFrame | None = None,
    *,
    tables: Sequence[str] | None = None,
    interval: str = HOUR,
) -> dict[str, DataFrame]:
    """A DataFrame per table of statistics, in their order; nothing is computed yet.

    ``frames``, ``messages``: with the columns of ``tables/portable.py``; tables that need the one that is not
    there are left out, unless they are named. Raises ``ValueError``: unknown name or interval, what is needed is not
    there.
    """
    given = {level: rows for level, rows in ((FRAMES, frames), (MESSAGES, messages)) if rows is not None}
    wanted, length = chosen(tables), seconds(interval)
    for statistic in wanted:
        if tables and statistic.level not in given:
            raise ValueError(f"{statistic.name} is counted from {statistic.level}, which are not there")
    return {
        statistic.name: _answer(given[statistic.level], statistic, length)
        for statistic in wanted
        if statistic.level in given
    }


def _answer(rows: DataFrame, statistic: Statistic, interval: int) -> DataFrame:
    """Every task counts its rows; one task merges the counts, and sorts what they make."""
    from pyspark.sql.functions import col
    from pyspark.sql.pandas.types import from_arrow_schema

    from wiredecode.stats.rows import STATE, counted, flat, merged, sources_schema, wide_columns

    needed = wide_columns(statistic)
    missing = _missing(rows, needed)
    if missing:
        raise ValueError(f"{statistic.name} needs the column {missing[0]}, which the {statistic.level} do not have")
    chosen_rows = _arranged(rows.select(*(col(name).alias(flat(name)) for name in needed)), statistic)
    states = chosen_rows.mapInArrow(partial(counted, statistic.name, interval), from_arrow_schema(STATE))
    made = from_arrow_schema(sources_schema(statistic))
    return states.repartition(1).mapInArrow(partial(merged, statistic, interval), made)


def _arranged(rows: DataFrame, statistic: Statistic) -> DataFrame:
    """Rows as the counter needs them: requests with their answers, messages that share a number side by side."""
    from pyspark.sql.functions import col, lit

    from wiredecode.stats.rows import EXCHANGE, IS_ANSWER

    if statistic.name == "latency":
        asked = rows.withColumn(EXCHANGE, col("frame")).withColumn(IS_ANSWER, lit(False))
        answers = rows.where("request is not null and latency_ns is not null")
        both = asked.where(f"outcome is not null or {_always()}").unionByName(
            answers.withColumn(EXCHANGE, col("request")).withColumn(IS_ANSWER, lit(True))
        )
        keys = (SOURCE, EXCHANGE)
        return both.repartition(*keys).sortWithinPartitions(*keys, IS_ANSWER, "time_ns", "frame")
    if statistic.name == "findings":
        return rows.where("size(findings) > 0")
    if statistic.name == "confirms":
        keys = (SOURCE, "frame")
        return rows.where("operation = 'publish'").repartition(*keys).sortWithinPartitions(*keys, "index")
    return rows


def _always() -> str:
    """Whether a frame is of a type that always asks for an answer."""
    from wiredecode.stats.rows import always_asking

    types = (f"(protocol = '{name}' and type = '{kind}')" for name, kind in always_asking())
    return f"({' or '.join(types) or 'false'})"


def _missing(rows: DataFrame, names: Iterable[str]) -> list[str]:
    """Those of the columns that there are none of; ``layers.nats.subject`` is one in structures."""
    from pyspark.sql.types import StructType

    found = []
    for name in names:
        kind: object = rows.schema
        for step in name.split("."):
            if not isinstance(kind, StructType) or step not in kind.names:
                found.append(name)
                break
            kind = kind[step].dataType
    return found


def collected(
    spark: SparkSession, folders: Sequence[str], tables: Sequence[str] | None, interval: str
) -> list[tuple[Statistic, pa.Table]]:
    """The tables of statistics of places that ``wiredecode spark`` wrote: one with frames, one with messages.

    Raises ``ValueError``, :class:`Unusable`, and what Spark raises.
    """
    levels: dict[str, DataFrame] = {}
    for folder in folders:
        found = {level: rows for level, rows in read(spark, folder).items() if level in (FRAMES, MESSAGES)}
        if not found:
            raise Unusable(f"{folder} holds no frames and no messages: name a place that wiredecode wrote")
        for level, rows in found.items():
            if level in levels:
                raise Unusable(f"{folder} is another place with {level}: name one of each kind")
            levels[level] = rows
    made = statistics(levels.get(FRAMES), levels.get(MESSAGES), tables=tables, interval=interval)
    return [(statistic, made[statistic.name].toArrow()) for statistic in chosen(tables) if statistic.name in made]
