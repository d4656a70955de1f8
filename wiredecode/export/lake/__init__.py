"""Tables of Iceberg and Delta as outputs (docs/export.md, "Iceberg and Delta").

We write Parquet files; a library that knows the format makes them part of a table, as one commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiredecode.export.lake.table import Lake

DELTA = "delta"
KINDS = ("iceberg", DELTA)


def kind_of(out: str) -> str | None:
    """The format of tables that an output names, as in ``delta:lake``; None: it is a file or folder."""
    kind, sign, _ = out.partition(":")
    return kind if sign and kind in KINDS else None


def open_lake(out: str) -> Lake:
    """The place that an output names. Raises LakeError, and ImportError where its library is not installed."""
    kind, _, location = out.partition(":")
    if kind == DELTA:
        from wiredecode.export.lake.delta import DeltaLake

        return DeltaLake(location)
    from wiredecode.export.lake.iceberg import IcebergLake

    return IcebergLake(location)
