"""Refresh the output that pages show below commands: ``python docs/make_samples.py [PAGE...]``.

``--check BIN PAGE...`` runs the commands of pages, and their ``sh`` blocks, with the programs of a folder, as a user
who has installed only those. It changes nothing, and exits with 1 if a page shows something else.

A sample is a ``console`` block that begins with ``$ wiredecode`` and shows output. If its last line is ``...``, as many
lines as before are kept. A command that ends in ``2>&1 >/dev/null`` shows standard error.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parent
SAMPLE = re.compile(r"(?<=```console\n)\$ wiredecode (.+)\n((?!\$ )(?:.*\n)*?)(?=```)")
SHELL = re.compile(r"(?<=```sh\n)(?:.*\n)*?(?=```)")
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
        if sys.argv[1:2] == ["--check"]:
            programs, *names = sys.argv[2:]
            sys.exit("\n".join(wrong for name in names for wrong in differences(Path(name), folder, programs)) or 0)
        for page in [Path(name) for name in sys.argv[1:]] or pages():
            refresh(page, folder)


def refresh(page: Path, folder: Path) -> None:
    """Run the commands of a page in a folder."""

    def refreshed(found: re.Match[str]) -> str:
        command, shown = found.groups()
        if not shown:
            return found[0]
        return f"$ wiredecode {command}\n{printed([sys.executable, '-m', 'wiredecode'], command, shown, folder)}"

    text = page.read_text()
    new = SAMPLE.sub(refreshed, text)
    if new != text:
        page.write_text(new)
        print(page)


def printed(program: list[str], command: str, shown: str, folder: Path) -> str:
    """As much as the page shows of the output of a command in a folder."""
    done = subprocess.run([*program, *words(command)], cwd=folder, capture_output=True, text=True)
    return shortened(done.stderr if command.endswith(ERRORS) else done.stdout, shown)


def differences(page: Path, folder: Path, programs: str) -> Iterator[str]:
    """Commands that do something else with the programs of a folder."""
    program = str(Path(programs).resolve() / "wiredecode")
    for command, shown in samples(page):
        if printed([program], command, shown, folder) != shown:
            yield f"{page}: not as shown: wiredecode {command}"
    path = f"{Path(program).parent}:{os.environ['PATH']}"
    for block in SHELL.findall(page.read_text()):
        if subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env={**os.environ, "PATH": path}
        ).returncode:
            yield f"{page}: fails: {block}"


if __name__ == "__main__":
    main()
