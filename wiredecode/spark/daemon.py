"""The process that Spark forks its Python workers from on one machine: what they need is imported once."""

import gc
import sys
from zipimport import zipimporter

from wiredecode.tables import without_pandas

if __name__ == "__main__":
    without_pandas()  # which takes 30 MB of each worker
    from pyspark.daemon import manager

    from wiredecode.spark import pipeline, writing  # noqa: F401 - for the workers
    from wiredecode.tables.portable import portable_schema
    from wiredecode.tables.reader import FRAMES, table_schema

    portable_schema(table_schema(FRAMES))
    for path, finder in [*sys.path_importer_cache.items()]:
        if isinstance(finder, zipimporter):  # each worker would read all names in Spark's archive again, for each
            del sys.path_importer_cache[path]
    gc.freeze()  # so that workers share it
    manager()
