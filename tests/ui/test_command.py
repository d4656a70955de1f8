"""The command line before the screen opens, and its page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Exit

from tests.docs.test_reference import script
from tests.ui.support import CAPTURES
from wiredecode.capture.live.pcapng_writer import Rotation
from wiredecode.capture.live.source import LiveOptions
from wiredecode.cli import ui
from wiredecode.cli.app import run
from wiredecode.filter import Filter
from wiredecode.ui import app
from wiredecode.ui.packets import Growing

BASIC = str(CAPTURES / "rabbitmq-stream/c43_basic.pcap")
KEYS = script("make_keys")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)


@pytest.mark.usefixtures("terminal")
def test_options_reach_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    said: dict[str, Any] = {}

    def note(files: Sequence[str], select: Filter | None, **model: Any) -> int:
        said.update(model, files=files, select=select)
        return 0

    monkeypatch.setattr(app, "run", note)
    words = ["-d", "4711=nats", "--gap-timeout", "3", "--gap-buffer", "7", "--limit", "fragment_seconds=9"]
    assert run(["ui", BASIC, *words, "-Y", "frame.number > 5"]) == 0
    limits = said["reading"].limits
    assert said["files"] == [BASIC] and said["select"].text == "frame.number > 5"
    assert said["reading"].decode_as[4711].protocol.name == "nats"
    assert (limits.gap_seconds, limits.buffered_bytes, limits.fragment_seconds) == (3, 7 << 20, 9)


@pytest.mark.usefixtures("terminal")
def test_follow_opens_a_growing_file(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    monkeypatch.setattr(app, "run", lambda source, select, **options: said.append(source) or 0)
    assert run(["ui", BASIC, "--follow-file"]) == 0
    assert isinstance(said[0], Growing) and said[0].files == [BASIC]


@pytest.mark.usefixtures("terminal")
def test_options_reach_the_capture_and_the_saved_file(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[Any] = []
    sniffer = SimpleNamespace(close=lambda: said.append("closed"))
    target = "wiredecode.cli.capturing.capturing"
    monkeypatch.setattr(target, lambda *words, saves: said.append((*words, saves)) or closing(sniffer))

    def begin(saving: ui.Saving, _: Any) -> None:
        said.append((saving.save, saving.rotation))
        raise Exit(2)

    monkeypatch.setattr(ui.Saving, "begin", begin)
    capture = ["--snaplen", "96", "--buffer", "7", "-f", "tcp", "-p", "--duration", "2.5", "--via", "tcpdump"]
    ring = ["--ring-size", "3", "--ring-seconds", "11", "--ring-files", "5"]
    assert run(["ui", "-i", "lo", *capture, "-w", "saved.pcapng", *ring]) == 2
    assert said == [
        (LiveOptions("lo", "tcp", promiscuous=False, snaplen=96, buffer_mib=7), "tcpdump", 2.5, True),
        (Path("saved.pcapng"), Rotation(3 << 20, 11, 5)),
        "closed",
    ]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["-"], "standard input can be read once"),
        (["nowhere.pcap"], "nowhere.pcap: does not exist"),
        ([BASIC, "-Y", "frame.typ"], "did you mean 'frame.type'"),
        (["--follow-file"], "give capture files, or -i IFACE"),
        ([BASIC, "-i", "lo"], "leave out files"),
        ([BASIC, "-w", "x.pcapng"], "need -i"),
        ([BASIC, BASIC, "--follow-file"], "needs one existing file"),
    ],
)
def test_errors_are_reported_before_the_screen_opens(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ui", *words]) == 2
    assert error in " ".join(capsys.readouterr().err.split())


def test_without_a_terminal_another_command_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert run(["ui", BASIC]) == 2
    assert "needs a terminal" in capsys.readouterr().err


def test_keys_on_the_page_are_current() -> None:
    assert KEYS.PAGE.read_text() == KEYS.page(), "run: python docs/make_keys.py"
