"""Written files: links that others planted, permissions, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from wiredecode.capture.live.pcapng_writer import open_private

CAPTURE = Path(__file__).parents[2] / "captures" / "rabbitmq-stream" / "c43_basic.pcap"


def test_totals_replace_a_link_and_do_not_follow_it(run: Run, tmp_path: Path) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "totals.json"
    victim.write_text("precious")
    planted.symlink_to(victim)
    assert run("pcap", CAPTURE, "-q", "--summary-json", planted).code == 0
    assert (victim.read_text(), planted.is_symlink()) == ("precious", False)
    assert '"packets"' in planted.read_text()


def test_totals_go_to_standard_output_if_named() -> None:
    words = [sys.executable, "-m", "wiredecode", "pcap", str(CAPTURE), "-q", "-c", "1", "--summary-json", "/dev/stdout"]
    assert b'"packets"' in subprocess.run(words, capture_output=True, check=True).stdout


def test_a_file_as_standard_output_is_appended_to(tmp_path: Path) -> None:
    """The link /dev/stdout is not replaced: the whole machine shares it."""
    out = tmp_path / "out"
    words = [sys.executable, "-m", "wiredecode", "pcap", str(CAPTURE), "-q", "-c", "1", "--summary-json", "/dev/fd/1"]
    with out.open("wb") as file:
        subprocess.run(words, stdout=file, check=True)
    assert out.read_bytes().startswith(b"Frame 1 ")
    assert b'"packets"' in out.read_bytes()
    assert [*tmp_path.iterdir()] == [out]


def test_saved_packets_are_for_their_owner_only(run: Run, tmp_path: Path) -> None:
    assert run("pcap", CAPTURE, "-w", tmp_path / "a.pcapng", "-q").code == 0
    assert (tmp_path / "a.pcapng").stat().st_mode & 0o777 == 0o600


def test_a_ring_file_is_for_its_owner_only(tmp_path: Path) -> None:
    with open_private(tmp_path / "a") as file:
        file.write(b"x")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant the link of somebody else")
def test_a_link_of_another_user_is_not_followed(tmp_path: Path) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "ring"
    victim.write_text("precious")
    planted.symlink_to(victim)
    os.lchown(planted, 4711, 4711)
    with pytest.raises(OSError, match="symbolic links"):
        open_private(planted)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGHUP, signal.SIGINT))],
)
def test_a_signal_leaves_no_partial_file(number: signal.Signals, tmp_path: Path) -> None:
    """The export has begun its output and waits for more of the capture."""
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "wiredecode", "export", "-", "-o", str(out / "a.parquet"), "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(CAPTURE.read_bytes())
        process.stdin.flush()
        while not list(out.iterdir()) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(number)
        assert process.wait() in (130, 128 + number)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "pcap {} --summary-json",
        "pcap {} -w",
        "anonymize {} -o",
        "report {} -o",
        "export {} -o",
        "metrics {} -o",
        "sql {} frames -o",
        "trace {} --text x -o",
        "sniff -i lo --summary-json",
    ],
)
def test_a_missing_folder_is_reported_before_reading(run: Run, tmp_path: Path, words: str) -> None:
    result = run(*words.format(CAPTURE).split(), tmp_path / "none" / "out.csv")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(
        f"wiredecode: there is no folder {tmp_path}/none to write out.csv into (see wiredecode "
    )
