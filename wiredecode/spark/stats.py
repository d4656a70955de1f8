"""Statistics of the pipeline's output, or of any tables of frames and messages on Spark (docs/stats.md).

For notebooks and programs: :func:`statistics` gives a DataFrame per table. They hold the numbers of
``wiredecode stats``, as SQL over the tables, with the column ``source`` before the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from wiredecode.check.codes import offers
from wiredecode.export.lake import kind_of, open_lake
from wiredecode.frames.frame import LATE, OK, REFUSED, UNANSWERED
from wiredecode.frames.message import PUBLISH
from wiredecode.net.distribution import PERCENTILES
from wiredecode.protocols.registry import protocols, requests
from wiredecode.protocols.shared.codes import SEVERITIES
from wiredecode.protocols.shared.problems import Called
from wiredecode.spark.folder import DONE, TABLES, Folder
from wiredecode.stats.latency import reply_topics
from wiredecode.stats.tables import FRAMES, MESSAGES, SOURCE, Statistic, choose_statistics, seconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


BROKER = "case sender when 'client' then dst when 'server' then src end"
SPREAD = """
    select {keys}, min(ns) / 1e3 min_us, max(ns) / 1e3 max_us, {columns}
    from (
        select *, sum(n) filter (where ns is not null) over (partition by {keys} order by ns nulls first) upto,
            ifnull(sum(n) filter (where ns is not null) over (partition by {keys}), 0) - 1 last
        from (select *, count(*) n from times where what is not null group by all))
    group by {keys}, last"""
"""Distributions of ``times``: counts by ``what``, and percentiles of ``ns`` where it is not null, between the two
nearest values, rounded, halves up."""


def query(statistic: Statistic, interval: int, has: Callable[[str], bool]) -> str:
    """The query of a statistic, with ``{rows}`` for the table; ``has``: whether the table has a nested column."""
    return statistic.query.format(rows="{rows}", broker=BROKER, interval=interval, **_parts(statistic.name, has))


def sorting(statistic: Statistic) -> Iterator[tuple[str, bool]]:
    """Return the sort keys of rows, nulls last, and whether the largest comes first."""
    ranks = " ".join(f"when '{name}' then {rank}" for rank, name in enumerate(SEVERITIES))
    for name in (SOURCE, *statistic.order):
        by = name.removeprefix("-")
        yield f"case severity {ranks} else {len(SEVERITIES)} end" if by == "severity" else f"`{by}`", by != name


def _parts(name: str, has: Callable[[str], bool]) -> dict[str, Any]:
    """The expressions of a query that follow from the protocols."""
    always = _among("type", ((name, kind) for name, kinds in requests().items() for kind in kinds))
    parts: dict[str, Any] = {"always": always, "silent": f"'{UNANSWERED}', '{LATE}'"}
    checks = dict(offers())
    if name == "latency":
        copies = [f"{mark} is not null" for mark in marks() if has(mark)]
        parts["copied"] = f"({' or '.join(copies) or 'false'})"
        calls = [
            (f"protocol = '{one}' and startswith({field}, '{each.begin}') and contains({field}, '{each.within}')", each)
            for one, field, each in request_texts()
            if has(field) and (not each.answer or has(answer_column(one, each)))
        ]
        plain = [f"when {when} then '{each.name}'" for when, each in calls if not each.answer]
        shown = [f"when {when} then {repr(each.name) if each.answer else 'null'}" for when, each in calls]
        answers = {answer_column(one, each): one for one, _, each in request_texts() if each.answer}
        marked = [f"(protocol = '{one}' and {name} is not null)" for name, one in answers.items() if has(name)]
        parts["called"] = f"case {' '.join(plain)} else type end" if plain else "type"
        parts["called_by_answer"] = f"case {' '.join(shown)} end" if marked else "cast(null as string)"
        parts["marked"] = " or ".join(marked) or "false"
        parts["waits"] = _among("request", ((one, kind) for one, each in checks.items() for kind in each.waits))
        topics = {one: f"layers.{one}.{each.topic}" for one, each in checks.items() if each.topic}
        cases = " ".join(f"when protocol = '{one}' then {_group(field)}" for one, field in topics.items() if has(field))
        parts["topic"] = f"case {cases} end" if cases else "cast(null as string)"
        parts["spread"] = _spread("source, protocol, request, topic, broker", "count", "unanswered")
    elif name == "confirms":
        publishing = [
            _among("type", [(one, kind)])
            + (f" and not ifnull(startswith(topic, '{how.other_streams}'), false)" if how.other_streams else "")
            for one, each in checks.items()
            for kind, how in each.publishes.items()
        ]
        parts |= {"ok": OK, "refused": REFUSED, "publish": PUBLISH, "publishing": f"({' or '.join(publishing)})"}
        parts["shared"] = _among("type", ((one, kind) for one, each in checks.items() for kind in each.sub_batches))
        outcomes = ("confirmed", "failed", "unconfirmed", "unknown")
        parts["spread"] = _spread("source, protocol, stream, broker", *outcomes)
    elif name == "throughput":
        parts["topic"] = _group("topic")
    return parts


def _group(topic: str) -> str:
    for begin in reply_topics():
        pattern, to = re.escape(begin), begin.replace("$", r"\$")
        topic = rf"regexp_replace({topic}, r'(?s)(^|\.){pattern}.*', r'$1{to}*')"
    return topic


def marks() -> list[str]:
    """The columns that mark frames as copies of a message."""
    return [f"layers.{each.name}.copy_of" for each in protocols() if f"{each.name}.copy_of" in each.generated_fields()]


def request_texts() -> list[tuple[str, str, Called]]:
    """Return the distinctions of requests of one type: protocol, column, and the texts to look for in it."""
    return [(one, f"layers.{one}.{checks.topic}", each) for one, checks in offers() for each in checks.called]


def answer_column(protocol: str, each: Called) -> str:
    """Column of the generated field that an answer must have."""
    return f"layers.{protocol}.{each.answer}"


def _among(column: str, pairs: Iterable[tuple[str, str]]) -> str:
    """True for rows with one of these protocols and values of another column."""
    texts = ", ".join(f"'{protocol}/{value}'" for protocol, value in pairs)
    return f"ifnull(concat(protocol, '/', {column}) in ({texts}), false)"


def _spread(keys: str, *outcomes: str) -> str:
    """The query :data:`SPREAD`; the first of the outcomes has times."""
    between = []
    for name, part in PERCENTILES.items():
        rank = f"last * {part} div 1000"
        low = f"min(ns) filter (where upto > {rank})"
        high = f"min(ns) filter (where upto > {rank} + if(last * {part} % 1000 > 0, 1, 0))"
        between.append(f"({low} + (({high} - {low}) * (last * {part} % 1000) * 2 + 1000) div 2000) / 1e3 {name}")
    counts = [f"ifnull(sum(n) filter (where what = '{each}'), 0) {each}" for each in outcomes]
    return SPREAD.format(keys=keys, columns=", ".join([*between, *counts]))


TEXTS = ("protocol", "type", "operation", "transport")
"""Columns that are names of folders: text, for any values."""
SCHEMES = {"s3": "s3a", "s3n": "s3a"}
"""Schemes with another name in Hadoop."""


class Unusable(Exception):
    """A place that has no tables; ``str()`` is one line."""


def read(spark: SparkSession, out: str) -> dict[str, DataFrame]:
    """The tables at a place: a folder of ``wiredecode spark``, also of a stream, ``delta:PATH`` or ``iceberg:CATALOG``.

    Frames of all protocols are one table, with the columns of all. Spark itself reads the files, so it needs to reach
    them. Raises :class:`Unusable`, LakeError, and what Spark raises.
    """
    tables = {name: _table(spark, files) for name, files in _places(out).items() if files}
    if not tables:
        raise Unusable(f"{out} holds no tables: name a place that wiredecode spark wrote")
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
        raise Unusable(f"{out} has no {DONE}: the run that wrote it did not end well; run it again")
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


HOUR = "1h"


def statistics(
    frames: DataFrame | None = None,
    messages: DataFrame | None = None,
    *,
    tables: Sequence[str] | None = None,
    interval: str = HOUR,
) -> dict[str, DataFrame]:
    """A DataFrame per table of statistics, in their order; nothing is computed yet.

    ``frames``, ``messages``: with the columns of ``tables/portable.py``. Statistics of the one that is None are left
    out, unless they are named. Raises ``ValueError`` for an unknown name or interval, and for missing rows or columns.
    """
    given = {level: rows for level, rows in ((FRAMES, frames), (MESSAGES, messages)) if rows is not None}
    wanted, length = choose_statistics(tables), seconds(interval)
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
    statement = query(statistic, interval, lambda name: _has(rows, name))
    order = [
        expr(text).desc_nulls_last() if falls else expr(text).asc_nulls_last() for text, falls in sorting(statistic)
    ]
    return rows.sparkSession.sql(statement, rows=rows).orderBy(*order).select(SOURCE, *statistic.columns)


def _has(rows: DataFrame, name: str) -> bool:
    """Whether there is such a column; ``layers.nats.subject`` is one in structures."""
    kind: Any = rows.schema
    for step in name.split("."):
        if step not in getattr(kind, "names", ()):
            return False
        kind = kind[step].dataType
    return True


def collect_tables(
    spark: SparkSession, folders: Sequence[str], tables: Sequence[str] | None, interval: str
) -> list[tuple[Statistic, pa.Table]]:
    """The tables of statistics of places that ``wiredecode spark`` wrote: one with frames, one with messages.

    Raises ``ValueError``, :class:`Unusable`, and what Spark raises.
    """
    levels: dict[str, DataFrame] = {}
    for folder in folders:
        tables_there = {level: rows for level, rows in read(spark, folder).items() if level in (FRAMES, MESSAGES)}
        if not tables_there:
            raise Unusable(f"{folder} holds no frames and no messages: name a place that wiredecode wrote")
        for level, rows in tables_there.items():
            if level in levels:
                raise Unusable(f"{folder} is another place with {level}: name one of each kind")
            levels[level] = rows
    made = statistics(levels.get(FRAMES), levels.get(MESSAGES), tables=tables, interval=interval)
    return [
        (statistic, made[statistic.name].toArrow()) for statistic in choose_statistics(tables) if statistic.name in made
    ]
