"""Statistics of captures: counts, latencies, publish to confirm, throughput, findings, connections (docs/stats.md).

Frames are counted as they are decoded (:mod:`wiredecode.stats.counters`). What was counted merges
(:mod:`wiredecode.stats.tallies`): tasks of Spark return it, the driver adds it up (:mod:`wiredecode.spark.stats`).
"""
