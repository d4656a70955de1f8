"""Refresh the output that pages show below commands: ``python docs/make_samples.py [PAGE...]``.

A sample is a ``console`` block that begins with ``$ wiredecode`` and shows output. If its last line is ``...``, as many
lines as before are kept. A command that ends in ``2>&1 >/dev/null`` shows standard error.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
SAMPLE = re.compile(r"(?<=```console\n)\$ wiredecode (.+)\n((?!\$ )(?:.*\n)*?)(?=```)")
ERRORS = " 2>&1 >/dev/null"


def pages() -> list[Path]:
    """The pages that people write."""
    return [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("[!r]*/*.md"))]


def samples(page: Path) -> list[tuple[str, str]]:
    """Commands, without ``wiredecode``, and the output that the page shows."""
    return [(command, shown) for command, shown in SAMPLE.findall(page.read_text()) if shown]


def words(command: str) -> list[str]:
    return shlex.split(command.removesuffix(ERRORS))


def shortened(printed: str, shown: str) -> str:
    """As much of the output as the page shows."""
    lines = [line.rstrip() for line in printed.splitlines()]
    if shown.endswith("\n...\n"):
        lines = [*lines[: len(shown.splitlines()) - 1], "..."]
    return "\n".join([*lines, ""])


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "captures").symlink_to(DOCS.parent / "captures")
        for page in [Path(name) for name in sys.argv[1:]] or pages():
            refresh(page, folder)


def refresh(page: Path, folder: Path) -> None:
    """Run the commands of a page in a folder."""

    def refreshed(found: re.Match[str]) -> str:
        command, shown = found.groups()
        if not shown:
            return found[0]
        done = subprocess.run(
            [sys.executable, "-m", "wiredecode", *words(command)], cwd=folder, capture_output=True, text=True
        )
        return f"$ wiredecode {command}\n{shortened(done.stderr if command.endswith(ERRORS) else done.stdout, shown)}"

    text = page.read_text()
    new = SAMPLE.sub(refreshed, text)
    if new != text:
        page.write_text(new)
        print(page)


if __name__ == "__main__":
    main()
