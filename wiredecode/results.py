"""Results of ``wiredecode.check``, ``follow``, ``trace``, ``stats`` and ``flows`` (docs/python.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from wiredecode.dataclasses import dataclass
from wiredecode.extras import need
from wiredecode.frames.frame import Frame
from wiredecode.protocols.shared.problems import Judged, Problem
from wiredecode.view.notebook import row_fields

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.capture import CaptureError
    from wiredecode.check.verdict import CheckVerdict
    from wiredecode.flows.table import Row
    from wiredecode.trace import SightedMessage
    from wiredecode.trace.text import TraceHop

__all__ = ["CheckResult", "FlowsResult", "FollowResult", "StatsResult", "Tabular", "TraceResult", "exact_type"]

WIDTH = 100
"""Columns of texts that are folded."""
DEFAULT_TABLE = "frames"


class Tabular:
    """A table of Arrow, pandas or polars: :meth:`table` makes it. Its text is for people and notebooks."""

    def table(self) -> pa.Table:
        """All rows as an Arrow table, in memory."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """The same as :meth:`table`."""
        return self.table()

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame: integers in pandas' nullable types (``Int64``), nested values in
        ``ArrowDtype``, so that none is rounded beside a missing one. Needs pandas.
        """
        need("pandas", "to_pandas()")
        return self.table().to_pandas(types_mapper=exact_type)

    def to_polars(self) -> Any:
        """All rows as a polars DataFrame. Needs polars."""
        need("polars", "to_polars()")
        import polars

        return polars.DataFrame(self)

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        """The rows of :meth:`to_pandas` for ``pandas.DataFrame(self)``, as dataclasses, which it takes apart."""
        import numpy

        table = self.to_pandas()
        row = type("Row", (), {"__dataclass_fields__": row_fields(table)})
        rows = numpy.empty(len(table), object)
        for index, values in enumerate(table.itertuples(index=False, name=None)):
            rows[index] = row()
            vars(rows[index]).update(zip(table, values, strict=True))
        return rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The Arrow PyCapsule interface."""
        return self.table().__arrow_c_stream__()

    def _repr_html_(self) -> str:
        """The text, escaped."""
        return f"<pre>{escape(str(self))}</pre>"


class CaptureAnswer(Tabular):
    """A result of one question: its text is that of the command, and says whether captures were damaged."""

    damage: Sequence[CaptureError] = ()
    """Errors of captures that were not read to their end."""

    def text(self) -> str:
        """The text of the command."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join([self.text(), *(f"not read to the end: {each}" for each in self.damage)])


@dataclass(repr=False, eq=False)
class CheckResult(Judged, CaptureAnswer):
    """Problems of captures, the worst first, of ``wiredecode.check``: ``assert not wiredecode.check(f).errors``.

    As text it is the report of the command, with errors and warnings.
    """

    problems: list[Problem]
    """The worst first."""
    verdict: CheckVerdict
    """The last line, and whether something, and all, was decoded (``judged``, ``whole``)."""
    first_ns: int
    """Time of the first packet, ns since 1970."""
    files: Sequence[str]
    """The captures, which commands in the text name."""

    def table(self) -> pa.Table:
        """A row per problem (docs/reference/tables.md)."""
        from wiredecode.check.text import record

        return _declared("problems", [_with_numbers(record(each), each) for each in self.problems])

    def __len__(self) -> int:
        return len(self.problems)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self.problems)

    def __bool__(self) -> bool:
        return True

    def text(self) -> str:
        from wiredecode.check.text import Layout, report_lines

        lines = report_lines([*self.errors, *self.warnings], self.first_ns, Layout(WIDTH, files=self.files))
        return "\n".join([*(line for _, line in lines), self.verdict.text])

    def __repr__(self) -> str:
        return f"<CheckResult: {self.verdict.text}>"


def _with_numbers(record: dict[str, Any], problem: Problem) -> dict[str, Any]:
    """The columns of a problem in place of what only JSON has."""
    times = {"first_time": problem.first_ns, "last_time": problem.last_ns}
    return {**record, **times, "connections": sorted(problem.members), "effects": [e.name for e in problem.effects]}


@dataclass(repr=False, eq=False)
class StatsResult(CaptureAnswer):
    """Statistics of captures, of ``wiredecode.stats``: Arrow tables by name, ``stats["latency"]``."""

    tables: Mapping[str, pa.Table]

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self.tables:
            raise KeyError(f"no table is called {name!r}; there is {', '.join(self.tables)}")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def table(self, name: str | None = None) -> pa.Table:
        """The table of this name; None: ``frames``, or the only one. Raises KeyError."""
        return self[name or (DEFAULT_TABLE if DEFAULT_TABLE in self.tables else next(iter(self.tables)))]

    def to_pandas(self, name: str | None = None) -> Any:
        """:meth:`table` as a pandas DataFrame. Needs pandas."""
        need("pandas", "to_pandas()")
        return self.table(name).to_pandas(types_mapper=exact_type)

    def text(self) -> str:
        from wiredecode.stats.tables import choose_statistics, counted_lines

        parts = []
        for statistic in choose_statistics(self.tables):
            table = self.tables[statistic.name]
            rows = counted_lines(table) if table.num_rows else ["none"]
            parts.append("\n".join([statistic.title, *rows]))
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"<StatsResult: {', '.join(f'{name} ({table.num_rows:,})' for name, table in self.tables.items())}>"


@dataclass(repr=False, eq=False)
class FlowsResult(CaptureAnswer):
    """Publishers, topics and consumers, of ``wiredecode.flows``: a row per topic and consumer."""

    rows: Sequence[Row]
    by: str
    first_ns: int
    """Time of the first packet, ns since 1970."""

    def table(self) -> pa.Table:
        """A row per flow (docs/tables.md, "Flows")."""
        from wiredecode.tables.flows import table

        return table(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def text(self) -> str:
        from wiredecode.view.flows import columns_of, grid
        from wiredecode.view.grid import plain

        if not self.rows:
            return "no flows"
        columns = columns_of(self.rows, self.first_ns, self.by)
        return "\n".join(plain(grid(columns, [*columns])))

    def __repr__(self) -> str:
        return f"<FlowsResult: {len(self.rows):,} by {self.by}>"


@dataclass(repr=False, eq=False)
class TraceResult(CaptureAnswer):
    """One message on its way, of ``wiredecode.trace``; without hops, and false, if none fits (:attr:`why`)."""

    messages: Sequence[SightedMessage]
    """The messages that fit."""
    nth: int
    """The one that is traced, counted from 1."""
    first_ns: int
    """Time of the first packet, ns since 1970."""
    why: str
    """If no message fits: the reason."""

    @property
    def hops(self) -> list[TraceHop]:
        """The steps, in order of time."""
        from wiredecode.trace.text import hops

        return hops(self.messages[self.nth - 1]) if self.messages else []

    def record(self) -> dict[str, Any]:
        """The object of ``wiredecode trace --json``. Raises LookupError if no message fits."""
        from wiredecode.trace.text import record

        if not self.messages:
            raise LookupError(self.why)
        return record(self.messages[self.nth - 1], self.nth, len(self.messages))

    def table(self) -> pa.Table:
        """A row per hop (docs/reference/tables.md)."""
        made = self.record()["hops"] if self.messages else []
        return _declared("hops", [{**hop, "time": hop["time_ns"]} for hop in made])

    def __len__(self) -> int:
        return len(self.hops)

    def __iter__(self) -> Iterator[TraceHop]:
        return iter(self.hops)

    def text(self) -> str:
        from wiredecode.trace.text import hop_lines

        if not self.messages:
            return self.why
        return "\n".join(line for _, line in hop_lines(self.messages[self.nth - 1], self.first_ns, WIDTH))

    def __repr__(self) -> str:
        found = f"{len(self)} hops, message {self.nth} of {len(self.messages):,}"
        return f"<TraceResult: {found if self.messages else self.why}>"


@dataclass(repr=False, eq=False)
class FollowResult(CaptureAnswer):
    """One connection, of ``wiredecode.follow``: iterating gives its frames; as text it is a dialogue."""

    connection: int
    """Its number."""
    frames: Any
    """Its frames: a ``Dissection``, as :func:`wiredecode.read` gives it."""
    lines: Callable[[], str]
    """Makes the text."""

    def table(self) -> pa.Table:
        """The frames of the connection (docs/tables.md)."""
        return self.frames.table()

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.frames)

    def __len__(self) -> int:
        return len(self.frames)

    def text(self) -> str:
        return self.lines()

    def __repr__(self) -> str:
        return f"<FollowResult: connection #{self.connection} of {self.frames.name}>"


def exact_type(kind: pa.DataType) -> Any:
    """The type of pandas that holds all values of an Arrow type; None: the one that Arrow chooses."""
    import pandas
    from pyarrow import types

    if types.is_nested(kind):
        return pandas.ArrowDtype(kind)
    name = str(kind).replace("uint", "UInt").replace("int", "Int")  # Int64, UInt32
    return pandas.api.types.pandas_dtype(name) if types.is_integer(kind) else None


def _declared(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as a table of ``tables/columns.toml``."""
    import pyarrow as pa

    from wiredecode.frames.escape import valid
    from wiredecode.tables.schema import declared_schema

    return pa.Table.from_pylist(valid(rows), schema=declared_schema(name))
