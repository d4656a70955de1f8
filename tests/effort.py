"""Measures work on any machine, to find work that is quadratic in its input."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

TIMES = 8
"""Ratio of the two input sizes: linear work takes 8 times as long, quadratic work 64 times."""
MOST = 24
MIN_SECONDS = 0.003
"""Shorter times are noise: the inputs are made larger."""
LARGEST = 64
"""Largest factor: an input that is refused immediately takes no time at any size."""
ATTEMPTS = 4


def grows_with_length_only(make: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether the work of ``make(size)`` takes CPU time in proportion to ``size``, in at least one of the attempts.

    Another program may evict the caches during an attempt, but nothing makes quadratic work look linear.
    """
    make(size)()  # compiles and imports that happen at first use
    enlarged = 1
    while cpu(small := make(size * enlarged)) < MIN_SECONDS and enlarged < LARGEST:
        enlarged *= 2
    large = make(TIMES * size * enlarged)
    return any(cpu(large) < MOST * max(cpu(small), MIN_SECONDS / 2) for _ in range(ATTEMPTS))


def cpu(work: Callable[[], object]) -> float:
    """CPU time in seconds: the shorter of two runs."""
    spent = []
    for _ in range(2):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def calls(work: Callable[[], object]) -> int:
    """Number of function calls, in Python and in C: the same in every run."""
    count = 0

    def profile(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count
