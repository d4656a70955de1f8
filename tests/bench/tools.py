"""The compared tools, and one timed run of a tool. Imports nothing large: see :func:`run_once`."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
WIREDECODE = (PYTHON, "-m", "wiredecode")
ONE = ("--jobs", "1")
"""CPU seconds are those of one process."""
SUMMARY, JSON = "wiredecode pcap --summary", "wiredecode pcap --json"
MESSAGES, FRAMES = "wiredecode export, messages, Parquet", "wiredecode export, frames, Parquet"
LINES, FIELDS, EK, NATIVE = "tshark, lines", "tshark -T fields (3)", "tshark -T ek", "tshark -T fields, nats"
SCAPY, DPKT = "Scapy, PcapReader and summary", "dpkt, IP and TCP parsed"


@dataclass(frozen=True, slots=True)
class Tool:
    """A command line; ``{file}`` and ``{out}`` in it are replaced. Without ``{out}``, standard output is the result."""

    name: str
    command: tuple[str, ...]
    limited: tuple[str, ...] = ()
    """Set for slow tools: the option that a number of packets follows, which is all they read."""
    ours: bool = False
    """Decodes the protocols' messages, so that frames and messages per second can be reported."""
    only: str = ""
    """The only case it makes sense for."""
    codes: tuple[int, ...] = (0,)
    """Exit codes of a run that succeeded."""
    launches: int = 1
    """Processes of one run, several if they are short; times are those of one."""

    def arguments(self, file: Path, out: Path, limit: int) -> list[str]:
        count = (*self.limited, str(limit)) if self.limited and limit else ()
        return [word.format(file=file, out=out) for word in self.command] + list(count)


@dataclass(slots=True)
class Runs:
    """Measurements of one tool on one capture."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    """User and system time: hardly disturbed by other work on the machine."""
    user_seconds: list[float] = field(default_factory=list)
    peak_kib: list[int] = field(default_factory=list)
    output_bytes: int = 0
    failed: str = ""

    @property
    def user(self) -> float:
        """The least user CPU: other work on the machine only adds to it."""
        return min(self.user_seconds)

    @property
    def peak_mb(self) -> float:
        return min(self.peak_kib) / 1024

    def typical(self, by_cpu: bool = False) -> float:
        """The median of the wall times, or of the CPU times; NaN if there is none."""
        return statistics.median((self.cpu_seconds if by_cpu else self.seconds) or [math.nan])


@functools.cache
def can_export() -> str:
    """The help of ``wiredecode export``, or nothing if this version has no such command."""
    done = subprocess.run([*WIREDECODE, "export", "--help"], capture_output=True, text=True, check=False, cwd=ROOT)
    return done.stdout if done.returncode == 0 else ""


def tools() -> tuple[list[Tool], list[str]]:
    """The installed tools, and a sentence for each missing one."""
    found = [
        Tool(name, (*WIREDECODE, "pcap", option, "-q", *ONE, "{file}"), ours=True) for name, option in PCAP.items()
    ]
    missing = []
    if can_export() and importlib.util.find_spec("pyarrow"):
        for name, level in ((MESSAGES, "messages"), (FRAMES, "frames")):
            options = ("--level", level, "-q", *ONE, "-o", "{out}.parquet")
            found.append(Tool(name, (*WIREDECODE, "export", "{file}", *options), ours=True))
    else:
        missing.append("`wiredecode export` or pyarrow is not there: left out.")
    found += tshark(missing)
    for name, module in ((SCAPY, "scapy"), (DPKT, "dpkt")):
        if importlib.util.find_spec(module):
            loop = (PYTHON, "-m", f"tests.bench.{module}_loop", "{file}")
            found.append(Tool(name, loop, ("-c",) if module == "scapy" else ()))
        else:
            missing.append(f"{module} is not installed: left out.")
    return found, missing


PCAP = {SUMMARY: "--summary", JSON: "--json"}


def tshark(missing: list[str]) -> list[Tool]:
    program = shutil.which("tshark")
    if program is None:
        missing.append("tshark is not installed: left out.")
        return []
    # -n: no name look-ups, which only makes tshark faster.
    base = (program, "-n", "-r", "{file}")
    fields = ("-T", "fields", "-e", "frame.number", "-e", "ip.src", "-e", "tcp.len")
    found = [Tool(LINES, base), Tool(FIELDS, (*base, *fields)), Tool(EK, (*base, "-T", "ek"), ("-c",))]
    known = subprocess.run([program, "-G", "protocols"], capture_output=True, text=True, check=False)
    if any(line.split("\t")[2:3] == ["nats"] for line in known.stdout.splitlines()):
        native = ("-Y", "nats", "-T", "fields", "-e", "frame.number", "-e", "nats.subject", "-e", "nats.payload")
        found.append(Tool(NATIVE, (*base, *native), ("-c",), only="nats"))
    else:
        missing.append("This tshark has no dissector for NATS: its native reading of NATS is left out.")
    return found


def warm(path: Path) -> None:
    """Read the file once, so that every tool finds it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def run_once(tool: Tool, command: Sequence[str], out: Path, runs: Runs) -> None:
    """Run to the end; note times, peak memory, size of the output (standard output, or files named ``out``).

    Peak memory is the kernel's (``wait4``): a child's peak starts at what its parent had, so this process stays small.
    """
    wall = cpu = user = 0.0
    peak = 0
    for _ in range(tool.launches):
        for old in out.parent.glob(f"{out.name}*"):
            old.unlink()
        with out.open("wb") as stdout, out.with_suffix(".err").open("w+b") as stderr:
            begin = time.perf_counter()
            process = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=ROOT)
            _, status, usage = os.wait4(process.pid, 0)
            wall += time.perf_counter() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
            stderr.seek(0)
            complaint = stderr.read(10_000).decode(errors="replace").strip().splitlines()
        out.with_suffix(".err").unlink()
        if process.returncode not in tool.codes:
            runs.failed = f"exit {process.returncode}: {complaint[-1] if complaint else 'no message'}"
            return
        cpu += usage.ru_utime + usage.ru_stime
        user += usage.ru_utime
        peak = max(peak, usage.ru_maxrss)
    runs.seconds.append(wall / tool.launches)
    runs.cpu_seconds.append(cpu / tool.launches)
    runs.user_seconds.append(user / tool.launches)
    runs.peak_kib.append(peak)
    runs.output_bytes = sum(file.stat().st_size for file in out.parent.glob(f"{out.name}*"))


def measure(
    file: Path, chosen: Iterable[Tool], rounds: int, limit: int, folder: Path, before: dict[Tool, Runs] | None = None
) -> dict[Tool, Runs]:
    """All tools on one capture, alternating, each writing to a file. ``before``: runs that these are added to."""
    results = before or {tool: Runs() for tool in chosen}
    warm(file)
    out = folder / f"output-{os.getpid()}-"
    for number in range(rounds):
        for tool, runs in results.items():
            if not runs.failed:
                run_once(tool, tool.arguments(file, out, limit), out, runs)
                figures = f"{runs.seconds[-1]:.2f} s, CPU {runs.cpu_seconds[-1]:.2f} s" if runs.seconds else runs.failed
                print(f"{file.name}: round {number + 1}/{rounds}: {tool.name}: {figures}", file=sys.stderr, flush=True)
    for left in folder.glob(f"{out.name}*"):
        left.unlink()
    return results
