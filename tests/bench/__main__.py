"""Run wiredecode, tshark and Scapy side by side on large two-way captures and report medians.

    python -m tests.bench [--size 100] [--rounds 3] [--smoke] [--keep DIR] [--write]

Every tool writes to a file on a warm page cache; the rounds alternate between the tools. Peers that are not
installed are left out, and the report says so. Peak memory is the kernel's (``wait4``), so this process stays
small itself: a child's peak starts at what its parent had. So the captures are generated in another process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
REPORT = ROOT / "docs" / "benchmarks.md"
TABLE = "<!-- measured: python -m tests.bench --write -->"
"""Everything after this line of the report is replaced by ``--write``."""
MIXES = {
    "small": "many connections, mostly frames of a few hundred bytes",
    "batches": "frames of up to a megabyte, whole chunks, compressed sub-batches",
}
WIREDECODE = [sys.executable, "-m", "wiredecode", "pcap"]


@dataclass(frozen=True, slots=True)
class Tool:
    """A command line; the capture is appended, then the options."""

    name: str
    command: tuple[str, ...]
    count_option: tuple[str, ...] = ()
    """Set for slow tools, which may be limited: the option that a number of packets follows."""
    line_buffered: tuple[str, ...] = ()
    """Options that make the tool write its first line at once, for the time to it."""

    def arguments(self, file: Path, limit: int) -> list[str]:
        count = (*self.count_option, str(limit)) if self.count_option and limit else ()
        return [*self.command, str(file), *count]


@dataclass(slots=True)
class Runs:
    """What was measured of one tool on one capture."""

    seconds: list[float] = field(default_factory=list)
    peak_kib: list[int] = field(default_factory=list)
    first_line: list[float] = field(default_factory=list)
    output_bytes: int = 0
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Capture:
    """A generated capture."""

    mix: str
    path: Path
    size: int
    packets: int


def tools() -> tuple[list[Tool], list[str]]:
    """The tools that are installed, and a sentence for each one that is not."""
    found = [
        Tool("wiredecode --summary", (*WIREDECODE, "--summary")),
        Tool("wiredecode --json", (*WIREDECODE, "--json")),
    ]
    missing = []
    if tshark := shutil.which("tshark"):
        # -n: no name look-ups, which only makes tshark faster.
        fields = ("-T", "fields", "-e", "frame.number", "-e", "ip.src", "-e", "tcp.len")
        base, at_once = (tshark, "-n"), ("-l",)
        found += [
            Tool("tshark (lines)", (*base, "-r"), line_buffered=at_once),
            Tool("tshark -T fields (3)", (*base, *fields, "-r"), line_buffered=at_once),
            Tool("tshark -T ek", (*base, "-T", "ek", "-r"), ("-c",), at_once),
        ]
    else:
        missing.append("tshark is not installed: left out.")
    if importlib.util.find_spec("scapy"):
        loop = (sys.executable, "-m", "tests.bench.scapy_loop")
        found.append(Tool("Scapy (PcapReader, summary)", loop, ("-c",)))
    else:
        missing.append("Scapy is not installed: left out.")
    return found, missing


def generate(mix: str, megabytes: float, folder: Path) -> Capture:
    """Make the capture in another process, see the module's docstring."""
    path = folder / f"{mix}-{megabytes:g}.pcap"
    command = [sys.executable, "-m", "tests.bench.multiply", "--mix", mix, "--size", str(megabytes)]
    done = subprocess.run([*command, "-o", str(path)], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    made = json.loads(done.stdout)
    return Capture(mix, path, made["bytes"], made["packets"])


def warm(path: Path) -> None:
    """Read the file once, so that every tool finds it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def run_once(command: Sequence[str], out: Path, runs: Runs) -> None:
    """Run to the end with standard output to ``out``; note wall time, peak memory, output size."""
    with out.open("wb") as stdout, out.with_suffix(".err").open("w+b") as stderr:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        complaint = stderr.read(10_000).decode(errors="replace").strip().splitlines()
    if process.returncode != 0:
        runs.failed = f"exit {process.returncode}: {complaint[-1] if complaint else 'no message'}"
        return
    runs.seconds.append(elapsed)
    runs.peak_kib.append(usage.ru_maxrss)
    runs.output_bytes = out.stat().st_size


def time_to_first_output(command: Sequence[str]) -> float:
    """Seconds until the first byte arrives on a pipe (NaN if none does); the command is stopped then."""
    begin = time.perf_counter()
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, cwd=ROOT, bufsize=0) as process:
        assert process.stdout is not None
        byte = process.stdout.read(1)
        elapsed = time.perf_counter() - begin if byte else math.nan
        process.kill()
    return elapsed


def measure(capture: Capture, chosen: Iterable[Tool], rounds: int, limit: int, folder: Path) -> dict[Tool, Runs]:
    """All tools on one capture, alternating."""
    results = {tool: Runs() for tool in chosen}
    warm(capture.path)
    out = folder / "output"
    for number in range(rounds):
        for tool, runs in results.items():
            if runs.failed:
                continue
            note = f"{capture.path.name}: round {number + 1}/{rounds}: {tool.name}"
            print(note, file=sys.stderr, flush=True)
            command = tool.arguments(capture.path, limit)
            run_once(command, out, runs)
            if not runs.failed:
                runs.first_line.append(time_to_first_output([*command, *tool.line_buffered]))
    out.unlink(missing_ok=True)
    out.with_suffix(".err").unlink(missing_ok=True)
    return results


def packets_of(capture: Capture, tool: Tool, limit: int) -> int:
    return min(limit, capture.packets) if tool.count_option and limit else capture.packets


def table(capture: Capture, results: dict[Tool, Runs], limit: int) -> list[str]:
    """One markdown table; a limited tool's time and output are those of its packets, MB/s in proportion."""
    size = capture.size / 1e6
    lines = [
        f"### {capture.mix}: {MIXES[capture.mix]}",
        "",
        f"{size:.1f} MB, {capture.packets:,} packets.",
        "",
        "| tool | packets | wall s | packets/s | MB/s | output MB | peak MB | first line ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for tool, runs in results.items():
        if runs.failed:
            lines.append(f"| {tool.name} | failed ({runs.failed}) | | | | | | |")
            continue
        packets = packets_of(capture, tool, limit)
        seconds, first = statistics.median(runs.seconds), statistics.median(runs.first_line)
        peak = statistics.median(runs.peak_kib)
        lines.append(
            f"| {tool.name} | {packets:,} | {seconds:.2f} | {packets / seconds:,.0f} "
            f"| {size * packets / capture.packets / seconds:.1f} | {runs.output_bytes / 1e6:.1f} "
            f"| {peak / 1024:.0f} | {first * 1000:.0f} |"
        )
    return [*lines, "", *ratios(capture, results, limit), ""]


def ratios(capture: Capture, results: dict[Tool, Runs], limit: int) -> list[str]:
    """The comparisons that matter, in packets per second."""
    rates = {
        tool.name: packets_of(capture, tool, limit) / statistics.median(runs.seconds)
        for tool, runs in results.items()
        if not runs.failed
    }
    pairs = [
        ("wiredecode --summary", "tshark (lines)"),
        ("wiredecode --summary", "tshark -T fields (3)"),
        ("wiredecode --summary", "Scapy (PcapReader, summary)"),
        ("wiredecode --json", "tshark -T ek"),
    ]
    return [
        f"* `{ours}` against {theirs}: {rates[ours] / rates[theirs]:.2f} times its packets/s"
        for ours, theirs in pairs
        if ours in rates and theirs in rates
    ]


def flatness(folder: Path, sizes: Sequence[float], mixes: Sequence[str]) -> list[str]:
    """Peak memory of wiredecode on captures of growing size."""
    heads = "".join(f" {size:g} MB |" for size in sizes)
    lines = ["### Peak memory by size of the capture (MB)", "", f"| |{heads}", "|---|" + "---:|" * len(sizes)]
    ours = [tool for tool in tools()[0] if tool.name.startswith("wiredecode")]
    for mix in mixes:
        peaks: dict[str, list[str]] = {tool.name: [] for tool in ours}
        for size in sizes:
            capture = generate(mix, size, folder)
            for tool, runs in measure(capture, ours, 1, 0, folder).items():
                peaks[tool.name].append(runs.failed or f"{runs.peak_kib[0] / 1024:.0f}")
        lines += [f"| {mix}: {name} | {' | '.join(cells)} |" for name, cells in peaks.items()]
    return [*lines, ""]


def startup(rounds: int) -> list[str]:
    """Wall time of ``--help``, and of the first line of a small capture."""
    module = [sys.executable, "-m", "wiredecode"]
    cases = {
        "python -c 'print()'": [sys.executable, "-c", "print()"],
        "wiredecode --help": [*module, "--help"],
        "wiredecode pcap: first line": [*module, "pcap", str(EXAMPLE)],
        "wiredecode pcap --summary: first line": [*module, "pcap", str(EXAMPLE), "--summary"],
        "wiredecode pcap --json: first line": [*module, "pcap", str(EXAMPLE), "--json"],
    }
    lines = ["### Start-up (time to the first output)", "", "| command | ms |", "|---|---:|"]
    for name, command in cases.items():
        seconds = statistics.median(time_to_first_output(command) for _ in range(rounds))
        lines.append(f"| {name} | {seconds * 1000:.0f} |")
    return [*lines, ""]


def machine() -> list[str]:
    """What the numbers were measured on and with."""
    info = Path("/proc/cpuinfo")
    models = [line.split(":", 1)[1].strip() for line in _lines(info) if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    lines = [
        f"* {models[0] if models else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB",
        f"* {platform.system()} {platform.release()}, Python {platform.python_version()}",
    ]
    if tshark := shutil.which("tshark"):
        version = subprocess.run([tshark, "--version"], capture_output=True, text=True, check=False)
        lines.append(f"* {version.stdout.splitlines()[0]}")
    return [*lines, ""]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def report(options: argparse.Namespace, folder: Path) -> tuple[list[str], bool]:
    """The whole report, and whether every run succeeded."""
    chosen, missing = tools()
    lines = [*machine(), f"Medians of {options.rounds} round(s)."]
    if options.limit:
        lines.append(f"`tshark -T ek` and Scapy read the first {options.limit:,} packets: compare packets/s.")
    lines += [*missing, ""]
    succeeded = True
    for mix in options.mix:
        capture = generate(mix, options.size, folder)
        results = measure(capture, chosen, options.rounds, options.limit, folder)
        lines += table(capture, results, options.limit)
        succeeded = succeeded and not any(runs.failed for runs in results.values())
    lines += startup(max(options.rounds, 3))
    if options.flat:
        lines += flatness(folder, (options.size, *options.flat), options.mix)
    return lines, succeeded


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--size", type=float, default=100, metavar="MB", help="of each capture (default 100)")
    add("--rounds", type=int, default=3, help="default 3")
    add("--mix", choices=MIXES, action="append", help="only this mix (default: all)")
    add(
        "--limit",
        type=int,
        default=50_000,
        metavar="PACKETS",
        help="for ek and Scapy, 0: all (default 50000)",
    )
    add("--flat", type=float, nargs="+", default=[], metavar="MB", help="peak memory at these sizes too")
    add("--smoke", action="store_true", help="2 MB, one round: does everything run?")
    add("--keep", type=Path, metavar="DIR", help="make the captures here and leave them")
    add("--write", action="store_true", help=f"put the report into {REPORT.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.size, options.rounds, options.limit = 2, 1, 2000
    options.mix = options.mix or list(MIXES)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with tempfile.TemporaryDirectory(prefix="wiredecode-bench-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        lines, succeeded = report(options, folder)
    text = "\n".join(lines)
    print(text)
    if options.write and succeeded:
        head = REPORT.read_text().split(TABLE)[0]
        REPORT.write_text(f"{head}{TABLE}\n\n{text}")
    return 0 if succeeded else 1


if __name__ == "__main__":
    sys.exit(main())
