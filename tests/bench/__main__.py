"""Run wiredecode, tshark and Scapy side by side on large two-way captures and report medians.

    python -m tests.bench [--mix NAME...] [--size MB] [--rounds 3] [--smoke] [--keep DIR] [--write]

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

from tests.bench.mixes import MIXES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "captures" / "rabbitmq-stream" / "c43_basic.pcap"
REPORT = ROOT / "docs" / "benchmarks.md"
TABLE = "<!-- measured: python -m tests.bench --write -->"
"""Everything after this line of the report is replaced by ``--write``."""
FLAT_MIX = "small"
"""What peak memory is measured on as captures grow."""
SMOKE_MB, SMOKE_PACKETS = 0.5, 500
SMOKE_PEER = "tshark -T ek"
"""The only peer that a smoke run tries on more than the first mix."""
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
    counts_frames: bool = False
    """Decodes the protocol's messages, so that frames per second can be told."""

    def arguments(self, file: Path, limit: int) -> list[str]:
        count = (*self.count_option, str(limit)) if self.count_option and limit else ()
        return [*self.command, str(file), *count]


@dataclass(slots=True)
class Runs:
    """What was measured of one tool on one capture."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    """User and system time; less disturbed by other work on the machine."""
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
    frames: int
    """Messages of the protocols, by wiredecode's totals."""
    undecoded: int
    """Payload bytes in no frame; 0 or the measurement is worth nothing."""


def tools() -> tuple[list[Tool], list[str]]:
    """The tools that are installed, and a sentence for each one that is not."""
    found = [
        Tool("wiredecode --summary", (*WIREDECODE, "--summary"), counts_frames=True),
        Tool("wiredecode --json", (*WIREDECODE, "--json"), counts_frames=True),
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
    """Make the capture in another process, see the module's docstring, and count what is in it."""
    path = folder / f"{mix}-{megabytes:g}.pcap"
    command = [sys.executable, "-m", "tests.bench.multiply", "--mix", mix, "--size", str(megabytes)]
    done = subprocess.run([*command, "-o", str(path)], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    made = json.loads(done.stdout)
    return Capture(mix, path, made["bytes"], made["packets"], *decoded(path))


def decoded(path: Path) -> tuple[int, int]:
    """Frames and undecoded bytes, from the totals of a run that is not timed; (0, 0) if it fails."""
    totals = path.with_suffix(".totals.json")
    command = [*WIREDECODE, str(path), "--summary", "--quiet", "--summary-json", str(totals)]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if done.returncode != 0:
        return 0, 0
    found = json.loads(totals.read_bytes())
    totals.unlink()
    kinds = (kind for protocol in found["frames"].values() for kind in protocol.values())
    payload = found["payload"]
    return sum(sum(kind.values()) for kind in kinds), payload["undecoded"] + payload["other_protocols"]


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
    runs.cpu_seconds.append(usage.ru_utime + usage.ru_stime)
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


def measure(
    capture: Capture, chosen: Iterable[Tool], rounds: int, limit: int, folder: Path, *, first_line: bool = True
) -> dict[Tool, Runs]:
    """All tools on one capture, alternating. ``first_line``: measure the time to it too, in runs of their own."""
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
            if first_line and not runs.failed:
                runs.first_line.append(time_to_first_output([*command, *tool.line_buffered]))
    out.unlink(missing_ok=True)
    out.with_suffix(".err").unlink(missing_ok=True)
    return results


def packets_of(capture: Capture, tool: Tool, limit: int) -> int:
    return min(limit, capture.packets) if tool.count_option and limit else capture.packets


def table(capture: Capture, results: dict[Tool, Runs], limit: int) -> list[str]:
    """One markdown table; a limited tool's time and output are those of its packets, MB/s in proportion."""
    lines = [
        f"### {capture.mix}: {MIXES[capture.mix].about}",
        "",
        f"{capture.size / 1e6:.1f} MB, {capture.packets:,} packets, {capture.frames:,} frames, "
        f"{capture.undecoded:,} bytes undecoded.",
        "",
        "| tool | packets | wall s | CPU s | packets/s | frames/s | MB/s | output MB | peak MB | first line ms |",
        "|---|" + "---:|" * 9,
        *(row(capture, tool, runs, limit) for tool, runs in results.items()),
    ]
    return [*lines, "", *ratios(capture, results, limit), ""]


def row(capture: Capture, tool: Tool, runs: Runs, limit: int) -> str:
    """A tool's medians as a row of :func:`table`."""
    if runs.failed:
        return f"| {tool.name} | failed ({runs.failed}) |" + " |" * 8
    packets = packets_of(capture, tool, limit)
    seconds, cpu = statistics.median(runs.seconds), statistics.median(runs.cpu_seconds)
    frames = f"{capture.frames / seconds:,.0f}" if tool.counts_frames else ""
    first = f"{statistics.median(runs.first_line) * 1000:.0f}" if runs.first_line else ""
    peak = statistics.median(runs.peak_kib) / 1024
    return (
        f"| {tool.name} | {packets:,} | {seconds:.2f} | {cpu:.2f} | {packets / seconds:,.0f} | {frames} "
        f"| {capture.size / 1e6 * packets / capture.packets / seconds:.1f} | {runs.output_bytes / 1e6:.1f} "
        f"| {peak:.0f} | {first} |"
    )


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


def flatness(folder: Path, sizes: Sequence[float]) -> list[str]:
    """Peak memory of wiredecode on captures of growing size, all of :data:`FLAT_MIX`."""
    heads = "".join(f" {size:g} MB |" for size in sizes)
    lines = ["### Peak memory by size of the capture (MB)", "", f"| |{heads}", "|---|" + "---:|" * len(sizes)]
    ours = [tool for tool in tools()[0] if tool.counts_frames]
    peaks: dict[str, list[str]] = {tool.name: [] for tool in ours}
    for size in sizes:
        capture = generate(FLAT_MIX, size, folder)
        for tool, runs in measure(capture, ours, 1, 0, folder, first_line=False).items():
            peaks[tool.name].append(runs.failed or f"{runs.peak_kib[0] / 1024:.0f}")
    lines += [f"| {FLAT_MIX}: {name} | {' | '.join(cells)} |" for name, cells in peaks.items()]
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
        capture = generate(mix, options.size or MIXES[mix].megabytes, folder)
        if options.smoke and mix != options.mix[0]:
            chosen = [tool for tool in chosen if tool.counts_frames or tool.name == SMOKE_PEER]
        results = measure(*(capture, chosen, options.rounds, options.limit, folder), first_line=not options.smoke)
        lines += table(capture, results, options.limit)
        succeeded = succeeded and capture.frames > 0 and not any(runs.failed for runs in results.values())
        if not options.keep:
            capture.path.unlink()
    lines += startup(1 if options.smoke else max(options.rounds, 3))
    if options.flat:
        lines += flatness(folder, options.flat)
    return lines, succeeded


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    usual = ", ".join(f"{name} {mix.megabytes:g}" for name, mix in MIXES.items())
    add("--mix", choices=MIXES, nargs="+", metavar="NAME", help=f"{', '.join(MIXES)} (default: all)")
    add("--size", type=float, metavar="MB", help=f"of each capture (default: {usual})")
    add("--rounds", type=int, default=3, help="default 3")
    add(
        "--limit",
        type=int,
        default=50_000,
        metavar="PACKETS",
        help="for ek and Scapy, 0: all (default 50000)",
    )
    add("--flat", type=float, nargs="+", default=[], metavar="MB", help=f"peak memory of {FLAT_MIX} at these sizes")
    add("--smoke", action="store_true", help=f"{SMOKE_MB} MB, one round: does everything run?")
    add("--keep", type=Path, metavar="DIR", help="make the captures here and leave them")
    add("--write", action="store_true", help=f"put the report into {REPORT.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.size, options.rounds, options.limit = SMOKE_MB, 1, SMOKE_PACKETS
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
