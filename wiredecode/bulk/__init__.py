"""Many frames at a time: columns instead of an object per frame. See docs/architecture.md, "Bulk"."""

import os
from importlib.util import find_spec

PURE = "WIREDECODE_PURE"
"""Environment variable: when it is set, kernels stay plain Python."""


def has_compiler() -> bool:
    """Whether kernels would be compiled; asking does not load the compiler."""
    return not os.environ.get(PURE) and find_spec("numba") is not None
