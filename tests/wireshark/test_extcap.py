"""The extcap protocol of Wireshark, and a capture through a FIFO."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer import Exit

from wiredecode.capture import open_capture
from wiredecode.capture.live.privileges import missing_right
from wiredecode.capture.live.source import LiveOptions
from wiredecode.cli import wireshark
from wiredecode.cli.app import run

SENTENCE = re.compile(r"(\w+) ((?:\{[a-z_]+=[^{}]*\})+)$")


def asked(*words: str) -> list[tuple[str, dict[str, str]]]:
    """The lines of an answer: a word, and its values."""
    command = [sys.executable, "-m", "wiredecode", "extcap", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [SENTENCE.match(line) for line in done.stdout.splitlines()]
    assert all(found), done.stdout
    return [(each[1], dict(re.findall(r"\{(\w+)=([^{}]*)\}", each[2]))) for each in found if each]


@pytest.fixture(scope="module")
def loopback() -> str:
    names = [values["value"] for word, values in asked("--extcap-interfaces") if word == "interface"]
    assert len(names) == len(set(names))
    return next(name for name in names if name.removeprefix("wiredecode-") in ("lo", "lo0"))


def test_interfaces_are_listed_after_a_version() -> None:
    first, *others = asked("--extcap-interfaces", "--extcap-version=4.2")
    assert first[0] == "extcap" and "version" in first[1]
    assert {word for word, _ in others} == {"interface"}


def test_an_interface_has_one_link_type(loopback: str) -> None:
    assert asked("--extcap-interface", loopback, "--extcap-dlts") == [
        ("dlt", {"number": "1", "name": "EN10MB", "display": "Ethernet"})
    ]


def test_every_listed_option_is_accepted(loopback: str) -> None:
    answer = asked("--extcap-interface", loopback, "--extcap-config")
    calls = [values["call"] for word, values in answer if word == "arg"]
    assert calls == ["--no-promiscuous", "--snaplen", "--via"]
    numbers = {values["number"] for word, values in answer if word == "arg"}
    assert {values["arg"] for word, values in answer if word == "value"} <= numbers


def test_an_unknown_interface_is_one_line() -> None:
    command = [
        sys.executable,
        "-m",
        "wiredecode",
        "extcap",
        "--extcap-interface",
        "wiredecode-nowhere0",
        "--extcap-dlts",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no interface wiredecode-nowhere0" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.skipif(bool(missing_right()), reason="may not capture here")
def test_a_capture_is_written_to_the_fifo_until_it_is_ended(tmp_path: Path, loopback: str) -> None:
    fifo, saved = tmp_path / "fifo", tmp_path / "saved.pcapng"
    os.mkfifo(fifo)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        words = ["--extcap-interface", loopback, "--capture", "--fifo", str(fifo)]
        words += ["--extcap-capture-filter", f"udp dst port {port}"]
        process = subprocess.Popen([sys.executable, "-m", "wiredecode", "extcap", *words])
        try:
            with fifo.open("rb") as reader, saved.open("wb") as out:
                sending = threading.Event()

                def send() -> None:
                    while not sending.wait(0.05):
                        receiver.sendto(b"\x01\x02\x03\x04", ("127.0.0.1", port))

                sender = threading.Thread(target=send)
                sender.start()
                size = 0
                while size < 600 and (piece := reader.read1(4096)):
                    size += out.write(piece)
                sending.set()
                sender.join()
                process.send_signal(signal.SIGTERM)
                while piece := reader.read1(4096):
                    out.write(piece)
            assert process.wait(20) in (0, 130, 143)
        finally:
            process.kill()
            process.wait()
    lengths = [length for batch in open_capture([str(saved)]) for length in batch.captured.tolist()]
    assert lengths and set(lengths) == {14 + 20 + 8 + 4}


def test_options_reach_the_capture(loopback: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[object, ...]] = []

    def opened(*said: object, saves: bool) -> None:
        given.append(said)
        raise Exit(2)

    monkeypatch.setattr(wireshark, "capturing", opened)
    words = ["--snaplen", "96", "--no-promiscuous", "--via", "dumpcap", "--extcap-capture-filter", "tcp"]
    assert run(["extcap", "--extcap-interface", loopback, "--capture", "--fifo", str(tmp_path / "f"), *words]) == 2
    ((wanted, via, duration),) = given
    assert wanted == LiveOptions(loopback.removeprefix("wiredecode-"), "tcp", False, 96)
    assert (via, duration) == ("dumpcap", None)
