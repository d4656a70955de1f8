"""Statistics of the pipeline's output, or of any tables of frames and messages on Spark (docs/stats.md).

For notebooks and programs: :func:`statistics` gives a DataFrame per table. They hold the numbers of
``wiredecode stats``, as SQL over the tables, with the column ``source`` before the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from wiredecode.spark.reading import Unusable, read
from wiredecode.stats.sql import query, sorting
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
    """The answer to the query of a statistic, in its order."""
    from pyspark.sql.functions import expr

    missing = [name for name in (SOURCE, *statistic.needs) if name not in rows.columns]
    if missing:
        raise ValueError(f"{statistic.name} needs the column {missing[0]}, which the {statistic.level} do not have")
    asked = query(statistic, interval, lambda name: _has(rows, name))
    order = [
        expr(text).desc_nulls_last() if falls else expr(text).asc_nulls_last() for text, falls in sorting(statistic)
    ]
    return rows.sparkSession.sql(asked, rows=rows).orderBy(*order).select(SOURCE, *statistic.columns)


def _has(rows: DataFrame, name: str) -> bool:
    """Whether there is such a column; ``layers.nats.subject`` is one in structures."""
    kind: Any = rows.schema
    for step in name.split("."):
        if step not in getattr(kind, "names", ()):
            return False
        kind = kind[step].dataType
    return True


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
