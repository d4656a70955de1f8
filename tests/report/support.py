"""Makes reports of captures and parses them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from wiredecode.cli import main
from wiredecode.report.plots import Plots

CAPTURES = Path(__file__).parent.parent.parent / "captures"
CHROMIUM = shutil.which("chromium")
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Tags with their attributes, and the text by id of the section."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.text: dict[str, str] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self._section = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "section":
            self._section = str(given["id"])
        if tag == "tr":
            self.rows.setdefault(self._section, []).append([])
        if tag in ("td", "th"):
            self.rows[self._section][-1].append("")
            self._cell = True
        elif tag not in VOID:
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.text[self._section] = self.text.get(self._section, "") + data
        if self._section in self.rows and self.rows[self._section][-1] and self._cell:
            self.rows[self._section][-1][-1] += data

    def links(self) -> list[str]:
        """All links and sources that a browser might load or follow."""
        names = ("src", "href", "xlink:href", "action", "data", "poster", "srcset", "background")
        found = [str(given[name]) for _, given in self.tags for name in names if given.get(name)]
        return found + re.findall(r"(?:url\(|@import)\s*['\"]?([^)'\";]*)", self.html)


def undrawn(patch: pytest.MonkeyPatch) -> None:
    """Make plots empty: drawing takes nearly all of a report's time, and few tests need it."""

    @contextmanager
    def axes(plots: Plots, label: str) -> Iterator[tuple[Any, list[str]]]:
        yield MagicMock(**{"get_ylim.return_value": (0, 1)}), ["<svg ></svg>"]

    patch.setattr(Plots, "_axes", axes)


def report(out: Path, *words: object) -> Page:
    """Make a report with ``wiredecode report``."""
    assert main(["report", "-q", *map(str, words), "-o", str(out)]) == 0
    return Page(out.read_text())


def browse(page: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Show a page in headless Chromium; the page's log lines are in ``stderr`` as ``CONSOLE``."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={page.parent / 'chromium'}", *words]
    command.append(f"--user-data-dir={page.parent / 'browser'}")
    return subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=False)


def logged(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Console lines of the page."""
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]
