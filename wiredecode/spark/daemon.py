"""The process that Spark forks its Python workers from on one machine: what they need is imported once."""

import gc

from pyspark.daemon import manager

from wiredecode.spark import pipeline, writing
from wiredecode.tables.portable import portable_schema
from wiredecode.tables.reader import FRAMES, table_schema

NEEDED = (pipeline, writing)

if __name__ == "__main__":
    portable_schema(table_schema(FRAMES))
    gc.freeze()  # so that workers share it
    manager()
