"""Captures of any size on Spark (docs/spark.md)."""
