"""What engines spell differently; all else of the queries is the same text: Spark runs it, and DuckDB in tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """Templates of SQL expressions, for ``str.format`` with the operands in order."""

    quoted: str
    """A name that may be a reserved word."""
    each: str
    """A row per element of a list; none for null."""
    size: str
    """How many elements a list has; null for null."""
    quotient: str
    """Of integers, without the rest."""
    moment: str
    """A time out of whole seconds since the epoch."""
    names: str
    """All different texts of a group, in order, with commas between."""


SPARK = Dialect(
    quoted="`{}`",
    each="explode({})",
    size="size({})",
    quotient="({} div {})",
    moment="timestamp_seconds({})",
    names="array_join(sort_array(collect_set({})), ', ')",
)
