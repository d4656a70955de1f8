"""Completion for bash, zsh and fish: the scripts for the shells, and their completions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SHELLS = {"bash": "complete -o default -F", "zsh": "#compdef wiredecode", "fish": "complete --command wiredecode"}
SYNTAX = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


def wiredecode(*words: str, **variables: str) -> str:
    env = {**os.environ, **variables}
    command = [sys.executable, "-m", "wiredecode", *words]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_that_of_the_shell(shell: str, tmp_path: Path) -> None:
    script = wiredecode("--show-completion", shell)
    assert SHELLS[shell] in script
    assert "_WIREDECODE_COMPLETE=complete_" + shell in script
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        assert subprocess.run([*SYNTAX[shell], str(path)], capture_output=True, check=True).stderr == b""


def test_zsh_gets_words_with_help() -> None:
    answer = wiredecode(_WIREDECODE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="wiredecode pcap --summ")
    assert answer.startswith("_arguments") and '"--summary":"One line per frame."' in answer


def test_fish_gets_words_with_help() -> None:
    variables = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "wiredecode wi"}
    assert "wireshark\t" in wiredecode(_WIREDECODE_COMPLETE="complete_fish", **variables)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    program = tmp_path / "wiredecode"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m wiredecode "$@"\n')
    program.chmod(0o755)
    lines = [wiredecode("--show-completion", "bash")]
    cases = {("wiredecode", "wires"): "wireshark", ("wiredecode", "pcap", "--summary-j"): "--summary-json"}
    for words in cases:
        lines.append(f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}")
        lines.append(f'_wiredecode_completion {program}; echo "${{COMPREPLY[@]}}"')
    done = subprocess.run(["bash", "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == list(cases.values())
