"""Statistics of captures: counts, latencies, publish to confirm, throughput, findings, connections (docs/stats.md).

Frames are counted as they are decoded (:mod:`wiredecode.stats.counters`). What was counted merges
(:mod:`wiredecode.stats.tallies`): tasks of Spark return it, the driver adds it up (:mod:`wiredecode.spark.stats`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from wiredecode.api import Path_


def statistics(
    paths: Path_ | Iterable[Path_],
    *,
    tables: Sequence[str] | None = None,
    interval: str = "1h",
    hops: bool = False,
    **reading: Any,
) -> dict[str, pa.Table]:
    """The statistics of captures as Arrow tables, by name; read once.

    ``tables``: names, all by default. ``interval``: of throughput; ``auto`` is one that fits. ``hops``: messages that
    servers pass on count each time. ``reading``: as for :func:`wiredecode.read`, such as
    ``filter``, ``decode_as``, ``limits``, ``strict`` and ``ids``. Raises ``ValueError``, and what
    :func:`wiredecode.read` raises.
    """
    from wiredecode.api import read
    from wiredecode.stats.counters import Counters
    from wiredecode.stats.tables import choose_statistics, seconds

    wanted = choose_statistics(tables)
    whole = reading.get("filter") is None
    counters = Counters(wanted, None if interval == "auto" else seconds(interval), hops=hops, whole=whole)
    dissection = read(paths, **reading)
    for frame, counts in dissection.frames_and_choices(counters.demand, counters.end):
        counters.frame(frame, counts=counts)
    counted = counters.finish()
    return {statistic.name: counted.table(statistic) for statistic in wanted}
