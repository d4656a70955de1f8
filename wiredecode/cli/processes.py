"""Number of processes that decode captures, as the machine and the captures suggest."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

LARGE = 64 * 1024 * 1024
"""Captures of that many bytes are decoded by all cores, unless ``--jobs`` says otherwise, ..."""
MOST = 8
"""... but by no more processes than these: each reads all packets."""
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def reasons(files: Sequence[str]) -> Iterator[tuple[object, str]]:
    """Whether something keeps several processes from reading the files, and what."""
    once = [name for name in files if name == "-" or (Path(name).exists() and not Path(name).is_file())]
    yield sys.platform != "linux", "needs Linux"
    yield once, f"reads the captures in every process, and {''.join(once[:1])} can be read only once"


def usual(files: Sequence[str]) -> int:
    """Number of processes that decode the files, unless ``--jobs`` says it: all cores for large ones, else one."""
    return min(cores(), MOST) if size_of(files) >= LARGE else 1


def size_of(files: Sequence[str]) -> int:
    """Bytes of the files that are there."""
    sizes = []
    for name in files:
        with suppress(OSError):
            sizes.append(Path(name).stat().st_size)
    return sum(sizes)


def cores() -> int:
    """The cores that this process may use; a container may have less time than they give."""
    found = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):  # no limit
        quota, period = map(int, CPU_LIMIT.read_text().split())
        return max(min(found, quota // period), 1)
    return found
