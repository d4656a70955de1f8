"""What DuckDB and Spark spell differently; all else of the queries is the same text for both."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """Templates of SQL expressions, for ``str.format`` with the operands in order."""

    quoted: str
    """A name that may be a reserved word."""
    each: str
    """A row per element of a list; none for null."""
    members: str
    """The list of one member of each structure of a list: list, member."""
    size: str
    """How many elements a list has; null for null."""
    quotient: str
    """Of integers, without the rest."""
    moment: str
    """A time out of whole seconds since the epoch."""
    names: str
    """All different texts of a group, in order, with commas between."""


DUCKDB = Dialect(
    quoted='"{}"',
    each="unnest({})",
    members="[element.{1} for element in {0}]",
    size="len({})",
    quotient="({} // {})",
    moment="to_timestamp({})",
    names="string_agg(distinct {0}, ', ' order by {0})",
)
SPARK = Dialect(
    quoted="`{}`",
    each="explode({})",
    members="{}.{}",  # of a list of structures; reads nothing but that member out of Parquet
    size="size({})",
    quotient="({} div {})",
    moment="timestamp_seconds({})",
    names="array_join(sort_array(collect_set({})), ', ')",
)
