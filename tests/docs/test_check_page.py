"""The stories of docs/check.md show what the command says."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Run, run
from tests.conftest import is_long
from tests.docs.test_reference import DOCS

__all__ = ["run"]

BLOCK = re.compile(r"```console\n\$ wiredecode check (\S+)\n(.*?)\n```", re.DOTALL)
STORIES = BLOCK.findall((DOCS / "check.md").read_text())
CASES = [pytest.param(*each, marks=[pytest.mark.slow] if is_long(each[0]) else []) for each in STORIES]


def test_there_are_three_stories() -> None:
    assert len(STORIES) == 3


@pytest.mark.parametrize(("capture", "shown"), CASES)
def test_a_story_shows_what_the_command_says(capture: str, shown: str, run: Run) -> None:
    """Perhaps not to the end, but whole problems."""
    result = run("check", DOCS.parent / capture)
    printed = result.out.replace(f"{DOCS.parent}/", "")
    assert printed.startswith(f"{shown.removesuffix('...')}")
