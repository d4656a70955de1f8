"""Versions of wiredecode from git, each compiled in a separate environment. Imports nothing large."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.tools import PYTHON, ROOT

BASELINE = Path(__file__).with_name("baseline")
"""The revision that ``.ci/run`` compares with. It moves to a faster one only."""
EXTRAS = ("zstd", "lz4", "snappy", "sql", "report")
"""Extras that the measured commands need, if the version has them."""
PACKAGES = ("site-packages", "dist-packages")
SHALLOW = "In a shallow clone, `git fetch --unshallow` gets all commits."


class Unavailable(Exception):
    """The version cannot be run; the text is for people."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of wiredecode, and the Python that runs it."""

    name: str
    python: Path

    @property
    def command(self) -> tuple[str, ...]:
        return (str(self.python), "-P", "-m", "wiredecode")  # -P: not the wiredecode of the current folder


def git(*words: str) -> str:
    """Return the output of git."""
    try:
        return quietly("git", "-C", str(ROOT), *words)
    except FileNotFoundError:
        raise Unavailable("git is not installed") from None


def baseline() -> str:
    return BASELINE.read_text().split()[0]


def current(folder: Path) -> Version:
    """The working tree, as it is."""
    return prepared("now", ROOT, folder / "wiredecode-now")


def committed(revision: str, folder: Path) -> Version:
    """A commit of this repository; its files stay in the folder."""
    try:
        commit = git("rev-parse", "--verify", f"{revision}^{{commit}}")
    except Unavailable as problem:
        raise Unavailable(f"no revision {revision} to compare with: {problem}. {SHALLOW}") from None
    place = folder / f"wiredecode-{commit}"
    tree = place / "tree"
    if not tree.exists():
        place.mkdir(parents=True, exist_ok=True)
        archive, part = place / "tree.zip", place / "part"
        git("archive", "--format=zip", f"--output={archive.absolute()}", commit, "wiredecode", "pyproject.toml")
        shutil.rmtree(part, ignore_errors=True)
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(part)
        archive.unlink()
        part.rename(tree)
    return prepared(commit[:8], tree, place)


def prepared(name: str, tree: Path, place: Path) -> Version:
    """Compile a source tree; give it an environment, with the packages of this one if they are what it requires."""
    environment = place / "environment"
    python = environment / "bin" / "python"
    needed = requirements(tomllib.loads((tree / "pyproject.toml").read_text())["project"])
    if satisfied(needed):
        quietly(PYTHON, "-m", "venv", "--clear", "--without-pip", str(environment))
        shared = [path for path in sys.path if Path(path).name in PACKAGES]
    else:
        print(f"{name}: installing what it requires", file=sys.stderr, flush=True)
        quietly(PYTHON, "-m", "venv", "--clear", str(environment))
        quietly(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *needed)
        shared = []
    (library,) = environment.glob("lib/python*/site-packages")
    (library / "version.pth").write_text("".join(f"{path}\n" for path in (tree.absolute(), *shared)))
    quietly(str(python), "-m", "compileall", "-q", str(tree / "wiredecode"))  # as installed programs are
    return Version(name, python.absolute())


def requirements(project: dict[str, dict[str, list[str]] | list[str]]) -> list[str]:
    """The dependencies in a ``pyproject.toml``, and those of `EXTRAS`."""
    found = list(project["dependencies"])
    extras = project.get("optional-dependencies")
    if isinstance(extras, dict):
        found += [each for name in EXTRAS for each in extras.get(name, ())]
    return found


def satisfied(needed: Sequence[str]) -> bool:
    """Whether the packages of this environment are those."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.requirements import Requirement

    try:
        return all(one.specifier.contains(version(one.name), prereleases=True) for one in map(Requirement, needed))
    except PackageNotFoundError:
        return False


def quietly(*command: str) -> str:
    """Run a command and return its output; raise `Unavailable` with its last line if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Unavailable(lines[-1] if lines else f"{command[0]} failed")
    return done.stdout.strip()
