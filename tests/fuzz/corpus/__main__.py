"""Choose a small corpus of what runs learnt: short inputs that together reach most of what all of them reach."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.corpus import keep

MOST_BYTES = 24_000
"""Of a target."""


def main() -> None:
    """Let libFuzzer merge, and keep the shortest up to a size."""
    work, *names = sys.argv[1:]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            words = ["--one", name, "--work", work, "--merge", folder]
            subprocess.run([sys.executable, "-m", "tests.fuzz", *words], check=True, stderr=subprocess.DEVNULL)
            found = sorted((path.read_bytes() for path in Path(folder).iterdir()), key=len)
        chosen, size = [], 0
        for data in found:
            size += len(data)
            if size > MOST_BYTES:
                break
            chosen.append(data)
        keep(name, chosen)
        print(f"{name}: {len(chosen)} of {len(found)} inputs")


if __name__ == "__main__":
    main()
