"""``python -m tests.fuzz [TARGET...] --seconds N``: fuzz targets, each in a separate process.

``all``: all of them in one process, from the corpus in the repository; each has an equal share of the time.

Figures, findings and the corpus that grows go to ``--work``. Exit code 1: something was found; the input is printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ALL = "all"
COMMAND = [sys.executable, "-m", "tests.fuzz"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="which; all, if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time for each target; for all: of all")
    parser.add_argument("--work", type=Path, default=Path(".cache/fuzz"), help="where figures and findings go")
    parser.add_argument("--seed", type=int, default=time.time_ns(), help="of the mutations; default: the time")
    return parser.parse_args()


def figures(work: Path, name: str) -> dict[str, Any]:
    """Totals of all runs of a target."""
    rows = [json.loads(path.read_text()) for path in work.glob(f"figures/{name}-*.json")]
    sums = {key: sum(row[key] for row in rows) for key in ("executions", "seconds")}
    return {
        **sums,
        "peak_mb": max((row["peak_mb"] for row in rows), default=0),
        "places": max((row.get("places", 0) for row in rows), default=0),
        "found": sorted({f for row in rows for f in row["found"]}),
    }


def main() -> int:
    """Run each target in a separate process, or all in this one."""
    given = arguments()
    given.work.mkdir(parents=True, exist_ok=True)
    from tests.fuzz.engine import guided
    from tests.fuzz.targets import TARGETS

    if unknown := set(given.targets) - {*TARGETS, ALL}:
        print(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    names = list(TARGETS) if given.targets in ([], [ALL]) else given.targets
    if given.targets == [ALL]:
        guided(names, given.seconds / len(names), given.work, given.seed)
    elif len(names) == 1:
        guided(names, given.seconds, given.work, given.seed)
    else:
        words = ["--seconds", str(given.seconds), "--work", str(given.work), "--seed", str(given.seed)]
        codes = [subprocess.run([*COMMAND, name, *words], check=False).returncode for name in names]
        return max(codes)
    code = 0
    for name in names:
        row = figures(given.work, name)
        rate = row["executions"] / max(1, row["seconds"])
        print(
            f"{name:16} {row['executions']:>10,} executions in {row['seconds']:>6,} s, {rate:>6,.0f}/s, "
            f"{row['places']:>6,} places, {row['peak_mb']:>4} MB, found {len(row['found'])}",
            *row["found"],
            sep="\n    ",
            flush=True,
        )
        code = 1 if row["found"] else code
    return code


if __name__ == "__main__":
    sys.exit(main())
