"""Runs commands in a child process with a fault at a chosen moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from wiredecode.cli import main
from wiredecode.export import atomic

OUTPUTS: dict[str, tuple[str, str]] = {
    "ndjson": ("export FILE -o OUT.ndjson", "out.ndjson"),
    "json": ("export FILE -o OUT.json", "out.json"),
    "csv": ("export FILE --level messages -o OUT.csv", "out.csv"),
    "parquet": ("export FILE -o OUT.parquet", "out.parquet"),
    "folder": ("export FILE --level messages --format parquet --partition-by topic --overwrite -o OUT", "out"),
    "report": ("report FILE -o OUT.html", "out.html"),
    "packets": ("pcap FILE -w OUT.pcapng", "out.pcapng"),
    "anonymized": ("anonymize FILE -o OUT.pcapng --key FILE", "out.pcapng"),
    "totals": ("pcap FILE --summary --summary-json OUT.json", "out.json"),
}
"""Command lines and their outputs."""


@dataclass
class Ended:
    """The end of a command."""

    code: int
    errors: str


def in_a_child(words: list[str], prepare: Callable[[], object] = lambda: None) -> Ended:
    """Run a command as the process's own, in a child; ``prepare`` is called in it first."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 99
        try:
            os.close(reader)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(writer, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            for name in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(name, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.argv = ["wiredecode", *words]
            prepare()
            code = main()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        errors = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), errors)


def words_of(name: str, file: Path, folder: Path) -> list[str]:
    """The command of an output."""
    return [word.replace("FILE", str(file)).replace("OUT", str(folder / "out")) for word in OUTPUTS[name][0].split()]


def signal_at(number: int, place: int) -> Callable[[], None]:
    """Return a preparation: send the signal at call or return number ``place`` of the code that renames outputs."""

    def prepare() -> None:
        met = 0

        def look() -> None:
            nonlocal met
            met += 1
            if met == place:
                os.kill(os.getpid(), number)

        watch(look)

    return prepare


def signal_after(number: int, seconds: float) -> Callable[[], None]:
    """Return a preparation: send the signal after ``seconds`` of CPU time."""

    def prepare() -> None:
        signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), number))
        signal.setitimer(signal.ITIMER_PROF, seconds)

    return prepare


def places_in(words: list[str]) -> int:
    """Number of calls and returns of a command in the code that renames outputs."""
    found = os.pipe()
    assert in_a_child(words, lambda: watch(lambda: os.write(found[1], b"."))).code == 0
    os.close(found[1])
    with os.fdopen(found[0], "rb") as pipe:
        return len(pipe.read())


def watch(look: Callable[[], object]) -> None:
    """Have ``look`` called at each call and return in ``export/atomic.py``.

    The profile function is set only while functions of that module run, since it slows everything down.
    """

    def tell(frame: FrameType, event: str, argument: Any) -> None:
        if frame.f_code.co_filename == atomic.__file__:
            look()

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            before = sys.getprofile()
            sys.setprofile(tell)
            try:
                return function(*given, **named)
            finally:
                sys.setprofile(before)

        return call

    for place in (atomic.NewFile, atomic.NewFolder):
        for name in ("__init__", "commit", "discard"):
            setattr(place, name, watched(getattr(place, name)))
    atomic.discard_all = watched(atomic.discard_all)


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
