"""Run wiredecode, tshark, Scapy and dpkt side by side on large made captures, and report medians.

    python -m tests.bench [--case NAME...] [--size MB] [--rounds 3] [--write]
    python -m tests.bench --quick       about ten minutes
    python -m tests.bench --smoke       seconds: is every capture right, does every tool run?
    python -m tests.bench --against [REV] [--quick] [--write]
                                        two versions of wiredecode: exit 1 if a command became slower

Every tool writes to a file, the capture is in the page cache, the rounds alternate between the tools. Peers that
are not installed are left out, and the report says so. The captures are made when they are missing, and stay in
``--folder`` (default: a folder in TMPDIR) until ``--discard`` is given; at most about 10 GB.
"""

from __future__ import annotations

import argparse
import compileall
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.bench import clusters, growth, report
from tests.bench.against import LIMIT, against, prepared
from tests.bench.cases import CASES
from tests.bench.growth import Plan
from tests.bench.inputs import NAMES, REAL, Input, generate
from tests.bench.tools import PYTHON, ROOT, measure, tools
from tests.bench.versions import Unavailable, baseline

REPORT = ROOT / "docs" / "reference" / "measurements.md"
VERSIONS = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- measured: python -m tests.bench {options}--write -->", "<!-- end of measurements -->"
"""``--write`` replaces the text between them."""
FULL = Plan(megabytes=300, rounds=3, limit=50_000, linear=(75, 150, 300), memory=(300, 3000), keep=True)
QUICK = Plan(megabytes=30, rounds=1, limit=5_000, linear=(10, 20, 40), memory=(30, 300), keep=True)
QUICK_CASES = [name for name in NAMES if not name.startswith(REAL) or name == f"{REAL}mixed"]
SMOKE = Plan(megabytes=0.2, rounds=1, limit=300, linear=(), memory=(), keep=False)
SMOKE_CASE = "rabbitmq-publish"
"""The only one that a smoke run gives to the tools; all cases are examined."""
PARTS = ("tools", "stages", "processes", "linear", "connections", "memory", "spark")


def compare(names: Sequence[str], plan: Plan, folder: Path) -> tuple[list[str], bool]:
    """Run all tools on all captures; return also whether everything ran on valid captures."""
    found, missing = tools()
    measured = []
    right = True
    for name in names:
        capture = generate(name, plan.megabytes, folder)
        chosen = [tool for tool in found if tool.only in ("", name)]
        results = measure(capture.path, chosen, plan.rounds, plan.limit, folder)
        measured.append(report.Measured(capture, results, plan.limit, plan.by_cpu))
        right = right and sound(capture) and not any(runs.failed for runs in results.values())
        plan.drop(capture)
    slow = ", ".join(tool.name for tool in found if tool.limited)
    lines = [*missing, ""] if missing else []
    if slow:
        lines += [f"{slow}: the first {plan.limit:,} packets only; compare packets/s and MB/s.", ""]
    lines += report.inputs(measured) + report.ratios(measured) + report.ahead(measured) + report.table(measured)
    return lines, right


def sound(capture: Input) -> bool:
    """Whether the capture is decoded whole; otherwise its measurements mean nothing."""
    return capture.frames > 0 and not capture.undecoded and (not capture.doubtful or not capture.messages)


def run(options: argparse.Namespace, plan: Plan, folder: Path) -> tuple[list[str], bool]:
    """Return the chosen parts of the report, and whether they are valid."""
    lines = [*report.machine(), f"Medians of {plan.rounds} round(s), captures of about {plan.megabytes:g} MB.", ""]
    if plan.by_cpu:
        lines += ["Other work ran beside: rates and ratios are those of CPU time (user and system).", ""]
    right = True
    if "tools" in options.part:
        text, right = compare(options.case, plan, folder)
        lines += text
    further: dict[str, Callable[[], list[str]]] = {
        "stages": lambda: growth.stages(options.case, plan, folder),
        "processes": lambda: growth.processes(options.case, plan, folder),
        "linear": lambda: growth.linearity(plan, folder),
        "connections": lambda: growth.connections(plan, folder),
        "memory": lambda: growth.memory(plan, folder),
        "spark": lambda: clusters.spark(plan, folder),
    }
    for name, part in further.items():
        if name in options.part:
            lines += part()
    return lines, right


def smoke(folder: Path) -> bool:
    """Every capture examined, every tool and the stages run once on a tiny one."""
    examined = subprocess.run([PYTHON, "-m", "tests.bench.check"], cwd=ROOT, check=False)
    lines, right = compare([SMOKE_CASE], SMOKE, folder)
    lines += growth.stages([SMOKE_CASE], SMOKE, folder)
    if not right:
        print("\n".join(lines))
    return right and examined.returncode == 0


def write(page: Path, options: str, text: str) -> None:
    """Put a report between the markers of a page."""
    begin = BEGIN.format(options=options)
    head, _, rest = page.read_text().partition(begin)
    tail = rest.partition(END)[2]
    page.write_text(f"{head}{begin}\n\n{text}\n{END}{tail or chr(10)}")


def compared(options: argparse.Namespace) -> int:
    """Compare with a revision; the exit code."""
    revision = options.against or baseline()
    try:
        if options.prepare:
            prepared(revision, options.case, options.size, options.folder, quick=options.quick)
            return 0
        lines, complaints = against(
            *(revision, options.case, options.size, options.rounds, options.ratio, options.folder),
            quick=options.quick,
        )
    except Unavailable as problem:
        print(problem, file=sys.stderr)
        return 2
    text = "\n".join([*report.machine(), *lines])
    print(text)
    if options.write:
        write(VERSIONS, "--against ", text)
    for each in complaints:
        print(each, file=sys.stderr)
    return 1 if complaints else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--case", choices=[*CASES, *NAMES], nargs="+", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    add("--part", choices=PARTS, nargs="+", default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    add("--size", type=float, metavar="MB", help=f"of each capture (default {FULL.megabytes:g})")
    add("--rounds", type=int, help=f"default {FULL.rounds}")
    add("--limit", type=int, metavar="PACKETS", help=f"for the slow tools, 0: all (default {FULL.limit})")
    add("--by-cpu", action="store_true", help="rates and ratios of CPU time: where other work runs beside")
    add("--linear", type=float, nargs="+", metavar="MB", help="sizes at which time is measured")
    add("--memory", type=float, nargs="+", metavar="MB", help="sizes at which memory is measured")
    add("--quick", action="store_true", help=f"{QUICK.megabytes:g} MB, one round, one real capture")
    add("--smoke", action="store_true", help="tiny captures, all examined")
    add("--against", nargs="?", const="", metavar="REV", help="compare with it (default: tests/bench/baseline)")
    add("--prepare", action="store_true", help="with --against: make versions and captures, measure nothing")
    add("--ratio", type=float, default=LIMIT, help=f"most of REV's user CPU or memory (default {LIMIT:g})")
    add("--folder", type=Path, default=Path(tempfile.gettempdir()) / "wiredecode-bench", help="where captures stay")
    add("--discard", action="store_true", help="remove each capture once it was measured")
    add("--write", action="store_true", help=f"put the report into {REPORT.name}, or {VERSIONS.name}")
    options = parser.parse_args(arguments)
    options.folder = options.folder.absolute()
    if options.against is None:
        options.case = options.case or (QUICK_CASES if options.quick else NAMES)
    return options


def planned(options: argparse.Namespace) -> Plan:
    """The thoroughness that the options ask for."""
    usual = QUICK if options.quick else FULL
    return Plan(
        megabytes=options.size or usual.megabytes,
        rounds=options.rounds or usual.rounds,
        limit=usual.limit if options.limit is None else options.limit,
        linear=options.linear or usual.linear,
        memory=options.memory or usual.memory,
        keep=not options.discard,
        by_cpu=options.by_cpu,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.smoke:
        with tempfile.TemporaryDirectory(prefix="wiredecode-bench-") as scratch:
            return 0 if smoke(Path(scratch)) else 1
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.against is not None:
        return compared(options)
    compileall.compile_dir(ROOT / "wiredecode", quiet=2)  # as installed programs are, in any environment
    lines, right = run(options, planned(options), options.folder)
    text = "\n".join(lines)
    print(text)
    if options.write and right:
        write(REPORT, "", text)
    elif options.write:
        print(f"not written to {REPORT.name}: something failed or was not decoded", file=sys.stderr)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
