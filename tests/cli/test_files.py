"""Files that are written: links that others planted, who may read them, and what a signal leaves."""

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


def test_totals_take_the_place_of_a_link_and_do_not_follow_it(run: Run, tmp_path: Path) -> None:
    victim, planted = tmp_path / "victim", tmp_path / "totals.json"
    victim.write_text("precious")
    planted.symlink_to(victim)
    assert run("pcap", CAPTURE, "-q", "--summary-json", planted).code == 0
    assert (victim.read_text(), planted.is_symlink()) == ("precious", False)
    assert '"packets"' in planted.read_text()


def test_totals_go_to_standard_output_where_that_is_named() -> None:
    words = [sys.executable, "-m", "wiredecode", "pcap", str(CAPTURE), "-q", "-c", "1", "--summary-json", "/dev/stdout"]
    assert b'"packets"' in subprocess.run(words, capture_output=True, check=True).stdout


def test_a_file_that_standard_output_is_sent_to_stays_and_is_written_behind_what_is_there(tmp_path: Path) -> None:
    """Not in place of the link: of /dev/stdout there is one for the whole machine."""
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
def test_a_link_of_somebody_else_is_not_followed(tmp_path: Path) -> None:
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
def test_a_signal_leaves_no_part(number: signal.Signals, tmp_path: Path) -> None:
    """The export waits for a capture that never ends, with its output begun."""
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
def test_a_folder_that_is_not_there_is_told_before_anything_is_read(run: Run, tmp_path: Path, words: str) -> None:
    result = run(*words.format(CAPTURE).split(), tmp_path / "none" / "out.csv")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(
        f"wiredecode: there is no folder {tmp_path}/none to write out.csv into (see wiredecode "
    )
