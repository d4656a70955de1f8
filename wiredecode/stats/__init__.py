"""Statistics of captures: counts, latencies, publish to confirm, throughput, findings, conversations (docs/stats.md).

The same queries run in DuckDB on one machine and in Spark (:mod:`wiredecode.spark.stats`), with the same numbers.
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
    """The statistics of captures as Arrow tables, by name; read once, with a filter once per level.

    ``tables``: names, all by default. ``interval``: of throughput; ``auto`` is one that fits. ``hops``: messages that
    servers pass on count each time. ``reading``: as for :func:`wiredecode.read`, such as
    ``filter``, ``decode_as``, ``limits``, ``strict`` and ``ids``. Raises ``ValueError``, ``ImportError`` where DuckDB
    is missing, and what :func:`wiredecode.read` raises.
    """
    from wiredecode.api import read
    from wiredecode.stats.store import Store
    from wiredecode.stats.tables import chosen, seconds

    wanted = chosen(tables)
    length = None if interval == "auto" else seconds(interval)
    with Store(wanted, length, hops=hops) as store:
        whole = reading.get("filter") is None
        for level, columns in (store.one_pass if whole else store.levels).items():
            dissection = read(paths, level=level, columns=columns, **reading)
            if level == "frames":
                dissection.over, store.whole = store.connections, whole
                dissection.also = store.also() if whole else None
            for batch in dissection.nested():
                store.add(level, batch)
        return {statistic.name: store.table(statistic) for statistic in wanted}
