"""What a query wants of the data source: its filters, as far as they save work (docs/spark.md, "Data source").

Spark looks at every row again, so that leaving out too few is right, and leaving out too many is not possible for
filters that are not understood: those are left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource

from wiredecode.spark.decode import TableDemand
from wiredecode.tables.reader import PACKETS

if TYPE_CHECKING:
    from wiredecode.spark.source import CaptureReader

COMPARED: dict[type, str] = {
    datasource.EqualTo: "equal",
    datasource.GreaterThan: "greater",
    datasource.GreaterThanOrEqual: "greater_equal",
    datasource.LessThan: "less",
    datasource.LessThanOrEqual: "less_equal",
}
"""Filters, and what compares columns so."""
DISPLAY = {"protocol": "frame.protocol", "type": "frame.type"}
"""Columns of frames and messages, and what display filters call them."""
PLAIN = re.compile(r"[\w./-]+", re.ASCII)
"""Values that need no care in a display filter."""


class Test(NamedTuple):
    """A comparison of a column with one value, or with several of which one has to fit."""

    column: str
    compare: str
    values: tuple[Any, ...]

    def mask(self, column: pa.Array) -> pa.Array:
        """Which values fit; null: unknown."""
        if self.compare == "equal":
            return pc.is_in(column, value_set=pa.array(self.values, column.type))
        return getattr(pc, self.compare)(column, pa.scalar(self.values[0], column.type))


class Push:
    """``pushFilters`` of a reader.

    Spark refuses to read at all when a class has that method and ``spark.sql.python.filterPushdown.enabled`` is off,
    which it tells by the function of the method. An object that is called in its place, and has the function of the
    base class, is right in both cases: Spark calls it only when the setting is on.
    """

    __func__ = staticmethod(datasource.DataSourceReader.pushFilters)

    def __init__(self, reader: CaptureReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[datasource.Filter]) -> Iterable[datasource.Filter]:
        schema = self._reader.wanted.demand.schema
        self._reader.tests = [test for one in filters if (test := understood(one, schema)) is not None]
        return filters


def understood(one: datasource.Filter, schema: pa.Schema) -> Test | None:
    """A filter as a test of a column of ``schema``; None for what is not one."""
    compare = "equal" if isinstance(one, datasource.In) else COMPARED.get(type(one))
    if compare is None:
        return None
    path, value = one.attribute, one.value  # type: ignore[attr-defined]
    values = tuple(value) if isinstance(one, datasource.In) else (value,)
    if len(path) != 1 or path[0] not in schema.names or None in values:
        return None
    kind = schema.field(path[0]).type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_timestamp(kind)):
        return None
    try:
        pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return Test(path[0], compare, values)


def keep(batch: pa.RecordBatch, tests: Sequence[Test]) -> pa.RecordBatch:
    """The rows that pass all tests."""
    for test in tests:
        batch = batch.filter(test.mask(batch.column(test.column)))
    return batch


def passes(tests: Iterable[Test], column: str, value: str) -> bool:
    """Whether a text passes all tests of one column."""
    masks = [test.mask(pa.array([value])) for test in tests if test.column == column]
    return all(mask[0].as_py() for mask in masks)


def narrowed(demand: TableDemand, tests: Iterable[Test]) -> TableDemand:
    """The demand, with the tests that the engine can use to decode less: of protocols and types of frames."""
    if demand.level == PACKETS:
        return demand
    found = [] if demand.filter is None else [f"({demand.filter})"]
    for test in tests:
        name = DISPLAY.get(test.column)
        if name and test.compare == "equal" and all(PLAIN.fullmatch(value) for value in test.values):
            found.append(f"{name} in {{{', '.join(json.dumps(value) for value in test.values)}}}")
    try:
        return replace(demand, filter=" && ".join(found) or None)
    except ValueError:  # a value that no protocol has
        return demand
