"""How much work something is, on any machine: what grows with the square of its input, and what costs nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

TIMES = 8
"""How much larger the larger input is: linear work takes 8 times as long, quadratic work 64 times."""
MOST = 24
LEAST_SECONDS = 0.003
"""Shorter times are noise: the inputs are made larger."""
LARGEST = 64
"""How much larger at most: what is refused at once takes no time however long it is."""
ATTEMPTS = 4


def grows_with_length_only(make: Callable[[int], Callable[[], object]], size: int) -> bool:
    """Whether what ``make(size)`` returns takes CPU time in proportion to ``size``; the ratio of one attempt is enough.

    Another program may take the caches away during one of them, but nothing makes quadratic work look linear.
    """
    make(size)()  # what is compiled or imported at first use
    enlarged = 1
    while cpu(small := make(size * enlarged)) < LEAST_SECONDS and enlarged < LARGEST:
        enlarged *= 2
    large = make(TIMES * size * enlarged)
    return any(cpu(large) < MOST * max(cpu(small), LEAST_SECONDS / 2) for _ in range(ATTEMPTS))


def cpu(work: Callable[[], object]) -> float:
    """CPU time in seconds: the shorter of two runs."""
    spent = []
    for _ in range(2):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent)


def calls(work: Callable[[], object]) -> int:
    """How many functions are called, in Python and in C: the same in every run."""
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
