"""Killed processes: no output looks complete, and the next run has all rows once."""

from __future__ import annotations

import json
import os
import signal
import socket
import socketserver
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as parquet
import pytest

from tests.bench.clusters import QUICK_JAVA, cluster
from tests.spark.conftest import ROOT
from tests.spark.support import expected, same_rows
from tests.spark.test_output import job, table, visible, write
from tests.spark.test_pipeline import BASIC, CAPTURES, cut
from tests.support import packets
from wiredecode.spark.folder import DONE
from wiredecode.spark.session import mute_lost_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "time,type,offset,length,packets"
LAPS = 40
"""Number of copies of the capture."""
WAIT_SECONDS = 300.0


pytestmark = pytest.mark.slow


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A folder of files that take some seconds."""
    every = packets(BASIC)
    step = every[-1][0] - every[0][0] + 1_000_000
    long = [(time_ns + lap * step, data) for lap in range(LAPS) for time_ns, data in every]
    cut(tmp_path / "ring", long, 20)
    return tmp_path / "ring"


def start(capture: Path, out: Path, *words: str) -> subprocess.Popen[str]:
    """Start the command in a new process group."""
    columns = ["--columns", COLUMNS, "--partitions", "6"]
    python = ["--conf", f"spark.pyspark.python={sys.executable}"]
    command = [sys.executable, "-m", "wiredecode", "spark", str(capture), "-o", str(out), *columns, *python, *words]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(seen: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not seen():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.02)


def has_begun(out: Path) -> bool:
    """Whether the run has its folder; rows are written soon after, which may be too short to observe."""
    return any(out.glob(".run-*"))


def is_writing(out: Path) -> bool:
    """Whether rows are being written."""
    return any(out.glob(".run-*/_temporary/**/*.parquet"))


def descendants(process: int) -> Iterator[tuple[int, str]]:
    """Descendants of a process with their command lines."""
    listing = subprocess.run(["ps", "-wweo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listing.splitlines()[1:]]
    known = {process}
    for _ in range(8):  # deep enough
        known |= {int(row[0]) for row in rows if int(row[1]) in known}
    yield from ((int(row[0]), row[2]) for row in rows if int(row[0]) in known and int(row[0]) != process)


def check(spark: SparkSession, capture: Path, out: Path) -> None:
    demand = job([capture], out, columns=COLUMNS).demand()
    same_rows(table(spark, out / "frames", demand), expected(sorted(capture.iterdir()), demand))
    assert visible(out) == {"frames", "findings", "totals", "problems", DONE}
    assert not [path for path in out.iterdir() if path.name.startswith((".run", ".old"))]


@pytest.mark.nightly
def test_a_killed_driver_leaves_nothing_and_the_next_run_has_all_rows(
    spark: SparkSession, capture: Path, tmp_path: Path
) -> None:
    out = tmp_path / "lake"
    process = start(capture, out, "--master", "local[2]", "-q")
    wait_for(lambda: is_writing(out), process)
    others = [pid for pid, _ in descendants(process.pid)]
    process.kill()
    process.communicate()
    assert visible(out) == set()
    until = time.monotonic() + WAIT_SECONDS
    while any(map(alive, others)) and time.monotonic() < until:
        time.sleep(0.05)
    assert visible(out) == set(), "Java continued without its driver"
    write(spark, job([capture], out, columns=COLUMNS))
    check(spark, capture, out)


@pytest.mark.nightly
def test_a_killed_worker_costs_only_time(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    """By default, as on a cluster, a task is tried four times."""
    out = tmp_path / "lake"
    process = start(capture, out, "--summary-json", str(tmp_path / "totals.json"))
    killed: list[int] = []

    def kill_one() -> bool:
        """Kill a decoding worker: its parent is a worker process, too."""
        if has_begun(out):
            workers = [pid for pid, args in descendants(process.pid) if "spark.daemon" in args]
            busy = [pid for pid in workers[1:] if cpu_seconds(pid) > 0.1]
            for pid in busy[:1]:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        return bool(killed)

    wait_for(kill_one, process)
    _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, err
    check(spark, capture, out)
    listing = json.loads((tmp_path / "totals.json").read_text())
    assert listing["packets"]["read"] == LAPS * len(packets(BASIC)), "what a task reported twice counts once"
    assert listing["payload"]["captured"] == listing["payload"]["in_frames"] + listing["payload"]["duplicate"]


def test_a_cluster_that_loses_a_driver_and_a_worker_has_the_rows_of_one_machine(tmp_path: Path) -> None:
    """A standalone master and two workers. The first run loses its driver; the second one loses a worker, with all that
    its tasks have left for others, and writes linked connections of NATS and Kafka, and of RabbitMQ.
    """
    every = [(time_ns + lap * 10**12, data) for lap in range(6) for time_ns, data in packets(BASIC)]
    for number, name in enumerate(("nats/04-request-reply.pcap", "kafka/failover.pcap.zst")):
        first, *_ = some = packets(CAPTURES / name)
        every += [(every[number][0] + time_ns - first[0], data) for time_ns, data in some]
    files = sorted(cut(tmp_path / "ring", sorted(every, key=lambda packet: packet[0]), 20))
    out, columns = tmp_path / "lake", f"{COLUMNS},response,outcome,latency"
    with cluster() as master:
        java = [f"spark.{process}.extraJavaOptions={QUICK_JAVA}" for process in ("driver", "executor")]
        words = ("--master", master, "--columns", columns, "-q", "--conf", java[0], "--conf", java[1])
        driver = start(tmp_path / "ring", out, *words)
        wait_for(lambda: is_writing(out), driver)
        driver.kill()
        driver.communicate()
        assert visible(out) == set()
        second = start(tmp_path / "ring", out, *words)
        wait_for(lambda: is_writing(out), second)
        worker = next(pid for pid, args in descendants(os.getpid()) if "deploy.worker.Worker" in args)
        os.killpg(worker, signal.SIGKILL)
        _, err = second.communicate(timeout=WAIT_SECONDS)
        assert second.returncode == 0, err
    demand = job([tmp_path / "ring"], out, columns=columns).demand()
    found = parquet.read_table(out / "frames", schema=demand.schema, partitioning="hive")
    wanted = expected(files, demand)
    same_rows(found.select(wanted.schema.names), wanted)
    assert visible(out) == {"frames", "findings", "totals", "problems", DONE}


@pytest.mark.nightly
def test_a_stopped_task_is_done_by_another_executor(spark: SparkSession, capture: Path, tmp_path: Path) -> None:
    """Speculation, which needs another host: both attempts write, and the rows of one count."""
    out, stopped = tmp_path / "lake", list[int]()
    speculation = {"": "true", ".interval": "50ms", ".multiplier": "1.1", ".quantile": "0.1", ".minTaskRuntime": "50ms"}
    words = [word for name, value in speculation.items() for word in ("--conf", f"spark.speculation{name}={value}")]
    with cluster(("127.0.0.2", "127.0.0.3")) as master:
        process = start(capture, out, "--master", master, *words, "--summary-json", str(tmp_path / "totals.json"))

        def stop_one() -> bool:
            daemons = [pid for pid, args in descendants(os.getpid()) if "pyspark.daemon" in args]
            busy = [pid for pid in daemons if cpu_seconds(pid) > 0.1 and int(stat(pid)[1]) in daemons]
            if has_begun(out) and busy:
                os.kill(busy[0], signal.SIGSTOP)
                stopped.append(busy[0])
            return bool(stopped)

        try:
            wait_for(stop_one, process)
            _, err = process.communicate(timeout=WAIT_SECONDS)
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):  # Spark ends the attempt that lost
                    os.kill(pid, signal.SIGKILL)
        assert process.returncode == 0, err
    check(spark, capture, out)
    listing = json.loads((tmp_path / "totals.json").read_text())
    assert listing["packets"]["read"] == LAPS * len(packets(BASIC)), "what two attempts reported counts once"


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name; empty if the process does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def alive(pid: int) -> bool:
    """Whether a process runs; zombies without a parent to reap them do not count."""
    found = stat(pid)
    return bool(found) and found[0] != "Z"


def cpu_seconds(pid: int) -> float:
    found = stat(pid)
    return sum(map(int, found[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.nightly
def test_ctrl_c_is_one_line_and_leaves_nothing(capture: Path, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    process = start(capture, out, "--master", "local[2]")
    wait_for(lambda: is_writing(out), process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130
    assert err == f"wiredecode: interrupted; {out} was not written, what was there before is untouched\n"
    assert [*out.iterdir()] == []


@pytest.mark.parametrize(
    ("error", "shown"), [(EOFError(), ""), (ConnectionResetError(), ""), (ValueError(), "ValueError")]
)
def test_java_that_ends_during_an_update_leaves_no_traceback(
    error: Exception, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with Ctrl-C, which reaches both processes; pyspark's server reports any other error."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            raise error

    with socketserver.TCPServer(("127.0.0.1", 0), Handler) as server:
        mute_lost_java(server)
        with socket.create_connection(server.server_address):
            server.handle_request()
    printed = capsys.readouterr().err
    assert shown in printed and bool(shown) == bool(printed)
