"""Frames, packets and messages as Arrow tables (docs/tables.md).

Nothing here imports pyarrow, which takes its time; the modules beside do.
"""

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGE_BLOCK, KEPT = 6 * 1024 * 1024, 16 * 1024 * 1024
"""Captures are read in smaller blocks: fresh memory for each of them is a tenth of the time of an export."""


def bound_memory() -> None:
    """For programs that make tables of large captures: freed memory goes back to the system.

    Arrow's own allocator and the C library's both keep what was freed, and the latter learns to keep large blocks;
    with this the peak of an export is about 100 MB lower, for some 5 % of its time.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # read when pyarrow is imported
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # glibc
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(M_TRIM_THRESHOLD, KEPT)


def trim_memory() -> None:
    """Give back what is freed but lies below memory in use: up to 80 MB after a row group of a thousand columns."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc
        trim(0)


class _NoPandas:
    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def without_pandas() -> None:
    """Stop Arrow from importing pandas (0.3 s, 46 MB) with its first array of Python objects. DataFrames still work."""
    from pyarrow import lib

    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        lib.array([])  # then it is remembered
        sys.meta_path.remove(_NoPandas)
