"""Ctrl-C at any moment: exit code 130, and never a traceback."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from wiredecode.capture import PacketBatch
from wiredecode.capture.reader import CaptureFile
from wiredecode.cli import main

COMMAND = [sys.executable, "-m", "wiredecode"]
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.mark.parametrize(
    "module", ["typer", "wiredecode.cli.options", "numpy", "scapy", "wiredecode.dissect.dissector"]
)
def test_an_interrupt_during_an_import(module: str) -> None:
    """Even if the import replaces the exception, as C extensions do."""
    code = f"""
import signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError("lost")
sys.meta_path.insert(0, Finder())
sys.argv[1:] = ["pcap", "-", "--summary"]
from wiredecode.cli import main
sys.exit(main())
"""
    done = subprocess.run([sys.executable, "-c", code], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 130
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") <= 1


def test_a_swallowed_interrupt_is_raised_again(captures: Path) -> None:
    code = """
import signal, sys
from wiredecode.cli import interrupt
interrupt.AGAIN_SECONDS = 0.05
interrupt.install_handlers()
class Loses:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
try:
    Loses()
    signal.pause()
    signal.pause()
except KeyboardInterrupt:
    interrupt.acknowledge()
    print("arrived")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("arrived\n", "")


@pytest.mark.parametrize("words", [("pcap", "-", "--summary"), ("follow", "-", "-n", "1")], ids=["pcap", "follow"])
@pytest.mark.parametrize(
    "seconds", [0.0, *(pytest.param(seconds, marks=pytest.mark.slow) for seconds in (0.004, 0.02))]
)
def test_an_interrupt_soon_after_the_first_line(captures: Path, words: tuple[str, ...], seconds: float) -> None:
    data = (captures / "rabbitmq-stream" / "c43_basic.pcap").read_bytes()
    with subprocess.Popen([*COMMAND, *words], **PIPES) as process:  # type: ignore[call-overload]
        watch = threading.Timer(60, process.kill)
        watch.start()
        process.stdin.write(data)
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        code = process.wait()
        errors = process.stderr.read()
        watch.cancel()
        process.stdin.close()
    assert code == 130
    assert b"Traceback" not in errors


def test_a_stop_while_the_reader_sleeps_truncates_no_output(run: Run) -> None:
    """Ctrl-Z and ``fg`` interrupt a waiting write; with PYTHONUNBUFFERED Python does not retry it."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen([*COMMAND, "fields"], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        full, waiting = fcntl.fcntl(process.stdout, fcntl.F_GETPIPE_SZ) - resource.getpagesize(), 0
        while waiting <= full:
            time.sleep(0.01)
            waiting = int.from_bytes(fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
        said = process.stdout.read()
    assert process.returncode == 0
    assert said == run("fields").raw


def test_the_totals_of_an_interrupted_run_say_so(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An older file is replaced, since readers would take it as the totals of this run."""
    path, basic = tmp_path / "totals.json", str(captures / "rabbitmq-stream/d_basic.pcap.gz")
    command = ["pcap", basic, "--summary", "--summary-json", str(path)]
    assert main(command) == 0
    assert "interrupted" not in json.loads(path.read_text())
    whole = CaptureFile.batches

    def interrupted(self: CaptureFile) -> Iterator[PacketBatch]:
        yield next(whole(self))
        raise KeyboardInterrupt

    monkeypatch.setattr(CaptureFile, "batches", interrupted)
    assert main(command) == 130
    assert json.loads(path.read_text())["interrupted"] is True
