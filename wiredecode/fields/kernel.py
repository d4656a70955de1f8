"""Tight scalar loops: compiled by numba where it is installed, plain Python otherwise; one source for both."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

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


class Scratch:
    """Arrays that kernels fill, used again and again: what is kept of them must be copied. For one thread.

    A kernel cannot know how many frames it will find; arrays for the most there could be, allocated anew for every
    stretch of bytes, would fragment the memory.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    def array(self, name: str, count: int, dtype: Any, *columns: int) -> npt.NDArray[Any]:
        """``count`` uninitialised rows."""
        known = self._arrays.get(name)
        if known is None or len(known) < count:
            known = self._arrays[name] = np.empty((count, *columns), dtype)
        return known[:count]


def kernel(function: F) -> F:
    """A function over buffers (``uint8`` arrays) and integer arrays, in the part of Python that numba compiles.

    It allocates nothing: results go into arrays that the caller made. The plain function is its ``py_func``.
    """
    if _compile is None:
        function.py_func = function  # type: ignore[attr-defined]
        return function
    return _compile(function)  # type: ignore[no-any-return]
