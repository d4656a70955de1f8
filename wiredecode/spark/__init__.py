"""Captures of any size on Spark (docs/spark.md).

``frames``, ``messages``, ``connections`` and ``packets`` make DataFrames of captures, with connections that cross
files; ``statistics`` and ``flows`` count; ``read`` gives tables that were written, ``register`` adds
``spark.read.format("wiredecode")``. Nothing of Spark is imported before one of them is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiredecode.spark.files import UnreadableFile
    from wiredecode.spark.pipeline import Metrics, connections, frames, messages, packets, rows
    from wiredecode.spark.source import register
    from wiredecode.spark.stats import flows, statistics
    from wiredecode.spark.written import common, read

__all__ = [
    "Metrics",
    "UnreadableFile",
    "common",
    "connections",
    "flows",
    "frames",
    "messages",
    "packets",
    "read",
    "register",
    "rows",
    "statistics",
]
PLACES = {
    "UnreadableFile": "files",
    "common": "written",
    "flows": "stats",
    "read": "written",
    "register": "source",
    "statistics": "stats",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{PLACES.get(name, 'pipeline')}"), name)
