"""Growth of time and memory with the size of the capture, and the effect of a second process."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.inputs import Input, generate
from tests.bench.tools import PYTHON, ROOT, WIREDECODE, Tool, can_export, measure, tools
from tests.bench.traffic_rabbitmq import VISITOR
from tests.bench.wire import write_capture
from wiredecode.cli.processes import MOST, cores

LINEAR = ("rabbitmq-publish", "nats", "mixed")
"""Measured at three sizes."""
MEMORY = ("rabbitmq-publish", "rabbitmq-publish-lossy")


DECODING = (
    ("pcap", "--summary"),
    ("pcap", "--json"),
    ("export", "--format", "parquet", "-o", "{out}"),
    ("export", "--level", "messages", "--format", "csv", "-o", "{out}"),
    ("flows",),
    ("stats", "--table", "frames"),
)
"""Measured with one process and with several."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Captures, sizes and rounds of a run."""

    megabytes: float
    rounds: int
    limit: int
    """Packets that the slow tools read."""
    linear: Sequence[float]
    memory: Sequence[float]
    keep: bool
    """Captures stay in the folder."""
    by_cpu: bool = False
    """CPU time counts, not wall time: for a machine that does other work."""

    def drop(self, capture: Input) -> None:
        if not self.keep:
            capture.path.unlink(missing_ok=True)
            capture.path.with_suffix(".json").unlink(missing_ok=True)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Slope of log(seconds) over log(size), by least squares: 1 is linear."""
    logs = [(math.log(size), math.log(second)) for size, second in zip(sizes, seconds, strict=True)]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def ours() -> list[Tool]:
    return [tool for tool in tools()[0] if tool.ours]


def linearity(plan: Plan, folder: Path) -> list[str]:
    """Seconds at three sizes, and the exponent, both without the start-up time."""
    heads = "".join(f" {size:g} MB |" for size in plan.linear)
    lines = ["### Time by size of the capture (s, start-up subtracted)", ""]
    lines += [f"| case | tool |{heads} exponent |", "|---|---|" + "---:|" * (len(plan.linear) + 1)]
    smallest = generate("rabbitmq-publish", 0.1, folder)
    started = measure(smallest.path, ours(), 3, 0, folder)
    start = {tool: runs.typical(plan.by_cpu) for tool, runs in started.items()}
    plan.drop(smallest)
    for name in LINEAR:
        times: dict[Tool, list[float]] = {tool: [] for tool in start}
        sizes = []
        for megabytes in plan.linear:
            capture = generate(name, megabytes, folder)
            sizes.append(capture.megabytes)
            for tool, runs in measure(capture.path, start, plan.rounds, 0, folder).items():
                times[tool].append(max(runs.typical(plan.by_cpu) - start[tool], 1e-3))
            plan.drop(capture)
        for tool, found in times.items():
            cells = " | ".join(f"{second:.2f}" for second in found)
            lines.append(f"| {name} | {tool.name} | {cells} | {exponent(sizes, found):.2f} |")
    return [*lines, ""]


def processes(names: Sequence[str], plan: Plan, folder: Path) -> list[str]:
    """Wall time of one process, and of the usual number of them for large captures."""
    count = min(cores(), MOST)
    rows = []
    for name in names:
        capture = generate(name, plan.megabytes, folder)
        for words in DECODING:
            line = (*WIREDECODE, words[0], "{file}", "-q", *words[1:])
            tools = [Tool(f"{' '.join(words)}, {jobs}", (*line, "--jobs", str(jobs))) for jobs in (1, count)]
            one, all_cores = measure(capture.path, tools, plan.rounds, 0, folder).values()
            seconds = min(one.seconds, default=math.nan), min(all_cores.seconds, default=math.nan)
            more = all_cores.user / one.user
            figures = f"{seconds[0]:.2f} | {seconds[1]:.2f} | {seconds[0] / seconds[1]:.2f} | {more:.2f}"
            rows.append(f"| {name} | `{' '.join(words)}` | {figures} |")
        plan.drop(capture)
    heads = f"| case | command | one process | {count} processes | times as fast | times the CPU |"
    return ["### Several processes (wall time, s; the least)", "", heads, "|---|---|---:|---:|---:|---:|", *rows, ""]


def memory(plan: Plan, folder: Path) -> list[str]:
    """Peak memory of wiredecode on captures of growing size, a lossy one among them."""
    heads = "".join(f" {size:g} MB |" for size in plan.memory)
    lines = ["### Peak memory by size of the capture (MB)", ""]
    lines += [f"| case | tool |{heads}", "|---|---|" + "---:|" * len(plan.memory)]
    for name in MEMORY:
        peaks: dict[str, list[str]] = {tool.name: [] for tool in ours()}
        for size in plan.memory:
            capture = generate(name, size, folder)
            for tool, runs in measure(capture.path, ours(), 1, 0, folder).items():
                peaks[tool.name].append(runs.failed or f"{runs.peak_kib[0] / 1024:.0f}")
            plan.drop(capture)
        lines += [f"| {name} | {tool} | {' | '.join(cells)} |" for tool, cells in peaks.items()]
    return [*lines, ""]


VISITORS = {"in 10 connections": 0, "100 in each connection": 100, "each in its own": 1}
"""Questions of each connection, of ten that are open at any time; 0: of all."""


def connections(plan: Plan, folder: Path) -> list[str]:
    """CPU time and memory of the table of connections: the same questions in few connections, and in many."""
    export = (*WIREDECODE, "export", "{file}", "--level", "connections", "--jobs", "1", "-q", "-o", "{out}.parquet")
    tool = Tool("export connections", export)
    lines = ["### Many connections (export of connections; 10 connections are 1)", ""]
    lines += ["| questions | connections | packets | CPU of a packet | peak MB |", "|---|---:|---:|---:|---:|"]
    usual = 0.0
    for name, turns in VISITORS.items():
        path = folder / f"visitors-{turns}-{plan.megabytes:g}.pcap"
        counts = write_capture(path, [replace(VISITOR, turns=turns)] * 10, int(plan.megabytes * 1e6))
        runs = measure(path, [tool], plan.rounds, 0, folder)[tool]
        path.unlink()
        of_packet = runs.typical(by_cpu=True) / counts["packets"]
        usual = usual or of_packet
        row = f"{name} | {counts['connections']:,} | {counts['packets']:,} | {of_packet / usual:.2f}"
        lines.append(f"| {row} | {runs.failed or f'{runs.peak_mb:.0f}'} |")
    return [*lines, ""]


def stages(names: Sequence[str], plan: Plan, folder: Path) -> list[str]:
    """Seconds that each stage of the export of messages adds, from another process."""
    heads: list[str] = []
    rows = []
    option = [] if can_export() else ["--no-export"]
    for name in names:
        capture = generate(name, plan.megabytes, folder)
        command = [PYTHON, "-m", "tests.bench.stages", str(capture.path), "--rounds", str(plan.rounds), *option]
        done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE)
        plan.drop(capture)
        if done.returncode:
            rows.append(f"| {name} | failed (exit {done.returncode}) |")
            continue
        spent: dict[str, float] = json.loads(done.stdout)
        heads = list(spent)
        rows.append(f"| {name} | {capture.megabytes:.0f} | {' | '.join(f'{s:.2f}' for s in spent.values())} |")
    lines = ["### Stages of the export of messages (s)", "", f"| case | MB | {' | '.join(heads)} |"]
    return [*lines, "|---|---:|" + "---:|" * len(heads), *rows, ""]
