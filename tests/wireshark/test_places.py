"""Places of the files for Wireshark; files of others are not changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wiredecode.cli.app import run
from wiredecode.wireshark import DISSECTOR, EXTCAP


def call(*words: object) -> int:
    return run(["wireshark", *map(str, words)])


def test_installed_files_are_removed(tmp_path: Path) -> None:
    plugins, extcap = tmp_path / "plugins", tmp_path / "extcap"
    where = ("--plugins", plugins, "--extcap", extcap)
    assert call("--install", *where) == 0
    assert (plugins / DISSECTOR).read_text().startswith("-- wiredecode")
    assert (extcap / EXTCAP).stat().st_mode & 0o111 == 0o111
    done = subprocess.run([extcap / EXTCAP, "--extcap-interfaces"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("extcap {version=")
    assert call("--install", *where) == 0
    assert call("--uninstall", *where) == 0
    assert not list(plugins.iterdir()) and not list(extcap.iterdir())


def test_a_foreign_file_is_not_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / DISSECTOR).write_text("-- mine\n")
    assert call("--install", "--plugins", tmp_path) == 2
    assert call("--uninstall", "--plugins", tmp_path) == 2
    assert (tmp_path / DISSECTOR).read_text() == "-- mine\n"
    assert "left as it is" in capsys.readouterr().err


def test_print_and_output_write_the_same(tmp_path: Path) -> None:
    path = tmp_path / "out.lua"
    assert call("-o", path) == 0
    command = [sys.executable, "-m", "wiredecode", "wireshark", "--print"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == path.read_text()


def test_exactly_one_action_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--print", "--install") == 2
    assert call("--print", "--plugins", "x") == 2
    assert "give one of" in capsys.readouterr().err
