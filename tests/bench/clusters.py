"""Spark compared with one machine: one core, two, and a cluster of two workers of one core each."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from tests.bench.growth import Plan, exponent
from tests.bench.inputs import Input, generate
from tests.bench.tools import PYTHON, ROOT, WIREDECODE, Tool, measure

CASES = {"rabbitmq-publish": math.inf, "mixed": 300}
"""And up to which size."""
LEVEL = "messages"
FILE_BYTES = 50_000_000
"""Captures are cut into files of about this size, as a ring of files is."""
HOST = "127.0.0.1"
START_SECONDS = 60
WORKER_MEMORY = "3g"
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For processes of Java that end soon."""
HEADER_BYTES = 24
LEAST = 0.5
"""Megabytes of a capture that takes no time: what is left is starting Spark."""
ONE = Tool("wiredecode export", (*WIREDECODE, "export", "{files}", "--level", LEVEL, "-q", "-o", "{out}.parquet"))


def spark(plan: Plan, folder: Path) -> list[str]:
    """Seconds by size and Spark master, with ``wiredecode export`` for comparison."""
    if find_spec("pyspark") is None or shutil.which("java") is None:
        return ["pyspark or Java is not there: Spark is left out.", ""]
    sizes = sorted({*plan.linear, plan.memory[-1]} if plan.memory else plan.linear)
    lines = [f"### Spark ({LEVEL} to Parquet, wall s; captures in files of {FILE_BYTES // 1_000_000} MB)", ""]
    heads = "".join(f" {size:g} MB |" for size in sizes)
    smallest_case = next(iter(CASES))
    lines += [f"| case | where |{heads} exponent | rows/s and core |", "|---|---|" + "---:|" * (len(sizes) + 2)]
    with cluster() as master:
        tools = {1: [ONE, on("local[1]")], 2: [on("local[2]"), on(master, "standalone, 2 workers")]}
        smallest = rotated(generate(smallest_case, LEAST, folder), folder)
        every = [tool for some in tools.values() for tool in some]
        start = {tool: seconds(tool, smallest, folder, plan.rounds) for tool in every}
        for name, most in CASES.items():
            found: dict[Tool, list[float]] = {tool: [] for tool in every}
            captures = []
            for size in (size for size in sizes if size <= most):
                capture = generate(name, size, folder)
                files = rotated(capture, folder)
                captures.append(capture)
                for tool in every:
                    found[tool].append(seconds(tool, files, folder, plan.rounds))
                shutil.rmtree(files)
                plan.drop(capture)
            for cores, some in tools.items():
                for tool in some:
                    lines.append(row(name, tool, captures, found[tool], start[tool], cores, len(sizes)))
        shutil.rmtree(smallest)
    log_match = ", ".join(f"{tool.name} {start[tool]:.1f}" for tool in every)
    return [*lines, "", f"Start-up, subtracted in the exponent and the rate: {log_match} s.", ""]


def row(
    name: str, tool: Tool, captures: Sequence[Input], took: list[float], start: float, cores: int, columns: int
) -> str:
    net = [max(each - start, 1e-3) for each in took]
    slope = exponent([capture.megabytes for capture in captures], net)
    rate = captures[-1].messages / net[-1] / cores
    cells = " | ".join(f"{each:.1f}" for each in took) + " |" * (columns - len(took))
    return f"| {name} | {tool.name} | {cells} | {slope:.2f} | {rate:,.0f} |"


def seconds(tool: Tool, files: Path, folder: Path, rounds: int) -> float:
    """The median wall time. The files are written just before, so they are in the page cache."""
    place = folder / "spark-output"
    runs = measure(next(iter(sorted(files.iterdir()))), [with_files(tool, files, place)], rounds, 0, folder)
    shutil.rmtree(place, ignore_errors=True)
    (found,) = runs.values()
    if found.failed:
        raise RuntimeError(f"{tool.name}: {found.failed}")
    return found.typical()


def with_files(tool: Tool, files: Path, place: Path) -> Tool:
    """The command of a tool for all files of a folder."""
    names = [str(each) for each in sorted(files.iterdir())] if "{files}" in tool.command else []
    words: list[str] = []
    for word in tool.command:
        words += names if word == "{files}" else [word.replace("{folder}", str(files)).replace("{place}", str(place))]
    return Tool(tool.name, tuple(words))


def on(master: str, name: str = "") -> Tool:
    python = f"spark.pyspark.python={PYTHON}"
    how = ("--level", LEVEL, "-q", "--master", master, "--conf", python)
    command = (*WIREDECODE, "spark", "{folder}", "-o", "{place}", *how)
    return Tool(name or f"wiredecode spark, {master}", command)


def rotated(capture: Input, folder: Path) -> Path:
    """A folder with the capture split into files between records."""
    place = folder / f"{capture.path.stem}-files"
    place.mkdir(exist_ok=True)
    with capture.path.open("rb") as stream:
        header = stream.read(HEADER_BYTES)
        for number, records in enumerate(pieces(stream.read, FILE_BYTES)):
            (place / f"ring.pcap{number:03d}").write_bytes(header + records)
    return place


def pieces(read: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    """Whole records of a little-endian pcap in pieces of about ``most`` bytes."""
    rest = b""
    while more := read(most):
        data = rest + more
        end = 0
        while end + 16 <= len(data):
            size = 16 + int.from_bytes(data[end + 8 : end + 12], "little")
            if end + size > len(data):
                break
            end += size
        yield data[:end]
        rest = data[end:]


@contextmanager
def cluster(hosts: Sequence[str] = (HOST, HOST)) -> Iterator[str]:
    """A standalone master and two workers of one core each on this machine; yields the master's URL."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "PYSPARK_PYTHON": PYTHON, "SPARK_HOME": str(home), "PYTHONPATH": str(ROOT)}
    environment["SPARK_DAEMON_JAVA_OPTS"] = QUICK_JAVA
    started: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> subprocess.Popen[str]:
        command = [str(home / "bin" / "spark-class"), *words]
        process = subprocess.Popen(
            command,
            env=environment,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        return process

    kind = "org.apache.spark.deploy"
    try:
        first = begin(f"{kind}.master.Master", "--host", HOST, "--port", "0", "--webui-port", "0")
        master = log_match(first, r"Starting Spark master at (spark://\S+)")
        for host in hosts:
            options = ("--host", host, "--cores", "1", "--memory", WORKER_MEMORY, "--webui-port", "0")
            log_match(begin(f"{kind}.worker.Worker", *options, master), r"(Successfully registered with master)")
        yield master
    finally:
        for process in started:
            with suppress(ProcessLookupError):  # a test has killed it
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()


def log_match(process: subprocess.Popen[str], pattern: str) -> str:
    """Wait for a log line of a server and return the pattern's group; a thread drains the rest."""
    from threading import Thread

    assert process.stderr is not None
    end = time.monotonic() + START_SECONDS
    for line in process.stderr:
        if (match := re.search(pattern, line)) is not None:
            Thread(target=read_away, args=(process.stderr,), daemon=True).start()
            return match[1]
        if time.monotonic() > end:
            break
    raise RuntimeError(f"a server of Spark did not say {pattern!r}")


def read_away(stream: IO[str]) -> None:
    with stream:
        stream.read()
