"""The code of docs/python.md runs and prints the output on the page."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTIONAL = ("polars", "duckdb")


def steps() -> list[tuple[str, str]]:
    """Each block of code with the output below it."""
    found: list[tuple[str, str]] = []
    for language, text in BLOCK.findall((ROOT / "docs" / "python.md").read_text()):
        if language:
            found.append((text, ""))
        else:
            found[-1] = found[-1][0], text
    return found


def test_output_on_the_page_is_that_of_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = steps()
    assert len(page) >= 10
    namespace: dict[str, object] = {}
    for code, expected in page:
        if any(f"import {name}" in code and importlib.util.find_spec(name) is None for name in OPTIONAL):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/python.md", "exec"), namespace)
        assert printed.getvalue() == expected, code
