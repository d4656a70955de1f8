"""Choose a small corpus from a pool: short inputs that together cover most of the pool's coverage."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.corpus import keep
from tests.fuzz.coverage import Coverage
from tests.fuzz.engine import Watch
from tests.fuzz.targets import TARGETS

MAX_BYTES = 24_000
"""Of a target."""


def main() -> None:
    """Keep the shortest that reach something new, up to a size."""
    work, *names = sys.argv[1:]
    coverage = Coverage()
    for name in names:
        watch, chosen, size = Watch(TARGETS[name]), list[bytes](), 0
        coverage.seen.clear()
        found = sorted((path.read_bytes() for path in Path(work, "corpus", name).iterdir()), key=len)
        for data in found:
            coverage.restart()
            if coverage.of(watch.run, data) and size + len(data) <= MAX_BYTES:
                chosen.append(data)
                size += len(data)
        keep(name, chosen)
        print(f"{name}: {len(chosen)} of {len(found)} inputs")


if __name__ == "__main__":
    main()
