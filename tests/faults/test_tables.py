"""SIGKILL during commits of Delta and Iceberg tables, and a device that fails: the next run is whole."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.harness import OUTPUTS, contents, in_a_child, words_of
from wiredecode.export import atomic
from wiredecode.export.lake import open_lake

PROGRAM = """
import os, signal, sys
signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
from wiredecode.cli import main
import wiredecode.export.job
if float(sys.argv[1]):
    signal.setitimer(signal.ITIMER_PROF, float(sys.argv[1]))
code = main(sys.argv[2:])
print(sum(os.times()[:2]), flush=True)
os._exit(code)
"""
MOMENTS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""When a run is killed, as parts of its time."""


def export(seconds: float, file: Path, out: Path, kind: str) -> subprocess.CompletedProcess[str]:
    words = ("export", file, "--level", "messages", "-o", f"{kind}:{out}", "-q")
    command = [sys.executable, "-c", PROGRAM, str(seconds), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def rows(out: Path, kind: str) -> int:
    import polars as pl

    found = open_lake(f"{kind}:{out}")._table("messages")  # type: ignore[attr-defined]  # of both kinds
    return (pl.scan_delta if kind == "delta" else pl.scan_iceberg)(found).collect().height


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")  # of the libraries
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_kill_9_during_a_commit(kind: str, captures: Path, tmp_path: Path) -> None:
    """The second run adds all its rows, to none or to all of the killed run."""
    pytest.importorskip({"delta": "deltalake", "iceberg": "pyiceberg"}[kind])
    file = captures / "nats" / "04-request-reply.pcap"
    plain = export(0, file, tmp_path / "plain", kind)
    assert plain.returncode == 0, plain.stderr
    expected, seconds = rows(tmp_path / "plain", kind), float(plain.stdout)
    for moment in MOMENTS:
        out = tmp_path / str(moment)
        killed = export(moment * seconds, file, out, kind)
        assert killed.returncode in (-9, 0), killed.stderr
        again = export(0, file, out, kind)
        assert again.returncode == 0, again.stderr
        assert rows(out, kind) in (expected, 2 * expected), moment


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each == "csv" else pytest.mark.slow) for each in OUTPUTS]
)
def test_a_device_that_fails_at_the_end_leaves_nothing(name: str, captures: Path, tmp_path: Path) -> None:
    def fail(self: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    def prepare() -> None:
        for place in (atomic.NewFile, atomic.NewFolder):
            place.commit = fail  # type: ignore[method-assign, assignment]  # the device fails

    found = in_a_child(words_of(name, captures / "nats" / "04-request-reply.pcap", tmp_path), prepare)
    assert (found.code, "Traceback" in found.errors) == (2, False), found
    assert "Input/output error" in found.errors and contents(tmp_path) == {}
