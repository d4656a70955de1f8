"""Pictures that pages show are there, and what the cookbook says can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Run, run
from wiredecode.cli.app import command_line
from wiredecode.filter import compile_filter

__all__ = ["run"]

ROOT = Path(__file__).parent.parent.parent
BASIC = ROOT / "captures/rabbitmq-stream/c43_basic.pcap"
COMMANDS = re.findall(r"`(wiredecode (?:\\`|[^`])+)`", (ROOT / "docs/cookbook.md").read_text())
QUERIES = [shlex.split(command)[-1] for command in COMMANDS if command.startswith("wiredecode sql")]


@pytest.mark.parametrize(("page", "least"), [("README.md", 2), ("docs/index.md", 6)])
def test_pictures_are_there(page: str, least: int) -> None:
    found = re.findall(r'src(?:set)?="([^"]+)"', (ROOT / page).read_text())
    assert len(found) >= least
    assert [name for name in found if not (ROOT / page).with_name("x").parent.joinpath(name).is_file()] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_options_of_the_cookbook_exist(command: str) -> None:
    words = shlex.split(command.replace("\\|", "|").split(" | ")[0])
    known = command_line().commands
    options = {name for one in known.get(words[1], known["pcap"]).params for name in one.opts}
    for word, value in zip(words[2:], [*words[3:], ""], strict=True):
        if word.startswith("-"):
            assert word in options | {"-T", "-e", "-E"}, word
        if word == "-Y":
            compile_filter(value)


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_the_cookbook_have_an_answer(query: str, run: Run) -> None:
    result = run("sql", BASIC, query)
    assert result.code == 0, result.err
    assert result.lines
