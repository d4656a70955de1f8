"""How many processes decode captures: ``--jobs``, or what the machine and the captures suggest."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from wiredecode.cli.options import refuse

LARGE = 64 * 1024 * 1024
"""Captures of that many bytes are decoded by all cores, unless ``--jobs`` says otherwise, ..."""
MOST = 8
"""... but by no more processes than these: each reads all packets."""
CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def number(wanted: int | None, files: Sequence[str], *reasons: tuple[object, str]) -> int:
    """How many processes there are: as many as ``wanted`` (``--jobs``), by default all cores for large captures.

    ``reasons``: whether something keeps several processes from doing it, and what. Raises UsageError if several were
    wanted.
    """
    once = [name for name in files if name == "-" or (Path(name).exists() and not Path(name).is_file())]
    several = f"reads the captures in every process, and {''.join(once[:1])} can be read only once"
    reasons = (sys.platform != "linux", "needs Linux"), (once, several), *reasons
    if wanted is None:
        is_large = files and not any(given for given, _ in reasons) and size_of(files) >= LARGE
        return min(cores(), MOST) if is_large else 1
    if wanted > 1:
        refuse(*((given, f"--jobs {why}") for given, why in reasons))
    return wanted


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
