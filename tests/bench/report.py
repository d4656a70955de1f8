"""Measurements as markdown."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.inputs import Input, about
from tests.bench.tools import DPKT, EK, FIELDS, FRAMES, JSON, LINES, MESSAGES, NATIVE, SCAPY, SUMMARY, Runs, Tool

PAIRS = (
    *((SUMMARY, LINES), (SUMMARY, FIELDS), (JSON, EK), (JSON, FIELDS), (MESSAGES, FIELDS), (MESSAGES, NATIVE)),
    *((FRAMES, FIELDS), (SUMMARY, SCAPY), (SUMMARY, DPKT), (MESSAGES, DPKT)),
)
"""Tools compared in packets per second: ours and a peer."""


@dataclass(frozen=True, slots=True)
class Measured:
    """All tools on one capture."""

    capture: Input
    results: dict[Tool, Runs]
    limit: int
    by_cpu: bool = False

    def packets(self, tool: Tool) -> int:
        """Number of packets that the tool read."""
        return min(self.limit, self.capture.packets) if tool.limited and self.limit else self.capture.packets

    def rate(self, name: str) -> float | None:
        """Packets per second."""
        for tool, runs in self.results.items():
            if tool.name == name and not runs.failed:
                return self.packets(tool) / runs.typical(self.by_cpu)
        return None

    def ratio(self, ours: str, peer: str) -> float | None:
        mine, theirs = self.rate(ours), self.rate(peer)
        return mine / theirs if mine and theirs else None


def table(measured: Iterable[Measured]) -> list[str]:
    """Every tool on every capture. A limited tool's time and output are those of its packets."""
    heads = (
        "| case | tool | packets | wall s | CPU s | packets/s | MB/s | frames/s | messages/s | output MB | peak MB |"
    )
    lines = ["### All measurements", "", heads, "|---|---|" + "---:|" * 9]
    for one in measured:
        lines += [row(one, tool, runs) for tool, runs in one.results.items()]
    return [*lines, ""]


def row(one: Measured, tool: Tool, runs: Runs) -> str:
    """A tool's medians."""
    capture = one.capture
    if runs.failed:
        return f"| {capture.name} | {tool.name} | failed ({runs.failed}) |" + " |" * 8
    packets, seconds = one.packets(tool), runs.typical(one.by_cpu)
    share = capture.megabytes * packets / capture.packets
    frames = f"{capture.frames / seconds:,.0f}" if tool.ours else ""
    messages = f"{capture.messages / seconds:,.0f}" if tool.ours and capture.messages else ""
    return (
        f"| {capture.name} | {tool.name} | {packets:,} | {runs.typical():.2f} | {runs.typical(True):.2f} "
        f"| {packets / seconds:,.0f} | {share / seconds:.1f} | {frames} | {messages} "
        f"| {runs.output_bytes / 1e6:.1f} | {statistics.median(runs.peak_kib) / 1024:.0f} |"
    )


def inputs(measured: Iterable[Measured]) -> list[str]:
    lines = ["### Captures", "", "| case | what | MB | packets | frames | messages | undecoded bytes |"]
    lines.append("|---|---|" + "---:|" * 5)
    for capture in (one.capture for one in measured):
        counts = f"{capture.packets:,} | {capture.frames:,} | {capture.messages or '':,} | {capture.undecoded:,}"
        lines.append(f"| {capture.name} | {about(capture.name)} | {capture.megabytes:.0f} | {counts} |")
    return [*lines, ""]


def ratios(measured: list[Measured]) -> list[str]:
    """Table of our packets per second divided by the peer's; below 1 the peer is ahead."""
    pairs = [pair for pair in PAIRS if any(one.ratio(*pair) for one in measured)]
    names = {SUMMARY: "summary", JSON: "json", MESSAGES: "messages", FRAMES: "frames"}
    heads = " | ".join(f"{names[ours]} : {peer}" for ours, peer in pairs)
    lines = ["### Times the peer's packets per second", "", f"| case | {heads} |", "|---|" + "---:|" * len(pairs)]
    for one in measured:
        cells = ("" if value is None else f"{value:.2f}" for value in (one.ratio(*pair) for pair in pairs))
        lines.append(f"| {one.capture.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def ahead(measured: list[Measured]) -> list[str]:
    """List the cases in which a peer is faster, or needs less memory."""
    lines = []
    for ours, peer in PAIRS:
        slower = [(one.capture.name, value) for one in measured if (value := one.ratio(ours, peer)) and value < 1]
        if slower:
            text = ", ".join(f"{name} ({1 / value:.1f} times)" for name, value in slower)
            lines.append(f"* {peer} reads more packets per second than `{ours}`: {text}.")
    for peer in (LINES, FIELDS, EK, SCAPY, DPKT):
        less = [one.capture.name for one in measured if needs_less(one, peer)]
        if less:
            lines.append(f"* {peer} needs less memory than any command of wiredecode: {', '.join(less)}.")
    return ["### Where a peer is ahead", "", *(lines or ["In no measurement."]), ""]


def needs_less(one: Measured, peer: str) -> bool:
    ours = [statistics.median(runs.peak_kib) for tool, runs in one.results.items() if tool.ours and not runs.failed]
    theirs = [
        statistics.median(runs.peak_kib)
        for tool, runs in one.results.items()
        if tool.name == peer and not runs.failed and one.packets(tool) == one.capture.packets
    ]
    return bool(ours and theirs) and theirs[0] < min(ours)


def machine() -> list[str]:
    """Hardware and versions of the measurements."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    lines = [
        time.strftime("* %Y-%m-%d"),
        f"* {models[0] if models else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB",
        f"* {platform.system()} {platform.release()}, Python {platform.python_version()}",
    ]
    if tshark := shutil.which("tshark"):
        version = subprocess.run([tshark, "--version"], capture_output=True, text=True, check=False)
        lines.append(f"* {version.stdout.splitlines()[0]}")
    return [*lines, ""]
