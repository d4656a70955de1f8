"""``python -m tests.fuzz [TARGET...] --seconds N``: fuzz targets one after another, in one process at a time.

``all`` is a target, too: all of them in one process, from the corpus in the repository.

Figures, findings and what was learnt (the corpus) go to ``--work``. Exit code 1: something was found.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="which; all, if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="of CPU time for each target")
    parser.add_argument("--work", type=Path, default=Path(".cache/fuzz"), help="where figures and findings go")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def figures(work: Path, name: str) -> dict[str, Any]:
    """Of all runs of a target together."""
    rows = [json.loads(path.read_text()) for path in work.glob(f"figures/{name}-*.json")]
    sums = {key: sum(row[key] for row in rows) for key in ("executions", "seconds")}
    return {
        **sums,
        "peak_mb": max((row["peak_mb"] for row in rows), default=0),
        "places": max((row.get("places", 0) for row in rows), default=0),
        "found": sorted({f for row in rows for f in row["found"]}),
    }


def main() -> int:
    """Run each target in a process of its own."""
    given = arguments()
    given.work.mkdir(parents=True, exist_ok=True)
    if given.one:
        from tests.fuzz.engine import guided

        guided(given.one, given.seconds, given.work)
        return 0
    from tests.fuzz.engine import ALL
    from tests.fuzz.targets import TARGETS

    if unknown := set(given.targets) - {*TARGETS, ALL}:
        print(f"no target is called {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    names = given.targets or list(TARGETS)
    code = 0
    for name in names:
        words = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--one",
            name,
            "--seconds",
            str(given.seconds),
            "--work",
            str(given.work),
        ]
        log = given.work / f"{name}.log"
        with log.open("wb") as out:
            ended = subprocess.run(words, stderr=out, check=False).returncode
        row = figures(given.work, name)
        rate = row["executions"] / max(1, row["seconds"])
        print(
            f"{name:16} {row['executions']:>10,} executions in {row['seconds']:>6,} s, {rate:>6,.0f}/s, "
            f"{row['places']:>6,} places, {row['peak_mb']:>4} MB, found {len(row['found'])}",
            *row["found"],
            sep="\n    ",
            flush=True,
        )
        if ended:
            print(f"    ended with {ended}: {log}", flush=True)
        code = 1 if ended or row["found"] else code
    return code


if __name__ == "__main__":
    sys.exit(main())
