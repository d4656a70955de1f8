"""The page on traces shows what the command says."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Run, run
from tests.conftest import is_long
from tests.docs.test_reference import DOCS

__all__ = ["run"]

BLOCK = re.compile(r"```console\n\$ wiredecode trace (.*)\n((?:.*\n)*?)```")
SHOWN = BLOCK.findall((DOCS / "trace.md").read_text())
CASES = [pytest.param(*each, marks=[pytest.mark.slow] if is_long(each[0]) else []) for each in SHOWN]


@pytest.mark.parametrize(("words", "shown"), CASES)
def test_a_trace_is_what_the_command_says(words: str, shown: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)
    assert run("trace", *words.split()).out == shown


def test_there_are_traces_on_the_page() -> None:
    assert len(SHOWN) == 3
