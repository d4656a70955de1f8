"""Tight scalar loops: compiled by numba where it is installed, plain Python otherwise; one source for both."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

PURE = "WIREDECODE_PURE"
"""Environment variable: when it is set, kernels stay plain Python."""


def _compiler() -> Callable[[Any], Any] | None:
    if os.environ.get(PURE):
        return None
    try:
        from numba import njit
    except ImportError:
        return None
    return njit(cache=True, nogil=True)


_compile = _compiler()
COMPILED = _compile is not None
"""Whether kernels are compiled. Import this module late: importing numba takes half a second."""


def view(data: bytes) -> Any:
    """A buffer as kernels want it: an array for compiled ones; bytes are faster, and give plain integers, in Python."""
    return np.frombuffer(data, np.uint8) if COMPILED else data


def kernel(function: F) -> F:
    """A function over buffers (``uint8`` arrays) and integer arrays, in the part of Python that numba compiles.

    It allocates nothing: results go into arrays that the caller made. The plain function is its ``py_func``.
    """
    if _compile is None:
        function.py_func = function  # type: ignore[attr-defined]
        return function
    return _compile(function)  # type: ignore[no-any-return]
